/* The stage: raw bytes that were fetched ahead, in memory of this process, until they are read. What arrives while the
 * reader waits goes straight into its buffer.
 *
 * The shadow is for what will be read again, or by other processes. A stream that passes once through one process would
 * pay for the tmpfs and gain nothing (docs/architecture.md).
 *
 * Threads: any. Engine threads deliver. Knows nothing of prediction. */
#ifndef XH_STAGE_H
#define XH_STAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"

struct xh_file;
struct xh_read_op;
struct xh_stage;

void xh_stage_init(struct xh_stage *s);

struct xh_room_group;

/* From now on |s|, which holds nothing, is one in the room with the others of |g|, which outlives it. */
void xh_stage_join(struct xh_stage *s, struct xh_room_group *g);

/* Frees all. Nothing is in flight any more, and the file is not read any more. */
void xh_stage_free(struct xh_stage *s);

/* In a fork's child: forgets what the parent's engine was to deliver. */
void xh_stage_forget(struct xh_stage *s);

/* Fetches ahead what neither stage nor shadow has of the |n| ranges (any order, in the
 * object); |wide|: where the connections that are there would take long, over as many more as a stream has. Returns how
 * many ranges, from the first on, were seen to: fewer than |n| when there is no more room. Does not block. */
size_t xh_stage_fetch(struct xh_file *f, const struct xh_range *r, size_t n, int wide);

/* |r|, which was fetched, is named for one more read: it stays when it is read next. That other read comes before
 * |within| more bytes were asked for; what is not read until then may be dropped. */
void xh_stage_again(struct xh_file *f, struct xh_range r, uint64_t within);

/* The reader has left the order in which things were fetched ahead: takes back what has not been asked for yet. */
void xh_stage_recall(struct xh_file *f);

/* How many connections of streams that were left are about to be free. */
unsigned xh_stage_leaving(struct xh_file *f);

/* 1 when nothing is there, nor on its way. */
int xh_stage_is_empty(struct xh_file *f);

/* 1 when the byte at |off| is there, or on its way. until: the first from |off| on that is not. */
int xh_stage_has(struct xh_file *f, uint64_t off);
uint64_t xh_stage_until(struct xh_file *f, uint64_t off);

/* Takes from the stage what it has of op->ext (sorted, disjoint) and leaves in op->ext the pieces
 * that it has not. Bytes still in flight are delivered to the op later: they count in op->pending.
 * Returns the bytes that were there, and in |*coming| those that come. Without memory it takes less. */
uint64_t xh_stage_take(struct xh_file *f, struct xh_read_op *op, uint64_t *coming);

/* Ends the prefetches whose bytes |op| waits for. Other reads that wait for them fetch these themselves. Threads: the
 * reader's own. Does not block. */
void xh_stage_interrupt(struct xh_read_op *op);

#endif
