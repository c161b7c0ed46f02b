/* The order of a reader: see order.h. */
#include "order.h"

#include <assert.h>
#include <string.h>

#define PAST (2 * XH_ORDER_PERIOD)
#define STRAYS 4u /* misses in one place, without a turn that was expected, that show threads: a new loop misses once */
/* So many reads in one place, before what is left out there is taken for gaps. Eight chunks with gaps, and then eight
 * elsewhere: 1.3 times what was read is asked for; 2.6 where four will do. */
#define SOME_READS 10u
/* So many chunks in a row that had been passed by, and that nothing had foreseen: the reader goes through blocks in no
 * order. What several threads come back for was asked for before. */
#define LONE_SURE 2u
#define GAPS_SURE 6u /* gaps in a row that repeat others; by chance, one of nine does: once in 500,000 times */
#define MAX_HOLES 256 /* most ranks without a chunk that are skipped at a time */

/* ---- the odometer ------------------------------------------------------------------------------ */

static int clipped(const struct xh_order *o, const struct xh_order_spot *s, unsigned k)
{
    const struct xh_order_loop *l = &o->loop[k];
    return l->clip && (l->clipper == 0 || s->at[l->clipper] + 1 == o->loop[l->clipper].len);
}

/* 1 when loop |k| is at its end, as far as its length is known. */
static int ended(const struct xh_order *o, const struct xh_order_spot *s, unsigned k)
{
    return s->at[k] + 1 == (clipped(o, s, k) ? o->loop[k].clip : o->loop[k].len);
}

/* Returns where a step of loop |k| leads from |s|. Ranks are below 2^62, so no sum of two wraps; a walk stops where it
 * leaves that range. */
static int64_t target(const struct xh_order *o, const struct xh_order_spot *s, unsigned k)
{
    return (k ? s->start[k - 1] : s->rank) + o->loop[k].step;
}

static enum xh_order_place place_of(int64_t rank, xh_order_look *look, const void *ctx)
{
    return rank < 0 ? XH_PLACE_OUTSIDE : look(ctx, rank);
}

/* Returns the loop that moves next: the first that is not at its end and stays in the index; or |loops|. */
static unsigned mover(const struct xh_order *o, const struct xh_order_spot *s, xh_order_look *look, const void *ctx)
{
    unsigned k = 0;
    while (k < o->loops && (ended(o, s, k) || place_of(target(o, s, k), look, ctx) == XH_PLACE_OUTSIDE))
        k++;
    return k;
}

static void turn(const struct xh_order *o, struct xh_order_spot *s, unsigned k)
{
    int64_t rank = target(o, s, k);
    assert(k < XH_ORDER_LOOPS);
    for (unsigned j = 0; j < k; j++) {
        s->start[j] = rank;
        s->at[j] = 0;
    }
    s->at[k]++;
    s->rank = rank;
    s->unsure |= (unsigned)!o->loop[k].sure << k;
    s->open |= k && !o->loop[k].len;
}

static enum xh_order_place step_on(const struct xh_order *o, struct xh_order_spot *s, xh_order_look *look,
                                   const void *ctx)
{
    if (o->period) {
        s->rank += o->step[s->phase];
        s->phase = (s->phase + 1) % o->period;
    } else {
        unsigned k = mover(o, s, look, ctx);
        if (k == o->loops)
            return XH_PLACE_OUTSIDE;
        turn(o, s, k);
    }
    return place_of(s->rank, look, ctx);
}

/* Goes on to the next chunk. |place| is what is at |s|. */
static enum xh_order_place walk(const struct xh_order *o, struct xh_order_spot *s, enum xh_order_place place,
                                xh_order_look *look, const void *ctx)
{
    for (int steps = 0; place == XH_PLACE_HOLE && steps < MAX_HOLES; steps++)
        place = step_on(o, s, look, ctx);
    return place;
}

static void start(struct xh_order *o, int64_t rank)
{
    memset(&o->now, 0, sizeof o->now);
    memset(o->loop, 0, sizeof o->loop);
    o->now.rank = o->now.start[0] = rank;
    o->loop[0].step = 1;
    o->loops = 1;
}

/* ---- learning ------------------------------------------------------------------------------------ */

static void came_true(struct xh_order *o, unsigned k)
{
    if (!o->loop[k].sure)
        o->wrong = 0;
    o->loop[k].sure = 1;
}

/* Loop |k| is longer again than it was for a while: in the last run of a loop around it, if |outer| began a new run. */
static void unclip(struct xh_order *o, unsigned k, unsigned outer)
{
    struct xh_order_loop *l = &o->loop[k];
    if (l->clip && !l->clipper && outer > k + 1)
        l->clipper = outer - 1;
    else
        l->clip = 0;
}

