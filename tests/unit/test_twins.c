/* Datasets that are read at the same places are foretold, whatever the order of the places; others are not. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "ahead/twins.h"

static struct xh_twin_place at(uint64_t set, uint64_t element, uint64_t n, uint64_t width)
{
    return (struct xh_twin_place){set, element * width, n * width, 100000 * width};
}

/* Reads |p|. Returns 1 when the last read foretold it, as one of |*told|. */
static int reads(struct xh_twins *t, struct xh_twin_place p, struct xh_twin_place told[XH_TWINS_MOST], unsigned *n,
                 unsigned *proposed)
{
    int was = 0;
    for (unsigned i = 0; i < *n; i++)
        was |= told[i].set == p.set && told[i].at == p.at && told[i].len == p.len;
    struct xh_twin_place out[XH_TWINS_MOST];
    unsigned k = xh_twins_read(t, p, out);
    if (k || p.set == 1) {
        for (unsigned i = 0; i < k; i++)
            told[i] = out[i];
        *n = k;
        *proposed += k;
    }
    return was;
}

Test(twins, what_is_read_with_a_row_is_foretold_whatever_the_rows_and_the_widths)
{
    static const uint64_t widths[][3] = {{4, 4, 4}, {4, 8, 1}, {8, 4, 2}, {1, 8, 8}};
    for (size_t w = 0; w < 4; w++) {
        struct xh_twins t = {0};
        struct xh_twin_place told[XH_TWINS_MOST];
        unsigned n = 0, proposed = 0, right = 0;
        srand(3);
        for (int row = 0; row < 50; row++) {
            uint64_t element = (uint64_t)rand() % 99000, len = 1 + (uint64_t)rand() % 900;
            for (uint64_t set = 1; set <= 3; set++)
                right += reads(&t, at(set, element, len, widths[w][set - 1]), told, &n, &proposed) != 0;
        }
        cr_assert_eq(right, 2 * 48, "%u of 100 were foretold", right);
        cr_assert_eq(proposed, right);
    }
}

Test(twins, chunks_of_rows_that_lie_in_two_are_foretold_too)
{
    struct xh_twins t = {0};
    struct xh_twin_place told[XH_TWINS_MOST], out[XH_TWINS_MOST];
    unsigned n = 0, proposed = 0, right = 0;
    for (uint64_t i = 0; i < 16; i++) /* the rows' beginnings, before all else */
        reads(&t, (struct xh_twin_place){9, i, 1, 1ull << 62}, told, &n, &proposed);
    srand(4);
    for (int row = 0; row < 50; row++) {
        uint64_t rank = (uint64_t)rand() % 500;
        unsigned first = xh_twins_read(&t, (struct xh_twin_place){1, rank, 1, 1ull << 62}, out);
        unsigned second = row % 5 ? 0 : xh_twins_read(&t, (struct xh_twin_place){1, rank + 1, 1, 1ull << 62}, told);
        right += (first == 1 && out[0].set == 2 && out[0].at == rank);
        right += (second == 1 && told[0].set == 2 && told[0].at == rank + 1);
        xh_twins_read(&t, (struct xh_twin_place){2, rank, 1, 1ull << 62}, told);
        if (row % 5 == 0)
            xh_twins_read(&t, (struct xh_twin_place){2, rank + 1, 1, 1ull << 62}, told);
    }
    cr_assert_geq(right, 57, "%u of 60", right);
}

Test(twins, datasets_that_are_read_elsewhere_are_not_foretold)
{
    struct xh_twins t = {0};
    struct xh_twin_place told[XH_TWINS_MOST];
    unsigned n = 0, proposed = 0;
    srand(5);
    for (int i = 0; i < 2000; i++)
        reads(&t, at(1 + (uint64_t)rand() % 5, (uint64_t)rand() % 90000, 1 + (uint64_t)rand() % 9, 4), told, &n,
              &proposed);
    cr_assert_eq(proposed, 0, "%u", proposed);
    for (int i = 0; i < 2000; i++) /* of another length, or size */
        for (uint64_t set = 1; set <= 2; set++)
            reads(&t, (struct xh_twin_place){set, 40 * (uint64_t)i, 8 + set, 1000000 + 7 * set}, told, &n, &proposed);
    cr_assert_eq(proposed, 0, "%u", proposed);
}

Test(twins, one_that_follows_no_more_is_foretold_a_few_times_in_vain_and_again_when_it_does)
{
    struct xh_twins t = {0};
    struct xh_twin_place told[XH_TWINS_MOST];
    unsigned n = 0, proposed = 0, right = 0;
    for (uint64_t i = 0; i < 10; i++)
        for (uint64_t set = 1; set <= 2; set++)
            right += reads(&t, at(set, 37 * i, 5, 4), told, &n, &proposed) != 0;
    cr_assert_eq(right, 8);
    for (uint64_t i = 0; i < 1000; i++)
        reads(&t, at(1, 11 * i, 5, 4), told, &n, &proposed);
    cr_assert_leq(proposed, 8 + 4, "%u", proposed);
    right = 0;
    for (uint64_t i = 0; i < 10; i++)
        for (uint64_t set = 1; set <= 2; set++)
            right += reads(&t, at(set, 53 * i, 5, 4), told, &n, &proposed) != 0;
    cr_assert_geq(right, 7, "%u", right);
}

Test(twins, sizes_that_make_no_sense_do_no_harm)
{
    srand(6);
    struct xh_twins t = {0};
    for (int i = 0; i < 200000; i++) {
        struct xh_twin_place p = {1 + (uint64_t)rand() % 3, (uint64_t)rand() << (unsigned)rand() % 34,
                                  (uint64_t)rand() << (unsigned)rand() % 34, (uint64_t)rand() << (unsigned)rand() % 34};
        if (rand() % 2)
            p = (struct xh_twin_place){p.set, (uint64_t)rand() % 4, (uint64_t)rand() % 3, (uint64_t)rand() % 8};
        struct xh_twin_place out[XH_TWINS_MOST];
        unsigned n = xh_twins_read(&t, p, out);
        cr_assert_leq(n, XH_TWINS_MOST);
        for (unsigned k = 0; k < n; k++)
            cr_assert(out[k].at <= out[k].size && out[k].len <= out[k].size - out[k].at);
    }
}
