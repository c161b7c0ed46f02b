/* The stage: raw bytes that were fetched ahead, in memory of this process, until their reader
 * comes. What arrives after he came goes straight into his buffer.
 *
 * The shadow is for what will be read again or by others; a stream that passes once through one
 * process would pay for the tmpfs and get nothing for it (docs/architecture.md).
 *
 * Threads: any. Engine threads deliver. Knows nothing of prediction. */
#ifndef XH_STAGE_H
#define XH_STAGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "room.h"
#include "base/extent.h"

#define XH_STREAMS_MAX 32
#define XH_STREAM_MOST_BYTES (4ull << 30) /* longest stream */

struct xh_file;
struct xh_prefetch;
struct xh_segment;
struct xh_read_op;

struct xh_stage {
    pthread_mutex_t lock;    /* guards the rest; held while a piece of a reply is copied or requests are planned, never while they
                              * are submitted. The locks of shadow, origin and room are taken in it */
    struct xh_segment **at;   /* by offset, disjoint: those with bytes that a reader can still have */
    size_t n, room;
    uint64_t bytes;          /* of what nobody has read of the parcels in |at|, of streams' only what is
                              * there. Changed by xh_room_add alone */
    struct xh_room_place place; /* by the room's rules */
    uint64_t clock;          /* takes so far: the age of parcels */
    struct xh_prefetch *stream[XH_STREAMS_MAX]; /* streams that are not over; the first NULL ends them */
    uint64_t reach;          /* streams bring nothing beyond this offset, unless it is waited for */
    uint64_t stream_end;     /* of the stream that was begun last */
    uint64_t streamed;       /* bytes that streams have brought */
    uint64_t rate, rated_ns, rated_bytes; /* of them a second, lately; when that was reckoned, and |streamed| then */
    unsigned lasting;        /* how many loads of the last stream go on to its end */
    int again;               /* it was cut, to be dealt anew from there on */
    uint64_t here;           /* where the last read began that the stage was asked for */
    int lost;                /* a stream ended early since the last xh_stage_reach */
};

void xh_stage_init(struct xh_stage *s);

/* Frees all. Nothing is in flight any more, and nobody reads. */
void xh_stage_free(struct xh_stage *s);

/* In a fork's child: forgets what the parent's engine was to deliver. */
void xh_stage_forget(struct xh_stage *s);

/* Drops all that nobody waits for, and ends the streams: the room is wanted elsewhere. The lock is held. */
void xh_stage_empty(struct xh_stage *s);

/* Fetches ahead what neither stage nor shadow has of the |n| ranges (any order, in the
 * object). Returns how many ranges, from the first on, were seen to: fewer
 * than |n| when there is no more room. Does not block. */
size_t xh_stage_fetch(struct xh_file *f, const struct xh_range *r, size_t n);

/* The reader has left the order in which things were fetched ahead: takes back what has not been asked for yet. */
void xh_stage_recall(struct xh_file *f);

/* Begins to stream [off, end) in so far as neither stage nor shadow has it: a few long requests, on
 * connections that then never idle, whose bytes come as far as xh_stage_reach lets them. Returns the
 * end of what is seen to, |off| when there is not enough to stream or no connection for it: then
 * xh_stage_fetch is the way. Does not block. */
uint64_t xh_stage_stream(struct xh_file *f, uint64_t off, uint64_t end);

/* The reader has come to |end| and may be given |window| bytes more: lets streams go on so far. Returns 1
 * when one has ended early meanwhile: what was seen to is so no longer. */
int xh_stage_reach(struct xh_file *f, uint64_t end, uint64_t window);

/* The link brings |rate| bytes a second, as others have found: it counts where no stream has told yet. */
void xh_stage_tell(struct xh_file *f, uint64_t rate);

/* Ends the streams behind what has come of them and what is waited for: what is fetched from now on is for others too. */
void xh_stage_end(struct xh_file *f);

/* Ends the streams where they have come to by then when |ahead| bytes more have come of each, or behind that. */
void xh_stage_cut(struct xh_file *f, uint64_t ahead);

/* 1 when the byte at |off| is there, or on its way. until: the first from |off| on that is not. */
int xh_stage_has(struct xh_file *f, uint64_t off);
uint64_t xh_stage_until(struct xh_file *f, uint64_t off);

/* Bytes that have come, or were asked for in parts, and wait for their reader. */
uint64_t xh_stage_ahead(struct xh_file *f);

/* Takes from the stage what it has of op->ext (sorted, disjoint) and leaves in op->ext the pieces
 * that it has not. Bytes still in flight are delivered to the op later: they count in op->pending.
 * Returns the bytes that were there, and in |*coming| those that come. Without memory it takes less. */
uint64_t xh_stage_take(struct xh_file *f, struct xh_read_op *op, uint64_t *coming);

#endif
