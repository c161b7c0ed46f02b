/* The scheduler: see schedule.h. What is expected of raw data goes to the shadow where it will be read again, or by
 * others; else to a stream, or to the stage. */
#include "schedule.h"

#include <stdlib.h>

#include "disk/disk.h"
#include "object.h"
#include "pages/background.h"
#include "pages/fetch.h"
#include "pages/flow.h"
#include "pages/keep.h"
#include "pages/limits.h"
#include "source/compressed.h"
#include "source/unverified_head.h"
#include "stream/ending.h"
#include "stream/stage.h"
#include "stream/stream.h"
#include "watch/trace.h"

/* A run is fetched ahead in steps of this, as far as there is room; in at most so many. */
#define STRETCH_BYTES (1u << 20)
#define PIECES_MOST 256

/* The first page from |p| on that the stage neither has nor awaits whole. */
static uint64_t behind_staged(struct xh_file *f, uint64_t p)
{
    uint64_t to = xh_stage_until(f, p * XH_PAGE_BYTES);
    return to >= f->size ? xh_page_up(f->size) : to / XH_PAGE_BYTES;
}

/* Claims what neither the disk nor anybody has of |r|; where |staged| counts, nor the stage. Returns 0 when no more
 * claims can be had, or where another process is at work on raw data: what lies behind that is most likely its
 * share. */
static int claim_range(struct xh_file *f, struct xh_range r, int meta, int staged, struct xh_runs *mine)
{
    for (uint64_t p = r.off / XH_PAGE_BYTES, end = xh_page_up(r.off + r.len); p < end; p++) {
        if (staged && (p = behind_staged(f, p)) >= end)
            break;
        if (xh_disk_has(f->disk, p))
            continue;
        enum xh_claim c = xh_fetch_claim(f, p, meta, mine);
        if (c == XH_CLAIM_NONE || (c == XH_CLAIM_BUSY && !meta && xh_shadow_elsewhere(f->shadow, p)))
            return 0;
    }
    return 1;
}

/* Fetches the ranges ahead into the shadow. Returns how many were seen to. */
static size_t to_shadow(struct xh_file *f, const struct xh_range *r, size_t n, const struct xh_keeping *k,
                        enum xh_fetch_over over)
{
    struct xh_runs mine = {0};
    uint64_t room = f->opt.readahead_bytes, in_flight = xh_flow_flying(f);
    size_t i = 0;
    int staged = !xh_policy_keeps_all(k); /* else the others have nothing of what the stage brings */
    for (; i < n && in_flight <= room; i++) {
        if (!claim_range(f, r[i], k->meta, staged, &mine))
            break;
        in_flight += r[i].len;
    }
    xh_runs_sort(&mine);
    if (mine.n)
        xh_unverified_claim(f, &mine);
    xh_fetch_for_later(f, &mine, k->meta, over);
    free(mine.at);
    return i;
}

/* ---- of the file itself, or of the copy */

/* 1 when these come to the shadow over as many connections as a stream has, which are opened with the first of them:
 * later, what the reader wants next would wait for them. */
static int are_wide(const struct xh_file *f, const struct xh_range *r, size_t n)
{
    return xh_limits_wide(f, xh_ranges_bytes(r, n), NULL) != 0;
}

/* Fetches to the shadow what is kept there, |wide| where it may be, and the rest to the stage. */
static size_t fetch(struct xh_file *f, const struct xh_range *r, size_t n, const struct xh_keeping *k, int wide)
{
    size_t kept = xh_policy_keeps_ahead(k, r, n);
    enum xh_fetch_over over = wide && kept && are_wide(f, r, kept) ? XH_OVER_ALL : XH_OVER_THOSE_THERE;
    size_t done = kept ? to_shadow(f, r, kept, k, over) : 0;
    return done == kept && kept < n ? kept + xh_stage_fetch(f, r + kept, n - kept, wide) : done;
}

/* What a run is worth that is read in turns with others: all of them go on as it does. */
static uint64_t in_turns(const struct xh_proposal *p, uint64_t bytes)
{
    return p->turns ? p->turns * bytes : bytes;
}

