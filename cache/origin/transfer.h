/* The wire: HTTP/1.1 requests over libcurl. transfer.c is the one file that
 * knows curl in reading (dav.c does in writing); this header does not show it.
 *
 * A wire belongs to one engine thread: a curl multi with its connections, which are never
 * shared between threads, and easy handles ("lanes") that are kept and used again. */
#ifndef XH_TRANSFER_H
#define XH_TRANSFER_H

#include <stddef.h>
#include <stdint.h>

#include "../err.h"

struct xh_wire;
struct xh_proxies;
struct xh_exchange;
struct xh_endpoint;

/* How an exchange went, as far as the network goes. */
enum xh_net {
    XH_NET_OK,        /* the reply came whole */
    XH_NET_CUT,       /* a callback cut it off, or nothing was wanted of it any more */
    XH_NET_CANCELLED, /* its owner wants it no more */
    XH_NET_NAME,      /* the name did not resolve */
    XH_NET_CONNECT,   /* refused, unreachable */
    XH_NET_CONNECT_TIMEOUT,
    XH_NET_STALL,     /* no byte for the stall time-out */
    XH_NET_CRAWL,     /* fewer than XH_PACE_BYTES in twice that */
    XH_NET_BROKEN,    /* reset, or closed before the end */
    XH_NET_UNTRUSTED, /* the certificate did not verify */
    XH_NET_HANDSHAKE, /* TLS failed otherwise */
    XH_NET_BAD_HTTP,  /* not HTTP/1.x */
    XH_NET_LOCAL,     /* out of memory, or a file named in the options is unusable */
    XH_NET_EXITING,   /* the process is exiting */
    XH_NET_PROXY,     /* a proxy refused to connect: |proxy_status| */
    XH_NET_TURN,      /* not sent: another request finds out whether the proxy takes the login */
};

#define XH_WIRE_ADVICE_BYTES 200

struct xh_outcome {
    enum xh_net net;
    int proxy_status; /* of PROXY: what it answered CONNECT with */
    char text[192]; /* libcurl's words, no URL in them; "" for OK and CUT */
};

/* What a reply must bring in twice the stall time-out. One byte now and then would else hold a read for ever, and no real
 * link is that slow. */
#define XH_PACE_BYTES 4096u

/* How long the end of a reply may take to come once all that is wanted is there: the last boundary, the last chunk. They
 * mostly come in the same packet; a reader waits for them, and a new connection costs about as much. */
#define XH_TAIL_NS 100000000u

/* What to send. Read during xh_wire_start only. */
struct xh_send {
    const char *url;
    const char *method;         /* NULL: GET */
    const char *const *headers; /* NULL-terminated lines */
    const char *user, *password; /* NULL: none */
    const char *ca_file, *ca_dir, *client_cert, *client_key; /* "" or NULL: none */
    const struct xh_proxies *proxies;
    int https;
    uint64_t connect_timeout_ms, stall_timeout_ms;
    struct xh_endpoint *endpoint; /* told of sockets opened and closed */
};

/* The receiver of a reply: called on the wire's thread, no lock held. line and body return
 * 0, or -1 to cut the exchange off; body also 1: nothing was taken, the bytes are to be offered
 * again after xh_wire_resume, and no more are read until then. over comes exactly once, last. */
struct xh_wire_events {
    void (*sent)(struct xh_exchange *x, unsigned port); /* connected, from this |port|; the request goes out now. May come again on a fresh connection */
    int (*line)(struct xh_exchange *x, const char *line, size_t len);
    int (*body)(struct xh_exchange *x, const uint8_t *data, size_t len);
    void (*over)(struct xh_exchange *x, const struct xh_outcome *out);
};

/* libcurl's global state, once a process; cleaned up by nobody. Returns 0 or -1. */
int xh_wire_global_init(void);

/* Gives a curl handle (|easy| is a CURL *, for those who know curl) all that every connection of ours has. */
void xh_wire_dress(void *easy);

/* Says which proxy the handle is to go through to a server of |https| or http, and to which hosts it is not: libcurl
 * looks into the environment for neither then. |p| outlives the request. Returns 0, or -1 without memory. */
int xh_wire_set_proxy(void *easy, const struct xh_proxies *p, int https);

/* What a proxy refused the last request's connection with, as a status of 400 or more; 0: none did. */
int xh_wire_proxy_status(void *easy);

/* 1 when curl's TLS is the OpenSSL of the headers here: it may be built with another library, or another version. */
int xh_wire_has_our_openssl(void);

/* What to do about a TLS session that failed with the words |said| (struct xh_outcome's): a sentence, or NULL where
 * only they tell. |out| may hold it. */
const char *xh_wire_advice(const char *said, char out[XH_WIRE_ADVICE_BYTES]);

/* Where libcurl itself would look for CAs; either may be NULL. */
void xh_wire_default_ca(const char **file, const char **dir);

/* |thread_index| is what the endpoints count sockets under. NULL without memory. */
struct xh_wire *xh_wire_new(const struct xh_wire_events *events, unsigned thread_index);

/* Starts |x|. Returns 0, or -1: then over is not called. Owns: |x| stays the caller's and
 * must live until over. */
int xh_wire_start(struct xh_wire *w, struct xh_exchange *x, const struct xh_send *s);

/* Ends |x| before its time: over comes from inside, with |net|. */
void xh_wire_cut(struct xh_wire *w, struct xh_exchange *x, enum xh_net net);

/* Lets |x| go on after its body() returned 1; harmless when it did not. */
void xh_wire_resume(struct xh_wire *w, struct xh_exchange *x);

/* Moves what can be moved, without waiting; then ends what has exceeded its time-out. */
void xh_wire_perform(struct xh_wire *w);

/* Waits for the network, xh_wire_wake or |timeout_ms|, whichever is first. */
void xh_wire_poll(struct xh_wire *w, int timeout_ms);

/* Makes the thread's xh_wire_poll return, also the next one. Threads: any. */
void xh_wire_wake(struct xh_wire *w);

#endif
