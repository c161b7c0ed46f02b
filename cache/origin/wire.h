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

#include "net.h"

struct xh_wire;
struct xh_lane;
struct xh_exchange;

/* The receiver of a reply: called on the wire's thread, no lock held. line and body return 0, or -1 to cut the exchange
 * off; body also 1: nothing was taken, the bytes are to be offered again after xh_wire_resume, and no more are read
 * until then. over comes exactly once, last; the lane is another's from then on. */
struct xh_wire_events {
    /* Connected, from this |port|; the request goes out now. May come again on a fresh connection. Returns 0, or -1: it
     * is not to go out, and the exchange is cut off. libcurl before 7.80 sends it all the same. */
    int (*sent)(struct xh_exchange *x, unsigned port);
    int (*line)(struct xh_exchange *x, const char *line, size_t len);
    int (*body)(struct xh_exchange *x, const uint8_t *data, size_t len);
    /* When to end |x|, by xh_now_ns, and with what. */
    uint64_t (*deadline)(const struct xh_exchange *x, enum xh_net *why);
    void (*over)(struct xh_exchange *x, const struct xh_outcome *out);
};

/* The state that all wires share (libcurl's own, for one), once a process and again in a fork's child; cleaned up by
 * nobody. Returns 0 or -1. */
int xh_wire_global_init(void);

/* NULL without memory. |events| outlives it. */
struct xh_wire *xh_wire_new(const struct xh_wire_events *events);

/* Starts |x|. Returns the lane that carries it until over, or NULL: then over is not called. Owns: |x| stays the
 * caller's and must live until over. */
struct xh_lane *xh_wire_start(struct xh_wire *w, struct xh_exchange *x, const struct xh_send *s);

/* Ends what |l| carries before its time: over comes from inside, with |net|. */
void xh_wire_cut(struct xh_lane *l, enum xh_net net);

/* Lets |l| go on, whose body() returned 1; harmless when it did not. body() may come from inside. */
void xh_wire_resume(struct xh_lane *l);

/* Moves what can be moved, without waiting; then ends what is past its deadline. */
void xh_wire_perform(struct xh_wire *w);

/* Looks at the network: waits for it, xh_wire_wake or |timeout_ms|, whichever is first. */
void xh_wire_poll(struct xh_wire *w, int timeout_ms);

/* Makes the thread's xh_wire_poll return, also the next one. Threads: any. */
void xh_wire_wake(struct xh_wire *w);

#endif
