/* Taking: what the stage has, or expects, goes to a reader. See stage.h. */
#include "stage.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "pages/op.h"
#include "segment.h"
#include "stream.h"

struct copy {
    struct xh_segment *p;
    uint64_t off, len;
    uint8_t *to;
};

/* Extents and segments are both sorted and disjoint: they overlap in at most n + s->n places. Each place makes one copy
 * at most, and leaves one piece before it; each extent leaves one behind. */
struct taking {
    struct xh_extent *rest;
    size_t nrest;
    struct copy *copies;
    size_t ncopies;
    uint64_t ready, coming;
    struct xh_range extent; /* that is taken now */
    uint64_t asked;         /* the bytes of all, which do not count in s->asked yet */
};

/* Returns where the bytes begin that lie before |off|, in |p| or stripes that end there, and were not read. */
static uint64_t gap_before(const struct xh_stage *s, const struct xh_segment *p, uint64_t off)
{
    uint64_t from = xh_min64(p->from, off);
    for (size_t i = xh_segment_at(s, p->off); i-- > 0 && from == s->at[i]->end && s->at[i]->load->turns;)
        from = s->at[i]->from;
    return from;
}

/* Their reader has stepped over what stripes from |from| on, before |p|, still have: the gap between two chunks, where
 * a stripe ends in it. */
static void leave_gap(struct xh_stage *s, const struct xh_segment *p, uint64_t from)
{
    for (size_t i = xh_segment_at(s, p->off); i-- > 0 && s->at[i]->end > from && s->at[i]->load->turns;) {
        struct xh_segment *before = s->at[i];
        xh_segment_unlist(s, before);
        xh_prefetch_settle(before->load);
    }
}

/* What |op| has of [at, end) is there up to |got|. Returns the mark, NULL where |op| wants none. */
static struct xh_mark *mark(struct xh_read_op *op, uint64_t at, uint64_t got, uint64_t end)
{
    struct xh_mark *m = op->marks ? &op->marks[op->nmarks++] : NULL;
    if (m)
        *m = (struct xh_mark){.end = end, .got = got, .seen = at, .come.page = xh_page_up(at)};
    return m;
}

/* Takes [off, off + len) of |p|, all of it at or after p->off. Returns 0 when it is not to be had. */
static int take_from(struct xh_stage *s, struct xh_segment *p, struct xh_read_op *op, uint64_t off, uint64_t len,
                     uint8_t *to, struct taking *t)
{
    uint64_t end = off + len, here = p->got > off ? (p->got < end ? p->got : end) : off;
    struct xh_waiter *k = here < end ? malloc(sizeof *k) : NULL;
    if (here < end && !k)
        return 0;
    if (here > off) {
        p->copying++;
        mark(op, off, here, here); /* counted before any thread looks */
        t->copies[t->ncopies++] = (struct copy){p, off, here - off, to};
        t->ready += here - off;
    }
    if (k) {
        *k = (struct xh_waiter){.next = p->takers, .load = p->load, .op = op, .a = here, .b = end,
                                .to = to + (here - off), .mark = mark(op, here, here, end)};
        p->takers = k;
        DL_PREPEND2(s->waiting, k, before, behind);
        xh_op_enter(op, 1);
        t->coming += end - here;
        p->load->takers++;
        if (p->load->turns)
            xh_stream_go_on(p->load);
        if (!p->load->turns || (p->load->t.patient && !p->load->hurried)) { /* it may wait for a connection, now or again */
            p->load->hurried = !p->load->submitting;
            xh_replicas_promote(p->load->f->origin, &p->load->t);
        }
    }
    /* If the reader skips less than half of what it reads, as between two chunks of a stream, the gap counts as read.
     * More than that may be a piece that another thread reads next. */
    uint64_t gap = p->load->turns ? gap_before(s, p, off) : off;
    int steps_over = gap >= t->extent.off || t->extent.off - gap < (t->extent.len + 1) / 2;
    if (p->load->turns && steps_over)
        leave_gap(s, p, gap);
    p->load->used = s->clock;
    s->latest = xh_max64(s->latest, xh_min64(xh_segment_late(p), XH_LATEST_TIMES * p->load->f->opt.readahead_bytes));
    p->born = s->clock;
    p->since = s->asked + t->asked;
    if (s->again.n && xh_again_take(&s->again, off, end))
        return 1;
    if (end > p->from && (off <= p->from || (p->load->turns && steps_over))) {
        uint64_t weight = xh_segment_weight(p);
        p->from = end;
        xh_room_add(&s->place, xh_segment_weight(p), weight);
    }
    p->taken += len;
    if (p->from == p->end || p->taken >= p->end - p->off) {
        xh_segment_unlist(s, p);
        xh_prefetch_settle(p->load); /* what still comes needs no buffer; a waiter or a copy holds the prefetch */
    }
    return 1;
}

