/* The stage: see stage.h. Fetching ahead in parts, and the stage's life. */
#include "stage.h"

#include <assert.h>
#include <stdlib.h>

#include "ending.h"
#include "pages/fetch.h"
#include "pages/flow.h"
#include "pages/limits.h"
#include "segment.h"
#include "watch/trace.h"

/* Drops what nobody came for, to make room for |bytes| more. */
static void drop_stale(struct xh_file *f, uint64_t bytes)
{
    struct xh_stage *s = f->stage;
    xh_stream_leave_stale(s);
    for (size_t i = 0; i < s->n && xh_room_left(&s->place, f->opt.readahead_bytes) < bytes;) {
        struct xh_segment *p = s->at[i];
        if (!p->load->over || p->copying || !xh_segment_is_stale(p)) {
            i++;
            continue;
        }
        xh_segment_unlist(s, p);
        xh_prefetch_settle(p->load);
    }
}

static void submit(struct xh_file *f, const struct xh_range_list *want, uint64_t bytes, int wide)
{
    struct xh_plan plan;
    struct xh_plan_limits lim;
    struct xh_transfer **ts;
    uint64_t ahead = xh_flow_has_family(f) ? xh_room_held() : f->stage->place.bytes;
    xh_limits_get(f, ahead + bytes, bytes / want->n, 1, &lim);
    lim.gap_bytes = 0; /* the gaps may be here already */
    unsigned there = 0, all = wide ? xh_limits_wide(f, bytes, &there) : 0;
    /* Once they are there, each takes a part when it is free, and waits for no slow one. */
    int opens = there < all && bytes / all >= lim.dealt_bytes;
    xh_limits_deal(&lim, opens ? all : 0, bytes);
    if (xh_plan_make(want->at, want->n, &lim, &plan))
        return;
    ts = malloc(plan.ntransfers * sizeof *ts);
    size_t made = 0;
    for (struct xh_prefetch *l; ts && made < plan.ntransfers; ts[made++] = &l->t) {
        const struct xh_plan_transfer *pt = &plan.transfers[made];
        if (!(l = xh_prefetch_add(f, plan.ranges + pt->first, pt->count, 0, NULL)))
            break;
        if (opens && plan.dealt)
            xh_fetch_take_connection(&l->t, made < there);
    }
    xh_prefetch_hand_over(f, ts, made);
    free(ts);
    xh_plan_free(&plan);
}

size_t xh_stage_fetch(struct xh_file *f, const struct xh_range *r, size_t n, int wide)
{
    struct xh_stage *s = f->stage;
    struct xh_range_list want = {0};
    uint64_t bytes = 0, most = f->opt.readahead_bytes;
    size_t i = 0;
    xh_room_make(&s->place, xh_ranges_bytes(r, n), most);
    pthread_mutex_lock(&s->lock);
    for (; i < n; i++) {
        struct xh_range whole = xh_segment_whole(f, r[i]);
        xh_stream_pass_far(s, r[i].off);
        drop_stale(f, whole.len);
        if (!xh_room_reserve(&s->place, whole.len, most))
            break;
        size_t before = want.n;
        int known = xh_segment_missing(f, whole, 0, &want);
        uint64_t lacks = want.n > before ? xh_ranges_bytes(&want.at[before], want.n - before) : 0;
        bytes += lacks;
        xh_room_release(&s->place, whole.len - lacks);
        if (!known)
            break;
    }
    want.n = xh_ranges_join(want.at, want.n, 0); /* what was asked for twice is fetched once */
    if (want.n)
        submit(f, &want, bytes, wide);
    xh_room_release(&s->place, UINT64_MAX); /* what it could not ask for */
    pthread_mutex_unlock(&s->lock);
    free(want.at);
    return i;
}

void xh_stage_again(struct xh_file *f, struct xh_range r, uint64_t within)
{
    struct xh_stage *s = f->stage;
    pthread_mutex_lock(&s->lock);
    size_t i = xh_segment_at(s, r.off);
    if (i < s->n && s->at[i]->off < r.off + r.len)
        xh_again_add(&s->again, r);
    for (; i < s->n && s->at[i]->off < r.off + r.len; i++)
        s->at[i]->due = s->asked + within;
    pthread_mutex_unlock(&s->lock);
}

