/* Values of variable length: see heaps.h. format/globalheap.c says which collections come next. HDF5 reads them as raw
 * data, and so they are fetched: to the shadow or, where much was read, to the stage. */
#include "heaps.h"

#include "format/globalheap.h"
#include "layouts.h"
#include "object.h"
#include "pages/limits.h"
#include "schedule.h"
#include "source/metadata_image.h"

/* In one go, of collections that are mostly of 64 KiB. */
#define RANGES_AT_ONCE 256

void xh_heaps_init(struct xh_heaps *h)
{
    *h = (struct xh_heaps){0};
    pthread_mutex_init(&h->lock, NULL);
}

void xh_heaps_begin(struct xh_file *f)
{
    if (f->opt.readahead && f->size)
        f->heaps->collections = xh_globalheap_new(f->size); /* without memory: no guesses */
}

void xh_heaps_free(struct xh_heaps *h)
{
    xh_globalheap_free(h->collections);
    pthread_mutex_destroy(&h->lock);
}

void xh_heaps_after_fork(struct xh_heaps *h)
{
    if (pthread_mutex_trylock(&h->lock)) /* a thread of the parent was at work on them: they are leaked */
        h->collections = NULL;
    pthread_mutex_init(&h->lock, NULL);
}

static int is_on(const struct xh_file *f)
{
    return f->heaps->collections && !xh_schedule_is_whole(f);
}

/* Fetches what comes next. */
static void go_on(struct xh_file *f)
{
    struct xh_range r[RANGES_AT_ONCE];
    struct xh_heap_limits lim = {.spare_bytes = f->spare_bytes, .block_bytes = xh_limits_flight(f)};
    pthread_mutex_lock(&f->heaps->lock);
    size_t all = xh_globalheap_next(f->heaps->collections, &lim, r, RANGES_AT_ONCE), n = 0;
    pthread_mutex_unlock(&f->heaps->lock);
    for (size_t i = 0; i < all; i++)
        if (!xh_metadata_image_has(f->image, r[i].off, r[i].len))
            r[n++] = r[i];
    xh_schedule_trace("heap", r, n);
    if (n)
        xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_RAW, .r = r, .n = n});
}

/* Where collections lie one behind the other, their reads are an order of raw data like any other, which goes on behind
 * what is named. Where the next one lies before the last, they are none. */
static int saw_reads(struct xh_file *f, const struct xh_seen *s)
{
    int heaps = 0;
    if (!is_on(f) || !atomic_load_explicit(&f->heaps->named, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&f->heaps->lock);
    for (size_t i = 0; i < s->n; i++)
        heaps = xh_globalheap_reads(f->heaps->collections, (struct xh_range){s->ext[i].off, s->ext[i].len});
    pthread_mutex_unlock(&f->heaps->lock);
    if (heaps)
        go_on(f);
    return heaps > 1;
}

static int knows_format(struct xh_file *f)
{
    struct xh_heaps *h = f->heaps;
    if (atomic_load_explicit(&h->known, memory_order_relaxed))
        return 1;
    struct xh_meta_format format = xh_layouts_format(f);
    pthread_mutex_lock(&h->lock);
    h->format = format;
    pthread_mutex_unlock(&h->lock);
    atomic_store_explicit(&h->known, format.offset_bytes != 0, memory_order_relaxed);
    return format.offset_bytes != 0;
}

static int saw_bytes(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_heaps *h = f->heaps;
    if (!is_on(f) || !knows_format(f))
        return 0;
    pthread_mutex_lock(&h->lock);
    int may = xh_globalheap_saw(h->collections, &h->format, s->ext, s->n);
    atomic_store_explicit(&h->named, xh_globalheap_held(h->collections) > 0, memory_order_relaxed);
    pthread_mutex_unlock(&h->lock);
    if (may)
        go_on(f);
    return 0;
}

const struct xh_observer xh_heaps_observer = {{[XH_KIND_RAW] = XH_ASKED}, saw_reads};
const struct xh_observer xh_descriptors_observer = {{[XH_KIND_RAW] = XH_ANSWERED}, saw_bytes};
