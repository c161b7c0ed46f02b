/* Making way: see way.h. */
#include "way.h"

#include "base/now.h"
#include "watch/trace.h"
#include "control.h"
#include "engine.h"
#include "request.h"

/* Streams that are looked at: more than any server has. */
#define LOOKED_AT 128

struct stream {
    struct xh_request *r;
    uint64_t stood; /* ns; 0: it goes on */
    unsigned beside; /* streams of its file, and itself, that do not leave */
    int leaves;
};

/* The streams of |e| that run. Returns their number. */
static unsigned streams_of(const struct xh_endpoint *e, struct stream *out)
{
    uint64_t now = xh_now_ns();
    unsigned n = 0;
    for (unsigned i = 0; i < xh_engine_threads(); i++) {
        struct xh_thread *t = xh_engine_thread(i);
        xh_ring_each (struct xh_request, r, link, &t->running) {
            if (n == LOOKED_AT || r->endpoint != e || !r->exchange || !r->job->transfer || !r->job->transfer->full)
                continue;
            uint64_t since = r->resume ? 0 : xh_exchange_stands(r->exchange);
            out[n++] = (struct stream){.r = r, .stood = since && since < now ? now - since : 0,
                                       .leaves = r->leaves || r->cut};
        }
    }
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < n; k++)
            out[i].beside += !out[k].leaves && out[k].r->job->origin == out[i].r->job->origin;
    return n;
}

/* The one of |s| that may leave soonest, and of those the one that has stood for longest; NULL: none stands still.
 * |*wait|: how long (ns) until it may. */
static struct stream *next(struct stream *s, unsigned n, double opening_ns, unsigned most, uint64_t *wait)
{
    struct stream *best = NULL;
    *wait = UINT64_MAX;
    for (unsigned i = 0; i < n; i++) {
        if (s[i].stood == 0 || s[i].leaves)
            continue;
        uint64_t least = xh_control_stands_for(opening_ns, s[i].beside, most);
        uint64_t left = s[i].stood < least ? least - s[i].stood : 0;
        if (left < *wait || (left == *wait && best && s[i].stood > best->stood)) {
            *wait = left;
            best = &s[i];
        }
    }
    return best;
}

static void leave(struct stream *s, unsigned n, struct stream *one)
{
    one->leaves = 1;
    for (unsigned i = 0; i < n; i++)
        s[i].beside -= s[i].r->job->origin == one->r->job->origin;
}

unsigned xh_way_free(const struct xh_endpoint *e, double opening_ns, unsigned most)
{
    struct stream s[LOOKED_AT], *one;
    unsigned n = streams_of(e, s), gone = 0;
    uint64_t wait;
    for (; (one = next(s, n, opening_ns, most, &wait)) && wait == 0; gone++)
        leave(s, n, one);
    return gone;
}

static void tell(struct stream *one, enum xh_leave how)
{
    xh_trace(XH_T_ORIGIN, "leave", "id=%p stood_ms=%llu", (void *)one->r, (unsigned long long)(one->stood / 1000000u));
    one->r->leaves = how;
    one->r->thread->cuts = 1;
    xh_engine_wake(one->r->thread);
}

/* What others may have claimed, and wait for, is not left. */
void xh_way_force(const struct xh_endpoint *e)
{
    struct stream s[LOOKED_AT], *best = NULL;
    unsigned n = streams_of(e, s);
    int most = 0;
    for (unsigned i = 0; i < n; i++) {
        if (s[i].leaves)
            return; /* that is one */
        int suits = s[i].stood ? 2 : s[i].r->job->speculative ? 1 : 0;
        if (s[i].r->job->transfer->goes_on || (best && suits <= most))
            continue;
        most = suits;
        best = &s[i];
    }
    if (best)
        tell(best, XH_LEAVES_FLOWING);
}

uint64_t xh_way_make(const struct xh_endpoint *e, double opening_ns, unsigned most, unsigned wanted)
{
    struct stream s[LOOKED_AT];
    unsigned n = streams_of(e, s), leaving = 0;
    uint64_t wait = 0;
    for (unsigned i = 0; i < n; i++)
        leaving += (unsigned)s[i].leaves;
    for (; leaving < wanted; leaving++) {
        struct stream *one = next(s, n, opening_ns, most, &wait);
        if (!one || wait)
            return wait;
        leave(s, n, one);
        tell(one, XH_LEAVES_STANDING);
    }
    return 0; /* what comes of it is seen when they have left */
}
