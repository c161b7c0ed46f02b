/* The compressed copy of an open file: see compressed.h.
 *
 * States, under the lock; the look makes the two moves in the middle:
 *   UNKNOWN -> LOOKING  a reader waits for a slow link
 *   LOOKING -> THERE    the copy is of the version that is open: |used| may be set from now on
 *   LOOKING -> NONE     there is none, or it is not to be used
 *   THERE   -> NONE     it cannot be fetched, or too much of it is damaged */
#include "compressed.h"
#include "compressed_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/now.h"
#include "base/thread.h"
#include "pages/fetch.h"
#include "stream/ending.h"
#include "stream/stage.h"
#include "stream/stream.h"
#include "watch/trace.h"
#include "here.h"
#include "known.h"
#include "version.h"

/* Less read in all waits for round trips and not for the link. */
#define MANY_BYTES (4u << 20)
/* When the copy takes over, the original's stream is cut so far behind the reader's place. By then the copy's stream
 * has found its speed: after six round trips, most of them in a queue that the original's stream has filled. */
#define RAMP_ROUND_TRIPS 10u

enum state { UNKNOWN, LOOKING, THERE, NONE };

/* Lock held. */
static void apply(struct xh_compressed *b)
{
    int use = xh_policy_uses_copy(b->state == THERE, b->judge.packed, b->forced);
    if (atomic_exchange_explicit(&b->used, use, memory_order_release) != use)
        xh_trace(XH_T_READ, "body", "used=%d link_mb=%.1f unpack_mb=%.1f ratio=%.2f", use,
                 b->judge.link_rate * 1e3, b->judge.unpack_rate * 1e3, b->judge.ratio);
}

void xh_compressed_give_up(struct xh_compressed *b, const char *why)
{
    pthread_mutex_lock(&b->lock);
    int was = b->state == THERE;
    b->state = NONE;
    xh_judge_begin(&b->judge, 0);
    apply(b);
    pthread_mutex_unlock(&b->lock);
    if (was)
        xh_known_warn(b->url, why);
}

/* ---- the look ----------------------------------------------------------------------------------- */

static int fetch(struct xh_compressed *b, uint64_t off, uint64_t len, uint8_t *buf)
{
    struct xh_extent e = {off, len, buf};
    if (off > b->file->size || len > b->file->size - off)
        return xh_err_set(&b->err, XH_E_RANGE, 0, "it is cut");
    /* Sums prove it, so an unverified head is good enough. */
    return xh_here_look(b->file, off, buf, len) ? 0 : b->files->read(b->file, XH_KIND_META, &e, 1, &b->err);
}

static const char *read_table(struct xh_compressed *b)
{
    uint8_t raw[XH_PACKED_SKIPPABLE + XH_PACKED_HEADER], *rows;
    struct xh_packed_head h;
    if (fetch(b, 0, sizeof raw, raw))
        return b->err.text;
    const char *why = xh_packed_head(raw, sizeof raw, &h);
    if (why)
        return why;
    if (h.sidecar_bytes != b->file->size)
        return "it is cut, or has grown";
    if (h.file_bytes != b->size || (b->dated && h.mtime_s != b->mtime_s))
        return "the file is newer or older than it. `xhdf5 publish --body` makes it anew";
    if (!b->dated)
        return "the server does not tell when the file was changed, so it might be of another version";
    if (!xh_packed_is_start(&h, b->start, b->start_len))
        return "the file begins with other bytes. `xhdf5 publish --body` makes it anew";
    size_t len = (size_t)XH_PACKED_ROW * h.frames;
    if (!(rows = malloc(len)))
        return "there is no memory for it";
    why = fetch(b, sizeof raw, len, rows) ? b->err.text : xh_packed_read(&h, rows, &b->table);
    free(rows);
    return why;
}

/* Opens the copy and reads its table. Returns NULL when the copy is to be used, else why not. |*there| becomes 1 when
 * there is one. */
static const char *examine(struct xh_compressed *b, int *there)
{
    int rc = b->files->open(b->url, &b->opt, &b->file, &b->err);
    *there = rc == 0;
    xh_known_opened(b->known, &b->opt, rc, b->err.status);
    return rc ? b->err.text : read_table(b);
}

