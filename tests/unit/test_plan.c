/* The plan against a naive model: a byte map of a small object. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pages/plan.h"

#define SPACE 4000u

static struct xh_plan_limits limits(void)
{
    return (struct xh_plan_limits){.gap_bytes = 0,
                                   .part_bytes = 1u << 20,
                                   .align_bytes = 4096,
                                   .group_bytes = 4u << 20,
                                   .spread_bytes = 65536,
                                   .max_ranges = 1,
                                   .max_range_header = 3900,
                                   .connections = 1};
}

Test(plan, nothing_wanted_gives_no_transfer)
{
    struct xh_plan_limits lim = limits();
    struct xh_plan p;
    cr_assert_eq(xh_plan_make(NULL, 0, &lim, &p), 0);
    cr_assert_eq(p.ntransfers, 0);
    xh_plan_free(&p);
}

Test(plan, a_long_range_is_split_at_aligned_borders)
{
    struct xh_plan_limits lim = limits();
    struct xh_range r = {5000, 3u << 20};
    struct xh_plan p;
    cr_assert_eq(xh_plan_make(&r, 1, &lim, &p), 0);
    cr_assert_eq(p.nranges, 4);
    cr_assert_eq(p.ntransfers, 4);
    for (size_t i = 1; i < p.nranges; i++)
        cr_assert_eq(p.ranges[i].off % 4096, 0);
    xh_plan_free(&p);
}

Test(plan, the_parts_of_a_long_range_are_about_equal)
{
    struct xh_plan_limits lim = limits();
    struct xh_range r = {5000, (1u << 20) + 10}, whole = {5000, 1u << 20};
    struct xh_plan p;
    cr_assert_eq(xh_plan_make(&r, 1, &lim, &p), 0);
    cr_assert_eq(p.nranges, 2);
    cr_assert_geq(p.ranges[1].len, (1u << 19) - 8192);
    xh_plan_free(&p);
    cr_assert_eq(xh_plan_make(&whole, 1, &lim, &p), 0);
    cr_assert_eq(p.nranges, 1);
    xh_plan_free(&p);
}

Test(plan, a_small_gap_is_joined_and_a_larger_one_is_not)
{
    struct xh_plan_limits lim = limits();
    struct xh_range r[3] = {{0, 10}, {20, 10}, {41, 10}};
    struct xh_plan p;
    lim.gap_bytes = 10;
    cr_assert_eq(xh_plan_make(r, 3, &lim, &p), 0);
    cr_assert_eq(p.nranges, 2);
    cr_assert_eq(p.ranges[0].len, 30);
    xh_plan_free(&p);
}

/* 1,000 ranges of 12 KB, or so many that the limits hold: all connections are busy for one round of
 * transfers, or for as many as it takes. None is left for a round of its own. */
Test(plan, many_small_ranges_share_requests_in_even_rounds_of_all_connections)
{
    static struct xh_range r[4000];
    struct xh_plan p;
    for (size_t i = 0; i < 4000; i++)
        r[i] = (struct xh_range){i * 1000000, 12000};
    for (unsigned connections = 1; connections <= 16; connections++)
        for (size_t n = 500; n <= 4000; n += 500) {
            struct xh_plan_limits lim = limits();
            lim.max_ranges = 200;
            lim.connections = connections;
            cr_assert_eq(xh_plan_make(r, n, &lim, &p), 0);
            cr_assert_eq(p.ntransfers % connections, 0, "%zu for %u", p.ntransfers, connections);
            cr_assert_leq(p.ntransfers, (n / 170 / connections + 1) * connections);
            for (size_t i = 0; i < p.ntransfers; i++)
                cr_assert_leq(p.transfers[i].count, n / p.ntransfers + 1, "%zu: %zu of %zu in %zu for %u", i,
                              p.transfers[i].count, n, p.ntransfers, connections);
            xh_plan_free(&p);
        }
}

