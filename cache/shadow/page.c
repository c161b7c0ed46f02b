/* Pages: claim, fill, publish, abandon, read, wait. See layout.h for the word.
 *
 * Invariants
 * 1. A word is touched only after its block was reserved: a fault in a hole of a full
 *    tmpfs would be SIGBUS.
 * 2. Only a claim's owner writes the page's bytes, and only those of the origin for this
 *    validator. So a dead owner's half-filled page is harmless: the next one writes the
 *    same bytes over it. A dead owner writes no more, as its lock went with its last thread.
 * 3. READY is stored (release) after the bytes; a reader loads it (acquire) before them.
 * 4. READY ends only by EVICTING, stored before the first byte goes; a reader looks at the
 *    word again after copying. READY of the same generation means: there all the time.
 *
 * Locks: none. Page bytes go by pread and pwrite, which on tmpfs take no lock for a read
 * and fail instead of faulting. Knows nothing of budgets beyond charging one. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../trace.h"
#include "impl.h"

#define RUN_PAGES 256u   /* most pages of one pread: what fits on the stack and in the L2 cache */
#define PROVE_ALIVE_MS 250 /* how often a waiter looks whether the owner is alive */

/* Orders the copy before the second look at the words (a seqlock reader's fence). Pairs with
 * the evictor's CAS to EVICTING. ThreadSanitizer knows no fences, nor what the kernel copies. */
static inline void fence_after_copy(void)
{
#ifdef __SANITIZE_THREAD__
    atomic_signal_fence(memory_order_acquire);
#else
    atomic_thread_fence(memory_order_acquire);
#endif
}

int xh_page_reserve(struct xh_shadow *s, uint64_t idx)
{
    uint64_t block = idx / s->block_words;
    uint64_t bit = 1ull << (block % 64);
    /* Acquire pairs with the release below: the fallocate of another thread came before. */
    if (atomic_load_explicit(&s->reserved[block / 64], memory_order_acquire) & bit)
        return 1;
    uint64_t unit = s->head.unit_bytes;
    int rc;
    do
        rc = fallocate(s->fd, 0, (off_t)(s->head.header_bytes + block * unit), (off_t)unit);
    while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        xh_trace(XH_T_SHADOW, "no_words", "name=%.10s block=%llu errno=%d", s->name,
                 (unsigned long long)block, errno);
        return 0;
    }
    atomic_fetch_or_explicit(&s->reserved[block / 64], bit, memory_order_release);
    return 1;
}

static int usable(const struct xh_shadow *s, uint64_t idx)
{
    return s->fd >= 0 && idx < s->head.pages;
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
        /* Release: what came before (bytes, hole) is seen by who acquires the new state.
         * Acquire: what the former owner did is seen by this one. */
        if (atomic_compare_exchange_weak_explicit(&s->words[idx], old, to, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            if (*old & XH_W_WAITERS)
                wake(s, idx);
            return 1;
        }
    } while (((*old ^ was) & mask) == 0);
    return 0;
}

uint64_t xh_shadow_touch(struct xh_shadow *s, uint64_t first, uint64_t n, uint64_t *empty)
{
    uint64_t again = 0;
    *empty = 0;
    for (uint64_t i = first; i < first + n && usable(s, i) && xh_page_reserve(s, i); i++) {
        uint64_t w = atomic_load_explicit(&s->words[i], memory_order_relaxed);
        if (xh_w_state(w) != XH_EMPTY)
            continue;
        ++*empty;
        if (w & XH_W_HOT)
            again++;
        else /* a lost race means that the page is no longer as it was: no mark then */
            atomic_compare_exchange_strong_explicit(&s->words[i], &w, w | XH_W_HOT, memory_order_relaxed,
                                                    memory_order_relaxed);
    }
    return again;
}

enum xh_claim xh_shadow_peek(struct xh_shadow *s, uint64_t idx)
{
    if (!usable(s, idx) || !xh_page_reserve(s, idx))
        return XH_CLAIM_NONE;
    switch (xh_w_state(atomic_load_explicit(&s->words[idx], memory_order_relaxed))) {
    case XH_EMPTY: return XH_CLAIM_MINE;
    case XH_READY: return XH_CLAIM_READY;
    default: return XH_CLAIM_BUSY;
    }
}

int xh_shadow_elsewhere(struct xh_shadow *s, uint64_t idx)
{
    if (!usable(s, idx) || !xh_page_reserve(s, idx))
        return 0;
    uint64_t w = atomic_load_explicit(&s->words[idx], memory_order_relaxed);
    return xh_w_state(w) == XH_CLAIMED && xh_w_owner(w) != atomic_load_explicit(&s->owner, memory_order_relaxed);
}