/* 1 when the run |p|, of which |r| is next, comes to the shadow like that, whatever |r| alone would. */
static int is_wide(const struct xh_file *f, const struct xh_keeping *k, struct xh_range r, uint64_t stream_end,
                   const struct xh_proposal *p)
{
    return stream_end > r.off && p->turns <= 1 && !p->after && !p->more && xh_policy_deals(k, stream_end - r.off) &&
           xh_limits_wide(f, p->leads ? stream_end - r.off : 0, NULL);
}

/* Cuts |r| into at most PIECES_MOST pieces, of which some may be claimed. The one behind the last begins at its end.
 * Returns how many there are. */
static size_t cut(struct xh_range r, struct xh_range pieces[PIECES_MOST + 1])
{
    uint64_t step = r.len / PIECES_MOST / STRETCH_BYTES * STRETCH_BYTES + STRETCH_BYTES;
    size_t n = 0;
    for (uint64_t at = 0; at < r.len; at += step)
        pieces[n++] = (struct xh_range){r.off + at, r.len - at < step ? r.len - at : step};
    pieces[n].off = r.off + r.len;
    return n;
}

/* Fetches |r| of the run |p|, which streams up to |stream_end|, 0: does not. |packed|: of a compressed copy. Returns
 * the end of what is seen to. */
static uint64_t fetch_run(struct xh_file *f, struct xh_range r, uint64_t stream_end, const struct xh_proposal *p,
                          int packed)
{
    struct xh_range pieces[PIECES_MOST + 1] = {{0}};
    struct xh_keeping k;
    xh_keep_ahead(f, &k);
    uint64_t seen = r.off;
    int follows = !xh_policy_keeps_all(&k) && xh_stage_streams_to(f, r.off);
    if (xh_unverified_stands(f)) /* the stage brings no proof of it: a reader would wait for that behind the stage */
        xh_schedule_head(f);
    /* While all connections bring what was dealt to them, a stream would begin over the few that are done. */
    if (stream_end > r.off &&
        (follows || (!p->beside && !xh_fetch_wide_flying(f) &&
                     (p->after || xh_policy_streams(&k, in_turns(p, stream_end - r.off) + p->more)))))
        seen = xh_stage_stream(f, r.off, stream_end, p->turns, p->after);
    if (seen == XH_STREAM_LATER)
        return r.off;
    if (seen > r.off)
        xh_background_leave(f, (struct xh_range){r.off, seen - r.off});
    int wide = !packed && is_wide(f, &k, r, stream_end, p);
    if (seen > r.off || (p->leads && !wide))
        return seen;
    uint64_t first = 0; /* bytes that are seen to before the rest */
    if (p->leads && xh_limits_are_single(f)) { /* what comes in one piece each has no order but that of asking */
        size_t n = cut(r, pieces), done = to_shadow(f, pieces, n, &k, XH_OVER_ALL);
        if (done < n)
            return pieces[done].off;
        first = r.len;
    }
    if (p->leads) /* no more than behind any read, as it all comes */
        r.len = xh_min64(r.len + p->window, stream_end - r.off);
    first = xh_min64(first, r.len);
    r = (struct xh_range){r.off + first, r.len - first};
    size_t n = cut(r, pieces);
    /* Part of a row that is as long, or of a run that streams: it passes the shadow by. */
    if (follows || xh_policy_streams(&k, r.len + xh_followed_by(f)))
        return pieces[xh_stage_fetch(f, pieces, n, 0)].off;
    return pieces[wide ? to_shadow(f, pieces, n, &k, XH_OVER_ALL) : fetch(f, pieces, n, &k, p->beside > 1)].off;
}

/* Fetches of the compressed copy what covers the ranges. Returns 0 where the original is the smaller way. */
static int fetch_packed(struct xh_file *f, const struct xh_range *r, size_t n, size_t *seen)
{
    struct xh_packed_view v;
    struct xh_keeping k;
    if (!xh_compressed_map(f, r, n, &v))
        return 0;
    xh_keep_ahead(v.file, &k);
    size_t done = fetch(v.file, v.r, v.n, &k, 0);
    *seen = done ? v.of[done - 1] : 0;
    xh_compressed_unmap(&v);
    return 1;
}

