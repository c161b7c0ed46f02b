/* How many connections a long stream goes on with, over links and windows made here. */
#include <criterion/criterion.h>

#include "origin/gain.h"

#define MS 1000000u
#define MOST 8

static uint64_t now, came;

/* A stream of |ms| on |loads| connections that bring |window| bytes a round trip each, and |link| a second in all. Returns 1
 * as soon as it is to be dealt anew. */
static int stream(struct xh_gain *g, unsigned loads, int few, unsigned ms, double rtt_ms, double window, double link)
{
    double rate = loads * window / rtt_ms * 1e3;
    if (rate > link)
        rate = link;
    for (uint64_t end = now + (uint64_t)ms * MS; now < end; now += 5 * MS) {
        came += (uint64_t)(rate * 0.005);
        if (xh_gain_weigh(g, loads, few, MOST, came, now, rtt_ms * 1e6))
            return 1;
    }
    return 0;
}

static struct xh_gain fresh(void)
{
    now = 1000 * MS;
    came = 0;
    return (struct xh_gain){0};
}

Test(gain, what_a_tuned_connection_brings_alone_is_left_to_it)
{
    struct xh_gain g = fresh();
    cr_assert_not(stream(&g, 8, 0, 600, 50, 50e6, 600e6));
    cr_assert_not(stream(&g, 1, 1, 5000, 50, 50e6, 600e6));
    cr_assert_eq(g.lasting, 0);
}

Test(gain, a_slow_link_is_no_small_window)
{
    struct xh_gain g = fresh(); /* 2.5 MB a round trip */
    cr_assert_not(stream(&g, 4, 0, 600, 20, 50e6, 125e6));
    cr_assert_not(stream(&g, 1, 1, 5000, 20, 50e6, 125e6));
    cr_assert_eq(g.lasting, 0);
    cr_assert(g.settled);
}

/* 5.9 MB a round trip, and every ten seconds next to nothing for 250 ms. */
Test(gain, a_dip_is_no_small_window)
{
    struct xh_gain g = fresh();
    cr_assert_not(stream(&g, 8, 0, 200, 50, 50e6, 118e6));
    cr_assert_not(stream(&g, 8, 0, 400, 50, 50e6, 250e6), "what a lost packet had kept back comes at once");
    for (int i = 0; i < 5; i++) {
        cr_assert_not(stream(&g, 1, 1, 10000, 50, 50e6, 118e6));
        cr_assert_not(stream(&g, 1, 1, 250, 50, 0.1e6, 118e6));
    }
    cr_assert_eq(g.lasting, 0);
    cr_assert(stream(&g, 1, 1, 2000, 50, 2e6, 118e6), "what lasts is none");
}

/* A link of 12 MB/s that loses packets: what is behind one is kept back. */
Test(gain, a_burst_is_not_what_many_bring)
{
    struct xh_gain g = fresh();
    for (int i = 0; i < 3; i++) {
        cr_assert_not(stream(&g, 8, 0, 600, 50, 50e6, 12e6));
        cr_assert_not(stream(&g, 8, 0, 400, 50, 50e6, 1e6));
        cr_assert_not(stream(&g, 8, 0, 200, 50, 50e6, 34e6));
    }
    cr_assert_not(stream(&g, 1, 1, 5000, 50, 50e6, 12e6));
    cr_assert_eq(g.lasting, 0);
    cr_assert(g.settled);
}

Test(gain, few_that_begin_in_a_dip_are_given_time)
{
    for (unsigned ms = 20; ms <= 400; ms += 20) {
        if (ms > 270 && ms < 330) /* two intervals share it evenly */
            continue;
        struct xh_gain g = fresh();
        cr_assert_not(stream(&g, 8, 0, 2000, 50, 50e6, 12e6));
        cr_assert_not(stream(&g, 1, 1, ms, 50, 50e6, 12e6));
        cr_assert_not(stream(&g, 1, 1, 200, 50, 50e6, 1e6), "%u ms", ms);
        cr_assert_not(stream(&g, 1, 1, 5000, 50, 50e6, 12e6), "%u ms", ms);
        cr_assert_eq(g.lasting, 0);
    }
}

Test(gain, small_windows_get_as_many_connections_as_they_need)
{
    struct xh_gain g = fresh();
    cr_assert_not(stream(&g, 8, 0, 500, 50, 3.5e6, 600e6));
    cr_assert(stream(&g, 1, 1, 5000, 50, 3.5e6, 600e6));
    cr_assert_eq(g.lasting, MOST);
    cr_assert_not(stream(&g, 8, 1, 5000, 50, 3.5e6, 600e6));
    cr_assert_eq(g.lasting, MOST, "they have paid");
    cr_assert(g.settled);
}

Test(gain, many_are_tried_where_they_were_soon_over_and_undone_when_they_bring_nothing)
{
    struct xh_gain g = fresh();
    cr_assert(stream(&g, 1, 1, 5000, 20, 50e6, 125e6));
    cr_assert_eq(g.lasting, MOST);
    cr_assert_not(stream(&g, 8, 1, 5000, 20, 50e6, 125e6));
    cr_assert_eq(g.lasting, 0);
    cr_assert_not(stream(&g, 1, 1, 60000, 20, 50e6, 125e6), "once is enough");
}

Test(gain, a_stream_that_stood_still_tells_nothing)
{
    struct xh_gain g = fresh();
    for (int i = 0; i < 100; i++) {
        cr_assert_not(stream(&g, 1, 1, 150, 50, 1e6, 600e6));
        xh_gain_pause(&g);
        now += 1000 * MS;
    }
    cr_assert(stream(&g, 1, 1, 5000, 50, 1e6, 600e6));
}

Test(gain, a_stream_that_still_grows_is_waited_for)
{
    struct xh_gain g = fresh();
    for (double window = 15e3; window < 20e6; window *= 2)
        cr_assert_not(stream(&g, 1, 1, 200, 50, window, 600e6));
    cr_assert_not(stream(&g, 1, 1, 5000, 50, 20e6, 600e6));
}
