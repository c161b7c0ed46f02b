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
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "base/now.h"
#include "watch/trace.h"

#define PART_MOST_BYTES (32u << 20)
/* A stretch is fetched ahead in steps of this, as far as there is room. */
#define STRETCH_BYTES (1u << 20)
#define META_LEAST_BYTES 65536u
/* A request costs the server and us about as much as this many bytes on a fast link:
 * grouping below it gains nothing from more parallel transfers. */
#define LEAST_GROUP_BYTES 65536u
/* Ranges that share a request: a connection idles for a round trip between two requests. */
#define GROUP_BYTES (4u << 20)
#define SLOW_LINK_BYTES_PER_NS 0.15
/* The least that a young connection is asked for by a demand: it brings so much in three round trips; in less than two,
 * where a round trip is longer than the work of a request. */
#define YOUNG_PART_BYTES (128u << 10)
#define FAR_PART_BYTES (32u << 10)
#define FAR_RTT_NS 8000000u
/* What young ones wait for is that they are young: so many that are there bring a demand together, also where fewer would pay. */
#define YOUNG_PARTS 8u
/* A part of so many round trips hardly notices the one that its connection stands idle before it; longer ones, which come
 * side by side, would only keep the reader from what he wants first. */
#define PART_ROUND_TRIPS 8
/* And whatever a round trip is, none is short that the link brings in so small a part of a second. */
#define SOON_IN_A_SECOND 4
/* Ranges of this size are fetched as parts of a long one would be. */
#define LARGE_BYTES (256u << 10)
/* How often the readers of a file are counted. */
#define SHARE_EVERY_NS 20000000u

struct fetch {
    struct xh_transfer t; /* t.ctx is this fetch */
    struct xh_file *f;
    struct xh_read_op *op; /* NULL: speculative */
    int meta; /* metadata ahead: the walk goes on from it */
    struct batch *batch;
    struct xh_arrival *come; /* one a range, see invariant 2; NULL when nothing is claimed */
    uint64_t bytes;
    struct fetch *next, **link; /* in f->flying, where it is speculative; |link| NULL: not there */
    int over;                   /* under f->flying_lock, as these */
};

/* What one xh_fetch_start made: freed with its last fetch. */
struct batch {
    _Atomic size_t left;
    struct xh_plan plan;
    struct xh_runs runs; /* what was asked for, sorted, a copy: constant */
    struct fetch *fetches;
    struct xh_arrival *come;
};

static void batch_free(struct batch *b)
{
    if (!b)
        return;
    xh_plan_free(&b->plan);
    free(b->runs.at);
    free(b->fetches);
    free(b->come);
    free(b);
}

static struct xh_range bytes_of_run(const struct xh_file *f, struct xh_run run)
{
    uint64_t off = run.first * XH_PAGE_BYTES;
    uint64_t len = run.count * XH_PAGE_BYTES;
    if (len > f->size - off)
        len = f->size - off;
    return (struct xh_range){off, len};
}

static uint64_t page_up(uint64_t off)
{
    return off / XH_PAGE_BYTES + (off % XH_PAGE_BYTES != 0);
}

void xh_fetch_share_link(struct xh_file *f)
{
    uint64_t now = xh_now_ns(), last = atomic_load_explicit(&f->shared_ns, memory_order_relaxed);
    if (now - last < SHARE_EVERY_NS ||
        !atomic_compare_exchange_strong_explicit(&f->shared_ns, &last, now, memory_order_relaxed, memory_order_relaxed))
        return;
    unsigned readers = xh_shadow_readers(f->shadow), busy = xh_shadow_busy(f->shadow);
    unsigned sharers = readers > busy ? readers : busy;
    int walks = readers > 1 && xh_walk_is_ours(f);
    int yields = readers > 1 && !walks && xh_shadow_other_waits(f->shadow);
    if (walks) /* the others wait for what it brings */
        sharers -= readers - 1;
    xh_replicas_share(f->origin, sharers, yields);
    xh_trace(XH_T_PLAN, "share", "readers=%u busy=%u walks=%d yields=%d", readers, busy, walks, yields);
}

/* Gives up what the fetch still answers for in its range |i|. */
static void drop_claims(struct fetch *fe, size_t i)
{
    const struct xh_range *r = &fe->t.ranges[i];
    xh_arrive_end(fe->f, &fe->batch->runs, &fe->come[i], page_up(r->off + r->len));
}

