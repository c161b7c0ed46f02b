/* How many connections a server's streams use, and when they give one back. Pure. */
#ifndef XH_CONTROL_H
#define XH_CONTROL_H

#include <stdint.h>

/* What was learnt of a server. All zero at first. */
struct xh_control {
    unsigned streams; /* connections that they use; 0: as many as the round trip suggests */
    unsigned fewer;   /* that they used before; 0: no other number was tried */
    int settled;             /* more did not pay, or may not be */
    double rate;             /* bytes per ns of all together: with |fewer|, or where it is settled */
    double bytes, ns;        /* of samples with |streams| so far */
    unsigned samples;
};

/* Returns how many transfers the streams from one server use together: of the |most| connections that may be used, as
 * many as a link with a round trip of |rtt_ns| has room for, or as |c| was taught. One is always left for what cannot
 * wait: so 0 where |most| is 1. |rtt_ns| 0: not known yet. */
unsigned xh_control_streams(const struct xh_control *c, double rtt_ns, unsigned most);

/* 1: that many it will be; 0: the next stream may use another number, so the one that begins had better be short. */
int xh_control_is_settled(const struct xh_control *c, double rtt_ns, unsigned most);

/* One of |streams| transfers of a stream brought |bytes| in |ns| over a connection that was there before. The time that
 * it stood still counts: a reader who takes no more has no use for more connections. Tries twice as many, as long as
 * all together bring more by that. */
void xh_control_sample(struct xh_control *c, unsigned streams, uint64_t bytes, uint64_t ns, double rtt_ns,
                       unsigned most);

/* Returns how long (ns) a stream is to have stood still before its connection is another's, where opening one takes
 * |opening_ns| and its file's streams have |streams| of |most|: as long as that where they have half, so that files
 * which are read in turns keep their parts; sooner where they have more. */
uint64_t xh_control_stands_for(double opening_ns, unsigned streams, unsigned most);

#endif
