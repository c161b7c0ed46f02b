/* The plan against a naive model: a byte map of a small object. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pages/limits.h"
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

/* ---- dealing */

static struct xh_plan_limits dealing(unsigned to, uint64_t least, uint64_t stripe)
{
    struct xh_plan_limits lim = limits();
    lim.max_ranges = 100;
    lim.deal = to;
    lim.dealt_bytes = least;
    lim.stripe_bytes = stripe;
    return lim;
}

Test(plan, bytes_are_dealt_in_stripes_that_grow_with_each_turn)
{
    struct xh_plan_limits lim = dealing(2, 65536, 65536);
    struct xh_range r = {5000, 400000};
    const struct xh_range want[] = {{5000, 64632}, {135168, 131072}, {69632, 65536}};
    struct xh_plan p;
    cr_assert_eq(xh_plan_make(&r, 1, &lim, &p), 0);
    cr_assert_eq(p.ntransfers, 2);
    cr_assert_eq(p.nranges, 5);
    cr_assert_eq(p.transfers[1].count, 2);
    uint64_t sum = 0;
    for (size_t i = 0; i < p.nranges; i++)
        sum += p.ranges[i].len;
    cr_assert_eq(sum, r.len);
    cr_assert_eq(p.ranges[0].off, want[0].off);
    cr_assert_eq(p.ranges[0].len, want[0].len);
    cr_assert_eq(p.ranges[1].len, want[1].len);
    cr_assert_eq(p.ranges[p.transfers[1].first].off, want[2].off);
    cr_assert_eq(p.ranges[p.transfers[1].first].len, want[2].len);
    xh_plan_free(&p);
}

Test(plan, where_dealing_is_even_all_have_as_much_in_the_last_turn)
{
    struct xh_plan_limits lim = dealing(4, 65536, 65536);
    struct xh_range r = {4096, 4 * 65536 + 4 * 131072 + 4 * 20480 - 4096};
    struct xh_plan p;
    lim.even = 1;
    cr_assert_eq(xh_plan_make(&r, 1, &lim, &p), 0);
    cr_assert(p.dealt);
    cr_assert_eq(p.ntransfers, 4);
    for (size_t t = 0; t < 4; t++) {
        const struct xh_range *last = &p.ranges[p.transfers[t].first + p.transfers[t].count - 1];
        cr_assert_eq(p.transfers[t].count, 3);
        cr_assert_leq(last->len, 20480);
        cr_assert_geq(last->len, 20480 - 2 * 4096);
    }
    xh_plan_free(&p);
}

Test(plan, those_that_begin_later_get_less)
{
    struct xh_plan_limits lim = dealing(5, 1, 16384);
    struct xh_range r = {0, 2 * (16384 + 32768 + 65536) + 3 * 16384};
    struct xh_plan p;
    lim.late = 3;
    lim.late_turns = 2;
    cr_assert_eq(xh_plan_make(&r, 1, &lim, &p), 0);
    cr_assert_eq(p.ntransfers, 5);
    for (size_t t = 0; t < 5; t++) {
        const struct xh_range *at = &p.ranges[p.transfers[t].first];
        cr_assert_eq(p.transfers[t].count, t < 2 ? 3 : 1);
        for (size_t i = 0; i < p.transfers[t].count; i++)
            cr_assert_eq(at[i].len, 16384u << i);
        cr_assert_eq(at[0].off, t < 2 ? t * 16384 : 2 * (16384 + 32768 + 65536) + (t - 2) * 16384);
    }
    xh_plan_free(&p);
    lim.even = 1;
    r.len += 2 * 8192 + 3 * 4096; /* too little for another turn: each has as much more as it has of the others */
    cr_assert_eq(xh_plan_make(&r, 1, &lim, &p), 0);
    uint64_t most[2] = {0}, least[2] = {UINT64_MAX, UINT64_MAX};
    for (size_t t = 0; t < 5; t++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < p.transfers[t].count; i++)
            sum += p.ranges[p.transfers[t].first + i].len;
        most[t >= 2] = sum > most[t >= 2] ? sum : most[t >= 2];
        least[t >= 2] = sum < least[t >= 2] ? sum : least[t >= 2];
    }
    cr_assert(most[0] - least[0] <= 16384 && most[1] - least[1] <= 4096);
    cr_assert(least[0] >= 16384 + 32768 + 65536 && least[1] >= 16384);
    xh_plan_free(&p);
    lim.late_turns = 8; /* all is dealt by then: those get nothing, and are none */
    cr_assert_eq(xh_plan_make(&r, 1, &lim, &p), 0);
    cr_assert_eq(p.ntransfers, 2);
    xh_plan_free(&p);
}

