/* What was measured of the link to a server, and how long a transfer takes by that. Pure: neither clock nor lock. */
#ifndef XH_LINK_H
#define XH_LINK_H

#include <stdint.h>

#include "base/links.h"

/* A reply of fewer bytes says more about latency than about rate. */
#define XH_LINK_RATE_LEAST_BYTES 131072u

/* Smoothed, 0 where nothing is known. */
struct xh_link {
    double rtt_ns;                    /* from a request to its first byte */
    double connection_rate;           /* bytes per ns of one connection */
    double rate;                      /* bytes per ns of all together */
    double counted_bytes, counted_ns; /* what |rate| is made of */
    double received_ns;               /* so long bytes came in, since the process began */
    uint64_t counted_until_ns;        /* the time up to here is in counted_ns */
};

/* A reply has ended, which brought |bytes| of body: its request was sent at |sent_ns| (0: never), the first byte
 * came at |first_ns|, the last one at |last_ns|. */
void xh_link_sample(struct xh_link *l, uint64_t sent_ns, uint64_t first_ns, uint64_t last_ns, uint64_t bytes);

/* Returns the bytes per ns of all connections together; 0: not known yet, as what slow start brings says nothing. */
double xh_link_known_rate(const struct xh_link *l);

/* Returns how long (ns) a new connection takes until a request can be sent: TCP's round trip, TLS's, and what both ends
 * compute. */
double xh_link_opening_ns(const struct xh_link *l);

/* 1 while the |sockets| connections that have brought |arrived| bytes so far have not found their speed. */
int xh_link_is_young(uint64_t arrived, unsigned sockets);

/* Returns how far |sockets| connections that have brought |bytes| have come in slow start: bytes a connection, up to
 * what one brings in a round trip at most. */
double xh_link_grown(double bytes, unsigned sockets);

/* Returns about how many bytes one of |sockets| connections that have brought |bytes| brings in the next round trip, as
 * far as slow start lets it. */
double xh_link_flight(double bytes, unsigned sockets);

/* Returns how many bytes a connection brings in a round trip, as far as is known. */
double xh_link_window(const struct xh_link *l);

/* Returns how many round trips a connection takes for |bytes|, where it had |window| bytes in the last one: while it is
 * |young| it doubles that each time, up to what an untuned system grants; later that is all it has. */
double xh_link_round_trips(double bytes, double window, int young);

#endif
