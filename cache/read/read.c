/* One read, whole: a hit is a copy from the shadow; else what the stage has, then the rounds (rounds.c) for what is
 * left, and what it shows of the reads to come (ahead.c). The way of a read is xh_cache_read. */
#include "read.h"

#include <stdlib.h>

#include "ahead/ahead.h"
#include "ahead/hints.h"
#include "ahead/walk.h"
#include "base/now.h"
#include "file.h"
#include "pages/op.h"
#include "rounds.h"
#include "source/compressed.h"
#include "source/metadata_image.h"
#include "source/unverified_head.h"
#include "stream/stage.h"
#include "stream/stream.h"
#include "watch/timeline.h"
#include "watch/trace.h"

/* Raw reads of at least this much stream: see keeps(). */
#define BULK_BYTES (256u << 10)
#define PIECE_BYTES (UINT64_C(64) << 20)

/* 1 when what |op| fetches is to stay in the shadow. A long stream that passes through one process
 * for the first time is not worth the tmpfs, which costs more than the network's own work; what is
 * read again, or may be by others, is. Its beginning is kept: others may be about to start. */
static int keeps(struct xh_read_op *op)
{
    struct xh_file *f = op->f;
    uint64_t n = 0, again = 0, from = 0, empty;
    if (op->kind == XH_KIND_META)
        return 1;
    uint64_t before = xh_flow_streamed(f);
    int shared = xh_file_shared(f);
    op->defer_prefetch = f->opened_jointly && atomic_load_explicit(&f->flow.streamed, memory_order_relaxed) == 0;
    xh_flow_stream(f, (int64_t)op->bytes);
    if (shared) /* what streams towards this process alone the others would fetch once more */
        xh_stage_end(f);
    if (before < f->opt.stream_bytes || shared)
        return 1;
    for (size_t i = 0; i < op->n; i++) {
        uint64_t first = op->ext[i].off / XH_PAGE_BYTES, end = (op->ext[i].off + op->ext[i].len - 1) / XH_PAGE_BYTES + 1;
        first = first < from ? from : first; /* not twice where extents share one */
        if (first >= end)
            continue;
        again += xh_shadow_touch(f->shadow, first, end - first, &empty);
        n += empty;
        from = end;
    }
    if (n) /* else all of it is there or on its way, which says nothing */
        atomic_store_explicit(&f->is_reread, again > n / 2, memory_order_relaxed);
    return op->bytes < BULK_BYTES || again > n / 2;
}

/* Takes what the stage has, in private memory or on its way there. */
static void take_staged(struct xh_read_op *op)
{
    uint64_t coming, here;
    if (op->kind != XH_KIND_RAW || op->reach)
        return;
    here = xh_stage_take(op->f, op, &coming);
    op->served.ahead = here + coming;
}

/* Claims the whole pages of a read that its stream brings: behind what the stage left to fetch. They are published as
 * they
 * come, from the reader's own buffer, while it waits (arrive.c). Without a claim, or memory, a page is not kept. */
static void hold(struct xh_read_op *op)
{
    const struct xh_extent *e = op->asked, *last = op->n ? &op->ext[op->n - 1] : NULL;
    uint64_t off = last ? last->off + last->len : e->off;
    uint64_t end = (e->off + e->len) / XH_PAGE_BYTES;
    for (uint64_t p = (off + XH_PAGE_BYTES - 1) / XH_PAGE_BYTES; op->keep && p < end; p++)
        if (xh_shadow_claim_later(op->f->shadow, p, 0, 0, &op->f->counters) == XH_CLAIM_MINE &&
            xh_runs_add(&op->held, p)) {
            xh_shadow_forgo(op->f->shadow, p, 1);
            break;
        }
}

/* Fetches what the stage promised to |op| and did not bring, as a guess that fails is no failure of the read. What it
 * holds is given up first: it would wait for its own claims. Returns 0 or this fetch's own error; |*bytes| is how
 * much it was. */
static int read_lost(struct xh_read_op *op, uint64_t *bytes, struct xh_err *err)
{
    *bytes = 0;
    if (!op->lost)
        return 0;
    xh_op_over(op, 0);
    if (xh_op_take_lost(op, bytes))
        return xh_op_nomem(op, err);
    xh_trace(XH_T_READ, "lost", "extents=%zu bytes=%llu", op->n, (unsigned long long)*bytes);
    op->is_retry = 1;
    op->served.ahead -= *bytes;
    return xh_read_rounds(op, err);
}

