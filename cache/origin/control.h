/* How many connections a server's streams use. Pure. */
#ifndef XH_CONTROL_H
#define XH_CONTROL_H

/* Returns how many transfers the streams from one server use together: of the |most| connections that may be used, as
 * many as a link with a round trip of |rtt_ns| has room for. A third is always left for other files and for what cannot
 * wait, as streams may stand still for long: so 0 where |most| is 1. |rtt_ns| 0: not known yet. */
unsigned xh_control_streams(double rtt_ns, unsigned most);

#endif
