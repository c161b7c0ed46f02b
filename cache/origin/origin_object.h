/* The origin object: one remote file as the floors of origin/ see it: its facts, and whom its credentials may go
 * to. */
#ifndef XH_ORIGIN_OBJECT_H
#define XH_ORIGIN_OBJECT_H

#include "caller.h"
#include "control.h"
#include "dialect.h"
#include "exchange.h"
#include "origin.h"
#include "ring.h"
#include "s3.h"
#include "url.h"

struct xh_origin {
    /* Constant once opened: */
    struct xh_url *url; /* as the user wrote it */
    struct xh_options options;
    struct xh_counters *counters;
    struct xh_caller caller; /* its token is under the engine's lock */
    char validator[XH_VALIDATOR_TEXT_BYTES];
    const struct xh_patience *patience; /* of its opener, or NULL; while it is opened, and his alone */
    int opened; /* dialect's proof, value and size are settled */
    /* Under the engine's lock: */
    unsigned era; /* of the engine that jobs belongs to */
    struct xh_ring jobs;
    struct xh_dialect dialect; /* proof, value and size: constant once opened */
    struct xh_url *target;     /* where the last redirect led; NULL: nowhere else */
    unsigned targets;          /* so many were remembered so far */
    uint64_t found_ns;         /* when the last one was, as long as it has served no other request; else 0 */
    uint64_t sought_ns;        /* since when another target is sought, as the last one refused; 0: none is */
    const struct xh_request *seeks; /* asks for it, and others wait for what comes of that; NULL: none does. A name */
    unsigned bounced;          /* so many remembered targets in a row served but one; at its most (learn.c) for good */
    struct xh_url *served;     /* where the last reply or date came from; NULL: none yet */
    int dates_at_first;        /* PROPFIND is asked of the first server: those that it redirects to do not answer it */
    int check_due;             /* the version is to be confirmed at once: another server answers, or has another date */
    struct xh_ring among_dated; /* see xh_learn_date */
    uint64_t token_ns;         /* when caller.token was looked for */
    int no_cert;               /* the server cannot bear our certificate: not offered any more */
    char no_key[XH_S3_CODE_BYTES]; /* why S3 refused our key itself, while it was opened: none is sent; "": not so */
    struct xh_err poison;      /* code XH_E_CHANGED once a change was seen */
    uint64_t checked_ns;       /* when PROPFIND last confirmed the version */
    int checking;              /* a PROPFIND is on its way */
    unsigned missed;           /* so many in a row found no such file */
    unsigned stream_thread;    /* where its streams run; 0: not chosen yet */
    int closing;               /* what is submitted now is cancelled at once */
    int yields;                /* another process waits for what it wants now: at most one guess at a time */
    unsigned processes;        /* that read it at once, and share its connections; 0: this one alone */
    unsigned files;            /* of this process that are read side by side with it, and itself; 0: it alone */
};

/* How a hint tells the round trip, in microseconds; 0: unknown. */
#define XH_ROUND_TRIP "rtt_us="

/* Most connections that all processes may have now for |o|'s sake, and this one. Lock held. */
static inline unsigned xh_origin_object_allowed(const struct xh_origin *o)
{
    return xh_control_allowed((unsigned)o->options.connections, o->files);
}

/* How many files are opened together with |o|, and it; 0: it is open, or it is not known. Lock held. */
static inline unsigned xh_origin_object_opened_with(const struct xh_origin *o)
{
    return o->opened ? 0 : o->files;
}

static inline unsigned xh_origin_object_connections(const struct xh_origin *o)
{
    return xh_control_share(xh_origin_object_allowed(o), o->processes);
}

/* Makes |o| belong to the present engine: in a fork's child the parent's jobs are dropped.
 * Lock held. */
void xh_origin_object_adopt(struct xh_origin *o);


/* Gives |x| the token of now. Takes the lock. */
void xh_origin_object_take_token(struct xh_origin *o, struct xh_exchange *x);

/* Looks for the token anew, as xh_caller_renew does. Takes the lock; may read a small file. */
enum xh_again xh_origin_object_renew_token(struct xh_origin *o, const struct xh_token *old, uint64_t since_ns);

#endif
