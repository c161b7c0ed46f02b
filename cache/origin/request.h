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
 *                                              once) | DELAYED (back-off) | OVER
 *   DELAYED  waits for its time             -> QUEUED (due)     | OVER (cancel)
 *   OVER     counted off its job, freed */
#ifndef XH_REQUEST_H
#define XH_REQUEST_H

#include "auth.h"
#include "dialect.h"
#include "origin.h"
#include "proxy.h"
#include "response.h"
#include "ring.h"
#include "url.h"
#include "wire.h"

enum xh_ask {
    XH_ASK_RANGES, /* GET of a job's ranges */
    XH_ASK_HEAD,   /* GET of the object's first bytes, perhaps conditional */
    XH_ASK_STAT,   /* PROPFIND */
};

enum xh_request_state { XH_REQ_NEW, XH_REQ_QUEUED, XH_REQ_BOUND, XH_REQ_RUNNING, XH_REQ_DELAYED, XH_REQ_OVER };

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
    int again;                     /* while QUEUED: in the endpoint's ring |again| */
    /* Hedging, see hedge.h. Two twins are BOUND or RUNNING, on the same thread, with the same slice: */
    struct xh_request *twin; /* the other of a pair; NULL: none, or it is over */
    int hedge;               /* while BOUND and RUNNING: the second of a pair */
    int hedged;              /* of a pair, now or once */
    unsigned opens;          /* 1 while BOUND and RUNNING: on a connection that is opened for it */
    int surplus;             /* the twin brought the slice: to end without a word */
    uint64_t due_ns;               /* while DELAYED */
    uint64_t queued_bytes, queued_requests; /* what it counts for in the queue */
    uint64_t queued_ns;                     /* when it came there, for the time line; 0: nobody looks */
    uint64_t waits_ns;                      /* while QUEUED: since when somebody waits for it, 0: nobody */
    /* Of the thread that runs it; passed on with the state: */
    struct xh_url *url; /* where it was sent by a redirect; NULL: the origin's target */
    unsigned hops;      /* redirects since the original URL */
    unsigned failures;  /* in a row, without progress worth the name */
    unsigned repeats;   /* in all */
    unsigned returns;   /* to the original URL, because a target refused */
    unsigned char from_original; /* the remembered target failed: go by the original URL */
    unsigned char token_reread;
    unsigned char whole_seen;    /* 200 came where parts were asked for: the next one is taken, or the end */
    unsigned char nonsense;      /* a request of several ranges was answered by nonsense: twice is enough */
    unsigned most_ranges;        /* in one HTTP request; 0: as many as the server bears */
    unsigned wide_failures;      /* in a row: 500 to several ranges */
    unsigned failed_ranges;      /* so many failed twice with 500, and fewer are asked for now; 0: no such thing */
};

