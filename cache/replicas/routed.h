/* Routed transfers: transfers on their way through the sites. sites.h lists their states. The lock is held, unless a
 * function says otherwise. */
#ifndef XH_LEGS_H
#define XH_LEGS_H

#include "sites.h"

/* Makes a routed transfer for |t|, in no list. Returns NULL without memory. Needs no lock. */
struct xh_routed *xh_routed_new(struct xh_replicas *r, struct xh_transfer *t);
void xh_routed_free(struct xh_routed *g); /* Needs no lock. */

/* xh_routed_queue appends |g| to its queue. xh_routed_tell marks it TOLD: the keeper will notify its owner, with
 * |err| if that has a code. */
void xh_routed_queue(struct xh_routed *g);
void xh_routed_tell(struct xh_routed *g, const struct xh_err *err);

/* Takes |g| out of the list that its state names. */
void xh_routed_unlist(struct xh_routed *g);

/* Assigns queued transfers to sites, as long as these have room. */
void xh_routed_dispatch(struct xh_replicas *r);

/* Notifies the owners of all transfers that are TOLD; releases the lock during each call. */
void xh_routed_tell_all(struct xh_replicas *r);

/* Measures sites and transfers, and moves transfers that take far too long. Does nothing if the last tick was less
 * than XH_TICK_NS ago. */
void xh_routed_tick(struct xh_replicas *r);

#endif
