/* Makes room: drops whole shadows first, then evicts pages. */
#ifndef XH_SHADOW_EVICT_H
#define XH_SHADOW_EVICT_H

#include <time.h>

#include "impl.h"

/* Returns |used|, the time at which a shadow was used; 0, which is before all others, where that is later than |now| by
 * more than clocks differ, as a wrong one gave it: else that shadow would stay before all others until the clock comes
 * there. */
struct timespec xh_evict_used(struct timespec used, time_t now);

/* Charges one page, which takes |bytes|, to the budget; evicts if necessary. Returns 1, or 0 when nothing can be
 * freed. */
int xh_evict_charge(struct xh_shadow *s, uint64_t bytes, int meta, struct xh_counters *c);
/* Frees about |want_bytes|: drops shadows that no process has open, then evicts pages. Metadata is evicted only for
 * metadata (|meta|), or when it has most of the budget. Returns the bytes freed; 0 also when the last attempt failed
 * a moment ago, or another thread is making room. */
uint64_t xh_evict_squeeze(struct xh_shadow *s, uint64_t want_bytes, int meta, struct xh_counters *c);

#endif
