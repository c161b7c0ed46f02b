/* The walk: metadata is fetched ahead of a reader that goes from object to object.
 *
 * metaindex.c says what is wanted next. Here it meets the shadow, the readers' threads and the origin's. A level of a
 * tree that has arrived names the next one. So the walk goes on where a transfer ends, on the engine's thread, and
 * needs no reader to wake it.
 *
 * It begins when a file is opened that was never opened before, else at the first metadata that is missing: if all is
 * in the shadow, nothing is parsed. With a metadata image (source/) it begins at the first small raw data that is
 * missing, once all of the image is here. Then it asks for data and not for metadata.
 *
 * Of the processes that share a shadow one walks for all. Others could only ask for the gaps between what it has
 * claimed, in many small requests. A process whose reader is elsewhere, where nothing has been fetched ahead, walks
 * too. */
#include "walk.h"

#include "alike.h"
#include "head.h"
#include "object.h"
#include "format/metaindex.h"
#include "pages/fetch.h"
#include "pages/limits.h"
#include "schedule.h"
#include "source/here.h"
#include "source/metadata_image.h"
#include "watch/trace.h"

#define RANGES_AT_ONCE 1024
/* A request carries what its connection brings in about a round trip: a young one little, so that the reader's next
 * bytes do not wait behind a long reply; twice as much once as much has come. */
#define REQUEST_MOST_BYTES (256u << 10)
#define REQUEST_SHARE 8u
#define LONELY_READ 8u /* so many foreseen reads make up for one that was not */
#define LONELY 12u     /* from this value on a process walks for itself: two such reads within four others */
#define LONELIEST 64u
#define NOTED_EXTENTS 64u

static uint64_t request_bytes(const struct xh_file *f)
{
    uint64_t share = xh_fetch_meta_asked(f) / REQUEST_SHARE;
    share = share < REQUEST_MOST_BYTES ? share : REQUEST_MOST_BYTES;
    return share > XH_REQUEST_LEAST_BYTES ? share : XH_REQUEST_LEAST_BYTES;
}

int xh_walk_is_ours(struct xh_file *f)
{
    return f->walk->index && atomic_load_explicit(&f->walk->on, memory_order_relaxed) &&
           xh_fetch_meta_flying(f) && xh_shadow_walks(f->shadow, 1);
}

/* 1 when this process is the one to walk. It remains so only while something of its walk is on its way. If its reader
 * is stuck, or nothing more is known, another process takes over. */
static int our_walk(struct xh_file *f)
{
    int busy = xh_fetch_meta_flying(f) != 0;
    return xh_shadow_walks(f->shadow, busy) || atomic_load_explicit(&f->walk->lonely, memory_order_relaxed) >= LONELY;
}

/* Asks for what the index names, until it names nothing more. The index's lock is released while ranges are
 * submitted. */
static void go_on(struct xh_file *f)
{
    struct xh_range r[RANGES_AT_ONCE];
    struct xh_meta_limits lim = {.gap_bytes = xh_limits_meta_gap(f)};
    size_t n;
    if (!our_walk(f))
        return;
    do {
        unsigned busy = xh_fetch_meta_flying(f);
        if (busy >= XH_META_AT_ONCE)
            return; /* when one of them ends, this is called again */
        unsigned free = XH_META_AT_ONCE - busy;
        lim.most_bytes = free * request_bytes(f);
        lim.spare_bytes = f->spare_bytes;
        pthread_mutex_lock(&f->walk->lock);
        int arrived = atomic_exchange_explicit(&f->walk->arrived, 0, memory_order_relaxed);
        n = xh_metaindex_next(f->walk->index, arrived, &lim, xh_here_look, f, r, RANGES_AT_ONCE);
        pthread_mutex_unlock(&f->walk->lock);
        if (n) {
            xh_trace(XH_T_PREDICT, "walk", "ranges=%zu first=%llu", n, (unsigned long long)r[0].off);
            xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_META, .r = r, .n = n});
            xh_head_missed(f, r, n);
        }
    } while (n);
}

void xh_walk_init(struct xh_file *f, int walks)
{
    pthread_mutex_init(&f->walk->lock, NULL);
    f->walk->index = walks && f->opt.readahead && f->shadow ? xh_metaindex_new(f->size) : NULL;
    atomic_store_explicit(&f->walk->on, 0, memory_order_relaxed);
    atomic_store_explicit(&f->walk->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&f->walk->lonely, 0, memory_order_relaxed);
}

void xh_walk_end(struct xh_file *f)
{
    xh_metaindex_free(f->walk->index);
    pthread_mutex_destroy(&f->walk->lock);
}

void xh_walk_begin(struct xh_file *f)
{
    if (!f->walk->index)
        return;
    atomic_store_explicit(&f->walk->on, 1, memory_order_release);
    go_on(f);
}

/* Global heaps are read as raw data. Larger reads are no heap. */
static int saw(struct xh_file *f, const struct xh_seen *s)
{
    int meta = s->kind == XH_KIND_META;
    if (!f->walk->index || xh_schedule_is_whole(f) ||
        (!meta && (s->n > NOTED_EXTENTS || s->ext->len > XH_META_PARSE_MAX)))
        return 0;
    if (!atomic_load_explicit(&f->walk->on, memory_order_relaxed)) {
        int imaged = xh_metadata_image_is_used(f->image, 0);
        int foreseen = xh_alike_expects(f->alike) && !s->alone; /* it is on its way */
        if (!s->missed || foreseen || (imaged ? !xh_metadata_image_is_used(f->image, 1) : !meta))
            return 0;
        atomic_store_explicit(&f->walk->on, 1, memory_order_release);
    }
    if (meta) {
        unsigned lonely = atomic_load_explicit(&f->walk->lonely, memory_order_relaxed);
        lonely = s->alone ? lonely + LONELY_READ : lonely - (lonely > 0);
        atomic_store_explicit(&f->walk->lonely, lonely < LONELIEST ? lonely : LONELIEST, memory_order_relaxed);
    }
    pthread_mutex_lock(&f->walk->lock);
    for (size_t i = 0; i < s->n && i < NOTED_EXTENTS; i++)
        xh_metaindex_note(f->walk->index, (struct xh_range){s->ext[i].off, s->ext[i].len}, meta, xh_here_look, f);
    pthread_mutex_unlock(&f->walk->lock);
    if (s->missed) /* others may have brought something too */
        atomic_store_explicit(&f->walk->arrived, 1, memory_order_relaxed);
    go_on(f);
    return 0;
}

void xh_walk_arrived(struct xh_file *f)
{
    if (!f->walk->index || !atomic_load_explicit(&f->walk->on, memory_order_acquire))
        return;
    atomic_store_explicit(&f->walk->arrived, 1, memory_order_relaxed);
    go_on(f);
}

const struct xh_observer xh_walk_observer = {{[XH_KIND_RAW] = XH_ANSWERED, [XH_KIND_META] = XH_ANSWERED}, saw};
