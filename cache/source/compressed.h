/* The compressed copy of an open file: raw data is read through it where that is faster.
 *
 * It is not looked for before a reader waits for much raw data, from a server that is far away or behind a link that is
 * slower than unpacking. So it costs an opening nothing, and nothing where only metadata is read. Then a thread looks
 * beside the file, once. The copy is opened as any file is, with a shadow and a stage of its own. What is expected of
 * the original is fetched ahead there: prediction, streams and parts work on packed bytes as they are. A read takes the
 * frames that cover it from the copy, and unpacks them on the copy's own threads. What a frame does not bring, the
 * original does.
 *
 * Threads: any, if nothing else is said. None of these fails a read. |b| may be NULL: there is no copy. */
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

/* 1 while raw data is to be read through the copy. */
int xh_compressed_used(struct xh_compressed *b);

/* |f| is open: looks for its copy if the server is already known to be behind a slow link. */
void xh_compressed_begin(struct xh_file *f);

/* A raw read of |op|, which had to wait, is |over|, or waits still. Judges anew which way is faster, and looks for a
 * copy where one might be. */
void xh_compressed_note(struct xh_read_op *op, int over);

/* 1 while a copy is known, or looked for, and it is not decided whether it is the faster way. */
int xh_compressed_is_awaited(struct xh_compressed *b);

/* 1 when |op| is to call xh_compressed_note now and then while it waits: nothing is decided yet. */
int xh_compressed_watches(const struct xh_read_op *op);

/* The copy as a view of the original. file: that of the packed bytes while the copy is used, else NULL. original: where
 * the original ends whose packed bytes are all before |at|. */
struct xh_file *xh_compressed_file(const struct xh_file *f);
uint64_t xh_compressed_original(const struct xh_file *f, uint64_t at);

/* Maps a run: |*near|, a range of it, and |*far|, the end of a stream of it (0: none), become those of the packed
 * bytes.
 * |leads|: from its first byte on; else from what the original's stage does not have. |far| may be NULL. Returns the
 * file of the packed bytes; NULL when the copy is not used, or the original has all of |*near|, up to near->off now. */
struct xh_file *xh_compressed_map_run(struct xh_file *f, struct xh_range *near, uint64_t *far, int leads);

/* Maps ranges, each frame once. Returns 1: then unmap |v|; 0 when the original is the smaller way. The copy is used. */
struct xh_packed_view {
    struct xh_file *file;
    struct xh_range *r;
    size_t n;
    size_t *of; /* the first |of[k]| ranges are covered by the first k + 1 packed ones */
};
int xh_compressed_map(struct xh_file *f, const struct xh_range *r, size_t n, struct xh_packed_view *v);
void xh_compressed_unmap(struct xh_packed_view *v);

/* Adds what the copy cost to |out|. */
void xh_compressed_stats(struct xh_compressed *b, struct xh_stats *out);

/* In a fork's child, before anything else. */
void xh_compressed_after_fork(struct xh_compressed *b);

/* The file is no longer read. Never waits for the network. */
void xh_compressed_close(struct xh_compressed *b);

#endif