/* Loop |k| continues where it should have ended. */
static void lengthen(struct xh_order *o, unsigned k)
{
    if (clipped(o, &o->now, k)) {
        unsigned outer = k + 1;
        while (outer < o->loops && o->now.at[outer] == 0)
            outer++;
        unclip(o, k, outer < o->loops ? outer : 0);
    } else {
        o->loop[k].len = 0;
    }
    o->loop[k].held = 0;
}

/* Loop |k| ended where it should have continued. */
static void shorten(struct xh_order *o, unsigned k)
{
    struct xh_order_loop *l = &o->loop[k];
    if (l->len) {
        l->clip = o->now.at[k] + 1;
        l->clipper = 0;
    } else {
        l->len = o->now.at[k] + 1;
    }
    l->held = 0;
}

/* If a step of loop |k|, rather than of the expected loop, leads to |rank|, keeps the loops and returns 1; else returns
 * 0. */
static int fits(struct xh_order *o, unsigned k, int64_t rank, xh_order_look *look, const void *ctx)
{
    struct xh_order_spot s = o->now;
    turn(o, &s, k);
    if (walk(o, &s, place_of(s.rank, look, ctx), look, ctx) != XH_PLACE_CHUNK || s.rank != rank)
        return 0;
    for (unsigned j = 0; j < k; j++)
        if (!ended(o, &o->now, j))
            shorten(o, j);
    if (ended(o, &o->now, k))
        lengthen(o, k);
    came_true(o, k);
    o->now = s;
    return 1;
}

static int fits_any(struct xh_order *o, unsigned expected, int64_t rank, xh_order_look *look, const void *ctx)
{
    for (unsigned k = expected + 1; k < o->loops; k++)
        if (fits(o, k, rank, look, ctx))
            return 1;
    for (unsigned k = 0; k < expected && k < o->loops; k++) {
        /* Where all inner loops ended, a run does not go on if its length came true, or if it was clipped at an edge:
         * the next row of the grid lies just behind the edge. */
        int kept = expected + 1 >= o->loops && (o->loop[k].held || clipped(o, &o->now, k));
        if (!kept && fits(o, k, rank, look, ctx))
            return 1;
    }
    return 0;
}

/* Loop |expected| ended, and an unknown loop around it moved to |rank|. Returns 0 when none of the known loops was
 * worth keeping. */
static int surround(struct xh_order *o, int64_t rank, unsigned expected)
{
    unsigned sure = 0, n = expected < o->loops ? expected + 1 : o->loops;
    while (sure < o->loops && o->loop[sure].sure)
        sure++;
    int failed = !o->loop[n - 1].sure && o->now.at[n - 1];
    if (expected && expected < o->loops)
        o->loop[expected].sure = 0; /* until it comes true again: it may have been a coincidence */
    if ((failed && o->wrong) || n == XH_ORDER_LOOPS)
        n = sure < n ? sure : n;
    if (n == XH_ORDER_LOOPS)
        n--;
    o->wrong |= failed;
    if (n == 0) {
        start(o, rank);
        return 0;
    }
    while (n && o->now.at[n - 1] == 0 && !o->loop[n - 1].sure)
        n--;
    if (n && o->now.at[n - 1] && !ended(o, &o->now, n - 1)) {
        o->loop[n - 1].len = o->now.at[n - 1] + 1;
        o->loop[n - 1].clip = 0;
        o->loop[n - 1].held = 0;
    }
    int64_t from = n ? o->now.start[n - 1] : o->now.rank;
    for (unsigned k = 0; k < n; k++) {
        if (!o->loop[k].clipper || o->loop[k].clipper >= n)
            unclip(o, k, n);
        o->now.start[k] = rank;
        o->now.at[k] = 0;
    }
    o->loop[n] = (struct xh_order_loop){.step = rank - from};
    o->now.start[n] = from;
    o->now.at[n] = 1;
    o->now.rank = rank;
    o->loops = n + 1;
    return n > 0;
}

/* Moves the odometer to |rank|. */
static enum xh_order_event learn(struct xh_order *o, int64_t rank, xh_order_look *look, const void *ctx)
{
    struct xh_order_spot s = o->now;
    unsigned k = mover(o, &s, look, ctx);
    if (k < o->loops) {
        turn(o, &s, k);
        if (walk(o, &s, place_of(s.rank, look, ctx), look, ctx) == XH_PLACE_CHUNK && s.rank == rank) {
            if (k && !o->loop[k].sure && o->streak < XH_ORDER_SURE)
                o->streak = XH_ORDER_SURE - 1; /* an expected turn is no coincidence */
            came_true(o, k);
            o->strays = k ? 0 : o->strays;
            for (unsigned j = 0; j < k; j++)
                o->loop[j].held |= ended(o, &o->now, j);
            o->now = s;
            return XH_ORDER_HIT;
        }
    }
    return (fits_any(o, k, rank, look, ctx) || surround(o, rank, k)) && o->loop[0].sure ? XH_ORDER_TURN : XH_ORDER_MISS;
}

