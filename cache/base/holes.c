/* Holes: see holes.h. */
#include "holes.h"

unsigned xh_holes_find(const struct xh_holes *h, struct xh_range r)
{
    for (unsigned i = 0; i < h->n; i++)
        if (r.off >= h->at[i].off && r.off - h->at[i].off < h->at[i].len &&
            r.len <= h->at[i].len - (r.off - h->at[i].off))
            return i;
    return XH_HOLES_MOST;
}

int xh_holes_add(struct xh_holes *h, struct xh_range r)
{
    if (r.len == 0)
        return 1;
    if (h->n == XH_HOLES_MOST)
        return 0;
    h->at[h->n++] = r;
    return 1;
}

void xh_holes_push(struct xh_holes *h, struct xh_range r)
{
    unsigned low = 0;
    for (unsigned i = 1; i < h->n; i++)
        low = h->at[i].off < h->at[low].off ? i : low;
    if (!xh_holes_add(h, r))
        h->at[low] = r;
}

void xh_holes_fill(struct xh_holes *h, unsigned i, struct xh_range r, uint64_t least)
{
    struct xh_range before = {h->at[i].off, r.off - h->at[i].off};
    struct xh_range behind = {r.off + r.len, h->at[i].len - before.len - r.len};
    h->at[i] = h->at[--h->n];
    if (before.len >= least)
        xh_holes_add(h, before);
    if (behind.len >= least)
        xh_holes_add(h, behind);
}

static int begin(struct xh_cover *c, struct xh_range r)
{
    *c = (struct xh_cover){.from = r.off, .to = r.off + r.len, .first = r.off, .bytes = r.len, .reads = 1};
    return 0;
}

int xh_cover_note(struct xh_cover *c, struct xh_range r, uint64_t piece, unsigned passes)
{
    uint64_t end = r.off + r.len;
    struct xh_range gap = {0, 0};
    unsigned i = xh_holes_find(&c->holes, r);
    if (i < XH_HOLES_MOST) {
        xh_holes_fill(&c->holes, i, r, 1);
        c->reads++;
        c->late++;
        c->missing -= r.len;
        c->bytes += r.len;
        return 1;
    }
    if (r.off >= c->to)
        gap = (struct xh_range){c->to, r.off - c->to};
    else if (end <= c->from)
        gap = (struct xh_range){end, c->from - end};
    else if (r.off < c->from || end <= c->to) /* anew */
        return begin(c, r);
    if (c->from == c->to || (c->missing + gap.len) / passes > c->bytes + XH_HOLES_MOST * piece)
        return begin(c, r);
    xh_holes_push(&c->holes, gap);
    c->reads++;
    c->ups += end > c->to;
    c->missing += gap.len;
    c->bytes += end <= c->from ? r.len : end - xh_max64(r.off, c->to);
    c->from = xh_min64(c->from, r.off);
    c->to = xh_max64(c->to, end);
    return 1;
}

int xh_cover_is_upwards(const struct xh_cover *c, unsigned passes)
{
    int up = c->late > 0 ? c->to - c->first >= c->first - c->from : c->first == c->from;
    return up && c->missing / passes <= c->bytes;
}
