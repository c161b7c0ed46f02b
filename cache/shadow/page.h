/* Pages: functions that their readers share. Publishing, reading and waiting are in shadow.h. */
#ifndef XH_SHADOW_PAGE_H
#define XH_SHADOW_PAGE_H

#include "impl.h"

/* Returns how many bytes of the origin are in page |idx|. */
static inline size_t xh_page_bytes(const struct xh_shadow *s, uint64_t idx)
{
    uint64_t left = s->head.origin_bytes - idx * XH_PAGE_BYTES;
    return left < XH_PAGE_BYTES ? (size_t)left : XH_PAGE_BYTES;
}

/* Orders the copy before the second load of the page states (a seqlock reader's fence). Pairs with the evictor's CAS
 * to EVICTING. ThreadSanitizer knows no fences, nor what the kernel copies. */
static inline void xh_page_fence(void)
{
#ifdef __SANITIZE_THREAD__
    atomic_signal_fence(memory_order_acquire);
#else
    atomic_thread_fence(memory_order_acquire);
#endif
}

/* Another program wrote into the file: makes the page EMPTY, so that it is fetched again. |w| is its state, which
 * was READY. */
void xh_page_damaged(struct xh_shadow *s, uint64_t idx, uint64_t w);

#endif
