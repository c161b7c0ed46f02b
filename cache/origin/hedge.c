/* Hedging: when is a reply a straggler? See hedge.h.
 *
 * Hardly ever by the clock alone: a server or a link that is slow for all is not helped by more
 * requests. A straggler is behind peers that ended while it stood still, or beside it. But where a queue is full, the
 * packets of one connection may be lost again and again, each sent after twice the time: then another may be luckier. */
#include "hedge.h"

#include "base/now.h"
#include "endpoint.h"
#include "request.h"

#define FAR 4                     /* times worse than the worst of the peers */
#define QUIET_LEAST_NS 100000000u /* below, a retransmission or a busy processor explains it */
#define STUCK_LEAST_NS 2000000000u
#define TRICKLE_LEAST_NS 500000000u
#define TRICKLE_ROUND_TRIPS 16    /* slow start is over then */
#define TRICKLE_PEERS 2
#define RATE_MIN_BYTES 131072u    /* less than this says more about latency than about rate */
#define REPLIES_PER_HEDGE 8
#define REPLIES_KEPT (2 * REPLIES_PER_HEDGE)
#define HEDGES_AT_ONCE 2
#define LOOK_LEAST_NS 50000000u

void xh_hedge_note(struct xh_peers *p, const struct xh_exchange *x)
{
    if (x->fresh == 0 || (x->job->transfer && x->job->transfer->full)) /* a stream stands still by its reader's will */
        return;
    p->last[p->next].end_ns = x->last_ns;
    p->last[p->next].quiet_ns = x->quiet_ns;
    p->last[p->next].rate = x->body_bytes >= RATE_MIN_BYTES && x->last_ns > x->first_ns
                                ? (double)x->body_bytes / (double)(x->last_ns - x->first_ns)
                                : 0;
    p->next = (p->next + 1) % XH_PEERS;
    if (p->replies < REPLIES_KEPT)
        p->replies++;
}

int xh_hedge_allowed(const struct xh_peers *p, const struct xh_exchange *x, uint64_t now)
{
    int stuck = p->hedges == 0 && now - x->last_ns >= STUCK_LEAST_NS;
    return stuck || (p->hedges < HEDGES_AT_ONCE && p->replies >= REPLIES_PER_HEDGE);
}

void xh_hedge_spend(struct xh_peers *p)
{
    p->hedges++;
    p->replies -= p->replies < REPLIES_PER_HEDGE ? p->replies : REPLIES_PER_HEDGE;
}

static uint64_t bytes_left(const struct xh_exchange *x)
{
    const struct xh_job *j = x->job;
    uint64_t n = 0;
    for (size_t i = x->asked_first; i < x->asked_end; i++)
        n += j->transfer->ranges[i].len - j->got[i];
    return n;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* How long any reply may be silent: far longer than each of the last ones was. */
static uint64_t patience(const struct xh_peers *p, double rtt_ns)
{
    uint64_t ns = larger(QUIET_LEAST_NS, (uint64_t)(FAR * rtt_ns));
    for (unsigned i = 0; i < XH_PEERS; i++)
        ns = larger(ns, FAR * p->last[i].quiet_ns);
    return ns;
}

/* 1 when |x| comes far slower than the slowest peer that ended beside it, and would take long. */
static int trickles(const struct xh_peers *p, const struct xh_exchange *x, uint64_t now, uint64_t quiet_ns)
{
    double rate = (double)x->body_bytes / (double)(now - x->first_ns + 1);
    unsigned peers = 0;
    for (unsigned i = 0; i < XH_PEERS; i++)
        if (p->last[i].end_ns > x->sent_ns && p->last[i].rate > 0) {
            if (rate * FAR >= p->last[i].rate)
                return 0;
            peers++;
        }
    return peers >= TRICKLE_PEERS && (double)bytes_left(x) > rate * (double)quiet_ns;
}

uint64_t xh_hedge_wait(const struct xh_peers *p, double rtt_ns, const struct xh_exchange *x, uint64_t now)
{
    if (!x->last_ns || now < x->last_ns)
        return QUIET_LEAST_NS; /* still being connected */
    uint64_t limit = patience(p, rtt_ns), quiet = now - x->last_ns, age = now - x->sent_ns;
    uint64_t stuck = larger(STUCK_LEAST_NS, limit);
    uint64_t silent = quiet < limit ? limit - quiet : larger(quiet / 2, LOOK_LEAST_NS);
    if (quiet >= limit && bytes_left(x) > 0) {
        for (unsigned i = 0; i < XH_PEERS; i++)
            if (p->last[i].end_ns > x->last_ns)
                return 0;
        if (quiet >= stuck)
            return 0;
    }
    uint64_t grown = larger(TRICKLE_LEAST_NS, (uint64_t)(TRICKLE_ROUND_TRIPS * rtt_ns));
    uint64_t slow = age < grown ? grown - age : larger(age / 4, LOOK_LEAST_NS);
    if (age >= grown && x->first_ns && trickles(p, x, now, limit))
        return 0;
    return silent < slow ? silent : slow;
}

/* Can |r|, RUNNING, be asked for twice, now or later? */
static int may_straggle(const struct xh_request *r)
{
    return r->job->transfer && !r->job->transfer->full && !r->hedged && !r->cut;
}

uint64_t xh_hedge_running(struct xh_thread *t)
{
    uint64_t now = xh_now_ns(), nearest = UINT64_MAX;
    for (struct xh_ring *p = t->running.next; p != &t->running; p = p->next) {
        struct xh_request *r = xh_ring_of(p, struct xh_request, link);
        if (!may_straggle(r))
            continue;
        const struct xh_exchange *x = r->exchange;
        uint64_t wait = xh_hedge_wait(&r->endpoint->peers, r->endpoint->rtt_ns, x, now);
        if (wait == 0) {
            /* A guess may yet be waited for; a hedge may be allowed when others are over. */
            if (!r->job->speculative && xh_endpoint_hedge(r) == 0)
                continue;
            wait = larger((now - x->last_ns) / 2, LOOK_LEAST_NS);
        }
        if (wait < nearest)
            nearest = wait;
    }
    return nearest;
}
