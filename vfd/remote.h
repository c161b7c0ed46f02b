/* Files at URLs, as HDF5 sees them: read-only, and as long as they were when opened; or, with the option writable,
 * as they are changed here until they are closed. */
#ifndef XH_REMOTE_H
#define XH_REMOTE_H

#include <stddef.h>

#include "../cache/base/err.h"
#include "../cache/base/extent.h"
#include "h5bind.h"
#include "local.h"

struct xh_remote;
struct xh_told; /* of cache.h */
struct xh_stats; /* of stats.h */

/* 1 when |name| is a URL; no name with a URL inside it is one ("/cwd/https://…" is a
 * path that does not exist, and costs no request). */
int xh_remote_is_url(const char *name);

/* Refuses writing, creating and SWMR, without a request. Returns 0, or a negative code with |err| set. */
int xh_remote_refuse_flags(const char *url, unsigned flags, struct xh_err *err);

/* Opens a URL for reading with the options that |fapl| gives; without a request by what another
 * process of the job |told| (NULL: ask). Returns 0 and sets |*out|, or a negative code with
 * |err| set. Owns: the caller closes |*out|. Blocks. */
int xh_remote_open(struct xh_h5 *h5, const char *url, hid_t fapl, const struct xh_told *told, struct xh_remote **out,
                   struct xh_err *err);

/* 1 when |flags| want more than reading. */
int xh_remote_wants_writing(unsigned flags);

/* Opens a URL to be written, or made, as |flags| say: where the option writable allows it. Returns 0 and sets |*out|, or a
 * negative code with |err| set. Owns: the caller closes |*out|. Blocks. */
int xh_remote_edit(struct xh_h5 *h5, const char *url, unsigned flags, hid_t fapl, struct xh_remote **out, struct xh_err *err);

/* A file that could not be opened, for HDF5 to open nevertheless: each read and write fails with |err|. NULL without
 * memory. Owns: the caller closes it. */
struct xh_remote *xh_remote_unopened(struct xh_h5 *h5, const char *url, const struct xh_err *err);

/* |r| was the first of |family|, and is about to be closed: its account gets what the others cost in vain. */
void xh_remote_lost(struct xh_remote *r, uint64_t family);

/* 1 when this libhdf5 has |url| open to be written: then |*out| is as that file, to be compared with it, which HDF5 does before it uses
 * the one that is open already. A new file is not at its server before it is committed. 0: it has not. */
int xh_remote_again(struct xh_h5 *h5, const char *url, struct xh_remote **out);

/* 1 when it was opened so. */
int xh_remote_is_written(const struct xh_remote *r);

/* Who names what the file names: for the list that HDF5 opens that with. */
const struct xh_namer *xh_remote_namer(const struct xh_remote *r);

/* What the open learned, for the job's other processes; as xh_cache_tell. */
int xh_remote_tell(struct xh_remote *r, void **told, size_t *len, struct xh_err *err);

/* Of a file that is read never fails, and sends nothing; of one that was written sends it. Returns 0, or -1, error pushed;
 * |r| is gone either way. */
int xh_remote_close(struct xh_remote *r);

/* Of a file that is written: what was written so far is there if the process is killed. Returns 0, or -1, error pushed. */
int xh_remote_flush(struct xh_remote *r);

/* |now|: what is flushed from here on is about to be sent, and need not be saved. */
void xh_remote_commits(struct xh_remote *r, int now);

/* Sends what was written so far. Returns 0, also of a file that is only read; 1: HDF5 may have older data in memory than the
 * server has now; or -1, error pushed. Blocks. */
int xh_remote_commit(struct xh_remote *r);

/* Closing it sends nothing. |keep|: what was written stays on this machine. Returns 0; 1: it is only read. */
int xh_remote_discard(struct xh_remote *r, int keep);

/* As the driver's callbacks; refused with an error where the file is only read. */
int xh_remote_write(struct xh_remote *r, int raw, uint64_t addr, size_t size, const void *buf);
int xh_remote_truncate(struct xh_remote *r, uint64_t eoa);

/* Orders files without network: 0 when they are one version of one object; or one object, where one of them is written. */
int xh_remote_cmp(const struct xh_remote *a, const struct xh_remote *b);

/* HDF5 opened |a| and |b|, which are equal, and goes on with one of them: says on standard error, once for each file that is open, when
 * they were opened with different options. */
void xh_remote_joined(struct xh_remote *a, struct xh_remote *b);

uint64_t xh_remote_size(const struct xh_remote *r);

/* What is read or written: data, or metadata, of which object headers are read before their length is known. For the
 * cache's preferences, and for merges. */
enum { XH_REMOTE_META, XH_REMOTE_RAW, XH_REMOTE_HEADER };

/* Reads |n| pieces in any order, all at once; what lies behind the end of the file reads
 * as zeroes. |raw|: one of these kinds.
 * Returns 0 or -1, error pushed. Blocks. */
int xh_remote_readv(struct xh_remote *r, int raw, const struct xh_extent *p, size_t n);

/* Reads |n| pieces of data when all of them are in the shadow: a part of a read whose last part xh_remote_readv gets. Returns 1;
 * or 0, and the buffers' contents are undefined. Does not block on the network. */
int xh_remote_hit(struct xh_remote *r, int raw, const struct xh_extent *p, size_t n);

/* 1 when the last read of what a file named failed: |err|. */
int xh_remote_failed(struct xh_remote *r, struct xh_err *err);

/* Fetches |n| ranges ahead, in the order in which they will be read; what lies behind the end of the
 * file is passed over. Returns how many were taken. Does not block on the network. */
size_t xh_remote_prefetch(struct xh_remote *r, const struct xh_range *ranges, size_t n);

/* The file's counters as they are now. */
void xh_remote_stats(struct xh_remote *r, struct xh_stats *out);

/* Pushes that |what| cannot be done with a URL. Returns -1. */
int xh_remote_refuse(struct xh_h5 *h5, const char *url, const char *what);
int xh_remote_refuse_open(struct xh_remote *r, const char *what);

#endif
