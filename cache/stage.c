/* The stage: see stage.h.
 *
 * A load is one speculative transfer. Its bytes are divided into parcels. A stream is a few loads
 * that have every so-manieth parcel each, and that stop while their reader has enough before him.
 * Invariants, under the lock:
 *  1. A parcel's bytes [from, got) lie in its blocks, at their place; bytes below |from| were read,
 *     or are promised to takers. What a reader waits for never lies in a block: it would be copied twice.
 *  2. A taker's bytes end at or below |from|, or are kept in blocks besides: either way they are
 *     copied to it as they arrive, in ascending order, and it leaves its op when all are there.
 *  3. A parcel is in |at| until all of it was taken, its transfer failed, or it was dropped; then
 *     |from| is its end. Blocks below |from| go as soon as nobody copies from the parcel. A load is
 *     freed when its transfer is submitted and over, none of its parcels is in |at| and nobody copies
 *     from one. */
#include "stage.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "trace.h"

/* What a stream's loads take in turns; its length in all; and what is too short to be one. */
#define STRIPE_BYTES (4u << 20)
#define STREAM_MOST_BYTES (512u << 20)
#define STREAM_LEAST_BYTES (16u << 20)
#define STREAM_LOADS 2
#define FAST_LINK_MBIT 10000
/* A stream that had to stand still while TCP still finds its speed would not find it for long. */
#define STREAM_FIRST_BYTES (16u << 20)
/* A parcel that so many reads passed by is a wrong guess, once its room is wanted. */
#define STALE_READS 32

struct taker {
    struct taker *next;
    struct xh_read_op *op;
    uint64_t a, b; /* [a, b), into |to| */
    uint8_t *to;
};

struct xh_load;

struct xh_parcel {
    struct xh_load *load;
    uint64_t off, end; /* constant */
    uint64_t from, got, taken;
    uint64_t born;     /* stage's clock when made or last read */
    uint8_t **blocks;  /* of XH_BLOCK_BYTES from |off| on, the last one shorter; NULL: not there */
    size_t gone;       /* blocks before this one were given back */
    struct taker *takers;
    unsigned copying; /* readers that copy out of the blocks without the lock */
    int listed;
};

struct xh_load {
    struct xh_transfer t; /* t.ctx is the load */
    struct xh_file *f;
    struct xh_range *ranges;
    uint8_t **blocks; /* of all parcels */
    int submitting; /* the origin may not have it yet */
    int over;
    int stream, stands; /* it stands still until its reader comes nearer */
    unsigned takers;
    uint64_t pos;       /* where the next byte goes */
    uint64_t first;     /* a stream comes up to here in any case */
    uint64_t used;      /* stage's clock when something was last taken */
    size_t nparcels;
    struct xh_parcel parcels[];
};

/* ---- blocks of parcels. The lock is held. */

static size_t blocks_of(uint64_t len)
{
    return (size_t)((len + XH_BLOCK_BYTES - 1) / XH_BLOCK_BYTES);
}

static size_t block_len(const struct xh_parcel *p, size_t i)
{
    uint64_t left = p->end - p->off - (uint64_t)i * XH_BLOCK_BYTES;
    return left < XH_BLOCK_BYTES ? (size_t)left : XH_BLOCK_BYTES;
}

/* Gives back the blocks that lie wholly below |from|. */
static void release(struct xh_stage *s, struct xh_parcel *p)
{
    uint64_t most = p->load->f->opt.readahead_bytes, spare = most > s->bytes ? most - s->bytes : 0;
    size_t end = p->from == p->end ? blocks_of(p->end - p->off) : (size_t)((p->from - p->off) / XH_BLOCK_BYTES);
    if (p->copying)
        return;
    for (; p->gone < end; p->gone++) {
        xh_block_put(&s->blocks, p->blocks[p->gone], block_len(p, p->gone), spare);
        p->blocks[p->gone] = NULL;
    }
}

/* ---- parcels. The lock is held. */

/* Index of the first parcel that ends after |off|. */
static size_t parcel_at(const struct xh_stage *s, uint64_t off)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->at[mid]->end <= off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* What |p| counts for in s->bytes. */
static uint64_t weight(const struct xh_parcel *p)
{
    uint64_t to = p->load->stream ? p->got : p->end;
    return p->listed && to > p->from ? to - p->from : 0;
}

