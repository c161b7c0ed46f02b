/* Hints: see hints.h. */
#include "hints.h"

#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "object.h"
#include "schedule.h"
#include "siblings.h"
#include "stream/room.h"
#include "stream/stage.h"
#include "watch/timeline.h"
#include "watch/trace.h"

/* So many waiting hints are looked at to find out whether the reader has gone past them. */
#define LOOK_MOST 4096u
#define LEN_MASK  (UINT64_MAX >> 1) /* of xh_hint.len */

void xh_hints_init(struct xh_hints *h)
{
    *h = (struct xh_hints){0};
    pthread_mutex_init(&h->lock, NULL);
}

void xh_hints_free(struct xh_hints *h)
{
    free(h->wait);
    free(h->ahead);
    xh_again_free(&h->done);
    pthread_mutex_destroy(&h->lock);
}

static uint64_t window(const struct xh_file *f)
{
    return xh_policy_hint_window(xh_ahead_most(f, 1));
}

uint64_t xh_guess_window(const struct xh_file *f)
{
    struct xh_window w = {.most = xh_ahead_most(f, 0),
                          .room = xh_room_share(f->opt.readahead_bytes),
                          .hinted = atomic_load_explicit(&f->hints->ahead_bytes, memory_order_relaxed),
                          .width = xh_siblings_width(f)};
    return xh_policy_guess_window(&w);
}

/* ---- what is ahead. The lock is held. */

static void note_state(struct xh_hints *h)
{
    atomic_store_explicit(&h->any, h->n || h->nahead, memory_order_relaxed);
}

static void forget_ahead(struct xh_hints *h)
{
    h->nahead = 0;
    atomic_store_explicit(&h->ahead_bytes, 0, memory_order_relaxed);
}

/* Adds |n| ranges, sorted here. Ranges stay apart, as they are read apart; what two of them
 * name counts once, and what was read is left out. The stage is told that it is named again. */
static void add_ahead(struct xh_file *f, struct xh_range *r, size_t n)
{
    struct xh_hints *h = f->hints;
    size_t i = h->nahead, j = n, m = 0;
    uint64_t bytes = 0, end = 0;
    if (xh_grow(h->ahead, h->ahead_room, i + j))
        return; /* fetched, but not counted */
    qsort(r, n, sizeof *r, xh_range_order);
    for (size_t k = i + j; j > 0;) /* merged from the back */
        h->ahead[--k] = i > 0 && h->ahead[i - 1].off > r[j - 1].off ? h->ahead[--i] : r[--j];
    for (i = 0; i < h->nahead + n; i++) {
        struct xh_range x = h->ahead[i];
        uint64_t from = x.off > end ? x.off : end, to = x.off + x.len;
        if (x.len && x.off < end)
            xh_stage_again(f, (struct xh_range){x.off, (to < end ? to : end) - x.off}, window(f));
        if (from >= to)
            continue;
        h->ahead[m++] = (struct xh_range){from, to - from};
        bytes += to - from;
        end = to;
    }
    h->nahead = m;
    atomic_store_explicit(&h->ahead_bytes, bytes, memory_order_relaxed);
}

/* Takes a read of [a, b) off what is ahead. What lies before it in the same range counts as read:
 * the reader has gone past it. Returns 1 when some of it was ahead. */
static int take_ahead(struct xh_hints *h, uint64_t a, uint64_t b)
{
    size_t lo = xh_count_before(i, h->nahead, h->ahead[i].off + h->ahead[i].len <= a);
    uint64_t taken = 0;
    for (; lo < h->nahead && h->ahead[lo].off < b; lo++) {
        struct xh_range *r = &h->ahead[lo];
        uint64_t to = r->off + r->len < b ? r->off + r->len : b;
        taken += to - r->off;
        *r = (struct xh_range){to, r->len - (to - r->off)};
    }
    uint64_t left = atomic_load_explicit(&h->ahead_bytes, memory_order_relaxed) - taken;
    atomic_store_explicit(&h->ahead_bytes, left, memory_order_relaxed);
    if (left == 0)
        h->nahead = 0;
    return taken != 0;
}

/* ---- what waits */

/* When the read touches a hint that still waits, the reader has left behind what is ahead and
 * what waits before that one. Returns 1 then. */
static int go_past(struct xh_hints *h, const struct xh_extent *ext, size_t n)
{
    struct xh_range r = xh_extents_span(ext, n);
    size_t most = h->n < LOOK_MOST ? h->n : LOOK_MOST;
    for (size_t i = 0; i < most && !h->filling; i++) {
        struct xh_hint *w = &h->wait[h->first + i];
        if (w->off >= r.off + r.len || w->off + w->len <= r.off)
            continue;
        forget_ahead(h);
        for (; w != &h->wait[h->first]; h->first++, h->n--, h->begun = 0)
            h->wait_bytes -= h->wait[h->first].len;
        return 1;
    }
    return 0;
}

/* Copies from |wait|'s front what there is room for, all of one kind, the last one perhaps cut. */
static struct xh_range *front(const struct xh_file *f, size_t *n)
{
    const struct xh_hints *h = f->hints;
    const struct xh_hint *w = h->wait + h->first;
    uint64_t ahead = atomic_load_explicit(&h->ahead_bytes, memory_order_relaxed);
    uint64_t most = window(f), room = most > ahead ? most - ahead : 0, left = room;
    size_t m = 0;
    *n = 0;
    while (m < h->n && w[m].len <= left && w[m].meta == w[0].meta)
        left -= w[m++].len;
    if (m < h->n && w[m].off % XH_PAGE_BYTES + left > XH_PAGE_BYTES) /* whole pages, where they are kept */
        left -= (w[m].off + left) % XH_PAGE_BYTES;
    size_t cut = m < h->n && w[m].meta == w[0].meta && (left >= XH_BULK_BYTES || m == 0);
    struct xh_range *r = m + cut ? calloc(m + cut, sizeof *r) : NULL;
    if (!r)
        return NULL;
    for (size_t i = 0; i < m; i++)
        r[i] = (struct xh_range){w[i].off, w[i].len};
    if (cut)
        r[m] = (struct xh_range){w[m].off, left};
    *n = m + cut;
    return r;
}

