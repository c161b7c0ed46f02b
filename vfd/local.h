/* Files of the file system, handled as HDF5's own sec2 driver does.
 *
 * With HDF5_DRIVER=xhdf5 every file of a program comes through here. So reading, writing, creating and locking must be
 * like sec2's, including the texts of errors, from which h5py and others read the errno. Every function that fails has
 * pushed an error. */
#ifndef XH_LOCAL_H
#define XH_LOCAL_H

#include <stddef.h>
#include <stdint.h>

#include "../cache/base/extent.h"
#include "../cache/base/options.h"

struct xh_h5;
struct xh_local;
struct xh_options;

/* HDF5's access flags. In H5Fpublic.h they are macros that call the library. */
enum {
    XH_ACC_RDWR = 0x01,
    XH_ACC_TRUNC = 0x02,
    XH_ACC_EXCL = 0x04,
    XH_ACC_CREAT = 0x10,
    XH_ACC_SWMR_WRITE = 0x20,
    XH_ACC_SWMR_READ = 0x40,
};

/* Opens |name|. |ignore_disabled_locks|: a file system without locks causes no error; HDF5_USE_FILE_LOCKING in the
 * environment takes precedence. |shadow|: the options if local_shadow is on, else NULL.
 * Returns 0 and sets |*out|, or -1. Owns: the caller closes |*out|. */
int xh_local_open(struct xh_h5 *h5, const char *name, unsigned flags, int ignore_disabled_locks,
                  const struct xh_options *shadow, struct xh_local **out);

/* Closes and frees |f|. Returns -1 when the system's close failed, or when buffered writes could not be written. |f| is
 * freed in any case, because HDF5 does not try again. */
int xh_local_close(struct xh_local *f);

/* Orders files by device and inode. */
int xh_local_cmp(const struct xh_local *a, const struct xh_local *b);

/* Fills |child|, which says that this file names what is opened next. Credentials go to no server for a local file. */
void xh_local_names(const struct xh_local *f, struct xh_namer *child);

/* The file's size as this open knows it, in bytes. */
uint64_t xh_local_eof(const struct xh_local *f);

/* Returns the address of the file descriptor; valid until close. */
int *xh_local_fd(struct xh_local *f);

/* Reads [addr, addr + size). Bytes behind the end of the file read as zeroes. |raw|: 1 for raw data, 0 for metadata.
 * Returns 0 or -1. */
int xh_local_read(struct xh_local *f, int raw, uint64_t addr, size_t size, void *buf);

/* Reads |n| pieces in any order. Small pieces that lie close together are one system call. Returns 0 or -1. */
int xh_local_readv(struct xh_local *f, int raw, const struct xh_extent *p, size_t n);

int xh_local_write(struct xh_local *f, int raw, uint64_t addr, size_t size, const void *buf);

/* Writes buffered data to the file. Without local_shadow it does nothing, as in sec2. In a child of a fork it fails,
 * because the child's writes do not reach the file; with |closing| it does not fail. Returns 0 or -1. */
int xh_local_flush(struct xh_local *f, int closing);

/* Makes the file |eoa| bytes long when its known size differs. */
int xh_local_truncate(struct xh_local *f, uint64_t eoa);

/* Takes an advisory lock, exclusive or shared. Does not wait. */
int xh_local_lock(struct xh_local *f, int exclusive);
int xh_local_unlock(struct xh_local *f);

int xh_local_delete(struct xh_h5 *h5, const char *name);

#endif
