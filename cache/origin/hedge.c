/* Hedging: when is a reply a straggler? See hedge.h.
 *
 * By what the server's last replies have taken: a server or a link that is slow for all is not helped by more requests,
 * and by the first replies that are late it is known as such. A request or a reply of one packet that is lost is sent
 * again after 200 ms at the soonest, and where a queue is full again and again, each time after twice as long: another
 * connection is mostly luckier. */
#include "hedge.h"

#include <math.h>

#include "exchange.h"
#include "link.h"

#define FAR 4                     /* times worse than the worst of the peers */
#define QUIET_LEAST_NS 100000000u /* half of the least time-out of TCP; a busy server is often silent for less */
#define STUCK_LEAST_NS 2000000000u
#define VAIN_MOST 4               /* then patience is longer than the usual time-out */
#define DRAIN_ROUND_TRIPS 2       /* what was on its way when a link broke down is there by then */
#define AWAKE_PART 4              /* of that time; a server that was silent as a whole sends on all connections again */
#define TRICKLE_LEAST_NS 500000000u
#define TRICKLE_ROUND_TRIPS 16    /* slow start is over then */
#define PEERS_LEAST 2
#define REPLIES_PER_HEDGE 8
#define REPLIES_KEPT (2 * REPLIES_PER_HEDGE)
#define HEDGES_AT_ONCE 2

/* What was learnt of a server's pauses need not be so for ever. */
static void note_calm(struct xh_peers *p, const struct xh_exchange *x)
{
    p->calm = x->quiet_ns < STUCK_LEAST_NS ? p->calm + 1 : 0;
    if (p->calm == XH_PEERS) {
        p->calm = 0;
        p->vain -= p->vain > 0;
    }
}

void xh_hedge_note(struct xh_peers *p, const struct xh_exchange *x)
{
    const struct xh_transfer *t = x->transfer;
    if (x->fresh == 0)
        return;
    note_calm(p, x);
    if (t && t->full && !t->goes_on) /* a stream stands still by its reader's will */
        return;
    p->last[p->next].end_ns = x->last_ns;
    p->last[p->next].quiet_ns = x->quiet_ns;
    p->last[p->next].rate = x->body_bytes >= XH_LINK_RATE_LEAST_BYTES && x->last_ns > x->first_ns
                                ? (double)x->body_bytes / (double)(x->last_ns - x->first_ns)
                                : 0;
    p->next = (p->next + 1) % XH_PEERS;
    if (p->replies < REPLIES_KEPT)
        p->replies++;
}

uint64_t xh_hedge_since_ns(const struct xh_exchange *x)
{
    return x->last_ns ? x->last_ns : x->begun_ns;
}

uint64_t xh_hedge_quiet_ns(const struct xh_exchange *x, uint64_t now)
{
    uint64_t since = xh_hedge_since_ns(x);
    return now > since ? now - since : 0;
}

int xh_hedge_is_heard(double rtt_ns, const struct xh_exchange *x, uint64_t heard_ns)
{
    return heard_ns > xh_hedge_since_ns(x) + (uint64_t)(DRAIN_ROUND_TRIPS * rtt_ns);
}

int xh_hedge_allowed(const struct xh_peers *p, const struct xh_exchange *x, uint64_t now)
{
    int stuck = p->hedges == 0 && xh_hedge_quiet_ns(x, now) >= STUCK_LEAST_NS;
    return stuck || (p->hedges < HEDGES_AT_ONCE && p->replies >= REPLIES_PER_HEDGE);
}

void xh_hedge_spend(struct xh_peers *p)
{
    p->hedges++;
    p->replies -= p->replies < REPLIES_PER_HEDGE ? p->replies : REPLIES_PER_HEDGE;
}

static uint64_t bytes_left(const struct xh_exchange *x)
{
    uint64_t n = 0;
    for (size_t i = x->asked_first; i < x->asked_end; i++)
        n += x->transfer->ranges[i].len - x->got[i];
    return n;
}

/* How long any reply may be silent: far longer than each of the last ones was. */
static uint64_t patience(const struct xh_peers *p, double rtt_ns)
{
    int is_known = p->last[0].end_ns > 0;
    uint64_t ns = xh_max64(is_known ? QUIET_LEAST_NS : STUCK_LEAST_NS, (uint64_t)(FAR * rtt_ns));
    for (unsigned i = 0; i < XH_PEERS; i++)
        ns = xh_max64(ns, FAR * p->last[i].quiet_ns);
    return ns;
}

uint64_t xh_hedge_stuck_ns(double rtt_ns)
{
    return xh_max64(STUCK_LEAST_NS, (uint64_t)(FAR * rtt_ns));
}

