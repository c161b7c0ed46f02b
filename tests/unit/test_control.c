/* How many connections streams use. */
#include <criterion/criterion.h>

#include "origin/control.h"

#define MS 1e6

Test(control, streams_use_more_connections_the_longer_the_round_trip)
{
    static const struct {
        double rtt_ms;
        unsigned most, streams;
    } table[] = {{0, 16, 6}, {1, 16, 6}, {5, 16, 8}, {10, 16, 10}, {160, 16, 10}, {160, 64, 42}, {50, 64, 31}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_assert_eq(xh_control_streams(table[i].rtt_ms * MS, table[i].most), table[i].streams, "row %zu", i);
}

Test(control, a_third_of_the_connections_is_left_for_what_cannot_wait)
{
    cr_assert_eq(xh_control_streams(50 * MS, 0), 0);
    for (unsigned most = 1; most < 20; most++)
        for (unsigned ms = 0; ms < 200; ms += 7)
            cr_assert_leq(3 * xh_control_streams(ms * MS, most), 2 * most, "%u ms", ms);
    cr_assert_eq(xh_control_streams(50 * MS, 2), 1);
    cr_assert_eq(xh_control_streams(50 * MS, 1), 0);
}