/* 1 when the stream of |p| has so much to bring before a read at |off| that the read had better be
 * fetched by itself. */
static int is_far(const struct xh_parcel *p, uint64_t off)
{
    const struct xh_load *l = p->load;
    return l->stream && off > l->pos && off - l->pos > STREAM_LEAST_BYTES;
}

static int list(struct xh_stage *s, struct xh_parcel *p)
{
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct xh_parcel **at = realloc(s->at, room * sizeof *at);
        if (!at)
            return XH_E_NOMEM;
        s->at = at;
        s->room = room;
    }
    size_t i = parcel_at(s, p->off);
    assert(i == s->n || s->at[i]->off >= p->end);
    memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof *s->at);
    s->at[i] = p;
    s->n++;
    p->listed = 1;
    s->bytes += weight(p);
    return 0;
}

static void unlist(struct xh_stage *s, struct xh_parcel *p)
{
    if (!p->listed)
        return;
    size_t i = parcel_at(s, p->off);
    assert(i < s->n && s->at[i] == p);
    memmove(&s->at[i], &s->at[i + 1], (s->n - i - 1) * sizeof *s->at);
    s->n--;
    s->bytes -= weight(p);
    p->listed = 0;
    uint64_t came = p->load->over || p->load->stream ? p->got - p->off : p->end - p->off;
    if (p->taken < came)
        xh_count(&p->load->f->counters, bytes_unused, came - p->taken);
    p->from = p->end; /* nothing more is kept of it */
}

/* Gives back what nobody needs any more: buffers, and the load with its last parcel. */
static void settle(struct xh_stage *s, struct xh_load *l)
{
    int needed = !l->over || l->submitting;
    for (size_t i = 0; i < l->nparcels; i++) {
        struct xh_parcel *p = &l->parcels[i];
        release(s, p);
        needed |= p->listed || p->copying != 0;
    }
    if (needed)
        return;
    free(l->blocks);
    free(l->ranges);
    free(l);
}

/* Ends a stream that nobody waits for. It stays in s->stream until it is over. */
static void leave(struct xh_stage *s, struct xh_load *l)
{
    if (l->takers || l->submitting || l->over)
        return;
    for (size_t i = 0; i < l->nparcels; i++)
        unlist(s, &l->parcels[i]);
    xh_origin_cancel(l->f->origin, &l->t);
}

/* Leaves streams that were not read from for some time and are not where the last run of reads is. */
static void leave_stale(struct xh_stage *s)
{
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++) {
        struct xh_load *l = s->stream[i];
        uint64_t slack = l->f->opt.readahead_bytes + 2 * STREAM_FIRST_BYTES;
        if (s->clock - l->used >= STALE_READS && (l->pos > s->reach + slack || l->pos + slack < s->reach))
            leave(s, l);
    }
}

/* Drops what nobody came for, to make room for |bytes| more. */
static void drop_stale(struct xh_file *f, uint64_t bytes)
{
    struct xh_stage *s = &f->stage;
    leave_stale(s);
    for (size_t i = 0; i < s->n && s->bytes + bytes > f->opt.readahead_bytes;) {
        struct xh_parcel *p = s->at[i];
        if (!p->load->over || p->copying || s->clock - p->born < STALE_READS) {
            i++;
            continue;
        }
        unlist(s, p);
        settle(s, p->load);
    }
}

/* ---- what the engine brings */

static void take_done(struct xh_parcel *p, const struct xh_err *err)
{
    for (struct taker **at = &p->takers; *at;) {
        struct taker *k = *at;
        if (!err && k->b > p->got) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        p->load->takers--;
        xh_op_leave(k->op, err);
        free(k);
    }
}

