/* Pages: fill, publish, give up, read, wait. layout.h has the page state.
 *
 * Invariants
 * 1. A page state is touched only after its block was reserved: a fault in a hole of a full tmpfs would raise SIGBUS.
 * 2. Only a claim's owner writes the page's bytes, and only those of the origin for this validator. So a dead owner's
 *    half-filled page is harmless: the next owner writes the same bytes over it. A dead owner writes no more, as its
 *    lock goes with its last thread.
 * 3. READY is stored (release) after the bytes; a reader loads it (acquire) before them.
 * 4. READY ends only by EVICTING, which is stored before the first byte goes. A reader loads the page state again after
 *    copying. READY with the same generation means that the page was there all the time.
 * 5. Other programs should not write into the file, but may. A reader gets no page whose sum differs from that of the
 *    published bytes. Such a page becomes EMPTY, and is fetched again.
 *
 * Locks: none. Page bytes go by pread and pwrite, which on tmpfs take no lock for a read, and fail instead of
 * faulting. This file knows nothing of budgets, beyond making room once when the tmpfs is full. */
#include "page.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/now.h"
#include "watch/trace.h"
#include "claim.h"
#include "directory.h"
#include "evict.h"
#include "owner.h"
#include "sum.h"
#include "page_state.h"

#define RUN_PAGES 64u      /* most pages of one copy: they are still in a cache when they are summed */
#define PROVE_ALIVE_MS 250 /* how often a waiter checks whether the owner is alive */

static uint64_t touched(struct xh_shadow *s, uint64_t first, uint64_t n, int marks, uint64_t *empty)
{
    uint64_t again = 0;
    *empty = 0;
    for (uint64_t i = first; i < first + n && xh_page_usable(s, i) && xh_page_reserve(s, i); i++) {
        uint64_t w = atomic_load_explicit(&s->words[i], memory_order_relaxed);
        if (xh_w_state(w) != XH_EMPTY)
            continue;
        ++*empty;
        if (w & XH_W_HOT)
            again++;
        else if (marks) /* if the CAS fails the page has changed, and needs no mark */
            atomic_compare_exchange_strong_explicit(&s->words[i], &w, w | XH_W_HOT, memory_order_relaxed,
                                                    memory_order_relaxed);
    }
    return again;
}

uint64_t xh_shadow_touch(struct xh_shadow *s, uint64_t first, uint64_t n, uint64_t *empty)
{
    return touched(s, first, n, 1, empty);
}

uint64_t xh_shadow_touched(struct xh_shadow *s, uint64_t first, uint64_t n, uint64_t *empty)
{
    return touched(s, first, n, 0, empty);
}

enum xh_claim xh_shadow_peek(struct xh_shadow *s, uint64_t idx)
{
    if (!xh_page_usable(s, idx) || !xh_page_look(s, idx))
        return XH_CLAIM_NONE;
    switch (xh_w_state(atomic_load_explicit(&s->words[idx], memory_order_relaxed))) {
    case XH_EMPTY: return XH_CLAIM_MINE;
    case XH_READY: return XH_CLAIM_READY;
    default: return XH_CLAIM_BUSY;
    }
}

int xh_shadow_has(struct xh_shadow *s, uint64_t first, uint64_t n)
{
    uint64_t i = first;
    while (i < first + n && xh_shadow_peek(s, i) == XH_CLAIM_READY)
        i++;
    return i == first + n;
}

uint64_t xh_shadow_next(struct xh_shadow *s, uint64_t idx, int *meta)
{
    const uint64_t per = s->block_words, blocks = s->map ? (s->head.pages + per - 1) / per : 0;
    for (uint64_t b = idx / per; b < blocks && (b = xh_page_next_block(s, b, blocks)) < blocks; b++)
        for (uint64_t i = idx > b * per ? idx : b * per; i < (b + 1) * per && xh_page_usable(s, i); i++) {
            uint64_t w = atomic_load_explicit(&s->words[i], memory_order_relaxed);
            *meta = (w & XH_W_META) != 0;
            if (xh_w_state(w) == XH_READY)
                return i;
        }
    return UINT64_MAX;
}

