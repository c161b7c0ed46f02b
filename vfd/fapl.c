/* Property lists: the config struct of the C API, and options from all sources.
 *
 * The strongest source is what H5Pset_fapl_xhdf5 left on the property list, then the config
 * string (HDF5_DRIVER_CONFIG or a tool's --vfd-info), then XHDF5_* in the environment. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "h5err.h"
#include "xhdf5.h"

#define INFO_MAGIC 0x3546444878000001u

_Static_assert(XH_OPT_COUNT < 64, "xh_fapl_info.set has a bit an option");
/* Every option has its field, and nothing else is there. */
#define FIELD_BOOL sizeof(uint64_t)
#define FIELD_INT sizeof(uint64_t)
#define FIELD_SIZE sizeof(uint64_t)
#define FIELD_STR sizeof(const char *)
#define X(type, name, def, min, max, help) +FIELD_##type
_Static_assert(sizeof(void *) != 8 || sizeof(H5FD_xhdf5_config_t) == 8
#include "options.def"
    , "H5FD_xhdf5_config_t has the fields of options.def");
#undef X

static const char where[] = "H5FD_xhdf5_config_t";

/* Has the caller's struct, maybe an older and shorter one, this field? */
#define HAS(c, name) \
    (offsetof(H5FD_xhdf5_config_t, name) + sizeof(c)->name <= (c)->struct_bytes)

static int take_number(struct xh_fapl_info *info, enum xh_opt_id id, uint64_t v, struct xh_err *err)
{
    if (v == H5FD_XHDF5_UNSET)
        return 0;
    info->set |= 1ull << id;
    return xh_options_set_number(&info->values, id, v, where, err);
}

static int take_string(struct xh_fapl_info *info, enum xh_opt_id id, const char *v, struct xh_err *err)
{
    if (!v)
        return 0;
    info->set |= 1ull << id;
    return xh_options_set(&info->values, xh_opt_rows[id].name, v, where, err);
}

#define TAKE_BOOL take_number
#define TAKE_INT take_number
#define TAKE_SIZE take_number
#define TAKE_STR take_string

static int info_from_config(const H5FD_xhdf5_config_t *c, struct xh_fapl_info *info, struct xh_err *err)
{
    memset(info, 0, sizeof *info);
    info->magic = INFO_MAGIC;
    xh_options_defaults(&info->values);
    if (!c)
        return 0;
    if (c->version != H5FD_XHDF5_CONFIG_VERSION || c->struct_bytes < 8)
        return xh_err_set(err, XH_E_INVAL, 0,
                          "H5FD_xhdf5_config_t: version %u and struct_bytes %u came, want version %u; begin with "
                          "H5FD_XHDF5_CONFIG_INIT",
                          c->version, c->struct_bytes, H5FD_XHDF5_CONFIG_VERSION);
    int rc = 0;
#define X(type, name, def, min, max, help)    \
    if (!rc && HAS(c, name))                  \
        rc = TAKE_##type(info, XH_OPT_ID_##name, c->name, err);
#include "options.def"
#undef X
    return rc;
}

static hid_t driver_id(struct xh_h5 *h5)
{
    if (h5->driver <= 0 || h5->H5Iis_valid(h5->driver) <= 0)
        h5->driver = h5->H5FDregister(&xh_vfd_class);
    return h5->driver;
}

herr_t H5Pset_fapl_xhdf5(hid_t fapl_id, const H5FD_xhdf5_config_t *config)
{
    struct xh_fapl_info *info = malloc(sizeof *info);
    struct xh_err err = {0};
    struct xh_h5 *h5 = xh_h5_of_caller(__builtin_return_address(0));
    herr_t rc = -1;
    if (!h5 || !info)
        goto out;
    if (info_from_config(config, info, &err)) {
        xh_h5err_push_text(h5, err.text, __func__, __LINE__);
        goto out;
    }
    hid_t id = driver_id(h5);
    if (id > 0)
        rc = h5->H5Pset_driver(fapl_id, id, info);
out:
    free(info);
    return rc;
}