/* Gives the reader the part of the bytes that was asked for. */
static void hand_on(struct fetch *fe, uint64_t off, const uint8_t *data, size_t len)
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
    struct fetch *fe = t->ctx;
    struct xh_file *f = fe->f;
    if (fe->op) {
        hand_on(fe, off, data, len); /* gaps not: the reader may be copying them himself */
        xh_shadow_waits(f->shadow, 1);
    }
    if (!fe->come)
        return;
    size_t i = xh_range_at(fe->t.ranges, fe->t.nranges, off);
    const struct xh_range *r = &t->ranges[i];
    assert(off >= r->off && len <= r->len && off - r->off <= r->len - len);
    if (fe->come[i].page >= page_up(r->off + r->len))
        return; /* dropped for want of space */
    if (xh_arrive(f, &fe->batch->runs, &fe->come[i], off, data, len)) {
        xh_trace(XH_T_READ, "nospace", "off=%llu", (unsigned long long)off);
        drop_claims(fe, i);
        return;
    }
    if (fe->meta && off + len == r->off + r->len) /* the others may be a round trip behind */
        xh_walk_arrived(f);
}

static void batch_leave(struct batch *b)
{
    /* The last one frees; acquire-release so that it sees the others' writes as over. */
    if (atomic_fetch_sub_explicit(&b->left, 1, memory_order_acq_rel) == 1)
        batch_free(b);
}

/* Notes the speculative fetches that a reader may come to wait for. They have been submitted: before, there is
 * nothing to promote. Those that are over already are not noted. */
static void take_off(struct xh_file *f, struct batch *b)
{
    pthread_mutex_lock(&f->flying_lock);
    for (size_t i = 0; i < b->plan.ntransfers; i++) {
        struct fetch *fe = &b->fetches[i];
        if (fe->over)
            continue;
        fe->next = f->flying;
        fe->link = &f->flying;
        if (fe->next)
            fe->next->link = &fe->next;
        f->flying = fe;
    }
    pthread_mutex_unlock(&f->flying_lock);
}

static void land(struct fetch *fe)
{
    pthread_mutex_lock(&fe->f->flying_lock);
    fe->over = 1;
    if (fe->link) {
        *fe->link = fe->next;
        if (fe->next)
            fe->next->link = fe->link;
    }
    pthread_mutex_unlock(&fe->f->flying_lock);
}

uint64_t xh_fetch_promote(struct xh_file *f, uint64_t page)
{
    uint64_t off = page * XH_PAGE_BYTES, next = page + 1;
    pthread_mutex_lock(&f->flying_lock); /* so that it does not end meanwhile */
    if (!f->flying)
        next = UINT64_MAX;
    for (struct fetch *fe = f->flying; fe; fe = fe->next) {
        const struct xh_range *r = &fe->t.ranges[xh_range_at(fe->t.ranges, fe->t.nranges, off)];
        if (off < r->off || off - r->off >= r->len)
            continue;
        xh_replicas_promote(f->origin, &fe->t);
        next = page_up(r->off + r->len);
    }
    pthread_mutex_unlock(&f->flying_lock);
    return next;
}

void xh_fetch_recall(struct xh_file *f)
{
    unsigned n = 0;
    pthread_mutex_lock(&f->flying_lock); /* so that none ends meanwhile */
    for (struct fetch *fe = f->flying; fe; fe = fe->next)
        n += !fe->meta && xh_replicas_withdraw(f->origin, &fe->t);
    pthread_mutex_unlock(&f->flying_lock);
    if (n)
        xh_trace(XH_T_READ, "recall", "fetches=%u", n);
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct fetch *fe = t->ctx;
    struct xh_read_op *op = fe->op;
    if (!op)
        land(fe);
    if (fe->come)
        for (size_t i = 0; i < t->nranges; i++)
            drop_claims(fe, i);
    if (!op)
        xh_siblings_fly(fe->f, -(int64_t)fe->bytes);
    if (fe->meta) {
        unsigned were = atomic_fetch_sub_explicit(&fe->f->meta_ahead, 1, memory_order_relaxed);
        assert(were > 0);
        (void)were;
    }
    if (!op && !err)
        xh_walk_arrived(fe->f);
    if (!op)
        xh_fetch_share_link(fe->f);
    if (err)
        xh_trace(XH_T_READ, "fetch-failed", "code=%s speculative=%d", xh_err_name(err->code), !op);
    if (op)
        xh_shadow_waits(fe->f->shadow, 0);
    batch_leave(fe->batch);
    if (op)
        xh_op_leave(op, err);
}

/* Nothing that is fetched ahead is worth a request of its own that a connection brings in less than about a round trip,
 * once it has found its speed. */
