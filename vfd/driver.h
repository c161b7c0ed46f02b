/* Inside vfd/: one open file, remote or local, behind one H5FD_t. */
#ifndef XH_DRIVER_H
#define XH_DRIVER_H

#include <hdf5.h>

#include "h5bind.h"
#include "options.h"

struct xh_file;
struct xh_local;

struct xh_vfd {
    H5FD_t pub; /* HDF5's part; must be first */
    struct xh_h5 *h5;
    struct xh_file *remote; /* exactly one of the two is set */
    struct xh_local *local;
    struct xh_fapl_info *info; /* the options of this open, for property lists made from the file; may be NULL */
    haddr_t eoa;
    char *name_shown; /* URL without query, or the path */
};

/* HDF5's flags for opening, as plain numbers: its macros call into the library. */
enum {
    XH_ACC_RDWR = 0x1,
    XH_ACC_TRUNC = 0x2,
    XH_ACC_EXCL = 0x4,
    XH_ACC_CREAT = 0x10,
};

/* Size of piece |i| of a vector call, given that of the piece before it: a 0 after the first says
 * that this and all that follow are like the last (|*fixed|, 0 before the first piece). */
static inline size_t xh_piece_size(const size_t *sizes, uint32_t i, size_t last, int *fixed)
{
    *fixed = *fixed || (i > 0 && sizes[i] == 0);
    return *fixed ? last : sizes[i];
}

/* The class that HDF5 registers: by its plugin loader or by H5Pset_fapl_xhdf5. */
extern const H5FD_class_t xh_vfd_class;

/* ---- fapl.c: what the caller set on a property list -------------------------------------- */

/* Everything set by H5Pset_fapl_xhdf5; HDF5 keeps it with the property list. Plain data. */
struct xh_fapl_info {
    uint64_t magic;
    uint64_t set; /* bit i: option i was set */
    struct xh_options values;
};
/* The options of an open with |fapl|, from all sources, all marked as set. NULL with |err| set
 * (INVAL, NOMEM) on failure. Owns: the caller frees it. */
struct xh_fapl_info *xh_fapl_info_make(struct xh_h5 *h5, hid_t fapl, struct xh_err *err);

/* ---- local.c: local paths, as HDF5's own sec2 driver treats them ------------------------ */

struct xh_local *xh_local_open(struct xh_h5 *h5, const char *name, unsigned flags, hid_t fapl);
herr_t xh_local_close(struct xh_vfd *v);
herr_t xh_local_read(struct xh_vfd *v, haddr_t addr, size_t size, void *buf);
herr_t xh_local_write(struct xh_vfd *v, haddr_t addr, size_t size, const void *buf);
herr_t xh_local_truncate(struct xh_vfd *v);
herr_t xh_local_lock(struct xh_vfd *v, hbool_t rw);
herr_t xh_local_unlock(struct xh_vfd *v);
herr_t xh_local_delete(struct xh_h5 *h5, const char *name);
haddr_t xh_local_eof(const struct xh_local *l);
int xh_local_cmp(const struct xh_local *a, const struct xh_local *b);
int *xh_local_fd(struct xh_local *l);

/* ---- remote.c: URLs, through the cache ---------------------------------------------------- */

/* Opens |url| or pushes the reason on HDF5's stack and returns NULL. |*info|: the options found. */
struct xh_file *xh_remote_open(struct xh_h5 *h5, const char *url, unsigned flags, hid_t fapl,
                               struct xh_fapl_info **info);
/* Reads |n| pieces; what lies past the end of the file is zeros, as with local files. */
herr_t xh_remote_read(struct xh_vfd *v, uint32_t n, const H5FD_mem_t *types, const haddr_t *addrs,
                      const size_t *sizes, void **bufs);

#endif
