/* Exchanges: one HTTP request with its reply. The reply is judged against what was asked and against the opened
 * version; its bytes are handed out, or what is wrong with it is noted.
 *
 * Knows nothing of queues, threads or retries: what the whole of it leads to is verdict.h's business. Belongs to the
 * thread that runs it; takes no lock. */
#ifndef XH_EXCHANGE_H
#define XH_EXCHANGE_H

#include "auth.h"
#include "dialect.h"
#include "origin.h"
#include "proxy.h"
#include "response.h"
#include "session.h"
#include "url.h"
#include "wire.h"

struct xh_request;
struct xh_job;

enum xh_ask {
    XH_ASK_RANGES, /* GET of a job's ranges */
    XH_ASK_HEAD,   /* GET of the object's first bytes, perhaps conditional */
    XH_ASK_STAT,   /* PROPFIND */
};

/* What a probe (XH_ASK_HEAD, XH_ASK_STAT) asks with and brings back. */
struct xh_probe {
    /* Set by the prober: */
    size_t want_bytes;         /* HEAD: [0, want_bytes) is asked for */
    size_t usual_bytes;        /* HEAD: no more than that once an answer broke off in its midst, or is stuck */
    size_t whole_bytes;        /* HEAD: a 200 with a whole file of up to so many is taken as well */
    const char *if_none_match; /* HEAD: NULL or an ETag */
    int hasty;                 /* as a transfer's */
    int insists;               /* HEAD: a whole file that is too large is asked for once more */
    int again;                 /* another one that is silent asks for the same, and is waited for anyway: over a
                                * new connection, if there may be one */
    /* Filled before the job is over: */
    int status;
    uint64_t server_hash; /* which server answered: of its scheme, host and port */
    uint64_t sent_ns, came_ns; /* when that request was sent, and its answer's last byte came */
    uint8_t *bytes; /* HEAD: the body; STAT: the XML. malloc'd */
    size_t len, room;
    _Atomic uint64_t heard_ns; /* of a whole file, when XH_PACE_BYTES of it were full last; relaxed; 0: none came */
    int size_known;
    uint64_t size;      /* from Content-Range, or of the whole body */
    int ranges_refused; /* the server sent a whole file that is larger than whole_bytes */
    char etag[XH_HEADER_BYTES], last_modified[XH_HEADER_BYTES], server[XH_HEADER_BYTES];
    int64_t date;        /* of the reply, by the server's clock; -1: not given */
    int over;           /* under the lock: the job is over */
};