static uint64_t least_part(const struct xh_file *f, const struct xh_origin_info *info, int ahead)
{
    uint64_t trip = (uint64_t)((double)info->rtt_ns * SLOW_LINK_BYTES_PER_NS);
    uint64_t young = info->rtt_ns > FAR_RTT_NS ? FAR_PART_BYTES : YOUNG_PART_BYTES;
    if (!ahead && info->young && f->opt.part_bytes > young)
        return young;
    trip = !ahead || info->young ? 0 : trip < GROUP_BYTES ? trip : GROUP_BYTES;
    return trip > f->opt.part_bytes ? trip : f->opt.part_bytes;
}

static uint64_t most_part(const struct xh_origin_info *info, int ahead)
{
    uint64_t most = PART_ROUND_TRIPS * info->trip_bytes;
    uint64_t soon = info->second_bytes ? info->second_bytes / SOON_IN_A_SECOND : GROUP_BYTES;
    if (!ahead || most == 0 || most > PART_MOST_BYTES)
        return PART_MOST_BYTES;
    soon = soon < GROUP_BYTES ? soon : GROUP_BYTES;
    return most < soon ? soon : most;
}

/* The parts of |bytes| that are fetched together. A connection idles for a round trip before each, so
 * they are to be long: a demand has one on each connection that waits for work, as a new one would take longer
 * to be there than they take. Of what is fetched ahead there are two, so that none stands idle until the
 * slowest is done; while they are young, one, as the pause before the second is long for them; and one of a file that has siblings, as
 * what is fetched of the next of those stands behind it. */
static uint64_t part_of(const struct xh_file *f, const struct xh_origin_info *info, uint64_t bytes, int ahead)
{
    unsigned young = ahead && info->young, n = ahead ? info->open : info->idle;
    unsigned most = young ? info->scattered - 1 : info->connections;
    if (!ahead && info->young && most < YOUNG_PARTS)
        most = YOUNG_PARTS;
    n = n < most ? n : most;
    uint64_t part = bytes / ((ahead && !young && !f->sibling.kin ? 2 : 1) * (n ? n : 1)) + XH_PAGE_BYTES - 1;
    uint64_t most_bytes = most_part(info, ahead);
    part = part < most_bytes ? part : most_bytes;
    uint64_t least = least_part(f, info, ahead);
    part = part > least ? part : least;
    return part - part % XH_PAGE_BYTES;
}

int xh_fetch_limits(struct xh_file *f, uint64_t bytes, uint64_t mean, int ahead, struct xh_plan_limits *lim)
{
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    lim->gap_bytes = f->opt.gap_bytes;
    lim->align_bytes = XH_PAGE_BYTES;
    lim->tails = ahead && info.connections > info.open ? info.connections - info.open : 0;
    lim->part_bytes = part_of(f, &info, bytes, ahead);
    lim->group_bytes = lim->part_bytes > GROUP_BYTES ? lim->part_bytes : GROUP_BYTES;
    /* What is small waits for round trips; what is large, for connections to be used. */
    lim->spread_bytes = ahead && mean >= LARGE_BYTES ? lim->part_bytes : LEAST_GROUP_BYTES;
    lim->max_ranges = f->opt.multirange ? info.max_ranges : 1;
    lim->max_range_header = info.max_range_header - strlen("bytes=");
    lim->connections = ahead && info.scattered > 1 ? info.scattered - 1 : info.scattered;
    if (info.whole) { /* each request brings all of the file: one for all that is wanted */
        lim->tails = 0;
        lim->gap_bytes = f->size;
        lim->part_bytes = f->size + XH_PAGE_BYTES - f->size % XH_PAGE_BYTES;
        lim->group_bytes = lim->part_bytes;
    }
    return !info.whole;
}

/* Metadata ahead is not much, and the next is not known before it is here: all connections that are
 * free carry a share of it. */
static void spread(struct xh_file *f, const struct xh_range *wanted, size_t n, struct xh_plan_limits *lim)
{
    unsigned busy = atomic_load_explicit(&f->meta_ahead, memory_order_relaxed);
    uint64_t bytes = 0;
    lim->tails = 0;
    for (size_t i = 0; i < n; i++)
        bytes += wanted[i].len;
    lim->connections = busy < XH_META_AT_ONCE ? XH_META_AT_ONCE - busy : 1;
    uint64_t share = bytes / lim->connections;
    share += lim->align_bytes - share % lim->align_bytes;
    if (share < META_LEAST_BYTES)
        share = META_LEAST_BYTES;
    if (share < lim->part_bytes)
        lim->part_bytes = share;
}