int xh_shadow_elsewhere(struct xh_shadow *s, uint64_t idx)
{
    if (!xh_page_usable(s, idx) || !xh_page_reserve(s, idx))
        return 0;
    uint64_t w = atomic_load_explicit(&s->words[idx], memory_order_relaxed);
    return xh_w_state(w) == XH_CLAIMED && xh_w_owner(w) != atomic_load_explicit(&s->owner, memory_order_relaxed);
}

/* Notes the sums of the whole pages at |data|. They are never computed from the file, which another program may have
 * cut. */
static void note_sums(struct xh_shadow *s, uint64_t off, const uint8_t *data, size_t len)
{
    for (uint64_t idx = off / XH_PAGE_BYTES, at; (at = idx * XH_PAGE_BYTES) < off + len; idx++)
        if (xh_page_reserve(s, idx))
            atomic_store_explicit(&s->sums[idx], xh_sum_page(s->sums_of, idx, data + (at - off), xh_page_bytes(s, idx)),
                                  memory_order_relaxed);
}

static int no_more(const struct xh_shadow *s, uint64_t off, int why)
{
    struct xh_unfit full = {0};
    xh_trace(XH_T_SHADOW, "fill_failed", "name=%.10s off=%llu errno=%d", s->name, (unsigned long long)off, why);
    if (s->head.on_disk) {
        xh_directory_unfit(&full, why);
        xh_directory_say_disk(s->dir, &full);
    }
    return XH_E_NOSPACE;
}

int xh_shadow_fill(struct xh_shadow *s, uint64_t off, const void *data, size_t len)
{
    assert(off <= s->head.origin_bytes && len <= s->head.origin_bytes - off);
    assert(off % XH_PAGE_BYTES == 0 && ((off + len) % XH_PAGE_BYTES == 0 || off + len == s->head.origin_bytes));
    if (!xh_shadow_usable(s) || !xh_own_is_there(&s->own_file))
        return XH_E_NOSPACE;
    if (!xh_may_write(s->head.file_bytes)) /* any more */
        return no_more(s, off, errno);
    const char *from = data;
    int squeezed = 0;
#ifndef __SANITIZE_THREAD__
    /* A reader that copies a byte of these sees before its fence (xh_page_fence) that the page is CLAIMED: a store may
     * pass the one before it, even where that is a release. */
    atomic_thread_fence(memory_order_release);
#endif
    note_sums(s, off, data, len);
    while (len) {
        ssize_t n = xh_retry(pwrite(s->fd, from, len, (off_t)(s->head.data_off + off)));
        if (n > 0) {
            from += n, off += (uint64_t)n, len -= (size_t)n;
        } else if (n < 0 && (errno == ENOSPC || errno == EDQUOT) && !squeezed) {
            /* Another program filled the file system, or the user's quota, below our budget: give back some of ours,
             * once. */
            int why = errno;
            squeezed = 1;
            if (!xh_evict_squeeze(s, len + s->step_bytes, 0, NULL))
                return no_more(s, off, why);
        } else {
            return no_more(s, off, n < 0 ? errno : 0);
        }
    }
    return XH_OK;
}

/* Ends this process's claims among |n| pages; other pages stay as they are. A page that shall be READY and has lost
 * its sum becomes EMPTY. Returns how many pages got |state|. */
static uint64_t end_claims(struct xh_shadow *s, uint64_t first, uint64_t n, enum xh_state state,
                           uint64_t flags, uint64_t keep)
{
    uint32_t owner = atomic_load_explicit(&s->owner, memory_order_acquire);
    if (!xh_shadow_usable(s) || owner == 0 || first >= s->head.pages)
        return 0;
    n = xh_min64(n, s->head.pages - first);
    uint64_t ended = 0, good = 0;
    for (uint64_t i = first; i < first + n; i++) {
        if (!xh_page_reserve(s, i))
            continue; /* never claimed: a claim would have reserved it */
        uint64_t w = atomic_load_explicit(&s->words[i], memory_order_relaxed);
        if (xh_w_state(w) != XH_CLAIMED || xh_w_owner(w) != owner)
            continue;
        if (state != XH_READY || atomic_load_explicit(&s->sums[i], memory_order_relaxed)) /* 0: it was lost */
            good += (uint64_t)xh_page_change(s, i, &w, XH_W_HELD, state, 0, flags, keep);
        else
            xh_page_change(s, i, &w, XH_W_HELD, XH_EMPTY, 0, XH_W_STALE, 0);
        ended++; /* a claim that is lost to damage has ended too */
    }
    xh_claims_over(s, ended);
    return good;
}

