/* Looks: checks whether a site is there, and whether its copy of the file is the opened version. Only the keeper
 * calls this, without the lock. Both functions block on the network, 10 s at most in each of their steps, and end
 * soon when the file is being closed. Meanwhile they do the keeper's urgent work (xh_routed_tick,
 * xh_routed_tell_all). */
#ifndef XH_LOOK_H
#define XH_LOOK_H

#include "sites.h"

/* Opens |s|, or checks whether it is back, and compares its version. Afterwards |s| is LIVE, DEAD or REFUSED. */
void xh_look_at(struct xh_replicas *r, struct xh_site *s);

#endif
