/* An attempt: a finished exchange with all that its verdict goes by. Data alone. */
#ifndef XH_ATTEMPT_H
#define XH_ATTEMPT_H

#include "exchange.h"

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
    unsigned repeats;            /* in all */
    unsigned returns;            /* to the original URL, because a target refused */
    unsigned char from_original; /* the remembered target failed: go by the original URL */
    unsigned char token_reread;  /* the token was looked for anew */
    unsigned char sent_away;     /* PROPFIND: the remembered target redirected it */
    unsigned char whole_seen;    /* 200 came where parts were asked for: the next one is taken, or the end */
    unsigned char new_refused;   /* a target that the original URL had just named refused several ranges */
    unsigned char nonsense;      /* a request of several ranges was answered by nonsense: twice is enough */
    unsigned most_ranges;        /* in one HTTP request; 0: as many as the server bears */
    unsigned wide_failures;      /* in a row: 500 to several ranges */
    unsigned char login;         /* enum xh_login_stage */
    unsigned char doubted;       /* the session's cookies were left out once */
    struct xh_login_seen login_seen; /* when the request was sent that was answered by a login */
    unsigned failed_ranges;      /* so many failed twice with 500, and fewer are asked for now; 0: no such thing */
};

/* Whether the token was looked for anew since the exchange ended. */
enum xh_look { XH_LOOK_NOT, XH_LOOK_SAME, XH_LOOK_OTHER };

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
    int no_cert;                       /* the server does not bear our certificate */
    int trusted, trusted_first;        /* credentials may go to x->url; to |first| */
    const struct xh_logins *logins;
    const char *leads;                 /* the server of the login host where it logs in for all; NULL: it does not */
    /* Of the server: */
    struct xh_limits limits;
    /* Of the moment: */
    uint64_t now_ns;
    long long now_s; /* since 1970 */
    uint32_t dice;   /* random */
};

#endif
