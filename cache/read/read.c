/* One read, whole. The sources are asked in the order of their tables, the observers are told from one place: tell. The
 * way of a read is xh_cache_read. */
#include "read.h"

#include "ahead/hints.h"
#include "base/now.h"
#include "object.h"
#include "pages/flow.h"
#include "pages/keep.h"
#include "sources.h"
#include "source/compressed.h"
#include "source/unverified_head.h"
#include "stream/ending.h"
#include "stream/share.h"
#include "watch/timeline.h"
#include "watch/trace.h"

#define PIECE_BYTES (UINT64_C(64) << 20)

/* Sources that may answer a read at once. These are the file's alone; shadow and disk are asked in read_pages. */
static const struct xh_source *const at_once[] = {&xh_unverified_source, &xh_metadata_image_source};
/* Sources that bring what a read lacks. */
static const struct xh_source *const in_rounds[] = {
    &xh_stream_source, &xh_shadow_source, &xh_disk_source, &xh_compressed_source, &xh_origin_source, &xh_others_source,
};
#define IN_ROUNDS (sizeof in_rounds / sizeof *in_rounds)

/* Tells the observers of a read: all of them are told here. */
static void tell(struct xh_file *f, enum xh_moment moment, enum xh_kind kind, const struct xh_extent *ext, size_t n,
                 const struct xh_served *s, int led)
{
    const struct xh_seen seen = {.kind = kind, .ext = ext, .n = n, .led = led, .missed = s->missed, .reread = s->reread,
                                 .staged = s->ahead && !s->alone, .alone = s->alone > 0,
                                 .begun_ns = s->begun_ns};
    if (n)
        xh_observers_tell(f, &seen, moment);
}

/* ---- what a read lacks */

/* Decides what becomes of the bytes that |op| is about to fetch, and when what is expected after it is fetched. */
static void decide(struct xh_read_op *op)
{
    struct xh_file *f = op->f;
    int raw = op->kind == XH_KIND_RAW, shared = raw && xh_file_shared(f);
    op->defer_prefetch = raw && f->opened_jointly && xh_flow_own_streamed(f) == 0;
    int keeps = shared || (raw && xh_keep_is_again(f));
    if (keeps) { /* what came, or still comes, to this process alone the others would fetch once more, or it itself */
        xh_stage_end(f);
        xh_stage_share(f);
    }
    op->keep = xh_keep_begin(op, keeps, xh_hints_any(f->hints));
}

/* One round over op->todo. What is expected after the read is fetched with it or behind it, before that has come: the
 * link stays busy; or once the round is done, as by then others have claimed their shares: so nobody is told before. */
static int read_round(struct xh_read_op *op, struct xh_err *err)
{
    int rc = 0, tells = op->rounds == 0 && !op->is_retry;
    op->ready.n = op->busy.n = op->on_disk.n = op->mine.n = op->bypass.n = op->again.n = 0;
    if (tells && !op->defer_prefetch)
        tell(op->f, XH_MISSED, op->kind, op->asked, op->nasked, &op->served, 0);
    for (size_t i = 0; rc == 0 && i < IN_ROUNDS; i++)
        if (in_rounds[i]->serve)
            rc = in_rounds[i]->serve(op, err);
    if (rc == 0 && tells && !op->defer_prefetch)
        tell(op->f, XH_ASKED, op->kind, op->asked, op->nasked, &op->served, op->served_by_stream);
    for (size_t i = 0; i < IN_ROUNDS; i++)
        if (in_rounds[i]->finish)
            rc = in_rounds[i]->finish(op, rc, err);
    if (rc == 0 && tells && op->defer_prefetch)
        tell(op->f, XH_ASKED, op->kind, op->asked, op->nasked, &op->served, op->served_by_stream);
    return rc;
}

/* Rounds until nothing is left of op->ext. */
static int read_rounds(struct xh_read_op *op, struct xh_err *err)
{
    int rc;
    op->rounds = 0;
    op->todo.n = 0;
    do {
        rc = read_round(op, err);
        xh_runs_sort(&op->again);
        struct xh_runs t = op->todo;
        op->todo = op->again;
        op->again = t;
        op->rounds++;
    } while (rc == 0 && op->todo.n);
    xh_count(&op->f->counters, bytes_hit, op->hit_bytes);
    xh_count(&op->f->counters, bytes_waited, op->waited_bytes);
    op->hit_bytes = op->waited_bytes = 0; /* what is lost of the read has rounds of its own */
    return rc;
}

/* Fetches what the stage promised to |op| and did not bring: a guess that fails is no failure of the read. What the
 * read has claimed is given up first, else it would wait for its own claims. Returns 0 or this fetch's own error; sets
 * |*bytes| to how much it was. */
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
    return read_rounds(op, err);
}