static void *look(void *ctx)
{
    struct xh_compressed *b = ctx;
    int there;
    const char *why = examine(b, &there);
    xh_trace(XH_T_READ, "body", "there=%d frames=%u%s%s", !why, b->table.head.frames, why ? " why=" : "",
             why ? why : "");
    pthread_mutex_lock(&b->lock);
    b->unpacker.table = &b->table;
    b->judge.unpack_guess = b->table.head.codec == XH_PACKED_LZ4 ? XH_UNPACK_GUESS_LZ4 : XH_UNPACK_GUESS;
    if (!why)
        xh_judge_begin(&b->judge, (double)b->size / (double)b->table.head.sidecar_bytes);
    atomic_thread_fence(memory_order_release); /* a fork may be now: its child, without the lock, trusts THERE */
    b->state = why ? NONE : THERE;
    if (b->forced)
        apply(b);
    int closed = b->holders < 2; /* a process that ends may not be able to sum it up */
    pthread_cond_broadcast(&b->news);
    pthread_mutex_unlock(&b->lock); /* if it is not forced, the next read decides */
    if (why && there && !closed)
        xh_known_warn(b->url, why);
    xh_compressed_close(b);
    return NULL;
}

static void start_look(struct xh_compressed *b)
{
    if (xh_thread_start(NULL, look, b)) {
        pthread_mutex_lock(&b->lock);
        b->state = NONE;
        b->holders--; /* the file holds it still */
        pthread_mutex_unlock(&b->lock);
    }
}

/* Returns 1 when the caller is to begin the look: a reader waits for a slow link or a far server. Lock held. */
static int wants_look(struct xh_compressed *b, struct xh_file *f, double known_rate, uint64_t rtt_ns)
{
    if (b->state != UNKNOWN || !(b->forced || xh_judge_looks(&b->judge, known_rate, rtt_ns)))
        return 0;
    b->state = NONE;
    if (!b->forced && xh_known_of(b->known, &b->opt) == XH_KNOWN_NONE)
        return 0;
    b->size = f->size;
    b->dated = xh_version_mtime(f->validator, f->size, &b->mtime_s);
    b->start_len = f->size < sizeof b->start ? f->size : sizeof b->start;
    if (!xh_here_look(f, 0, b->start, b->start_len))
        b->start_len = 0;
    if (b->judge.link_rate <= 0)
        b->judge.link_rate = known_rate;
    b->state = LOOKING;
    b->holders++;
    return 1;
}

/* ---- the verdict -------------------------------------------------------------------------------- */

static uint64_t fetched(struct xh_file *f)
{
    return atomic_load_explicit(&f->counters.bytes_fetched, memory_order_relaxed);
}

int xh_compressed_used(struct xh_compressed *b)
{
    return b && atomic_load_explicit(&b->used, memory_order_acquire);
}

/* Lets the copy's streams run from now on, or again the original's. The original's end some round trips later, and
 * bring what is wanted until then, and so does what else was fetched ahead. Their reader has come to |end|. */
static void change_over(struct xh_compressed *b, struct xh_file *f, uint64_t end, double link_rate, uint64_t rtt_ns)
{
    int used = xh_compressed_used(b);
    uint64_t ramp = (uint64_t)(link_rate * (double)(RAMP_ROUND_TRIPS * rtt_ns));
    xh_stage_tell(used ? b->file : f, (uint64_t)(link_rate * 1e9));
    if (used) {
        xh_stage_cut(f, ramp);
        xh_fetch_cut(f, end + ramp);
    } else {
        xh_stage_end(b->file);
    }
    f->above->again(f);
}

