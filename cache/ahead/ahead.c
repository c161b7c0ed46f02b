/* Reading ahead: shows every read to the predictors and fetches what they expect.
 *
 * Metadata goes to the chunk indexes. A raw read that lies in a chunk which an index knows is
 * followed in the index's order; any other, in the order of addresses, to the end of its dataset where
 * that is known. Nothing here fails a read. */
#include "ahead.h"

#include <stdlib.h>

#include "file.h"
#include "format/chunkindex/chunkindex.h"
#include "format/contiguous.h"
#include "hints.h"
#include "pages/fetch.h"
#include "predict.h"
#include "schedule.h"
#include "siblings.h"
#include "source/compressed.h"
#include "source/here.h"
#include "source/metadata_image.h"
#include "stream/room.h"
#include "stream/stage.h"
#include "stream/stream.h"
#include "walk.h"
#include "watch/trace.h"

/* A run that may look so far ahead goes on long enough for a stream. */
#define STREAM_WINDOW (16u << 20)
/* With fewer young connections a read is there as soon by itself. */
#define LEAD_CONNECTIONS 3
#define CHUNKS_AT_ONCE 256
#define NODES_AT_ONCE 16
/* A node that is there already leads to others: so many levels are followed in one go. */
#define NODE_ROUNDS 4

/* Farthest that a guess runs ahead; hints come first. */
static uint64_t guess_window(struct xh_file *f)
{
    uint64_t most = xh_ahead_most(f), share = xh_room_share(f->opt.readahead_bytes), hinted = atomic_load_explicit(&f->hints->ahead_bytes, memory_order_relaxed);
    most /= xh_siblings_width(f);
    most = share < most ? share : most;
    return most > hinted ? most - hinted : 0;
}

static void trace_ranges(const char *event, const struct xh_range *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        xh_trace(XH_T_PREDICT, event, "off=%llu len=%llu", (unsigned long long)r[i].off,
                 (unsigned long long)r[i].len);
}

static void see(struct xh_file *f, uint64_t off, const uint8_t *p, size_t len)
{
    pthread_mutex_lock(&f->chunk_lock);
    if (f->chunks && xh_chunkindex_cares(f->chunks, off, p, len))
        xh_chunkindex_see(f->chunks, off, p, len);
    if (f->contiguous)
        xh_contiguous_see(f->contiguous, off, p, len, xh_here_look, f);
    pthread_mutex_unlock(&f->chunk_lock);
}

/* Shows the index the node |r| when it is there. Returns 1 when they were. */
static int see_shadow(struct xh_file *f, struct xh_range r)
{
    uint8_t *p = malloc(r.len);
    int there = p && xh_here_look(f, r.off, p, r.len);
    if (there)
        see(f, r.off, p, r.len);
    free(p);
    return there;
}

/* Brings the index nodes that lie before the reader: those that are there, or on their way. */
static void bring_nodes(struct xh_file *f)
{
    struct xh_range want[NODES_AT_ONCE], far[NODES_AT_ONCE];
    size_t nfar, found = 1;
    for (int round = 0; round < NODE_ROUNDS && found; round++) {
        pthread_mutex_lock(&f->chunk_lock);
        size_t n = xh_chunkindex_wanted(f->chunks, want, NODES_AT_ONCE);
        pthread_mutex_unlock(&f->chunk_lock);
        nfar = found = 0;
        for (size_t i = 0; i < n; i++)
            if (see_shadow(f, want[i]))
                found++;
            else if (!xh_metadata_image_has(f->image, want[i].off, want[i].len))
                far[nfar++] = want[i];
    }
    trace_ranges("node", far, nfar);
    if (nfar)
        xh_schedule(f, far, nfar, XH_KIND_META);
}

/* What was proposed of chunks is not seen to. */
static void refused(struct xh_file *f)
{
    pthread_mutex_lock(&f->chunk_lock);
    xh_chunkindex_refused(f->chunks);
    pthread_mutex_unlock(&f->chunk_lock);
}

