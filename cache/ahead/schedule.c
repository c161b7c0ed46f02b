/* The scheduler: see schedule.h. What is expected of raw data goes to the shadow where it will be read again, or by others;
 * else to a stream, or to the stage. */
#include "schedule.h"

#include <stdlib.h>

#include "file.h"
#include "pages/fetch.h"
#include "source/compressed.h"
#include "stream/stage.h"
#include "stream/stream.h"

/* A stretch is fetched ahead in steps of this, as far as there is room. */
#define STRETCH_BYTES (1u << 20)

static uint64_t page_up(uint64_t off)
{
    return off / XH_PAGE_BYTES + (off % XH_PAGE_BYTES != 0);
}

/* The first page from |p| on that the stage neither has nor awaits whole. */
static uint64_t behind_staged(struct xh_file *f, uint64_t p)
{
    uint64_t to = xh_stage_until(f, p * XH_PAGE_BYTES);
    return to >= f->size ? page_up(f->size) : to / XH_PAGE_BYTES;
}

/* Claims what nobody has of |r|; where |staged| counts, nor the stage. Returns 0 when no more claims can be had, or where
 * another process is at work on raw data: what lies behind that is its affair, and most likely its share. */
static int claim_range(struct xh_file *f, struct xh_range r, enum xh_kind kind, int staged, struct xh_runs *mine)
{
    for (uint64_t p = r.off / XH_PAGE_BYTES, end = page_up(r.off + r.len); p < end; p++) {
        if (staged && (p = behind_staged(f, p)) >= end)
            break;
        enum xh_claim c = xh_shadow_claim_later(f->shadow, p, kind == XH_KIND_META, 0, &f->counters);
        if (c == XH_CLAIM_NONE || (c == XH_CLAIM_BUSY && kind == XH_KIND_RAW && xh_shadow_elsewhere(f->shadow, p)))
            return 0;
        if (c == XH_CLAIM_MINE && xh_runs_add(mine, p)) {
            xh_shadow_forgo(f->shadow, p, 1);
            return 0;
        }
    }
    return 1;
}

/* 1 when all that is fetched ahead is to stay in the shadow. */
static int keeps_all(struct xh_file *f)
{
    return atomic_load_explicit(&f->is_reread, memory_order_relaxed) || xh_file_shared(f);
}

/* Fetches the ranges ahead into the shadow. */
static size_t ahead_to_shadow(struct xh_file *f, const struct xh_range *r, size_t n, enum xh_kind kind)
{
    struct xh_runs mine = {0};
    uint64_t room = f->opt.readahead_bytes, in_flight = xh_flow_flying(f);
    size_t i = 0;
    int staged = kind == XH_KIND_RAW && !keeps_all(f); /* else the others have nothing of what the stage brings */
    for (; i < n && in_flight <= room; i++) {
        if (!claim_range(f, r[i], kind, staged, &mine))
            break;
        in_flight += r[i].len;
    }
    xh_runs_sort(&mine);
    xh_fetch_for_later(f, &mine, kind == XH_KIND_META);
    free(mine.at);
    return i;
}

/* How many of the raw ranges, from the first on, are to stay in the shadow: see read.c's keeps(). */
static size_t kept(struct xh_file *f, const struct xh_range *r, size_t n)
{
    uint64_t so_far = xh_flow_streamed(f) + xh_flow_flying(f);
    size_t i = 0;
    if (keeps_all(f))
        return n;
    while (i < n && so_far + r[i].len <= f->opt.stream_bytes)
        so_far += r[i++].len;
    return i;
}

uint64_t xh_schedule_lead(struct xh_file *f, uint64_t off, uint64_t end)
{
    if (xh_compressed_used(f->compressed))
        return xh_compressed_lead(f, off, end);
    /* What is not much longer than what is kept anyway stays for other processes, which may be about to start. */
    int streams = end > off && (end - off) / 2 > f->opt.stream_bytes && !keeps_all(f);
    return streams ? xh_stage_stream(f, off, end) : off;
}

uint64_t xh_schedule_stretch(struct xh_file *f, struct xh_range r, uint64_t stream_end)
{
    struct xh_range pieces[257];
    if (xh_compressed_used(f->compressed))
        return xh_compressed_stretch(f, r, stream_end);
    uint64_t seen = xh_schedule_lead(f, r.off, stream_end);
    if (seen > r.off)
        return seen;
    uint64_t step = r.len / 256 / STRETCH_BYTES * STRETCH_BYTES + STRETCH_BYTES, end = r.off + r.len;
    size_t n = 0;
    for (uint64_t at = 0; at < r.len; at += step)
        pieces[n++] = (struct xh_range){r.off + at, r.len - at < step ? r.len - at : step};
    pieces[n].off = end;
    size_t k = kept(f, pieces, n), done = k ? ahead_to_shadow(f, pieces, k, XH_KIND_RAW) : 0;
    uint64_t from = pieces[done].off;
    if (done < k || k == n)
        return from;
    return pieces[k + xh_stage_fetch(f, pieces + k, n - k)].off;
}

size_t xh_schedule(struct xh_file *f, const struct xh_range *r, size_t n, enum xh_kind kind)
{
    int packed = 0;
    size_t seen = kind == XH_KIND_RAW && n && xh_compressed_used(f->compressed) ? xh_compressed_ahead(f, r, n, &packed) : 0;
    if (packed)
        return seen;
    size_t k = kind == XH_KIND_META ? n : kept(f, r, n);
    size_t done = k ? ahead_to_shadow(f, r, k, kind) : 0;
    return done == k && k < n ? k + xh_stage_fetch(f, r + k, n - k) : done;
}
