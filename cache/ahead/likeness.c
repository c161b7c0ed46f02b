/* Whether files are read alike: see likeness.h. */
#include "likeness.h"

int xh_likeness_note(struct xh_likeness *l, uint64_t off, uint64_t len, int raw, uint64_t most)
{
    uint64_t from = off / XH_PAGE_BYTES * XH_PAGE_BYTES, to = xh_page_up(off + len) * XH_PAGE_BYTES;
    if (to - from > most) {
        l->more = 1;
        return 0;
    }
    for (unsigned i = 0; i < l->n && from < to; i++) {
        uint64_t begin = l->at[i].off, end = begin + l->at[i].len;
        if (from >= begin && from < end)
            from = xh_min64(end, to);
        else if (to > begin && to <= end)
            to = begin;
    }
    if (from == to)
        return 0;
    if (l->n == XH_LIKENESS_PLACES || to - from > most - xh_min64(l->bytes, most)) {
        l->more = l->full = 1;
        return 1;
    }
    struct xh_range *last = l->n ? &l->at[l->n - 1] : NULL;
    if (last && last->off + last->len == from && l->raw[l->n - 1] == raw) {
        last->len += to - from;
    } else {
        l->raw[l->n] = (unsigned char)raw;
        l->at[l->n++] = (struct xh_range){from, to - from};
    }
    l->bytes += to - from;
    return 0;
}

/* Where the place |i| of |l| begins in a file of |size| bytes; negative: before it. */
static int64_t place_in(const struct xh_likeness *l, unsigned i, uint64_t size, int from_end)
{
    return (int64_t)l->at[i].off + (from_end ? (int64_t)size - (int64_t)l->size : 0);
}

/* How many bytes of the place |i| of |now| |before| has, all counted from the beginning or the end. */
static uint64_t had(const struct xh_likeness *before, const struct xh_likeness *now, unsigned i, int from_end)
{
    int64_t from = (int64_t)now->at[i].off, to = from + (int64_t)now->at[i].len, sum = 0;
    for (unsigned k = 0; k < before->n; k++) {
        int64_t begin = place_in(before, k, now->size, from_end), end = begin + (int64_t)before->at[k].len;
        int64_t a = from > begin ? from : begin, b = to < end ? to : end;
        sum += b > a ? b - a : 0;
    }
    return (uint64_t)sum;
}

int xh_likeness_find(const struct xh_likeness *before, struct xh_likeness *now)
{
    uint64_t both = 0;
    for (unsigned i = 0; i < now->n; i++) {
        uint64_t begin = had(before, now, i, 0), end = had(before, now, i, 1);
        now->from_end[i] = end > begin;
        both += xh_max64(begin, end);
    }
    return both > 0 && both >= now->bytes / 2 && both >= before->bytes / 2;
}

size_t xh_likeness_expect(const struct xh_likeness *l, uint64_t size, struct xh_range out[XH_LIKENESS_PLACES])
{
    size_t n = 0;
    for (unsigned i = 0; i < l->n; i++) {
        int64_t from = place_in(l, i, size, l->from_end[i]), to = from + (int64_t)l->at[i].len;
        from = from > 0 ? from : 0;
        to = to < (int64_t)size ? to : (int64_t)size;
        if (to > from && !(l->full && l->raw[i]))
            out[n++] = (struct xh_range){(uint64_t)from, (uint64_t)(to - from)};
    }
    return n;
}

int xh_likeness_covers(const struct xh_range *r, size_t n, uint64_t off, uint64_t len)
{
    /* Some may lie in one another: places that count from the beginning, and from the end. */
    for (size_t i = 0; i < n && len; i++) {
        if (off < r[i].off || off >= r[i].off + r[i].len)
            continue;
        uint64_t step = xh_min64(len, r[i].off + r[i].len - off);
        off += step;
        len -= step;
        i = (size_t)-1; /* what lies next may stand before this one */
    }
    return len == 0;
}
