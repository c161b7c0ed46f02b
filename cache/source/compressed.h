/* The compressed body of an open file: raw data read through it where that is faster.
 *
 * Nobody asks for it before a reader waits for much raw data, from a server that is far or behind a link that is slower than
 * unpacking: it costs an opening nothing, nor who reads metadata. A thread then looks beside the file, once; it is opened as any file
 * is, with a shadow and a stage of its own, and what is foreseen of the original is fetched ahead there: prediction,
 * streams and parts work on packed bytes as they are. A read takes the frames that cover it from there and unpacks them on
 * threads of the body's own. What a frame does not bring, the original does.
 *
 * Threads: any, if nothing else is said. None of these fails a read. |b| may be NULL: there is no body. */
#ifndef XH_COMPRESSED_H
#define XH_COMPRESSED_H

#include "cache.h"
#include "pages/op.h"

struct xh_compressed;
struct xh_other_files;

/* For a file that is being opened. NULL: bodies are not wanted, or there is no memory. |files|: constant. Does not block. */
struct xh_compressed *xh_compressed_new(const char *url, const struct xh_options *o, const struct xh_other_files *files);

/* 1 while raw data is to be read through the body. */
int xh_compressed_used(struct xh_compressed *b);

/* |f| is open: looks for its body where the server is known already to be behind a slow link. */
void xh_compressed_begin(struct xh_file *f);

/* A raw read of |op|, which had to wait, is |over| or waits still: it is judged anew what is faster, and looked for a body
 * where it might be that. */
void xh_compressed_note(struct xh_read_op *op, int over);

/* 1 while a body is known, or looked for, of which it is not decided whether it is the faster way. */
int xh_compressed_is_awaited(struct xh_compressed *b);

/* 1 when |op|, while it waits, is to say so now and then: nothing is decided yet. */
int xh_compressed_watches(const struct xh_read_op *op);

/* Reads |runs| (claimed, or not) of |op| through the body if that is the smaller way: publishes what is claimed. What is left
 * of them, all or what was damaged, is appended to |rest|, in ascending order. Returns 0 or XH_E_NOMEM: then too. Blocks. */
int xh_compressed_fetch(struct xh_read_op *op, const struct xh_runs *runs, int claimed, struct xh_runs *rest);

/* As xh_schedule of raw data, _stretch, _lead; as xh_stage_reach, and both recalls. Only while it is used, but reach and
 * recall in any case. ahead: *|taken| 0 when the original is the smaller way. */
size_t xh_compressed_ahead(struct xh_file *f, const struct xh_range *r, size_t n, int *taken);
uint64_t xh_compressed_stretch(struct xh_file *f, struct xh_range r, uint64_t stream_end);
uint64_t xh_compressed_lead(struct xh_file *f, uint64_t off, uint64_t end);
int xh_compressed_reach(struct xh_file *f, uint64_t end, uint64_t window);
void xh_compressed_recall(struct xh_file *f);

/* Adds what the body cost to |out|. */
void xh_compressed_stats(struct xh_compressed *b, struct xh_stats *out);

/* In a fork's child, before anything else. */
void xh_compressed_after_fork(struct xh_compressed *b);

/* Nobody reads any more. Never waits for the network. */
void xh_compressed_close(struct xh_compressed *b);

#endif
