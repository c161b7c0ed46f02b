/* Endpoints: one server each, with its queues, its connections and what was measured of it.
 *
 * Scheduling in one sentence: demand before speculation, first come first served; a request
 * starts on a thread that has an idle connection, and on a new connection while there are
 * fewer than the cap and waiting for the busy ones would take longer than opening one does. */
#ifndef XH_ENDPOINT_H
#define XH_ENDPOINT_H

#include <stdatomic.h>

#include "control.h"
#include "engine.h"
#include "hedge.h"
#include "link.h"
#include "origin_object.h"
#include "request.h"

/* Where a server tells a file's date or tag. */
enum xh_dates { XH_DATES_UNKNOWN, XH_DATES_IN_REPLIES, XH_DATES_APART /* by PROPFIND alone, as XRootD */ };

struct xh_endpoint {
    char *server; /* constant: "https://host:port" */
    struct xh_endpoint *next;
    /* Under the engine's lock: */
    /* QUEUED requests. Those that were under way before go first, of either kind: what a
     * redirect's target was told does not stay good for ever. */
    struct xh_ring again, demand, speculative;
    uint64_t queued_bytes, queued_requests;  /* in all three */
    unsigned waiting;                        /* of them, requests that are no streams */
    /* How long those have waited, in all, since one got a new connection; until then. */
    uint64_t waited_ns, waited_at_ns;
    unsigned active, active_guesses;         /* BOUND and RUNNING; speculative ones that are no streams */
    unsigned streams, queued_streams;        /* those that may stand still of the active, and of the queued ones */
    unsigned opening;                        /* of the others, those that opened their connection */
    uint64_t active_bytes;                   /* what those were to bring when they were bound */
    struct {
        unsigned active;
        double brought; /* body bytes of its replies that are over */
        atomic_uint sockets; /* written by its thread alone; hints to others, order nothing */
    } thread[XH_THREADS_MAX];
    enum xh_dates dates; /* as the last opening found it */
    int told_whole; /* that it sends no parts of files */
    int in_vain;    /* its last file that came whole was hardly read */
    struct xh_limits limits; /* what it bears: of several ranges in a request, of requests at once */
    uint64_t held_ns;        /* it has asked to be left alone until then; 0: it has not */
    uint64_t paced_ns;       /* where requests go out one by one: when the next one may that has no place yet; or 0 */
    uint64_t left_ns;        /* it was, or will be, left alone until then: who waits for that waits for no connection */
    struct xh_link link;             /* what was measured */
    struct xh_trial trial;           /* how many connections pay */
    struct xh_peers peers;           /* what stragglers are measured by */
    uint64_t doubt_ns;               /* a reply was stuck since then: what idled by then may be as dead; 0: none was */
    uint64_t lost_ns;                /* no connection could be made then, or a reply was stuck since then: its name may
                                      * lead elsewhere by now; 0: never */
    atomic_ullong arrived;           /* body bytes; without the lock, orders nothing */
    atomic_ullong heard_ns;          /* when the last came that was wanted; the same */
};

enum xh_place {
    XH_PLACE_LAST,  /* behind all others of its kind */
    XH_PLACE_FIRST, /* the rest of a request that just started: before the others */
    XH_PLACE_AGAIN, /* it was under way before */
};

/* How many connections this process, or all of them, may have to the server of |e| for |o|'s sake; no more than it
 * takes, if |e| is not NULL. Lock held. */
unsigned xh_endpoint_share(const struct xh_endpoint *e, const struct xh_origin *o);
unsigned xh_endpoint_allowed(const struct xh_endpoint *e, const struct xh_origin *o);

/* Puts |r| (in no ring) into the queue of its server. Does not start anything. Lock held.
 * Returns 0, or -1 without memory. */
int xh_endpoint_queue(struct xh_request *r, enum xh_place place);

/* Takes a QUEUED or BOUND |r| out again. Lock held. */
void xh_endpoint_take(struct xh_request *r);

/* A reader waits for |r| now, whose job has just ceased to be speculative. Nothing may be dispatched
 * between that and the call: what is bound meanwhile would be counted as demand, and then again
 * here. Lock held. */
void xh_endpoint_promote(struct xh_request *r);

