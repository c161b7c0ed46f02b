/* Files of the file system, as HDF5's own sec2 driver treats them.
 *
 * With HDF5_DRIVER=xhdf5 every file of a program comes through here: reading, writing,
 * creating and locking have to be sec2's, down to the texts of errors, from which h5py
 * and others read the errno. Every function that fails has pushed an error. */
#ifndef XH_LOCAL_H
#define XH_LOCAL_H

#include <stddef.h>
#include <stdint.h>

#include "../cache/base/extent.h"
#include "../cache/base/options.h"

struct xh_h5;
struct xh_local;
struct xh_options;

/* HDF5's access flags (H5Fpublic.h, where they are macros that call the library). */
enum {
    XH_ACC_RDWR = 0x01,
    XH_ACC_TRUNC = 0x02,
    XH_ACC_EXCL = 0x04,
    XH_ACC_CREAT = 0x10,
    XH_ACC_SWMR_WRITE = 0x20,
    XH_ACC_SWMR_READ = 0x40,
};

/* Opens |name|. |ignore_disabled_locks|: a file system without locks is no error; the
 * environment's HDF5_USE_FILE_LOCKING is stronger. |shadow|: the options where local_shadow is on, else NULL.
 * Returns 0 and sets |*out|, or -1. Owns: the caller closes |*out|. */
int xh_local_open(struct xh_h5 *h5, const char *name, unsigned flags, int ignore_disabled_locks,
                  const struct xh_options *shadow, struct xh_local **out);

/* Closes and frees; -1 when the system's close failed, or what was held back could not be written: it is freed all the
 * same, as HDF5 does not come back to it. */
int xh_local_close(struct xh_local *f);

/* Orders files by device and inode. */
int xh_local_cmp(const struct xh_local *a, const struct xh_local *b);

/* The size on disk as this open knows it. */
/* Fills |child|, who names what the file names: credentials go to no server for that. */
void xh_local_names(const struct xh_local *f, struct xh_namer *child);

uint64_t xh_local_eof(const struct xh_local *f);

/* Where the file descriptor stands; valid until close. */
int *xh_local_fd(struct xh_local *f);

/* Reads; what lies behind the end of the file reads as zeroes. |raw|: raw data, not metadata. 0 or -1. */
int xh_local_read(struct xh_local *f, int raw, uint64_t addr, size_t size, void *buf);

/* Reads |n| pieces in any order; runs of small ones that lie close are one system call. 0 or -1. */
int xh_local_readv(struct xh_local *f, int raw, const struct xh_extent *p, size_t n);

int xh_local_write(struct xh_local *f, int raw, uint64_t addr, size_t size, const void *buf);

/* Writes what is held back; nothing without local_shadow, as sec2. In a child of a fork it fails, as what that writes goes nowhere;
 * |closing|: it does nothing then. 0 or -1. */
int xh_local_flush(struct xh_local *f, int closing);

/* Makes the file |eoa| bytes long when its known size differs. */
int xh_local_truncate(struct xh_local *f, uint64_t eoa);

/* An advisory lock, exclusive or shared, without waiting. */
int xh_local_lock(struct xh_local *f, int exclusive);
int xh_local_unlock(struct xh_local *f);

int xh_local_delete(struct xh_h5 *h5, const char *name);

#endif