Test(plan, a_new_connection_gets_as_much_as_it_brings_until_those_that_are_open_are_done)
{
    static const struct {
        uint64_t bytes, flight_bytes;
        unsigned there, more, has, late, late_turns;
        uint64_t stripe_bytes;
    } table[] = {
        {500 * 1000, 14600, 2, 14, 2, 0, 2, 16384},         /* less than a request for each new one */
        {1015 * 1000, 20760, 2, 14, 2, 8, 2, 24576},        /* 16 requests' bytes, of which two have eight */
        {8 * 1000 * 1000, 20760, 2, 14, 2, 14, 2, 24576},
        {8 * 1000 * 1000, 20760, 2, 3, 2, 3, 2, 24576},     /* others use the rest */
        {8 * 1000 * 1000, 20760, 16, 0, 16, 0, 2, 24576},
        {8 * 1000 * 1000, 30000, 2, 14, 2, 14, 3, 32768},   /* a round trip further */
        {8 * 1000 * 1000, 2000000, 3, 13, 3, 0, 9, 2002944}, /* those are done before a new one is there */
        {8 * 1000 * 1000, 2000000, 16, 4, 16, 0, 9, 503808}, /* in a round trip each */
        {300 * 1000, 20760, 63, 0, 5, 0, 2, 24576},         /* a request each is too much */
        {1, 20760, 63, 0, 1, 0, 2, 4096},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct xh_plan_limits lim = limits();
        struct xh_range r = {0, table[i].bytes};
        struct xh_plan p;
        lim.max_ranges = 100;
        xh_plan_deal_at_once(&lim, table[i].bytes, table[i].there, table[i].more, table[i].flight_bytes);
        cr_assert_eq(lim.late, table[i].late, "%zu: %u", i, lim.late);
        cr_assert_eq(lim.late_turns, table[i].late_turns);
        cr_assert_eq(lim.stripe_bytes, table[i].stripe_bytes, "%zu: %" PRIu64, i, lim.stripe_bytes);
        cr_assert_eq(xh_plan_make(&r, 1, &lim, &p), 0);
        cr_assert_eq(p.ntransfers, table[i].has + table[i].late, "%zu: %zu", i, p.ntransfers);
        xh_plan_free(&p);
    }
}

Test(plan, too_few_bytes_or_too_many_ranges_are_not_dealt)
{
    struct xh_plan_limits few = dealing(4, 65536, 4096), many = dealing(4, 4096, 4096);
    struct xh_range r = {0, 4 * 65536 - 1}, long_one = {0, 1u << 20};
    struct xh_plan p;
    many.max_ranges = 2;
    cr_assert_eq(xh_plan_make(&r, 1, &few, &p), 0);
    cr_assert_eq(p.ntransfers, 1);
    xh_plan_free(&p);
    cr_assert_eq(xh_plan_make(&long_one, 1, &many, &p), 0);
    cr_assert_eq(p.ntransfers, 1);
    xh_plan_free(&p);
}

Test(plan, where_a_request_has_one_range_each_gets_one)
{
    struct xh_range r = {4096 + 5, 1000003};
    struct xh_plan_limits lim = dealing(7, 65536, 65536);
    struct xh_plan p;
    lim.max_ranges = 1;
    xh_limits_deal(&lim, 7, r.len);
    cr_assert_eq(xh_plan_make(&r, 1, &lim, &p), 0);
    cr_assert(p.dealt);
    cr_assert_eq(p.ntransfers, 7);
    for (size_t i = 0; i < 7; i++) {
        cr_assert_eq(p.transfers[i].count, 1);
        cr_assert_eq(p.ranges[i].off, i ? p.ranges[i - 1].off + p.ranges[i - 1].len : r.off);
    }
    cr_assert_eq(p.ranges[6].off + p.ranges[6].len, r.off + r.len);
    xh_plan_free(&p);
}

Test(plan, what_is_dealt_covers_each_wanted_byte_once)
{
    srand(7);
    for (int round = 0; round < 500; round++) {
        static uint8_t want[SPACE], got[SPACE];
        struct xh_range r[20];
        size_t n = 0;
        uint64_t align = 1 + (uint64_t)(rand() % 3);
        struct xh_plan_limits lim = dealing(2 + (unsigned)(rand() % 5), 1 + (uint64_t)(rand() % 50),
                                            align * (1 + (uint64_t)(rand() % 40)));
        struct xh_plan p;
        lim.align_bytes = lim.part_bytes = align;
        lim.even = round % 2;
        lim.late = (unsigned)rand() % lim.deal;
        lim.late_turns = (unsigned)rand() % 4;
        memset(want, 0, sizeof want);
        memset(got, 0, sizeof got);
        for (uint64_t off = (uint64_t)(rand() % 100); n < 20 && off + 200 < SPACE; off += 1 + (uint64_t)(rand() % 90)) {
            r[n] = (struct xh_range){off, 1 + (uint64_t)(rand() % 200)};
            off += r[n++].len;
        }
        for (size_t i = 0; i < n; i++)
            memset(want + r[i].off, 1, r[i].len);
        cr_assert_eq(xh_plan_make(r, n, &lim, &p), 0);
        size_t ranges = 0;
        for (size_t t = 0; t < p.ntransfers; ranges += p.transfers[t++].count)
            for (size_t i = p.transfers[t].first; i < p.transfers[t].first + p.transfers[t].count; i++) {
                cr_assert(i == p.transfers[t].first || p.ranges[i].off >= p.ranges[i - 1].off + p.ranges[i - 1].len);
                for (uint64_t b = p.ranges[i].off; b < p.ranges[i].off + p.ranges[i].len; b++)
                    cr_assert_eq(got[b]++, 0);
            }
        cr_assert_eq(ranges, p.nranges);
        cr_assert_eq(memcmp(want, got, sizeof got), 0);
        xh_plan_free(&p);
    }
}
