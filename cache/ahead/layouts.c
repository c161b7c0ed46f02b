/* Layouts: see layouts.h. Metadata goes to the chunk indexes. A raw read that lies in a chunk which an index knows is
 * followed in the index's order. */
#include "layouts.h"

#include <stdlib.h>

#include "base/thread.h"
#include "format/contiguous.h"
#include "hints.h"
#include "object.h"
#include "pages/limits.h"
#include "schedule.h"
#include "source/here.h"
#include "source/metadata_image.h"
#include "stream/stream.h"

#define RANGES_AT_ONCE 256 /* of nodes ahead of a walk, of HDF5's usual 2 KiB, that is 512 KiB */
#define NODES_AT_ONCE 16
#define TWINS_AT_ONCE 16 /* pieces of one read */
/* A node that is there already leads to others: so many levels are followed in one go. */
#define NODE_ROUNDS 4

void xh_layouts_init(struct xh_layouts *l)
{
    *l = (struct xh_layouts){0};
    pthread_mutex_init(&l->lock, NULL);
}

void xh_layouts_begin(struct xh_file *f)
{
    if (!f->opt.readahead || f->size == 0)
        return;
    f->layouts->chunks = xh_chunkindex_new(f->size); /* without memory: no guesses */
    f->layouts->contiguous = xh_contiguous_new(f->size);
}

void xh_layouts_free(struct xh_layouts *l)
{
    xh_chunkindex_free(l->chunks);
    xh_contiguous_free(l->contiguous);
    pthread_mutex_destroy(&l->lock);
}

void xh_layouts_after_fork(struct xh_layouts *l)
{
    if (pthread_mutex_trylock(&l->lock)) { /* a thread of the parent was at work on the indexes: they are leaked */
        l->chunks = NULL;
        l->contiguous = NULL;
    }
    pthread_mutex_init(&l->lock, NULL);
}

struct xh_range xh_layouts_dataset(struct xh_file *f, struct xh_range r)
{
    struct xh_range whole = {0, 0};
    pthread_mutex_lock(&f->layouts->lock);
    if (f->layouts->contiguous)
        whole = xh_contiguous_at(f->layouts->contiguous, r);
    pthread_mutex_unlock(&f->layouts->lock);
    return whole;
}

struct xh_meta_format xh_layouts_format(struct xh_file *f)
{
    struct xh_meta_format format = {0};
    pthread_mutex_lock(&f->layouts->lock);
    if (f->layouts->contiguous)
        format = xh_contiguous_format(f->layouts->contiguous);
    pthread_mutex_unlock(&f->layouts->lock);
    return format;
}

struct xh_chunkindex_plain xh_layouts_plain(struct xh_file *f)
{
    struct xh_chunkindex_plain plain = {0};
    pthread_mutex_lock(&f->layouts->lock);
    if (f->layouts->chunks)
        plain = xh_chunkindex_plain(f->layouts->chunks);
    pthread_mutex_unlock(&f->layouts->lock);
    return plain;
}

/* ---- metadata */

/* Shows the layouts the metadata [off, off + len); |is_read|: HDF5 has read it. Returns 1 when HDF5 goes through an
 * index by that. */
static int see(struct xh_file *f, uint64_t off, const uint8_t *p, size_t len, int is_read)
{
    struct xh_layouts *l = f->layouts;
    pthread_mutex_lock(&l->lock);
    if (l->chunks && xh_chunkindex_cares(l->chunks, off, p, len))
        xh_chunkindex_see(l->chunks, off, p, len);
    if (l->contiguous)
        xh_contiguous_see(l->contiguous, off, p, len, xh_here_look, f);
    int walks = is_read && l->chunks && xh_chunkindex_walked(l->chunks, off);
    pthread_mutex_unlock(&l->lock);
    return walks;
}

/* Shows the index the node |r|. Returns 1 when it is there. */
static int see_shadow(struct xh_file *f, struct xh_range r)
{
    uint8_t *p = malloc(r.len);
    int there = p && xh_here_look(f, r.off, p, r.len);
    if (there)
        see(f, r.off, p, r.len, 0);
    free(p);
    return there;
}