/* The first |n| of |wait|, as front() gave them, are ahead now. */
static void advance(struct xh_file *f, struct xh_range *r, size_t n)
{
    struct xh_hints *h = f->hints;
    for (size_t i = 0; i < n; i++) {
        struct xh_hint *w = &h->wait[h->first];
        h->wait_bytes -= r[i].len;
        if (r[i].len < w->len) {
            w->off += r[i].len;
            w->len = (w->len - r[i].len) & LEN_MASK;
            h->begun += r[i].len;
        } else {
            h->first++;
            h->n--;
            h->begun = 0;
        }
    }
    if (h->n == 0)
        h->first = h->most_bytes = 0;
    add_ahead(f, r, n);
}

/* Fetches what there is room for. Waits until half of the window is free, so that requests stay
 * large; one thread does it at a time. */
static void fill(struct xh_file *f)
{
    struct xh_hints *h = f->hints;
    size_t n = 0, done = 0;
    pthread_mutex_lock(&h->lock);
    while (h->n && !h->filling && atomic_load_explicit(&h->ahead_bytes, memory_order_relaxed) <= window(f) / 2) {
        struct xh_proposal p = {.kind = h->wait[h->first].meta ? XH_KIND_META : XH_KIND_RAW, .told = 1};
        struct xh_range *r = front(f, &n);
        if (!r)
            break;
        p.r = r;
        p.n = n;
        p.told_begun = h->begun;
        for (size_t i = 0; i < n; i++)
            p.told_run = xh_max64(p.told_run, h->wait[h->first + i].len + (i ? 0 : h->begun));
        p.told_bytes = h->most_bytes;
        h->filling = 1;
        pthread_mutex_unlock(&h->lock);
        xh_timeline_hints = 1;
        done = xh_schedule(f, &p);
        xh_timeline_hints = 0;
        pthread_mutex_lock(&h->lock);
        h->filling = 0;
        advance(f, r, done);
        xh_trace(XH_T_PREDICT, "hints", "ranges=%zu ahead_bytes=%llu waiting=%zu", done,
                 (unsigned long long)atomic_load_explicit(&h->ahead_bytes, memory_order_relaxed), h->n);
        free(r);
        if (done < n)
            break; /* no room: the next read tries again */
    }
    note_state(h);
    pthread_mutex_unlock(&h->lock);
}

/* Makes room for |n| more in |wait|. Returns how many there is room for. */
static size_t make_room(struct xh_hints *h, size_t n)
{
    if (h->first > h->n) {
        memmove(h->wait, h->wait + h->first, h->n * sizeof *h->wait);
        h->first = 0;
    }
    size_t used = h->first + h->n;
    if (n > XH_HINTS_MAX - h->n)
        n = XH_HINTS_MAX - h->n;
    if (used + n > h->room) {
        size_t room = used + n > 2 * h->room ? used + n : 2 * h->room;
        struct xh_hint *at = realloc(h->wait, room * sizeof *at);
        if (!at)
            return h->room - used;
        h->wait = at;
        h->room = room;
    }
    return n;
}

size_t xh_hints_add(struct xh_file *f, enum xh_kind kind, const struct xh_range *r, size_t n)
{
    struct xh_hints *h = f->hints;
    if (window(f) == 0)
        return 0;
    pthread_mutex_lock(&h->lock);
    h->reads = h->n || h->nahead ? h->reads : 0;
    n = make_room(h, n);
    for (size_t i = 0; i < n; i++)
        if (r[i].len) {
            h->wait[h->first + h->n++] =
                (struct xh_hint){.off = r[i].off, .len = r[i].len & LEN_MASK, .meta = kind == XH_KIND_META};
            h->wait_bytes += r[i].len;
        }
    h->most_bytes = xh_max64(h->most_bytes, h->wait_bytes);
    note_state(h);
    pthread_mutex_unlock(&h->lock);
    fill(f);
    return n;
}

/* Takes note of a read and fetches what there is room for now. If some of it was hinted, nothing needs to be guessed
 * from it. But where a program announces each read just before it, nothing tells what comes next, and the order is
 * learned as without hints: else each read takes a round trip. */
static int saw(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_hints *h = f->hints;
    int hinted = 0;
    if (s->led || !xh_hints_any(h))
        return s->led;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < s->n; i++) {
        uint64_t a = s->ext[i].off, b = a + s->ext[i].len;
        int fresh = take_ahead(h, a, b);
        hinted |= fresh || xh_again_find(&h->done, a, b);
        if (fresh)
            xh_again_add(&h->done, (struct xh_range){a, b - a});
    }
    if (!hinted && h->n)
        hinted = go_past(h, s->ext, s->n);
    int alone = h->reads == 0 && h->n == 0 && h->nahead == 0;
    h->reads += (unsigned)hinted;
    note_state(h);
    pthread_mutex_unlock(&h->lock);
    fill(f);
    return hinted && !alone;
}

const struct xh_observer xh_hints_observer = {{[XH_KIND_RAW] = XH_ASKED}, saw};
