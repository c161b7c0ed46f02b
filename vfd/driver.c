/* The driver's class: what HDF5 calls. Each call goes to remote.c or local.c.
 *
 * Never calls HDF5 but through v->h5, the functions of the library that opened the file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <H5PLextern.h>

#include "cache.h"
#include "driver.h"
#include "h5err.h"

/* In the range that HDF5 leaves for testing and for drivers that are not registered with it. */
#define XH_VFD_VALUE ((H5FD_class_value_t)430)
/* Largest address: what an off_t can say. */
#define XH_MAXADDR (((haddr_t)1 << 62) - 1)

#define LOCAL_FEATURES                                                                            \
    (H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |         \
     H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_POSIX_COMPAT_HANDLE | H5FD_FEAT_SUPPORTS_SWMR_IO | \
     H5FD_FEAT_DEFAULT_VFD_COMPATIBLE)
/* No descriptor and no SWMR; the sieve buffer would only copy what the cache holds already. */
#define REMOTE_FEATURES (H5FD_FEAT_DEFAULT_VFD_COMPATIBLE)

static struct xh_vfd *of(const H5FD_t *file)
{
    return (struct xh_vfd *)file;
}

/* A local file's options matter to the URLs that it links to; a wrong one is not its affair. */
static struct xh_local *open_local(struct xh_vfd *v, const char *name, unsigned flags, hid_t fapl)
{
    v->info = xh_fapl_info_make(v->h5, fapl, NULL);
    return xh_local_open(v->h5, name, flags, fapl);
}

static void vfd_free(struct xh_vfd *v)
{
    if (v) {
        free(v->name_shown);
        free(v->info);
    }
    free(v);
}

static H5FD_t *vfd_open(const char *name, unsigned flags, hid_t fapl, haddr_t maxaddr)
{
    struct xh_h5 *h5 = xh_h5_of_caller(__builtin_return_address(0));
    char shown[1024];
    if (!h5)
        return NULL; /* an HDF5 that lacks functions of 1.14: nowhere to say so */
    struct xh_vfd *v = calloc(1, sizeof *v);
    if (v)
        v->name_shown = strdup(xh_cache_is_url(name) ? xh_url_shown(name, shown, sizeof shown) : name ? name : "");
    if (!v || !v->name_shown) {
        xh_h5err_push_errno(h5, "unable to open file", ENOMEM, __func__, __LINE__);
        goto err;
    }
    v->h5 = h5;
    if (!name || !*name) {
        xh_h5err_push_errno(h5, "unable to open file: the name is empty", EINVAL, __func__, __LINE__);
        goto err;
    }
    if (xh_cache_is_url(name))
        v->remote = xh_remote_open(h5, name, flags, fapl, &v->info);
    else
        v->local = open_local(v, name, flags, fapl);
    if (v->remote || v->local)
        return &v->pub;
err:
    vfd_free(v);
    return NULL;
}

static herr_t vfd_close(H5FD_t *file)
{
    struct xh_vfd *v = of(file);
    herr_t rc = 0;
    if (v->remote)
        xh_cache_close(v->remote);
    else
        rc = xh_local_close(v);
    vfd_free(v);
    return rc;
}

/* The driver's part of a property list made from an open file: external links and virtual
 * sources are opened with it. */
static void *vfd_fapl_get(H5FD_t *file)
{
    const struct xh_vfd *v = of(file);
    struct xh_fapl_info *copy = v->info ? malloc(sizeof *copy) : NULL;
    if (copy)
        *copy = *v->info;
    return copy;
}

static int vfd_cmp(const H5FD_t *a, const H5FD_t *b)
{
    const struct xh_vfd *x = of(a), *y = of(b);
    if (x->remote && y->remote)
        return xh_cache_cmp(x->remote, y->remote);
    if (x->local && y->local)
        return xh_local_cmp(x->local, y->local);
    return x->remote ? 1 : -1;
}

static herr_t vfd_query(const H5FD_t *file, unsigned long *flags)
{
    /* Asked first without a file: then it may become a local one. */
    *flags = file && of(file)->remote ? REMOTE_FEATURES : LOCAL_FEATURES;
    return 0;
}

static haddr_t vfd_get_eoa(const H5FD_t *file, H5FD_mem_t type)
{
    return of(file)->eoa;
}

static herr_t vfd_set_eoa(H5FD_t *file, H5FD_mem_t type, haddr_t addr)
{
    of(file)->eoa = addr;
    return 0;
}

static haddr_t vfd_get_eof(const H5FD_t *file, H5FD_mem_t type)
{
    const struct xh_vfd *v = of(file);
    return v->remote ? (haddr_t)xh_cache_size(v->remote) : xh_local_eof(v->local);
}

static herr_t vfd_get_handle(H5FD_t *file, hid_t fapl, void **handle)
{
    struct xh_vfd *v = of(file);
    if (!handle || v->remote) {
        xh_h5err_push_text(v->h5, "a remote file has no file descriptor", __func__, __LINE__);
        return -1;
    }
    *handle = xh_local_fd(v->local);
    return 0;
}

