/* Fetching: claimed pages out, published pages and the caller's bytes in.
 *
 * A fetch is one transfer and the claims that it must answer for. Invariants:
 *  1. A page is wholly inside one range of one fetch (ranges are cut at page borders),
 *     and the origin delivers a range in ascending order: a page is complete when the bytes
 *     up to its end are there.
 *  2. |come| of a range says which page is the first that this fetch still answers for. Pages before it
 *     were published, given up or taken by somebody else, once; they are never touched again, for the
 *     word may by then belong to another.
 *  3. A caller's buffer is written only between xh_fetch_start and the op's pending
 *     becoming 0. */
#include "fetch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "disk/disk.h"
#include "object.h"
#include "flow.h"
#include "limits.h"
#include "watch/trace.h"

struct xh_fetch {
    struct xh_transfer t; /* t.ctx is this fetch */
    struct xh_file *f;
    struct xh_read_op *op; /* NULL: speculative */
    int meta; /* metadata ahead: the walk goes on from it */
    struct batch *batch;
    struct xh_arrival *come; /* one a range, see invariant 2; NULL when nothing is claimed */
    uint64_t bytes;
    struct xh_fetch *next, *prev; /* in f->flights; |prev| NULL: not there */
    int over;                   /* under f->flights->lock, as these */
};

/* What one xh_fetch_start made: freed with its last fetch. */
struct batch {
    _Atomic size_t left;
    struct xh_plan plan;
    struct xh_runs runs; /* what was asked for, sorted, a copy: constant */
    struct xh_runs kept; /* what was claimed, sorted: that, and what lies between; constant */
    struct xh_fetch *fetches;
    struct xh_arrival *come;
    unsigned wide, there; /* dealt over so many connections, of which so many are there; 0: it is not dealt so */
    int submitted; /* all of it. Under the lock of flights */
};

void xh_flights_init(struct xh_flights *fl)
{
    *fl = (struct xh_flights){0};
    pthread_mutex_init(&fl->lock, NULL);
}

void xh_flights_free(struct xh_flights *fl)
{
    pthread_mutex_destroy(&fl->lock);
}

unsigned xh_fetch_wide_flying(const struct xh_file *f)
{
    return atomic_load_explicit(&f->flights->wide, memory_order_relaxed);
}

unsigned xh_fetch_meta_flying(const struct xh_file *f)
{
    return atomic_load_explicit(&f->flights->meta, memory_order_relaxed);
}

uint64_t xh_fetch_meta_asked(const struct xh_file *f)
{
    return atomic_load_explicit(&f->flights->meta_asked, memory_order_relaxed);
}

enum xh_claim xh_fetch_claim(struct xh_file *f, uint64_t page, int meta, struct xh_runs *mine)
{
    enum xh_claim claim = xh_shadow_claim_later(f->shadow, page, meta, 0, &f->counters);
    if (claim != XH_CLAIM_MINE || xh_runs_add(mine, page) == 0)
        return claim;
    xh_shadow_forgo(f->shadow, page, 1);
    return XH_CLAIM_NONE;
}

void xh_fetch_forgo(struct xh_file *f, const struct xh_runs *runs)
{
    for (size_t i = 0; i < runs->n; i++)
        xh_shadow_forgo(f->shadow, runs->at[i].first, runs->at[i].count);
}

static void batch_free(struct batch *b)
{
    if (!b)
        return;
    xh_plan_free(&b->plan);
    free(b->runs.at);
    free(b->kept.at);
    free(b->fetches);
    free(b->come);
    free(b);
}

static struct xh_range bytes_of_run(const struct xh_file *f, struct xh_run run)
{
    uint64_t off = run.first * XH_PAGE_BYTES;
    return (struct xh_range){off, xh_min64(run.count * XH_PAGE_BYTES, f->size - off)};
}

static uint64_t bytes_of(const struct xh_file *f, const struct xh_runs *runs)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < runs->n; i++)
        bytes += bytes_of_run(f, runs->at[i]).len;
    return bytes;
}

/* Gives up what the fetch still answers for in its range |i|. */
static void drop_claims(struct xh_fetch *fe, size_t i)
{
    const struct xh_range *r = &fe->t.ranges[i];
    xh_arrive_end(fe->f, &fe->batch->kept, &fe->come[i], xh_page_up(r->off + r->len));
}

