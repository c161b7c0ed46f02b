/* Streams: long loads that stand still while their reader has enough. See stage.h. */
#include "parcel.h"

#include <stdlib.h>

#include "../trace.h"

/* What a stream's loads take in turns, and its length in all. */
#define STRIPE_BYTES (4u << 20)
#define STREAM_MOST_BYTES (512u << 20)
/* As many loads as connections pay, by the round trip: one connection of an untuned system holds some 3 MB. */
#define STREAM_LOADS_MOST 8

int xh_stream_full(struct xh_transfer *t)
{
    struct xh_load *l = t->ctx;
    struct xh_stage *s = &l->f->stage;
    pthread_mutex_lock(&s->lock);
    int far = l->pos >= s->reach && l->pos >= l->first;
    int full = l->stands = !l->takers && (far || s->bytes >= l->f->opt.readahead_bytes);
    pthread_mutex_unlock(&s->lock);
    return full;
}

void xh_stream_go_on(struct xh_load *l)
{
    if (l->stands && !l->over && !l->submitting)
        xh_origin_resume(l->f->origin, &l->t);
    l->stands = 0;
}

void xh_stream_leave(struct xh_stage *s, struct xh_load *l)
{
    if (l->takers || l->submitting || l->over)
        return;
    for (size_t i = 0; i < l->nparcels; i++)
        xh_parcel_unlist(s, &l->parcels[i]);
    xh_origin_cancel(l->f->origin, &l->t);
}

void xh_stream_leave_stale(struct xh_stage *s)
{
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++) {
        struct xh_load *l = s->stream[i];
        uint64_t slack = l->f->opt.readahead_bytes + 2 * XH_STREAM_FIRST_BYTES;
        if (s->clock - l->used >= XH_STALE_READS && (l->pos > s->reach + slack || l->pos + slack < s->reach))
            xh_stream_leave(s, l);
    }
}

void xh_stream_pass_far(struct xh_stage *s, uint64_t off)
{
    size_t i = xh_parcel_at(s, off);
    if (i < s->n && s->at[i]->off <= off && xh_parcel_is_far(s->at[i], off))
        xh_stream_leave(s, s->at[i]->load);
}

/* The loads of a stream of |r|: each has every |nloads|th stripe. Returns how many were made. */
static size_t add_stream(struct xh_file *f, struct xh_range r, size_t nloads, struct xh_transfer **ts)
{
    struct xh_range mine[STREAM_MOST_BYTES / STRIPE_BYTES];
    size_t made = 0;
    for (; made < nloads; made++) {
        size_t n = 0;
        for (uint64_t at = made * STRIPE_BYTES; at < r.len; at += nloads * STRIPE_BYTES)
            mine[n++] = (struct xh_range){r.off + at, r.len - at < STRIPE_BYTES ? r.len - at : STRIPE_BYTES};
        struct xh_load *l = xh_load_add(f, mine, n, (unsigned)nloads);
        if (!l)
            break;
        size_t i = 0;
        while (f->stage.stream[i])
            i++;
        f->stage.stream[i] = l;
        ts[made] = &l->t;
    }
    return made;
}

uint64_t xh_stage_stream(struct xh_file *f, uint64_t off, uint64_t end)
{
    struct xh_stage *s = &f->stage;
    struct xh_origin_info info;
    struct xh_transfer *ts[STREAM_LOADS_MOST];
    struct xh_ranges want = {0};
    uint64_t to = end - off < STREAM_MOST_BYTES ? end : off + STREAM_MOST_BYTES, seen = off;
    xh_origin_get_info(f->origin, &info);
    pthread_mutex_lock(&s->lock);
    xh_stream_pass_far(s, off);
    size_t busy = 0;
    while (busy < XH_STREAMS_MAX && s->stream[busy])
        busy++;
    size_t nloads = info.max_ranges > 1 && f->opt.multirange ? info.connections : 1;
    if (nloads > STREAM_LOADS_MOST)
        nloads = STREAM_LOADS_MOST;
    if (nloads > info.streams)
        nloads = info.streams;
    if (nloads > 0 && busy + nloads <= XH_STREAMS_MAX && xh_stage_missing(f, (struct xh_range){off, to - off}, &want)) {
        struct xh_range r = want.n ? want.at[0] : (struct xh_range){to, 0};
        if (r.len >= XH_STREAM_LEAST_BYTES) {
            xh_trace(XH_T_READ, "stream", "off=%llu len=%llu loads=%zu", (unsigned long long)r.off,
                     (unsigned long long)r.len, nloads);
            xh_load_hand_over(f, ts, add_stream(f, r, nloads, ts));
            seen = r.off + r.len;
        }
    }
    pthread_mutex_unlock(&s->lock);
    free(want.at);
    return seen;
}

/* How far a stream runs ahead: twice what a fast link holds. More would wait in memory that the
 * processor's caches have forgotten by then; the socket holds more besides. */
static uint64_t stream_window(const struct xh_file *f)
{
    struct xh_origin_info info;
    xh_origin_get_info(f->origin, &info);
    uint64_t w = 2 * (uint64_t)((double)info.rtt_ns * XH_FAST_LINK_BYTES_PER_NS);
    return w > XH_STREAM_FIRST_BYTES ? w : XH_STREAM_FIRST_BYTES;
}

int xh_stage_reach(struct xh_file *f, uint64_t end, uint64_t window)
{
    struct xh_stage *s = &f->stage;
    pthread_mutex_lock(&s->lock);
    int lost = s->lost;
    s->lost = 0;
    if (s->stream[0]) { /* else every small read of a run would take the engine's lock for nothing */
        uint64_t most = stream_window(f);
        s->reach = end + (window < most ? window : most);
        xh_stream_leave_stale(s);
    }
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++)
        if (s->stream[i]->pos < s->reach)
            xh_stream_go_on(s->stream[i]);
    pthread_mutex_unlock(&s->lock);
    return lost;
}