/* The server of |e| has asked to be left alone for |ms|: nothing is sent to it until then, whatever it is for and
 * whichever file's. What is under way goes on. xh_endpoints_look sees to what waits. Lock held. */
void xh_endpoint_hold(struct xh_endpoint *e, uint64_t ms);

/* 1 while |e| is left alone, as it asked for. Lock held. */
int xh_endpoint_is_held(const struct xh_endpoint *e);

/* 1 when nothing is sent to |e| now: it is left alone, or requests go out one by one. Lock held. */
int xh_endpoint_is_closed(const struct xh_endpoint *e);

/* The same for clients with connections of their own (dav_ask.c): of |server|, known or not; without memory nothing is
 * held. The caller wakes the engine's threads, which see to what waits. Lock held. */
void xh_endpoint_hold_server(const char *server, uint64_t ms);

/* How long (ns) the caller is to wait until it asks |server|; 0: it may now. Where requests go out one by one it has
 * the next place, before what is queued; |*turn_ns|, 0 at first, keeps it. Lock held. */
uint64_t xh_endpoint_turn_ns(const char *server, uint64_t *turn_ns);

/* Binds as many queued requests to threads as may start, and wakes those. Lock held. */
void xh_endpoint_dispatch(struct xh_endpoint *e);

/* Dispatches where the next request that somebody waits for has waited, at |now|, as long as a connection takes to be
 * opened, or the server need not be left alone any more. Returns how long (ns) until that is true of another. Lock
 * held. */
uint64_t xh_endpoints_look(uint64_t now);

/* Asks again for what is missing of |r|, RUNNING on this thread: binds a twin to it. Lock held.
 * Returns 0, or -1: not now, as too many run or were asked for twice. */
int xh_endpoint_hedge(struct xh_request *r);

/* A reply of |e| is stuck on its connection since |since_ns|: those that idle since then, or for longer, may be as
 * dead, as where a middlebox has forgotten them, or the client's address has changed. They are not used any more.
 * Lock held. */
void xh_endpoint_doubt(struct xh_endpoint *e, uint64_t since_ns);

/* |r|, which was given up as it was stuck, is over, whether it was brought or not: another one may be given up. Lock
 * held. */
void xh_endpoint_stuck_is_over(const struct xh_request *r);

/* A RUNNING |r| has finished its exchange |x|. Lock held. */
void xh_endpoint_release(struct xh_request *r, const struct xh_exchange *x);

/* The endpoint of |server|, or NULL. Lock held. */
struct xh_endpoint *xh_endpoint_find(const char *server);

/* What another process has measured, of a server that this one does not know yet. Lock held. */
void xh_endpoint_tell(const char *server, double rtt_ns);

/* |server| tells files' dates by PROPFIND alone, as another process found. Lock held. */
void xh_endpoint_tell_apart(const char *server);

/* Takes every queued request out into |ring|: at exit. Lock held. */
void xh_endpoint_drain(struct xh_ring *ring);

/* Forgets all endpoints, which belonged to the engine of a fork's parent. Lock held. */
void xh_endpoint_forget(void);

/* How many connections to |e| (NULL: not known yet) may be busy for |o|'s sake, besides streams, with requests for
 * |bytes| each; one of them is for demand alone. At least 1. Lock held. */
unsigned xh_endpoint_most(const struct xh_endpoint *e, const struct xh_origin *o, uint64_t bytes);

/* How many connections to |e| there are. Lock held. */
unsigned xh_endpoint_sockets_open(const struct xh_endpoint *e);

/* Fills in |out|'s open, idle and warm: the connections to |e| (NULL: none yet). Lock held. */
void xh_endpoint_open(const struct xh_endpoint *e, struct xh_origin_info *out);

/* How many connections to |e| (NULL: none yet) streams have that they would not leave to others at once, where |most|
 * may be open. Lock held. */
unsigned xh_endpoint_streams(const struct xh_endpoint *e, unsigned most);

/* 1 when |r|, which is in no queue, may be sent without more connections than its file may have. Lock held. */
int xh_endpoint_has_room(const struct xh_request *r);

/* Where thread |index| counts its open sockets to |e|. Stays valid. That thread, no lock. */
atomic_uint *xh_endpoint_sockets(struct xh_endpoint *e, unsigned index);

#endif
