/* Parcels and loads: their memory, and what the engine brings. See segment.h. */
#include "segment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "base/table.h"
#include "disk/disk.h"
#include "pages/limits.h"
#include "pages/op.h"
#include "policy.h"
#include "watch/trace.h"

/* ---- blocks of parcels. The lock is held. */

static size_t blocks_of(uint64_t len)
{
    return (size_t)((len + XH_BLOCK_BYTES - 1) / XH_BLOCK_BYTES);
}

static size_t block_len(const struct xh_segment *p, size_t i)
{
    uint64_t left = p->end - p->off - (uint64_t)i * XH_BLOCK_BYTES;
    return left < XH_BLOCK_BYTES ? (size_t)left : XH_BLOCK_BYTES;
}

/* Gives back the blocks that lie wholly below |from|. */
static void release(struct xh_segment *p)
{
    uint64_t most = p->load->f->opt.readahead_bytes;
    size_t end = p->from == p->end ? blocks_of(p->end - p->off) : (size_t)((p->from - p->off) / XH_BLOCK_BYTES);
    if (p->copying)
        return;
    for (; p->gone < end; p->gone++) {
        xh_block_put(p->blocks[p->gone], block_len(p, p->gone), most);
        p->blocks[p->gone] = NULL;
    }
}

/* ---- parcels. The lock is held. */

size_t xh_stage_loads(const struct xh_stage *s)
{
    return xh_count_before(i, XH_STREAMS_MAX, s->stream[i] != NULL);
}

void xh_stage_drop(struct xh_stage *s, const struct xh_prefetch *l)
{
    for (size_t i = 0, n = 0; i < XH_STREAMS_MAX; i++) {
        struct xh_prefetch *other = s->stream[i];
        s->stream[i] = NULL;
        if (other && other != l)
            s->stream[n++] = other;
    }
    s->granted = s->stream[0] ? s->granted : 0;
}

size_t xh_segment_at(const struct xh_stage *s, uint64_t off)
{
    return xh_count_before(i, s->n, s->at[i]->end <= off);
}

uint64_t xh_segment_weight(const struct xh_segment *p)
{
    uint64_t to = p->load->turns ? p->got : p->end;
    return p->listed && to > p->from ? to - p->from : 0;
}

uint64_t xh_segment_late(const struct xh_segment *p)
{
    uint64_t due = xh_max64(p->due, p->since), asked = p->load->f->stage->asked;
    return asked > due ? asked - due : 0;
}

int xh_segment_is_stale(const struct xh_segment *p)
{
    const struct xh_stage *s = p->load->f->stage;
    return s->clock - p->born >= XH_STALE_READS && s->asked >= p->due && xh_segment_late(p) >= 2 * s->latest;
}

int xh_segment_is_far(const struct xh_segment *p, uint64_t off, uint64_t len)
{
    struct xh_stage *s = p->load->f->stage;
    uint64_t before = 0, most = p->load->f->opt.readahead_bytes;
    if (!p->load->turns || off <= p->load->pos || off - p->load->pos <= XH_STREAM_LEAST_BYTES)
        return 0;
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++) {
        const struct xh_prefetch *l = s->stream[i];
        uint64_t end = xh_min64(off, l->cut ? l->cut : l->parcels[l->nparcels - 1].end);
        before += end > l->pos ? (end - l->pos) / l->turns : 0;
    }
    return before > XH_STREAM_LEAST_BYTES &&
           xh_policy_passes(before, p->load->course.loads, len, most, xh_room_left(&s->place, most));
}

static int list(struct xh_stage *s, struct xh_segment *p)
{
    if (xh_grow(s->at, s->room, s->n + 1))
        return XH_E_NOMEM;
    size_t i = xh_segment_at(s, p->off);
    assert(i == s->n || s->at[i]->off >= p->end);
    memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof *s->at);
    s->at[i] = p;
    s->n++;
    p->listed = 1;
    xh_room_add(&s->place, xh_segment_weight(p), 0);
    return 0;
}