void xh_shadow_publish(struct xh_shadow *s, uint64_t first, uint64_t n, struct xh_counters *c)
{
    /* HOT: a page that was fetched ahead survives the clock's hand once before it is read. */
    uint64_t ended = end_claims(s, first, n, XH_READY, XH_W_HOT, XH_W_META);
    if (c && ended)
        xh_count(c, pages_published, ended);
}

void xh_shadow_abandon(struct xh_shadow *s, uint64_t first, uint64_t n)
{
    end_claims(s, first, n, XH_EMPTY, XH_W_STALE, 0);
}

/* The targets of a run of pages. Most are copied into the caller's buffer. At the ends, pages of which the caller
 * wants only a part go to |edge|, as a sum covers a whole page. */
struct run {
    uint64_t off, len, first, n; /* the bytes wanted, and their pages */
    uint8_t *buf;                /* the place of |off| */
    uint8_t (*edge)[XH_PAGE_BYTES]; /* two pages */
};

static int has_edge(const struct xh_shadow *s, const struct run *r, uint64_t idx)
{
    uint64_t at = idx * XH_PAGE_BYTES;
    return at < r->off || at + xh_page_bytes(s, idx) > r->off + r->len;
}

static uint8_t *place(const struct xh_shadow *s, struct run *r, uint64_t idx)
{
    return has_edge(s, r, idx) ? r->edge[idx != r->first] : r->buf + (idx * XH_PAGE_BYTES - r->off);
}

/* Copies the whole pages of |r|. Returns the bytes copied, counted from the start of the first page, or -1. */
static ssize_t copy_pages(struct xh_shadow *s, struct run *r)
{
    uint64_t last = r->first + r->n - 1, from = r->first, to = last + 1;
    struct iovec v[3];
    int n = 0;
    if (has_edge(s, r, from))
        v[n++] = (struct iovec){r->edge[0], xh_page_bytes(s, from++)};
    int tail = from < to && has_edge(s, r, last);
    if (from < (to -= (uint64_t)tail)) {
        size_t all = (size_t)((to - 1 - from) * XH_PAGE_BYTES) + xh_page_bytes(s, to - 1);
        v[n++] = (struct iovec){place(s, r, from), all};
    }
    if (tail)
        v[n++] = (struct iovec){r->edge[1], xh_page_bytes(s, last)};
    off_t at = (off_t)(s->head.data_off + r->first * XH_PAGE_BYTES);
    return xh_retry(n == 1 ? pread(s->fd, v->iov_base, v->iov_len, at) : preadv(s->fd, v, n, at));
}

static void damaged(struct xh_shadow *s, uint64_t idx, uint64_t w)
{
    if (xh_page_change(s, idx, &w, XH_W_HELD, XH_EMPTY, 0, XH_W_STALE, 0))
        xh_trace(XH_T_SHADOW, "damaged", "name=%.10s page=%llu", s->name, (unsigned long long)idx);
}

int xh_page_begin_read(struct xh_shadow *s, uint64_t idx, struct xh_page_seen *seen)
{
    if (!xh_page_look(s, idx))
        return 0;
    /* Acquire pairs with publish: the page is READY, so its bytes and their sum are there. */
    seen->word = atomic_load_explicit(&s->words[idx], memory_order_acquire);
    seen->sum = atomic_load_explicit(&s->sums[idx], memory_order_relaxed);
    return xh_w_state(seen->word) == XH_READY;
}