/* ---- chunks */

static int is_among(struct xh_range r, const struct xh_range *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (all[i].off == r.off)
            return 1;
    return 0;
}

/* Proposes the index nodes that lie ahead, which |wanted| says; those that are here are shown at once, and lead to
 * others. Those that are not |wanted| says in each round, or only once. */
static void propose_nodes(struct xh_file *f,
                          size_t (*wanted)(struct xh_chunkindex *, struct xh_range *, size_t), size_t most)
{
    struct xh_range want[RANGES_AT_ONCE], far[RANGES_AT_ONCE];
    size_t nfar = 0, found = 1;
    for (int round = 0; round < NODE_ROUNDS && found; round++) {
        pthread_mutex_lock(&f->layouts->lock);
        size_t n = wanted(f->layouts->chunks, want, most);
        pthread_mutex_unlock(&f->layouts->lock);
        found = 0;
        for (size_t i = 0; i < n; i++)
            if (see_shadow(f, want[i]))
                found++;
            else if (!xh_metadata_image_has(f->image, want[i].off, want[i].len) && nfar < RANGES_AT_ONCE &&
                     !is_among(want[i], far, nfar))
                far[nfar++] = want[i];
    }
    xh_schedule_trace("node", far, nfar);
    if (nfar)
        xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_META, .r = far, .n = nfar});
}

/* What was proposed of chunks is not seen to. */
static void refused(struct xh_file *f)
{
    pthread_mutex_lock(&f->layouts->lock);
    xh_chunkindex_refused(f->layouts->chunks);
    pthread_mutex_unlock(&f->layouts->lock);
}

/* Chunks that lie one behind the other are proposed as a run. The reader has come to |end|. */
static void propose_stretch(struct xh_file *f, uint64_t end)
{
    uint64_t window;
    pthread_mutex_lock(&f->layouts->lock);
    struct xh_range r = xh_chunkindex_stretch(f->layouts->chunks, xh_guess_window(f), XH_STREAM_LEAST_BYTES,
                                              XH_STREAM_MOST_BYTES, &window);
    pthread_mutex_unlock(&f->layouts->lock);
    if (window == 0)
        return;
    xh_schedule_trace("stretch", &r, r.len != 0);
    if (r.len) {
        struct xh_range near = {r.off, r.len < window ? r.len : window};
        uint64_t seen = xh_schedule_run(f, &(struct xh_proposal){.r = &near, .n = 1, .window = window,
                                                                 .run_end = r.off + r.len});
        pthread_mutex_lock(&f->layouts->lock);
        xh_chunkindex_took(f->layouts->chunks, (struct xh_range){r.off, seen - r.off});
        pthread_mutex_unlock(&f->layouts->lock);
    }
    if (xh_schedule_reach(f, end, window))
        refused(f);
}

/* Returns 0 when no index knows the chunks that were read. */
static int saw_chunks(struct xh_file *f, const struct xh_extent *ext, size_t n, int alone)
{
    struct xh_range r[RANGES_AT_ONCE];
    uint64_t end = 0, flight = xh_limits_flight(f);
    pthread_mutex_lock(&f->layouts->lock);
    struct xh_chunkindex *chunks = f->layouts->chunks;
    /* What lies behind a process's share is its neighbour's: its first read of a dataset shows no order, unless what
     * the neighbour is at can be seen. */
    int first = f->opened_jointly && !xh_file_shared(f) &&
                !xh_chunkindex_begun(chunks, (struct xh_range){ext->off, ext->len});
    xh_chunkindex_reader(chunks, xh_thread_number(), flight);
    for (size_t i = 0; i < n; i++) {
        uint64_t to = xh_chunkindex_raw(chunks, (struct xh_range){ext[i].off, ext[i].len}, alone);
        end = to ? to : end;
    }
    int strayed = xh_chunkindex_strayed(chunks), moved = xh_chunkindex_moved(chunks);
    pthread_mutex_unlock(&f->layouts->lock);
    if (end == 0 || first)
        return end != 0;
    if (strayed)
        xh_schedule_recall(f);
    if (moved) /* a stream that has what is wanted now far before it would not bring it */
        xh_schedule_begins(f, ext->off);
    propose_nodes(f, xh_chunkindex_wanted, NODES_AT_ONCE);
    propose_stretch(f, end);
    pthread_mutex_lock(&f->layouts->lock);
    size_t want = xh_chunkindex_next(chunks, xh_guess_window(f), r, RANGES_AT_ONCE);
    pthread_mutex_unlock(&f->layouts->lock);
    xh_schedule_trace("chunk", r, want);
    if (want && xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_RAW, .r = r, .n = want}) < want)
        refused(f);
    return 1;
}

