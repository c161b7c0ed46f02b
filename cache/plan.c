/* The plan: see plan.h. Three steps: coalesce, split, group. */
#include "plan.h"

#include <assert.h>
#include <stdlib.h>

#include "err.h"

/* A request costs the server and us about as much as this many bytes on a fast link:
 * grouping below it gains nothing from more parallel transfers. */
#define LEAST_GROUP_BYTES 65536u

static size_t digits(uint64_t v)
{
    size_t n = 1;
    while (v >= 10) {
        v /= 10;
        n++;
    }
    return n;
}

/* Length of one range in a Range header: "first-last" and a comma. */
static size_t header_bytes(const struct xh_range *r)
{
    return digits(r->off) + digits(r->off + r->len - 1) + 2;
}

/* Joins neighbours across small gaps; |out| may be as long as |in|. Returns the number left. */
static size_t coalesce(const struct xh_range *in, size_t n, uint64_t gap, struct xh_range *out)
{
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        assert(in[i].len > 0);
        if (m > 0) {
            uint64_t end = out[m - 1].off + out[m - 1].len;
            assert(in[i].off >= end);
            if (in[i].off - end <= gap) {
                out[m - 1].len = in[i].off + in[i].len - out[m - 1].off;
                continue;
            }
        }
        out[m++] = in[i];
    }
    return m;
}

/* First byte past the part that starts at |off|: cuts fall on multiples of part_bytes from
 * the aligned start, so that parts are equal but for the ends. */
static uint64_t part_end(uint64_t off, uint64_t end, const struct xh_plan_limits *lim)
{
    uint64_t cut = off - off % lim->align_bytes + lim->part_bytes;
    return cut < end ? cut : end;
}

static size_t count_parts(const struct xh_range *r, size_t n, const struct xh_plan_limits *lim)
{
    size_t parts = 0;
    for (size_t i = 0; i < n; i++)
        for (uint64_t p = r[i].off, end = r[i].off + r[i].len; p < end; p = part_end(p, end, lim))
            parts++;
    return parts;
}

/* Cuts long ranges. |out| has room for count_parts(). */
static void split(const struct xh_range *in, size_t n, const struct xh_plan_limits *lim,
                  struct xh_range *out)
{
    for (size_t i = 0; i < n; i++)
        for (uint64_t p = in[i].off, end = in[i].off + in[i].len; p < end;) {
            uint64_t to = part_end(p, end, lim);
            *out++ = (struct xh_range){p, to - p};
            p = to;
        }
}

/* How many bytes a transfer of several ranges should carry. */
static uint64_t group_bytes(const struct xh_range *r, size_t n, const struct xh_plan_limits *lim)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += r[i].len;
    uint64_t share = all / lim->connections;
    if (share < LEAST_GROUP_BYTES)
        share = LEAST_GROUP_BYTES;
    return share < lim->part_bytes ? share : lim->part_bytes;
}

static size_t group(const struct xh_range *r, size_t n, const struct xh_plan_limits *lim,
                    struct xh_plan_transfer *out)
{
    uint64_t most = group_bytes(r, n, lim);
    size_t m = 0;
    uint64_t bytes = 0;
    size_t header = 0;
    for (size_t i = 0; i < n; i++) {
        struct xh_plan_transfer *last = m ? &out[m - 1] : NULL;
        size_t h = header_bytes(&r[i]);
        /* Parts of one split range touch: each goes alone, for parallelism. */
        int touches = i > 0 && r[i - 1].off + r[i - 1].len == r[i].off;
        if (last && !touches && last->count < lim->max_ranges && header + h <= lim->max_range_header &&
            bytes + r[i].len <= most) {
            last->count++;
            bytes += r[i].len;
            header += h;
        } else {
            out[m++] = (struct xh_plan_transfer){i, 1};
            bytes = r[i].len;
            header = h;
        }
    }
    return m;
}

int xh_plan_make(const struct xh_range *wanted, size_t n, const struct xh_plan_limits *lim,
                 struct xh_plan *out)
{
    assert(lim->part_bytes > 0 && lim->align_bytes > 0 && lim->part_bytes % lim->align_bytes == 0);
    assert(lim->max_ranges >= 1 && lim->connections >= 1);
    struct xh_plan p = {0};
    struct xh_range *joined = malloc((n ? n : 1) * sizeof *joined);
    if (!joined)
        return XH_E_NOMEM;
    size_t m = coalesce(wanted, n, lim->gap_bytes, joined);
    p.nranges = count_parts(joined, m, lim);
    p.ranges = malloc((p.nranges ? p.nranges : 1) * sizeof *p.ranges);
    p.transfers = malloc((p.nranges ? p.nranges : 1) * sizeof *p.transfers);
    if (!p.ranges || !p.transfers) {
        free(joined);
        xh_plan_free(&p);
        return XH_E_NOMEM;
    }
    split(joined, m, lim, p.ranges);
    p.ntransfers = group(p.ranges, p.nranges, lim, p.transfers);
    free(joined);
    *out = p;
    return 0;
}

void xh_plan_free(struct xh_plan *p)
{
    free(p->ranges);
    free(p->transfers);
    *p = (struct xh_plan){0};
}
