/* The plan: see plan.h. Three steps: coalesce, split, group; or two: coalesce, deal. */
#include "plan.h"

#include <assert.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/links.h"

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

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* First byte past the part that starts at |off|, in a range that ends at |end|. Parts are as few as may be
 * and about equal, cut at multiples of align_bytes: a short last one would cost as many round trips. */
static uint64_t part_end(uint64_t off, uint64_t end, const struct xh_plan_limits *lim)
{
    uint64_t begin = off - off % lim->align_bytes, n = ceil_div(end - begin, lim->part_bytes);
    if (end - off <= lim->part_bytes)
        return end;
    uint64_t part = ceil_div(end - begin, n);
    return begin + ceil_div(part, lim->align_bytes) * lim->align_bytes;
}

static size_t count_parts(const struct xh_range *r, size_t n, const struct xh_plan_limits *lim)
{
    size_t parts = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t end = r[i].off + r[i].len;
        for (uint64_t p = r[i].off; p < end; p = part_end(p, end, lim))
            parts++;
    }
    return parts;
}

/* Cuts long ranges. |out| has room for count_parts(). */
static void split(const struct xh_range *in, size_t n, const struct xh_plan_limits *lim,
                  struct xh_range *out)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t end = in[i].off + in[i].len;
        for (uint64_t p = in[i].off; p < end;) {
            uint64_t to = part_end(p, end, lim);
            *out++ = (struct xh_range){p, to - p};
            p = to;
        }
    }
}

/* 1 when range |i| is a part of a split one: it goes alone, for parallelism. Neighbours that touch are such. */
static int is_part(const struct xh_range *r, size_t n, size_t i)
{
    return (i > 0 && r[i - 1].off + r[i - 1].len == r[i].off) || (i + 1 < n && r[i].off + r[i].len == r[i + 1].off);
}

/* How many bytes a transfer of several ranges should carry: so many that all connections get one
 * transfer each, or, where the limits do not allow that, the same number of transfers. One more would
 * cost a round trip in which all the others wait. */
static uint64_t share_of(const struct xh_range *r, size_t n, const struct xh_plan_limits *lim)
{
    uint64_t bytes = 0, count = 0, header;
    for (size_t i = 0; i < n; i++)
        if (!is_part(r, n, i)) {
            bytes += r[i].len;
            count++;
        }
    header = n ? count * xh_range_header_bytes(r[n - 1]) : 0; /* the longest: so the last groups hold theirs too */
    uint64_t spread = bytes / lim->spread_bytes, groups = ceil_div(bytes, lim->group_bytes);
    if (groups < ceil_div(count, lim->max_ranges))
        groups = ceil_div(count, lim->max_ranges);
    if (lim->max_ranges > 1 && groups < ceil_div(header, lim->max_range_header))
        groups = ceil_div(header, lim->max_range_header);
    if (spread > lim->connections)
        spread = lim->connections;
    if (groups < spread)
        groups = spread;
    if (groups > lim->connections)
        groups = ceil_div(groups, lim->connections) * lim->connections;
    return groups ? ceil_div(bytes, groups) : 0;
}

/* A group ends where its share of all bytes does, or at a limit. */
static size_t group(const struct xh_range *r, size_t n, const struct xh_plan_limits *lim,
                    struct xh_plan_transfer *out)
{
    uint64_t share = share_of(r, n, lim), before = 0, last = 0, bytes = 0;
    size_t m = 0, header = 0;
    int open = 0; /* the last transfer takes more ranges */
    for (size_t i = 0; i < n; i++) {
        if (is_part(r, n, i)) {
            out[m++] = (struct xh_plan_transfer){i, 1};
            open = 0;
            continue;
        }
        size_t h = xh_range_header_bytes(r[i]);
        assert(share); /* |i| has one */
        uint64_t nth = (before + r[i].len / 2) / share; /* whose share the range's middle is */
        before += r[i].len;
        if (open && nth == last && out[m - 1].count < lim->max_ranges && header + h <= lim->max_range_header &&
            bytes + r[i].len <= lim->group_bytes) {
            out[m - 1].count++;
            bytes += r[i].len;
            header += h;
            continue;
        }
        out[m++] = (struct xh_plan_transfer){i, 1};
        bytes = r[i].len;
        header = h;
        last = nth;
        open = 1;
    }
    return m;
}

/* Whose turn it is, and how long stripes are. */
struct dealing {
    const struct xh_plan_limits *lim;
    uint64_t rest;   /* bytes that are not dealt yet */
    uint64_t stripe; /* of those that began first, in this turn; the late ones have less */
    unsigned round, turn;
};

static unsigned lag(const struct dealing *d)
{
    return d->turn + d->lim->late >= d->lim->deal ? d->lim->late_turns : 0;
}

/* The stripe of whose turn it is, 0: it has not begun. */
static uint64_t stripe_of(const struct dealing *d)
{
    uint64_t align = d->lim->align_bytes;
    return lag(d) > d->round ? 0 : ceil_div(d->stripe >> lag(d), align) * align;
}

