/* Local files on slow or parallel file systems (option local_shadow). Small reads of HDF5 are served from memory. Small
 * writes stay in memory until HDF5 flushes or closes the file.
 *
 * A file that is only read has a shadow (shadow.h). The user's processes on the node share it; its name is made of the
 * file's identity, size and times. A file that is written has an image in this process's memory (write_buffer.h). Large
 * raw data bypasses both. This code knows nothing of HDF5. The descriptor belongs to the caller.
 *
 * Errors are those of system calls: -1 with errno. Threads: HDF5 serialises the calls for one file. All calls block. */
#ifndef XH_LOCALFS_H
#define XH_LOCALFS_H

#include <stddef.h>
#include <stdint.h>

#include "base/options.h"

struct xh_localfs;
struct stat;

/* Starts the local shadow of an open file. |fd| is the open file |path|; |st| is the result of a recent fstat of it.
 * |writing|: the file may be written.
 * Returns NULL where there is nothing to gain: no regular file, tmpfs, an empty file that is only read, a file to be
 * written on a local disk, too small a budget, or no memory. Then the caller works without it. Owns: the caller closes
 * it before it closes |fd|. */
struct xh_localfs *xh_localfs_open(int fd, const struct stat *st, const char *path, int writing,
                                   const struct xh_options *o);

/* Frees |n|. The caller flushes first (xh_localfs_flush): bytes that are not written back are lost. */
void xh_localfs_close(struct xh_localfs *n);

/* Reads |size| bytes at |addr|. Bytes behind the end of the file are zeros. |raw|: the caller takes it for raw data.
 * Returns 0 or -1. */
int xh_localfs_read(struct xh_localfs *n, int raw, uint64_t addr, size_t size, void *buf);

/* Writes |size| bytes at |addr|. Only for a file that is opened for writing: else -1 with EBADF. Returns 0 or -1.
 * After a failure, bytes that did not reach the file stay in the buffer. In a forked child they never reach the
 * file: only the parent writes it. */
int xh_localfs_write(struct xh_localfs *n, int raw, uint64_t addr, size_t size, const void *buf);

/* Notes whether this process now holds an exclusive lock on the file that the file system granted. */
void xh_localfs_locked(struct xh_localfs *n, int exclusive);

/* Returns 1 in a forked child for a file that the parent writes. The buffered bytes are the parent's, and the child
 * writes nothing: its xh_localfs_flush and xh_localfs_truncate do nothing. The child's writes must not fail: HDF5
 * makes some of its own when the child exits, and crashes (1.14.6) when they fail. */
int xh_localfs_is_parents(const struct xh_localfs *n);

/* Writes back the buffered bytes, in the order that write_buffer.h gives. Does nothing for a file that is only read.
 * Returns 0 or -1. */
int xh_localfs_flush(struct xh_localfs *n);

/* Makes the file |size| bytes long: at once when it gets shorter, else at the next flush. Returns 0 or -1. */
int xh_localfs_truncate(struct xh_localfs *n, uint64_t size);

/* Returns the file's size as its user sees it, buffered bytes included. */
uint64_t xh_localfs_eof(const struct xh_localfs *n);

#endif