static void keep(struct xh_stage *s, struct xh_parcel *p, uint64_t off, const uint8_t *data, size_t len)
{
    uint64_t end = off + len;
    for (uint64_t a = off > p->from ? off : p->from; a < end && p->listed;) {
        size_t i = (size_t)((a - p->off) / XH_BLOCK_BYTES), at = (size_t)((a - p->off) % XH_BLOCK_BYTES);
        size_t room = block_len(p, i) - at, n = end - a < room ? (size_t)(end - a) : room;
        if (!p->blocks[i] && !(p->blocks[i] = xh_block_get(&s->blocks, block_len(p, i)))) {
            unlist(s, p); /* no memory: whoever wants it asks again */
            return;
        }
        memcpy(p->blocks[i] + at, data + (a - off), n);
        a += n;
    }
}

/* A piece of the parcel |p|. */
static void parcel_bytes(struct xh_stage *s, struct xh_parcel *p, uint64_t off, const uint8_t *data, size_t len)
{
    assert(p->got == off && len <= p->end - off);
    for (struct taker *k = p->takers; k; k = k->next) {
        uint64_t a = k->a > off ? k->a : off, b = k->b < off + len ? k->b : off + len;
        if (a < b)
            memcpy(k->to + (a - k->a), data + (a - off), b - a);
    }
    keep(s, p, off, data, len);
    s->bytes -= weight(p);
    p->got = off + len;
    s->bytes += weight(p);
    take_done(p, NULL);
}

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    struct xh_load *l = t->ctx;
    struct xh_stage *s = &l->f->stage;
    size_t i = 0;
    for (size_t hi = l->nparcels; hi - i > 1;) {
        size_t mid = i + (hi - i) / 2;
        if (l->parcels[mid].off <= off)
            i = mid;
        else
            hi = mid;
    }
    pthread_mutex_lock(&s->lock);
    for (size_t n; len; off += n, data += n, len -= n) { /* parcels touch where a load has one range */
        struct xh_parcel *p = &l->parcels[i++];
        n = p->end - off < len ? (size_t)(p->end - off) : len;
        parcel_bytes(s, p, off, data, n);
    }
    l->pos = off;
    pthread_mutex_unlock(&s->lock);
}

static int on_full(struct xh_transfer *t)
{
    struct xh_load *l = t->ctx;
    struct xh_stage *s = &l->f->stage;
    pthread_mutex_lock(&s->lock);
    int far = l->pos >= s->reach && l->pos >= l->first;
    int full = l->stands = !l->takers && (far || s->bytes >= l->f->opt.readahead_bytes);
    pthread_mutex_unlock(&s->lock);
    return full;
}

static void go_on(struct xh_load *l)
{
    if (l->stands && !l->over && !l->submitting)
        xh_origin_resume(l->f->origin, &l->t);
    l->stands = 0;
}

/* Ends a load short of its bytes: who waits for them gets |err|. */
static void load_end(struct xh_stage *s, struct xh_load *l, const struct xh_err *err)
{
    l->over = 1;
    for (size_t i = 0, n = 0; i < XH_STREAMS_MAX; i++) {
        struct xh_load *other = s->stream[i];
        s->stream[i] = NULL;
        if (other && other != l)
            s->stream[n++] = other;
    }
    for (size_t i = 0; i < l->nparcels; i++) {
        struct xh_parcel *p = &l->parcels[i];
        if (p->got == p->end)
            continue;
        s->lost |= l->stream && p->listed;
        unlist(s, p);
        take_done(p, err);
    }
    settle(s, l);
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct xh_load *l = t->ctx;
    struct xh_stage *s = &l->f->stage;
    if (err)
        xh_trace(XH_T_READ, "load-failed", "code=%s", xh_err_name(err->code));
    pthread_mutex_lock(&s->lock);
    load_end(s, l, err);
    pthread_mutex_unlock(&s->lock);
}

/* ---- fetching ahead */

struct ranges { /* a growing array */
    struct xh_range *at;
    size_t n, room;
};

static int ranges_add(struct ranges *r, uint64_t off, uint64_t end)
{
    if (off >= end)
        return 1;
    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 16;
        struct xh_range *at = realloc(r->at, room * sizeof *at);
        if (!at)
            return 0;
        r->at = at;
        r->room = room;
    }
    r->at[r->n++] = (struct xh_range){off, end - off};
    return 1;
}

