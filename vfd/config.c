/* H5Pset_fapl_xhdf5 and related functions: see xhdf5.h and config.h. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "copies.h"
#include "driver.h"
#include "elink.h"
#include "fapl.h"
#include "h5err.h"

/* H5FD_xhdf5_config_t has exactly one field for each option. A new row in options.def does not compile until the struct
 * has its field. */
#define FIELD_BOOL int64_t
#define FIELD_INT int64_t
#define FIELD_SIZE int64_t
#define FIELD_STR const char *
#define FIELD_WORD FIELD_STR
#define X(type, name, def, min, max, help)                                                                  \
    _Static_assert(__builtin_types_compatible_p(FIELD_##type, __typeof__(((H5FD_xhdf5_config_t *)0)->name)), \
                   "H5FD_xhdf5_config_t." #name);
#include "../cache/base/options.def"
#undef X
#define X(type, name, def, min, max, help) +sizeof(FIELD_##type)
_Static_assert(sizeof(H5FD_xhdf5_config_t) == 2 * sizeof(uint32_t)
#include "../cache/base/options.def"
               , "H5FD_xhdf5_config_t has a field that is no option");
#undef X

/* Where each option's field begins and ends. A field that a shorter struct does not hold is not set. */
static const struct {
    size_t offset, end;
} fields[XH_OPT_COUNT] = {
#define X(type, name, def, min, max, help)       \
    {offsetof(H5FD_xhdf5_config_t, name),        \
     offsetof(H5FD_xhdf5_config_t, name) + sizeof(FIELD_##type)},
#include "../cache/base/options.def"
#undef X
};

#define OLDEST_SIZE sizeof(H5FD_xhdf5_config_t) /* of version 1; never changes once there is a version 2 */

/* ---- the C struct ---- */

static int check_header(struct xh_h5 *h5, const H5FD_xhdf5_config_t *c)
{
    if (c->version != H5FD_XHDF5_CONFIG_VERSION)
        return xh_fail_api(h5, XH_E_INVAL,
                       "H5FD_xhdf5_config_t.version is %u, this library knows %u: initialise the struct with "
                       "H5FD_XHDF5_CONFIG_INIT",
                       c->version, H5FD_XHDF5_CONFIG_VERSION);
    if (c->struct_size < OLDEST_SIZE || c->struct_size > sizeof *c)
        return xh_fail_api(h5, XH_E_INVAL,
                       "H5FD_xhdf5_config_t.struct_size is %u, this library knows %zu to %zu: initialise the "
                       "struct with H5FD_XHDF5_CONFIG_INIT",
                       c->struct_size, OLDEST_SIZE, sizeof *c);
    return 0;
}

/* Copies one field into |info|, if it is set. */
static int take_field(struct xh_fapl_info *info, size_t i, const H5FD_xhdf5_config_t *c, struct xh_err *err)
{
    const char *at = (const char *)c + fields[i].offset;
    char where[] = "H5FD_xhdf5_config_t";
    if (fields[i].end > c->struct_size)
        return 0;
    if (xh_opt_rows[i].type == XH_OPT_STR) {
        const char *text;
        memcpy(&text, at, sizeof text);
        info->set[i] = text != NULL;
        return text ? xh_options_set(&info->value, xh_opt_rows[i].name, text, where, err) : 0;
    }
    int64_t number;
    memcpy(&number, at, sizeof number);
    info->set[i] = number != H5FD_XHDF5_UNSET;
    /* Any other negative number becomes a huge one, which is out of every option's bounds. */
    return info->set[i] ? xh_options_set_number(&info->value, (enum xh_opt_id)i, (uint64_t)number, where, err)
                        : 0;
}

/* ---- the driver's ID ---- */

/* The ID of our class in |h5|; registers the class if necessary. Returns -1 when that fails; HDF5 has pushed the
 * reason. */
static hid_t driver_id(struct xh_h5 *h5)
{
    hid_t id = atomic_load_explicit(&h5->driver, memory_order_acquire), none = 0;
    int ours = 1;
    if (id > 0)
        return id;
    if (xh_copies_is_loaded(h5)) {
        id = xh_copies_loaded_id(h5, &ours);
        if (ours <= 0)
            return ours == 0 ? xh_copies_refuse(h5) : -1;
    } else {
        xh_elink_watch(h5);
        id = h5->H5FDregister(&xh_driver_class);
    }
    if (id <= 0)
        return -1; /* HDF5 has pushed the reason */
    if (!atomic_compare_exchange_strong_explicit(&h5->driver, &none, id, memory_order_acq_rel,
                                                 memory_order_acquire))
        id = none; /* another thread was first; the class that we registered stays unused */
    return id;
}

hid_t H5FD_xhdf5_init(void)
{
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    return h5 ? driver_id(h5) : -1;
}

/* ---- property lists ---- */

/* Keeps the configuration string that the list has for this driver, from HDF5 or from an earlier block of ours.
 * H5Pset_driver would drop it. */
static int keep_config(struct xh_h5 *h5, hid_t fapl, hid_t driver, struct xh_fapl_info *info)
{
    hid_t now = h5->H5Pget_driver(fapl);
    if (now != driver)
        return now < 0 ? -1 : 0;
    const struct xh_fapl_info *old = xh_fapl_peek(h5, fapl);
    if (old) {
        memcpy(info->config, old->config, sizeof info->config);
        return 0;
    }
    ssize_t n = h5->H5Pget_driver_config_str(fapl, info->config, sizeof info->config);
    if (n >= (ssize_t)sizeof info->config)
        return xh_fail_api(h5, XH_E_INVAL, "the driver configuration string has %zd bytes; at most %zu are read", n,
                       sizeof info->config - 1);
    return 0;
}

herr_t xh_config_set(struct xh_h5 *h5, hid_t fapl, const H5FD_xhdf5_config_t *config)
{
    struct xh_err err = {0};
    herr_t rc = -1;
    hid_t driver = driver_id(h5);
    struct xh_fapl_info *info = calloc(1, sizeof *info);
    if (driver < 0 || (config && check_header(h5, config)))
        goto err;
    if (!info) {
        xh_fail_api(h5, XH_E_NOMEM, "out of memory");
        goto err;
    }
    info->magic = XH_FAPL_MAGIC;
    for (size_t i = 0; config && i < XH_OPT_COUNT; i++)
        if (take_field(info, i, config, &err)) {
            xh_fail_api(h5, err.code, "%s", err.text);
            goto err;
        }
    if (keep_config(h5, fapl, driver, info))
        goto err;
    rc = h5->H5Pset_driver(fapl, driver, info); /* it copies |info|, and pushes its own errors */
err:
    free(info);
    return rc < 0 ? -1 : 0;
}

herr_t H5Pset_fapl_xhdf5(hid_t fapl_id, const H5FD_xhdf5_config_t *config)
{
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    return h5 ? xh_config_set(h5, fapl_id, config) : -1;
}

/* Copies option |i| of |info| into its field; if |info| is NULL, marks the field as not set. */
static void give_field(const struct xh_fapl_info *info, size_t i, H5FD_xhdf5_config_t *c)
{
    const struct xh_opt_row *row = &xh_opt_rows[i];
    char *at = (char *)c + fields[i].offset;
    const char *value = info && info->set[i] ? (const char *)&info->value + row->offset : NULL;
    if (fields[i].end > c->struct_size)
        return;
    if (row->type == XH_OPT_STR) {
        memcpy(at, &value, sizeof value);
    } else {
        int64_t number = H5FD_XHDF5_UNSET;
        if (value)
            memcpy(&number, value, sizeof number);
        memcpy(at, &number, sizeof number);
    }
}

herr_t H5Pget_fapl_xhdf5(hid_t fapl_id, H5FD_xhdf5_config_t *config)
{
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    if (!h5)
        return -1;
    if (!config)
        return xh_fail_api(h5, XH_E_INVAL, "no H5FD_xhdf5_config_t was given");
    if (check_header(h5, config))
        return -1;
    hid_t driver = driver_id(h5);
    if (driver < 0)
        return -1;
    hid_t now = h5->H5Pget_driver(fapl_id);
    if (now < 0)
        return -1;
    if (now != driver)
        return xh_fail_api(h5, XH_E_INVAL, "the property list uses another driver than " XH_DRIVER_NAME);
    const struct xh_fapl_info *info = xh_fapl_peek(h5, fapl_id);
    for (size_t i = 0; i < XH_OPT_COUNT; i++)
        give_field(info, i, config);
    return 0;
}