/* What the C API left on |fapl|, or NULL. */
static const struct xh_fapl_info *info_of(struct xh_h5 *h5, hid_t fapl)
{
    /* No info at all is an error to HDF5, which would print it. */
    H5E_auto2_t print = NULL;
    void *data = NULL;
    h5->H5Eget_auto2(0, &print, &data);
    h5->H5Eset_auto2(0, NULL, NULL);
    const struct xh_fapl_info *info = h5->H5Pget_driver_info(fapl);
    h5->H5Eset_auto2(0, print, data);
    return info && info->magic == INFO_MAGIC ? info : NULL;
}

#define GIVE_BOOL(info, name) (info)->values.name
#define GIVE_INT(info, name) (info)->values.name
#define GIVE_SIZE(info, name) (info)->values.name
#define GIVE_STR(info, name) (info)->values.name

herr_t H5Pget_fapl_xhdf5(hid_t fapl_id, H5FD_xhdf5_config_t *out)
{
    static const H5FD_xhdf5_config_t unset = H5FD_XHDF5_CONFIG_INIT;
    struct xh_h5 *h5 = xh_h5_of_caller(__builtin_return_address(0));
    if (!h5 || !out)
        return -1;
    if (out->version != H5FD_XHDF5_CONFIG_VERSION || out->struct_bytes < 8) {
        xh_h5err_push_text(h5, "H5Pget_fapl_xhdf5: begin with H5FD_XHDF5_CONFIG_INIT", __func__, __LINE__);
        return -1;
    }
    if (h5->driver <= 0 || h5->H5Pget_driver(fapl_id) != h5->driver) {
        xh_h5err_push_text(h5, "H5Pget_fapl_xhdf5: the property list was not set by H5Pset_fapl_xhdf5", __func__,
                           __LINE__);
        return -1;
    }
    const struct xh_fapl_info *info = info_of(h5, fapl_id);
#define X(type, name, def, min, max, help) \
    if (HAS(out, name))                    \
        out->name = info && info->set >> XH_OPT_ID_##name & 1 ? GIVE_##type(info, name) : unset.name;
#include "options.def"
#undef X
    return 0;
}

/* Copies the options of |info| that were set over |o|. */
static void overlay(struct xh_options *o, const struct xh_fapl_info *info)
{
    for (unsigned i = 0; i < XH_OPT_COUNT; i++) {
        const struct xh_opt_row *row = &xh_opt_rows[i];
        size_t bytes = row->type == XH_OPT_STR ? XH_OPT_STR_BYTES : sizeof(uint64_t);
        if (info->set >> i & 1)
            memcpy((char *)o + row->offset, (const char *)&info->values + row->offset, bytes);
    }
}

static int from_all_sources(struct xh_h5 *h5, hid_t fapl, struct xh_options *o, struct xh_err *err)
{
    char config[8192] = "";
    int rc = xh_options_from_env(o, err);
    ssize_t n = rc ? 0 : h5->H5Pget_driver_config_str(fapl, config, sizeof config);
    if (n >= (ssize_t)sizeof config)
        rc = xh_err_set(err, XH_E_INVAL, 0, "the driver's config string is %zd bytes long, want at most %zu", n,
                        sizeof config - 1);
    if (rc == 0 && n > 0)
        rc = xh_options_from_string(o, config, "HDF5_DRIVER_CONFIG", err);
    const struct xh_fapl_info *info = rc ? NULL : info_of(h5, fapl);
    if (info)
        overlay(o, info);
    return rc;
}

struct xh_fapl_info *xh_fapl_info_make(struct xh_h5 *h5, hid_t fapl, struct xh_err *err)
{
    struct xh_fapl_info *info = calloc(1, sizeof *info);
    if (!info) {
        xh_err_set(err, XH_E_NOMEM, 0, "out of memory while reading the options");
        return NULL;
    }
    info->magic = INFO_MAGIC;
    info->set = (1ull << XH_OPT_COUNT) - 1;
    xh_options_defaults(&info->values);
    if (from_all_sources(h5, fapl, &info->values, err)) {
        free(info);
        return NULL;
    }
    return info;
}