void xh_segment_unlist(struct xh_stage *s, struct xh_segment *p)
{
    if (!p->listed)
        return;
    size_t i = xh_segment_at(s, p->off);
    assert(i < s->n && s->at[i] == p);
    memmove(&s->at[i], &s->at[i + 1], (s->n - i - 1) * sizeof *s->at);
    s->n--;
    xh_room_add(&s->place, 0, xh_segment_weight(p));
    p->listed = 0;
    uint64_t came = p->load->over || p->load->turns || p->load->withdrawn ? p->got - p->off : p->end - p->off;
    if (p->taken < came)
        xh_count(&p->load->f->counters, bytes_unused, came - p->taken);
    p->from = p->end; /* nothing more is kept of it */
}

void xh_segment_copy(const struct xh_segment *p, uint64_t off, uint64_t len, uint8_t *to)
{
    for (uint64_t at = off - p->off, end = at + len; at < end;) {
        size_t skip = (size_t)(at % XH_BLOCK_BYTES), n = XH_BLOCK_BYTES - skip;
        n = end - at < n ? (size_t)(end - at) : n;
        memcpy(to, p->blocks[at / XH_BLOCK_BYTES] + skip, n);
        to += n;
        at += n;
    }
}

void xh_prefetch_settle(struct xh_prefetch *l)
{
    int needed = !l->over || l->submitting;
    for (size_t i = 0; i < l->nparcels; i++) {
        struct xh_segment *p = &l->parcels[i];
        release(p);
        needed |= p->listed || p->copying != 0;
    }
    if (needed)
        return;
    free(l->blocks);
    free(l->ranges);
    free(l);
}

/* ---- what is there */

static int ranges_add(struct xh_range_list *r, uint64_t off, uint64_t end)
{
    if (off >= end)
        return 1;
    if (xh_grow(r->at, r->room, r->n + 1))
        return 0;
    r->at[r->n++] = (struct xh_range){off, end - off};
    return 1;
}

/* 1 when the page is on the disk, in the shadow, or this process fetches it there. */
static int is_kept(struct xh_file *f, uint64_t page)
{
    if (xh_disk_has(f->disk, page))
        return 1;
    enum xh_claim c = xh_shadow_peek(f->shadow, page);
    return c == XH_CLAIM_READY || (c == XH_CLAIM_BUSY && !xh_shadow_elsewhere(f->shadow, page));
}

struct xh_range xh_segment_whole(const struct xh_file *f, struct xh_range r)
{
    uint64_t off = r.off / XH_PAGE_BYTES * XH_PAGE_BYTES, end = xh_page_up(r.off + r.len) * XH_PAGE_BYTES;
    end = end < f->size ? end : f->size;
    return f->disk ? (struct xh_range){off, end - off} : r;
}

