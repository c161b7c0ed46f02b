/* Files at URLs: see remote.h. All that it knows of the network is cache.h. */
#include "remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../cache/cache.h"
#include "../cache/trace.h"
#include "fapl.h"
#include "h5err.h"

#define EXTENTS_ON_STACK 16

struct xh_remote { /* constant while open */
    struct xh_h5 *h5;
    struct xh_file *file;
    uint64_t size;
    char shown[512]; /* the URL as it may be shown */
};

int xh_remote_is_url(const char *name)
{
    return xh_cache_is_url(name);
}

int xh_remote_refuse(struct xh_h5 *h5, const char *url, const char *what)
{
    char shown[512];
    return xh_fail(h5, XH_E_READONLY, "cannot %s: URLs are read-only, open %s for reading only (h5py: mode 'r')"
                   ", errno = %d, error message = '%s'",
                   what, xh_url_shown(url, shown, sizeof shown), EROFS, strerror(EROFS));
}

int xh_remote_refuse_open(struct xh_remote *r, const char *what)
{
    return xh_remote_refuse(r->h5, r->shown, what);
}

int xh_remote_refuse_flags(struct xh_h5 *h5, const char *url, unsigned flags)
{
    if (flags & (XH_ACC_CREAT | XH_ACC_TRUNC | XH_ACC_EXCL))
        return xh_remote_refuse(h5, url, "create or overwrite a file at a URL");
    if (flags & (XH_ACC_RDWR | XH_ACC_SWMR_WRITE))
        return xh_remote_refuse(h5, url, "open a URL for writing");
    if (flags & XH_ACC_SWMR_READ) {
        char shown[512];
        return xh_fail(h5, XH_E_READONLY,
                       "cannot follow a writer over https (SWMR): open %s without SWMR, errno = %d, "
                       "error message = '%s'",
                       xh_url_shown(url, shown, sizeof shown), EOPNOTSUPP, strerror(EOPNOTSUPP));
    }
    return 0;
}

int xh_remote_open(struct xh_h5 *h5, const char *url, hid_t fapl, const struct xh_told *told, struct xh_remote **out,
                   struct xh_err *err)
{
    struct xh_options o;
    struct xh_remote *r = calloc(1, sizeof *r);
    if (!r)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
    int rc = xh_fapl_options(h5, fapl, &o, err);
    if (rc == 0)
        rc = told ? xh_cache_open_told(url, &o, told, &r->file, err) : xh_cache_open(url, &o, &r->file, err);
    if (rc) {
        free(r);
        return rc;
    }
    r->h5 = h5;
    r->size = xh_cache_size(r->file);
    xh_url_shown(url, r->shown, sizeof r->shown);
    xh_trace(XH_T_VFD, "open", "url=%s size=%llu", r->shown, (unsigned long long)r->size);
    *out = r;
    return 0;
}

int xh_remote_tell(struct xh_remote *r, void **told, size_t *len, struct xh_err *err)
{
    return xh_cache_tell(r->file, told, len, err);
}

void xh_remote_close(struct xh_remote *r)
{
    xh_trace(XH_T_VFD, "close", "url=%s", r->shown);
    xh_cache_close(r->file);
    free(r);
}

int xh_remote_cmp(const struct xh_remote *a, const struct xh_remote *b)
{
    return xh_cache_cmp(a->file, b->file);
}

uint64_t xh_remote_size(const struct xh_remote *r)
{
    return r->size;
}

/* Fills |ext| with the parts of the pieces that the file has and zeroes the rest. Returns their number. */
static size_t inside(const struct xh_remote *r, const struct xh_piece *p, size_t n, struct xh_extent *ext)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t there = p[i].addr < r->size ? r->size - p[i].addr : 0;
        uint64_t len = p[i].size < there ? p[i].size : there;
        if (len < p[i].size)
            memset((char *)p[i].buf + len, 0, p[i].size - (size_t)len);
        if (len > 0)
            ext[k++] = (struct xh_extent){.off = p[i].addr, .len = len, .buf = p[i].buf};
    }
    return k;
}

int xh_remote_readv(struct xh_remote *r, int raw, const struct xh_piece *p, size_t n)
{
    struct xh_extent few[EXTENTS_ON_STACK];
    struct xh_extent *ext = n <= EXTENTS_ON_STACK ? few : malloc(n * sizeof *ext);
    struct xh_err err = {0};
    if (!ext)
        return xh_fail(r->h5, XH_E_NOMEM, "out of memory for a read of %zu pieces of %s", n, r->shown);
    size_t k = inside(r, p, n, ext);
    xh_trace(XH_T_VFD, "read", "kind=%s pieces=%zu first=%llu+%zu", raw ? "raw" : "meta", n,
             n ? (unsigned long long)p[0].addr : 0, n ? p[0].size : 0);
    int rc = k ? xh_cache_read(r->file, raw ? XH_KIND_RAW : XH_KIND_META, ext, k, &err) : 0;
    if (ext != few)
        free(ext);
    return rc ? xh_fail_cache(r->h5, &err) : 0;
}

void xh_remote_stats(struct xh_remote *r, struct xh_stats *out)
{
    xh_cache_stats(r->file, out);
}

size_t xh_remote_prefetch(struct xh_remote *r, const struct xh_range *ranges, size_t n)
{
    struct xh_range *in = malloc((n ? n : 1) * sizeof *in);
    size_t k = 0;
    for (size_t i = 0; in && i < n; i++) {
        uint64_t there = ranges[i].off < r->size ? r->size - ranges[i].off : 0;
        uint64_t len = ranges[i].len < there ? ranges[i].len : there;
        if (len > 0)
            in[k++] = (struct xh_range){ranges[i].off, len};
    }
    size_t taken = k ? xh_cache_prefetch(r->file, XH_KIND_RAW, in, k) : 0;
    xh_trace(XH_T_VFD, "prefetch", "ranges=%zu inside=%zu taken=%zu", n, k, taken);
    free(in);
    return taken;
}
