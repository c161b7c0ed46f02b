/* Speed: what several connections to one file bring together. */
#ifndef XH_SPEED_H
#define XH_SPEED_H

#include "dial.h"

#define XH_SPEED_LEAST_BYTES (8u << 20) /* of the file: less is over before a connection has found its speed */
#define XH_SPEED_MS 2000u               /* a measurement lasts so long, */
#define XH_SPEED_MOST_BYTES (256u << 20) /* or until so much has come */

struct xh_speed {
    double bytes_per_s; /* in the second half of the time, when each has found its speed */
    uint64_t bytes;     /* that came in all */
    unsigned asked, served; /* connections; those that brought something */
    struct xh_answer failed; /* of one that did not; end and reply.status tell why */
};

/* Reads |u|, of |size| bytes, by |n| new connections of |c|, each its own part of the file, and over again.
 * Returns 0, or -1 without memory or threads. Blocks, 2 s and what connecting takes: 10 s at most. */
int xh_speed_measure(const struct xh_caller *c, const struct xh_url *u, uint64_t size, unsigned n, struct xh_speed *out);

#endif