int xh_segment_missing(struct xh_file *f, struct xh_range r, int all, struct xh_range_list *out)
{
    struct xh_stage *s = f->stage;
    uint64_t end = r.off + r.len;
    for (uint64_t off = r.off; off < end;) {
        size_t i = xh_segment_at(s, off);
        if (i < s->n && s->at[i]->off <= off) {
            off = s->at[i]->end;
            continue;
        }
        if (!all && xh_stage_will_deal(s, off)) {
            off = s->stream_end;
            continue;
        }
        uint64_t stop = i < s->n && s->at[i]->off < end ? s->at[i]->off : end, from = off;
        if (!all && off < s->dealt && xh_stage_will_deal(s, s->dealt))
            stop = xh_min64(stop, s->dealt);
        for (; off < stop; off = (off / XH_PAGE_BYTES + 1) * XH_PAGE_BYTES)
            if (is_kept(f, off / XH_PAGE_BYTES)) {
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

/* ---- what the engine brings */

/* Takers that have all their bytes leave; where the load is |over|, so do the others, without the rest. */
static void take_done(struct xh_segment *p, int over)
{
    for (struct xh_waiter **at = &p->takers; *at;) {
        struct xh_waiter *k = *at;
        int whole = k->b <= p->got;
        if (!whole && !over) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        DL_DELETE2(p->load->f->stage->waiting, k, before, behind);
        p->load->takers--;
        if (whole) {
            xh_op_leave(k->op, NULL);
            free(k);
            continue;
        }
        if (k->a < p->got) {
            k->to += p->got - k->a;
            k->a = p->got;
        }
        xh_op_lose(k->op, k);
    }
}

/* Has blocks for [a, end) of |p|, which is in the list. Returns 0 without memory: whoever wants it asks again. */
static int make_room(struct xh_stage *s, struct xh_segment *p, uint64_t a, uint64_t end)
{
    for (size_t i = (size_t)((a - p->off) / XH_BLOCK_BYTES); i < blocks_of(end - p->off); i++)
        if (!p->blocks[i] && !(p->blocks[i] = xh_block_get(block_len(p, i), p->load->f->opt.readahead_bytes))) {
            xh_segment_unlist(s, p);
            return 0;
        }
    return 1;
}

/* The takers from |k| to before |end| get what they want of [off, off + len). Needs no lock while they stay. */
static void give(struct xh_waiter *k, const struct xh_waiter *end, uint64_t off, const uint8_t *data, size_t len)
{
    for (; k != end; k = k->next) {
        uint64_t a = k->a > off ? k->a : off, b = k->b < off + len ? k->b : off + len;
        if (a >= b)
            continue;
        memcpy(k->to + (a - k->a), data + (a - off), b - a);
        if (k->mark)
            atomic_store_explicit(&k->mark->got, b, memory_order_release);
    }
}

/* [a, end) goes to the blocks, which |copying| holds. Without the lock. */
static void keep(const struct xh_segment *p, uint64_t a, uint64_t end, const uint8_t *data)
{
    while (a < end) {
        size_t i = (size_t)((a - p->off) / XH_BLOCK_BYTES), at = (size_t)((a - p->off) % XH_BLOCK_BYTES);
        size_t room = block_len(p, i) - at, n = end - a < room ? (size_t)(end - a) : room;
        memcpy(p->blocks[i] + at, data, n);
        a += n;
        data += n;
    }
}

/* A piece of the parcel |p|. Lets go of the lock while it copies, which takes most of the time: readers and the other
 * threads would wait for it. Takers that come meanwhile want the piece too, as |got| lies before it. */
static void parcel_bytes(struct xh_stage *s, struct xh_segment *p, uint64_t off, const uint8_t *data, size_t len)
{
    assert(p->got == off && len <= p->end - off);
    uint64_t end = off + len, from = off > p->from ? off : p->from;
    struct xh_waiter *takers = p->takers;
    int keeps = from < end && p->listed && make_room(s, p, from, end);
    p->copying++;
    pthread_mutex_unlock(&s->lock);
    give(takers, NULL, off, data, len);
    if (keeps)
        keep(p, from, end, data + (from - off));
    pthread_mutex_lock(&s->lock);
    give(p->takers, takers, off, data, len);
    p->copying--;
    release(p);
    uint64_t weight = xh_segment_weight(p);
    p->got = end;
    s->unshared |= keeps;
    xh_room_add(&s->place, xh_segment_weight(p), weight);
    take_done(p, 0);
}

/* |len| bytes of a stream's load have come. */
static void note_course(struct xh_stage *s, struct xh_prefetch *l, size_t len)
{
    if (!l->course.begun_ns)
        l->course.begun_ns = xh_now_ns();
    if (!s->begun_ns)
        s->begun_ns = l->course.begun_ns;
    s->pace.bytes += len;
    if (!s->grown_ns && s->pace.bytes - s->begun_bytes >= XH_STREAM_DEALT_BYTES / 2) {
        s->grown_ns = xh_now_ns();
        s->grown_bytes = s->pace.bytes;
    }
    l->course.pace.bytes += len;
}

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    struct xh_prefetch *l = t->ctx;
    struct xh_stage *s = l->f->stage;
    size_t i = xh_count_before(k, l->nparcels, l->parcels[k].off <= off) - 1;
    xh_disk_keep(l->f->disk, off, data, len, 0);
    pthread_mutex_lock(&s->lock);
    if (l->turns && !l->left) /* else it would be of the stream that has begun since */
        note_course(s, l, len);
    for (size_t n; len; off += n, data += n, len -= n) { /* parcels touch where a load has one range */
        struct xh_segment *p = &l->parcels[i++];
        n = p->end - off < len ? (size_t)(p->end - off) : len;
        parcel_bytes(s, p, off, data, n);
    }
    int ends = l->cut && off >= l->cut && !l->ended;
    l->ended |= ends;
    l->pos = off;
    pthread_mutex_unlock(&s->lock);
    if (ends)
        xh_replicas_cancel(l->f->origin, t);
}

/* Ends a load, perhaps short of its bytes: those who wait for them fetch them themselves. */
static void load_end(struct xh_stage *s, struct xh_prefetch *l)
{
    l->over = 1;
    s->leaving -= (size_t)l->left;
    xh_stage_drop(s, l);
    for (size_t i = 0; i < l->nparcels; i++) {
        struct xh_segment *p = &l->parcels[i];
        if (p->got == p->end)
            continue;
        s->lost |= l->turns && p->listed;
        xh_segment_unlist(s, p);
        take_done(p, 1);
    }
    xh_prefetch_settle(l);
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct xh_prefetch *l = t->ctx;
    struct xh_file *f = l->f;
    struct xh_course course = l->course;
    struct xh_stage *s = f->stage;
    if (err)
        xh_trace(XH_T_READ, "load-failed", "code=%s", xh_err_name(err->code));
    pthread_mutex_lock(&s->lock);
    void (*then)(struct xh_file *, const struct xh_course *) = err || l->left ? NULL : l->then;
    load_end(s, l);
    if (then)
        then(f, &course);
    pthread_mutex_unlock(&s->lock);
}

/* ---- loads */

static uint64_t due_of(const struct xh_stage *s, uint64_t off)
{
    return s->asked + (off > s->here ? off - s->here : 0);
}

static struct xh_prefetch *load_make(struct xh_file *f, const struct xh_range *r, size_t n, unsigned turns,
                                     int (*full)(struct xh_transfer *t))
{
    struct xh_prefetch *l = calloc(1, sizeof *l + n * sizeof *l->parcels);
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
                                .bytes = on_bytes, .done = on_done, .full = full};
    l->f = f;
    l->turns = l->course.loads = turns;
    l->pos = r[0].off;
    l->first = l->pos + XH_STREAM_FIRST_BYTES;
    l->used = f->stage->clock;
    l->submitting = 1;
    l->nparcels = n;
    uint8_t **blocks = l->blocks;
    uint64_t since = f->stage->asked + f->stage->place.bytes;
    for (size_t i = 0; i < n; i++) {
        uint64_t off = r[i].off;
        l->parcels[i] = (struct xh_segment){.load = l, .off = off, .end = off + r[i].len, .from = off, .got = off,
                                           .blocks = blocks, .born = f->stage->clock, .since = since,
                                           .due = turns ? due_of(f->stage, off) : 0};
        blocks += blocks_of(r[i].len);
        since += r[i].len;
    }
    return l;
}

struct xh_prefetch *xh_prefetch_add(struct xh_file *f, const struct xh_range *r, size_t n, unsigned turns,
                                    int (*full)(struct xh_transfer *t))
{
    struct xh_prefetch *l = load_make(f, r, n, turns, full);
    for (size_t i = 0; l && i < l->nparcels; i++)
        if (list(f->stage, &l->parcels[i])) {
            l->submitting = 0;
            load_end(f->stage, l);
            return NULL;
        }
    return l;
}

void xh_prefetch_cut(struct xh_prefetch *l, const struct xh_segment *p)
{
    uint64_t cut = p == l->parcels ? p->off : p[-1].end;
    if (l->cut && l->cut <= cut)
        return;
    l->cut = cut;
    if (l->pos < l->cut || l->over || l->submitting)
        return; /* on_bytes() will see to it */
    l->ended = 1;
    xh_replicas_cancel(l->f->origin, &l->t);
}

/* |to| stands for |from|, of which nothing has come: it is in the list instead, and its takers wait for |to|. */
static void take_place(struct xh_stage *s, struct xh_segment *from, struct xh_segment *to)
{
    assert(from->got == from->off && !from->copying && from->off == to->off && from->end == to->end);
    if (from->listed) {
        s->at[xh_segment_at(s, from->off)] = to;
        from->listed = 0;
        to->listed = 1;
    }
    to->from = from->from;
    from->from = from->end;
    to->taken = from->taken;
    to->born = from->born;
    to->since = from->since;
    to->due = from->due;
    to->takers = from->takers;
    from->takers = NULL;
    for (struct xh_waiter *k = to->takers; k; k = k->next) {
        k->load = to->load;
        from->load->takers--;
        to->load->takers++;
    }
}

struct xh_prefetch *xh_prefetch_divide(struct xh_prefetch *slow, size_t cut, size_t end)
{
    struct xh_range_list mine = {0};
    size_t from = cut;
    while (from < end && !xh_segment_is_wanted(&slow->parcels[from]))
        from++;
    while (end > from && !xh_segment_is_wanted(&slow->parcels[end - 1]))
        end--;
    if (from == end || xh_grow(mine.at, mine.room, end - from))
        return NULL;
    for (size_t i = from; i < end; i++)
        mine.at[mine.n++] = (struct xh_range){slow->parcels[i].off, slow->parcels[i].end - slow->parcels[i].off};
    struct xh_prefetch *l = load_make(slow->f, mine.at, mine.n, slow->turns, slow->t.full);
    free(mine.at);
    if (!l)
        return NULL;
    for (size_t i = from; i < end; i++)
        take_place(slow->f->stage, &slow->parcels[i], &l->parcels[i - from]);
    xh_prefetch_cut(slow, &slow->parcels[cut]);
    return l;
}

int xh_prefetch_withdraw(struct xh_stage *s, struct xh_prefetch *l)
{
    if (l->takers || l->submitting || l->over || l->turns || !xh_replicas_withdraw(l->f->origin, &l->t))
        return 0;
    l->withdrawn = 1;
    for (size_t i = 0; i < l->nparcels; i++)
        xh_segment_unlist(s, &l->parcels[i]);
    return 1;
}

/* The origin has the load, or has |refused| it. A taker that came before it had it could not promote it. */
static void submitted(struct xh_stage *s, struct xh_prefetch *l, int refused)
{
    int waited_for = 0;
    l->submitting = 0;
    if (refused) {
        load_end(s, l);
        return;
    }
    for (size_t i = 0; i < l->nparcels; i++)
        waited_for |= l->parcels[i].takers != NULL;
    if (waited_for) /* so it is not over */
        xh_replicas_promote(l->f->origin, &l->t);
    if (l->cut && l->pos >= l->cut && !l->ended && !l->over) { /* cut meanwhile: it may stand, and bring nothing more */
        l->ended = 1;
        xh_replicas_cancel(l->f->origin, &l->t);
    }
    xh_prefetch_settle(l);
}

void xh_prefetch_hand_over(struct xh_file *f, struct xh_transfer **ts, size_t n)
{
    if (n == 0)
        return;
    pthread_mutex_unlock(&f->stage->lock);
    xh_limits_share_link(f);
    int rc = xh_replicas_submit(f->origin, ts, n, NULL);
    pthread_mutex_lock(&f->stage->lock);
    for (size_t i = 0; i < n; i++)
        submitted(f->stage, ts[i]->ctx, rc != 0);
}
