/* Whether a stream would gain by more connections. Pure.
 *
 * A long stream begins on many connections and ends on as few as this host's windows say that they fill a link
 * (endpoint.h). But the server's windows may be smaller, and a link may lose packets. So the two are compared; where many
 * were soon over, they are tried once more. What does not pay is undone. */
#ifndef XH_GAIN_H
#define XH_GAIN_H

#include <stdint.h>

struct xh_gain {
    unsigned lasting;  /* so many are to go on; 0: no reason for more than the windows of this host say */
    int settled;       /* there is no more to try */
    double many_rate;  /* bytes per ns that many brought: at best, or on average since that has not grown; 0: unknown */
    double few_rate;   /* and few, before many were tried once more */
    double many_ns, many_bytes; /* what |many_rate| is the average of; 0: it still grows */
    int ample;         /* few have brought enough */
    unsigned low;      /* intervals in a row in which they did not */
    /* The measurement under way: */
    int few;
    uint64_t begun_ns, begun_bytes; /* begun_ns 0: none */
    double last_rate;               /* of the interval before, 0: none */
};

/* A stream's |loads| connections, all of which its reader waits for, have brought |bytes| in all by |now|; |few|: they
 * are those that it ends on. Returns 1 when it is to be dealt to |most| of them, for a trial. */
int xh_gain_weigh(struct xh_gain *g, unsigned loads, int few, unsigned most, uint64_t bytes, uint64_t now, double rtt_ns);

/* The stream stands still: what is measured now tells nothing. */
void xh_gain_pause(struct xh_gain *g);

#endif
