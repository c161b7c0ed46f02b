/* Measures what several connections to one file bring together. */
#ifndef XH_SPEED_H
#define XH_SPEED_H

#include "dial.h"

/* smallest file that is measured; a smaller one ends before a connection reaches full speed */
#define XH_SPEED_LEAST_BYTES (8u << 20)

struct xh_speed {
    double bytes_per_s; /* in the second half of the time, when each connection has reached full speed */
    unsigned asked, served; /* connections; those that brought data */
    struct xh_answer failed; /* answer of a connection that failed; end and reply.status say why */
};

/* Reads |u|, of |size| bytes, over |n| new connections of |c|. Each reads its own part of the file, again and again.
 * Returns 0, or -1 when out of memory or threads. Blocks for 2 s and the time to connect, at most 10 s. */
int xh_speed_measure(const struct xh_caller *c, const struct xh_url *u, uint64_t size, unsigned n,
                     struct xh_speed *out);

#endif