/* What the judge of a reply's headers decided to do with its body. */
enum xh_take {
    XH_TAKE_NOTHING, /* read it, so that the connection stays, up to a limit */
    XH_TAKE_RANGE,   /* bytes of the object from data_off on */
    XH_TAKE_PARTS,   /* multipart/byteranges */
    XH_TAKE_PROBE,   /* into the probe's buffer */
    XH_TAKE_REST,    /* read it to its end: its request's owner wants it no more */
    XH_TAKE_DOUBT,   /* as XH_TAKE_PROBE, but perhaps a web page or another text: the first bytes tell */
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
    /* Whose it is, for its owner; here its name in the trace. */
    struct xh_request *request;
    struct xh_job *job;
    /* What is asked, and what the reply is measured by. Set before it is sent; what is pointed to outlives it: */
    enum xh_ask ask;
    struct xh_transfer *transfer;    /* RANGES, else NULL */
    uint64_t *got;                   /* bytes of each of its ranges that were handed over; this thread's */
    struct xh_probe *probe;          /* HEAD and STAT, else NULL */
    const struct xh_options *options;
    struct xh_counters *counters;
    const _Atomic int *speculative;  /* nobody waits for it now; relaxed */
    atomic_ullong *arrived;          /* where the server's body bytes are counted; relaxed, orders nothing */
    atomic_ullong *heard_ns;         /* where it is noted when some came that were wanted; the same */
    uint64_t doubt_ns;               /* connections that have idled since then, or longer, are not used; 0: any are */
    uint64_t lost_ns;                /* the server's name is looked up anew, unless it was since then; 0: as ever */
    int whole_seen;                  /* 200 came where parts were asked for: this one is taken */
    int doubled;                     /* another exchange asks for the same, or did; 2: this is the second one */
    struct xh_url *url;     /* where it goes */
    struct xh_token *token; /* what it was sent with, or could have been */
    int token_sent, cert_sent; /* before it is sent: whether they may be */
    int key_spoilt;            /* its key of S3 was refused, so none is sent */
    const struct xh_proxy *proxy; /* that it goes through; NULL: none */
    enum xh_proxy_turn turn;      /* GO: the proxy's word is waited for */
    struct xh_dialect dialect; /* as known when it was sent */
    int cookies_sent;
    int at_login;                        /* it goes to a login host, by a redirect */
    struct xh_login_seen login_seen;     /* when it was sent */
    enum xh_login_turn login_turn;       /* of XH_NET_LOGIN: DONE or FAILED, and how another one failed */
    struct xh_login_failure login_failure;
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
    uint64_t fresh;        /* wanted bytes that the whole reply brought */
    unsigned stale_parts;  /* parts that the twin had brought before */
    uint64_t body_bytes;
    uint64_t sent_ns, first_ns, last_ns; /* 0: not yet */
    uint64_t tail_until_ns; /* nothing more that is wanted can come, and its connection is to be free by then; 0: it
                             * can */
    uint64_t tail_bytes;   /* body bytes by then */
    uint64_t quiet_ns;     /* longest time between two of those, or between bytes */
    uint64_t pace_ns;      /* when XH_PACE_BYTES of body were full last, or the headers; at first when it was sent */
    size_t pace_bytes;     /* body since then */
    size_t header_bytes;   /* of interim replies and trailers too */
    int page;              /* a web page came in place of the file, unless its bytes tell otherwise */
    char said[4096];       /* how the body of a refusal begins, of a page, a text, or of what may be; "": none came */
    size_t said_len;
    int finds;             /* wanted bytes show that its URL is good: for this request, or for others too */
    int waits;             /* another request asks where the file is: not sent, but looked at again soon */
    unsigned opened;       /* connections opened for it */
    unsigned port;         /* of this end of its connection; 0: not sent yet */
    uint64_t queued_ns;    /* when its request came into the queue; 0: nobody looks */
    struct xh_reply reply;
    struct xh_multipart multipart;
    /* How long it may take: see xh_exchange_deadline(). */
    uint64_t begun_ns, connect_most_ns, stall_most_ns; /* when it was handed to the wire, and the two time-outs */
    _Atomic uint64_t stands_ns; /* since when its reader takes no more, and no byte is expected; 0: it goes on. Written
                                 * by its thread alone; to others a hint that orders nothing */
    struct xh_lane *lane;  /* of the wire, from its start to its end */
};

/* 1 when the reply of |x| is its proxy's word that our login is not good, and not the server's own 407. */
int xh_exchange_is_proxys(const struct xh_exchange *x);

/* |x| is over: takes down what the wire tells of it beside the reply, and those that wait for what its proxy makes of
 * our login need not any longer. Thread of |x|, no lock. */
void xh_exchange_over(struct xh_exchange *x, const struct xh_outcome *out);

/* Since when |x| stands still, 0: it does not. Threads: any; to others than its own a hint. */
static inline uint64_t xh_exchange_stands(const struct xh_exchange *x)
{
    return atomic_load_explicit(&x->stands_ns, memory_order_relaxed);
}

/* Lets |x| go on, if it stands still. Thread of |x|, no lock. */
void xh_exchange_resume(struct xh_exchange *x);

/* How long the end of a reply may take to come once all that is wanted is there: the last boundary, the last chunk.
 * They mostly come in the same packet; a reader waits for them, and a new connection costs about as much. */
#define XH_TAIL_NS 100000000u

/* How many bytes the reply of |x|, which was sent, may still bring; UINT64_MAX: it is no good reply. Thread of |x|. */
uint64_t xh_exchange_left(const struct xh_exchange *x);

/* What comes of |x| from now on is dropped: about |left| bytes, until |until_ns|. Nothing of the job that it was of is
 * used any more. Thread of |x|. */
void xh_exchange_run_out(struct xh_exchange *x, uint64_t left, uint64_t until_ns);

/* Events of the wire; thread of |x|, no lock. See struct xh_wire_events. */
uint64_t xh_exchange_deadline(const struct xh_exchange *x, enum xh_net *why);
int xh_exchange_sent(struct xh_exchange *x, unsigned port);
int xh_exchange_line(struct xh_exchange *x, const char *line, size_t len);
int xh_exchange_body(struct xh_exchange *x, const uint8_t *data, size_t len);

/* Draws the finished |x| on the time line as a |kind| of request. Thread of |x|, no lock. */
void xh_exchange_draw(const struct xh_exchange *x, const struct xh_outcome *out, const char *kind);

#endif
