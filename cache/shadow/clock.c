/* The clock: which pages of one shadow are evicted, and how.
 *
 * The hand moves over blocks of page states. Several processes may sweep at once; each page goes to the process whose
 * CAS succeeds. A page that was read since the hand last passed (HOT) stays for another round. Metadata is evicted only
 * when no raw page is left to take, and for the sake of raw data only when metadata has most of the budget. So metadata
 * outlives raw data, and raw data still finds some room.
 *
 * Invariants
 * 1. A hole is punched only under pages that are all EVICTING by this process: no process reads them as READY, or fills
 *    them. Whole units are taken, not pages, as a punch covers whole kernel pages.
 * 2. A process that dies in between leaves EVICTING with a dead owner: any process may set such a page EMPTY.
 *
 * Locks: none. The only fact about budgets here is one number that metadata is compared with. */
#include "clock.h"

#include <fcntl.h>

#include "base/files.h"
#include "watch/trace.h"
#include "owner.h"
#include "page_state.h"

/* The levels of a sweep: what a revolution takes. A COLD level first clears HOT of the pages of its kind, and spares
 * them. */
enum level { RAW_COLD, RAW_ANY, META_COLD, META_ANY, LEVELS };

struct sweep {
    struct xh_shadow *s;
    uint64_t want_bytes, freed_bytes;
    enum level level;
    uint32_t owner;               /* this process's owner number */
    uint32_t asked, asked_dead;   /* the owner that was last checked, and the answer */
    uint64_t meta_units, evicted; /* units with a page seen READY and META at RAW_COLD; pages taken that were READY */
};

static int owner_dead(struct sweep *sw, uint32_t owner)
{
    if (owner != sw->asked || owner == 0) {
        sw->asked = owner;
        sw->asked_dead = (uint32_t)xh_owner_dead(sw->s, owner);
    }
    return (int)sw->asked_dead;
}

enum verdict { SPARE, NEUTRAL, TAKE };

/* Decides about a page. |*w| is its state, and is kept up to date. */
static enum verdict judge(struct sweep *sw, uint64_t idx, uint64_t *w)
{
    struct xh_shadow *s = sw->s;
    int meta = (*w & XH_W_META) != 0;
    switch (xh_w_state(*w)) {
    case XH_EMPTY: return *w & XH_W_STALE ? TAKE : NEUTRAL;
    case XH_READY:
        if (meta && sw->level < META_COLD)
            return SPARE;
        if (sw->level == (meta ? META_COLD : RAW_COLD) && (*w & XH_W_HOT)) {
            atomic_fetch_and_explicit(&s->words[idx], ~XH_W_HOT, memory_order_relaxed);
            return SPARE;
        }
        return TAKE;
    default:
        if (!owner_dead(sw, xh_w_owner(*w)))
            return SPARE;
        if (!xh_page_change(s, idx, w, XH_W_HELD, XH_EMPTY, 0, XH_W_STALE, 0))
            return SPARE;
        *w = atomic_load_explicit(&s->words[idx], memory_order_acquire);
        return xh_w_state(*w) == XH_EMPTY ? TAKE : SPARE;
    }
}

/* Makes all |n| pages of a unit EVICTING, or none. Returns 1 when they all are. */
static int take_unit(struct sweep *sw, uint64_t first, uint64_t n)
{
    struct xh_shadow *s = sw->s;
    uint64_t was[XH_UNIT_MAX_PAGES], i;
    int spare = 0, take = 0, meta = 0;
    for (i = 0; i < n; i++) {
        was[i] = atomic_load_explicit(&s->words[first + i], memory_order_acquire);
        enum verdict v = judge(sw, first + i, &was[i]);
        spare |= v == SPARE;
        take |= v == TAKE;
        meta |= xh_w_state(was[i]) == XH_READY && (was[i] & XH_W_META);
    }
    sw->meta_units += sw->level == RAW_COLD && meta; /* all of it is kept for them */
    if (spare || !take)
        return 0;
    for (i = 0; i < n; i++) {
        uint64_t w = was[i];
        if (!xh_page_change(s, first + i, &w, XH_W_HELD, XH_EVICTING, sw->owner, 0, 0))
            break;
    }
    if (i == n) {
        for (i = 0; i < n; i++)
            sw->evicted += xh_w_state(was[i]) == XH_READY;
        return 1;
    }
    while (i--) { /* a process claimed a neighbour: restore the former states */
        uint64_t w = atomic_load_explicit(&s->words[first + i], memory_order_relaxed);
        xh_page_change(s, first + i, &w, XH_W_HELD, xh_w_state(was[i]), 0,
                       was[i] & (XH_W_META | XH_W_HOT | XH_W_STALE), 0);
    }
    return 0;
}

