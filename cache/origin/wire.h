/* The wire: HTTP/1.1 requests and their replies, as bytes. Reading knows the network through this header alone.
 *
 * wire.c makes it of libcurl and sockets. Another wire may stand in: a program that defines the functions below itself
 * and is linked with the static library does not get wire.c (tests/sim/ does so; see docs/simulator.md).
 *
 * A wire belongs to one engine thread, with its connections, which are never shared between threads. It carries each
 * exchange on a lane of its own. What a reply means, and how long it may take, the exchange says: see struct
 * xh_wire_events. */
#ifndef XH_WIRE_H
#define XH_WIRE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct xh_wire;
struct xh_lane;
struct xh_proxies;
struct xh_exchange;

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

struct xh_outcome {
    enum xh_net net;
    int proxy_status; /* of PROXY: what it answered CONNECT with */
    unsigned opened;  /* connections opened for it */
    char text[192]; /* libcurl's words, no URL in them; "" for OK and CUT */
};

/* What the first connection to a server shows before any reply. Wires write it, any thread reads it; relaxed, orders
 * nothing. */
struct xh_wire_first {
    atomic_ullong socket_ns;  /* when its socket was opened; 0: not yet */
    atomic_ullong connect_ns; /* how long it took to be there; 0: it is not */
};

/* What to send. Read during xh_wire_start only. */
struct xh_send {
    const char *url;
    const char *method;         /* NULL: GET */
    const char *const *headers; /* NULL-terminated lines */
    const char *user, *password; /* NULL: none */
    const char *ca_file, *ca_dir, *client_cert, *client_key; /* "" or NULL: none */
    const struct xh_proxies *proxies;
    int https;
    uint64_t connect_timeout_ms; /* should the exchange's own deadline fail */
    /* Both of the server, and live as long as the process: */
    atomic_uint *sockets; /* how many this wire has open to it; relaxed, hints to other threads */
    struct xh_wire_first *first;
};

/* The receiver of a reply: called on the wire's thread, no lock held. line and body return
 * 0, or -1 to cut the exchange off; body also 1: nothing was taken, the bytes are to be offered
 * again after xh_wire_resume, and no more are read until then. over comes exactly once, last; the lane is another's from then
 * on. */
struct xh_wire_events {
    void (*sent)(struct xh_exchange *x, unsigned port); /* connected, from this |port|; the request goes out now. May come again on a fresh connection */
    int (*line)(struct xh_exchange *x, const char *line, size_t len);
    int (*body)(struct xh_exchange *x, const uint8_t *data, size_t len);
    uint64_t (*deadline)(const struct xh_exchange *x, enum xh_net *why); /* when to end |x|, by xh_now_ns, and with what */
    void (*over)(struct xh_exchange *x, const struct xh_outcome *out);
};

/* The state that all wires share (libcurl's own, for one), once a process and again in a fork's child; cleaned up by
 * nobody. Returns 0 or -1. */
int xh_wire_global_init(void);

/* How many bytes this host lets be under way to it on a connection; 0: not known. */
double xh_wire_window_bytes(void);

/* NULL without memory. |events| outlives it. */
struct xh_wire *xh_wire_new(const struct xh_wire_events *events);

/* Starts |x|. Returns the lane that carries it until over, or NULL: then over is not called. Owns: |x| stays the caller's
 * and must live until over. */
struct xh_lane *xh_wire_start(struct xh_wire *w, struct xh_exchange *x, const struct xh_send *s);

/* Ends what |l| carries before its time: over comes from inside, with |net|. */
void xh_wire_cut(struct xh_lane *l, enum xh_net net);

/* Lets |l| go on, whose body() returned 1; harmless when it did not. body() may come from inside. */
void xh_wire_resume(struct xh_lane *l);

/* Moves what can be moved, without waiting; then ends what is past its deadline. */
void xh_wire_perform(struct xh_wire *w);

/* Waits for the network, xh_wire_wake or |timeout_ms|, whichever is first. */
void xh_wire_poll(struct xh_wire *w, int timeout_ms);

/* Makes the thread's xh_wire_poll return, also the next one. Threads: any. */
void xh_wire_wake(struct xh_wire *w);

#endif
