/* Legs: transfers on their way through the sites. Their states are in sites.h. The lock is held, unless a function says
 * otherwise. */
#ifndef XH_LEGS_H
#define XH_LEGS_H

#include "sites.h"

/* Makes a leg of |t|, in no list. No lock. NULL without memory. */
struct xh_routed *xh_routed_new(struct xh_replicas *r, struct xh_transfer *t);
void xh_routed_free(struct xh_routed *g); /* No lock. */

/* Puts |g| last into its queue; tells that it is over, with |err| if that has a code. */
void xh_routed_queue(struct xh_routed *g);
void xh_routed_tell(struct xh_routed *g, const struct xh_err *err);

/* Takes |g| out of the list that it is in. */
void xh_routed_unlist(struct xh_routed *g);

/* Gives queued legs to sites, as long as these have room. */
void xh_routed_dispatch(struct xh_replicas *r);

/* Tells the owners of all that is TOLD; lets go of the lock meanwhile. */
void xh_routed_tell_all(struct xh_replicas *r);

/* Measures sites and legs, and has moved what takes far too long; does nothing when it did so just now. */
void xh_routed_tick(struct xh_replicas *r);

#endif
