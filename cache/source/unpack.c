/* Unpacking: see unpack.h.
 *
 * A frame that a read wants all of, in one piece of its buffer, is unpacked there; any other in a buffer of its own,
 * from which it is copied. A frame is a whole number of pages but at the end of the file, so a page is never in two. */
#include "unpack.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "disk/disk.h"
#include "object.h"
#include "base/now.h"
#include "base/table.h"
#include "base/thread.h"

#define KEPT_BYTES (16u << 20) /* of unpacked frames that are kept; at least four, as none is longer than 4 MiB */

unsigned xh_unpacker_threads(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n < XH_UNPACK_THREADS_MOST ? (unsigned)n : XH_UNPACK_THREADS_MOST;
}

/* ---- what a read wants of a frame --------------------------------------------------------------- */

static struct xh_range range_of(const struct xh_packed *t, uint32_t frame)
{
    return (struct xh_range){(uint64_t)frame * t->head.frame_bytes, xh_packed_raw_len(&t->head, frame)};
}

/* Adds the pieces of |frame| that are wanted to |out|. Returns 0, or XH_E_NOMEM when one could not be added. |forgoes|:
 * then gives up what is claimed of that piece. */
static int part_of(const struct xh_unpacking *of, const struct xh_packed *t, uint32_t frame, int forgoes,
                   struct xh_runs *out)
{
    struct xh_range r = range_of(t, frame);
    uint64_t first = r.off / XH_PAGE_BYTES, end = xh_page_up(r.off + r.len);
    const struct xh_run *runs = of->runs->at;
    int rc = 0;
    for (size_t i = xh_count_before(k, of->runs->n, runs[k].first + runs[k].count <= first);
         i < of->runs->n && runs[i].first < end; i++) {
        uint64_t behind = runs[i].first + runs[i].count;
        struct xh_run piece = {.first = runs[i].first > first ? runs[i].first : first};
        piece.count = (behind < end ? behind : end) - piece.first;
        if (xh_runs_add_run(out, piece) == 0)
            continue;
        rc = XH_E_NOMEM;
        if (forgoes && of->claimed)
            xh_shadow_forgo(of->op->f->shadow, piece.first, piece.count);
    }
    return rc;
}

int xh_unpacking_leave(const struct xh_unpacking *of, const struct xh_packed *t, uint32_t frame, struct xh_runs *out)
{
    return part_of(of, t, frame, 1, out);
}

/* Where in the reader's buffer the frame is to go as a whole; NULL: not there. */
static uint8_t *place_of(const struct xh_unpacking *of, const struct xh_runs *part, struct xh_range r)
{
    const struct xh_read_op *op = of->op;
    uint64_t pages = xh_page_up(r.len);
    if (op->reach || part->n != 1 || part->at[0].count != pages)
        return NULL;
    for (size_t i = 0; i < op->n && op->ext[i].off <= r.off; i++)
        if (op->ext[i].len >= r.len && r.off - op->ext[i].off <= op->ext[i].len - r.len)
            return (uint8_t *)op->ext[i].buf + (r.off - op->ext[i].off);
    return NULL;
}

/* Gives the reader, the shadow and the disk cache what they want of a frame whose bytes are at |raw|. */
static void hand_on(const struct xh_unpacking *of, const struct xh_runs *part, struct xh_range r, const uint8_t *raw,
                    int copies)
{
    struct xh_file *f = of->op->f;
    for (size_t i = 0; i < part->n; i++) {
        uint64_t off = part->at[i].first * XH_PAGE_BYTES, len = part->at[i].count * XH_PAGE_BYTES;
        len = len < r.off + r.len - off ? len : r.off + r.len - off;
        xh_disk_keep(f->disk, off, raw + (off - r.off), (size_t)len, of->op->kind == XH_KIND_META);
        if (copies)
            xh_op_copy_out(of->op, off, len, raw + (off - r.off));
        if (!of->claimed)
            continue;
        struct xh_runs run = {.at = &part->at[i], .n = 1};
        struct xh_arrival a = {.page = part->at[i].first};
        (void)xh_arrive(f, &run, &a, off, raw + (off - r.off), (size_t)len);
        xh_arrive_end(f, &run, &a, part->at[i].first + part->at[i].count);
    }
}

