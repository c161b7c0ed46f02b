/* Claims: the right to fill a page, now or later. layout.h has the page state, page.c the uses of a claim.
 *
 * A claim is LATER when its bytes are yet to be fetched. Its owner begins the page when the first byte comes, and
 * writes nothing before. Until then another process may take the claim over, as it may take a dead owner's: two
 * processes never write at the same time. The former owner's bytes go only to its own reader.
 *
 * |inflight| counts claims, not pages: each claim ends once, for the process that made it, even if the page belongs to
 * another by then.
 * Locks: none. */
#include "claim.h"

#include "evict.h"
#include "owner.h"
#include "page_state.h"

/* Returns what page |idx| takes when its bytes come: a unit, if it is the first one there. */
static uint64_t bytes_of(struct xh_shadow *s, uint64_t idx)
{
    uint64_t per = s->head.unit_bytes / XH_PAGE_BYTES, i = idx / per * per, end = i + per;
    for (end = end < s->head.pages ? end : s->head.pages; i < end; i++)
        if (i != idx && (atomic_load_explicit(&s->words[i], memory_order_relaxed) & (XH_W_STATE | XH_W_STALE)))
            return XH_PAGE_BYTES;
    return s->head.unit_bytes;
}

/* Charges a page that is about to be claimed. Returns this process's owner number, or 0 when the page cannot be
 * charged. */
static uint32_t charge(struct xh_shadow *s, uint64_t idx, int meta, struct xh_counters *c)
{
    uint32_t owner = xh_owner_get(s);
    return owner && xh_evict_charge(s, bytes_of(s, idx), meta, c) ? owner : 0;
}

void xh_claims_over(struct xh_shadow *s, uint64_t n)
{
    atomic_fetch_sub_explicit(&s->inflight, n, memory_order_relaxed);
}

/* Claims an EMPTY page whose state was |*w|. Returns 1 (the page is charged), 0 to look again, -1 when none can be
 * had. */
static int claim_empty(struct xh_shadow *s, uint64_t idx, uint64_t *w, int meta, uint64_t later, struct xh_counters *c)
{
    uint32_t owner = charge(s, idx, meta, c);
    if (owner == 0)
        return -1;
    uint64_t to = xh_w_make(*w + XH_W_GEN_ONE, XH_CLAIMED, owner, (meta ? XH_W_META : 0) | later);
    /* Acquire pairs with the release that made the page EMPTY: its hole comes before our bytes. */
    if (atomic_compare_exchange_strong_explicit(&s->words[idx], w, to, memory_order_acq_rel,
                                                memory_order_acquire)) {
        if (!later)
            atomic_store_explicit(&s->sums[idx], 0, memory_order_relaxed);
        return 1;
    }
    xh_claims_over(s, 1);
    return 0;
}

/* Takes over a claim that was not begun. Returns as claim_empty(). */
static int take_later(struct xh_shadow *s, uint64_t idx, uint64_t *w, int meta, struct xh_counters *c)
{
    uint32_t owner = charge(s, idx, meta, c);
    if (owner == 0)
        return -1;
    /* The LATER bit is compared too: once the page was begun, half of its bytes may be there. Wakes those that wait
     * for the former owner. */
    if (xh_page_change(s, idx, w, XH_W_HELD | XH_W_LATER, XH_CLAIMED, owner, (meta ? XH_W_META : 0) | XH_W_LATER,
                       XH_W_META))
        return 1;
    xh_claims_over(s, 1);
    return 0;
}

static int is_later(uint64_t w)
{
    return xh_w_state(w) == XH_CLAIMED && (w & XH_W_LATER);
}

int xh_shadow_is_later(struct xh_shadow *s, uint64_t idx)
{
    return xh_page_usable(s, idx) && xh_page_reserve(s, idx) &&
           is_later(atomic_load_explicit(&s->words[idx], memory_order_relaxed));
}

