/* Whether files are read alike, and where the next one is expected to be read. */
#include <criterion/criterion.h>

#include "ahead/likeness.h"

#define PAGE ((uint64_t)XH_PAGE_BYTES)
#define MOST (100 * PAGE)

static struct xh_likeness of(uint64_t size, const uint64_t (*reads)[2], size_t n)
{
    struct xh_likeness l = {.size = size};
    for (size_t i = 0; i < n; i++)
        xh_likeness_note(&l, reads[i][0], reads[i][1], 0, MOST);
    return l;
}

#define OF(size, ...) \
    of(size, (const uint64_t[][2]){__VA_ARGS__}, sizeof((const uint64_t[][2]){__VA_ARGS__}) / sizeof(uint64_t[2]))

Test(likeness, pages_are_taken_down_once_in_the_order_of_the_reads)
{
    struct xh_likeness l = OF(MOST, {9 * PAGE + 5, 10}, {2 * PAGE, PAGE + 1}, {9 * PAGE, PAGE}, {4 * PAGE, 1},
                              {3 * PAGE + 7, PAGE}, {8 * PAGE - 1, 2 * PAGE});
    static const struct xh_range all[] = {{9 * PAGE, PAGE}, {2 * PAGE, 3 * PAGE}, {7 * PAGE, 2 * PAGE}};
    cr_assert_eq(l.n, 3);
    for (unsigned i = 0; i < l.n; i++)
        cr_expect(l.at[i].off == all[i].off && l.at[i].len == all[i].len, "place %u: %llu %llu", i,
                  (unsigned long long)l.at[i].off, (unsigned long long)l.at[i].len);
    cr_expect_eq(l.bytes, 6 * PAGE);
    cr_expect(!l.more);
}

Test(likeness, no_more_than_it_may_is_taken_down)
{
    struct xh_likeness l = {.size = 1000 * MOST}, many = l;
    cr_expect_eq(xh_likeness_note(&l, 0, MOST + 1, 0, MOST), 0, "one that is too long says nothing of others");
    cr_expect(l.n == 0 && l.more);
    cr_expect(!l.full);
    cr_expect_eq(xh_likeness_note(&l, 0, MOST - PAGE, 0, MOST), 0);
    cr_expect_eq(xh_likeness_note(&l, MOST, 2 * PAGE, 0, MOST), 1);
    cr_expect_eq(l.bytes, MOST - PAGE);
    for (uint64_t i = 0; i < XH_LIKENESS_PLACES; i++)
        cr_assert_eq(xh_likeness_note(&many, 2 * i * PAGE, 1, 0, 1000 * PAGE), 0);
    cr_expect(!many.more);
    cr_expect_eq(xh_likeness_note(&many, 2 * XH_LIKENESS_PLACES * PAGE, 1, 0, 1000 * PAGE), 1);
    cr_expect(many.n == XH_LIKENESS_PLACES && many.more && many.full);
}

Test(likeness, half_of_either_lies_in_the_other)
{
    struct xh_likeness one = OF(MOST, {8 * PAGE, 1}, {20 * PAGE, 4 * PAGE}), none = {.size = MOST};
    struct xh_likeness same = OF(MOST, {20 * PAGE, 4 * PAGE}, {8 * PAGE, 1}),
                       part = OF(MOST, {22 * PAGE, 3 * PAGE}, {8 * PAGE, 1}), little = OF(MOST, {20 * PAGE, 1}),
                       much = OF(MOST, {20 * PAGE, 30 * PAGE}), other = OF(MOST, {60 * PAGE, 5 * PAGE});
    cr_expect(xh_likeness_find(&one, &same));
    cr_expect(xh_likeness_find(&one, &part));
    cr_expect(!xh_likeness_find(&one, &little), "little of what was expected was read");
    cr_expect(!xh_likeness_find(&one, &much), "little of what was read was expected");
    cr_expect(!xh_likeness_find(&one, &other));
    cr_expect(!xh_likeness_find(&none, &same));
    cr_expect(!xh_likeness_find(&one, &none));
}

Test(likeness, places_behind_packed_data_are_counted_from_the_end)
{
    /* The second file is 30 pages longer, and so is what lies between the two places. */
    struct xh_likeness one = OF(MOST, {4 * PAGE, PAGE}, {90 * PAGE, 2 * PAGE}),
                       two = OF(MOST + 30 * PAGE, {4 * PAGE, PAGE}, {120 * PAGE, 2 * PAGE});
    struct xh_range r[XH_LIKENESS_PLACES];
    cr_assert(xh_likeness_find(&one, &two));
    cr_assert_eq(xh_likeness_expect(&two, MOST + 7 * PAGE, r), 2);
    cr_expect(r[0].off == 4 * PAGE && r[0].len == PAGE);
    cr_expect(r[1].off == 97 * PAGE && r[1].len == 2 * PAGE);
    cr_expect(xh_likeness_covers(r, 2, 98 * PAGE, PAGE) && !xh_likeness_covers(r, 2, 98 * PAGE, PAGE + 1));
    cr_expect(!xh_likeness_covers(r, 2, 3 * PAGE, 2 * PAGE));
}

Test(likeness, raw_data_that_is_read_on_is_not_expected)
{
    struct xh_likeness l = {.size = 1000 * MOST};
    struct xh_range r[XH_LIKENESS_PLACES];
    xh_likeness_note(&l, 4 * PAGE, PAGE, 0, MOST);
    xh_likeness_note(&l, 5 * PAGE, 90 * PAGE, 1, MOST);
    cr_assert_eq(xh_likeness_expect(&l, l.size, r), 2, "beside metadata, but not of one piece with it");
    cr_assert_eq(xh_likeness_note(&l, 95 * PAGE, 90 * PAGE, 1, MOST), 1);
    cr_assert_eq(xh_likeness_expect(&l, l.size, r), 1);
    cr_expect(r[0].off == 4 * PAGE && r[0].len == PAGE);
}

Test(likeness, places_that_lie_in_one_another_cover_no_more_than_the_longer_one)
{
    static const struct xh_range r[] = {{4 * PAGE, 2 * PAGE}, {4 * PAGE, PAGE}, {6 * PAGE, PAGE}, {3 * PAGE, PAGE}};
    cr_expect(!xh_likeness_covers(r, 2, 4 * PAGE, 3 * PAGE));
    cr_expect(xh_likeness_covers(r, 4, 3 * PAGE, 4 * PAGE), "in any order");
    cr_expect(!xh_likeness_covers(r, 4, 3 * PAGE, 4 * PAGE + 1));
    cr_expect(xh_likeness_covers(r, 4, 7 * PAGE, 0));
}

Test(likeness, nothing_is_expected_outside_the_file)
{
    struct xh_likeness one = OF(MOST, {0, PAGE}, {50 * PAGE, 10 * PAGE}, {99 * PAGE, PAGE}), two = one;
    struct xh_range r[XH_LIKENESS_PLACES];
    cr_assert(xh_likeness_find(&one, &two));
    cr_assert_eq(xh_likeness_expect(&two, 55 * PAGE + 3, r), 2);
    cr_expect(r[1].off == 50 * PAGE && r[1].len == 5 * PAGE + 3);
    two.from_end[0] = two.from_end[1] = two.from_end[2] = 1;
    cr_assert_eq(xh_likeness_expect(&two, 45 * PAGE, r), 2);
    cr_expect(r[0].off == 0 && r[0].len == 5 * PAGE);
    cr_expect_eq(xh_likeness_expect(&two, 0, r), 0);
}