uint64_t xh_stage_until(struct xh_file *f, uint64_t off)
{
    struct xh_stage *s = f->stage;
    pthread_mutex_lock(&s->lock);
    uint64_t from;
    do {
        from = off;
        for (size_t i = xh_segment_at(s, off); i < s->n && s->at[i]->off <= off; i++)
            off = s->at[i]->end;
        off = xh_stage_will_deal(s, off) ? s->stream_end : off;
    } while (off != from);
    pthread_mutex_unlock(&s->lock);
    return off;
}

int xh_stage_is_empty(struct xh_file *f)
{
    struct xh_stage *s = f->stage;
    pthread_mutex_lock(&s->lock);
    int is = s->n == 0;
    pthread_mutex_unlock(&s->lock);
    return is;
}

int xh_stage_has(struct xh_file *f, uint64_t off)
{
    struct xh_stage *s = f->stage;
    pthread_mutex_lock(&s->lock);
    size_t i = xh_segment_at(s, off);
    int has = (i < s->n && s->at[i]->from <= off) || xh_stage_will_deal(s, off);
    pthread_mutex_unlock(&s->lock);
    return has;
}

void xh_stage_recall(struct xh_file *f)
{
    struct xh_stage *s = f->stage;
    unsigned n = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n;)
        if (xh_prefetch_withdraw(s, s->at[i]->load))
            n++; /* its parcels are gone from here on */
        else
            i++;
    pthread_mutex_unlock(&s->lock);
    if (n)
        xh_trace(XH_T_READ, "recall", "loads=%u", n);
}

unsigned xh_stage_leaving(struct xh_file *f)
{
    struct xh_stage *s = f->stage;
    pthread_mutex_lock(&s->lock);
    unsigned n = (unsigned)s->leaving;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* ---- life */

/* Drops all that nobody waits for, and ends the streams: the room is wanted elsewhere. The lock is held. */
static void empty(struct xh_room_place *p)
{
    struct xh_stage *s = (struct xh_stage *)(void *)((char *)p - offsetof(struct xh_stage, place));
    for (size_t i = xh_stage_loads(s); i-- > 0;)
        xh_stream_leave(s, s->stream[i]);
    for (size_t i = 0; i < s->n;) {
        struct xh_segment *g = s->at[i];
        if (g->load->over && !g->copying && !g->takers) {
            xh_segment_unlist(s, g);
            xh_prefetch_settle(g->load);
        } else if (!xh_prefetch_withdraw(s, g->load)) {
            i++;
        }
    }
    s->lost = 1; /* its reader asks anew, should he come back */
    xh_trace(XH_T_READ, "emptied", "left=%llu", (unsigned long long)s->place.bytes);
}

void xh_stage_init(struct xh_stage *s)
{
    xh_room_begin();
    *s = (struct xh_stage){0};
    pthread_mutex_init(&s->lock, NULL);
    s->place.lock = &s->lock;
    s->place.empty = empty;
}

void xh_stage_join(struct xh_stage *s, struct xh_room_group *g)
{
    s->place.group = g;
}

void xh_stage_free(struct xh_stage *s)
{
    pthread_mutex_lock(&s->lock); /* the room may be at it */
    while (s->n) {
        struct xh_segment *p = s->at[s->n - 1];
        assert(p->load->over && !p->copying && !p->takers);
        xh_segment_unlist(s, p);
        xh_prefetch_settle(p->load);
    }
    xh_room_leave(&s->place);
    pthread_mutex_unlock(&s->lock);
    xh_room_trim(&s->place);
    xh_again_free(&s->again);
    free(s->at);
    pthread_mutex_destroy(&s->lock);
}

void xh_stage_forget(struct xh_stage *s)
{
    xh_stage_init(s); /* what the parent had is leaked: its state cannot be told from sound */
}
