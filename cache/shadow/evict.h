/* Makes room: drops whole shadows first, then evicts pages. */
#ifndef XH_SHADOW_EVICT_H
#define XH_SHADOW_EVICT_H

#include "impl.h"

/* Charges one page, which takes |bytes|, to the budget; evicts if necessary. Returns 1, or 0 when nothing can be
 * freed. */
int xh_evict_charge(struct xh_shadow *s, uint64_t bytes, int meta, struct xh_counters *c);
/* Frees about |want_bytes|: drops shadows that no process has open, then evicts pages. Metadata is evicted only for
 * metadata (|meta|), or when it has most of the budget. Returns the bytes freed; 0 also when the last attempt failed
 * a moment ago, or another thread is making room. */
uint64_t xh_evict_squeeze(struct xh_shadow *s, uint64_t want_bytes, int meta, struct xh_counters *c);

#endif