/* Gives the reader the part of the bytes that was asked for. */
static void hand_on(struct xh_fetch *fe, uint64_t off, const uint8_t *data, size_t len)
{
    const struct xh_runs *c = &fe->batch->runs;
    for (size_t i = xh_runs_at(c, off / XH_PAGE_BYTES); i < c->n; i++) {
        struct xh_range r = bytes_of_run(fe->f, c->at[i]);
        if (r.off >= off + len)
            break;
        uint64_t a = r.off > off ? r.off : off;
        uint64_t b = r.off + r.len < off + len ? r.off + r.len : off + len;
        xh_op_copy_out(fe->op, a, b - a, data + (a - off));
    }
}

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    struct xh_fetch *fe = t->ctx;
    struct xh_file *f = fe->f;
    xh_disk_keep(f->disk, off, data, len, fe->op ? fe->op->kind == XH_KIND_META : fe->meta);
    if (fe->op) {
        hand_on(fe, off, data, len); /* gaps not: the reader may be copying them himself */
        xh_shadow_waits(f->shadow, 1);
    }
    if (!fe->come)
        return;
    size_t i = xh_range_at(fe->t.ranges, fe->t.nranges, off);
    const struct xh_range *r = &t->ranges[i];
    assert(off >= r->off && len <= r->len && off - r->off <= r->len - len);
    if (fe->come[i].page >= xh_page_up(r->off + r->len))
        return; /* dropped for want of space */
    if (xh_arrive(f, &fe->batch->kept, &fe->come[i], off, data, len)) {
        xh_trace(XH_T_READ, "nospace", "off=%llu", (unsigned long long)off);
        drop_claims(fe, i);
        return;
    }
    /* The others may be a round trip behind. After the last one on_done tells, when the connection is free for what is
     * asked for then. */
    if (fe->meta && i + 1 < t->nranges && off + len == r->off + r->len)
        f->above->arrived(f);
}

static void batch_leave(struct batch *b)
{
    /* The last one frees; acquire-release so that it sees the others' writes as over. */
    if (atomic_fetch_sub_explicit(&b->left, 1, memory_order_acq_rel) == 1)
        batch_free(b);
}

/* Notes the fetches, to be promoted when a reader comes to wait for one of nobody's, or cancelled when one is
 * interrupted. They have been submitted. Those that are over already are not noted. */
static void take_off(struct xh_file *f, struct batch *b)
{
    pthread_mutex_lock(&f->flights->lock);
    b->submitted = 1;
    for (struct xh_fetch *fe = b->fetches; fe < b->fetches + b->plan.ntransfers; fe++)
        if (!fe->over)
            DL_PREPEND(f->flights->first, fe);
    pthread_mutex_unlock(&f->flights->lock);
}

static void land(struct xh_fetch *fe)
{
    pthread_mutex_lock(&fe->f->flights->lock);
    fe->over = 1;
    if (fe->prev)
        DL_DELETE(fe->f->flights->first, fe);
    pthread_mutex_unlock(&fe->f->flights->lock);
}

uint64_t xh_fetch_promote(struct xh_file *f, uint64_t page)
{
    uint64_t off = page * XH_PAGE_BYTES, next = UINT64_MAX;
    pthread_mutex_lock(&f->flights->lock); /* so that it does not end meanwhile */
    for (struct xh_fetch *fe = f->flights->first; fe; fe = fe->next) {
        const struct xh_range *r = &fe->t.ranges[xh_range_at(fe->t.ranges, fe->t.nranges, off)];
        if (!fe->op && off >= r->off && off - r->off < r->len) {
            xh_replicas_promote(f->origin, &fe->t);
            next = xh_page_up(r->off + r->len);
        } else if (!fe->op && next == UINT64_MAX) {
            next = page + 1;
        }
    }
    pthread_mutex_unlock(&f->flights->lock);
    return next;
}

void xh_fetch_recall(struct xh_file *f)
{
    unsigned n = 0;
    pthread_mutex_lock(&f->flights->lock); /* so that none ends meanwhile */
    for (struct xh_fetch *fe = f->flights->first; fe; fe = fe->next)
        n += !fe->op && !fe->meta && xh_replicas_withdraw(f->origin, &fe->t);
    pthread_mutex_unlock(&f->flights->lock);
    if (n)
        xh_trace(XH_T_READ, "recall", "fetches=%u", n);
}