/* ---- periods -------------------------------------------------------------------------------------- */

static int64_t past(const struct xh_order *o, uint64_t back)
{
    return o->past[(o->npast - 1 - back) % PAST];
}

/* 1 when the last |p| differences equal the |p| before them, and are not all the same. */
static int seen_twice(const struct xh_order *o, uint64_t p)
{
    int same = 1;
    for (uint64_t i = 0; i < p; i++) {
        if (past(o, i) != past(o, i + p))
            return 0;
        same &= past(o, i) == past(o, 0);
    }
    return !same;
}

static int adopt(struct xh_order *o, uint64_t p)
{
    for (uint64_t i = 0; i < p; i++)
        o->step[i] = past(o, p - 1 - i);
    o->period = (unsigned)p;
    return 1;
}

/* Adopts the shortest period that was seen twice, if the odometer missed in both: a turn's difference may happen to be
 * that of an inner loop. Returns 1 when there is one. */
static int find_period(struct xh_order *o)
{
    for (uint64_t p = o->npast - o->missed; p <= XH_ORDER_PERIOD && 2 * p <= o->npast; p++)
        if (seen_twice(o, p))
            return adopt(o, p);
    return 0;
}

/* The same where chunks are followed loosely: of a period that was seen twice, and so long that it is no chance. */
static int find_sure_period(struct xh_order *o)
{
    for (uint64_t p = 1; p <= XH_ORDER_PERIOD && 2 * p <= o->npast; p++)
        for (uint64_t i = 0, gaps = 0; i + p < o->npast && i + p < PAST && past(o, i) == past(o, i + p); i++)
            if ((gaps += past(o, i) != 1) >= GAPS_SURE && i + 1 >= p)
                return adopt(o, p);
    return 0;
}

/* ---- the reader ------------------------------------------------------------------------------------ */

static void hit(struct xh_order *o)
{
    o->streak++;
    o->misses = 0;
    o->ahead -= o->ahead > 0;
    for (unsigned k = 0; k < o->loops; k++)
        o->front.unsure &= ~((unsigned)!!o->loop[k].sure << k);
}

static void miss(struct xh_order *o, enum xh_order_event event)
{
    o->before = o->streak;
    o->streak = event != XH_ORDER_MISS && o->before >= XH_ORDER_SURE ? XH_ORDER_SURE - 1 : 0;
    o->misses++;
    o->ahead = 0;
    o->period = 0;
    if (event != XH_ORDER_HIT && find_period(o)) {
        o->streak = XH_ORDER_SURE - 1; /* the earlier period predicted this one; a hit must follow as proof */
        o->before = 0; /* that was another hypothesis */
    }
}

/* Chunks are read about as they lie. */
static void follow_loosely(struct xh_order *o)
{
    start(o, (int64_t)o->cover.to - 1);
    o->loop[0].sure = 1;
    o->before = o->streak;
    o->streak = XH_ORDER_SURE;
    o->misses = o->period = 0;
    o->wrong = 0;
    o->ahead = 0;
    o->lone = 0;
    o->loosely = 1;
}

/* |rank| was read, which lies |late|, or behind chunks that were not read yet. */
static enum xh_order_event read_loosely(struct xh_order *o, int64_t rank, int late)
{
    if (late)
        return XH_ORDER_LATE;
    uint64_t steps = (uint64_t)(rank - o->now.rank);
    o->past[o->npast++ % PAST] = rank - o->now.rank;
    o->ahead -= o->ahead < steps ? o->ahead : steps - 1;
    o->now.rank = rank;
    o->now.at[0] += steps;
    hit(o);
    if (steps > 1 && o->cover.late == 0 && find_sure_period(o)) {
        o->loosely = 0;
        o->ahead = o->now.phase = 0;
    }
    return XH_ORDER_HIT;
}

/* The reader is at |rank|, among what had been passed by, and goes on from there. */
static enum xh_order_event go_back(struct xh_order *o, int64_t rank)
{
    start(o, rank);
    o->loop[0].sure = 1;
    o->before = XH_ORDER_SURE;
    o->streak = XH_ORDER_SURE - 1;
    o->misses = o->strays = 0;
    o->ahead = 0;
    o->loosely = 0;
    o->cover = (struct xh_cover){0};
    xh_cover_note(&o->cover, (struct xh_range){(uint64_t)rank, 1}, 1, 1);
    return XH_ORDER_TURN;
}

/* 1 where what was passed by lately may be what several threads hold: there are such, and no more is missing than was
 * read. Of blocks in no order most is missing at first. */