static int by_offset(const void *a, const void *b)
{
    const struct xh_range *x = a, *y = b;
    return (x->off > y->off) - (x->off < y->off);
}

/* Sorts and joins what touches or overlaps: what was asked for twice is fetched once. */
static void ranges_tidy(struct ranges *r)
{
    size_t m = 0;
    if (r->n)
        qsort(r->at, r->n, sizeof *r->at, by_offset);
    for (size_t i = 0; i < r->n; i++) {
        struct xh_range *last = m ? &r->at[m - 1] : NULL;
        uint64_t end = r->at[i].off + r->at[i].len;
        if (!last || last->off + last->len < r->at[i].off)
            r->at[m++] = r->at[i];
        else if (end > last->off + last->len)
            last->len = end - last->off;
    }
    r->n = m;
}

/* Appends to |out| what neither shadow nor stage has of |r|. Returns 0 without memory. */
static int missing(struct xh_file *f, struct xh_range r, struct ranges *out)
{
    struct xh_stage *s = &f->stage;
    uint64_t end = r.off + r.len;
    for (uint64_t off = r.off; off < end;) {
        size_t i = parcel_at(s, off);
        if (i < s->n && s->at[i]->off <= off) {
            off = s->at[i]->end;
            continue;
        }
        uint64_t stop = i < s->n && s->at[i]->off < end ? s->at[i]->off : end, from = off;
        for (; off < stop; off = (off / XH_PAGE_BYTES + 1) * XH_PAGE_BYTES)
            if (xh_shadow_peek(f->shadow, off / XH_PAGE_BYTES) == XH_CLAIM_READY) {
                if (!ranges_add(out, from, off))
                    return 0;
                from = (off / XH_PAGE_BYTES + 1) * XH_PAGE_BYTES;
            }
        if (!ranges_add(out, from, stop))
            return 0;
        off = stop;
    }
    return 1;
}

static struct xh_load *load_make(struct xh_file *f, const struct xh_range *r, size_t n, int stream)
{
    struct xh_load *l = calloc(1, sizeof *l + n * sizeof *l->parcels);
    size_t nblocks = 0;
    for (size_t i = 0; i < n; i++)
        nblocks += blocks_of(r[i].len);
    if (!l || !(l->ranges = malloc(n * sizeof *r)) || !(l->blocks = calloc(nblocks, sizeof *l->blocks))) {
        if (l)
            free(l->ranges);
        free(l);
        return NULL;
    }
    size_t nranges = 0;
    for (size_t i = 0; i < n; i++) { /* stripes that touch are one range */
        struct xh_range *last = nranges ? &l->ranges[nranges - 1] : NULL;
        if (last && last->off + last->len == r[i].off)
            last->len += r[i].len;
        else
            l->ranges[nranges++] = r[i];
    }
    l->t = (struct xh_transfer){.ranges = l->ranges, .nranges = nranges, .speculative = 1, .ctx = l,
                                .bytes = on_bytes, .done = on_done, .full = stream ? on_full : NULL};
    l->f = f;
    l->stream = stream;
    l->pos = r[0].off;
    l->first = l->pos + STREAM_FIRST_BYTES;
    l->used = f->stage.clock;
    l->submitting = 1;
    l->nparcels = n;
    uint8_t **blocks = l->blocks;
    for (size_t i = 0; i < n; i++) {
        uint64_t off = r[i].off;
        l->parcels[i] = (struct xh_parcel){.load = l, .off = off, .end = off + r[i].len, .from = off, .got = off,
                                           .blocks = blocks, .born = f->stage.clock};
        blocks += blocks_of(r[i].len);
    }
    return l;
}

/* Makes a load and lists its parcels. NULL without memory. */
static struct xh_load *load_add(struct xh_file *f, const struct xh_range *r, size_t n, int stream)
{
    struct xh_load *l = load_make(f, r, n, stream);
    for (size_t i = 0; l && i < l->nparcels; i++)
        if (list(&f->stage, &l->parcels[i])) {
            l->submitting = 0;
            load_end(&f->stage, l, NULL);
            return NULL;
        }
    return l;
}

/* The origin has the load, or has refused it with |err|. A taker that came before it had it could
 * not promote it. */