void xh_fetch_cut(struct xh_file *f, uint64_t off)
{
    pthread_mutex_lock(&f->flights->lock); /* so that none ends meanwhile */
    for (struct xh_fetch *fe = f->flights->first; fe; fe = fe->next)
        if (!fe->op && !fe->meta && fe->t.ranges[0].off >= off)
            xh_replicas_cancel(f->origin, &fe->t);
    pthread_mutex_unlock(&f->flights->lock);
}

void xh_fetch_interrupt(struct xh_read_op *op)
{
    struct xh_file *f = op->f;
    pthread_mutex_lock(&f->flights->lock); /* so that none ends meanwhile */
    for (struct xh_fetch *fe = f->flights->first; fe; fe = fe->next)
        if (fe->op == op)
            xh_replicas_cancel(f->origin, &fe->t);
    pthread_mutex_unlock(&f->flights->lock);
}

/* |fe| has failed, and its read with it: what else is asked for with it is given up, so that a server which answers
 * nothing keeps the reader no longer than one request's attempts. */
static void give_up(struct xh_fetch *fe)
{
    struct batch *b = fe->batch;
    pthread_mutex_lock(&fe->f->flights->lock); /* so that none ends meanwhile */
    for (size_t i = 0; b->submitted && i < b->plan.ntransfers; i++)
        if (!b->fetches[i].over)
            xh_replicas_cancel(fe->f->origin, &b->fetches[i].t);
    pthread_mutex_unlock(&fe->f->flights->lock);
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct xh_fetch *fe = t->ctx;
    struct xh_read_op *op = fe->op;
    land(fe);
    if (op && err && err->code != XH_E_CANCELLED) {
        xh_op_fail(op, err);
        give_up(fe);
    }
    if (fe->come)
        for (size_t i = 0; i < t->nranges; i++)
            drop_claims(fe, i);
    if (!op)
        xh_flow_fly(fe->f, -(int64_t)fe->bytes);
    if (t->full)
        atomic_fetch_sub_explicit(&fe->f->flights->wide, 1, memory_order_relaxed);
    if (fe->meta) {
        unsigned were = atomic_fetch_sub_explicit(&fe->f->flights->meta, 1, memory_order_relaxed);
        assert(were > 0);
        (void)were;
    }
    if (!op && !err)
        fe->f->above->arrived(fe->f);
    if (fe->meta && err)
        fe->f->above->lost(fe->f);
    if (!op)
        xh_limits_share_link(fe->f);
    if (err)
        xh_trace(XH_T_READ, "fetch-failed", "code=%s speculative=%d", xh_err_name(err->code), !op);
    if (op)
        xh_shadow_waits(fe->f->shadow, 0);
    batch_leave(fe->batch);
    if (op)
        xh_op_leave(op, err);
}

/* Metadata ahead is not much, and the next is not known before it is here: all connections that are
 * free carry a share of it. */
static void spread(struct xh_file *f, const struct xh_range *wanted, size_t n, struct xh_plan_limits *lim)
{
    unsigned busy = xh_fetch_meta_flying(f);
    uint64_t bytes = 0, gap = 0;
    for (size_t i = 0; i < n; i++) { /* with what lies between those that are joined: else a small part is left over */
        gap = i ? wanted[i].off - wanted[i - 1].off - wanted[i - 1].len : 0;
        bytes += wanted[i].len + (gap <= lim->gap_bytes ? gap : 0);
    }
    unsigned most = busy < XH_META_AT_ONCE ? XH_META_AT_ONCE - busy : 1;
    most = most < lim->connections ? most : lim->connections;
    lim->connections = most > 1 ? most : 1;
    uint64_t share = bytes / lim->connections;
    share += lim->align_bytes - share % lim->align_bytes;
    share = xh_max64(share, XH_REQUEST_LEAST_BYTES);
    if (share < lim->part_bytes)
        lim->part_bytes = share;
}

static int make_plan(struct xh_file *f, int ahead, int meta, const struct xh_runs *runs, int at_once, struct batch *b)
{
    struct xh_plan_limits lim;
    struct xh_range *wanted = malloc(runs->n * sizeof *wanted);
    if (!wanted)
        return XH_E_NOMEM;
    for (size_t i = 0; i < runs->n; i++)
        wanted[i] = bytes_of_run(f, runs->at[i]);
    uint64_t bytes = xh_ranges_bytes(wanted, runs->n), before = ahead ? xh_flow_flying(f) : 0;
    int parts = xh_limits_get(f, before + bytes, bytes / runs->n, ahead, &lim);
    if (meta && ahead && parts)
        lim.gap_bytes = xh_limits_meta_gap(f);
    if (meta && parts)
        spread(f, wanted, runs->n, &lim);
    xh_limits_deal(&lim, b->wide, bytes);
    if (at_once && (b->there = xh_limits_deal_whole(f, bytes, &lim)) > 0)
        b->wide = lim.deal;
    int rc = xh_plan_make(wanted, runs->n, &lim, &b->plan);
    free(wanted);
    return rc;
}

