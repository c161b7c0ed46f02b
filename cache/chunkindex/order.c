/* The order of a reader: see order.h. */
#include "order.h"

#define PAST (2 * XH_ORDER_PERIOD)
#define MAX_HOLES 256 /* so many ranks without a chunk are stepped over at a time */

static void start(struct xh_order *o)
{
    o->period = 1;
    o->phase = 0;
    o->step[0] = 1;
}

/* Ranks are below 2^62, so no sum of two wraps; a walk stops where it leaves them. */
static enum xh_order_place walk(const struct xh_order *o, int64_t *rank, unsigned *phase, size_t *steps,
                                xh_order_look *look, const void *ctx)
{
    enum xh_order_place place = XH_PLACE_HOLE;
    for (*steps = 0; place == XH_PLACE_HOLE && *steps < MAX_HOLES; ++*steps) {
        *rank += o->step[*phase];
        *phase = (*phase + 1) % o->period;
        place = *rank < 0 ? XH_PLACE_OUTSIDE : look(ctx, *rank);
    }
    return place;
}

static void remember(struct xh_order *o, int64_t diff)
{
    o->past[o->npast++ % PAST] = diff;
}

static int64_t past(const struct xh_order *o, uint64_t back)
{
    return o->past[(o->npast - 1 - back) % PAST];
}

/* Adopts the shortest period that the newest differences show twice. Returns 1 when there is one. */
static int find_period(struct xh_order *o)
{
    for (unsigned p = 1; p <= XH_ORDER_PERIOD && 2 * (uint64_t)p <= o->npast; p++) {
        unsigned i = 0;
        while (i < p && past(o, i) == past(o, i + p))
            i++;
        if (i < p)
            continue;
        for (i = 0; i < p; i++)
            o->step[i] = past(o, p - 1 - i);
        o->period = p;
        o->phase = 0;
        return 1;
    }
    return 0;
}

static void hit(struct xh_order *o, unsigned phase, size_t steps)
{
    for (; steps; steps--) {
        remember(o, o->step[o->phase]);
        o->phase = (o->phase + 1) % o->period;
    }
    o->phase = phase;
    o->streak++;
    o->misses = 0;
    o->ahead -= o->ahead > 0;
}

static void miss(struct xh_order *o, int64_t rank)
{
    remember(o, rank - o->last);
    o->before = o->streak;
    o->streak = 0;
    o->ahead = 0;
    if (find_period(o)) {
        /* One period was foretold by the one before it; to be sure, a hit must follow. */
        o->streak = o->period > 1 ? XH_ORDER_SURE - 1 : 1;
        o->misses = 0;
        o->before = 0; /* that was another hypothesis */
    } else if (++o->misses > 1) {
        start(o);
    } else {
        o->phase = (o->phase + 1) % o->period;
    }
}

enum xh_order_event xh_order_read(struct xh_order *o, int64_t rank, xh_order_look *look, const void *ctx)
{
    enum xh_order_event event;
    if (!o->begun) {
        start(o);
        o->begun = 1;
        event = XH_ORDER_FIRST;
    } else if (rank == o->last) {
        return XH_ORDER_AGAIN;
    } else {
        int64_t expected = o->last;
        unsigned phase = o->phase;
        size_t steps;
        if (walk(o, &expected, &phase, &steps, look, ctx) == XH_PLACE_CHUNK && expected == rank) {
            hit(o, phase, steps);
            event = XH_ORDER_HIT;
        } else {
            miss(o, rank);
            event = XH_ORDER_MISS;
        }
    }
    o->last = rank;
    return event;
}

enum xh_order_place xh_order_peek(const struct xh_order *o, struct xh_order_guess *next, xh_order_look *look,
                                  const void *ctx)
{
    size_t steps;
    next->rank = o->ahead ? o->front : o->last;
    next->phase = o->ahead ? o->front_phase : o->phase;
    return walk(o, &next->rank, &next->phase, &steps, look, ctx);
}

void xh_order_take(struct xh_order *o, struct xh_order_guess next)
{
    o->front = next.rank;
    o->front_phase = next.phase;
    o->ahead++;
}

void xh_order_shift(struct xh_order *o, int64_t from, int64_t delta)
{
    if (o->begun && o->last >= from)
        o->last += delta;
    if (o->ahead && o->front >= from)
        o->front += delta;
}

int xh_order_direction(const struct xh_order *o)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < o->period; i++)
        sum += (o->step[i] > 0) - (o->step[i] < 0);
    return sum < 0 ? -1 : 1;
}