static int read_missing(struct xh_read_op *op, struct xh_err *err)
{
    uint64_t lost = 0, staged;
    decide(op);
    int rc = read_rounds(op, err);
    staged = op->staged;
    if (rc == 0)
        rc = read_lost(op, &lost, err);
    xh_count(&op->f->counters, bytes_staged, staged - lost);
    xh_compressed_note(op, 1);
    xh_op_over(op, rc == 0);
    return rc;
}

/* ---- one read */

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

/* The read needed nothing from the network. */
static void count_hit(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, uint64_t bytes)
{
    const struct xh_served none = {0};
    xh_count(&f->counters, bytes_asked, bytes);
    xh_count(&f->counters, bytes_hit, bytes);
    tell(f, XH_ASKED, kind, ext, n, &none, 0);
}

static int read_pages(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n,
                      struct xh_served *served, struct xh_err *err)
{
    struct xh_read_op op;
    *served = (struct xh_served){0};
    int in_shadow = xh_shadow_source.peek(f, ext, n, err);
    if (in_shadow || xh_disk_source.peek(f, ext, n, err)) {
        served->on_disk = !in_shadow;
        uint64_t bytes = xh_extents_bytes(ext, n);
        xh_count(&f->counters, bytes_disk, in_shadow ? 0 : bytes);
        count_hit(f, kind, ext, n, bytes);
        return 0;
    }
    int rc = xh_op_begin(&op, f, kind, ext, n, err);
    if (rc)
        return rc;
    op.served.missed = 1;
    op.served.begun_ns = xh_now_ns();
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

/* One large read, piece by piece: what is learnt of the link meanwhile helps the rest. */
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
        all.begun_ns = all.missed ? all.begun_ns : served->begun_ns;
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
    const char *by = s->imaged      ? "the metadata image"
                     : s->on_disk   ? "the disk cache"
                     : s->alone     ? "the network, as nobody had foreseen it"
                     : s->ahead     ? "what was fetched ahead"
                     : s->elsewhere ? "what was on its way"
                     : s->missed    ? "the shadow, not at once"
                                    : "the shadow";
    xh_timeline_slice(0, kind == XH_KIND_META ? "read metadata" : "read data", entered, xh_now_ns(),
                      "address=%llu bytes=%llu extents=%zu served_by=\"%s\" ahead=%llu elsewhere=%llu alone=%llu",
                      (unsigned long long)ext->off, (unsigned long long)bytes, n, by, (unsigned long long)s->ahead,
                      (unsigned long long)s->elsewhere, (unsigned long long)s->alone);
    xh_timeline_write(0);
}

static int read_in(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, uint64_t bytes,
                   struct xh_served *served, struct xh_err *err)
{
    const struct xh_source *by = NULL;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof at_once / sizeof *at_once; i++)
        rc = (by = at_once[i])->peek(f, ext, n, err);
    if (rc < 0)
        return rc;
    served->imaged = rc && by == &xh_metadata_image_source;
    if (served->imaged)
        xh_count(&f->counters, bytes_sidecar, bytes);
    if (rc)
        count_hit(f, kind, ext, n, bytes);
    else if ((rc = xh_read_pages(f, kind, ext, n, served, err)) != 0)
        return rc;
    if ((by != &xh_unverified_source || f->opt.is_kept) && (rc = xh_unverified_prove(f, err)) != 0)
        return rc;
    tell(f, XH_ANSWERED, kind, ext, n, served, 0);
    return 0;
}

int xh_read_beside(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, struct xh_err *err)
{
    uint64_t bytes = 0;
    struct xh_served served = {0};
    int rc = check_extents(f, ext, n, &bytes, err);
    xh_file_after_fork(f);
    return rc || bytes == 0 ? rc : xh_read_pages(f, kind, ext, n, &served, err);
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
    if (rc)
        atomic_store_explicit(&f->failed, 1, memory_order_relaxed);
    if (entered && xh_timeline_on())
        draw(kind, ext, n, bytes, &served, entered);
    xh_account_leave(f->account, XH_COPYING, entered);
    return rc;
}

int xh_cache_hit(struct xh_file *f, const struct xh_extent *ext, size_t n)
{
    uint64_t bytes = 0;
    if (check_extents(f, ext, n, &bytes, XH_IGNORED))
        return 0;
    xh_file_after_fork(f);
    if (xh_unverified_stands(f))
        return 0;
    uint64_t entered = xh_account_enter(f->account, XH_COPYING);
    int hit = xh_shadow_readv(f->shadow, ext, n) == n;
    if (hit) {
        xh_count(&f->counters, extents, n);
        count_hit(f, XH_KIND_RAW, ext, n, bytes);
    }
    xh_account_leave(f->account, XH_COPYING, entered);
    return hit;
}

int xh_cache_is_hinted(const struct xh_file *f)
{
    return xh_hints_any(f->hints);
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