/* Without the lock: |copying| holds the blocks. */
static void copy_out(const struct copy *c)
{
    xh_segment_copy(c->p, c->off, c->len, c->to);
}

static void take_extent(struct xh_stage *s, struct xh_read_op *op, struct xh_extent e, struct taking *t)
{
    t->extent = (struct xh_range){e.off, e.len};
    while (e.len) {
        size_t i = xh_segment_at(s, e.off);
        struct xh_segment *p = i < s->n && s->at[i]->off < e.off + e.len ? s->at[i] : NULL;
        if (p && xh_segment_is_far(p, t->extent.off, t->extent.len))
            p = NULL;
        uint64_t from = !p ? e.off + e.len : p->from > e.off ? p->from : e.off; /* where |p| can serve */
        uint64_t to = p && p->end < e.off + e.len ? p->end : e.off + e.len;
        from = xh_min64(from, to);
        uint64_t before = from - e.off; /* no segment has these */
        if (p && from < to && !take_from(s, p, op, from, to - from, (uint8_t *)e.buf + before, t))
            before = to - e.off;
        if (before) {
            assert(t->rest);
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

uint64_t xh_stage_take(struct xh_file *f, struct xh_read_op *op, uint64_t *coming)
{
    struct xh_stage *s = f->stage;
    struct taking t = {0};
    *coming = 0;
    pthread_mutex_lock(&s->lock);
    s->clock++;
    xh_room_touch(&s->place, 1);
    s->here = op->n ? op->ext[0].off : s->here;
    s->here_bytes = op->n ? op->ext[0].len : s->here_bytes;
    s->here_span = op->n ? op->ext[op->n - 1].off + op->ext[op->n - 1].len - s->here : s->here_span;
    t.asked = xh_extents_bytes(op->ext, op->n);
    if (s->n) {
        t.rest = malloc((2 * op->n + s->n) * sizeof *t.rest);
        t.copies = malloc((op->n + s->n) * sizeof *t.copies);
        op->marks = op->served_by_stream && op->keep && op->nasked == 1 ? malloc(2 * (op->n + s->n) * sizeof *op->marks) : NULL;
    }
    if (!t.rest || !t.copies) {
        s->asked += t.asked;
        pthread_mutex_unlock(&s->lock);
        free(t.rest);
        free(t.copies);
        return 0;
    }
    for (size_t i = 0; i < op->n; i++)
        take_extent(s, op, op->ext[i], &t);
    s->asked += t.asked;
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < t.ncopies; i++)
        copy_out(&t.copies[i]);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < t.ncopies; i++) {
        struct xh_segment *p = t.copies[i].p;
        if (--p->copying == 0)
            xh_prefetch_settle(p->load);
    }
    pthread_mutex_unlock(&s->lock);
    free(t.copies);
    free(op->ext);
    op->ext = t.rest;
    op->n = t.nrest;
    *coming = t.coming;
    return t.ready;
}

void xh_stage_interrupt(struct xh_read_op *op)
{
    struct xh_stage *s = op->f->stage;
    pthread_mutex_lock(&s->lock); /* so that none ends meanwhile */
    for (struct xh_waiter *k = s->waiting; k; k = k->behind)
        if (k->op == op && !k->load->submitting)
            xh_replicas_cancel(op->f->origin, &k->load->t);
    pthread_mutex_unlock(&s->lock);
}