/* What a probe (XH_ASK_HEAD, XH_ASK_STAT) asks with and brings back. */
struct xh_probe {
    /* Set by the prober: */
    size_t want_bytes;         /* HEAD: [0, want_bytes) is asked for */
    size_t whole_bytes;        /* HEAD: a 200 with a whole file of up to so many is taken as well */
    const char *if_none_match; /* HEAD: NULL or an ETag */
    int hasty;                 /* as a transfer's */
    int insists;               /* HEAD: a whole file that is too large is asked for once more */
    int greeting;              /* HEAD: for its connection's sake alone */
    /* Filled before the job is over: */
    int status;
    uint64_t server_hash; /* which server answered: of its scheme, host and port */
    uint8_t *bytes; /* HEAD: the body; STAT: the XML. malloc'd */
    size_t len, room;
    int size_known;
    uint64_t size;      /* from Content-Range, or of the whole body */
    int ranges_refused; /* the server sent a whole file that is larger than whole_bytes */
    char etag[XH_HEADER_BYTES], last_modified[XH_HEADER_BYTES], server[XH_HEADER_BYTES];
    int64_t date;        /* of the reply, by the server's clock; -1: not given */
    int over;           /* under the lock: the job is over */
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

/* What the judge of a reply's headers decided to do with its body. */
enum xh_take {
    XH_TAKE_NOTHING, /* read it, so that the connection stays, up to a limit */
    XH_TAKE_RANGE,   /* bytes of the object from data_off on */
    XH_TAKE_PARTS,   /* multipart/byteranges */
    XH_TAKE_PROBE,   /* into the probe's buffer */
    XH_TAKE_DOUBT,   /* called a web page: its first bytes tell whether it is one, or to go as XH_TAKE_PROBE */
};

enum xh_fault {
    XH_FAULT_NONE,
    XH_FAULT_CHANGED,   /* another version than the one opened */
    XH_FAULT_NO_RANGES, /* 200 where ranges were asked for */
    XH_FAULT_MULTI,     /* a multi-range reply that is none: single ranges are worth a try */
    XH_FAULT_LIMIT,     /* the server does no multi-range requests, or not such */
    XH_FAULT_PROTO,     /* contradicts itself or the question */
    XH_FAULT_LOCAL,     /* out of memory */
};

/* One HTTP request and its reply. Belongs to the thread that runs it. */
struct xh_exchange {
    struct xh_request *request;
    struct xh_job *job;
    struct xh_url *url;     /* where it goes */
    struct xh_token *token; /* what it was sent with, or could have been */
    int token_sent, cert_sent;
    const struct xh_proxy *proxy; /* that it goes through; NULL: none */
    enum xh_proxy_turn turn;      /* GO: the proxy's word is waited for */
    struct xh_dialect dialect; /* as known when it was sent */
    size_t asked_first, asked_end; /* ranges asked for: the unfinished ones in here */
    unsigned asked;                /* how many */
    size_t range_bytes;            /* length of the Range value */
    uint64_t from, to;             /* from the first byte asked for to behind the last */
    uint64_t asked_bytes;          /* of the ranges together */
    /* The reply: */
    enum xh_take take;
    enum xh_fault fault;
    char why[256];         /* of the fault */
    uint64_t data_off;     /* RANGE: where the next byte belongs */
    uint64_t data_left;    /* RANGE: how many may still come */
    size_t cursor;         /* index of the range that the next data is looked for at */
    size_t open;           /* ranges before this one are whole */
    uint64_t part_fresh;   /* wanted bytes that the part at hand brought */
    uint64_t fresh;        /* wanted bytes that the whole reply brought */
    unsigned stale_parts;  /* parts that the twin had brought before */
    uint64_t body_bytes;
    uint64_t sent_ns, first_ns, last_ns; /* 0: not yet */
    uint64_t tail_ns;      /* since when nothing more that is wanted can come; 0: it can */
    uint64_t tail_bytes;   /* body bytes by then */
    uint64_t quiet_ns;     /* longest time between two of those, or between bytes */
    uint64_t pace_ns;      /* when the last XH_PACE_BYTES of body were full, or the headers; at first when it was sent */
    size_t pace_bytes;     /* body since then */
    size_t header_bytes;   /* of interim replies and trailers too */
    int page;              /* a web page came in place of the file */
    char said[4096];       /* how the body of a refusal begins, or of the page; "" when there was none */
    size_t said_len;
    unsigned opened;       /* connections opened for it */
    unsigned port;         /* of this end of its connection; 0: not sent yet */
    uint64_t queued_ns;    /* when its request came into the queue; 0: nobody looks */
    struct xh_reply reply;
    struct xh_multipart multipart;
    /* How long it may take: see xh_exchange_deadline(). */
    uint64_t begun_ns, connect_most_ns, stall_most_ns; /* when it was handed to the wire, and the two time-outs */
    int stands;            /* its reader takes no more now, and no byte is expected */
    struct xh_lane *lane;  /* of the wire, from its start to its end */
    struct xh_ring free_link; /* of the thread */
};

/* What a finished exchange leads to. */
enum xh_verdict {
    XH_VERDICT_DONE,  /* the request has all that it wanted */
    XH_VERDICT_AGAIN, /* to the queue at once */
    XH_VERDICT_LATER, /* to the queue after delay_ms */
    XH_VERDICT_FAIL,
};

/* Moves |r| to |state|, tracing it. Lock held. The rings are the caller's work. */
void xh_request_enter(struct xh_request *r, enum xh_request_state state);

/* Bytes and HTTP requests that |r|, whose endpoint is set, still stands for; lock held, not RUNNING but by this thread. */
void xh_request_weigh(struct xh_request *r);

/* Where |r| goes next: its redirect, the origin's remembered target, or the original URL.
 * Lock held. */
struct xh_url *xh_request_url(const struct xh_request *r);

/* Decides what |r| asks for now and fills |x|; slices off what does not fit, which comes
 * back in |*rest| as a NEW request of the job (or NULL). Lock held. */
void xh_request_prepare(struct xh_request *r, struct xh_exchange *x, struct xh_request **rest);

/* Sends |x| over |w|. No lock. Returns XH_NET_OK, or why it was not sent: LOCAL (out of memory), TURN, or PROXY: the
 * proxy has refused our login before. */
enum xh_net xh_request_send(struct xh_exchange *x, struct xh_wire *w);

/* 1 when the reply of |x| is its proxy's word that our login is not good, and not the server's own 407. */
int xh_exchange_is_proxys(const struct xh_exchange *x);

/* |x| is over: takes down what the wire tells of it beside the reply, and those that wait for what its proxy makes of our
 * login need not any longer. Thread of |x|, no lock. */
void xh_exchange_over(struct xh_exchange *x, const struct xh_outcome *out);

/* Lets |x| go on, if it stands still. Thread of |x|, no lock. */
void xh_exchange_resume(struct xh_exchange *x);

/* What a reply must bring in twice the stall time-out. One byte now and then would else hold a read for ever, and no real
 * link is that slow. */
#define XH_PACE_BYTES 4096u

/* How long the end of a reply may take to come once all that is wanted is there: the last boundary, the last chunk. They
 * mostly come in the same packet; a reader waits for them, and a new connection costs about as much. */
#define XH_TAIL_NS 100000000u

/* Events of the wire; thread of |x|, no lock. See struct xh_wire_events. */
uint64_t xh_exchange_deadline(const struct xh_exchange *x, enum xh_net *why);
void xh_exchange_sent(struct xh_exchange *x, unsigned port);
int xh_exchange_line(struct xh_exchange *x, const char *line, size_t len);
int xh_exchange_body(struct xh_exchange *x, const uint8_t *data, size_t len);

/* Draws the finished |x| on the time line. Thread of |x|, no lock. */
void xh_exchange_draw(const struct xh_exchange *x, const struct xh_outcome *out);

/* Judges the finished |x|: what happens to its request now. Learns from it: dialect, target,
 * token, poison (takes the lock for that). |*delay_ms| for LATER, |*err| for FAIL.
 * Thread of |x|, no lock. */
enum xh_verdict xh_exchange_judge(struct xh_exchange *x, const struct xh_outcome *out, uint64_t *delay_ms,
                                  struct xh_err *err);

#endif