static int make_plan(struct xh_file *f, int ahead, int meta, const struct xh_runs *runs, struct batch *b)
{
    struct xh_plan_limits lim;
    struct xh_range *wanted = malloc(runs->n * sizeof *wanted);
    if (!wanted)
        return XH_E_NOMEM;
    uint64_t bytes = 0, before = ahead ? xh_siblings_flying(f) : 0;
    for (size_t i = 0; i < runs->n; i++) {
        wanted[i] = bytes_of_run(f, runs->at[i]);
        bytes += wanted[i].len;
    }
    int parts = xh_fetch_limits(f, before + bytes, bytes / runs->n, ahead, &lim);
    if (meta && parts)
        spread(f, wanted, runs->n, &lim);
    int rc = xh_plan_make(wanted, runs->n, &lim, &b->plan);
    free(wanted);
    return rc;
}

static void fetch_init(struct batch *b, size_t i, struct xh_file *f, struct xh_read_op *op, int claimed, int meta)
{
    struct fetch *fe = &b->fetches[i];
    const struct xh_plan_transfer *pt = &b->plan.transfers[i];
    fe->t = (struct xh_transfer){
        .ranges = b->plan.ranges + pt->first,
        .nranges = pt->count,
        .speculative = op == NULL,
        .ctx = fe,
        .bytes = on_bytes,
        .done = on_done,
    };
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

static struct batch *batch_make(struct xh_file *f, struct xh_read_op *op, const struct xh_runs *runs,
                                int claimed, int meta)
{
    struct batch *b = calloc(1, sizeof *b);
    if (!b || make_plan(f, op == NULL, meta, runs, b)) {
        free(b);
        return NULL;
    }
    b->fetches = calloc(b->plan.ntransfers, sizeof *b->fetches);
    b->come = claimed ? malloc(b->plan.nranges * sizeof *b->come) : NULL;
    b->runs.at = malloc(runs->n * sizeof *runs->at);
    if (!b->fetches || (claimed && !b->come) || !b->runs.at) {
        batch_free(b);
        return NULL;
    }
    memcpy(b->runs.at, runs->at, runs->n * sizeof *runs->at);
    b->runs.n = runs->n;
    for (size_t i = 0; i < b->plan.ntransfers; i++)
        fetch_init(b, i, f, op, claimed, meta);
    return b;
}

static int start(struct xh_file *f, struct xh_read_op *op, const struct xh_runs *runs, int claimed, int meta,
                 struct xh_err *err)
{
    if (runs->n == 0)
        return 0;
    xh_fetch_share_link(f);
    struct batch *b = batch_make(f, op, runs, claimed, meta);
    struct xh_transfer **ts = b ? malloc(b->plan.ntransfers * sizeof *ts) : NULL;
    int rc;
    if (!ts) {
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory while planning a read of %s", f->url_shown);
        goto err;
    }
    size_t n = b->plan.ntransfers;
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
        xh_siblings_fly(f, (int64_t)bytes);
    }
    if (meta) {
        atomic_fetch_add_explicit(&f->meta_ahead, (unsigned)n, memory_order_relaxed);
        atomic_fetch_add_explicit(&f->meta_asked, bytes, memory_order_relaxed);
    }
    rc = xh_replicas_submit(f->origin, ts, n, err);
    if (rc == 0) {
        if (!op)
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
        xh_siblings_fly(f, -(int64_t)bytes);
    }
    if (meta)
        atomic_fetch_sub_explicit(&f->meta_ahead, (unsigned)n, memory_order_relaxed);
err:
    free(ts);
    batch_free(b);
    if (claimed)
        for (size_t i = 0; i < runs->n; i++)
            xh_shadow_forgo(f->shadow, runs->at[i].first, runs->at[i].count);
    return rc;
}

int xh_fetch_start(struct xh_file *f, struct xh_read_op *op, const struct xh_runs *runs, int claimed,
                   struct xh_err *err)
{
    return start(f, op, runs, claimed, 0, err);
}

/* The first page from |p| on that the stage neither has nor awaits whole. */
static uint64_t behind_staged(struct xh_file *f, uint64_t p)
{
    uint64_t to = xh_stage_until(f, p * XH_PAGE_BYTES);
    return to >= f->size ? page_up(f->size) : to / XH_PAGE_BYTES;
}

/* Claims what nobody has of |r|; where |staged| counts, nor the stage. Returns 0 when no more claims can be had, or where
 * another process is at work on raw data: what lies behind that is its affair, and most likely its share. */