/* As xh_stage_reach: of the original's streams and those of its body. */
static int reach(struct xh_file *f, uint64_t end, uint64_t window)
{
    int lost = xh_stage_reach(f, end, window);
    return xh_compressed_reach(f, end, window) || lost;
}

/* Chunks that lie one behind the other stream towards a reader who has come to |end|. */
static void stream_chunks(struct xh_file *f, uint64_t end)
{
    uint64_t window;
    pthread_mutex_lock(&f->chunk_lock);
    struct xh_range r = xh_chunkindex_stretch(f->chunks, guess_window(f), STREAM_WINDOW, XH_STREAM_MOST_BYTES, &window);
    pthread_mutex_unlock(&f->chunk_lock);
    if (window == 0)
        return;
    trace_ranges("stretch", &r, r.len != 0);
    if (r.len) {
        struct xh_range near = {r.off, r.len < window ? r.len : window};
        uint64_t seen = xh_schedule_stretch(f, near, r.off + r.len);
        pthread_mutex_lock(&f->chunk_lock);
        xh_chunkindex_took(f->chunks, (struct xh_range){r.off, seen - r.off});
        pthread_mutex_unlock(&f->chunk_lock);
    }
    if (reach(f, end, window))
        refused(f);
}

/* Returns 0 when no index knows the chunks that were read. */
static int ahead_by_chunks(struct xh_file *f, const struct xh_extent *ext, size_t n)
{
    struct xh_range r[CHUNKS_AT_ONCE];
    uint64_t end = 0;
    pthread_mutex_lock(&f->chunk_lock);
    /* What lies behind a process's share is its neighbour's: its first read of a dataset shows no order, unless what the
     * neighbour is at can be seen. */
    int first = f->opened_jointly && !xh_file_shared(f) && n && !xh_chunkindex_begun(f->chunks, (struct xh_range){ext->off, ext->len});
    for (size_t i = 0; i < n; i++)
        if (xh_chunkindex_raw(f->chunks, (struct xh_range){ext[i].off, ext[i].len}))
            end = ext[i].off + ext[i].len;
    int strayed = xh_chunkindex_strayed(f->chunks);
    pthread_mutex_unlock(&f->chunk_lock);
    if (end == 0 || first)
        return end != 0;
    if (strayed) {
        xh_fetch_recall(f);
        xh_stage_recall(f);
        xh_compressed_recall(f);
    }
    bring_nodes(f);
    stream_chunks(f, end);
    pthread_mutex_lock(&f->chunk_lock);
    size_t want = xh_chunkindex_next(f->chunks, guess_window(f), r, CHUNKS_AT_ONCE);
    pthread_mutex_unlock(&f->chunk_lock);
    trace_ranges("chunk", r, want);
    if (want && xh_schedule(f, r, want, XH_KIND_RAW) < want)
        refused(f);
    return 1;
}

/* A run upwards: what lies before the reader is fetched, or streams towards him. */
static void ahead_up(struct xh_file *f, const struct xh_range *want)
{
    struct xh_predict_seq *p = f->seq;
    uint64_t end = p->last.off + p->last.len;
    if (want)
        p->ahead = xh_schedule_stretch(f, *want, p->window >= STREAM_WINDOW ? p->end : 0);
    if (reach(f, end, p->window))
        p->ahead = end;
}

void xh_ahead_again(struct xh_file *f)
{
    struct xh_predict_seq *p = f->seq;
    uint64_t end = p->last.off + p->last.len;
    if (pthread_mutex_trylock(&f->guess_lock))
        return;
    if (p->kind == XH_RUN_UP && p->window && end < p->end) {
        struct xh_range want = {end, p->end - end < p->window ? p->end - end : p->window};
        reach(f, end, p->window); /* it is known that the streams end */
        ahead_up(f, &want);
    }
    pthread_mutex_unlock(&f->guess_lock);
}

/* The contiguous dataset that holds |r|; len 0: none is known. */
static struct xh_range dataset_of(struct xh_file *f, struct xh_range r)
{
    struct xh_range whole = {0, 0};
    pthread_mutex_lock(&f->chunk_lock);
    if (f->contiguous)
        whole = xh_contiguous_at(f->contiguous, r);
    pthread_mutex_unlock(&f->chunk_lock);
    return whole;
}

