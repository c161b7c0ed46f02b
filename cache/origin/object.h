/* The origin object, as origin/ itself sees it, and its inner functions. */
#ifndef XH_OBJECT_H
#define XH_OBJECT_H

#include "auth.h"
#include "dialect.h"
#include "engine.h"
#include "proxy.h"
#include "request.h"

struct xh_origin {
    /* Constant once opened: */
    struct xh_url *url; /* as the user wrote it, or its server offered it */
    struct xh_url *named; /* then this is what the user wrote; else NULL */
    struct xh_options options;
    struct xh_counters *counters;
    struct xh_trust trust;
    struct xh_cert cert;
    struct xh_proxies proxies;
    const char *login; /* where url's user and password are from, for errors */
    char validator[XH_VALIDATOR_TEXT_BYTES];
    const struct xh_patience *patience; /* of its opener, or NULL; while it is opened, and his alone */
    int opened; /* dialect's proof, value and size are settled */
    /* Under the engine's lock: */
    unsigned era; /* of the engine that jobs belongs to */
    struct xh_ring jobs;
    struct xh_dialect dialect; /* proof, value and size: constant once opened */
    struct xh_url *target;     /* where the last redirect led; NULL: nowhere else */
    struct xh_url *served;     /* where the last reply or date came from; NULL: none yet */
    int dates_at_first;        /* PROPFIND is the first server's to answer: those that it redirects to refuse it */
    int check_due;             /* another server answers now: the version is to be confirmed there at once */
    struct xh_token *token;    /* NULL over http */
    uint64_t token_ns;         /* when it was looked for */
    int no_cert;               /* the server cannot bear our certificate: not offered any more */
    struct xh_err poison;      /* code XH_E_CHANGED once a change was seen */
    uint64_t checked_ns;       /* when PROPFIND last confirmed the version */
    int checking;              /* a PROPFIND is on its way */
    unsigned missed;           /* so many in a row found no such file */
    struct xh_url *offer[XH_OFFERS_MOST]; /* where else the file is said to lie */
    unsigned offers;
    unsigned stream_thread;    /* where its streams run; 0: not chosen yet */
    int closing;               /* what is submitted now is cancelled at once */
    int yields;                /* another process waits for what it wants now: at most one guess at a time */
    unsigned connections;      /* most that this process may have now; 0: as many as the option says */
};

/* How a hint tells the round trip, in microseconds; 0: unknown. */
#define XH_ROUND_TRIP "rtt_us="

/* Most connections that |o| may have now. Lock held. */
static inline unsigned xh_object_connections(const struct xh_origin *o)
{
    return o->connections ? o->connections : (unsigned)o->options.connections;
}

/* Makes |o| belong to the present engine: in a fork's child the parent's jobs are dropped.
 * Lock held. */
void xh_object_adopt(struct xh_origin *o);

/* From now on every transfer of |o| fails with |err|. Lock held. */
void xh_object_poison(struct xh_origin *o, const struct xh_err *err);

/* Fills a new job (calloc'd or zeroed) with its one request. No lock. Returns 0 or -1. */
int xh_job_init(struct xh_job *j, struct xh_origin *o, enum xh_ask ask, struct xh_transfer *t, struct xh_probe *p);

/* Queues |j|. Lock held. Returns 0, or -1 without memory: it was not queued. */
int xh_job_queue(struct xh_job *j);

/* Fails |j| with |err| (only the first failure counts) and ends its requests, those that
 * run by their threads. Lock held. */
void xh_job_fail(struct xh_job *j, const struct xh_err *err);

/* Takes |r|, which is in no ring and on no wire, off its job; a job without requests goes
 * to |t|'s finished ring (NULL: any thread's). Lock held. */
void xh_request_retire(struct xh_request *r, struct xh_thread *t);

/* Takes note of what the Link headers |links| of a reply of |from| offer, unless some were heard before. Takes the lock. */
void xh_object_hear(struct xh_origin *o, const struct xh_url *from, const char *links);

/* 1 when token and certificate may go to |u|: over TLS, to the server that the user named or to one that he listed. */
int xh_object_trusts(const struct xh_origin *o, const struct xh_url *u);

/* The server sends no parts of |o|, which is small enough to be read whole: says so once for each server, on standard
 * error. Takes the lock. */
void xh_object_comes_whole(struct xh_origin *o);

/* Looks for the token anew. Returns 1 when it is another one than |old|. Takes the lock; reads a small file. */
int xh_object_renew_token(struct xh_origin *o, const struct xh_token *old);

/* Queues the PROPFIND that looks for a change, when it is due. Lock held. */
void xh_probe_revalidate(struct xh_origin *o);

#endif
