/* URLs: HDF5's calls in the cache's words. Knows nothing of HTTP, pages or shadows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "driver.h"
#include "h5err.h"

static struct xh_file *refuse(struct xh_h5 *h5, const char *shown, struct xh_err *err)
{
    xh_h5err_push(h5, "unable to open file", shown, err, "xh_remote_open", __LINE__);
    return NULL;
}

struct xh_file *xh_remote_open(struct xh_h5 *h5, const char *url, unsigned flags, hid_t fapl,
                               struct xh_fapl_info **info)
{
    struct xh_file *f = NULL;
    struct xh_err err = {0};
    char shown[1024];
    xh_url_shown(url, shown, sizeof shown);
    if (flags & (XH_ACC_RDWR | XH_ACC_TRUNC | XH_ACC_EXCL | XH_ACC_CREAT)) {
        xh_err_set(&err, XH_E_READONLY, 0,
                   "a URL can only be read: %s was asked for; open it read-only (H5F_ACC_RDONLY, mode r in h5py)",
                   flags & (XH_ACC_TRUNC | XH_ACC_EXCL | XH_ACC_CREAT) ? "creating" : "writing");
    } else if ((*info = xh_fapl_info_make(h5, fapl, &err))) {
        xh_cache_open(url, &(*info)->values, &f, &err);
    }
    return f ? f : refuse(h5, shown, &err);
}

/* Fills |ext| with what of each piece lies in the file, zeros the rest; returns how many. */
static size_t clip(struct xh_vfd *v, uint32_t n, const haddr_t *addrs, const size_t *sizes, void **bufs,
                   struct xh_extent *ext)
{
    uint64_t size = xh_cache_size(v->remote);
    size_t m = 0, len = 0;
    int fixed = 0;
    for (uint32_t i = 0; i < n; i++) {
        len = xh_piece_size(sizes, i, len, &fixed);
        uint64_t in = addrs[i] >= size ? 0 : len < size - addrs[i] ? len : size - addrs[i];
        if (in < len)
            memset((char *)bufs[i] + in, 0, len - in);
        if (in)
            ext[m++] = (struct xh_extent){addrs[i], in, bufs[i]};
    }
    return m;
}

/* Metadata when any piece is: the mixture is small then. */
static enum xh_kind kind_of(uint32_t n, const H5FD_mem_t *types)
{
    for (uint32_t i = 0; i < n && (i == 0 || types[i] != H5FD_MEM_NOLIST); i++)
        if (types[i] != H5FD_MEM_DRAW)
            return XH_KIND_META;
    return XH_KIND_RAW;
}

herr_t xh_remote_read(struct xh_vfd *v, uint32_t n, const H5FD_mem_t *types, const haddr_t *addrs,
                      const size_t *sizes, void **bufs)
{
    struct xh_extent one, *ext = n <= 1 ? &one : malloc(n * sizeof *ext);
    struct xh_err err = {0};
    int rc;
    if (!ext)
        rc = xh_err_set(&err, XH_E_NOMEM, 0, "out of memory for a read of %u pieces", (unsigned)n);
    else
        rc = xh_cache_read(v->remote, kind_of(n, types), ext, clip(v, n, addrs, sizes, bufs, ext), &err);
    if (ext != &one)
        free(ext);
    if (rc)
        xh_h5err_push(v->h5, "file read failed", v->name_shown, &err, __func__, __LINE__);
    return rc ? -1 : 0;
}