static void ahead_by_address(struct xh_file *f, const struct xh_extent *ext, size_t n)
{
    struct xh_range want[XH_PREDICT_RANGES];
    uint64_t lo = UINT64_MAX, hi = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (ext[i].len == 0)
            continue;
        lo = ext[i].off < lo ? ext[i].off : lo;
        hi = ext[i].off + ext[i].len > hi ? ext[i].off + ext[i].len : hi;
        bytes += ext[i].len;
    }
    if (bytes == 0 || hi - lo > 2 * bytes)
        return; /* scattered: not a sequence */
    struct xh_range r = {lo, hi - lo}, whole = dataset_of(f, r);
    if (pthread_mutex_trylock(&f->guess_lock))
        return;
    /* As above; and a share ends soon, at the latest where its dataset does. */
    uint64_t window = guess_window(f), share = f->seq->bytes + (f->opened_jointly && whole.len && xh_file_shared(f) ? r.len : 0);
    if (f->opened_jointly && window > share)
        window = share;
    size_t k = xh_predict_seq(f->seq, r, whole, window, f->size, want);
    trace_ranges("ahead", want, k);
    if (f->seq->kind == XH_RUN_UP)
        ahead_up(f, k ? want : NULL);
    else if (k)
        xh_schedule(f, want, k, XH_KIND_RAW);
    pthread_mutex_unlock(&f->guess_lock);
}

int xh_ahead_lead(struct xh_file *f, const struct xh_extent *ext, size_t n)
{
    struct xh_range want[XH_PREDICT_RANGES], r = {ext->off, ext->len};
    struct xh_origin_info info;
    int led = 0;
    if (n != 1 || r.len < STREAM_WINDOW / 2 || !f->opt.readahead || f->opened_jointly ||
        atomic_load_explicit(&f->hints->any, memory_order_relaxed))
        return 0;
    struct xh_range whole = dataset_of(f, r);
    xh_replicas_get_info(f->origin, &info);
    if (whole.len == 0 || !info.young || info.idle < LEAD_CONNECTIONS || pthread_mutex_trylock(&f->guess_lock))
        return 0;
    struct xh_predict_seq seq = *f->seq;
    if (xh_predict_seq(&seq, r, whole, guess_window(f), f->size, want) && seq.kind == XH_RUN_UP &&
        seq.window >= STREAM_WINDOW) {
        seq.ahead = xh_schedule_lead(f, r.off, seq.end);
        led = seq.ahead >= r.off + r.len;
    }
    if (led) {
        *f->seq = seq;
        reach(f, r.off + r.len, seq.window);
    }
    pthread_mutex_unlock(&f->guess_lock);
    if (led)
        xh_siblings_raw(f, ext, n);
    return led;
}

void xh_ahead_raw(struct xh_file *f, const struct xh_extent *ext, size_t n)
{
    xh_siblings_raw(f, ext, n);
    if (xh_hints_follow(f, ext, n))
        return; /* nothing to guess */
    if (f->opt.readahead && (!f->chunks || !ahead_by_chunks(f, ext, n)))
        ahead_by_address(f, ext, n);
}

/* Fetches the next piece of a stretch of dense metadata. */
static void widen_on(struct xh_file *f, const struct xh_extent *ext)
{
    if (pthread_mutex_trylock(&f->guess_lock))
        return;
    struct xh_range next = xh_predict_walk(f->wide, (struct xh_range){ext->off, ext->len}, f->size);
    pthread_mutex_unlock(&f->guess_lock);
    if (next.len)
        xh_schedule(f, &next, 1, XH_KIND_META);
}

void xh_ahead_meta(struct xh_file *f, const struct xh_extent *ext, size_t n, int missed, int alone)
{
    if (!f->opt.readahead || n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (ext[i].len)
            see(f, ext[i].off, ext[i].buf, ext[i].len);
    if (n == 1 && !xh_metadata_image_is_used(f->image, 0))
        widen_on(f, ext);
    xh_walk_note(f, XH_KIND_META, ext, n, missed, alone);
}
