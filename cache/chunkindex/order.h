/* The order in which a reader takes the chunks of an index. Pure.
 *
 * Chunks are known by rank, their place in logical order. The differences between the ranks read
 * are periodic for every regular walk: 1 for all of it, n for a stride, negative backwards, L-1
 * ones and a jump for a hyperslab or an image across a grid of chunks, and so on when nested. The
 * hypothesis is one period of differences; the first is "1". It is replaced by the shortest period
 * that the last two periods agree on, looked for when a guess failed; it survives one failure
 * (the jump of an outer loop that was not learned yet) and falls back to "1" after two in a row.
 *
 * Ranks without a chunk (holes) are stepped over, as HDF5 does not read them. */
#ifndef XH_ORDER_H
#define XH_ORDER_H

#include <stddef.h>
#include <stdint.h>

#define XH_ORDER_PERIOD 256u /* longest period that is recognised */
#define XH_ORDER_SURE 3u     /* so many hits in a row, and the order is proven */

enum xh_order_place { XH_PLACE_CHUNK, XH_PLACE_HOLE, XH_PLACE_UNKNOWN, XH_PLACE_OUTSIDE };

/* What is at |rank|. */
typedef enum xh_order_place xh_order_look(const void *ctx, int64_t rank);

struct xh_order {
    int begun;          /* |last| is set */
    int64_t last;       /* rank of the last read */
    unsigned streak;    /* hits in a row */
    unsigned before;    /* the streak that the last miss ended; 0 when the hypothesis changed with it */
    unsigned misses;    /* misses in a row */
    int64_t step[XH_ORDER_PERIOD]; /* the hypothesis: |period| differences, the next is step[phase] */
    unsigned period, phase;
    /* The frontier: |ahead| guesses are out, the farthest is rank |front|. */
    size_t ahead;
    int64_t front;
    unsigned front_phase; /* of the difference after it */
    /* The last differences; the newest is past[(npast - 1) % size]. */
    int64_t past[2 * XH_ORDER_PERIOD];
    uint64_t npast;
};

enum xh_order_event {
    XH_ORDER_FIRST,  /* the first read of the index */
    XH_ORDER_AGAIN,  /* the same chunk as before: nothing changes */
    XH_ORDER_HIT,    /* as expected */
    XH_ORDER_MISS,   /* not as expected: the frontier is forgotten */
};

/* Takes note of the read of |rank|. */
enum xh_order_event xh_order_read(struct xh_order *o, int64_t rank, xh_order_look *look, const void *ctx);

/* The guess after the frontier. Returns XH_PLACE_CHUNK and sets |*next|, or why there is none:
 * |next->rank| is then where the walk stopped. */
struct xh_order_guess {
    int64_t rank;
    unsigned phase;
};
enum xh_order_place xh_order_peek(const struct xh_order *o, struct xh_order_guess *next, xh_order_look *look,
                                  const void *ctx);
/* Moves the frontier there. */
void xh_order_take(struct xh_order *o, struct xh_order_guess next);

/* Ranks from |from| on moved by |delta|: so many more chunks were found before them. */
void xh_order_shift(struct xh_order *o, int64_t from, int64_t delta);

/* 1 upwards, -1 downwards. */
int xh_order_direction(const struct xh_order *o);

#endif
