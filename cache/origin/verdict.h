/* Verdicts: what a finished exchange leads to: what to do with its request, when, and what was learnt. Pure: no lock,
 * no clock, no network, and nothing that it is given is changed. learn.h carries out what it says. */
#ifndef XH_VERDICT_H
#define XH_VERDICT_H

#include "attempt.h"

/* How often a request looks whether the proxy has taken the login that another one shows it. */
#define XH_PROXY_TURN_MS 20u

enum xh_next {
    XH_NEXT_DONE,  /* the request has all that it wanted */
    XH_NEXT_AGAIN, /* to the queue at once */
    XH_NEXT_LATER, /* to the queue after delay_ms */
    XH_NEXT_STAND, /* to the queue once its reader goes on: its connection is gone, and nobody waits for it */
    XH_NEXT_FAIL,  /* with err */
    XH_NEXT_LOOK,  /* the token is to be looked for anew; then the attempt is judged again, with what came of it */
};

struct xh_verdict {
    enum xh_next next;
    uint64_t delay_ms;
    struct xh_err err;
    struct xh_tries tries;   /* of the request from now on */
    unsigned retries;        /* to be counted */
    /* What was learnt: */
    struct xh_limits limits; /* of the server from now on */
    uint64_t hold_ms;        /* the server is to be left alone for so long; 0: it said nothing */
    struct xh_url *to;       /* a redirect leads there, or NULL. Owns: the caller unrefs it */
    int forgets;             /* where a redirect had led is forgotten: the original URL decides anew */
    int bounced;             /* a remembered target sent elsewhere */
    int drops_redirect;      /* the request's own redirect counts no more than the one that the object remembers */
    int served;              /* a reply to be used came from x->url */
    int changed;             /* the file is another version now: |err| says how. All its transfers fail */
    int no_cert;             /* the server does not bear our certificate */
    int no_match;            /* nor If-Match */
    int doubts_session;      /* the cookies that were sent may have expired */
    int takes_whole;         /* it sent all of the file where a part was asked for, and that was taken */
    int sends_parts;         /* it sends parts where it did not */
    int measured;            /* the file is as long as the body that came */
    enum xh_login_end login; /* what became of a login, which |failure| tells */
    struct xh_login_failure failure;
    const char *event, *why; /* for the trace; NULL: there is nothing to tell. |why| may be in x */
    int looks;               /* inner */
};

/* Judges |a|. Fills |v| and returns its |next|. Threads: any. Does not block. */
enum xh_next xh_verdict(const struct xh_attempt *a, struct xh_verdict *v);

#endif
