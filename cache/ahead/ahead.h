/* Reading ahead: what is told of every read. */
#ifndef XH_AHEAD_H
#define XH_AHEAD_H

#include "cache.h"

/* raw: a raw read of |n| extents begins; what is expected after it is fetched,
 * behind what the read itself needs. meta: a metadata read is done, its bytes are in the extents;
 * |missed| when it had to fetch. Neither blocks on the network, neither fails. */
void xh_ahead_raw(struct xh_file *f, const struct xh_extent *ext, size_t n);
/* lead: a raw read of |n| > 0 extents is about to begin. Where it most likely begins a long run, and connections are
 * young, the run's stream begins with the read itself: a connection that is young earns its speed by never
 * standing still. Returns 1 when so: the stage has what is read, and xh_ahead_raw is not to be called for it. */
int xh_ahead_lead(struct xh_file *f, const struct xh_extent *ext, size_t n);
/* again: raw data is to come another way from now on: what is expected of a run is asked for there, where it is not on its way. */
void xh_ahead_again(struct xh_file *f);
void xh_ahead_meta(struct xh_file *f, const struct xh_extent *ext, size_t n, int missed, int alone);

#endif