static int bad_range(struct xh_vfd *v, haddr_t addr, size_t size, const char *func)
{
    if (addr <= XH_MAXADDR && size <= XH_MAXADDR - addr)
        return 0;
    xh_h5err_push_text(v->h5, "address and size of the access do not fit a file", func, __LINE__);
    return 1;
}

static herr_t vfd_read(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t size, void *buf)
{
    struct xh_vfd *v = of(file);
    if (bad_range(v, addr, size, __func__))
        return -1;
    return v->remote ? xh_remote_read(v, 1, &type, &addr, &size, &buf) : xh_local_read(v, addr, size, buf);
}

static herr_t refuse_write(struct xh_vfd *v, const char *func)
{
    struct xh_err err;
    xh_err_set(&err, XH_E_READONLY, 0, "a URL can only be read");
    xh_h5err_push(v->h5, "file write failed", v->name_shown, &err, func, __LINE__);
    return -1;
}

static herr_t vfd_write(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t size, const void *buf)
{
    struct xh_vfd *v = of(file);
    if (v->remote)
        return refuse_write(v, __func__);
    return bad_range(v, addr, size, __func__) ? -1 : xh_local_write(v, addr, size, buf);
}

/* Calls |one| for each piece. */
static herr_t each_piece(struct xh_vfd *v, uint32_t count, const haddr_t *addrs, const size_t *sizes, void *const *bufs,
                         herr_t (*one)(struct xh_vfd *, haddr_t, size_t, void *))
{
    size_t size = 0;
    int fixed = 0;
    for (uint32_t i = 0; i < count; i++) {
        size = xh_piece_size(sizes, i, size, &fixed);
        if (bad_range(v, addrs[i], size, __func__) || one(v, addrs[i], size, bufs[i]) < 0)
            return -1;
    }
    return 0;
}

static herr_t write_piece(struct xh_vfd *v, haddr_t addr, size_t size, void *buf)
{
    return xh_local_write(v, addr, size, buf);
}

static herr_t vfd_read_vector(H5FD_t *file, hid_t dxpl, uint32_t count, H5FD_mem_t types[], haddr_t addrs[],
                              size_t sizes[], void *bufs[])
{
    struct xh_vfd *v = of(file);
    if (v->local)
        return each_piece(v, count, addrs, sizes, bufs, xh_local_read);
    return xh_remote_read(v, count, types, addrs, sizes, bufs);
}

static herr_t vfd_write_vector(H5FD_t *file, hid_t dxpl, uint32_t count, H5FD_mem_t types[], haddr_t addrs[],
                               size_t sizes[], const void *bufs[])
{
    struct xh_vfd *v = of(file);
    if (v->remote)
        return refuse_write(v, __func__);
    return each_piece(v, count, addrs, sizes, (void *const *)bufs, write_piece);
}

static herr_t vfd_truncate(H5FD_t *file, hid_t dxpl, hbool_t closing)
{
    return of(file)->local ? xh_local_truncate(of(file)) : 0;
}

static herr_t vfd_lock(H5FD_t *file, hbool_t rw)
{
    return of(file)->local ? xh_local_lock(of(file), rw) : 0;
}

static herr_t vfd_unlock(H5FD_t *file)
{
    return of(file)->local ? xh_local_unlock(of(file)) : 0;
}

static herr_t vfd_del(const char *name, hid_t fapl)
{
    struct xh_h5 *h5 = xh_h5_of_caller(__builtin_return_address(0));
    if (!h5)
        return -1;
    if (!xh_cache_is_url(name))
        return xh_local_delete(h5, name);
    xh_h5err_push_text(h5, "a URL can only be read: it cannot be deleted", __func__, __LINE__);
    return -1;
}

static herr_t vfd_terminate(void)
{
    /* Ids of a library that closes are worth nothing afterwards. What is shared by all
     * libraries of the process, engine and shadows, stays. */
    struct xh_h5 *h5 = xh_h5_of_caller(__builtin_return_address(0));
    if (h5)
        h5->error_class = h5->driver = 0;
    return 0;
}

const H5FD_class_t xh_vfd_class = {
    .version = H5FD_CLASS_VERSION,
    .value = XH_VFD_VALUE,
    .name = "xhdf5",
    .maxaddr = XH_MAXADDR,
    .fc_degree = H5F_CLOSE_WEAK,
    .terminate = vfd_terminate,
    .fapl_size = sizeof(struct xh_fapl_info),
    .fapl_get = vfd_fapl_get,
    .open = vfd_open,
    .close = vfd_close,
    .cmp = vfd_cmp,
    .query = vfd_query,
    .get_eoa = vfd_get_eoa,
    .set_eoa = vfd_set_eoa,
    .get_eof = vfd_get_eof,
    .get_handle = vfd_get_handle,
    .read = vfd_read,
    .write = vfd_write,
    .read_vector = vfd_read_vector,
    .write_vector = vfd_write_vector,
    .truncate = vfd_truncate,
    .lock = vfd_lock,
    .unlock = vfd_unlock,
    .del = vfd_del,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* ---- what HDF5's plugin loader asks for ------------------------------------------------- */

__attribute__((visibility("default"))) H5PL_type_t H5PLget_plugin_type(void)
{
    return H5PL_TYPE_VFD;
}

__attribute__((visibility("default"))) const void *H5PLget_plugin_info(void)
{
    return &xh_vfd_class;
}
