/* Rates: how much the sites bring, and which transfers would end sooner at another site. This file only measures;
 * routed.c acts on it. All functions: the lock is held. */
#ifndef XH_RATE_H
#define XH_RATE_H

#include "sites.h"

/* Measures what sites and routed transfers brought in the last |ns|. */
void xh_rate_measure(struct xh_replicas *r, uint64_t now, uint64_t ns);

/* Describes the sites for xh_choose. */
void xh_rate_choices(const struct xh_replicas *r, struct xh_choice c[XH_SITES_MAX]);

/* Sets |silent[i]| to 1 for each live site that was asked for something and has not been heard of for long. Returns
 * their number; 0 where no other site could help. */
size_t xh_rate_silent(const struct xh_replicas *r, uint64_t now, int silent[XH_SITES_MAX]);

/* Returns the site where |g|, which a reader waits for, would end far sooner; XH_CHOICE_NONE: it stays. |all|: the
 * choices. */
int xh_rate_better(const struct xh_replicas *r, const struct xh_routed *g, const struct xh_choice *all, uint64_t now);

/* Returns 1 when |s| is so much slower than |than| that it is better not asked for a while. */
int xh_rate_is_slow(const struct xh_site *s, const struct xh_site *than);

#endif