static uint64_t fetch_run_packed(struct xh_file *f, struct xh_range r, uint64_t stream_end, const struct xh_proposal *p)
{
    struct xh_range near = r;
    uint64_t far = stream_end, end = r.off + r.len, most = stream_end > end || p->leads ? stream_end : end;
    struct xh_file *copy = xh_compressed_map_run(f, &near, &far, p->leads);
    if (!copy)
        return near.off;
    uint64_t seen = xh_compressed_original(f, fetch_run(copy, near, far, p, 1));
    seen = seen < most ? seen : most;
    return seen > r.off ? seen : r.off;
}

/* ---- the head */

void xh_schedule_head(struct xh_file *f)
{
    struct xh_range head = {0, f->unverified->len};
    if (head.len && f->shadow)
        xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_META, .r = &head, .n = 1});
}

/* ---- the whole file */

void xh_whole_init(struct xh_whole *w)
{
    *w = (struct xh_whole){0};
}

int xh_schedule_is_whole(const struct xh_file *f)
{
    return f->no_parts || atomic_load_explicit(&f->whole->asked, memory_order_relaxed) == XH_WHOLE_ASKED;
}

void xh_schedule_lost(struct xh_file *f)
{
    int asked = XH_WHOLE_ASKED;
    atomic_compare_exchange_strong_explicit(&f->whole->asked, &asked, XH_WHOLE_FAILED, memory_order_relaxed,
                                            memory_order_relaxed);
}

int xh_schedule_whole(struct xh_file *f, int opens)
{
    const struct xh_range all = {0, f->size};
    const struct xh_keeping k = {.meta = 1};
    int asked = XH_WHOLE_NOT_YET;
    if (f->no_parts || !atomic_compare_exchange_strong_explicit(&f->whole->asked, &asked, XH_WHOLE_ASKED,
                                                                memory_order_relaxed, memory_order_relaxed))
        return 0;
    if (to_shadow(f, &all, 1, &k, opens ? XH_OVER_ALL_AT_ONCE : XH_OVER_THOSE_THERE) == 1)
        return 1;
    atomic_store_explicit(&f->whole->asked, XH_WHOLE_NOT_YET, memory_order_relaxed); /* there is no room for it */
    return 0;
}

/* ---- around reads in no order */

/* The longest stretch of |r|, in pages, of which no more than |gap| bytes one behind the other are here, or the stage
 * awaits. */
static struct xh_range longest_lack(struct xh_file *f, struct xh_range r, uint64_t gap)
{
    struct xh_range best = {0, 0};
    uint64_t end = xh_page_up(r.off + r.len), from = r.off / XH_PAGE_BYTES, to = from;
    int staged = !xh_stage_is_empty(f);
    for (uint64_t p = from; p < end; p++) {
        if (staged && (p = behind_staged(f, p)) >= end)
            break;
        if (xh_shadow_peek(f->shadow, p) != XH_CLAIM_MINE || xh_disk_has(f->disk, p))
            continue;
        if (p - to > gap / XH_PAGE_BYTES)
            from = p;
        to = p + 1;
        if (to - from > best.len / XH_PAGE_BYTES)
            best = (struct xh_range){from * XH_PAGE_BYTES, (to - from) * XH_PAGE_BYTES};
    }
    best.len = xh_min64(best.len, f->size - best.off);
    return best;
}

int xh_schedule_around(struct xh_file *f, struct xh_range r, uint64_t at)
{
    struct xh_range lacks = longest_lack(f, r, xh_background_gap(f));
    if (lacks.len < XH_BULK_BYTES)
        return 0;
    at -= at % XH_PAGE_BYTES;
    if (at > lacks.off && at < lacks.off + lacks.len && xh_file_shared(f)) { /* the others begin elsewhere */
        lacks.len -= at - lacks.off;
        lacks.off = at;
    }
    xh_background_begin(f, lacks);
    return 1;
}

