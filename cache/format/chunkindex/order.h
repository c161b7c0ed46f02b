/* The order in which a reader takes the chunks of an index. Pure.
 *
 * Chunks are known by rank, their place in logical order. A walk over hyperslabs, in whatever direction, is
 * nested loops over ranks, and the hypothesis is an odometer: loop 0 adds its step from rank to rank, loop k adds
 * its own to the rank where the run of loop k-1 began. A loop is learned at its first turn: that read is a miss, and
 * tells its step and the length of the loop inside; from then on the next rank is known across all turns.
 * A turn that comes too early clips a loop (an edge that the grid of blocks does not divide); one that comes
 * too late makes it longer; any other ends the outermost loop of which that can be said and begins one around it.
 * Where that fails twice in a row, only loops whose step came true are kept.
 *
 * Orders that are periodic but no loops (chunks 0, 3, 5, then 10, 13, 15, …) miss again and again: after a
 * miss, a period of rank differences that was seen twice takes over until it fails.
 *
 * Ranks without a chunk (holes) are stepped over, as HDF5 does not read them. */
#ifndef XH_ORDER_H
#define XH_ORDER_H

#include <stddef.h>
#include <stdint.h>

#define XH_ORDER_LOOPS 6u    /* deepest nest: five dimensions in blocks are rare, and a pass after a pass is one */
#define XH_ORDER_PERIOD 256u /* longest period that is recognised */
#define XH_ORDER_SURE 3u     /* so many hits in a row, and the order is proven */

enum xh_order_place { XH_PLACE_CHUNK, XH_PLACE_HOLE, XH_PLACE_UNKNOWN, XH_PLACE_OUTSIDE };

/* What is at |rank|. */
typedef enum xh_order_place xh_order_look(const void *ctx, int64_t rank);

struct xh_order_loop {
    int64_t step; /* loop 0: from rank to rank; others: between the starts of two runs of the loop inside */
    uint64_t len; /* 0: not known, it goes on until it misses or leaves the index */
    /* A shorter length: in the last run of loop |clipper| or, when that is not known (0), now. 0: none. */
    uint64_t clip;
    unsigned clipper;
    int sure; /* the step came true */
    int held; /* so did the length, clipped or not */
};

/* A place in the walk. */
struct xh_order_spot {
    int64_t rank;
    int64_t start[XH_ORDER_LOOPS]; /* where the present run of each loop began */
    uint64_t at[XH_ORDER_LOOPS];   /* steps that each made in it */
    unsigned phase;                /* of the period: the next difference */
    /* Of a guess: */
    unsigned unsure; /* loops (bits) whose steps it lies behind and that did not come true yet */
    int open;        /* it lies behind a step of an outer loop whose length is not known */
};

struct xh_order {
    int begun;                /* |now| is set */
    struct xh_order_spot now; /* the last read */
    unsigned streak;          /* hits in a row */
    unsigned before;          /* the streak that the last miss ended */
    unsigned misses;          /* in a row */
    struct xh_order_loop loop[XH_ORDER_LOOPS]; /* the innermost first */
    unsigned loops;
    int wrong; /* a step that was not sure failed, and none came true since */
    /* A period that is followed instead; 0: none. */
    int64_t step[XH_ORDER_PERIOD];
    unsigned period;
    /* The frontier: |ahead| guesses are out, the farthest is |front|. */
    size_t ahead;
    struct xh_order_spot front;
    /* The last differences; the newest is past[(npast - 1) % size]. */
    int64_t past[2 * XH_ORDER_PERIOD];
    uint64_t npast, missed; /* in all; when the last miss was */
};

/* A miss forgets the frontier. */
enum xh_order_event {
    XH_ORDER_FIRST, /* the first read of the index */
    XH_ORDER_AGAIN, /* the same chunk as before: nothing changes */
    XH_ORDER_HIT,   /* as expected */
    XH_ORDER_TURN,  /* a miss, but of an outer loop: the run inside it is known */
    XH_ORDER_MISS,  /* a miss */
};

/* Takes note of the read of |rank|. */
enum xh_order_event xh_order_read(struct xh_order *o, int64_t rank, xh_order_look *look, const void *ctx);

/* The guess after the frontier. Returns XH_PLACE_CHUNK and sets |*next|, or why there is none:
 * |next->rank| is then where the walk stopped. */
enum xh_order_place xh_order_peek(const struct xh_order *o, struct xh_order_spot *next, xh_order_look *look,
                                  const void *ctx);
/* Moves the frontier there. */
void xh_order_take(struct xh_order *o, const struct xh_order_spot *next);

/* How many chunks the reader takes one rank or more upwards from each other before the innermost loop turns;
 * UINT64_MAX: no end is known; 0: they lie otherwise. */
uint64_t xh_order_run(const struct xh_order *o);

/* Ranks from |from| on moved by |delta|: so many more chunks were found before them. */
void xh_order_shift(struct xh_order *o, int64_t from, int64_t delta);

/* 1 upwards, -1 downwards, in the long run. */
int xh_order_direction(const struct xh_order *o);

#endif
