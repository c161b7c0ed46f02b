/* H5Pset_fapl_xhdf5 and its kin: see xhdf5.h and fapl.h. */
#include "fapl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "elink.h"
#include "h5err.h"
#include "xhdf5.h"

/* A field of H5FD_xhdf5_config_t for every option and none besides: a new row in
 * options.def does not compile until it has its field. */
#define FIELD_BOOL int64_t
#define FIELD_INT int64_t
#define FIELD_SIZE int64_t
#define FIELD_STR const char *
#define X(type, name, def, min, max, help)                                                                  \
    _Static_assert(__builtin_types_compatible_p(FIELD_##type, __typeof__(((H5FD_xhdf5_config_t *)0)->name)), \
                   "H5FD_xhdf5_config_t." #name);
#include "../cache/options.def"
#undef X
#define X(type, name, def, min, max, help) +sizeof(FIELD_##type)
_Static_assert(sizeof(H5FD_xhdf5_config_t) == 2 * sizeof(uint32_t)
#include "../cache/options.def"
               , "H5FD_xhdf5_config_t has a field that is no option");
#undef X

/* Where each option's field is, and where it ends: what a shorter struct does not hold is unset. */
static const struct {
    size_t offset, end;
} fields[XH_OPT_COUNT] = {
#define X(type, name, def, min, max, help)       \
    {offsetof(H5FD_xhdf5_config_t, name),        \
     offsetof(H5FD_xhdf5_config_t, name) + sizeof(FIELD_##type)},
#include "../cache/options.def"
#undef X
};

#define OLDEST_SIZE sizeof(H5FD_xhdf5_config_t) /* of version 1; never changes once a version 2 is out */

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

/* Takes one field into |info|, if it is set. */
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
    /* Any other negative number becomes a huge one, which no option's bounds admit. */
    return info->set[i] ? xh_options_set_number(&info->value, (enum xh_opt_id)i, (uint64_t)number, where, err)
                        : 0;
}

/* Copies option |i| from |from| to |to|. */
static void copy_value(struct xh_options *to, const struct xh_options *from, size_t i)
{
    const struct xh_opt_row *row = &xh_opt_rows[i];
    size_t size = row->type == XH_OPT_STR ? XH_OPT_STR_BYTES : sizeof(uint64_t);
    memcpy((char *)to + row->offset, (const char *)from + row->offset, size);
}

/* ---- the driver's ID ---- */

/* The ID of our class in |h5|, registered when it is not. A negative one: HDF5 has said why. */
static hid_t driver_id(struct xh_h5 *h5)
{
    hid_t id = atomic_load_explicit(&h5->driver, memory_order_acquire), none = 0;
    if (id > 0)
        return id;
    if (h5->H5FDis_driver_registered_by_name(XH_DRIVER_NAME) > 0 && h5->default_fapl) {
        /* Loaded as a plugin: only a property list can tell its ID. */
        hid_t copy = h5->H5Pcopy(*h5->default_fapl);
        if (copy >= 0 && h5->H5Pset_driver_by_name(copy, XH_DRIVER_NAME, NULL) >= 0)
            id = h5->H5Pget_driver(copy);
        if (copy >= 0)
            h5->H5Pclose(copy);
    } else {
        xh_elink_watch(h5);
        id = h5->H5FDregister(&xh_driver_class);
    }
    if (id <= 0)
        return -1; /* and HDF5 has said why */
    if (!atomic_compare_exchange_strong_explicit(&h5->driver, &none, id, memory_order_acq_rel,
                                                 memory_order_acquire))
        id = none; /* another thread was first; what we registered stays unused */
    return id;
}

hid_t H5FD_xhdf5_init(void)
{
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    return h5 ? driver_id(h5) : -1;
}

/* ---- property lists ---- */

/* The list's own block, or NULL. HDF5 calls it an error, prints it and leaves it on the
 * stack when there is none: silenced and cleared. */
static const struct xh_fapl_info *peek_info(struct xh_h5 *h5, hid_t fapl)
{
    struct xh_h5err_quiet quiet;
    xh_h5err_quiet(h5, &quiet);
    const struct xh_fapl_info *info = h5->H5Pget_driver_info(fapl);
    xh_h5err_aloud(h5, &quiet);
    return info && info->magic == XH_FAPL_MAGIC ? info : NULL;
}

/* Keeps the configuration string that the list has for this driver, from HDF5 or from an
 * earlier block of ours: H5Pset_driver drops it. */
static int keep_config(struct xh_h5 *h5, hid_t fapl, hid_t driver, struct xh_fapl_info *info)
{
    hid_t now = h5->H5Pget_driver(fapl);
    if (now != driver)
        return now < 0 ? -1 : 0;
    const struct xh_fapl_info *old = peek_info(h5, fapl);
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

herr_t xh_fapl_set(struct xh_h5 *h5, hid_t fapl, const H5FD_xhdf5_config_t *config)
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
    rc = h5->H5Pset_driver(fapl, driver, info); /* it copies, and says itself what is wrong */
err:
    free(info);
    return rc < 0 ? -1 : 0;
}

herr_t H5Pset_fapl_xhdf5(hid_t fapl_id, const H5FD_xhdf5_config_t *config)
{
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    return h5 ? xh_fapl_set(h5, fapl_id, config) : -1;
}

/* Puts option |i| of |info| (NULL: unset) into its field. */
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

static herr_t get_fapl(struct xh_h5 *h5, hid_t fapl, H5FD_xhdf5_config_t *config)
{
    if (!config)
        return xh_fail_api(h5, XH_E_INVAL, "no H5FD_xhdf5_config_t was given");
    if (check_header(h5, config))
        return -1;
    hid_t driver = driver_id(h5);
    if (driver < 0)
        return -1;
    hid_t now = h5->H5Pget_driver(fapl);
    if (now < 0)
        return -1;
    if (now != driver)
        return xh_fail_api(h5, XH_E_INVAL, "the property list uses another driver than " XH_DRIVER_NAME);
    const struct xh_fapl_info *info = peek_info(h5, fapl);
    for (size_t i = 0; i < XH_OPT_COUNT; i++)
        give_field(info, i, config);
    return 0;
}

herr_t H5Pget_fapl_xhdf5(hid_t fapl_id, H5FD_xhdf5_config_t *config)
{
    struct xh_h5 *h5 = xh_h5err_enter(__builtin_return_address(0));
    return h5 ? get_fapl(h5, fapl_id, config) : -1;
}

const struct xh_fapl_info xh_fapl_no_memory = {.magic = XH_FAPL_MAGIC};

void *xh_fapl_copy(const void *info)
{
    struct xh_fapl_info *copy = info == &xh_fapl_no_memory ? NULL : malloc(sizeof *copy);
    return copy ? memcpy(copy, info, sizeof *copy) : NULL;
}

herr_t xh_fapl_free(void *info)
{
    if (info != &xh_fapl_no_memory)
        free(info);
    return 0;
}

struct xh_fapl_info *xh_fapl_info_of(struct xh_h5 *h5, hid_t fapl)
{
    const struct xh_fapl_info *info = peek_info(h5, fapl);
    if (info)
        return xh_fapl_copy(info);
    struct xh_fapl_info *fresh = calloc(1, sizeof *fresh);
    if (!fresh)
        return NULL;
    fresh->magic = XH_FAPL_MAGIC;
    ssize_t n = h5->H5Pget_driver_config_str(fapl, fresh->config, sizeof fresh->config);
    if (n < 0 || n >= (ssize_t)sizeof fresh->config) {
        memset(fresh->config, 0, sizeof fresh->config);
        fresh->config_lost = n > 0;
    }
    return fresh;
}

/* ---- the options that follow ---- */

static int apply_config_string(struct xh_h5 *h5, hid_t fapl, const struct xh_fapl_info *info,
                               struct xh_options *o, struct xh_err *err)
{
    static const char where[] = "driver configuration, HDF5_DRIVER_CONFIG or --vfd-info";
    if (info && info->config_lost)
        return xh_err_set(err, XH_E_INVAL, 0,
                          "the driver configuration string of the file %.200s is too long to be handed on to the files "
                          "that it names: at most %zu bytes", info->namer.parent, sizeof info->config - 1);
    if (info)
        return xh_options_from_string(o, info->config, where, err);
    ssize_t n = h5->H5Pget_driver_config_str(fapl, NULL, 0);
    if (n <= 0)
        return 0;
    char *text = calloc(1, (size_t)n + 1);
    if (!text)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
    int rc = 0;
    if (h5->H5Pget_driver_config_str(fapl, text, (size_t)n + 1) == n)
        rc = xh_options_from_string(o, text, where, err);
    free(text);
    return rc;
}

int xh_fapl_mentions(const struct xh_fapl_info *info, enum xh_opt_id id)
{
    const char *name = xh_opt_rows[id].name;
    /* A lost string is still there to be read when the program's own list has it. */
    return xh_options_env_has(name) || info->set[id] || strcasestr(info->config, name) ||
           (info->config_lost && !info->namer.by_file);
}

int xh_fapl_options(struct xh_h5 *h5, hid_t fapl, struct xh_options *o, struct xh_err *err)
{
    const struct xh_fapl_info *info = peek_info(h5, fapl);
    xh_options_defaults(o);
    int rc = xh_options_from_env(o, err);
    if (rc == 0)
        rc = apply_config_string(h5, fapl, info, o, err);
    for (size_t i = 0; rc == 0 && info && i < XH_OPT_COUNT; i++)
        if (info->set[i])
            copy_value(o, &info->value, i);
    if (info)
        o->namer = info->namer;
    if (!o->namer.by_file)
        xh_elink_namer(h5, &o->namer);
    return rc;
}