/* What is dealt widely takes connections as a stream does, and never stands still: its reader, or others, wait for
 * it. */
static int never_full(struct xh_transfer *t)
{
    (void)t;
    return 0;
}

void xh_fetch_take_connection(struct xh_transfer *t, int patient)
{
    t->full = never_full;
    t->goes_on = 1;
    t->patient = patient;
}

static void fetch_init(struct batch *b, size_t i, struct xh_file *f, struct xh_read_op *op, int claimed, int meta)
{
    struct xh_fetch *fe = &b->fetches[i];
    const struct xh_plan_transfer *pt = &b->plan.transfers[i];
    fe->t = (struct xh_transfer){
        .ranges = b->plan.ranges + pt->first,
        .nranges = pt->count,
        .speculative = op == NULL,
        .ctx = fe,
        .bytes = on_bytes,
        .done = on_done,
    };
    if (b->wide)
        xh_fetch_take_connection(&fe->t, i < b->there);
    fe->f = f;
    fe->op = op;
    fe->meta = meta;
    fe->batch = b;
    fe->come = claimed ? b->come + pt->first : NULL;
    for (size_t k = 0; k < pt->count; k++) {
        if (claimed)
            fe->come[k] = (struct xh_arrival){.page = fe->t.ranges[k].off / XH_PAGE_BYTES};
        fe->bytes += fe->t.ranges[k].len;
    }
}

/* Claims of the ranges of |b| what lies between the pages that were asked for, and nobody has. */
static void claim_holes(struct xh_file *f, const struct batch *b, struct xh_runs *holes)
{
    for (size_t k = 0; k < b->plan.nranges; k++) {
        struct xh_range r = b->plan.ranges[k];
        uint64_t p = r.off / XH_PAGE_BYTES, end = xh_page_up(r.off + r.len);
        for (size_t i = xh_runs_at(&b->runs, p); p < end; p++) {
            while (i < b->runs.n && b->runs.at[i].first + b->runs.at[i].count <= p)
                i++;
            if (i < b->runs.n && b->runs.at[i].first <= p)
                p = b->runs.at[i].first + b->runs.at[i].count - 1;
            else if (xh_fetch_claim(f, p, 0, holes) == XH_CLAIM_NONE)
                return;
        }
    }
}

/* Sets b->kept: all that was asked for, which was claimed, and what lies between, as it crosses the link all the same.
 * Returns 0 or XH_E_NOMEM. */
static int keep_between(struct xh_file *f, struct batch *b)
{
    struct xh_runs holes = {0};
    claim_holes(f, b, &holes);
    b->kept.at = malloc((b->runs.n + holes.n) * sizeof *b->kept.at);
    if (b->kept.at) {
        b->kept.n = b->runs.n + holes.n;
        memcpy(b->kept.at, b->runs.at, b->runs.n * sizeof *b->runs.at);
        if (holes.n)
            memcpy(b->kept.at + b->runs.n, holes.at, holes.n * sizeof *holes.at);
        xh_runs_sort(&b->kept);
    } else {
        xh_fetch_forgo(f, &holes);
    }
    free(holes.at);
    return b->kept.at ? 0 : XH_E_NOMEM;
}

