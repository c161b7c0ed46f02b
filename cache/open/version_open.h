/* Opening a version: asks the origin which version of a URL there is, or believes what another process told, opens the
 * shadow of that version, and begins to fetch what opening fetches. xh_cache_tell stands here, too. */
#ifndef XH_VERSION_OPEN_H
#define XH_VERSION_OPEN_H

#include "cache.h"

/* Opens |f|, which has its options, its account and its mechanisms, as |url|; |told|: what another process told, or
 * NULL. Returns as xh_cache_open, or xh_cache_open_told. On an error |f| is to be freed. Blocks. */
int xh_version_open(struct xh_file *f, const char *url, const struct xh_told *told, struct xh_err *err);

/* Asks the origin whether it still has the version that |f| was opened as. Returns 1 or 0: another one, or no answer.
 * Blocks. */
int xh_version_is_current(struct xh_file *f);

/* Returns 1 when |f| had not changed for XH_SETTLED_S when it was opened; 0: it had, or that cannot be told. */
int xh_version_is_settled(const struct xh_file *f);

#endif