/* What the stage has, then what is left. */
static int read_missing(struct xh_read_op *op, struct xh_err *err)
{
    uint64_t lost = 0;
    op->keep = keeps(op);
    op->served_by_stream = op->kind == XH_KIND_RAW && xh_ahead_lead(op->f, op->asked, op->nasked);
    take_staged(op);
    uint64_t staged = op->served.ahead;
    if (op->served_by_stream)
        hold(op);
    else if (op->n == 0 && op->kind == XH_KIND_RAW)
        xh_ahead_raw(op->f, op->asked, op->nasked);
    op->noted_ns = xh_now_ns();
    int rc = xh_read_rounds(op, err);
    rc = xh_op_wait(op, rc, err); /* for what the stage promised */
    if (rc == 0)
        rc = read_lost(op, &lost, err);
    xh_count(&op->f->counters, bytes_staged, staged - lost);
    xh_compressed_note(op, 1);
    xh_op_over(op, rc == 0);
    return rc;
}

static int check_extents(const struct xh_file *f, const struct xh_extent *ext, size_t n, uint64_t *bytes,
                         struct xh_err *err)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (ext[i].len > f->size || ext[i].off > f->size - ext[i].len)
            return xh_err_set(err, XH_E_RANGE, 0,
                              "a read of %llu bytes at %llu was asked of %s, which has %llu bytes",
                              (unsigned long long)ext[i].len, (unsigned long long)ext[i].off, f->url_shown,
                              (unsigned long long)f->size);
        sum += ext[i].len;
    }
    *bytes = sum;
    return 0;
}

/* Tells those who learn from the bytes that a read is done. */
static void done(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, const struct xh_served *s)
{
    if (kind == XH_KIND_META)
        xh_ahead_meta(f, ext, n, s->missed, s->alone > 0);
    else
        xh_walk_note(f, kind, ext, n, s->missed, s->alone > 0);
}

/* The read needed nothing from the network. */
static void count_hit(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, uint64_t bytes)
{
    xh_count(&f->counters, bytes_asked, bytes);
    xh_count(&f->counters, bytes_hit, bytes);
    if (kind == XH_KIND_RAW)
        xh_ahead_raw(f, ext, n);
}

static uint64_t bytes_of(const struct xh_extent *ext, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ext[i].len;
    return sum;
}

static int read_pages(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, struct xh_served *served,
                      struct xh_err *err)
{
    struct xh_read_op op;
    *served = (struct xh_served){0};
    if (n == 1 ? xh_shadow_read(f->shadow, ext->off, ext->buf, ext->len) == ext->len
               : xh_shadow_readv(f->shadow, ext, n) == n) {
        count_hit(f, kind, ext, n, bytes_of(ext, n));
        return 0;
    }
    int rc = xh_op_begin(&op, f, kind, ext, n, err);
    if (rc)
        return rc;
    op.served.missed = 1;
    xh_count(&f->counters, bytes_asked, op.bytes);
    rc = read_missing(&op, err);
    xh_trace(XH_T_READ, "read", "extents=%zu bytes=%llu off=%llu kind=%s result=%s", n,
             (unsigned long long)op.bytes, (unsigned long long)ext->off,
             kind == XH_KIND_META ? "meta" : "raw", xh_err_name(rc));
    if (op.served.alone && !op.served_by_stream)
        xh_account_unforeseen(f->account, (int)kind, op.served.alone, op.served.waited_ns);
    *served = op.served;
    xh_op_end(&op);
    return rc;
}

/* One large read, by pieces: what is found out of the link meanwhile is of use for the rest. */
static int read_in_pieces(struct xh_file *f, const struct xh_extent *ext, struct xh_served *served, struct xh_err *err)
{
    struct xh_served all = {0};
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < ext->len;) {
        int undecided = xh_compressed_is_awaited(f->compressed);
        struct xh_extent e = {ext->off + at, ext->len - at, (uint8_t *)ext->buf + at};
        if (undecided && e.len > 2 * PIECE_BYTES)
            e.len = PIECE_BYTES;
        rc = read_pages(f, XH_KIND_RAW, &e, 1, served, err);
        at += e.len;
        all.missed |= served->missed;
        all.ahead += served->ahead;
        all.elsewhere += served->elsewhere;
        all.alone += served->alone;
        all.waited_ns += served->waited_ns;
    }
    *served = all;
    return rc;
}

