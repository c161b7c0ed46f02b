/* The scheduler: where what is expected goes, to the shadow or to a stream, of the file or of its compressed copy. */
#ifndef XH_SCHEDULE_H
#define XH_SCHEDULE_H

#include "cache.h"

/* Claims the EMPTY pages of the |n| ranges of |r|, which lie in the object, and fetches them for
 * nobody yet: as many as there is room for, from the first on. Returns how many ranges were seen
 * to, fetched now or there already; fewer than |n| when there is no more room. Never fails. */
size_t xh_schedule(struct xh_file *f, const struct xh_range *r, size_t n, enum xh_kind kind);

/* The same for one long stretch of raw data, whose bytes are wanted in order. Where it need not stay
 * in the shadow, a stream up to |stream_end| (0: none) takes it over. Returns the end of what is seen to. */
uint64_t xh_schedule_stretch(struct xh_file *f, struct xh_range r, uint64_t stream_end);

/* Begins a stream of [off, end) whose first bytes a read is about to take, where xh_schedule_stretch would begin one
 * behind it. Returns the end of what is seen to, |off| when there is none. */
uint64_t xh_schedule_lead(struct xh_file *f, uint64_t off, uint64_t end);

#endif
