/* Local files on slow or parallel file systems (option local_shadow): what HDF5 reads in small pieces comes from
 * memory, what it writes in small pieces stays there until it flushes or closes the file.
 *
 * A file that is only read has a shadow (shadow.h), shared by the user's processes on the node and named after the
 * file's identity, size and times. A file that is written has an image in this process's memory (write_buffer.h). Large raw
 * data passes both by. Knows nothing of HDF5; the descriptor is the caller's.
 *
 * Errors are those of system calls: -1 with errno. Threads: HDF5 serialises the calls for one file. */
#ifndef XH_LOCALFS_H
#define XH_LOCALFS_H

#include <stddef.h>
#include <stdint.h>

#include "base/options.h"

struct xh_localfs;
struct stat;

/* |fd| is the open file |path|, |st| what fstat said of it just now. |writing|: it may be written.
 * Returns 0 and sets |*out|; to NULL where there is nothing to gain (no regular file, tmpfs, an empty file that is only
 * read, one to be written on a local disk) or no memory: the caller goes without. Owns: the caller closes it, before |fd|. */
int xh_localfs_open(int fd, const struct stat *st, const char *path, int writing, const struct xh_options *o,
                 struct xh_localfs **out);

/* Frees. What was written must have been flushed: see xh_localfs_flush. */
void xh_localfs_close(struct xh_localfs *n);

/* Reads; behind the end of the file are zeros. |raw|: raw data, as far as the caller knows. 0 or -1. */
int xh_localfs_read(struct xh_localfs *n, int raw, uint64_t addr, size_t size, void *buf);

/* Only of a file that is written. After a failure what was not written is still held. In a child of a fork it never reaches the
 * file, which is the parent's to write. 0 or -1. */
int xh_localfs_write(struct xh_localfs *n, int raw, uint64_t addr, size_t size, const void *buf);

/* This process has an exclusive lock on the file now, which the file system gave, or no longer. */
void xh_localfs_locked(struct xh_localfs *n, int exclusive);

/* 1 in a child of a fork, of a file that the parent writes: what is held is the parent's, and the child writes nothing. Its
 * xh_localfs_flush and xh_localfs_truncate do nothing. To fail its writes would not do: HDF5 makes some of its own when the child exits, and
 * crashes (1.14.6) when they fail. */
int xh_localfs_is_parents(const struct xh_localfs *n);

/* Writes back what is held, in the order that write_buffer.h gives; nothing to do for a file that is read. 0 or -1. */
int xh_localfs_flush(struct xh_localfs *n);

/* Makes the file |size| bytes long: at once when it gets shorter, else at the next flush. 0 or -1. */
int xh_localfs_truncate(struct xh_localfs *n, uint64_t size);

/* The file's size as its user sees it: with what is held. */
uint64_t xh_localfs_eof(const struct xh_localfs *n);

#endif
