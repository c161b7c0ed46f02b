/* Planes across an array, read one after another: ahead/shifts.h. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "ahead/shifts.h"

#define ROWS 100u
#define ROW_BYTES 1000u
#define PLANE_BYTES (50u * ROW_BYTES)

static const struct xh_range array = {0, ROWS * (uint64_t)PLANE_BYTES};

/* The call for rows |from| to |to| of each of |n| planes, of |len| bytes each. */
static void read_rows(struct xh_shifts *s, uint64_t from, size_t n, uint64_t len)
{
    struct xh_extent *ext = calloc(n, sizeof *ext);
    for (size_t i = 0; i < n; i++)
        ext[i] = (struct xh_extent){i * PLANE_BYTES + from, len, NULL};
    xh_shifts_saw(s, ext, n);
    free(ext);
}

/* How many calls are proposed; |*first|: the first range. */
static uint64_t proposed(struct xh_shifts *s, uint64_t window, size_t *n, struct xh_range *first)
{
    uint64_t calls;
    struct xh_range *r = xh_shifts_next(s, window, array, n, &calls);
    if (r)
        *first = r[0];
    free(r);
    s->ahead += calls;
    return calls;
}

Test(shifts, from_the_third_call_on_the_next_ones_come_as_many_as_were_read)
{
    struct xh_shifts s = {0};
    struct xh_range first;
    size_t n;
    for (unsigned k = 0; k < 2; k++) {
        read_rows(&s, k * ROW_BYTES, ROWS, ROW_BYTES);
        cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 0, "two calls show a distance, and no more");
    }
    read_rows(&s, 2 * ROW_BYTES, ROWS, ROW_BYTES);
    cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 3);
    cr_assert_eq(n, ROWS, "rows that lie behind each other come together");
    cr_assert_eq(first.off, 3 * ROW_BYTES);
    cr_assert_eq(first.len, 3 * ROW_BYTES);
    read_rows(&s, 3 * ROW_BYTES, ROWS, ROW_BYTES);
    cr_assert_eq(s.ahead, 2);
    cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 2, "up to four ahead");
    cr_assert_eq(first.off, 6 * ROW_BYTES);
    xh_shifts_free(&s);
}

/* As by d[:, k].mean(), d[:, k].std(). */
Test(shifts, calls_that_are_made_twice_each_are_followed)
{
    struct xh_shifts s = {0};
    struct xh_range first;
    size_t n;
    for (unsigned k = 0; k < 6; k++)
        read_rows(&s, k / 2 * ROW_BYTES, ROWS, ROW_BYTES);
    cr_assert_eq(s.read, 3 * ROWS * ROW_BYTES);
    cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 3);
    cr_assert_eq(first.off, 3 * ROW_BYTES);
    xh_shifts_free(&s);
}

Test(shifts, columns_and_calls_downwards_come_one_by_one)
{
    struct xh_shifts s = {0};
    struct xh_range first;
    size_t n;
    for (unsigned k = 0; k < 3; k++)
        read_rows(&s, (20 - 2 * k) * ROW_BYTES, ROWS, ROW_BYTES);
    cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 3);
    cr_assert_eq(n, 3 * ROWS);
    cr_assert_eq(first.off, 14 * ROW_BYTES);
    cr_assert_eq(first.len, ROW_BYTES);
    xh_shifts_free(&s);
}

Test(shifts, nothing_comes_from_outside_the_array_nor_beyond_the_window)
{
    struct xh_shifts s = {0};
    struct xh_range first;
    size_t n;
    for (unsigned k = 0; k < 48; k++)
        read_rows(&s, k * ROW_BYTES, ROWS, ROW_BYTES);
    cr_assert_eq(proposed(&s, ROWS * ROW_BYTES, &n, &first), 1, "as many bytes as the window has");
    s.ahead = 0;
    cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 2, "two rows are left in the last plane");
    cr_assert_eq(first.off + first.len, PLANE_BYTES);
    s.ahead = 0;
    for (unsigned k = 0; k < 3; k++)
        read_rows(&s, (2 - k) * ROW_BYTES, ROWS, ROW_BYTES);
    cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 0, "downwards, at the beginning");
    xh_shifts_free(&s);
}

/* The array may be found out later, or another one be named that lies in it. */
Test(shifts, nothing_comes_from_outside_an_array_that_was_larger_before)
{
    struct xh_shifts s = {0};
    struct xh_range first;
    size_t n;
    uint64_t calls;
    for (unsigned k = 0; k < 20; k++)
        read_rows(&s, 2 * k * ROW_BYTES, ROWS, ROW_BYTES);
    cr_assert_eq(proposed(&s, 6 * ROWS * ROW_BYTES, &n, &first), 5);
    struct xh_range less = {0, (ROWS - 1) * PLANE_BYTES + 41 * ROW_BYTES};
    struct xh_range *r = xh_shifts_next(&s, 12 * ROWS * ROW_BYTES, less, &n, &calls);
    cr_expect_eq(calls, 0, "%llu", (unsigned long long)calls);
    cr_expect_null(r);
    free(r);
    xh_shifts_free(&s);
}

Test(shifts, another_shape_begins_anew)
{
    struct xh_shifts s = {0};
    struct xh_range first;
    size_t n;
    for (unsigned k = 0; k < 3; k++)
        read_rows(&s, k * ROW_BYTES, ROWS, ROW_BYTES);
    read_rows(&s, 3 * ROW_BYTES, ROWS, ROW_BYTES / 2);
    cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 0);
    read_rows(&s, 4 * ROW_BYTES, ROWS - 1, ROW_BYTES / 2);
    cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 0);
    read_rows(&s, 4 * ROW_BYTES, ROWS - 1, ROW_BYTES / 2);
    cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 0, "the same once more is no step");
    xh_shifts_free(&s);
}

Test(shifts, one_piece_that_moved_otherwise_ends_the_run)
{
    struct xh_shifts s = {0};
    struct xh_range first;
    struct xh_extent ext[3];
    size_t n;
    for (unsigned k = 0; k < 3; k++) {
        for (unsigned i = 0; i < 3; i++)
            ext[i] = (struct xh_extent){i * PLANE_BYTES + k * ROW_BYTES + (k == 2 && i == 1), ROW_BYTES, NULL};
        xh_shifts_saw(&s, ext, 3);
    }
    cr_assert_eq(proposed(&s, UINT64_MAX, &n, &first), 0);
    xh_shifts_free(&s);
}

Test(shifts, of_many_pieces_few_calls_come_and_of_too_many_none)
{
    struct xh_shifts s = {0};
    size_t n, most = XH_SHIFTS_PIECES;
    struct xh_extent *ext = calloc(most + 1, sizeof *ext);
    uint64_t calls;
    for (size_t pieces = most / 2 - 1; pieces <= most + 1; pieces += most / 2 + 2) {
        for (unsigned k = 0; k < 9; k++) {
            for (size_t i = 0; i < pieces; i++)
                ext[i] = (struct xh_extent){i * 100 + k * 10, 4, NULL};
            xh_shifts_saw(&s, ext, pieces);
        }
        struct xh_range *r = xh_shifts_next(&s, UINT64_MAX, (struct xh_range){0, UINT32_MAX}, &n, &calls);
        cr_assert_eq(calls, pieces > most ? 0 : 2, "%zu pieces", pieces);
        free(r);
    }
    free(ext);
    xh_shifts_free(&s);
}
