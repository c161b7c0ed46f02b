/* How fast something comes of late: a load, or all that streams bring, while its reader does not hold it up. Pure. */
#ifndef XH_PACE_H
#define XH_PACE_H

#include <stdint.h>

/* A measurement takes so long: a round trip of a far link, and long enough for a time-out (200 ms and more) to show.
 * Half and twice as long: docs/decisions.md. */
#define XH_PACE_NS 250000000u

/* All zero at first. */
struct xh_pace {
    uint64_t bytes;                /* all that came */
    uint64_t since_ns, since_bytes; /* the measurement that goes on: its begin, and |bytes| then; 0: there is none */
    uint64_t rate;                 /* bytes a second by the last one; 0: there was none */
    int steady; /* it was no more than a fourth above the one just before: slow start is over, as BBR judges it */
};

/* It is |now_ns|; |stands|: what comes is to wait. Returns 1 when a measurement has ended. */
int xh_pace_look(struct xh_pace *p, uint64_t now_ns, int stands);

#endif
