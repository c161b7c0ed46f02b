/* A client that asks one thing at a time, on one connection that is kept: for writing (dav_ask.c), metadata services
 * and the tool. It sets requests up as handle.c does for all. The header does not show curl.
 *
 * Threads: any; a client belongs to one thread at a time. */
#ifndef XH_CLIENT_H
#define XH_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "net.h"

struct xh_client;

/* The receiver of a reply, called on the thread that asks, in xh_client_ask. Each may be NULL. */
struct xh_client_events {
    int (*line)(void *ctx, const char *line, size_t len);    /* 0, or -1: cut it off */
    int (*body)(void *ctx, const uint8_t *data, size_t len); /* the same */
    ptrdiff_t (*read)(void *ctx, char *buf, size_t len);     /* bytes to be sent; 0: the end; -1: cut it off */
    int (*seek)(void *ctx, uint64_t off);                    /* sending begins again from |off|: 0, or -1 */
    int (*tick)(void *ctx);                                  /* each second at least; 0 or -1 */
    void (*tls)(void *ctx, void *ssl_ctx);                   /* an SSL_CTX *, before the handshake; our OpenSSL alone */
};

/* How to ask, beside struct xh_send. */
struct xh_client_ask {
    struct xh_send send;
    int bodiless;            /* HEAD */
    int uploads;             /* a PUT of |upload_bytes|, which events.read brings */
    uint64_t upload_bytes;
    int fresh;               /* on a new connection */
    int connects_only;       /* no request: for xh_client_put and xh_client_take */
    uint64_t most_ms;        /* for all of it; 0: no bound */
    /* What comes or goes next must do so within this and connect_timeout_ms, and XH_PACE_BYTES within twice that; 0: no
     * bound. An upload's answer, once all is sent, has ten times as long: the server may be at work on the file. The
     * time that the events take is not counted. */
    uint64_t quiet_ms;
};

/* |events| and |ctx| outlive it. |https|: 1: it asks nobody over http. Returns NULL without memory. */
struct xh_client *xh_client_new(const struct xh_client_events *events, void *ctx, int https);
void xh_client_free(struct xh_client *h); /* NULL allowed; closes the connection */

/* Asks. Blocks. Returns how it went, as in |out|: a callback that cut it off is XH_NET_CUT, most_ms
 * XH_NET_CONNECT_TIMEOUT, quiet_ms XH_NET_STALL or XH_NET_CRAWL, headers of more than XH_HEADERS_MOST_BYTES
 * XH_NET_BAD_HTTP, XH_NET_LOCAL also a request that could not be made. Nothing is asked again, and no redirect
 * followed. */
enum xh_net xh_client_ask(struct xh_client *h, const struct xh_client_ask *a, struct xh_outcome *out);

/* 1 when its last connection is open: the next request needs no handshake, unless the server hangs up meanwhile. */
int xh_client_is_open(const struct xh_client *h);

/* What the last request showed of the way. */
struct xh_client_times {
    double connect_ms, tls_ms; /* of a new connection; 0: there was none */
    double first_ms;           /* from sending the request to the first byte of the reply */
    char address[64];          /* of the server */
};
void xh_client_times(const struct xh_client *h, struct xh_client_times *out);

/* The TLS session (an SSL *) of the request under way, or NULL: there is none, or it is not our OpenSSL's. */
void *xh_client_tls(const struct xh_client *h);

/* Plain bytes on the connection of a client that connects only. Return 0 with |*n| bytes done, 1: none can be now, or
 * -1. They do not wait; xh_client_wait does, for |sending| or for bytes to come, a tenth of a second at most. */
int xh_client_put(struct xh_client *h, const char *text, size_t len, size_t *n);
int xh_client_take(struct xh_client *h, char *buf, size_t len, size_t *n);
void xh_client_wait(const struct xh_client *h, int sending);

#endif
