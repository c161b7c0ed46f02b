/* Opening by HDF5: see h5open.h. */
#include "h5open.h"

#include <stdio.h>
#include <string.h>

#include "../xhdf5.h"

/* Keeps the first entry that was pushed; it names the cause, in the driver's words if the driver failed. */
static herr_t keep_cause(unsigned n, const H5E_error2_t *e, void *out)
{
    snprintf(out, 600, "%s", e->desc ? e->desc : "");
    return 0;
}

int xh_h5_error(struct xh_err *err, int code, const char *what)
{
    char cause[600] = "";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_cause, cause);
    char *cut = strstr(cause, ", errno = ");
    if (cut)
        *cut = '\0';
    return xh_err_set(err, code, 0, "%s: %s", what, cause[0] ? cause : "HDF5 does not say why");
}

/* Returns a property list with the driver and all of |o|. */
static hid_t access_list(const struct xh_options *o)
{
    H5FD_xhdf5_config_t c = H5FD_XHDF5_CONFIG_INIT;
#define FIELD_BOOL(name) c.name = (int64_t)o->name;
#define FIELD_INT(name) c.name = (int64_t)o->name;
#define FIELD_SIZE(name) c.name = (int64_t)o->name;
#define FIELD_STR(name) c.name = o->name;
#define FIELD_WORD FIELD_STR
#define X(type, name, def, min, max, help) FIELD_##type(name)
#include "../../cache/base/options.def"
#undef X
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    if (fapl >= 0 && H5Pset_fapl_xhdf5(fapl, &c) >= 0)
        return fapl;
    xh_h5_close(fapl);
    return -1;
}

int xh_h5_open(const char *url, const struct xh_options *o, hid_t *out, struct xh_err *err)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t fapl = access_list(o);
    if (fapl < 0)
        return xh_h5_error(err, XH_E_INVAL, "the driver cannot be set up");
    hid_t file = H5Fopen(url, H5F_ACC_RDONLY, fapl);
    int rc = file < 0 ? xh_h5_error(err, XH_E_SYS, "the file cannot be opened") : 0;
    H5Pclose(fapl);
    if (rc == 0)
        *out = file;
    return rc;
}

int xh_h5_expect(const char *url, const struct xh_options *o)
{
    hid_t fapl = access_list(o);
    int will = fapl >= 0 && H5FDxhdf5_expect(url, fapl) > 0;
    xh_h5_close(fapl);
    return will;
}

void xh_h5_close(hid_t id)
{
    if (id >= 0)
        H5Idec_ref(id);
}

int xh_h5_indirect(hid_t type)
{
    int found = 0;
    switch (H5Tget_class(type)) {
    case H5T_VLEN: return 1;
    case H5T_STRING: return H5Tis_variable_str(type) > 0;
    case H5T_REFERENCE: return H5Tequal(type, H5T_STD_REF_OBJ) <= 0;
    case H5T_ARRAY:
    case H5T_COMPOUND: break;
    default: return 0;
    }
    int members = H5Tget_class(type) == H5T_ARRAY ? 1 : H5Tget_nmembers(type);
    for (int i = 0; i < members && !found; i++) {
        hid_t inner = H5Tget_class(type) == H5T_ARRAY ? H5Tget_super(type) : H5Tget_member_type(type, (unsigned)i);
        found = inner >= 0 && xh_h5_indirect(inner);
        xh_h5_close(inner);
    }
    return found;
}
