/* Page states: makes their memory safe to touch, and changes them. layout.h has their bits. */
#ifndef XH_SHADOW_WORD_H
#define XH_SHADOW_WORD_H

#include "impl.h"

/* Makes the page states and sums of |idx|'s block safe to touch. Returns 1, or 0 when there is no memory. */
int xh_page_reserve(struct xh_shadow *s, uint64_t idx);
/* Makes the page state and sum of |idx| safe to load, no more. On a disk a load from a hole takes no space, and a
 * mere look is not to wait for the disk's allocator. Returns as xh_page_reserve. */
static inline int xh_page_look(struct xh_shadow *s, uint64_t idx)
{
    return s->head.on_disk ? !xh_guard_broken(s->guard) : xh_page_reserve(s, idx);
}

/* Returns the first block in [block, end) whose page states some process has touched, and makes them safe to touch;
 * |end| when there is none, or no memory. */
uint64_t xh_page_next_block(struct xh_shadow *s, uint64_t block, uint64_t end);
/* Replaces the page state |*old| (kept up to date) by |state|, |owner| and |flags|; flags in |keep| stay. Wakes
 * waiters. Returns 1, or 0 as soon as a bit of |mask| differs from |*old|. */
int xh_page_change(struct xh_shadow *s, uint64_t idx, uint64_t *old, uint64_t mask, enum xh_state state,
                   uint32_t owner, uint64_t flags, uint64_t keep);

#endif
