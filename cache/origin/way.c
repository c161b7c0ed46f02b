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
    int leaves;
};

/* The streams of |e| that run. Returns their number. */
static unsigned streams_of(const struct xh_endpoint *e, struct stream *out)
{
    uint64_t now = xh_now_ns();
    unsigned n = 0;
    for (unsigned i = 0; i < xh_engine_threads(); i++) {
        struct xh_thread *t = xh_engine_thread(i);
        for (struct xh_ring *p = t->running.next; p != &t->running && n < LOOKED_AT; p = p->next) {
            struct xh_request *r = xh_ring_of(p, struct xh_request, link);
            if (r->endpoint != e || !r->exchange || !r->job->transfer || !r->job->transfer->full)
                continue;
            uint64_t since = xh_exchange_stands(r->exchange);
            out[n++] = (struct stream){r, since && since < now ? now - since : 0, r->leaves || r->cut};
        }
    }
    return n;
}

/* The one of |s| that has stood for longest and does not leave, or NULL. |*wait|: how long until it may. */
static struct stream *next(struct stream *s, unsigned n, double opening_ns, unsigned most, uint64_t *wait)
{
    struct stream *best = NULL;
    *wait = UINT64_MAX;
    for (unsigned i = 0; i < n; i++) {
        unsigned has = 0;
        if (s[i].stood == 0 || s[i].leaves)
            continue;
        for (unsigned k = 0; k < n; k++)
            has += !s[k].leaves && s[k].r->job->origin == s[i].r->job->origin;
        uint64_t least = xh_control_stands_for(opening_ns, has, most);
        uint64_t left = s[i].stood < least ? least - s[i].stood : 0;
        if (left < *wait || (left == *wait && best && s[i].stood > best->stood)) {
            *wait = left;
            best = &s[i];
        }
    }
    return best;
}

unsigned xh_way_free(const struct xh_endpoint *e, double opening_ns, unsigned most)
{
    struct stream s[LOOKED_AT], *one;
    unsigned n = streams_of(e, s), leave = 0;
    uint64_t wait;
    while ((one = next(s, n, opening_ns, most, &wait)) && wait == 0) {
        one->leaves = 1;
        leave++;
    }
    return leave;
}

uint64_t xh_way_make(const struct xh_endpoint *e, double opening_ns, unsigned most)
{
    struct stream s[LOOKED_AT];
    unsigned n = streams_of(e, s);
    uint64_t wait;
    for (unsigned i = 0; i < n; i++)
        if (s[i].leaves)
            return 0; /* what comes of it is seen when it has left */
    struct stream *one = next(s, n, opening_ns, most, &wait);
    if (!one || wait)
        return wait;
    xh_trace(XH_T_ORIGIN, "leave", "id=%p stood_ms=%llu", (void *)one->r, (unsigned long long)(one->stood / 1000000u));
    one->r->leaves = 1;
    one->r->thread->cuts = 1;
    xh_engine_wake(one->r->thread);
    return 0;
}
