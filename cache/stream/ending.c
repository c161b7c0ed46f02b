/* Streams that end early: see ending.h. */
#include "ending.h"

#include "segment.h"

void xh_stream_deal_no_more(struct xh_stage *s)
{
    s->lost |= s->dealt < s->stream_end;
    s->stream_end = xh_min64(s->stream_end, s->dealt);
}

void xh_stream_leave(struct xh_stage *s, struct xh_prefetch *l)
{
    if (l->takers || l->submitting || l->over)
        return;
    xh_stream_deal_no_more(s);
    for (size_t i = 0; i < l->nparcels; i++) {
        s->lost |= l->parcels[i].listed;
        xh_segment_unlist(s, &l->parcels[i]);
    }
    l->left = 1;
    s->leaving++;
    xh_stage_drop(s, l);
    xh_replicas_cancel(l->f->origin, &l->t);
    xh_prefetch_settle(l); /* its blocks go at once */
}

/* What lies within this of a reader is still in his way: he may be let so far ahead, and come back a little. */
static uint64_t slack_of(const struct xh_file *f)
{
    return f->opt.readahead_bytes + 2 * XH_STREAM_LEAST_BYTES;
}

void xh_stream_leave_stale(struct xh_stage *s)
{
    /* What lies behind the load that is next in the reader's way is in his way, too. */
    uint64_t next = UINT64_MAX, slack = 0;
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++) {
        slack = slack_of(s->stream[i]->f);
        if (s->stream[i]->pos + slack >= s->reach)
            next = xh_min64(next, s->stream[i]->pos);
    }
    for (size_t i = xh_stage_loads(s); i-- > 0;) {
        struct xh_prefetch *l = s->stream[i];
        if (s->clock - l->used >= XH_STALE_READS && (next > s->reach + slack || l->pos + slack < s->reach))
            xh_stream_leave(s, l);
    }
}

void xh_stream_pass_far(struct xh_stage *s, uint64_t off)
{
    size_t i = xh_segment_at(s, off);
    if (i < s->n && s->at[i]->off <= off && xh_segment_is_far(s->at[i], xh_min64(s->here, off), s->here_bytes))
        xh_stream_leave(s, s->at[i]->load);
}

void xh_stream_cut(struct xh_stage *s, uint64_t off)
{
    size_t i = xh_segment_at(s, off);
    xh_stream_deal_no_more(s);
    for (size_t k = i; k < s->n; k++)
        if (s->at[k]->off < off || (s->at[k]->load->turns && (s->at[k]->takers || s->at[k]->got > s->at[k]->off)))
            i = k + 1;
    if (i < s->n)
        s->stream_end = s->at[i]->off;
    while (i < s->n) {
        struct xh_segment *p = s->at[i];
        if (!p->load->turns) {
            i++;
            continue;
        }
        xh_segment_unlist(s, p);
        xh_prefetch_cut(p->load, p);
        s->lost = 1;
    }
}

/* Ends each part |ahead| bytes behind what has come of it and what is waited for. */
static void cut_parts(struct xh_stage *s, uint64_t ahead)
{
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++) {
        struct xh_prefetch *l = s->stream[i];
        size_t k = l->nparcels;
        while (l->in_parts && k > 0 && l->parcels[k - 1].off >= l->pos + ahead && !l->parcels[k - 1].takers)
            k--;
        if (!l->in_parts || l->cut || k == l->nparcels)
            continue;
        for (size_t p = k; p < l->nparcels; p++)
            xh_segment_unlist(s, &l->parcels[p]);
        s->lost = 1;
        xh_prefetch_cut(l, &l->parcels[k]);
    }
}

/* Ends all streams, |ahead| bytes behind |off| or what has come of each part. */
static void cut_all(struct xh_stage *s, uint64_t off, uint64_t ahead)
{
    xh_stream_cut(s, off);
    cut_parts(s, ahead);
    s->granted = s->granted < s->stream_end ? s->granted : s->stream_end;
}

void xh_stage_end(struct xh_file *f)
{
    struct xh_stage *s = f->stage;
    pthread_mutex_lock(&s->lock);
    if (s->stream[0])
        cut_all(s, 0, 0);
    pthread_mutex_unlock(&s->lock);
}

void xh_stage_cut(struct xh_file *f, uint64_t ahead)
{
    struct xh_stage *s = f->stage;
    uint64_t pos = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++)
        pos = s->stream[i]->pos > pos ? s->stream[i]->pos : pos;
    if (s->stream[0])
        cut_all(s, pos + ahead, ahead);
    pthread_mutex_unlock(&s->lock);
}

void xh_stream_leave_passed(struct xh_stage *s)
{
    for (size_t i = 0; i < s->n && s->at[i]->end <= s->here;) {
        struct xh_segment *p = s->at[i];
        if (!p->load->turns || p->copying || p->got < p->end || !p->taken || !xh_segment_is_stale(p)) {
            i++;
            continue;
        }
        xh_segment_unlist(s, p);
        xh_prefetch_settle(p->load);
    }
}

void xh_stage_begins(struct xh_file *f, uint64_t off)
{
    struct xh_stage *s = f->stage;
    uint64_t first = UINT64_MAX, last = 0;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++) {
        first = xh_min64(first, s->stream[i]->pos);
        last = xh_max64(last, s->stream[i]->pos);
    }
    uint64_t middle = last < first ? last : (first + last) / 2; /* some are far ahead of others */
    int behind = middle < off && off - middle > XH_STREAM_LEAST_BYTES;
    int far_before = first > off && first - off > slack_of(f);
    for (size_t i = xh_stage_loads(s); (behind || far_before) && i-- > 0;)
        xh_stream_leave(s, s->stream[i]);
    pthread_mutex_unlock(&s->lock);
}
