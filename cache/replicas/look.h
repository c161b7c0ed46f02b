/* Looks: is a site there, and is its copy of the file the one that was opened? For the keeper alone; no lock. Both
 * block, but end soon when the file is being closed, and do meanwhile what cannot wait (xh_routed_tick, xh_routed_tell_all). */
#ifndef XH_LOOK_H
#define XH_LOOK_H

#include "sites.h"

/* Opens |s|, or sees whether it is back, and compares it: then it is live, dead or refused. */
void xh_look_at(struct xh_replicas *r, struct xh_site *s);

/* Fetches the main site's samples, if it can. */
void xh_look_sample(struct xh_replicas *r);

#endif
