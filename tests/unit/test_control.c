/* How many connections streams use, and when they give one back. */
#include <criterion/criterion.h>

#include "origin/control.h"

#define MS 1000000u
#define MB 1000000u

Test(control, streams_begin_with_more_connections_the_longer_the_round_trip)
{
    static const struct {
        double rtt_ms;
        unsigned most, streams;
    } table[] = {{0, 16, 6},    {1, 16, 6},   {5, 16, 10}, {10, 16, 15}, {160, 16, 15},
                 {50, 64, 51}, {50, 2, 1}, {50, 1, 0},  {50, 0, 0}};
    const struct xh_control none = {0};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_assert_eq(xh_control_streams(&none, table[i].rtt_ms * MS, table[i].most), table[i].streams, "row %zu", i);
}

/* A stream of |now| transfers over a link that brings |all| bytes per ms, at most |each| over one connection. */
static void stream(struct xh_control *c, double all, double each)
{
    unsigned now = xh_control_streams(c, 1.0 * MS, 16);
    double one = all / now < each ? all / now : each;
    for (unsigned i = 0; i < now; i++)
        xh_control_sample(c, now, 10 * MB, (uint64_t)(10 * MB / one * MS), 1.0 * MS, 16);
}

Test(control, where_each_connection_is_limited_all_are_used_in_the_end)
{
    struct xh_control c = {0};
    for (unsigned i = 0; i < 3; i++) {
        cr_assert(!xh_control_is_settled(&c, 1.0 * MS, 16) || i == 2);
        stream(&c, 1e6, 25e3);
    }
    cr_assert_eq(xh_control_streams(&c, 1.0 * MS, 16), 15);
    cr_assert(xh_control_is_settled(&c, 1.0 * MS, 16));
}

Test(control, where_more_do_not_pay_there_are_as_many_as_before)
{
    struct xh_control c = {0};
    stream(&c, 125e3, 1e6);
    cr_assert_eq(xh_control_streams(&c, 1.0 * MS, 16), 12);
    stream(&c, 125e3, 1e6);
    cr_assert_eq(xh_control_streams(&c, 1.0 * MS, 16), 6);
    cr_assert(xh_control_is_settled(&c, 1.0 * MS, 16));
    stream(&c, 130e3, 1e6);
    cr_assert_eq(xh_control_streams(&c, 1.0 * MS, 16), 6);
}

Test(control, a_link_that_has_changed_is_found_out_about_anew)
{
    struct xh_control c = {0};
    for (unsigned i = 0; i < 2; i++)
        stream(&c, 125e3, 1e6);
    stream(&c, 125e3, 5e3); /* a limit for each connection, from now on */
    cr_assert(!xh_control_is_settled(&c, 1.0 * MS, 16));
    for (unsigned i = 0; i < 3; i++)
        stream(&c, 125e3, 5e3);
    cr_assert_eq(xh_control_streams(&c, 1.0 * MS, 16), 15);
}

Test(control, what_says_nothing_is_no_sample)
{
    struct xh_control c = {0};
    for (unsigned i = 0; i < 40; i++) {
        xh_control_sample(&c, 6, 1000, 1.0 * MS, 1.0 * MS, 16);   /* slow start */
        xh_control_sample(&c, 4, 10 * MB, 1.0 * MS, 1.0 * MS, 16); /* of a stream that had fewer */
        xh_control_sample(&c, 6, 10 * MB, 0, 1.0 * MS, 16);
    }
    cr_assert_eq(xh_control_streams(&c, 1.0 * MS, 16), 6);
    cr_assert(!xh_control_is_settled(&c, 1.0 * MS, 16));
}

Test(control, a_file_keeps_half_of_the_connections_longer_than_all_of_them)
{
    cr_assert_eq(xh_control_stands_for(100, 8, 16), 100);
    cr_assert_lt(xh_control_stands_for(100, 15, 16), 100);
    cr_assert_eq(xh_control_stands_for(100, 1, 16), 800);
    cr_assert_eq(xh_control_stands_for(100, 0, 16), UINT64_MAX);
}
