/* Streams that end early. See cut.h. */
#include "cut.h"

#include "segment.h"

void xh_stream_cut_load(struct xh_prefetch *l, const struct xh_segment *p)
{
    if (l->cut)
        return;
    l->cut = p == l->parcels ? p->off : p[-1].end;
    if (l->pos < l->cut || l->over || l->submitting)
        return; /* on_bytes() will see to it */
    l->ended = 1;
    xh_replicas_cancel(l->f->origin, &l->t);
}

void xh_stream_cut(struct xh_stage *s, uint64_t off)
{
    size_t i = xh_segment_at(s, off);
    s->few = (struct xh_few){0}; /* what is left comes as it does */
    for (size_t k = i; k < s->n; k++)
        if (s->at[k]->off < off || s->at[k]->takers || s->at[k]->got > s->at[k]->off)
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
        xh_stream_cut_load(p->load, p);
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
        xh_stream_cut_load(l, &l->parcels[k]);
    }
}

void xh_stream_cut_all(struct xh_stage *s, uint64_t off, uint64_t ahead)
{
    xh_stream_cut(s, off);
    cut_parts(s, ahead);
    s->granted = s->granted < s->stream_end ? s->granted : s->stream_end;
}

void xh_stream_cut_ahead(struct xh_stage *s, uint64_t ahead)
{
    uint64_t pos = 0;
    for (size_t i = 0; i < XH_STREAMS_MAX && s->stream[i]; i++)
        pos = s->stream[i]->pos > pos ? s->stream[i]->pos : pos;
    xh_stream_cut_all(s, pos + ahead, ahead);
}
