/* Ranges in order: see extent.h. */
#include "extent.h"

#include <stdlib.h>

#include "table.h"

static size_t digits(uint64_t v)
{
    size_t n = 1;
    while (v >= 10) {
        v /= 10;
        n++;
    }
    return n;
}

size_t xh_range_header_bytes(struct xh_range r)
{
    return digits(r.off) + digits(r.off + r.len - 1) + 2;
}

size_t xh_range_at(const struct xh_range *r, size_t n, uint64_t off)
{
    size_t before = xh_count_before(i, n, r[i].off <= off);
    return before ? before - 1 : 0;
}

int xh_range_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int xh_range_add(struct xh_range_list *l, uint64_t off, uint64_t len, size_t most)
{
    struct xh_range *last = l->n ? &l->at[l->n - 1] : NULL;
    if (len == 0 || off > INT64_MAX || len > INT64_MAX)
        return 0;
    if (last && off >= last->off && off <= last->off + last->len) {
        last->len = xh_max64(last->len, off + len - last->off);
        return 0;
    }
    return l->n >= most ? -1 : xh_append(l, (struct xh_range){off, len});
}

size_t xh_ranges_join(struct xh_range *r, size_t n, uint64_t gap)
{
    size_t k = 0;
    if (n > 1)
        qsort(r, n, sizeof *r, xh_range_order);
    for (size_t i = 1; i < n; i++) {
        uint64_t end = r[k].off + r[k].len, new_end = r[i].off + r[i].len;
        if (r[i].off > end && r[i].off - end > gap)
            r[++k] = r[i];
        else if (new_end > end)
            r[k].len = new_end - r[k].off;
    }
    return n ? k + 1 : 0;
}
