/* Rates: what sites bring, and which transfers would be there sooner by another. Measures and tells; what is done about
 * it stands in routed.c. The lock is held. */
#ifndef XH_RATE_H
#define XH_RATE_H

#include "sites.h"

/* Notes what sites and legs brought in the last |ns|. */
void xh_rate_measure(struct xh_replicas *r, uint64_t now, uint64_t ns);

/* The sites as xh_choose takes them. */
void xh_rate_choices(const struct xh_replicas *r, struct xh_choice c[XH_SITES_MAX]);

/* Which live sites have not been heard of for long, though they were asked: |silent|, one for each. Returns how many;
 * 0 where there is no other site. */
size_t xh_rate_silent(const struct xh_replicas *r, uint64_t now, int silent[XH_SITES_MAX]);

/* The site where |g|, which a reader waits for, is done far sooner; XH_CHOICE_NONE: it stays. |all|: the choices. */
int xh_rate_better(const struct xh_replicas *r, const struct xh_routed *g, const struct xh_choice *all, uint64_t now);

/* 1 when |s| is so much slower |than| the other that it is not worth asking for a while. */
int xh_rate_is_slow(const struct xh_site *s, const struct xh_site *than);

#endif