int xh_page_end_read(struct xh_shadow *s, uint64_t idx, const struct xh_page_seen *seen, const uint8_t *page)
{
    uint64_t w = atomic_load_explicit(&s->words[idx], memory_order_relaxed);
    if ((w ^ seen->word) & XH_W_SEEN)
        return 0;
    if (!page || xh_sum_page(s->sums_of, idx, page, xh_page_bytes(s, idx)) != seen->sum) {
        damaged(s, idx, w);
        return 0;
    }
    /* Stored only when it is not set, so that hits in many processes share the cache line. */
    if (!(w & XH_W_HOT))
        atomic_fetch_or_explicit(&s->words[idx], XH_W_HOT, memory_order_relaxed);
    return 1;
}

int xh_page_had(struct xh_shadow *s, ssize_t got, uint64_t first, uint64_t n, uint64_t *had)
{
    int lost = s->head.on_disk && (errno == EIO || errno == EUCLEAN || errno == EBADMSG || errno == ENODATA);
    if (got < 0 && !lost)
        return 0;
    *had = got < 0 ? 0 : (uint64_t)got;
    for (uint64_t idx = first + *had / XH_PAGE_BYTES; idx < first + n; idx++) {
        struct xh_page_seen seen;
        uint8_t page[XH_PAGE_BYTES];
        size_t bytes = xh_page_bytes(s, idx);
        off_t at = (off_t)(s->head.data_off + idx * XH_PAGE_BYTES);
        if ((idx - first) * XH_PAGE_BYTES + bytes > *had && xh_page_begin_read(s, idx, &seen) &&
            xh_retry(pread(s->fd, page, bytes, at)) != (ssize_t)bytes)
            xh_page_end_read(s, idx, &seen, NULL);
    }
    return 1;
}

/* Does the same as xh_shadow_read, for at most RUN_PAGES pages and a part of one. */
static size_t read_run(struct xh_shadow *s, uint64_t off, uint8_t *buf, size_t len)
{
    struct xh_page_seen seen[RUN_PAGES + 1];
    uint8_t edge[2][XH_PAGE_BYTES];
    struct run r = {.off = off, .len = len, .first = off / XH_PAGE_BYTES, .buf = buf, .edge = edge};
    uint64_t want = (off + len - 1) / XH_PAGE_BYTES - r.first + 1;
    while (r.n < want && xh_page_begin_read(s, r.first + r.n, &seen[r.n]))
        r.n++;
    if (r.n == 0)
        return 0;
    const uint64_t n = r.n;
    if (n < want)
        r.len = (size_t)((r.first + n) * XH_PAGE_BYTES - off);
    uint64_t had, good = r.len;
    if (!xh_page_had(s, copy_pages(s, &r), r.first, n, &had))
        return 0;
    xh_page_fence();
    for (uint64_t i = 0; i < n; i++) {
        uint64_t idx = r.first + i, at = idx * XH_PAGE_BYTES, bytes = xh_page_bytes(s, idx);
        const uint8_t *page = place(s, &r, idx);
        /* After a bad page too: its neighbours are likely bad, and are found so at once. */
        if (i * XH_PAGE_BYTES + bytes > had || !xh_page_end_read(s, idx, &seen[i], page)) {
            uint64_t before = at > off ? at - off : 0;
            good = good < before ? good : before;
        } else if (has_edge(s, &r, idx)) {
            uint64_t a = at > off ? at : off, b = at + bytes < off + r.len ? at + bytes : off + r.len;
            memcpy(buf + (a - off), page + (a - at), (size_t)(b - a));
        }
    }
    return (size_t)good;
}

size_t xh_shadow_read(struct xh_shadow *s, uint64_t off, void *buf, size_t len)
{
    if (!xh_shadow_usable(s) || off >= s->head.origin_bytes)
        return 0;
    if (len > s->head.origin_bytes - off)
        len = (size_t)(s->head.origin_bytes - off);
    size_t done = 0;
    while (done < len) {
        size_t run = RUN_PAGES * XH_PAGE_BYTES;
        run = xh_min64(run, len - done);
        size_t good = read_run(s, off + done, (uint8_t *)buf + done, run);
        done += good;
        if (good < run)
            break;
    }
    return done;
}