/* Claims an EMPTY page whose word was |w|. Returns 1 and is charged, 0 to look again, -1 for none. */
static int claim_empty(struct xh_shadow *s, uint64_t idx, uint64_t *w, int meta, struct xh_counters *c)
{
    uint32_t owner = xh_owner_get(s);
    if (owner == 0 || !xh_evict_charge(s, meta, c))
        return -1;
    uint64_t to = xh_w_make(*w + XH_W_GEN_ONE, XH_CLAIMED, owner, meta ? XH_W_META : 0);
    /* Acquire pairs with the release that made it EMPTY: its hole comes before our bytes. */
    if (atomic_compare_exchange_strong_explicit(&s->words[idx], w, to, memory_order_acq_rel,
                                                memory_order_acquire))
        return 1;
    atomic_fetch_sub_explicit(&s->inflight, 1, memory_order_relaxed);
    return 0;
}

enum xh_claim xh_shadow_claim(struct xh_shadow *s, uint64_t idx, int meta, struct xh_counters *c)
{
    if (!usable(s, idx))
        return XH_CLAIM_NONE;
    if (!xh_page_reserve(s, idx) &&
        !(xh_evict_squeeze(s, s->step_bytes, meta, c) && xh_page_reserve(s, idx)))
        return XH_CLAIM_NONE;
    uint64_t w = atomic_load_explicit(&s->words[idx], memory_order_acquire);
    for (;;) {
        switch (xh_w_state(w)) {
        case XH_READY:
            if (meta && !(w & XH_W_META) &&
                !atomic_compare_exchange_weak_explicit(&s->words[idx], &w, w | XH_W_META,
                                                       memory_order_acquire, memory_order_acquire))
                continue;
            return XH_CLAIM_READY;
        case XH_EMPTY:
            switch (claim_empty(s, idx, &w, meta, c)) {
            case 1: return XH_CLAIM_MINE;
            case -1: return XH_CLAIM_NONE;
            }
            continue;
        default: return XH_CLAIM_BUSY;
        }
    }
}

int xh_shadow_fill(struct xh_shadow *s, uint64_t off, const void *data, size_t len)
{
    assert(off <= s->head.origin_bytes && len <= s->head.origin_bytes - off);
    if (s->fd < 0)
        return XH_E_NOSPACE;
    const char *from = data;
    int squeezed = 0;
    while (len) {
        ssize_t n = pwrite(s->fd, from, len, (off_t)(s->head.data_off + off));
        if (n > 0) {
            from += n, off += (uint64_t)n, len -= (size_t)n;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && errno == ENOSPC && !squeezed) {
            /* Someone else filled the tmpfs below our budget: give back some of ours, once. */
            squeezed = 1;
            if (!xh_evict_squeeze(s, len + s->step_bytes, 0, NULL))
                return XH_E_NOSPACE;
        } else {
            xh_trace(XH_T_SHADOW, "fill_failed", "name=%.10s off=%llu errno=%d", s->name,
                     (unsigned long long)off, n < 0 ? errno : 0);
            return XH_E_NOSPACE;
        }
    }
    return XH_OK;
}

/* Ends claims of this process over |n| pages. Words that are not its claims are let be. */
static uint64_t end_claims(struct xh_shadow *s, uint64_t first, uint64_t n, enum xh_state state,
                           uint64_t flags, uint64_t keep)
{
    uint32_t owner = atomic_load_explicit(&s->owner, memory_order_acquire);
    if (s->fd < 0 || owner == 0 || first >= s->head.pages)
        return 0;
    if (n > s->head.pages - first)
        n = s->head.pages - first;
    uint64_t ended = 0;
    for (uint64_t i = first; i < first + n; i++) {
        if (!xh_page_reserve(s, i))
            continue; /* never claimed: a claim would have reserved it */
        uint64_t w = atomic_load_explicit(&s->words[i], memory_order_relaxed);
        if (xh_w_state(w) == XH_CLAIMED && xh_w_owner(w) == owner)
            ended += (uint64_t)xh_page_change(s, i, &w, XH_W_HELD, state, 0, flags, keep);
    }
    atomic_fetch_sub_explicit(&s->inflight, ended, memory_order_relaxed);
    return ended;
}

void xh_shadow_publish(struct xh_shadow *s, uint64_t first, uint64_t n, struct xh_counters *c)
{
    /* HOT, so that a page fetched ahead survives the clock's hand once before it is read. */
    uint64_t ended = end_claims(s, first, n, XH_READY, XH_W_HOT, XH_W_META);
    if (c && ended)
        xh_count(c, pages_published, ended);
}

void xh_shadow_abandon(struct xh_shadow *s, uint64_t first, uint64_t n)
{
    end_claims(s, first, n, XH_EMPTY, XH_W_STALE, 0);
}

