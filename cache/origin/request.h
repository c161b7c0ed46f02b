/* Jobs and requests: a job is what the origin was asked for (a transfer, or a probe); a
 * request is one slice of it on its way through queue, wire and, where need be, repeats;
 * an exchange is one HTTP request with its reply.
 *
 * A request's states. One function, xh_request_enter, makes the moves and traces them;
 * the engine's lock is held:
 *
 *   NEW      just made                      -> QUEUED           | BOUND (a hedge)
 *   QUEUED   in its endpoint's queue        -> BOUND (dispatch) | OVER (cancel)
 *   BOUND    in a thread's inbox            -> RUNNING (start)  | OVER (cancel)
 *   RUNNING  an exchange is on the wire     -> QUEUED (again: redirect, more to ask, retry at
 *                                              once) | DELAYED (back-off; a stream that stands) | OVER
 *   DELAYED  waits for its time, or reader  -> QUEUED (due)     | OVER (cancel)
 *   OVER     counted off its job, freed */
#ifndef XH_REQUEST_H
#define XH_REQUEST_H

#include "attempt.h"
#include "exchange.h"
#include "origin_object.h"

enum xh_request_state { XH_REQ_NEW, XH_REQ_QUEUED, XH_REQ_BOUND, XH_REQ_RUNNING, XH_REQ_DELAYED, XH_REQ_OVER };

#define XH_DUE_RESUMED UINT64_MAX

/* So long requests wait at most for the one that seeks a target for all of them, as for a reply that is silent
 * (hedge.h): where the first server does not answer, each finds that out in its own time. So long behind its finding a
 * target that refuses another request counts as good for one alone. */
#define XH_SEEKING_MOST_NS 2000000000u

/* Whether a reply that is silent stays on its connection, while RUNNING. */
enum xh_stay {
    XH_STAYS,
    XH_STAYS_UNTIL_STUCK, /* a question's, with the only connection: is asked for anew there once it is stuck */
    XH_STAYS_NO_LONGER    /* it is stuck: leaves its connection, and is asked for anew */
};

/* Whether a stream leaves its connection to others, when its thread looks. */
enum xh_leave {
    XH_LEAVES_NOT,
    XH_LEAVES_STANDING, /* if it still stands then */
    XH_LEAVES_FLOWING   /* whether it stands or not */
};

/* How often a request was stuck. */
enum xh_stuck {
    XH_STUCK_NEVER,
    XH_STUCK_ONCE,
    XH_STUCK_AGAIN /* what came in its place is as silent, and that was judged */
};

struct xh_request {
    /* Constant after creation: */
    struct xh_job *job;
    size_t first; /* its slice of the job's ranges: [first, end) */
    /* Under the lock: */
    size_t end;
    enum xh_request_state state;
    struct xh_ring link;           /* in the ring that the state names */
    struct xh_ring in_job;         /* in job->requests */
    struct xh_endpoint *endpoint;  /* while QUEUED to RUNNING */
    struct xh_thread *thread;      /* while BOUND, RUNNING or DELAYED */
    struct xh_exchange *exchange;  /* while RUNNING */
    int cut;                       /* to be ended by its thread */
    int resume;                    /* to go on, when it stands still */
    enum xh_leave leaves;
    enum xh_stay stay;
    enum xh_stuck stuck;
    int again;                     /* while QUEUED: in the endpoint's ring |again| */
    /* Hedging, see hedge.h. Two twins are BOUND or RUNNING, on the same thread, with the same slice: */
    struct xh_request *twin; /* the other of a pair; NULL: none, or it is over */
    int hedge;               /* while BOUND and RUNNING: the second of a pair */
    int hedged;              /* of a pair, now or once */
    unsigned fresh;          /* 1: over a new connection, whichever there are */
    unsigned opens;          /* 1 while BOUND and RUNNING: on a connection that is opened for it */
    uint64_t behind_ns;      /* while BOUND and RUNNING: the place behind its own, where they go out one by one; or 0 */
    int surplus;             /* the twin brought the slice: to end without a word */
    uint64_t due_ns;               /* while DELAYED; XH_DUE_RESUMED: when its reader goes on */
    uint64_t queued_bytes, queued_requests; /* what it counts for in the queue */
    uint64_t queued_ns;                     /* when it came there, for the time line; 0: nobody looks */
    uint64_t waits_ns;                      /* while QUEUED: since when somebody waits for it, 0: nobody */
    /* Of the thread that runs it; passed on with the state: */
    struct xh_url *url; /* where it was sent by a redirect; NULL: the origin's target */
    unsigned targets;   /* so many the origin had remembered when it was last sent */
    struct xh_jar chain;  /* cookies of the redirects that it follows */
    struct xh_url *leads; /* the login host, while it logs in for all that wait; else NULL */
    struct xh_tries tries;
};

struct xh_job {
    /* Constant after creation: */
    struct xh_origin *origin;
    enum xh_ask ask;
    struct xh_transfer *transfer; /* RANGES, else NULL */
    struct xh_probe *probe;       /* HEAD and STAT, else NULL */
    int hint; /* its transfer is one, as far as is known: for the time line */
    void (*over)(struct xh_job *j); /* tells the owner; on an engine thread, no lock held */
    _Atomic int speculative; /* written under the lock; the thread of a reply counts by it, relaxed */
    /* Under the lock: */
    struct xh_ring requests;
    struct xh_ring in_origin;   /* in origin->jobs */
    struct xh_ring in_finished; /* in a thread's finished ring */
    int lost;          /* some request ended without all its bytes */
    struct xh_err err; /* the first failure; code 0: none */
    /* Each entry belongs to the thread that runs the request whose slice it lies in: */
    uint64_t *got; /* bytes of each range that were handed over */
    uint64_t got_one;
    struct xh_request first_request;
};

/* Moves |r| to |state|, tracing it. Lock held. The rings are the caller's work. */
void xh_request_enter(struct xh_request *r, enum xh_request_state state);

/* Bytes and HTTP requests that |r| still stands for at a server that bears |limits|; lock held, not RUNNING but by this
 * thread. */
void xh_request_weigh(struct xh_request *r, struct xh_limits *limits);

/* Where |r| goes next: its redirect, the origin's remembered target, or the original URL: also after it was to go by
 * that, where another request has found a target since. Lock held. */
struct xh_url *xh_request_url(const struct xh_request *r);

/* Decides what |r| asks for now of a server that bears |limits|, and fills |x|, all zero before, but for |arrived|;
 * slices off what does not fit, which comes back in |*rest| as a NEW request of the job (or NULL). Lock held. */
void xh_request_prepare(struct xh_request *r, struct xh_exchange *x, struct xh_limits *limits,
                        struct xh_request **rest);

/* 1 when [from, end) of |j|'s ranges holds one of which bytes are missing. The thread that runs that slice. */
int xh_job_lacks(const struct xh_job *j, size_t from, size_t end);

/* What |r| is for, as the time line has it. Threads: any. */
const char *xh_request_kind(const struct xh_request *r);

#endif
