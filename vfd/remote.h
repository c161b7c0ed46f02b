/* Files at URLs, for HDF5. They are read-only and keep the size that they had when opened. With the option writable
 * they may be changed here until they are closed. */
#ifndef XH_REMOTE_H
#define XH_REMOTE_H

#include <stddef.h>

#include "../cache/edit/edit.h"
#include "h5bind.h"
#include "local.h"

struct xh_remote;

/* Returns 1 when |name| is a URL. A name that only contains a URL ("/cwd/https://…") is a path that does not exist, and
 * costs no request. */
int xh_remote_is_url(const char *name);

/* Refuses writing, creating and SWMR, without a request. Returns 0, or a negative code with |err| set. */
int xh_remote_refuse_flags(const char *url, unsigned flags, struct xh_err *err);

/* Opens a URL for reading with the options that |fapl| gives. |told|: what another process of the job learned, so that
 * no request is needed; NULL: ask the origin. Returns 0 and sets |*out|, or a negative code with |err| set.
 * Owns: the caller closes |*out|. Blocks. */
int xh_remote_open(struct xh_h5 *h5, const char *url, hid_t fapl, const struct xh_told *told, struct xh_remote **out,
                   struct xh_err *err);

/* Returns 1 when |flags| ask for more than reading. */
int xh_remote_wants_writing(unsigned flags);

/* Opens or creates a URL for writing, as |flags| say, if the option writable allows it. Returns 0 and sets |*out|, or a
 * negative code with |err| set. Owns: the caller closes |*out|. Blocks. */
int xh_remote_edit(struct xh_h5 *h5, const char *url, unsigned flags, hid_t fapl, struct xh_remote **out,
                   struct xh_err *err);

/* Returns a file that could not be opened; HDF5 opens it nevertheless, and each read and write fails with |err|.
 * Returns NULL when out of memory. Owns: the caller closes it. */
struct xh_remote *xh_remote_unopened(struct xh_h5 *h5, const char *url, const struct xh_err *err);

/* |r| was the first file of |family|, and is about to be closed. Adds what the family's failed openings cost to the
 * account of |r|. */
void xh_remote_lost(struct xh_remote *r, uint64_t family);

/* Returns 1 when this libhdf5 has |url| open for writing, and sets |*out| to a stand-in for that file. HDF5 compares
 * the two and then uses the one that is open already. (A new file is not at its server before it is committed.) Else
 * returns 0. */
int xh_remote_again(struct xh_h5 *h5, const char *url, struct xh_remote **out);

/* Returns 1 when HDF5 reads whole pages of |r|: see xh_fapl_has_pages. */
int xh_remote_has_pages(const struct xh_remote *r);

/* Returns 1 when |r| was opened for writing. */
int xh_remote_is_written(const struct xh_remote *r);

/* Returns 1 when a read may bring what lies between the wanted pieces too. Returns 0 for a file that is written, as
 * what was seen decides what a merge may do, and while the program's hints are fetched, which bring the pieces alone.
 * */
int xh_remote_may_read_more(const struct xh_remote *r);

/* Returns how the file names other files, for the property list with which HDF5 opens these. */
const struct xh_namer *xh_remote_namer(const struct xh_remote *r);

/* The file's part of the cache; NULL for a file that is written, or could not be opened. Owns: |r|. */
struct xh_file *xh_remote_cache(const struct xh_remote *r);

/* Closes |r|. For a file that is read, never fails and sends nothing; a file that was written is sent. Returns 0, or
 * -1, error pushed; |r| is freed in any case. */
int xh_remote_close(struct xh_remote *r);

/* For a file that is written: saves what was written so far, so that it survives if the process is killed; not if
 * |closing|. A new file that was never flushed is not sent. Returns 0, or -1, error pushed. */
int xh_remote_flush(struct xh_remote *r, int closing);

/* |now| 1: what is flushed from here on is about to be sent and need not be saved; 0: it must be saved again. */
void xh_remote_commits(struct xh_remote *r, int now);

/* Sends what was written so far. Returns 0, also for a file that is only read; 1 when HDF5 may have older data in
 * memory than the server has now; or -1, error pushed. Blocks. */
int xh_remote_commit(struct xh_remote *r);

/* Makes closing send nothing. |keep|: written data stays on this machine. Returns 0; 1 when the file is only read. */
int xh_remote_discard(struct xh_remote *r, int keep);

/* Arguments and results as for the driver's callbacks. Writing fails for a file that is only read; truncating such a
 * file does nothing. */
int xh_remote_write(struct xh_remote *r, enum xh_edit_kind kind, uint64_t addr, size_t size, const void *buf);
int xh_remote_truncate(struct xh_remote *r, uint64_t eoa);

/* Orders files, without network. Returns 0 for two files that are one version of one object, or one object of which one
 * file is written. */
int xh_remote_cmp(const struct xh_remote *a, const struct xh_remote *b);

/* HDF5 opened |a| and |b|, which are equal, and continues with one of them. If they were opened with different options,
 * says so on standard error, once for each open file. */
void xh_remote_joined(struct xh_remote *a, struct xh_remote *b);

uint64_t xh_remote_size(const struct xh_remote *r);

/* Reads |n| pieces in any order, all at once. Bytes behind the end of the file read as zeroes. Returns 0 or -1, error
 * pushed. Blocks. */
int xh_remote_readv(struct xh_remote *r, enum xh_edit_kind kind, const struct xh_extent *p, size_t n);

/* Reads |n| pieces of data if all of them are in the shadow. For a part of a read whose last part xh_remote_readv gets.
 * Returns 1; or 0 with the buffers' contents undefined. Does not block on the network. */
int xh_remote_hit(struct xh_remote *r, enum xh_edit_kind kind, const struct xh_extent *p, size_t n);

/* Returns 1 when the last read of a file that another file named failed, and sets |*err|. */
int xh_remote_failed(struct xh_remote *r, struct xh_err *err);

/* The same, also for a file that could not be opened. */
int xh_remote_why(struct xh_remote *r, struct xh_err *err);

/* Fetches |n| ranges ahead, in the order in which they will be read. Bytes behind the end of the file are ignored.
 * Does not block on the network. */
void xh_remote_prefetch(struct xh_remote *r, const struct xh_range *ranges, size_t n);

/* What the last hint kept of |r|'s chunks: see chunkmap.h. take: returns it, or NULL where there is nothing, or another
 * thread has taken it. Owns: the caller, until keep gives it back; |m| may be NULL. Threads: any. */
struct xh_chunkmap;
struct xh_chunkmap *xh_remote_take_chunks(struct xh_remote *r);
void xh_remote_keep_chunks(struct xh_remote *r, struct xh_chunkmap *m);

/* Copies the file's current counters. */
void xh_remote_stats(struct xh_remote *r, struct xh_stats *out);

/* Pushes an error that |what| cannot be done with a URL. Returns -1. */
int xh_remote_refuse(struct xh_h5 *h5, const char *url, const char *what);

#endif
