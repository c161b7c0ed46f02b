/* The tool's own HTTP requests, one at a time, without engine and cache, and what they show of the path to the server.
 *
 * Connections are made as the engine makes them, with the same trust and credentials. But nothing is retried, and each
 * request is bounded in time and bytes: the server may be anyone. */
#ifndef XH_DIAL_H
#define XH_DIAL_H

#include <time.h>

#include "../../cache/base/options.h"
#include "../../cache/origin/caller.h"
#include "../../cache/origin/response.h"
#include "front.h"

#define XH_DIAL_MOST_MS 10000u /* longest time of a request, unless the request or the options say otherwise */

struct xh_question {
    const char *method; /* NULL: GET */
    int depth;          /* of PROPFIND */
    const char *range;  /* value of the Range header: "bytes=0-0"; NULL: none */
    const char *destination; /* for MOVE: a URL; NULL: none */
    size_t pad_bytes;   /* length of an extra header without meaning */
    int fresh;          /* 1: use a new connection */
    int bodiless;       /* 1: HEAD */
    int only_cached;    /* 1: a cache is to answer by what it has, or with 504 (RFC 9111, 5.2.1.7) */
    /* 1: |body| also gets the body of a 200; the only bounds are most_bytes, and those of an answer to a writer: see
     * quiet_ms in handle.h, which is stall_timeout_ms */
    int whole;
    unsigned most_ms;   /* bound in milliseconds; 0: XH_DIAL_MOST_MS */
    uint64_t most_bytes; /* bound of the body; more is cut off, of a refusal what is over XH_WORDS_MOST_BYTES */
    /* NULL, or gets the body of a 206 or 207. A result other than 0 cuts it off. */
    int (*body)(void *ctx, const uint8_t *p, size_t len);
    int (*tick)(void *ctx); /* NULL, or called at least once a second; a result other than 0 cuts it off */
    void *ctx;
};

struct xh_answer {
    /* CUT: enough came, or |body| or |tick| said so; CONNECT_TIMEOUT, STALL, CRAWL: a bound in time; CONNECT also where
     * a proxy refused. */
    enum xh_net end;
    char why[768];       /* curl's text, or what a proxy's refusal means */
    struct xh_reply reply;
    struct xh_front front; /* what stands before the server, by the reply */
    uint64_t body_bytes;
    char said[2048];     /* how the body of a 200 or of a refusal begins; a piece of the file is never in it */
    int chunked;         /* 1: in chunks, so that a cut-off body is noticed */
    int opened;          /* 1: on a new connection; the times below are known only then */
    char address[64];    /* of the server */
    double connect_ms, tls_ms;
    double first_ms;     /* from sending the request to the first byte of the reply */
    int tls;             /* 1: what follows is known */
    int resumed;
    char protocol[16], cipher[64], key[32];
    char subject[256], issuer[256], root[256];
    time_t until;
    unsigned parts;      /* parts of a multipart reply that came completely */
};

struct xh_dial;

/* Returns a new dial, or NULL when out of memory. Owns: free it with xh_dial_free. Threads: one at a time. */
struct xh_dial *xh_dial_new(const struct xh_caller *c);
void xh_dial_free(struct xh_dial *d);

/* Sends the request |q| for |u|, and follows no redirect. Blocks, at most most_ms and a second. */
void xh_dial_ask(struct xh_dial *d, const struct xh_url *u, const struct xh_question *q, struct xh_answer *out);

/* Where |a|, the answer of |at|, sends its reader by a redirect or to another region of S3; |hops| of these led from
 * |named| to |at|. Returns 1 with |*next|, 0: the answer is the last one, or a negative code: it leads nowhere. Owns:
 * the caller unrefs |*next|. */
int xh_dial_next(struct xh_dial *d, const struct xh_url *named, const struct xh_url *at, unsigned hops,
                 const struct xh_answer *a, struct xh_url **next, struct xh_err *err);

/* xh_dial_ask for |named|, in the region that an earlier answer named, and then wherever the answers lead. Returns 0
 * with the last one in |out|, or a negative code, with the one that leads nowhere. */
int xh_dial_follow(struct xh_dial *d, struct xh_url *named, const struct xh_question *q, struct xh_answer *out,
                   struct xh_err *err);

/* A body that is kept. Owns: the caller frees |at|. xh_body_keep is |body| of a question, with such a |ctx|. */
struct xh_body {
    uint8_t *at;
    size_t len, room;
};
int xh_body_keep(void *ctx, const uint8_t *p, size_t len);

/* A URL, whom it is asked for, the connection, and the last answer. */
struct xh_asker {
    struct xh_url *u;
    struct xh_caller caller;
    struct xh_dial *dial;
    struct xh_answer *a;
};

/* Begins with |u|, which it takes; |o| outlives it. Returns 0 or a negative code. Owns: the caller ends |k| in any
 * case; zeroed ones are allowed. */
int xh_asker_begin(struct xh_asker *k, struct xh_url *u, const struct xh_options *o, struct xh_err *err);
void xh_asker_end(struct xh_asker *k);

#endif
