/* The compressed copy of an open file: raw data is read through it where that is faster.
 *
 * It is looked for once: when a reader waits for much raw data from a server that is far away, or behind a link that is
 * slower than unpacking. So it costs an opening nothing, nor a program that reads only metadata. The look runs on a
 * thread of its own. The copy is opened as any file is, with its own shadow and stage. What is expected of the original
 * is fetched ahead from the copy: prediction, streams and parts work on packed bytes as they do on others. A read takes
 * the frames that cover it from the copy, and unpacks them on the copy's threads. What is damaged or missing in the
 * copy is read from the original.
 *
 * Threads: any, if nothing else is said. No function fails a read. |b| may be NULL: there is no copy. */
#ifndef XH_COMPRESSED_H
#define XH_COMPRESSED_H

#include "cache.h"
#include "pages/op.h"

struct xh_compressed;
struct xh_other_files;

/* For a file that is being opened. Returns NULL when copies are not wanted, or without memory. |files| is constant.
 * Does not block. */
struct xh_compressed *xh_compressed_new(const char *url, const struct xh_options *o,
                                        const struct xh_other_files *files);

/* Returns 1 while raw data is to be read through the copy. */
int xh_compressed_used(struct xh_compressed *b);

/* Called when |f| is open. Looks for its copy if the server is already known to be behind a slow link. */
void xh_compressed_begin(struct xh_file *f);

/* Called when a raw read that had to wait is |over|, and now and then while it waits. Judges anew which way is faster,
 * and looks for a copy where there might be one. */
void xh_compressed_note(struct xh_read_op *op, int over);

/* Returns 1 while a copy may be there and it is not decided whether it is the faster way. */
int xh_compressed_is_awaited(struct xh_compressed *b);

/* Returns 1 when |op| is to call xh_compressed_note now and then while it waits, as nothing is decided yet. */
int xh_compressed_watches(const struct xh_read_op *op);

/* The copy as a view of the original. xh_compressed_file returns the file of the packed bytes while the copy is used,
 * else NULL. xh_compressed_original returns the end of the part of the original whose packed bytes all lie before
 * |at|. */
struct xh_file *xh_compressed_file(const struct xh_file *f);
uint64_t xh_compressed_original(const struct xh_file *f, uint64_t at);

/* Maps a run of the original: its range |*near|, and |*far|, the end of a stream of it (0: none), become those of the
 * packed bytes. |far| may be NULL. |leads|: maps from the first byte on; else from the first byte that the original's
 * stage does not have. Returns the file of the packed bytes. Returns NULL when the copy is not used, or when the
 * original's stage has all of |*near|; then near->off is where that ends. */
struct xh_file *xh_compressed_map_run(struct xh_file *f, struct xh_range *near, uint64_t *far, int leads);

/* Maps ranges, each frame once. Call only while the copy is used. Returns 1, and the caller unmaps |v|; or 0 when the
 * original has fewer bytes to fetch. */
struct xh_packed_view {
    struct xh_file *file;
    struct xh_range *r;
    size_t n;
    size_t *of; /* the first |of[k]| ranges are covered by the first k + 1 packed ones */
};
int xh_compressed_map(struct xh_file *f, const struct xh_range *r, size_t n, struct xh_packed_view *v);
void xh_compressed_unmap(struct xh_packed_view *v);

/* Adds the copy's requests and bytes to |out|. */
void xh_compressed_stats(struct xh_compressed *b, struct xh_stats *out);

/* Called in a fork's child before any other function. */
void xh_compressed_after_fork(struct xh_compressed *b);

/* Called when the file is no longer read. Never waits for the network. */
void xh_compressed_close(struct xh_compressed *b);

#endif
