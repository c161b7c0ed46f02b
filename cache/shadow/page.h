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

/* Orders the copy before the second load of the page states (a seqlock reader's fence). Pairs with the fences of the
 * evictor (clock.c) and of the filler (xh_shadow_fill). ThreadSanitizer knows no fences, nor what the kernel copies. */
static inline void xh_page_fence(void)
{
#ifdef __SANITIZE_THREAD__
    atomic_signal_fence(memory_order_acquire);
#else
    atomic_thread_fence(memory_order_acquire);
#endif
}

/* A page's state and sum, before its bytes are copied. */
struct xh_page_seen {
    uint64_t word, sum;
};

/* Begins a read of page |idx|. Returns 1 and sets |*seen|; 0: the page is not READY. */
int xh_page_begin_read(struct xh_shadow *s, uint64_t idx, struct xh_page_seen *seen);

/* Ends a read, after xh_page_fence. |page|: the copy of all bytes of the page; NULL: the file has fewer. Returns 1 when
 * they are good. If another program wrote into the file, makes the page EMPTY, so that it is fetched again. */
int xh_page_end_read(struct xh_shadow *s, uint64_t idx, const struct xh_page_seen *seen, const uint8_t *page);

/* Pages [first, first + n) were read, with the result |got|. Returns 1 and sets |*had| to the bytes that came. Pages of
 * which not all came are read once more, each by itself, and those that cannot be become EMPTY: the file has lost them,
 * or its disk. The caller does not have those behind |*had|. Returns 0 when nothing came and that is not
 * proved; errno says why. */
int xh_page_had(struct xh_shadow *s, ssize_t got, uint64_t first, uint64_t n, uint64_t *had);

#endif
