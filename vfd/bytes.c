/* Files as bytes, without HDF5: see H5FDxhdf5_bytes_open in xhdf5.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "../cache/cache.h"
#include "../cache/open/mistaken.h"
#include "python.h"
#include "uncancelled.h"
#include "unsaid.h"
#include "xhdf5.h"

struct H5FDxhdf5_bytes {
    struct xh_file *file; /* constant; the cache is its own lock */
    struct xh_unsaid unsaid;
};

static int tell(const struct xh_err *err, H5FDxhdf5_why_t *why)
{
    if (why) {
        why->sys_errno = err->sys_errno ? err->sys_errno : EIO;
        snprintf(why->text, sizeof why->text, "%s", err->text);
    }
    return -1;
}

static int fail(H5FDxhdf5_why_t *why, int sys_errno, const char *text)
{
    struct xh_err err = {.sys_errno = sys_errno};
    snprintf(err.text, sizeof err.text, "%s", text);
    return tell(&err, why);
}

static void no_url(const char *name, H5FDxhdf5_why_t *why)
{
    char text[XH_NO_URL_BYTES];
    fail(why, EINVAL, name ? xh_mistaken_no_url(name, text) : "H5FDxhdf5_bytes_open: the name is NULL");
}

/* In memory of its own: a thread's stack may be small. NULL: failed, |err| is set. Owns: free(). */
static struct xh_options *options_new(const char *config, struct xh_err *err)
{
    struct xh_options *o = malloc(sizeof *o);
    if (!o) {
        xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
        return NULL;
    }
    xh_options_defaults(o);
    if (xh_options_from_env(o, err) == 0 &&
        (!config || xh_options_from_string(o, config, "the options given", err) == 0))
        return o;
    free(o);
    return NULL;
}

int H5FDxhdf5_bytes_expect(const char *name, const char *config, H5FDxhdf5_why_t *why)
{
    XH_UNCANCELLED;
    struct xh_err err = {0};
    if (!name)
        return fail(why, EINVAL, "H5FDxhdf5_bytes_expect: the name is NULL");
    if (!xh_cache_is_url(name))
        return 0;
    struct xh_options *o = options_new(config, &err);
    if (!o)
        return tell(&err, why);
    int rc = xh_cache_expect_now(name, o);
    free(o);
    return rc;
}

H5FDxhdf5_bytes_t *H5FDxhdf5_bytes_open(const char *name, const char *config, H5FDxhdf5_why_t *why)
{
    XH_UNCANCELLED;
    struct xh_err err = {0};
    if (!name || !xh_cache_is_url(name)) {
        no_url(name, why);
        return NULL;
    }
    xh_python_begin();
    H5FDxhdf5_bytes_t *b = calloc(1, sizeof *b);
    if (!b) {
        fail(why, ENOMEM, "out of memory");
        return NULL;
    }
    struct xh_options *o = options_new(config, &err);
    int rc = o ? xh_cache_open(name, o, &b->file, &err) : -1;
    free(o);
    if (rc == 0)
        return b;
    tell(&err, why);
    free(b);
    return NULL;
}

uint64_t H5FDxhdf5_bytes_size(const H5FDxhdf5_bytes_t *b)
{
    return xh_cache_size(b->file);
}

int H5FDxhdf5_bytes_read(H5FDxhdf5_bytes_t *b, size_t n, const uint64_t offs[], const size_t lens[], void *const bufs[],
                         H5FDxhdf5_why_t *why)
{
    XH_UNCANCELLED;
    struct xh_extent one = {0}, *ext = n <= 1 ? &one : malloc(n * sizeof *ext);
    struct xh_err err = {0};
    if (!ext)
        return fail(why, ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++)
        ext[i] = (struct xh_extent){.off = offs[i], .len = lens[i], .buf = bufs[i]};
    int rc = n ? xh_cache_read(b->file, xh_unsaid_kind(&b->unsaid, ext, n), ext, n, &err) : 0;
    if (ext != &one)
        free(ext);
    return rc ? tell(&err, why) : 0;
}

void H5FDxhdf5_bytes_close(H5FDxhdf5_bytes_t *b)
{
    XH_UNCANCELLED;
    if (!b)
        return;
    xh_cache_close(b->file);
    free(b);
}

void H5FDxhdf5_bytes_shown(const char *name, char *out, size_t size)
{
    xh_mistaken_shown(name, out, size);
}