static void submitted(struct xh_stage *s, struct xh_load *l, const struct xh_err *err)
{
    int waited_for = 0;
    l->submitting = 0;
    if (err) {
        load_end(s, l, err);
        return;
    }
    for (size_t i = 0; i < l->nparcels; i++)
        waited_for |= l->parcels[i].takers != NULL;
    if (waited_for && !l->stream) /* so it is not over */
        xh_origin_promote(l->f->origin, &l->t);
    settle(s, l);
}

/* Submits loads; lets go of the lock meanwhile. */
static void hand_over(struct xh_file *f, struct xh_transfer **ts, size_t n)
{
    struct xh_err err = {0};
    if (n == 0)
        return;
    pthread_mutex_unlock(&f->stage.lock);
    int rc = xh_origin_submit(f->origin, ts, n, &err);
    pthread_mutex_lock(&f->stage.lock);
    for (size_t i = 0; i < n; i++)
        submitted(&f->stage, ts[i]->ctx, rc ? &err : NULL);
}

static void submit(struct xh_file *f, const struct ranges *want, uint64_t bytes)
{
    struct xh_plan plan;
    struct xh_plan_limits lim;
    struct xh_transfer **ts;
    xh_fetch_limits(f, f->stage.bytes + bytes, 1, &lim);
    lim.gap_bytes = 0; /* the gaps may be here already */
    if (xh_plan_make(want->at, want->n, &lim, &plan))
        return;
    ts = malloc(plan.ntransfers * sizeof *ts);
    size_t made = 0;
    for (struct xh_load *l; ts && made < plan.ntransfers; ts[made++] = &l->t) {
        const struct xh_plan_transfer *pt = &plan.transfers[made];
        if (!(l = load_add(f, plan.ranges + pt->first, pt->count, 0)))
            break;
    }
    hand_over(f, ts, made);
    free(ts);
    xh_plan_free(&plan);
}

/* A stream that has |off| before it, but far, is of no use to who goes on there: it ends. */
static void pass_far(struct xh_stage *s, uint64_t off)
{
    size_t i = parcel_at(s, off);
    if (i < s->n && s->at[i]->off <= off && is_far(s->at[i], off))
        leave(s, s->at[i]->load);
}

size_t xh_stage_fetch(struct xh_file *f, const struct xh_range *r, size_t n)
{
    struct xh_stage *s = &f->stage;
    struct ranges want = {0};
    uint64_t bytes = 0;
    size_t i = 0;
    pthread_mutex_lock(&s->lock);
    for (; i < n; i++) {
        pass_far(s, r[i].off);
        drop_stale(f, bytes + r[i].len);
        if (s->bytes + bytes + r[i].len > f->opt.readahead_bytes && s->bytes + bytes > 0)
            break;
        size_t before = want.n;
        if (!missing(f, r[i], &want))
            break;
        for (size_t k = before; k < want.n; k++)
            bytes += want.at[k].len;
    }
    ranges_tidy(&want);
    if (want.n)
        submit(f, &want, bytes);
    pthread_mutex_unlock(&s->lock);
    free(want.at);
    return i;
}

/* ---- streams */

/* The loads of a stream of |r|: each has every |nloads|th stripe. Returns how many were made. */
static size_t add_stream(struct xh_file *f, struct xh_range r, size_t nloads, struct xh_transfer **ts)
{
    struct xh_range mine[STREAM_MOST_BYTES / STRIPE_BYTES];
    size_t made = 0;
    for (; made < nloads; made++) {
        size_t n = 0;
        for (uint64_t at = made * STRIPE_BYTES; at < r.len; at += nloads * STRIPE_BYTES)
            mine[n++] = (struct xh_range){r.off + at, r.len - at < STRIPE_BYTES ? r.len - at : STRIPE_BYTES};
        struct xh_load *l = load_add(f, mine, n, 1);
        if (!l)
            break;
        size_t i = 0;
        while (f->stage.stream[i])
            i++;
        f->stage.stream[i] = l;
        ts[made] = &l->t;
    }
    return made;
}