/* ---- frames that are kept ----------------------------------------------------------------------- */

/* Lock held. */
static struct xh_frame_kept *kept_at(struct xh_unpacker *u, uint32_t frame)
{
    for (size_t i = 0; i < u->nkept; i++)
        if (u->kept[i].bytes && u->kept[i].frame == frame)
            return &u->kept[i];
    return NULL;
}

/* Keeps |raw|, or frees it. */
static void keep(struct xh_unpacker *u, uint32_t frame, uint8_t *raw)
{
    struct xh_frame_kept *oldest = NULL;
    uint8_t *gone = raw;
    pthread_mutex_lock(&u->lock);
    if (!u->kept) {
        u->nkept = KEPT_BYTES / u->table->head.frame_bytes;
        u->kept = calloc(u->nkept, sizeof *u->kept);
        u->nkept = u->kept ? u->nkept : 0;
    }
    for (size_t i = 0; i < u->nkept && !kept_at(u, frame); i++)
        if (u->kept[i].readers == 0 &&
            (!oldest || !u->kept[i].bytes || (oldest->bytes && u->kept[i].used < oldest->used)))
            oldest = &u->kept[i];
    if (oldest) {
        gone = oldest->bytes;
        *oldest = (struct xh_frame_kept){.bytes = raw, .frame = frame, .used = ++u->clock};
    }
    pthread_mutex_unlock(&u->lock);
    free(gone);
}

int xh_unpack_keeps(struct xh_unpacker *u, uint32_t frame)
{
    pthread_mutex_lock(&u->lock);
    int is = kept_at(u, frame) != NULL;
    pthread_mutex_unlock(&u->lock);
    return is;
}

int xh_unpack_kept(struct xh_unpacker *u, struct xh_unpacking *of, uint32_t frame)
{
    struct xh_runs part = {0};
    pthread_mutex_lock(&u->lock);
    struct xh_frame_kept *k = kept_at(u, frame);
    if (k) {
        k->used = ++u->clock;
        k->readers++;
    }
    pthread_mutex_unlock(&u->lock);
    int done = k && part_of(of, u->table, frame, 0, &part) == 0;
    if (done)
        hand_on(of, &part, range_of(u->table, frame), k->bytes, 1);
    free(part.at);
    if (k) {
        pthread_mutex_lock(&u->lock);
        k->readers--;
        pthread_mutex_unlock(&u->lock);
    }
    return done;
}

/* ---- the threads -------------------------------------------------------------------------------- */

void xh_batch_leave(struct xh_batch *b)
{
    if (atomic_fetch_sub_explicit(&b->left, 1, memory_order_acq_rel) != 1)
        return;
    free(b->bytes);
    free(b);
}

static void unpack(struct xh_unpacker *u, struct xh_unpack_task *t, struct xh_packed_tool *z)
{
    struct xh_unpacking *of = t->of;
    struct xh_range r = range_of(u->table, t->frame);
    struct xh_runs part = {0};
    uint64_t began = xh_now_ns();
    int rc = part_of(of, u->table, t->frame, 0, &part);
    uint8_t *place = rc ? NULL : place_of(of, &part, r), *own = place || rc ? NULL : malloc(r.len),
            *to = place ? place : own;
    int good = z && to && xh_packed_unpack(u->table, t->frame, t->packed, z, to) == 0;
    uint64_t ns = xh_now_ns() - began;
    xh_batch_leave(t->batch);
    if (good)
        hand_on(of, &part, r, to, !place);
    if (good && own)
        keep(u, t->frame, own);
    else
        free(own);
    if (!good && z && to) {
        pthread_mutex_lock(&u->lock);
        u->bad++;
        pthread_mutex_unlock(&u->lock);
    }
    pthread_mutex_lock(&of->lock);
    of->bytes += good ? r.len : 0;
    of->ns += good ? ns : 0;
    if (!good && xh_unpacking_leave(of, u->table, t->frame, &of->rest))
        of->failed = XH_E_NOMEM;
    of->pending--;
    pthread_cond_signal(&of->news);
    pthread_mutex_unlock(&of->lock);
    free(part.at);
    free(t);
}

