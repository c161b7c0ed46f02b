/* A dial: the doctor's own HTTP requests, one at a time, past engine and cache, and what they tell of the way.
 *
 * Connections are made as the engine makes them, with the same trust and credentials; but nothing is retried and
 * no redirect followed, and each request has a bound in time and bytes: the server may be anyone.
 * The one file of the tool that knows curl is dial.c. */
#ifndef XH_DIAL_H
#define XH_DIAL_H

#include <time.h>

#include "../../cache/base/options.h"
#include "../../cache/origin/auth.h"
#include "../../cache/origin/proxy.h"
#include "../../cache/origin/response.h"
#include "../../cache/origin/url.h"

#define XH_DIAL_MOST_MS 10000u /* a request, unless it says otherwise, or the options have less */

enum xh_dial_end {
    XH_DIAL_OK,
    XH_DIAL_CUT,       /* enough has come, or |body| said so */
    XH_DIAL_NAME,      /* the name did not resolve */
    XH_DIAL_CONNECT,   /* refused, unreachable */
    XH_DIAL_UNTRUSTED, /* the certificate did not verify */
    XH_DIAL_TLS,       /* TLS failed otherwise */
    XH_DIAL_TIMEOUT,
    XH_DIAL_BROKEN,    /* reset, or closed before the end */
    XH_DIAL_BAD_HTTP,
};

/* Who asks: constant, and outlives the dials. */
struct xh_caller {
    const struct xh_options *o;
    const struct xh_url *named; /* what the user named */
    struct xh_trust trust;
    struct xh_token *token; /* NULL over http */
    struct xh_cert cert;
    char *user, *password; /* of ~/.netrc, or NULL */
    struct xh_proxies proxies;
};

struct xh_question {
    const char *method; /* NULL: GET */
    const char *range;  /* of the Range header: "bytes=0-0"; NULL: none */
    const char *destination; /* of a MOVE: a URL; NULL: none */
    size_t pad_bytes;   /* of a header that means nothing */
    int fresh;          /* on a new connection */
    int whole;          /* |body| gets that of a 200 too; bounded by nothing but that something comes within stall_timeout_ms */
    unsigned most_ms;   /* 0: as above */
    uint64_t most_bytes; /* of the body; behind them it is cut off */
    /* NULL, or gets the body of a 206 or 207; other than 0 cuts it off. */
    int (*body)(void *ctx, const uint8_t *p, size_t len);
    int (*tick)(void *ctx); /* NULL, or asked once a second at least; other than 0 cuts it off */
    void *ctx;
};

struct xh_answer {
    enum xh_dial_end end;
    char why[768];       /* curl's words, or what a proxy's refusal means */
    struct xh_reply reply;
    uint64_t body_bytes;
    int chunked;         /* so that a body that is cut off is noticed */
    int opened;          /* on a new connection; only then the next are told */
    char address[64];    /* of the other end */
    double connect_ms, tls_ms;
    double first_ms;     /* from the request's sending to the first byte of the reply */
    int tls;             /* what follows is known */
    int resumed;
    char protocol[16], cipher[64], key[32];
    char subject[256], issuer[256], root[256];
    time_t until;
    unsigned parts;      /* of a multipart reply, read to their ends */
};

struct xh_dial;

/* Owns: xh_dial_free. Threads: one at a time. Returns NULL without memory. */
struct xh_dial *xh_dial_new(const struct xh_caller *c);
void xh_dial_free(struct xh_dial *d);

/* Asks |u|. Blocks, for most_ms at most and a second. */
void xh_dial_ask(struct xh_dial *d, const struct xh_url *u, const struct xh_question *q, struct xh_answer *out);

#endif