static size_t text_bytes(const struct xh_plan *p, const struct xh_plan_transfer *t)
{
    size_t n = 0;
    char line[64];
    for (size_t i = t->first; i < t->first + t->count; i++)
        n += (size_t)snprintf(line, sizeof line, "%llu-%llu,", (unsigned long long)p->ranges[i].off,
                              (unsigned long long)(p->ranges[i].off + p->ranges[i].len - 1));
    return n;
}

/* Checks everything that plan.h promises, unit by unit of |unit| bytes. */
static void check(const struct xh_range *w, size_t n, const struct xh_plan_limits *lim,
                  const struct xh_plan *p, uint64_t unit)
{
    unsigned char wanted[SPACE] = {0}, got[SPACE] = {0};
    for (size_t i = 0; i < n; i++)
        memset(wanted + w[i].off / unit, 1, w[i].len / unit);
    uint64_t end = 0;
    for (size_t i = 0; i < p->nranges; i++) {
        cr_assert_gt(p->ranges[i].len, 0);
        cr_assert_leq(p->ranges[i].len, lim->part_bytes);
        cr_assert_geq(p->ranges[i].off, end);
        end = p->ranges[i].off + p->ranges[i].len;
        cr_assert(p->ranges[i].off % unit == 0 && p->ranges[i].len % unit == 0);
        memset(got + p->ranges[i].off / unit, 1, p->ranges[i].len / unit);
    }
    for (size_t b = 0, gap = 0; b < SPACE; b++) {
        cr_assert(!wanted[b] || got[b], "unit %zu is wanted and not planned", b);
        gap = got[b] && !wanted[b] ? gap + 1 : 0;
        cr_assert_leq(gap * unit, lim->gap_bytes);
    }
    size_t next = 0;
    for (size_t i = 0; i < p->ntransfers; i++) {
        const struct xh_plan_transfer *t = &p->transfers[i];
        cr_assert_eq(t->first, next);
        cr_assert_geq(t->count, 1);
        cr_assert_leq(t->count, lim->max_ranges);
        next = t->first + t->count;
        if (t->count > 1) {
            uint64_t sum = 0;
            for (size_t k = t->first; k < next; k++)
                sum += p->ranges[k].len;
            cr_assert_leq(sum, lim->group_bytes);
            cr_assert_leq(text_bytes(p, t), lim->max_range_header);
        }
    }
    cr_assert_eq(next, p->nranges);
}

Test(plan, random_wishes_are_covered_within_every_limit, .timeout = 120)
{
    srand(7);
    for (int round = 0; round < 20000; round++) {
        struct xh_range w[64];
        size_t n = 0, most = rand() % 4 ? 64 : 1 + (size_t)rand() % 8;
        uint64_t at = (uint64_t)(rand() % 50), unit = rand() % 2 ? 4096 : 1;
        while (n < most) {
            uint64_t len = 1 + (uint64_t)(rand() % (rand() % 8 ? 30 : 900));
            if (at + len > SPACE)
                break;
            w[n++] = (struct xh_range){at * unit, len * unit};
            at += len + (uint64_t)(rand() % (rand() % 4 ? 20 : 300));
        }
        uint64_t align = unit << (rand() % 5);
        struct xh_plan_limits lim = {.gap_bytes = (uint64_t)(rand() % 40) * unit,
                                     .part_bytes = align * (1 + (uint64_t)(rand() % 60)),
                                     .align_bytes = align,
                                     .group_bytes = 1 + (uint64_t)(rand() % 2000) * unit,
                                     .max_ranges = 1 + (unsigned)(rand() % 20),
                                     .max_range_header = 10 + (size_t)(rand() % 100),
                                     .spread_bytes = 1 + (uint64_t)(rand() % 4000),
                                     .connections = 1 + (unsigned)(rand() % 16)};
        struct xh_plan p;
        cr_assert_eq(xh_plan_make(w, n, &lim, &p), 0);
        check(w, n, &lim, &p, unit);
        xh_plan_free(&p);
    }
}
