/* What a read is taken for whose program does not say it. */
#include <criterion/criterion.h>

#include "../../vfd/unsaid.h"

static enum xh_kind kind(struct xh_unsaid *u, uint64_t off, uint64_t len)
{
    return xh_unsaid_kind(u, &(struct xh_extent){.off = off, .len = len}, 1);
}

Test(unsaid, a_short_read_is_metadata_and_a_long_one_raw)
{
    struct xh_unsaid u = {0};
    cr_expect_eq(kind(&u, 0, 8), XH_KIND_META);
    cr_expect_eq(kind(&u, 4096, (16 << 10) - 1), XH_KIND_META);
    cr_expect_eq(kind(&u, 1 << 20, 16 << 10), XH_KIND_RAW);
    cr_expect_eq(kind(&u, 0, 512), XH_KIND_META, "nothing goes on at the file's start");
}

Test(unsaid, what_goes_on_behind_raw_data_is_raw_however_short)
{
    struct xh_unsaid u = {0};
    cr_expect_eq(kind(&u, 1 << 20, 1 << 20), XH_KIND_RAW);
    cr_expect_eq(kind(&u, 2 << 20, 100), XH_KIND_RAW);
    cr_expect_eq(kind(&u, (2 << 20) + 100, 100), XH_KIND_RAW);
    cr_expect_eq(kind(&u, (2 << 20) + 100, 100), XH_KIND_META, "that is where an earlier one ended");
    cr_expect_eq(kind(&u, (1 << 20) + 50, 100), XH_KIND_META);
}

Test(unsaid, threads_that_read_in_four_places_do_not_disturb_each_other)
{
    struct xh_unsaid u = {0};
    for (uint64_t i = 1; i <= XH_UNSAID_ENDS; i++)
        cr_expect_eq(kind(&u, i << 30, 1 << 20), XH_KIND_RAW);
    for (int round = 0; round < 3; round++)
        for (uint64_t i = 1; i <= XH_UNSAID_ENDS; i++)
            cr_expect_eq(kind(&u, (i << 30) + (1 << 20) + 10 * (uint64_t)round, 10), XH_KIND_RAW);
}

Test(unsaid, of_several_extents_the_longest_decides_and_the_first_goes_on)
{
    struct xh_unsaid u = {0};
    const struct xh_extent both[] = {{.off = 100, .len = 10}, {.off = 4096, .len = 1 << 20}};
    const struct xh_extent next[] = {{.off = 4096 + (1 << 20), .len = 10}, {.off = 4 << 20, .len = 10}};
    cr_expect_eq(xh_unsaid_kind(&u, both, 2), XH_KIND_RAW);
    cr_expect_eq(xh_unsaid_kind(&u, next, 2), XH_KIND_RAW);
    cr_expect_eq(kind(&u, (4 << 20) + 10, 10), XH_KIND_RAW);
}
