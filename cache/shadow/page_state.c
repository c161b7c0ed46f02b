/* Page states: makes their memory safe to touch, and changes them. layout.h has their bits, page.c their use. Locks:
 * none. */
#include "page_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files.h"
#include "watch/trace.h"
#include "guard.h"

int xh_page_reserve(struct xh_shadow *s, uint64_t idx)
{
    uint64_t block = idx / s->block_words;
    uint64_t bit = 1ull << (block % 64);
    if (xh_guard_broken(s->guard))
        return 0;
    /* Acquire pairs with the release below: another thread's fallocate came before. */
    if (atomic_load_explicit(&s->reserved[block / 64], memory_order_acquire) & bit)
        return 1;
    if (!xh_own_is_there(&s->own_file))
        return 0;
    uint64_t unit = s->head.unit_bytes;
    off_t states = (off_t)(s->head.header_bytes + block * unit), sums = (off_t)(s->head.sums_off + block * unit);
    if (xh_retry(fallocate(s->fd, 0, states, (off_t)unit)) < 0 ||
        xh_retry(fallocate(s->fd, 0, sums, (off_t)unit)) < 0) {
        xh_trace(XH_T_SHADOW, "no_words", "name=%.10s block=%llu errno=%d", s->name,
                 (unsigned long long)block, errno);
        return 0;
    }
    atomic_fetch_or_explicit(&s->reserved[block / 64], bit, memory_order_release);
    atomic_fetch_add_explicit(&s->since_bytes, 2 * unit, memory_order_relaxed); /* less, if others were here before */
    return 1;
}

uint64_t xh_page_next_block(struct xh_shadow *s, uint64_t block, uint64_t end)
{
    uint64_t unit = s->head.unit_bytes;
    off_t at = lseek(s->fd, (off_t)(s->head.header_bytes + block * unit), SEEK_DATA);
    if (at < 0)
        return end;
    block = ((uint64_t)at - s->head.header_bytes) / unit;
    return block < end && xh_page_reserve(s, block * s->block_words) ? block : end;
}

static void wake(struct xh_shadow *s, uint64_t idx)
{
    syscall(SYS_futex, xh_w_futex(&s->words[idx]), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

int xh_page_change(struct xh_shadow *s, uint64_t idx, uint64_t *old, uint64_t mask, enum xh_state state,
                   uint32_t owner, uint64_t flags, uint64_t keep)
{
    const uint64_t was = *old;
    do {
        uint64_t to = xh_w_make(*old, state, owner, flags | (*old & keep));
        /* Release: a process that acquires the new state sees the bytes or the hole from before. Acquire: this
         * process sees what the former owner did. */
        if (atomic_compare_exchange_weak_explicit(&s->words[idx], old, to, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            if (*old & XH_W_WAITERS)
                wake(s, idx);
            return 1;
        }
    } while (((*old ^ was) & mask) == 0);
    return 0;
}
