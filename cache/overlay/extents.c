/* Sets of extents: see extents.h. */
#include "extents.h"

#include <stdlib.h>
#include <string.h>

#include "base/table.h"

/* Returns the index of the first stretch that ends behind |off|; s->n when there is none. */
static size_t find(const struct xh_extents *s, uint64_t off)
{
    if (s->n && s->at[s->n - 1].end <= off) /* fast path: files mostly grow */
        return s->n;
    return xh_count_before(i, s->n, s->at[i].end <= off);
}

static void count(struct xh_extents *s, size_t from, size_t to, int sign)
{
    for (size_t i = from; i < to; i++)
        s->bytes += (uint64_t)sign * (s->at[i].end - s->at[i].off);
}

/* Replaces the stretches [first, last) by the |n| of |with|. The room is there. */
static void replace(struct xh_extents *s, size_t first, size_t last, const struct xh_stretch *with, size_t n)
{
    count(s, first, last, -1);
    if (last < s->n)
        memmove(s->at + first + n, s->at + last, (s->n - last) * sizeof *s->at);
    if (n)
        memcpy(s->at + first, with, n * sizeof *with);
    s->moved += s->n - last + n;
    s->n = s->n - (last - first) + n;
    count(s, first, first + n, 1);
}

/* Appends to |out|, of |n|, joined to the last one where they touch and are of one kind. Returns the new number. */
static size_t append(struct xh_stretch *out, size_t n, struct xh_stretch t)
{
    if (t.off >= t.end)
        return n;
    if (n && out[n - 1].end == t.off && out[n - 1].kind == t.kind)
        out[n - 1].end = t.end;
    else
        out[n++] = t;
    return n;
}

/* Puts the |n| stretches of |with|, or without |add| cuts them. Returns 0 or -1. */
static int change(struct xh_extents *s, const struct xh_stretch *with, size_t n, int add)
{
    if (n == 0)
        return 0;
    size_t first = find(s, with->off), last = find(s, with[n - 1].end), at, k = 0;
    first -= first > 0; /* the one before may touch, and so may the last */
    last += last < s->n && s->at[last].off <= with[n - 1].end;
    struct xh_stretch rest = {0}, *out = malloc((last - first + 2 * n) * sizeof *out);
    if (!out)
        return -1;
    at = first;
    /* |rest|: what is left of a stretch that was begun, and lies behind the one that was put last */
    for (size_t i = 0; i < n; i++) {
        for (;;) {
            if (rest.off >= rest.end && at < last)
                rest = s->at[at++];
            if (rest.off >= rest.end || rest.end > with[i].off)
                break;
            k = append(out, k, rest);
            rest.off = rest.end;
        }
        if (rest.off < rest.end && rest.off < with[i].off) /* it ends behind that */
            k = append(out, k, (struct xh_stretch){rest.off, with[i].off, rest.kind});
        if (add)
            k = append(out, k, with[i]);
        while (rest.end <= with[i].end && at < last)
            rest = s->at[at++];
        if (rest.off < with[i].end)
            rest.off = with[i].end; /* nothing is left where it ends before */
    }
    k = append(out, k, rest);
    while (at < last)
        k = append(out, k, s->at[at++]);
    int rc = k > last - first ? xh_grow(s->at, s->room, s->n + k - (last - first)) : 0;
    if (rc == 0)
        replace(s, first, last, out, k);
    free(out);
    return rc;
}

int xh_extents_put(struct xh_extents *s, uint64_t off, uint64_t end, int kind)
{
    return change(s, &(struct xh_stretch){off, end, kind}, off < end, 1);
}

int xh_extents_put_all(struct xh_extents *s, const struct xh_stretch *with, size_t n)
{
    return change(s, with, n, 1);
}

int xh_extents_cut(struct xh_extents *s, uint64_t off, uint64_t end)
{
    return change(s, &(struct xh_stretch){off, end, 0}, off < end, 0);
}

int xh_extents_next(const struct xh_extents *s, uint64_t off, uint64_t end, uint64_t *to, int *kind)
{
    size_t i = find(s, off);
    int in = i < s->n && s->at[i].off <= off;
    uint64_t until = i == s->n ? end : in ? s->at[i].end : s->at[i].off;
    *to = until < end ? until : end;
    if (kind)
        *kind = in ? s->at[i].kind : 0;
    return in;
}

int xh_extents_covers(const struct xh_extents *s, uint64_t off, uint64_t end)
{
    while (off < end)
        if (!xh_extents_next(s, off, end, &off, NULL))
            return 0;
    return 1;
}

void xh_extents_free(struct xh_extents *s)
{
    free(s->at);
    *s = (struct xh_extents){0};
}