/* The next round of turns, each of which has twice as much; in the last one each as much as is left for it. */
static void next_round(struct dealing *d)
{
    const struct xh_plan_limits *lim = d->lim;
    d->stripe = d->stripe > UINT64_MAX / 4 ? d->stripe : 2 * d->stripe;
    d->round++;
    d->turn = 0;
    unsigned late = d->round >= lim->late_turns ? lim->late : 0;
    uint64_t parts = ((uint64_t)(lim->deal - lim->late) << lim->late_turns) + late;
    uint64_t each = ceil_div(d->rest << lim->late_turns, parts);
    each = ceil_div(each, lim->align_bytes) * lim->align_bytes;
    if (lim->even && each && each < d->stripe)
        d->stripe = each;
}

static uint64_t next_stripe(struct dealing *d)
{
    uint64_t stripe;
    do {
        if (++d->turn == d->lim->deal)
            next_round(d);
        stripe = stripe_of(d);
    } while (stripe == 0);
    return stripe;
}

/* Deals |in| in stripes. Without |out|, counts how many ranges each gets, in t[].count; with it,
 * writes them from t[].first on. */
static void deal(const struct xh_range *in, size_t n, const struct xh_plan_limits *lim, struct xh_plan_transfer *t,
                 struct xh_range *out)
{
    struct dealing d = {.lim = lim, .rest = xh_ranges_bytes(in, n), .stripe = lim->stripe_bytes};
    uint64_t left = d.stripe;
    for (size_t i = 0; i < lim->deal; i++)
        t[i].count = 0;
    for (size_t i = 0; i < n; i++)
        for (uint64_t p = in[i].off, end = p + in[i].len, to; p < end; p = to) {
            uint64_t cut = p + left - (p + left) % lim->align_bytes;
            to = cut > p && cut < end ? cut : end;
            if (out)
                out[t[d.turn].first + t[d.turn].count] = (struct xh_range){p, to - p};
            t[d.turn].count++;
            left -= to - p < left ? to - p : left;
            d.rest -= to - p;
            if (to < end || left < lim->align_bytes) /* else the next range goes on with the stripe */
                left = next_stripe(&d);
        }
}

/* Returns 0, 1: the limits do not allow it, or XH_E_NOMEM. */
static int make_dealt(const struct xh_range *joined, size_t m, const struct xh_plan_limits *lim, struct xh_plan *p)
{
    size_t n = 0, all = 0, most = 0;
    if (lim->deal < 2 || xh_ranges_bytes(joined, m) / lim->deal < lim->dealt_bytes)
        return 1;
    size_t header = xh_range_header_bytes(joined[m - 1]);
    struct xh_plan_transfer *t = calloc(lim->deal, sizeof *t);
    if (!t)
        return XH_E_NOMEM;
    deal(joined, m, lim, t, NULL);
    for (; n < lim->deal && t[n].count; all += t[n++].count) {
        t[n].first = all;
        most = t[n].count > most ? t[n].count : most;
    }
    assert(all);
    int rc = most > lim->max_ranges || (most > 1 && most * header > lim->max_range_header) ? 1 : 0;
    p->ranges = rc ? NULL : malloc(all * sizeof *p->ranges);
    if (!p->ranges) {
        free(t);
        return rc ? rc : XH_E_NOMEM;
    }
    deal(joined, m, lim, t, p->ranges);
    p->transfers = t;
    p->ntransfers = n;
    p->nranges = all;
    p->dealt = 1;
    return 0;
}

void xh_plan_deal_at_once(struct xh_plan_limits *lim, uint64_t bytes, unsigned there, unsigned more,
                          uint64_t flight_bytes)
{
    /* Each has what it brings in a round trip, and twice as much in each next one, as slow start does. A new one is
     * behind by its opening, and by the round trips in which the others have grown. */
    uint64_t requests = bytes / XH_REQUEST_LEAST_BYTES + 1, each;
    there = there < requests ? there : (unsigned)requests;
    each = ceil_div(bytes, there) < flight_bytes ? ceil_div(bytes, there) : flight_bytes;
    uint64_t flights = flight_bytes / (uint64_t)XH_LINK_FIRST_BYTES | 1;
    lim->late_turns = XH_LINK_OPENING_TRIPS + 63 - (unsigned)__builtin_clzll(flights);
    uint64_t theirs = (uint64_t)there << lim->late_turns;
    lim->late = requests <= theirs ? 0 : requests - theirs < more ? (unsigned)(requests - theirs) : more;
    lim->stripe_bytes = ceil_div(each, lim->align_bytes) * lim->align_bytes;
    lim->deal = there + lim->late;
    lim->dealt_bytes = 1;
    lim->even = 1;
}

int xh_plan_make(const struct xh_range *wanted, size_t n, const struct xh_plan_limits *lim,
                 struct xh_plan *out)
{
    assert(lim->part_bytes > 0 && lim->align_bytes > 0 && lim->part_bytes % lim->align_bytes == 0);
    assert(lim->deal < 2 || (lim->dealt_bytes && lim->stripe_bytes && lim->stripe_bytes % lim->align_bytes == 0));
    assert(lim->max_ranges >= 1 && lim->max_range_header >= 1 && lim->group_bytes >= 1 && lim->spread_bytes >= 1 &&
           lim->connections >= 1);
    struct xh_plan p = {0};
    struct xh_range *joined = malloc((n ? n : 1) * sizeof *joined);
    if (!joined)
        return XH_E_NOMEM;
    size_t m = coalesce(wanted, n, lim->gap_bytes, joined);
    int rc = make_dealt(joined, m, lim, &p);
    if (rc <= 0) {
        free(joined);
        if (rc == 0)
            *out = p;
        return rc;
    }
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