/* Punches the run of EVICTING pages and makes them EMPTY. */
static void punch(struct sweep *sw, uint64_t first, uint64_t n)
{
    struct xh_shadow *s = sw->s;
    const struct xh_layout_head *h = &s->head;
    uint64_t len = xh_round_up(n * XH_PAGE_BYTES, h->unit_bytes); /* behind the last page: padding */
#ifndef __SANITIZE_THREAD__
    /* Others see EVICTING before they see the hole. Pairs with xh_page_fence in page.h. */
    atomic_thread_fence(memory_order_seq_cst);
#endif
    int full = !xh_own_is_there(&s->own_file) ||
               xh_retry(fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  (off_t)(h->data_off + first * XH_PAGE_BYTES), (off_t)len)) < 0;
    for (uint64_t i = first; i < first + n; i++) {
        uint64_t w = atomic_load_explicit(&s->words[i], memory_order_relaxed);
        xh_page_change(s, i, &w, XH_W_HELD, XH_EMPTY, 0, full ? XH_W_STALE : 0, 0);
    }
    if (!full)
        sw->freed_bytes += n * XH_PAGE_BYTES;
}

static void sweep_block(struct sweep *sw, uint64_t block)
{
    struct xh_shadow *s = sw->s;
    uint64_t per = s->head.unit_bytes / XH_PAGE_BYTES;
    uint64_t i = block * s->block_words, end = xh_min64(i + s->block_words, s->head.pages), run = i;
    for (; i < end; i += per) {
        uint64_t n = per < end - i ? per : end - i;
        int taken = take_unit(sw, i, n);
        if (!taken && run < i)
            punch(sw, run, i - run);
        if (!taken)
            run = i + n;
        else if (sw->freed_bytes + (i + n - run) * XH_PAGE_BYTES >= sw->want_bytes) {
            punch(sw, run, i + n - run);
            return;
        }
    }
    if (run < end)
        punch(sw, run, end - run);
}

/* Moves the hand round once, or until enough is freed. */
static void revolve(struct sweep *sw)
{
    struct xh_shadow *s = sw->s;
    uint64_t blocks = (s->head.pages + s->block_words - 1) / s->block_words;
    uint64_t start = atomic_load_explicit(&s->live->hand, memory_order_relaxed) % blocks;
    uint64_t b = start;
    int wrapped = 0;
    while (sw->freed_bytes < sw->want_bytes) {
        b = b < blocks ? xh_page_next_block(s, b, blocks) : blocks;
        if (b >= blocks && !wrapped) {
            wrapped = 1;
            b = 0;
            if (start == 0)
                break;
            continue;
        }
        if (b >= blocks || (wrapped && b >= start))
            break;
        /* Another process's sweep starts behind this block. */
        atomic_store_explicit(&s->live->hand, b + 1, memory_order_relaxed);
        sweep_block(sw, b++);
    }
}

uint64_t xh_clock_sweep(struct xh_shadow *s, uint64_t want_bytes, uint64_t meta_room_bytes, struct xh_counters *c)
{
    struct sweep sw = {.s = s, .want_bytes = want_bytes, .owner = xh_owner_get(s)};
    if (sw.owner == 0)
        return 0;
    for (sw.level = RAW_COLD; sw.level < LEVELS && sw.freed_bytes < want_bytes; sw.level++) {
        if (sw.level == META_COLD &&
            (sw.freed_bytes || sw.meta_units * s->head.unit_bytes < meta_room_bytes))
            break;
        revolve(&sw);
    }
    if (c && sw.evicted)
        xh_count(c, pages_evicted, sw.evicted);
    xh_trace(XH_T_SHADOW, "evicted", "name=%.10s level=%d pages=%llu bytes=%llu", s->name, (int)sw.level,
             (unsigned long long)sw.evicted, (unsigned long long)sw.freed_bytes);
    return sw.freed_bytes;
}