uint64_t xh_stage_stream(struct xh_file *f, uint64_t off, uint64_t end)
{
    struct xh_stage *s = &f->stage;
    struct xh_origin_info info;
    struct xh_transfer *ts[STREAM_LOADS];
    struct ranges want = {0};
    uint64_t to = end - off < STREAM_MOST_BYTES ? end : off + STREAM_MOST_BYTES, seen = off;
    xh_origin_get_info(f->origin, &info);
    pthread_mutex_lock(&s->lock);
    pass_far(s, off);
    size_t busy = 0;
    for (; busy < XH_STREAMS_MAX && s->stream[busy]; busy++)
        if (s->stream[busy]->parcels[s->stream[busy]->nparcels - 1].end + STREAM_LOADS * STRIPE_BYTES < off)
            leave(s, s->stream[busy]);
    size_t nloads = info.max_ranges > 1 && f->opt.multirange ? STREAM_LOADS : 1;
    if (nloads > info.streams)
        nloads = info.streams;
    if (nloads > 0 && busy + nloads <= XH_STREAMS_MAX && missing(f, (struct xh_range){off, to - off}, &want)) {
        struct xh_range r = want.n ? want.at[0] : (struct xh_range){to, 0};
        if (r.len >= STREAM_LEAST_BYTES) {
            xh_trace(XH_T_READ, "stream", "off=%llu len=%llu loads=%zu", (unsigned long long)r.off,
                     (unsigned long long)r.len, nloads);
            hand_over(f, ts, add_stream(f, r, nloads, ts));
            seen = r.off + r.len;
        }
    }
    pthread_mutex_unlock(&s->lock);
    free(want.at);
    return seen;
}

/* How far a stream runs ahead: twice what a fast link holds. More would wait in memory that the
 * processor's caches have forgotten by then; the socket holds more besides. */
static uint64_t stream_window(const struct xh_file *f)
{
    struct xh_origin_info info;
    xh_origin_get_info(f->origin, &info);
    uint64_t w = 2 * (info.rtt_ns * FAST_LINK_MBIT / 8000);
    return w > STREAM_FIRST_BYTES ? w : STREAM_FIRST_BYTES;
}

int xh_stage_reach(struct xh_file *f, uint64_t end, uint64_t window)
{
    struct xh_stage *s = &f->stage;
    uint64_t most = stream_window(f), reach = end + (window < most ? window : most);
    pthread_mutex_lock(&s->lock);
    int lost = s->lost;
    s->lost = 0;
    s->reach = reach;
    leave_stale(s);
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++)
        if (s->stream[i]->pos < reach)
            go_on(s->stream[i]);
    pthread_mutex_unlock(&s->lock);
    return lost;
}

/* ---- taking */

struct copy {
    struct xh_parcel *p;
    uint64_t off, len;
    uint8_t *to;
};

/* Extents and parcels are both sorted and disjoint: they overlap in at most n + s->n places, each
 * of which makes one copy at most, and leaves one piece before it; each extent one behind. */
struct taking {
    struct xh_extent *rest;
    size_t nrest;
    struct copy *copies;
    size_t ncopies;
    uint64_t ready, coming;
};

/* Takes [off, off + len) of |p|, all of it at or after p->off. Returns 0 when it is not to be had. */
static int take_from(struct xh_stage *s, struct xh_parcel *p, struct xh_read_op *op, uint64_t off, uint64_t len,
                     uint8_t *to, struct taking *t)
{
    uint64_t end = off + len, here = p->got > off ? (p->got < end ? p->got : end) : off;
    struct taker *k = here < end ? malloc(sizeof *k) : NULL;
    if (here < end && !k)
        return 0;
    if (here > off) {
        p->copying++;
        t->copies[t->ncopies++] = (struct copy){p, off, here - off, to};
        t->ready += here - off;
    }
    if (k) {
        *k = (struct taker){p->takers, op, here, end, to + (here - off)};
        p->takers = k;
        xh_op_enter(op, 1);
        t->coming += end - here;
        p->load->takers++;
        if (p->load->stream)
            go_on(p->load);
        else
            xh_origin_promote(p->load->f->origin, &p->load->t);
    }
    if (off <= p->from && end > p->from) {
        s->bytes -= weight(p);
        p->from = end;
        s->bytes += weight(p);
    }
    p->load->used = s->clock;
    p->taken += len;
    p->born = s->clock;
    if (p->from == p->end || p->taken >= p->end - p->off) {
        unlist(s, p);
        settle(s, p->load); /* what still comes needs no buffer; taker or copy hold the load */
    }
    return 1;
}