static void *work(void *ctx)
{
    struct xh_unpacker *u = ctx;
    struct xh_packed_tool *z = xh_packed_tool(u->table);
    pthread_mutex_lock(&u->lock);
    for (;;) {
        struct xh_unpack_task *t = u->first;
        if (!t && u->ends)
            break;
        if (!t) {
            pthread_cond_wait(&u->work, &u->lock);
            continue;
        }
        u->first = t->next;
        u->last = u->first ? u->last : &u->first;
        pthread_mutex_unlock(&u->lock);
        unpack(u, t, z);
        pthread_mutex_lock(&u->lock);
    }
    pthread_mutex_unlock(&u->lock);
    xh_packed_tool_free(z);
    return NULL;
}

/* Lock held. */
static void start_threads(struct xh_unpacker *u)
{
    unsigned want = u->threads ? 0 : xh_unpacker_threads();
    while (u->threads < want && xh_thread_start(&u->thread[u->threads], work, u) == 0)
        u->threads++;
}

int xh_unpack_start(struct xh_unpacker *u, struct xh_unpacking *of, struct xh_batch *batch, const uint8_t *packed,
                    uint32_t frame)
{
    struct xh_unpack_task *t = malloc(sizeof *t);
    if (!t)
        return XH_E_NOMEM;
    *t = (struct xh_unpack_task){.of = of, .batch = batch, .packed = packed, .frame = frame};
    pthread_mutex_lock(&of->lock);
    of->pending++;
    pthread_mutex_unlock(&of->lock);
    atomic_fetch_add_explicit(&batch->left, 1, memory_order_relaxed);
    pthread_mutex_lock(&u->lock);
    start_threads(u);
    int queued = u->threads != 0;
    if (queued) {
        *u->last = t;
        u->last = &t->next;
        pthread_cond_signal(&u->work);
    }
    pthread_mutex_unlock(&u->lock);
    if (queued)
        return 0;
    free(t);
    pthread_mutex_lock(&of->lock);
    of->pending--;
    pthread_mutex_unlock(&of->lock);
    atomic_fetch_sub_explicit(&batch->left, 1, memory_order_relaxed); /* the caller has a part of it */
    return XH_E_NOMEM;
}

/* ---- a read's ----------------------------------------------------------------------------------- */

void xh_unpacking_begin(struct xh_unpacking *of, struct xh_read_op *op, const struct xh_runs *runs, int claimed)
{
    *of = (struct xh_unpacking){.op = op, .runs = runs, .claimed = claimed};
    pthread_mutex_init(&of->lock, NULL);
    pthread_cond_init(&of->news, NULL);
}

void xh_unpacking_wait(struct xh_unpacking *of, size_t most)
{
    pthread_mutex_lock(&of->lock);
    while (of->pending > most)
        pthread_cond_wait(&of->news, &of->lock);
    pthread_mutex_unlock(&of->lock);
}

/* ---- life --------------------------------------------------------------------------------------- */

void xh_unpacker_init(struct xh_unpacker *u)
{
    *u = (struct xh_unpacker){.last = &u->first};
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->work, NULL);
}

void xh_unpacker_after_fork(struct xh_unpacker *u)
{
    const struct xh_packed *table = u->table;
    xh_unpacker_init(u); /* what the parent had is leaked: its state cannot be told from sound */
    u->table = table;
}

void xh_unpacker_free(struct xh_unpacker *u)
{
    pthread_mutex_lock(&u->lock);
    u->ends = 1;
    pthread_cond_broadcast(&u->work);
    pthread_mutex_unlock(&u->lock);
    for (unsigned i = 0; i < u->threads; i++)
        pthread_join(u->thread[i], NULL);
    for (size_t i = 0; i < u->nkept; i++)
        free(u->kept[i].bytes);
    free(u->kept);
    pthread_mutex_destroy(&u->lock);
    pthread_cond_destroy(&u->work);
}