int xh_read_pages(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, struct xh_served *served,
                  struct xh_err *err)
{
    if (kind == XH_KIND_RAW && n == 1 && ext->len > 2 * PIECE_BYTES && xh_compressed_is_awaited(f->compressed))
        return read_in_pieces(f, ext, served, err);
    return read_pages(f, kind, ext, n, served, err);
}

static void draw(enum xh_kind kind, const struct xh_extent *ext, size_t n, uint64_t bytes, const struct xh_served *s,
                 uint64_t entered)
{
    const char *by = s->imaged ? "the metadata image" : s->alone ? "the network, as nobody had foreseen it" : s->ahead ? "what was fetched ahead"
                   : s->elsewhere ? "what was on its way" : s->missed ? "the shadow, not at once" : "the shadow";
    xh_timeline_slice(0, kind == XH_KIND_META ? "read metadata" : "read data", entered, xh_now_ns(),
                      "address=%llu bytes=%llu extents=%zu served_by=\"%s\" ahead=%llu elsewhere=%llu alone=%llu",
                      (unsigned long long)ext->off, (unsigned long long)bytes, n, by, (unsigned long long)s->ahead,
                      (unsigned long long)s->elsewhere, (unsigned long long)s->alone);
    xh_timeline_write(0);
}

static int read_in(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, uint64_t bytes,
                   struct xh_served *served, struct xh_err *err)
{
    int early = xh_unverified_read(f, ext, n, err), rc;
    if (early < 0)
        return early;
    served->imaged = !early && xh_metadata_image_read(f->image, ext, n);
    if (served->imaged)
        xh_count(&f->counters, bytes_sidecar, bytes);
    if (early || served->imaged)
        count_hit(f, kind, ext, n, bytes);
    else if ((rc = xh_read_pages(f, kind, ext, n, served, err)) != 0)
        return rc;
    if (!early && (rc = xh_unverified_prove(f, err)) != 0)
        return rc;
    done(f, kind, ext, n, served);
    return 0;
}

int xh_cache_read(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n,
                  struct xh_err *err)
{
    uint64_t bytes = 0;
    struct xh_served served = {0};
    int rc = check_extents(f, ext, n, &bytes, err);
    if (rc)
        return rc;
    xh_file_after_fork(f);
    xh_count(&f->counters, reads, 1);
    xh_count(&f->counters, extents, n);
    if (bytes == 0)
        return 0;
    uint64_t entered = xh_account_enter(f->account, XH_COPYING);
    rc = read_in(f, kind, ext, n, bytes, &served, err);
    if (entered && xh_timeline_on())
        draw(kind, ext, n, bytes, &served, entered);
    xh_account_leave(f->account, XH_COPYING, entered);
    return rc;
}

int xh_cache_hit(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n)
{
    uint64_t bytes = 0;
    struct xh_err err = {0};
    if (check_extents(f, ext, n, &bytes, &err))
        return 0;
    xh_file_after_fork(f);
    if (xh_unverified_stands(f))
        return 0;
    uint64_t entered = xh_account_enter(f->account, XH_COPYING);
    int hit = xh_shadow_readv(f->shadow, ext, n) == n;
    if (hit) {
        xh_count(&f->counters, extents, n);
        count_hit(f, kind, ext, n, bytes);
    }
    xh_account_leave(f->account, XH_COPYING, entered);
    return hit;
}

int xh_cache_is_hinted(const struct xh_file *f)
{
    return atomic_load_explicit(&f->hints->any, memory_order_relaxed);
}

size_t xh_cache_prefetch(struct xh_file *f, enum xh_kind kind, const struct xh_range *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (r[i].len > f->size || r[i].off > f->size - r[i].len)
            n = i;
    xh_file_after_fork(f);
    uint64_t entered = xh_account_enter(f->account, XH_COPYING);
    size_t taken = n && f->size ? xh_hints_add(f, kind, r, n) : n;
    xh_account_leave(f->account, XH_COPYING, entered);
    return taken;
}