/* Without the lock: |copying| holds the blocks. */
static void copy_out(const struct copy *c)
{
    uint64_t at = c->off - c->p->off, left = c->len;
    for (uint8_t *to = c->to; left;) {
        size_t skip = (size_t)(at % XH_BLOCK_BYTES), n = XH_BLOCK_BYTES - skip;
        n = left < n ? (size_t)left : n;
        memcpy(to, c->p->blocks[at / XH_BLOCK_BYTES] + skip, n);
        to += n;
        at += n;
        left -= n;
    }
}

static void take_extent(struct xh_stage *s, struct xh_read_op *op, struct xh_extent e, struct taking *t)
{
    uint64_t start = e.off;
    while (e.len) {
        size_t i = parcel_at(s, e.off);
        struct xh_parcel *p = i < s->n && s->at[i]->off < e.off + e.len ? s->at[i] : NULL;
        if (p && is_far(p, start))
            p = NULL;
        uint64_t from = !p ? e.off + e.len : p->from > e.off ? p->from : e.off; /* where |p| can serve */
        uint64_t to = p && p->end < e.off + e.len ? p->end : e.off + e.len;
        if (from > to)
            from = to;
        uint64_t before = from - e.off; /* nobody has these */
        if (p && from < to && !take_from(s, p, op, from, to - from, (uint8_t *)e.buf + before, t))
            before = to - e.off;
        if (before) {
            struct xh_extent *last = t->nrest ? &t->rest[t->nrest - 1] : NULL;
            if (last && last->off + last->len == e.off && (uint8_t *)last->buf + last->len == e.buf)
                last->len += before;
            else
                t->rest[t->nrest++] = (struct xh_extent){e.off, before, e.buf};
        }
        uint64_t step = to - e.off;
        e = (struct xh_extent){e.off + step, e.len - step, (uint8_t *)e.buf + step};
    }
}

uint64_t xh_stage_take(struct xh_file *f, struct xh_read_op *op, struct xh_extent **pieces, uint64_t *coming)
{
    struct xh_stage *s = &f->stage;
    struct taking t = {0};
    *coming = 0;
    pthread_mutex_lock(&s->lock);
    s->clock++;
    if (s->n) {
        t.rest = malloc((2 * op->n + s->n) * sizeof *t.rest);
        t.copies = malloc((op->n + s->n) * sizeof *t.copies);
    }
    if (!t.rest || !t.copies) {
        pthread_mutex_unlock(&s->lock);
        free(t.rest);
        free(t.copies);
        return 0;
    }
    for (size_t i = 0; i < op->n; i++)
        take_extent(s, op, op->ext[i], &t);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < t.ncopies; i++)
        copy_out(&t.copies[i]);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < t.ncopies; i++) {
        struct xh_parcel *p = t.copies[i].p;
        if (--p->copying == 0)
            settle(s, p->load);
    }
    pthread_mutex_unlock(&s->lock);
    free(t.copies);
    op->ext = *pieces = t.rest;
    op->n = t.nrest;
    *coming = t.coming;
    return t.ready;
}

/* ---- life */

void xh_stage_init(struct xh_stage *s)
{
    *s = (struct xh_stage){0};
    pthread_mutex_init(&s->lock, NULL);
}

void xh_stage_free(struct xh_stage *s)
{
    while (s->n) {
        struct xh_parcel *p = s->at[s->n - 1];
        assert(p->load->over && !p->copying && !p->takers);
        unlist(s, p);
        settle(s, p->load);
    }
    xh_blocks_free(&s->blocks);
    free(s->at);
    pthread_mutex_destroy(&s->lock);
}

void xh_stage_forget(struct xh_stage *s)
{
    xh_stage_init(s); /* what the parent had is leaked: its state cannot be told from sound */
}
