/* An attempt: a finished exchange with all that its verdict goes by; and the verdict. Data alone. */
#ifndef XH_ATTEMPT_H
#define XH_ATTEMPT_H

#include "exchange.h"
#include "s3.h"

/* How far a request has come through a login by redirect. */
enum xh_login_stage {
    XH_LOGIN_NOWHERE,
    XH_LOGIN_THERE, /* it is sent to the login host */
    XH_LOGIN_BACK,  /* to where the login host sends it: what comes of it is to be a cookie */
    XH_LOGIN_IN,    /* on from there */
};

/* What a request has behind it. */
struct xh_tries {
    unsigned hops;               /* redirects since the original URL */
    unsigned failures;           /* in a row, without progress worth the name */
    uint64_t row_ns;             /* when the first of these attempts began, or the last one that was forgiven */
    unsigned repeats;            /* in all */
    unsigned scraps;             /* replies that were whole, and brought fewer than XH_PACE_BYTES of more */
    unsigned returns;            /* to the original URL, because a target refused */
    unsigned char from_original; /* the remembered target failed: go by the original URL */
    unsigned char token_reread;  /* the token was looked for anew */
    uint64_t refused_ns;         /* the token of a request that was sent then was refused, and another thread still
                                  * looks for a new one; 0: not so */
    unsigned char sent_away;     /* PROPFIND: the remembered target redirected it */
    unsigned char whole_seen;    /* 200 came where parts were asked for: the next one is taken, or the end */
    unsigned char new_refused;   /* a target that the original URL had just named refused several ranges */
    unsigned char nonsense;      /* a request of several ranges was answered by nonsense: twice is enough */
    unsigned most_ranges;        /* in one HTTP request; 0: as many as the server bears */
    unsigned wide_failures;      /* in a row: 500 to several ranges */
    unsigned char login;         /* enum xh_login_stage */
    unsigned char doubted;       /* the session's cookies were left out once */
    struct xh_login_seen login_seen; /* when the request was sent that was answered by a login */
    uint64_t refused_since_ns;   /* the row of failures began by then, with a refusal of a server that limits its
                                  * readers or their connections; 0: there was none */
    unsigned failed_ranges;      /* so many failed twice with 500, and fewer are asked for now; 0: no such thing */
};

/* Whether the token was looked for anew since the exchange ended. SOON: another thread does. */
enum xh_look { XH_LOOK_NOT, XH_LOOK_SAME, XH_LOOK_OTHER, XH_LOOK_SOON };

struct xh_attempt {
    const struct xh_exchange *x;
    const struct xh_outcome *out;
    struct xh_tries tries;
    /* Of the request: */
    int asked_came, all_came; /* RANGES: nothing is missing of what |x| asked for; of the request's slice */
    int redirected;           /* a redirect of its own led to x->url */
    int hasty, speculative;   /* as the transfer's */
    int stands;               /* its stream's reader takes no more */
    enum xh_look looked;
    /* Of the file: */
    const struct xh_url *first;        /* the URL that the user gave */
    const struct xh_proxies *proxies;
    const char *login, *cert_path, *cert_note, *trust_note; /* as the object has them */
    char tells[300];                   /* what x->token tells of itself; "": nothing, or it is of no interest here */
    int opened;                        /* the version is known */
    int stranger;                      /* no reply of it was understood yet */
    const char *no_key;       /* why S3 refused our key before; NULL or "": it did not */
    int no_cert;                       /* the server does not bear our certificate */
    int trusted, trusted_first;        /* credentials may go to x->url; to |first| */
    const struct xh_logins *logins;
    const char *leads;                 /* the server of the login host where it logs in for all; NULL: it does not */
    /* Of the server: */
    struct xh_limits limits;
    uint64_t heard_ns;                 /* when a byte that was wanted last came from it */
    unsigned sockets, others;          /* connections to it; requests that are under way there, but for |x| */
    /* Of the moment: */
    uint64_t now_ns;
    long long now_s; /* since 1970 */
    uint32_t dice;   /* random */
};

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
    char no_key[XH_S3_CODE_BYTES]; /* why S3 refuses our key itself: it is asked without; "": it does not */
    int takes_whole;         /* it sent all of the file where a part was asked for, and that was taken */
    int sends_parts;         /* it sends parts where it did not */
    int measured;            /* the file is as long as the body that came */
    enum xh_login_end login; /* what became of a login, which |failure| tells */
    struct xh_login_failure failure;
    const char *event, *why; /* for the trace; NULL: there is nothing to tell. |why| may be in x */
    int looks, waits;        /* inner */
};

#endif