void xh_hedge_judge(struct xh_peers *p, double rtt_ns, const struct xh_exchange *x, uint64_t now)
{
    uint64_t limit = xh_hedge_stuck_ns(rtt_ns);
    int was_silent = xh_hedge_quiet_ns(x, now) >= limit, went_on = x->last_ns - x->sent_ns >= limit;
    if (x->fresh && (went_on || !was_silent)) {
        p->vain = 0;
    } else if (x->sent_ns >= p->vain_ns && p->vain < VAIN_MOST) { /* many at once are one lesson */
        p->vain++;
        p->vain_ns = now;
    }
}

uint64_t xh_hedge_stuck(struct xh_peers *p, double rtt_ns, const struct xh_exchange *x, uint64_t heard_ns,
                        uint64_t now)
{
    uint64_t limit = xh_hedge_stuck_ns(rtt_ns), quiet = xh_hedge_quiet_ns(x, now);
    uint64_t least = xh_max64(limit << p->vain, FAR * x->quiet_ns);
    if (heard_ns > p->heard_ns + limit)
        p->woke_ns = heard_ns;
    p->heard_ns = xh_max64(heard_ns, p->heard_ns);
    uint64_t awake = now > p->woke_ns ? now - p->woke_ns : 0;
    int heard = xh_hedge_is_heard(rtt_ns, x, heard_ns);
    if (quiet < least)
        return least - quiet;
    if (!heard && p->anew_ns && heard_ns <= p->anew_ns)
        return XH_HEDGE_LOOK_NS; /* nothing has come of the one that was given up last */
    if (heard && awake < limit / AWAKE_PART)
        return limit / AWAKE_PART - awake;
    p->anew_ns = now;
    return 0;
}

/* The rate (bytes per ns) of the slowest peer that ended beside |x|; 0: too few did. */
static double slowest_beside(const struct xh_peers *p, const struct xh_exchange *x)
{
    double rate = 0;
    unsigned peers = 0;
    for (unsigned i = 0; i < XH_PEERS; i++)
        if (p->last[i].end_ns > x->sent_ns && p->last[i].rate > 0) {
            rate = peers == 0 || p->last[i].rate < rate ? p->last[i].rate : rate;
            peers++;
        }
    return peers >= PEERS_LEAST ? rate : 0;
}

static double rate_of(const struct xh_exchange *x, uint64_t now)
{
    return (double)x->body_bytes / (double)(now - x->first_ns + 1);
}

/* 1 when |x| comes far slower than the slowest peer that ended beside it, and would take long. */
static int trickles(const struct xh_peers *p, const struct xh_exchange *x, uint64_t now, uint64_t quiet_ns)
{
    double rate = rate_of(x, now);
    return rate * FAR < slowest_beside(p, x) && (double)bytes_left(x) > rate * (double)quiet_ns;
}

int xh_hedge_lags(const struct xh_peers *p, double rtt_ns, const struct xh_exchange *x, uint64_t now)
{
    double peer = slowest_beside(p, x), came = (double)x->body_bytes;
    if (peer == 0 || rtt_ns <= 0 || !x->first_ns || now <= x->first_ns || came == 0)
        return 0;
    double left = (double)bytes_left(x);
    /* It brings the rest at its rate so far, or as much as that in the next round trip, twice as much in the one after
     * that, and so on: whichever is sooner. */
    double steady = left / rate_of(x, now), grows = rtt_ns * log1p(left / came) / M_LN2;
    return (steady < grows ? steady : grows) > rtt_ns + left / peer + rtt_ns;
}

uint64_t xh_hedge_wait(const struct xh_peers *p, double rtt_ns, const struct xh_exchange *x, uint64_t now)
{
    uint64_t quiet = xh_hedge_quiet_ns(x, now), stuck = xh_hedge_stuck_ns(rtt_ns);
    if (!x->last_ns) /* still being connected, or on a connection that died meanwhile */
        return quiet < stuck ? stuck - quiet : 0;
    uint64_t limit = patience(p, rtt_ns), age = now - x->sent_ns;
    uint64_t silent = quiet < limit ? limit - quiet : xh_max64(quiet / 2, XH_HEDGE_LOOK_NS);
    if (quiet >= limit && bytes_left(x) > 0)
        return 0;
    uint64_t grown = xh_max64(TRICKLE_LEAST_NS, (uint64_t)(TRICKLE_ROUND_TRIPS * rtt_ns));
    uint64_t slow = age < grown ? grown - age : xh_max64(age / 4, XH_HEDGE_LOOK_NS);
    if (age >= grown && x->first_ns && trickles(p, x, now, limit))
        return 0;
    return silent < slow ? silent : slow;
}