static int is_dense(const struct xh_order *o)
{
    return o->threads && o->cover.late && o->cover.missing <= o->cover.bytes;
}

enum xh_order_event xh_order_read(struct xh_order *o, int64_t rank, xh_order_look *look, const void *ctx)
{
    unsigned passes = o->passes ? o->passes : 1;
    const struct xh_range here = {(uint64_t)rank, 1};
    if (!o->begun) {
        start(o, rank);
        o->begun = 1;
        o->first_thread = o->thread;
        xh_cover_note(&o->cover, here, 1, passes);
        return XH_ORDER_FIRST;
    }
    if (rank == o->now.rank)
        return XH_ORDER_AGAIN;
    o->threads |= o->thread != o->first_thread;
    uint64_t late = o->cover.late;
    int is_near = xh_cover_note(&o->cover, here, o->streak + 1, passes);
    if (o->loosely && is_near && xh_cover_is_upwards(&o->cover, passes) &&
        (o->cover.late > late || rank > o->now.rank)) {
        o->lone = o->cover.late > late && o->alone && !is_dense(o) ? o->lone + 1 : 0;
        return o->lone >= LONE_SURE ? go_back(o, rank) : read_loosely(o, rank, o->cover.late > late);
    }
    o->loosely = 0;
    if (!is_near)
        o->strays = 0;
    struct xh_order_spot next = o->now;
    int foretold = o->period && walk(o, &next, XH_PLACE_HOLE, look, ctx) == XH_PLACE_CHUNK && next.rank == rank;
    unsigned period = o->period;
    o->past[o->npast++ % PAST] = rank - o->now.rank;
    o->period = 0; /* the odometer learns meanwhile */
    int at_end = o->loop[0].len > XH_ORDER_SURE && ended(o, &o->now, 0); /* of a block, as expected */
    enum xh_order_event event = learn(o, rank, look, ctx);
    if (foretold) {
        o->period = period;
        event = XH_ORDER_HIT;
    }
    o->now.phase = next.phase;
    o->now.unsure = 0;
    o->now.open = 0;
    if (event == XH_ORDER_HIT && (foretold || !period)) {
        hit(o);
        return XH_ORDER_HIT;
    }
    int shown = o->cover.late || o->cover.reads >= SOME_READS;
    o->strays += !at_end || is_dense(o);
    if (o->strays >= STRAYS && shown && xh_cover_is_upwards(&o->cover, passes)) {
        follow_loosely(o);
        return XH_ORDER_TURN;
    }
    miss(o, event);
    o->missed = o->npast;
    o->now.phase = 0;
    return event == XH_ORDER_MISS ? XH_ORDER_MISS : XH_ORDER_TURN;
}

enum xh_order_place xh_order_peek(const struct xh_order *o, struct xh_order_spot *next, xh_order_look *look,
                                  const void *ctx)
{
    *next = o->ahead ? o->front : o->now;
    return walk(o, next, XH_PLACE_HOLE, look, ctx);
}

void xh_order_take(struct xh_order *o, const struct xh_order_spot *next)
{
    o->front = *next;
    o->ahead++;
}

uint64_t xh_order_run(const struct xh_order *o)
{
    if (o->period || !o->begun || o->loop[0].step < 1)
        return 0;
    return o->loop[0].len ? o->loop[0].len : UINT64_MAX;
}

static void shift(struct xh_order_spot *s, unsigned loops, int64_t from, int64_t delta)
{
    if (s->rank >= from)
        s->rank += delta;
    for (unsigned k = 0; k < loops; k++)
        if (s->start[k] >= from)
            s->start[k] += delta;
}

static void shift_cover(struct xh_cover *c, uint64_t from, uint64_t delta)
{
    c->from += c->from >= from ? delta : 0;
    c->first += c->first >= from ? delta : 0;
    c->to += c->to > from ? delta : 0;
    for (unsigned i = 0; i < c->holes.n; i++)
        c->holes.at[i].off += c->holes.at[i].off >= from ? delta : 0;
}

void xh_order_shift(struct xh_order *o, int64_t from, int64_t delta)
{
    shift_cover(&o->cover, (uint64_t)from, (uint64_t)delta);
    if (o->begun)
        shift(&o->now, o->loops, from, delta);
    if (o->ahead)
        shift(&o->front, o->loops, from, delta);
}

int xh_order_direction(const struct xh_order *o)
{
    int64_t sum = 0;
    if (o->period)
        for (unsigned i = 0; i < o->period; i++)
            sum += (o->step[i] > 0) - (o->step[i] < 0);
    else
        for (unsigned k = o->loops; k-- && sum == 0;)
            sum = o->loop[k].sure || k == 0 ? o->loop[k].step : 0;
    return sum < 0 ? -1 : 1;
}
