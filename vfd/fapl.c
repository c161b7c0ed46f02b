/* The settings of a property list, and the options that follow from them: see fapl.h. */
#include "fapl.h"

#include <stdlib.h>
#include <string.h>

#include "copies.h"
#include "elink.h"
#include "h5err.h"

/* When a list has no block, HDF5 prints an error and leaves it on the stack. So errors are silenced and cleared. */
const struct xh_fapl_info *xh_fapl_peek(struct xh_h5 *h5, hid_t fapl)
{
    struct xh_h5err_quiet quiet;
    xh_h5err_quiet(h5, &quiet);
    const struct xh_fapl_info *info = h5->H5Pget_driver_info(fapl);
    xh_h5err_aloud(h5, &quiet);
    return info && info->magic == XH_FAPL_MAGIC ? info : NULL;
}

const struct xh_fapl_info xh_fapl_no_memory = {.magic = XH_FAPL_MAGIC};

_Static_assert(2 * sizeof(struct xh_fapl_info) <= XH_COPIES_BLOCK_BYTES, "a later version's may be longer");

void *xh_fapl_copy(const void *info)
{
    xh_copies_came(info);
    struct xh_fapl_info *copy = info == &xh_fapl_no_memory ? NULL : malloc(sizeof *copy);
    return copy ? memcpy(copy, info, sizeof *copy) : NULL;
}

void *xh_fapl_give(const struct xh_fapl_info *info)
{
    void *copy = xh_fapl_copy(info);
    return copy ? copy : (void *)(uintptr_t)&xh_fapl_no_memory;
}

herr_t xh_fapl_free(void *info)
{
    if (info != &xh_fapl_no_memory)
        free(info);
    return 0;
}

struct xh_fapl_info *xh_fapl_info_of(struct xh_h5 *h5, hid_t fapl)
{
    const struct xh_fapl_info *info = xh_fapl_peek(h5, fapl);
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

/* Copies option |i| from |from| to |to|. */
static void copy_value(struct xh_options *to, const struct xh_options *from, size_t i)
{
    const struct xh_opt_row *row = &xh_opt_rows[i];
    size_t size = row->type == XH_OPT_STR ? XH_OPT_STR_BYTES : sizeof(uint64_t);
    memcpy((char *)to + row->offset, (const char *)from + row->offset, size);
}

/* Reads the list's configuration string, however long it is, and sets |*text|; NULL: it has none. Returns 0, or -1: out
 * of memory. Owns: free(). */
static int config_of_list(struct xh_h5 *h5, hid_t fapl, char **text)
{
    *text = NULL;
    ssize_t n = h5->H5Pget_driver_config_str(fapl, NULL, 0);
    if (n <= 0)
        return 0;
    if (!(*text = calloc(1, (size_t)n + 1)))
        return -1;
    if (h5->H5Pget_driver_config_str(fapl, *text, (size_t)n + 1) != n)
        **text = '\0';
    return 0;
}

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
    char *text;
    if (config_of_list(h5, fapl, &text))
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
    int rc = xh_options_from_string(o, text, where, err);
    free(text);
    return rc;
}

int xh_fapl_mentions(struct xh_h5 *h5, hid_t fapl, const struct xh_fapl_info *info, enum xh_opt_id id)
{
    const char *name = xh_opt_rows[id].name;
    char *text = NULL;
    /* A string that did not fit can still be read when the list is the program's own. */
    int lost = info->config_lost && !info->namer.by_file && config_of_list(h5, fapl, &text);
    int mentions = lost || xh_options_env_has(name) || info->set[id] || xh_options_names(info->config, name) ||
                   xh_options_names(text, name);
    free(text);
    return mentions;
}

int xh_fapl_has_pages(struct xh_h5 *h5, hid_t fapl)
{
    size_t bytes = 0;
    unsigned unused;
    return h5->H5Pget_page_buffer_size(fapl, &bytes, &unused, &unused) < 0 || bytes > 0;
}

int xh_fapl_options(struct xh_h5 *h5, hid_t fapl, struct xh_options *o, struct xh_err *err)
{
    const struct xh_fapl_info *info = xh_fapl_peek(h5, fapl);
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

struct xh_options *xh_fapl_options_new(struct xh_h5 *h5, hid_t fapl, struct xh_err *err)
{
    struct xh_options *o = malloc(sizeof *o);
    if (!o)
        xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
    if (!o || xh_fapl_options(h5, fapl, o, err) == 0)
        return o;
    free(o);
    return NULL;
}
