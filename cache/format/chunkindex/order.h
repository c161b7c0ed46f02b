/* The order in which a reader takes the chunks of an index. Pure.
 *
 * A chunk is identified by its rank, its place in logical order. A walk over hyperslabs, in any direction, is a nest of
 * loops over ranks. The hypothesis is an odometer: loop 0 adds its step to each rank; loop k adds its own step to the
 * rank where the run of loop k-1 began. A loop is learned at its first turn. That read is a miss; it gives the loop's
 * step and the length of the loop inside. From then on the next rank is known across all turns.
 * A turn that comes too early clips a loop: an edge that the grid of blocks does not divide. A turn that comes too late
 * makes the loop longer. Any other turn ends the outermost loop that can have ended, and begins a new loop around it.
 * If that fails twice in a row, only loops whose step came true are kept.
 *
 * Periodic orders that are no loops (chunks 0, 3, 5, then 10, 13, 15, …) miss again and again. After a miss, a period
 * of rank differences that was seen twice is followed until it fails.
 *
 * Threads that take the next chunk each, or the next few, miss again and again, too, and so does a reader that leaves
 * out chunks here and there. The former are known by what they come back for, the latter as they only go upwards. From
 * then on chunks are followed as they lie, and what is read before or after its time is no miss, as long as no more is
 * passed by than was read. Of the latter a period is still found.
 *
 * Ranks without a chunk (holes) are skipped, because HDF5 does not read them. */
#ifndef XH_ORDER_H
#define XH_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "base/holes.h"

/* deepest nest: five dimensions in blocks are rare, and repeated passes are one loop more */
#define XH_ORDER_LOOPS 6u
#define XH_ORDER_PERIOD 256u /* longest period that is recognised */
#define XH_ORDER_SURE 3u     /* hits in a row that prove an order */

enum xh_order_place { XH_PLACE_CHUNK, XH_PLACE_HOLE, XH_PLACE_UNKNOWN, XH_PLACE_OUTSIDE };

/* Returns what is at |rank|. */
typedef enum xh_order_place xh_order_look(const void *ctx, int64_t rank);

struct xh_order_loop {
    int64_t step; /* loop 0: from rank to rank; others: between the starts of two runs of the loop inside */
    uint64_t len; /* 0: unknown; the loop goes on until it misses or leaves the index */
    /* A shorter length, in the last run of loop |clipper|; if |clipper| is 0, it is unknown and the length holds now.
     * 0: no shorter length. */
    uint64_t clip;
    unsigned clipper;
    int sure; /* 1: the step came true */
    int held; /* 1: the length came true, clipped or not */
};

/* A place in the walk. */
struct xh_order_spot {
    int64_t rank;
    int64_t start[XH_ORDER_LOOPS]; /* where the current run of each loop began */
    uint64_t at[XH_ORDER_LOOPS];   /* steps that each loop made in it */
    unsigned phase;                /* index of the period's next difference */
    /* For a guess: */
    unsigned unsure; /* loops (bits) with a step before this place that has not come true yet */
    int open;        /* 1: it lies behind a step of an outer loop of unknown length */
};

struct xh_order {
    int begun;                /* 1: |now| is set */
    struct xh_order_spot now; /* the last read */
    unsigned streak;          /* hits in a row */
    unsigned before;          /* the streak that the last miss ended */
    unsigned misses;          /* in a row */
    struct xh_order_loop loop[XH_ORDER_LOOPS]; /* innermost first */
    unsigned loops;
    int wrong; /* 1: a step that was not sure failed, and none came true since */
    /* A period that is followed instead of the loops; 0: none. */
    int64_t step[XH_ORDER_PERIOD];
    unsigned period;
    /* The frontier: |ahead| guesses are proposed; the farthest is |front|. */
    size_t ahead;
    struct xh_order_spot front;
    struct xh_cover cover; /* the ranks of the last reads */
    unsigned strays;       /* misses since |cover| began, or a turn was as expected: END_STRAYS for each, or less */
    unsigned passes;       /* the caller's: how many chunks may be passed by for each that is read; 0: one */
    int loosely;           /* 1: chunks are followed as they lie, whether each is read or not; |now| is the farthest */
    int alone;             /* the caller's: 1: nothing had foreseen what is read now */
    uint64_t thread;       /* the caller's: who reads now */
    uint64_t first_thread; /* who read first */
    int threads;           /* 1: others have read, too */
    unsigned lone;         /* where chunks are followed loosely, so many late ones in a row that nothing had foreseen */
    /* The last differences. The newest is past[(npast - 1) % size]. */
    int64_t past[2 * XH_ORDER_PERIOD];
    uint64_t npast, missed; /* number of differences; its value at the last miss */
};

/* A miss forgets the frontier. */
enum xh_order_event {
    XH_ORDER_FIRST, /* the first read of the index */
    XH_ORDER_AGAIN, /* the same chunk as before; nothing changes */
    XH_ORDER_HIT,   /* as expected */
    XH_ORDER_LATE,  /* what was passed by, and proposed before */
    XH_ORDER_TURN,  /* a miss of an outer loop; the run inside it is known */
    XH_ORDER_MISS,  /* a miss */
};

/* Notes the read of |rank|. Returns the event. */
enum xh_order_event xh_order_read(struct xh_order *o, int64_t rank, xh_order_look *look, const void *ctx);

/* Finds the guess after the frontier. Returns XH_PLACE_CHUNK and sets |*next|; or the reason why there is none, with
 * |next->rank| where the walk stopped. */
enum xh_order_place xh_order_peek(const struct xh_order *o, struct xh_order_spot *next, xh_order_look *look,
                                  const void *ctx);
/* Moves the frontier to |next|. */
void xh_order_take(struct xh_order *o, const struct xh_order_spot *next);

/* Returns how many chunks, each one rank or more above the last, the reader takes before the innermost loop turns;
 * UINT64_MAX: no end is known; 0: they lie otherwise. */
uint64_t xh_order_run(const struct xh_order *o);

/* Moves ranks from |from| on by |delta|, because more or fewer chunks were found before them. */
void xh_order_shift(struct xh_order *o, int64_t from, int64_t delta);

/* Returns 1 for an order that goes upwards in the long run, -1 for downwards. */
int xh_order_direction(const struct xh_order *o);

#endif