static enum xh_claim claim(struct xh_shadow *s, uint64_t idx, int meta, uint64_t later, int take, struct xh_counters *c)
{
    if (!xh_page_usable(s, idx))
        return XH_CLAIM_NONE;
    if (!xh_page_reserve(s, idx) &&
        !(xh_evict_squeeze(s, s->step_bytes, meta, c) && xh_page_reserve(s, idx)))
        return XH_CLAIM_NONE;
    uint64_t w = atomic_load_explicit(&s->words[idx], memory_order_acquire);
    for (int got = 0; got == 0;) {
        switch (xh_w_state(w)) {
        case XH_READY:
            if (meta && !(w & XH_W_META) &&
                !atomic_compare_exchange_weak_explicit(&s->words[idx], &w, w | XH_W_META,
                                                       memory_order_acquire, memory_order_acquire))
                continue;
            return XH_CLAIM_READY;
        case XH_EMPTY: got = claim_empty(s, idx, &w, meta, later, c); break;
        default:
            if (!take || !is_later(w))
                return XH_CLAIM_BUSY;
            got = take_later(s, idx, &w, meta, c);
        }
        if (got)
            return got > 0 ? XH_CLAIM_MINE : XH_CLAIM_NONE;
    }
    return XH_CLAIM_NONE; /* not reached */
}

enum xh_claim xh_shadow_claim(struct xh_shadow *s, uint64_t idx, int meta, struct xh_counters *c)
{
    return claim(s, idx, meta, 0, 0, c);
}

enum xh_claim xh_shadow_claim_later(struct xh_shadow *s, uint64_t idx, int meta, int take, struct xh_counters *c)
{
    return claim(s, idx, meta, XH_W_LATER, take, c);
}

int xh_shadow_begin(struct xh_shadow *s, uint64_t idx)
{
    uint32_t owner = atomic_load_explicit(&s->owner, memory_order_acquire);
    if (xh_page_usable(s, idx) && owner && xh_page_reserve(s, idx)) {
        uint64_t w = atomic_load_explicit(&s->words[idx], memory_order_relaxed);
        while (is_later(w) && xh_w_owner(w) == owner)
            /* Acquire: the hole of the last eviction comes before our bytes. */
            if (atomic_compare_exchange_weak_explicit(&s->words[idx], &w, w & ~XH_W_LATER, memory_order_acq_rel,
                                                      memory_order_relaxed)) {
                atomic_store_explicit(&s->sums[idx], 0, memory_order_relaxed);
                return 1;
            }
    }
    xh_claims_over(s, 1);
    return 0;
}

void xh_shadow_forgo(struct xh_shadow *s, uint64_t first, uint64_t n)
{
    uint32_t owner = atomic_load_explicit(&s->owner, memory_order_acquire);
    for (uint64_t i = first; owner && i < first + n && xh_page_usable(s, i) && xh_page_reserve(s, i); i++) {
        uint64_t w = atomic_load_explicit(&s->words[i], memory_order_relaxed);
        if (is_later(w) && xh_w_owner(w) == owner)
            xh_page_change(s, i, &w, XH_W_HELD | XH_W_LATER, XH_EMPTY, 0, XH_W_STALE, 0);
    }
    xh_claims_over(s, n);
}

void xh_shadow_look_later(struct xh_shadow *s, uint64_t idx, struct xh_later *out)
{
    *out = (struct xh_later){.first = idx};
    if (!xh_shadow_is_later(s, idx))
        return;
    uint64_t from = idx > XH_LATER_LOOK_PAGES ? idx - XH_LATER_LOOK_PAGES : 0, run = idx;
    uint64_t to = s->head.pages - idx > XH_LATER_LOOK_PAGES ? idx + XH_LATER_LOOK_PAGES : s->head.pages;
    uint64_t blocks = (to + s->block_words - 1) / s->block_words, last = UINT64_MAX;
    for (uint64_t b = from / s->block_words; (b = xh_page_next_block(s, b, blocks)) < blocks; b++) {
        uint64_t i = b * s->block_words, end = i + s->block_words < to ? i + s->block_words : to;
        for (i = i > from ? i : from; i < end; i++) {
            if (!is_later(atomic_load_explicit(&s->words[i], memory_order_relaxed)))
                continue;
            run = last != UINT64_MAX && i == last + 1 ? run : i;
            last = i;
            out->all++;
            if (i == idx)
                out->first = run;
        }
    }
}