static int claim_range(struct xh_file *f, struct xh_range r, enum xh_kind kind, int staged, struct xh_runs *mine)
{
    for (uint64_t p = r.off / XH_PAGE_BYTES, end = page_up(r.off + r.len); p < end; p++) {
        if (staged && (p = behind_staged(f, p)) >= end)
            break;
        enum xh_claim c = xh_shadow_claim_later(f->shadow, p, kind == XH_KIND_META, 0, &f->counters);
        if (c == XH_CLAIM_NONE || (c == XH_CLAIM_BUSY && kind == XH_KIND_RAW && xh_shadow_elsewhere(f->shadow, p)))
            return 0;
        if (c == XH_CLAIM_MINE && xh_runs_add(mine, p)) {
            xh_shadow_forgo(f->shadow, p, 1);
            return 0;
        }
    }
    return 1;
}

int xh_fetch_shared(struct xh_file *f)
{
    return f->others_wait || xh_shadow_shared(f->shadow);
}

/* 1 when all that is fetched ahead is to stay in the shadow. */
static int keeps_all(struct xh_file *f)
{
    return atomic_load_explicit(&f->is_reread, memory_order_relaxed) || xh_fetch_shared(f);
}

/* Fetches the ranges ahead into the shadow. */
static size_t ahead_to_shadow(struct xh_file *f, const struct xh_range *r, size_t n, enum xh_kind kind)
{
    struct xh_runs mine = {0};
    uint64_t room = f->opt.readahead_bytes, in_flight = xh_siblings_flying(f);
    size_t i = 0;
    int staged = kind == XH_KIND_RAW && !keeps_all(f); /* else the others have nothing of what the stage brings */
    for (; i < n && in_flight <= room; i++) {
        if (!claim_range(f, r[i], kind, staged, &mine))
            break;
        in_flight += r[i].len;
    }
    xh_runs_sort(&mine);
    /* A failure has abandoned the claims: whoever wants the bytes asks for them again. */
    start(f, NULL, &mine, 1, kind == XH_KIND_META, NULL);
    free(mine.at);
    return i;
}

/* How many of the raw ranges, from the first on, are to stay in the shadow: see read.c's keeps(). */
static size_t kept(struct xh_file *f, const struct xh_range *r, size_t n)
{
    uint64_t so_far = xh_siblings_streamed(f) + xh_siblings_flying(f);
    size_t i = 0;
    if (keeps_all(f))
        return n;
    while (i < n && so_far + r[i].len <= f->opt.stream_bytes)
        so_far += r[i++].len;
    return i;
}

uint64_t xh_fetch_lead(struct xh_file *f, uint64_t off, uint64_t end)
{
    if (xh_compressed_used(f->compressed))
        return xh_compressed_lead(f, off, end);
    /* What is not much longer than what is kept anyway stays for other processes, which may be about to start. */
    int streams = end > off && (end - off) / 2 > f->opt.stream_bytes && !keeps_all(f);
    return streams ? xh_stage_stream(f, off, end) : off;
}

uint64_t xh_fetch_stretch(struct xh_file *f, struct xh_range r, uint64_t stream_end)
{
    struct xh_range pieces[257];
    if (xh_compressed_used(f->compressed))
        return xh_compressed_stretch(f, r, stream_end);
    uint64_t seen = xh_fetch_lead(f, r.off, stream_end);
    if (seen > r.off)
        return seen;
    uint64_t step = r.len / 256 / STRETCH_BYTES * STRETCH_BYTES + STRETCH_BYTES, end = r.off + r.len;
    size_t n = 0;
    for (uint64_t at = 0; at < r.len; at += step)
        pieces[n++] = (struct xh_range){r.off + at, r.len - at < step ? r.len - at : step};
    pieces[n].off = end;
    size_t k = kept(f, pieces, n), done = k ? ahead_to_shadow(f, pieces, k, XH_KIND_RAW) : 0;
    uint64_t from = pieces[done].off;
    if (done < k || k == n)
        return from;
    return pieces[k + xh_stage_fetch(f, pieces + k, n - k)].off;
}

size_t xh_fetch_ahead(struct xh_file *f, const struct xh_range *r, size_t n, enum xh_kind kind)
{
    int packed = 0;
    size_t seen = kind == XH_KIND_RAW && n && xh_compressed_used(f->compressed) ? xh_compressed_ahead(f, r, n, &packed) : 0;
    if (packed)
        return seen;
    size_t k = kind == XH_KIND_META ? n : kept(f, r, n);
    size_t done = k ? ahead_to_shadow(f, r, k, kind) : 0;
    return done == k && k < n ? k + xh_stage_fetch(f, r + k, n - k) : done;
}
