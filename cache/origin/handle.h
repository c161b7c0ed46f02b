/* curl handles: how all of our connections are set up, whoever opens them, and what curl's codes mean. wire.c carries
 * many requests at once with them; here is the client that asks one thing at a time, for writing (dav_ask.c) and for
 * the tool. The header does not show curl.
 *
 * Threads: any; a handle belongs to one thread at a time. */
#ifndef XH_HANDLE_H
#define XH_HANDLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "net.h"

#define XH_HANDLE_USER_AGENT "xhdf5/" XH_VERSION

/* Returns "Basic …", what an Authorization line says of |user| and |password| (RFC 7617); NULL without memory. Owns:
 * the caller ends it by xh_wipe. */
char *xh_handle_login(const char *user, const char *password);

/* ---- for wire.c, which knows curl: |easy| is a CURL *, |code| a CURLcode */

/* Gives a curl handle all that every connection of ours has. */
void xh_handle_dress(void *easy);

/* Sets what |s| says, but for |sockets| and |first|. Returns the list of headers, which the caller gives back to
 * xh_handle_rest, or NULL: something could not be set. */
void *xh_handle_set_up(void *easy, const struct xh_send *s);

/* The cookies that the handle has now, libcurl's lines: those that were sent, and what a reply made of them. NULL
 * without memory. Owns: the caller gives them to xh_cookies_free. */
char *xh_handle_cookies(void *easy);

/* The request is over: |headers| go, and what was secret in them. */
void xh_handle_rest(void *easy, void *headers);

/* 1 when |address|, a struct sockaddr, is link-local, or one of those that Amazon's metadata services have beside. */
int xh_handle_is_near(const void *address);

/* The same for |address| in numbers. */
int xh_handle_says_near(const char *address);

/* What |code| means. */
enum xh_net xh_handle_net(int code);

/* Fills |out|: a request that curl ended with |code| has ended as |net|. |said| is curl's error buffer. */
void xh_handle_outcome(void *easy, enum xh_net net, int code, const char *said, struct xh_outcome *out);

/* ---- a client that asks one thing at a time, on one connection that is kept */

struct xh_handle;

/* The receiver of a reply, called on the thread that asks, in xh_handle_ask. Each may be NULL. */
struct xh_handle_events {
    int (*line)(void *ctx, const char *line, size_t len);    /* 0, or -1: cut it off */
    int (*body)(void *ctx, const uint8_t *data, size_t len); /* the same */
    ptrdiff_t (*read)(void *ctx, char *buf, size_t len);     /* bytes to be sent; 0: the end; -1: cut it off */
    int (*seek)(void *ctx, uint64_t off);                    /* sending begins again from |off|: 0, or -1 */
    int (*tick)(void *ctx);                                  /* each second at least; 0 or -1 */
    void (*tls)(void *ctx, void *ssl_ctx);                   /* an SSL_CTX *, before the handshake; our OpenSSL alone */
};

/* How to ask, beside struct xh_send. */
struct xh_handle_ask {
    struct xh_send send;
    int bodiless;            /* HEAD */
    int uploads;             /* a PUT of |upload_bytes|, which events.read brings */
    uint64_t upload_bytes;
    int fresh;               /* on a new connection */
    int connects_only;       /* no request: for xh_handle_put and xh_handle_take */
    uint64_t most_ms;        /* for all of it; 0: no bound */
    /* What comes or goes next must do so within this and connect_timeout_ms, and XH_PACE_BYTES within twice that; 0: no
     * bound. An upload's answer, once all is sent, has ten times as long: the server may be at work on the file. The
     * time that the events take is not counted. */
    uint64_t quiet_ms;
};

/* |events| and |ctx| outlive it. |https|: 1: it asks nobody over http. Returns NULL without memory. */
struct xh_handle *xh_handle_new(const struct xh_handle_events *events, void *ctx, int https);
void xh_handle_free(struct xh_handle *h); /* NULL allowed; closes the connection */

/* Asks. Blocks. Returns how it went, as in |out|: a callback that cut it off is XH_NET_CUT, most_ms
 * XH_NET_CONNECT_TIMEOUT, quiet_ms XH_NET_STALL or XH_NET_CRAWL, headers of more than XH_HEADERS_MOST_BYTES
 * XH_NET_BAD_HTTP, XH_NET_LOCAL also a request that could not be made. Nothing is asked again, and no redirect
 * followed. */
enum xh_net xh_handle_ask(struct xh_handle *h, const struct xh_handle_ask *a, struct xh_outcome *out);

/* 1 when its last connection is open: the next request needs no handshake, unless the server hangs up meanwhile. */
int xh_handle_is_open(const struct xh_handle *h);

/* What the last request showed of the way. */
struct xh_handle_times {
    double connect_ms, tls_ms; /* of a new connection; 0: there was none */
    double first_ms;           /* from sending the request to the first byte of the reply */
    char address[64];          /* of the server */
};
void xh_handle_times(const struct xh_handle *h, struct xh_handle_times *out);

/* The TLS session (an SSL *) of the request under way, or NULL: there is none, or it is not our OpenSSL's. */
void *xh_handle_tls(const struct xh_handle *h);

/* Plain bytes on the connection of a handle that connects only. Return 0 with |*n| bytes done, 1: none can be now, or
 * -1. They do not wait; xh_handle_wait does, for |sending| or for bytes to come, a tenth of a second at most. */
int xh_handle_put(struct xh_handle *h, const char *text, size_t len, size_t *n);
int xh_handle_take(struct xh_handle *h, char *buf, size_t len, size_t *n);
void xh_handle_wait(const struct xh_handle *h, int sending);

#endif