void xh_compressed_begin(struct xh_file *f)
{
    struct xh_compressed *b = f->compressed;
    struct xh_origin_info info;
    /* Of a smaller file little may be wanted, so its copy is not looked for before MANY_BYTES were read. */
    if (!b || (f->size < XH_STREAM_LEAST_BYTES && !b->forced))
        return;
    xh_replicas_get_info(f->origin, &info);
    pthread_mutex_lock(&b->lock);
    int looks = wants_look(b, f, (double)info.second_bytes / 1e9, 0);
    pthread_mutex_unlock(&b->lock);
    if (looks)
        start_look(b);
    pthread_mutex_lock(&b->lock);
    while (b->forced && b->state == LOOKING)
        pthread_cond_wait(&b->news, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

int xh_compressed_is_awaited(struct xh_compressed *b)
{
    return b && atomic_load_explicit(&b->watched, memory_order_relaxed);
}

int xh_compressed_watches(const struct xh_read_op *op)
{
    return op->kind == XH_KIND_RAW && op->noted_ns && xh_compressed_is_awaited(op->f->compressed);
}

void xh_compressed_note(struct xh_read_op *op, int over)
{
    struct xh_file *f = op->f;
    struct xh_compressed *b = f->compressed;
    struct xh_origin_info info;
    if (!b || op->kind != XH_KIND_RAW || b->forced)
        return;
    xh_replicas_get_info(f->origin, &info);
    pthread_mutex_lock(&b->lock);
    uint64_t now_ns = xh_now_ns();
    b->got_bytes += over ? op->bytes : 0;
    b->waited_ns += now_ns - op->noted_ns;
    op->noted_ns = now_ns;
    struct xh_judged now = {.now_ns = now_ns, .got_bytes = b->got_bytes, .waited_ns = b->waited_ns,
                            .body_bytes = atomic_load_explicit(&f->counters.bytes_body, memory_order_relaxed),
                            .wire_bytes = fetched(f) + (b->state == THERE ? fetched(b->file) : 0)};
    uint64_t end = op->nasked ? op->asked[op->nasked - 1].off + op->asked[op->nasked - 1].len : 0;
    int was = atomic_load_explicit(&b->used, memory_order_relaxed);
    xh_judge_weigh(&b->judge, &now, info.rtt_ns);
    int looks = (op->bytes >= XH_BULK_BYTES || b->got_bytes >= MANY_BYTES) && !f->above->is_whole(f) &&
                wants_look(b, f, (double)info.second_bytes / 1e9, info.rtt_ns);
    apply(b);
    int is = atomic_load_explicit(&b->used, memory_order_relaxed);
    atomic_store_explicit(&b->watched, b->state != NONE && !is && !xh_judge_is_fast(&b->judge), memory_order_relaxed);
    double link_rate = b->judge.link_rate;
    pthread_mutex_unlock(&b->lock);
    if (looks)
        start_look(b);
    if (was != is)
        change_over(b, f, end, link_rate, info.rtt_ns);
}

/* ---- life --------------------------------------------------------------------------------------- */

/* Sets the copy's URL, and the name by which its directory is remembered. Returns 0, or -1 without memory. */
static int name(struct xh_compressed *b, const char *url)
{
    b->url = xh_known_url(url, XH_PACKED_SUFFIX);
    if (asprintf(&b->known, "%.*s" XH_PACKED_SUFFIX "/", (int)xh_url_directory_bytes(url), url) < 0)
        b->known = NULL;
    return b->url && b->known ? 0 : -1;
}

static void free_all(struct xh_compressed *b)
{
    xh_unpacker_free(&b->unpacker);
    xh_packed_free(&b->table);
    b->files->close(b->file);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->news);
    free(b->url);
    free(b->known);
    xh_env_release(&b->opt);
    free(b);
}

struct xh_compressed *xh_compressed_new(const char *url, const struct xh_options *o, const struct xh_other_files *files)
{
    struct xh_compressed *b = strcmp(o->sidecar, "off") == 0 || !o->readahead ? NULL : calloc(1, sizeof *b);
    if (!b)
        return NULL;
    xh_known_options(&b->opt, o);
    b->opt.readahead = 0; /* what is fetched ahead is decided for the original */
    b->opt.stream_bytes = 0; /* what stays, stays unpacked */
    b->opt.disk_cache_dir[0] = '\0';
    b->forced = strcmp(o->sidecar, "body") == 0;
    b->opt.may_lack = 1;
    b->opt.doubtful = !b->forced;
    b->files = files;
    b->holders = 1;
    b->judge.now.begun_ns = b->judge.first.begun_ns = xh_now_ns();
    atomic_init(&b->watched, !b->forced);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->news, NULL);
    xh_unpacker_init(&b->unpacker);
    if (name(b, url) == 0)
        return b;
    free_all(b);
    return NULL;
}

void xh_compressed_close(struct xh_compressed *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    int last = --b->holders == 0;
    pthread_mutex_unlock(&b->lock);
    if (last)
        free_all(b);
}

void xh_compressed_stats(struct xh_compressed *b, struct xh_stats *out)
{
    struct xh_stats s;
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    int there = b->state == THERE;
    pthread_mutex_unlock(&b->lock);
    if (!there) /* the look may be at work on |file| */
        return;
    b->files->stats(b->file, &s);
    xh_stats_add_requests(out, &s);
}

void xh_compressed_after_fork(struct xh_compressed *b)
{
    if (!b)
        return;
    int there = b->state == THERE; /* the look has set it last */
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->news, NULL);
    b->holders = 1; /* in this process: the parent's look holds the parent's copy */
    xh_unpacker_after_fork(&b->unpacker);
    if (there) {
        xh_file_after_fork(b->file);
        return;
    }
    b->state = b->state == UNKNOWN ? UNKNOWN : NONE; /* what the look was at may be torn: leaked */
    b->file = NULL;
    b->table = (struct xh_packed){0};
    atomic_store_explicit(&b->used, 0, memory_order_relaxed);
}
