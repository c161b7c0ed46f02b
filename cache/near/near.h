/* Local files on slow or parallel file systems (option local_shadow): what HDF5 reads in small pieces comes from
 * memory, what it writes in small pieces stays there until it flushes or closes the file.
 *
 * A file that is only read has a shadow (shadow.h), shared by the user's processes on the node and named after the
 * file's identity, size and times. A file that is written has an image in this process's memory (held.h). Large raw
 * data passes both by. Knows nothing of HDF5; the descriptor is the caller's.
 *
 * Errors are those of system calls: -1 with errno. Threads: HDF5 serialises the calls for one file. */
#ifndef XH_NEAR_H
#define XH_NEAR_H

#include <stddef.h>
#include <stdint.h>

#include "../options.h"

struct xh_near;
struct stat;

/* |fd| is the open file |path|, |st| what fstat said of it just now. |writing|: it may be written.
 * Returns 0 and sets |*out|; to NULL where there is nothing to gain (no regular file, tmpfs, an empty file that is only
 * read, one to be written on a local disk) or no memory: the caller goes without. Owns: the caller closes it, before |fd|. */
int xh_near_open(int fd, const struct stat *st, const char *path, int writing, const struct xh_options *o,
                 struct xh_near **out);

/* Frees. What was written must have been flushed: see xh_near_flush. */
void xh_near_close(struct xh_near *n);

/* Reads; behind the end of the file are zeros. |raw|: raw data, as far as the caller knows. 0 or -1. */
int xh_near_read(struct xh_near *n, int raw, uint64_t addr, size_t size, void *buf);

/* Only of a file that is written. After a failure what was not written is still held. In a child of a fork it never reaches the
 * file, which is the parent's to write. 0 or -1. */
int xh_near_write(struct xh_near *n, int raw, uint64_t addr, size_t size, const void *buf);

/* This process has an exclusive lock on the file now, which the file system gave, or no longer. */
void xh_near_locked(struct xh_near *n, int exclusive);

/* 1 in a child of a fork, of a file that the parent writes: what is held is the parent's, and the child writes nothing. Its
 * xh_near_flush and xh_near_truncate do nothing. To fail its writes would not do: HDF5 makes some of its own when the child exits, and
 * crashes (1.14.6) when they fail. */
int xh_near_is_parents(const struct xh_near *n);

/* Writes back what is held, in the order that held.h gives; nothing to do for a file that is read. 0 or -1. */
int xh_near_flush(struct xh_near *n);

/* Makes the file |size| bytes long: at once when it gets shorter, else at the next flush. 0 or -1. */
int xh_near_truncate(struct xh_near *n, uint64_t size);

/* The file's size as its user sees it: with what is held. */
uint64_t xh_near_eof(const struct xh_near *n);

#endif
