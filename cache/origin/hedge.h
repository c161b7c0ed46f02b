/* Hedging: a reply that straggles far behind its peers is asked for again, once, on another
 * connection. This file decides when; endpoint.c makes the second request, engine.c settles
 * which of the two counts.
 *
 * A pair lives on one engine thread, so that the bytes of its slice are counted by that thread
 * alone. Whichever brings the last byte wins, and the other is cut; one that fails while the
 * other lives ends without a word. One that is redirected while nothing has come of the other goes on alone. */
#ifndef XH_HEDGE_H
#define XH_HEDGE_H

#include <stdint.h>

#define XH_PEERS 16u
#define XH_HEDGE_LOOK_NS 50000000u /* what straggles, and may not be asked for again yet, is looked at so often at
                                    * most */

struct xh_exchange;

/* What the last replies of a server were like, and what may be hedged. Under the engine's lock. */
struct xh_peers {
    struct {
        uint64_t end_ns;   /* 0: no such reply yet */
        uint64_t quiet_ns; /* longest wait for a byte in it */
        double rate;       /* bytes per ns; 0: too short to tell */
    } last[XH_PEERS];
    unsigned next;    /* entry to be written */
    unsigned replies; /* not yet spent on hedges, up to a limit */
    unsigned hedges;  /* bound or running */
    unsigned vain;    /* how often it was in vain to give up one that was stuck */
    unsigned calm;    /* replies since one was silent for long */
    uint64_t vain_ns; /* when that was found last */
    uint64_t anew_ns; /* when a stuck one was given up last; 0: never */
    uint64_t heard_ns, woke_ns; /* when the server was heard last, and first behind a silence as long as that of a stuck
                                 * one, as far as one was looked at */
};

/* |x|, over, brought bytes that were wanted. */
void xh_hedge_note(struct xh_peers *p, const struct xh_exchange *x);

/* Since when nothing has come of |x|, also while it is being connected; and for how long. Thread of |x|. */
uint64_t xh_hedge_since_ns(const struct xh_exchange *x);
uint64_t xh_hedge_quiet_ns(const struct xh_exchange *x, uint64_t now);

/* 1 when the server, heard last at |heard_ns|, over any connection, has answered since nothing comes of |x|: what was
 * on its way before that does not count. The same. */
int xh_hedge_is_heard(double rtt_ns, const struct xh_exchange *x, uint64_t heard_ns);

/* 1 when a server may be sent one more hedge, for |x|: few replies in all are asked for twice, and of those that are
 * stuck one at a time. */
int xh_hedge_allowed(const struct xh_peers *p, const struct xh_exchange *x, uint64_t now);
void xh_hedge_spend(struct xh_peers *p);

/* In how many ns |x|, which runs, should be looked at again; 0: it straggles now. Thread of |x|. */
uint64_t xh_hedge_wait(const struct xh_peers *p, double rtt_ns, const struct xh_exchange *x, uint64_t now);

/* The same of a reply that may be given up for another: a stream's that does not stand still, as it may lack much, or
 * one for whose hedge there is no connection. |heard_ns|: when the server was heard last, over any connection. 0: it
 * is stuck now, and noted. Where nothing came over the others either, it may be the link, or the server, and the reply
 * goes on where it was: then one alone is given up, and no further one until the server is heard. Where it has just
 * come back, all are given time to. */
uint64_t xh_hedge_stuck(struct xh_peers *p, double rtt_ns, const struct xh_exchange *x, uint64_t heard_ns,
                        uint64_t now);
uint64_t xh_hedge_stuck_ns(double rtt_ns); /* how long it has been silent then, at least */

/* |x| was asked for in place of one that was given up, and is over, or as silent. If it brought nothing, or became
 * silent as soon, each may be silent for twice as long, until one helps, or some replies were never silent. Thread of
 * |x|. */
void xh_hedge_judge(struct xh_peers *p, double rtt_ns, const struct xh_exchange *x, uint64_t now);

/* 1 when a second request for the rest of |x|, over a connection that idles, would end more than a round trip sooner:
 * as fast as the slowest reply that ended beside |x|. Thread of |x|. */
int xh_hedge_lags(const struct xh_peers *p, double rtt_ns, const struct xh_exchange *x, uint64_t now);

#endif