/* Sets to EMPTY what the dead |owner| holds in the block of |idx|: a process that waits for one of its pages most
 * likely waits for the next ones too. */
static void take_over(struct xh_shadow *s, uint64_t idx, uint32_t owner, struct xh_counters *c)
{
    uint64_t first = idx / s->block_words * s->block_words;
    uint64_t end = xh_min64(first + s->block_words, s->head.pages), taken = 0;
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

/* Sleeps until a change of the page state wakes it, |ms| at most. |w| is the state as last seen. */
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

/* Returns 1 when |owner| was waited for in vain and has not moved since: it still holds the page that it held then.
 * So a suspended process costs each reader one wait, not one for each of its pages. */
static int is_stuck(struct xh_shadow *s, uint32_t owner)
{
    for (unsigned i = 0; i < XH_STUCK; i++) {
        /* Acquire pairs with note_stuck: |idx| is a page whose state is safe to touch. */
        uint64_t word = atomic_load_explicit(&s->stuck[i].word, memory_order_acquire);
        uint64_t idx = atomic_load_explicit(&s->stuck[i].idx, memory_order_relaxed);
        if (word == 0 || xh_w_owner(word) != owner)
            continue;
        if (((atomic_load_explicit(&s->words[idx], memory_order_relaxed) ^ word) & XH_W_HELD) == 0)
            return 1;
        atomic_store_explicit(&s->stuck[i].word, 0, memory_order_relaxed);
    }
    return 0;
}

/* Two threads may mix their entries. Then the page states differ, and the owner is waited for again. */
static void note_stuck(struct xh_shadow *s, uint64_t idx, uint64_t word)
{
    unsigned i = atomic_fetch_add_explicit(&s->next_stuck, 1, memory_order_relaxed) % XH_STUCK;
    atomic_store_explicit(&s->stuck[i].word, 0, memory_order_relaxed);
    atomic_store_explicit(&s->stuck[i].idx, idx, memory_order_relaxed);
    atomic_store_explicit(&s->stuck[i].word, word, memory_order_release);
}

/* Waits as xh_shadow_wait. |gives_up|: after a timeout the owner is not waited for again. */
static int wait_for(struct xh_shadow *s, uint64_t idx, int timeout_ms, int gives_up, struct xh_counters *c)
{
    if (!xh_page_usable(s, idx) || !xh_page_reserve(s, idx))
        return XH_OK; /* the next claim will return NONE */
    uint64_t end_ns = xh_now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
    uint64_t prove_ns = 0; /* at once: the owner may have crashed long ago */
    const uint64_t was = atomic_load_explicit(&s->words[idx], memory_order_acquire);
    if (xh_w_state(was) != XH_CLAIMED && xh_w_state(was) != XH_EVICTING)
        return XH_OK;
    int stuck = is_stuck(s, xh_w_owner(was));
    for (;;) {
        uint64_t w = atomic_load_explicit(&s->words[idx], memory_order_acquire);
        if ((w ^ was) & XH_W_HELD)
            return XH_OK;
        uint64_t now = xh_now_ns();
        if (now >= prove_ns) {
            if (xh_owner_dead(s, xh_w_owner(w))) {
                take_over(s, idx, xh_w_owner(w), c);
                return XH_OK;
            }
            prove_ns = now + PROVE_ALIVE_MS * 1000000ull;
        }
        if (now >= end_ns || stuck) {
            if (!stuck && gives_up && timeout_ms > 0)
                note_stuck(s, idx, was);
            return XH_E_TIMEOUT;
        }
        uint64_t until = end_ns < prove_ns ? end_ns : prove_ns;
        sleep_on(s, idx, w, (int64_t)((until - now) / 1000000 + 1));
    }
}

int xh_shadow_doze(struct xh_shadow *s, uint64_t idx, int timeout_ms, struct xh_counters *c)
{
    return wait_for(s, idx, timeout_ms, 0, c);
}

int xh_shadow_wait(struct xh_shadow *s, uint64_t idx, int timeout_ms, struct xh_counters *c)
{
    return wait_for(s, idx, timeout_ms, 1, c);
}