void xh_schedule_near(struct xh_file *f, uint64_t at)
{
    uint64_t gap = xh_background_gap(f), from = at > gap / 2 ? at - gap / 2 : 0;
    struct xh_range near = {from, xh_min64(gap, f->size - from)};
    struct xh_keeping k;
    xh_keep_ahead(f, &k);
    to_shadow(f, &near, 1, &k, XH_OVER_THOSE_THERE);
}

/* ---- proposals */

void xh_schedule_trace(const char *event, const struct xh_range *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        xh_trace(XH_T_PREDICT, event, "off=%llu len=%llu", (unsigned long long)r[i].off, (unsigned long long)r[i].len);
}

/* What is known of what the program said that it will read. */
static struct xh_announced told(struct xh_file *f, const struct xh_proposal *p)
{
    struct xh_announced t = {.r = p->r, .n = p->n, .run = p->told_run, .begun = p->told_begun,
                             .bytes = p->told_bytes, .room = xh_most_kept(f),
                             .readahead_bytes = f->opt.readahead_bytes};
    xh_keep_told(f, &t);
    return t;
}

size_t xh_schedule(struct xh_file *f, const struct xh_proposal *p)
{
    struct xh_keeping k = {.meta = p->kind == XH_KIND_META};
    size_t seen;
    if (!k.meta && xh_schedule_is_whole(f)) /* it comes to the shadow */
        return p->n;
    if (!k.meta && xh_compressed_used(f->compressed) && fetch_packed(f, p->r, p->n, &seen))
        return seen;
    if (!k.meta)
        xh_keep_ahead(f, &k);
    if (!k.meta && p->told) {
        struct xh_announced t = told(f, p);
        if (!xh_file_shared(f) && xh_policy_passes_told(&t))
            return xh_stage_fetch(f, p->r, p->n, 0);
        k.told = xh_policy_keeps_told(&k, &t);
    }
    return fetch(f, p->r, p->n, &k, !k.meta);
}

uint64_t xh_schedule_run(struct xh_file *f, const struct xh_proposal *p)
{
    uint64_t stream_end = xh_policy_stream_end(in_turns(p, p->window), p->run_end);
    if (xh_schedule_is_whole(f))
        return p->leads ? p->r->off : p->r->off + p->r->len;
    if (p->leads && stream_end <= p->r->off)
        return p->r->off;
    return xh_compressed_used(f->compressed) ? fetch_run_packed(f, *p->r, stream_end, p)
                                             : fetch_run(f, *p->r, stream_end, p, 0);
}

int xh_schedule_reach(struct xh_file *f, uint64_t end, uint64_t window)
{
    struct xh_range last = {end - (end > 0), end > 0};
    struct xh_file *copy = xh_compressed_map_run(f, &last, NULL, 1);
    int lost = xh_stage_reach(f, end, window);
    return (copy && xh_stage_reach(copy, last.off + last.len, window)) || lost;
}

void xh_schedule_begins(struct xh_file *f, uint64_t off)
{
    struct xh_range first = {off, 1};
    struct xh_file *copy = xh_compressed_map_run(f, &first, NULL, 1);
    xh_stage_begins(f, off);
    if (copy)
        xh_stage_begins(copy, first.off);
}

void xh_schedule_leave(struct xh_file *f)
{
    struct xh_file *copy = xh_compressed_file(f);
    xh_stage_end(f);
    if (copy)
        xh_stage_end(copy);
}

int xh_schedule_is_empty(struct xh_file *f)
{
    struct xh_file *copy = xh_compressed_file(f);
    return xh_stage_is_empty(f) && (!copy || xh_stage_is_empty(copy));
}

void xh_schedule_again(struct xh_file *f, int is)
{
    struct xh_file *copy = xh_compressed_file(f);
    if (is)
        xh_schedule_leave(f);
    xh_keep_again(f, is);
    if (copy)
        xh_keep_again(copy, is);
}

void xh_schedule_recall(struct xh_file *f)
{
    struct xh_file *copy = xh_compressed_file(f);
    xh_fetch_recall(f);
    xh_stage_recall(f);
    if (copy) {
        xh_fetch_recall(copy);
        xh_stage_recall(copy);
    }
}