/* As xh_shadow_read, for at most RUN_PAGES pages (and a part). */
static size_t read_run(struct xh_shadow *s, uint64_t off, char *buf, size_t len)
{
    uint64_t seen[RUN_PAGES + 1];
    uint64_t first = off / XH_PAGE_BYTES, n = 0;
    uint64_t want = (off + len - 1) / XH_PAGE_BYTES - first + 1;
    for (; n < want && xh_page_reserve(s, first + n); n++) {
        /* Acquire pairs with publish: READY here, so the bytes are there. */
        seen[n] = atomic_load_explicit(&s->words[first + n], memory_order_acquire);
        if (xh_w_state(seen[n]) != XH_READY)
            break;
    }
    if (n == 0)
        return 0;
    if (n < want)
        len = (size_t)((first + n) * XH_PAGE_BYTES - off);

    size_t got = 0;
    while (got < len) {
        ssize_t r = pread(s->fd, buf + got, len - got, (off_t)(s->head.data_off + off + got));
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            break;
        got += (size_t)r;
    }

    fence_after_copy();
    for (uint64_t i = 0; i < n; i++) {
        uint64_t w = atomic_load_explicit(&s->words[first + i], memory_order_relaxed);
        if ((w ^ seen[i]) & XH_W_SEEN) {
            uint64_t good = (first + i) * XH_PAGE_BYTES;
            good = good > off ? good - off : 0;
            return good < got ? (size_t)good : got;
        }
        /* Stored only when it is not there, so that hits in many processes share the line. */
        if (!(w & XH_W_HOT))
            atomic_fetch_or_explicit(&s->words[first + i], XH_W_HOT, memory_order_relaxed);
    }
    return got;
}

size_t xh_shadow_read(struct xh_shadow *s, uint64_t off, void *buf, size_t len)
{
    if (s->fd < 0 || off >= s->head.origin_bytes)
        return 0;
    if (len > s->head.origin_bytes - off)
        len = (size_t)(s->head.origin_bytes - off);
    size_t done = 0;
    while (done < len) {
        size_t run = RUN_PAGES * XH_PAGE_BYTES;
        if (run > len - done)
            run = len - done;
        size_t good = read_run(s, off + done, (char *)buf + done, run);
        done += good;
        if (good < run)
            break;
    }
    return done;
}

/* Sets to EMPTY what dead |owner| holds in the block of words around |idx|: whoever waits for
 * one of its pages most likely waits for the next ones too. */
static void take_over(struct xh_shadow *s, uint64_t idx, uint32_t owner, struct xh_counters *c)
{
    uint64_t first = idx / s->block_words * s->block_words;
    uint64_t end = first + s->block_words, taken = 0;
    if (end > s->head.pages)
        end = s->head.pages;
    for (uint64_t i = first; i < end; i++) {
        uint64_t w = atomic_load_explicit(&s->words[i], memory_order_acquire);
        int held = xh_w_state(w) == XH_CLAIMED || xh_w_state(w) == XH_EVICTING;
        if (held && xh_w_owner(w) == owner)
            taken += (uint64_t)xh_page_change(s, i, &w, XH_W_HELD, XH_EMPTY, 0, XH_W_STALE, 0);
    }
    xh_trace(XH_T_SHADOW, "taken_over", "name=%.10s first=%llu owner=%x pages=%llu", s->name,
             (unsigned long long)first, owner, (unsigned long long)taken);
    if (c && taken)
        xh_count(c, claims_taken_over, taken);
}

/* Sleeps until the word's change of state wakes it, |ms| at most. |w| is the word as seen. */
static void sleep_on(struct xh_shadow *s, uint64_t idx, uint64_t w, int64_t ms)
{
    if (!(w & XH_W_WAITERS)) {
        if (!atomic_compare_exchange_strong_explicit(&s->words[idx], &w, w | XH_W_WAITERS,
                                                     memory_order_relaxed, memory_order_relaxed))
            return;
        w |= XH_W_WAITERS;
    }
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    syscall(SYS_futex, xh_w_futex(&s->words[idx]), FUTEX_WAIT, (uint32_t)w, &ts, NULL, 0);
}

int xh_shadow_wait(struct xh_shadow *s, uint64_t idx, int timeout_ms, struct xh_counters *c)
{
    if (!usable(s, idx) || !xh_page_reserve(s, idx))
        return XH_OK; /* claim will say NONE */
    uint64_t end_ns = xh_shadow_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
    uint64_t prove_ns = 0; /* first of all, as a crash may be long ago */
    const uint64_t was = atomic_load_explicit(&s->words[idx], memory_order_acquire);
    if (xh_w_state(was) != XH_CLAIMED && xh_w_state(was) != XH_EVICTING)
        return XH_OK;
    for (;;) {
        uint64_t w = atomic_load_explicit(&s->words[idx], memory_order_acquire);
        if ((w ^ was) & XH_W_HELD)
            return XH_OK;
        uint64_t now = xh_shadow_now_ns();
        if (now >= prove_ns) {
            if (xh_owner_dead(s, xh_w_owner(w))) {
                take_over(s, idx, xh_w_owner(w), c);
                return XH_OK;
            }
            prove_ns = now + PROVE_ALIVE_MS * 1000000ull;
        }
        if (now >= end_ns)
            return XH_E_TIMEOUT;
        uint64_t until = end_ns < prove_ns ? end_ns : prove_ns;
        sleep_on(s, idx, w, (int64_t)((until - now) / 1000000 + 1));
    }
}