/* ---- datasets that are read at the same places */

#define CHUNKS_SIZE (UINT64_C(1) << 62) /* of each chunked dataset, chunks: two with as many have the same */

/* Where |r| lies; set 0: in no dataset that is known. The lock is held. */
static struct xh_twin_place place_of(const struct xh_layouts *l, struct xh_range r)
{
    struct xh_chunkindex_spot s = xh_chunkindex_spot(l->chunks, r);
    if (s.index)
        return (struct xh_twin_place){s.index, s.rank, 1, CHUNKS_SIZE};
    struct xh_range d = l->contiguous ? xh_contiguous_at(l->contiguous, r) : (struct xh_range){0, 0};
    return (struct xh_twin_place){d.len ? d.off : 0, r.off - d.off, r.len, d.len};
}

static struct xh_range range_of(const struct xh_layouts *l, struct xh_twin_place p)
{
    if (p.size == CHUNKS_SIZE)
        return xh_chunkindex_at(l->chunks, (struct xh_chunkindex_spot){p.set, p.at});
    return (struct xh_range){p.set + p.at, p.len};
}

/* What is read with one read of a row wants to come while that waits. Long reads are no rows: they wait for the link
 * anyway. */
static void propose_twins(struct xh_file *f, const struct xh_extent *ext, size_t n)
{
    struct xh_twin_place next[XH_TWINS_MOST];
    struct xh_range r[TWINS_AT_ONCE * XH_TWINS_MOST];
    size_t want = 0;
    if (n > TWINS_AT_ONCE || xh_extents_bytes(ext, n) >= XH_BULK_BYTES)
        return;
    pthread_mutex_lock(&f->layouts->lock);
    for (size_t i = 0; i < n; i++) {
        struct xh_twin_place p = place_of(f->layouts, (struct xh_range){ext[i].off, ext[i].len});
        unsigned follow = p.set ? xh_twins_read(&f->layouts->twins, p, next) : 0;
        for (unsigned k = 0; k < follow; k++) {
            r[want] = range_of(f->layouts, next[k]);
            want += r[want].len != 0 && r[want].len < XH_BULK_BYTES;
        }
    }
    pthread_mutex_unlock(&f->layouts->lock);
    xh_schedule_trace("twin", r, want);
    if (want)
        xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_RAW, .r = r, .n = want});
}

static int saw(struct xh_file *f, const struct xh_seen *s)
{
    if (s->kind == XH_KIND_RAW && f->layouts->chunks) {
        propose_twins(f, s->ext, s->n);
        return saw_chunks(f, s->ext, s->n, s->alone);
    }
    if (s->kind == XH_KIND_RAW)
        return 0;
    int walks = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->ext[i].len)
            walks |= see(f, s->ext[i].off, s->ext[i].buf, s->ext[i].len, 1);
    if (walks)
        propose_nodes(f, xh_chunkindex_unwalked, RANGES_AT_ONCE);
    return 0;
}

const struct xh_observer xh_layouts_observer = {{[XH_KIND_RAW] = XH_ASKED, [XH_KIND_META] = XH_ANSWERED}, saw};