static struct batch *batch_make(struct xh_file *f, struct xh_read_op *op, const struct xh_runs *runs,
                                int claimed, int meta, enum xh_fetch_over over)
{
    struct batch *b = calloc(1, sizeof *b);
    if (b && over == XH_OVER_ALL)
        b->wide = xh_limits_wide(f, UINT64_MAX, &b->there);
    if (b && op && (op->all_of_dataset || op->strays) && !op->rounds && !op->is_retry)
        b->wide = xh_limits_wide_now(f, bytes_of(f, runs), op->strays, op->leaving, &b->there);
    if (!b || make_plan(f, op == NULL, meta, runs, over == XH_OVER_ALL_AT_ONCE, b)) {
        free(b);
        return NULL;
    }
    b->wide = b->plan.dealt ? b->wide : 0; /* it may be too little for all of them */
    b->fetches = calloc(b->plan.ntransfers, sizeof *b->fetches);
    b->come = claimed ? malloc(b->plan.nranges * sizeof *b->come) : NULL;
    b->runs.at = malloc(runs->n * sizeof *runs->at);
    if (!b->fetches || (claimed && !b->come) || !b->runs.at) {
        batch_free(b);
        return NULL;
    }
    memcpy(b->runs.at, runs->at, runs->n * sizeof *runs->at);
    b->runs.n = runs->n;
    if (claimed && keep_between(f, b)) {
        batch_free(b);
        return NULL;
    }
    for (size_t i = 0; i < b->plan.ntransfers; i++)
        fetch_init(b, i, f, op, claimed, meta);
    return b;
}

/* Submits all; the |first| ones before the others, so that they have the connections that are there, and not those
 * behind them, which may open some. What fails once some are under way fails as they do. */
static int submit(struct xh_file *f, struct xh_transfer **ts, size_t n, size_t first, struct xh_err *err)
{
    struct xh_err late = {0};
    int rc = xh_replicas_submit(f->origin, ts, first, err);
    if (rc == 0 && first < n && xh_replicas_submit(f->origin, ts + first, n - first, &late))
        for (size_t i = first; i < n; i++)
            ts[i]->done(ts[i], &late);
    return rc;
}

static int start(struct xh_file *f, struct xh_read_op *op, const struct xh_runs *runs, int claimed, int meta,
                 enum xh_fetch_over over, struct xh_err *err)
{
    if (runs->n == 0)
        return 0;
    xh_limits_share_link(f);
    struct batch *b = batch_make(f, op, runs, claimed, meta, over);
    struct xh_transfer **ts = b ? malloc(b->plan.ntransfers * sizeof *ts) : NULL;
    int rc;
    if (!ts) {
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory while planning a read of %s", f->url_shown);
        goto err;
    }
    size_t n = b->plan.ntransfers, first = over == XH_OVER_ALL_AT_ONCE && b->wide && b->there < n ? b->there : n;
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        ts[i] = &b->fetches[i].t;
        bytes += b->fetches[i].bytes;
    }
    xh_trace(XH_T_PLAN, "fetch", "runs=%zu ranges=%zu transfers=%zu bytes=%llu first=%llu speculative=%d",
             runs->n, b->plan.nranges, n, (unsigned long long)bytes,
             (unsigned long long)b->plan.ranges[0].off, !op);
    atomic_store_explicit(&b->left, n + 1, memory_order_relaxed); /* and ourselves */
    if (op) {
        xh_op_enter(op, n);
        xh_shadow_waits(f->shadow, 1);
    } else {
        xh_flow_fly(f, (int64_t)bytes);
    }
    if (b->wide)
        atomic_fetch_add_explicit(&f->flights->wide, (unsigned)n, memory_order_relaxed);
    if (meta) {
        atomic_fetch_add_explicit(&f->flights->meta, (unsigned)n, memory_order_relaxed);
        atomic_fetch_add_explicit(&f->flights->meta_asked, bytes, memory_order_relaxed);
    }
    rc = submit(f, ts, n, first, err);
    if (rc == 0) {
        take_off(f, b);
        batch_leave(b);
        free(ts);
        return 0;
    }
    if (op) {
        pthread_mutex_lock(&op->lock);
        op->pending -= n;
        pthread_mutex_unlock(&op->lock);
    } else {
        xh_flow_fly(f, -(int64_t)bytes);
    }
    if (b->wide)
        atomic_fetch_sub_explicit(&f->flights->wide, (unsigned)n, memory_order_relaxed);
    if (meta)
        atomic_fetch_sub_explicit(&f->flights->meta, (unsigned)n, memory_order_relaxed);
err:
    free(ts);
    if (claimed)
        xh_fetch_forgo(f, b ? &b->kept : runs);
    batch_free(b);
    return rc;
}

int xh_fetch_start(struct xh_file *f, struct xh_read_op *op, const struct xh_runs *runs, int claimed,
                   struct xh_err *err)
{
    return start(f, op, runs, claimed, 0, XH_OVER_THOSE_THERE, err);
}

void xh_fetch_for_later(struct xh_file *f, const struct xh_runs *runs, int meta, enum xh_fetch_over over)
{
    start(f, NULL, runs, 1, meta, over, NULL);
}
