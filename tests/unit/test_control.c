/* How many connections are worth having, and what is measured of a link. */
#include <criterion/criterion.h>

#include "origin/control.h"

#define MS 1000000u
#define MB 1000000u

Test(control, streams_have_all_connections_but_one)
{
    static const unsigned table[][2] = {{0, 0}, {1, 0}, {2, 1}, {16, 15}, {64, 63}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_assert_eq(xh_control_streams(table[i][0]), table[i][1], "row %zu", i);
}

Test(control, files_side_by_side_have_equally_many_connections)
{
    static const struct {
        unsigned option, files, processes, allowed, share, streams;
    } table[] = {
        {0, 0, 0, 17, 17, 16},  {0, 1, 1, 17, 17, 16},
        {0, 2, 1, 17, 17, 16},  {0, 3, 1, 19, 19, 18},  {0, 4, 1, 17, 17, 16},   {0, 7, 1, 22, 22, 21},
        {0, 8, 1, 17, 17, 16},  {0, 9, 1, 19, 19, 18},  {0, 15, 1, 31, 31, 30},  {0, 16, 1, 17, 17, 16},
        {0, 17, 1, 18, 18, 17},
        {0, 32, 1, 33, 33, 32}, {0, 63, 1, 64, 64, 63}, {0, 100, 1, 64, 64, 63}, {0, 32, 4, 33, 9, 8},
        {0, 32, 40, 33, 2, 1},
        {16, 32, 1, 16, 16, 15}, /* what the user says holds */
        {8, 0, 3, 8, 3, 2},     {1, 32, 3, 1, 1, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        unsigned allowed = xh_control_allowed(table[i].option, table[i].files);
        unsigned share = xh_control_share(allowed, table[i].processes);
        cr_expect_eq(allowed, table[i].allowed, "row %zu: %u", i, allowed);
        cr_expect_eq(share, table[i].share, "row %zu: %u", i, share);
        cr_expect_eq(xh_control_streams(share), table[i].streams, "row %zu", i);
    }
    cr_expect(xh_control_is_far(10.0 * MS) && !xh_control_is_far(9.0 * MS) && !xh_control_is_far(0));
}

Test(control, a_file_keeps_half_of_the_connections_longer_than_all_of_them)
{
    cr_assert_eq(xh_control_stands_for(100, 8, 16), 100);
    cr_assert_lt(xh_control_stands_for(100, 15, 16), 100);
    cr_assert_eq(xh_control_stands_for(100, 1, 16), 800);
    cr_assert_eq(xh_control_stands_for(100, 0, 16), UINT64_MAX);
}

Test(control, what_a_connection_has_in_flight_is_read_to_its_end)
{
    struct xh_link none = {0}, young = {.rtt_ns = 60.0 * MS}, known = {.rtt_ns = 60.0 * MS, .connection_rate = 0.01};
    cr_expect(!xh_control_may_run_out(&none, 1));
    cr_expect(xh_control_may_run_out(&young, 28000) && !xh_control_may_run_out(&young, 100000));
    cr_expect(xh_control_may_run_out(&known, 600000) && !xh_control_may_run_out(&known, 600001));
    cr_expect(!xh_control_may_run_out(&known, UINT64_MAX));
}

/* ---- requests that are no streams */

/* A link of |rtt_ms| over which |mb| MB/s come, known for long; 0: not known. */
static struct xh_link link_of(double rtt_ms, double mb)
{
    return (struct xh_link){.rtt_ns = rtt_ms * MS, .rate = mb / 1e3, .received_ns = mb > 0 ? 60e9 : 0};
}

Test(control, large_requests_begin_with_the_windows_that_a_fast_link_holds)
{
    static const struct {
        double rtt_ms;
        unsigned paying;
    } table[] = {{1, 2}, {10, 2}, {20, 4}, {50, 8}, {160, 16}, {5000, 16}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct xh_trial t = {0};
        xh_control_begin(&t, table[i].rtt_ms * MS);
        xh_control_begin(&t, 1.0 * MS); /* once is enough */
        cr_assert_eq(xh_control_paying(&t), table[i].paying, "row %zu", i);
    }
    struct xh_trial none = {0};
    cr_assert_eq(xh_control_paying(&none), 8);
    cr_assert_eq(xh_control_unknown(16), 8);
    cr_assert_eq(xh_control_unknown(3), 3);
}

Test(control, how_many_connections_may_be_busy)
{
    static const struct {
        double rtt_ms, mb;
        unsigned paying, share, sockets;
        uint64_t bytes, arrived;
        unsigned most;
    } table[] = {
        {20, 0, 4, 16, 0, 4 * MB, 0, 5},       /* one more than pay: for demand */
        {20, 0, 4, 3, 0, 4 * MB, 0, 3},        /* never more than the option */
        {20, 0, 4, 16, 0, 1000, 0, 8},         /* small ones wait for round trips */
        {20, 0, 4, 16, 9, 4 * MB, 70 * MB, 9}, /* young ones that are there */
        {20, 0, 4, 16, 9, 4 * MB, 80 * MB, 5}, /* they have found their speed */
        {20, 2, 4, 16, 0, 4 * MB, 0, 2},       /* a thin link */
        {20, 2, 4, 16, 0, 200000, 0, 2},
        {20, 4, 4, 16, 0, 4 * MB, 0, 5},
        {20, 100, 4, 16, 0, 200000, 0, 8},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct xh_trial t = {.paying = table[i].paying};
        struct xh_link l = link_of(table[i].rtt_ms, table[i].mb);
        struct xh_load load = {.sockets = table[i].sockets, .arrived = table[i].arrived};
        struct xh_asked a = {.bytes = table[i].bytes};
        unsigned most = xh_control_most(&t, &l, &load, &a, table[i].share);
        cr_assert_eq(most, table[i].most, "row %zu: %u", i, most);
    }
    cr_assert_eq(xh_control_guesses(5), 4, "one is for demand alone");
    cr_assert_eq(xh_control_guesses(1), 1);
}

Test(control, what_has_to_wait)
{
    static const struct {
        unsigned active, streams, most, share;
        int stream, waits;
    } table[] = {
        {0, 0, 1, 1, 0, 0},   /* nothing runs */
        {1, 1, 1, 1, 0, 0},   /* streams alone are never waited for */
        {16, 8, 4, 16, 1, 0}, /* a stream */
        {4, 0, 4, 5, 0, 1},   /* all are busy */
        {4, 0, 5, 5, 0, 0},
        {5, 2, 4, 5, 0, 1},   /* streams have the rest */
        {5, 2, 4, 6, 0, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct xh_load load = {.active = table[i].active, .streams = table[i].streams};
        struct xh_asked a = {.stream = table[i].stream};
        cr_assert_eq(xh_control_has_to_wait(&load, &a, table[i].most, table[i].share), table[i].waits, "row %zu", i);
    }
}

Test(control, a_connection_is_opened_where_waiting_takes_longer)
{
    static const struct {
        double rtt_ms;
        unsigned active, streams;
        uint64_t active_bytes, queued_bytes, bytes;
        int stream;
        double waited_ms;
        int worth;
        double all_waited_ms;
        unsigned queued; /* 0: one */
    } table[] = {
        {50, 0, 0, 0, 1000, 1000, 0, 0, 1, 0, 0},               /* nothing to wait for */
        {50, 3, 3, 0, 1000, 1000, 0, 0, 1, 0, 0},               /* but streams */
        {0, 1, 0, 1000, 1000, 1000, 0, 0, 1, 0, 0},             /* nothing came back yet */
        {50, 1, 0, 1000, 1000, 1000, 0, 0, 0, 0, 0},            /* the busy one is soon free */
        {50, 1, 0, 1000, 1000, 1000, 0, 104, 0, 0, 0},
        {50, 1, 0, 1000, 1000, 1000, 0, 105, 1, 0, 0},          /* one would be here: two round trips, a handshake */
        {50, 1, 0, 64 * MB, 1000, 1000, 0, 0, 1, 0, 0},         /* it is busy for long */
        {50, 2, 0, 2 * MB, 2 * MB, 2 * MB, 0, 0, 0, 0, 0},
        {50, 2, 0, 200 * MB, 2 * MB, 2 * MB, 0, 0, 1, 0, 0},
        {50, 2, 0, 2 * MB, 0, 0, 1, 0, 0, 0, 0},                /* a stream is patient */
        {50, 2, 0, 2 * MB, 0, 0, 1, 1000, 1, 0, 0},             /* its reader is not */
        {50, 2, 0, 200 * MB, 0, 0, 1, 0, 1, 0, 0},
        {50, 1, 0, 1000, 1000, 1000, 0, 0, 0, 55, 0},           /* all have waited, and will, as long as opening takes */
        {50, 1, 0, 1000, 1000, 1000, 0, 0, 1, 56, 0},
        {50, 1, 0, 1000, MB / 4, MB / 4, 0, 0, 1, 56, 0},       /* as one brings it in a round trip */
        {0.1, 7, 0, 7 * MB / 8, MB / 8, MB / 8, 0, 0, 0, 1000, 0}, /* more takes several */
        {0.1, 7, 0, 7 * MB / 8, MB / 8, MB / 8, 0, 0.1, 1, 1000, 0}, /* but a reader waits for it */
        {50, 2, 0, 1000, 1000, 1000, 0, 0, 0, 0, 2},      /* one round trip each */
        {50, 2, 0, 1000, 1000, 1000, 0, 0, 1, 0, 3},      /* the third one two */
        {50, 5, 0, 1000, 1000, 1000, 0, 0, 1, 0, 3},
        {50, 5, 0, 1000, 1000, 1000, 0, 0, 0, 0, 2},
        {50, 2, 0, 2 * MB, 2 * MB, 2 * MB, 0, 0, 0, 1000, 0}, /* large ones wait for bytes, not for round trips */
        {50, 2, 0, 2 * MB, 0, 0, 1, 0, 0, 1000, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct xh_link l = {.rtt_ns = table[i].rtt_ms * MS, .connection_rate = 0.05};
        struct xh_load load = {.sockets = table[i].active, .active = table[i].active, .streams = table[i].streams,
                               .active_bytes = table[i].active_bytes, .queued_bytes = table[i].queued_bytes,
                               .queued_requests = table[i].queued ? table[i].queued : 1,
                               .waiting = table[i].queued ? table[i].queued : 1, .arrived = 1000u * MB,
                               .waited_ns = (uint64_t)(table[i].all_waited_ms * MS)};
        struct xh_asked a = {.bytes = table[i].bytes, .stream = table[i].stream,
                             .waited_ns = (uint64_t)(table[i].waited_ms * MS)};
        cr_assert_eq(xh_control_is_worth_opening(&l, &load, &a), table[i].worth, "row %zu", i);
    }
}

Test(control, a_whole_file_that_is_opened_ahead_waits_for_connections_of_streams)
{
    struct xh_link l = {.rtt_ns = 50 * MS, .connection_rate = 0.05};
    struct xh_load load = {.sockets = 3, .active = 3, .streams = 3, .queued_bytes = MB, .queued_requests = 1,
                           .waiting = 1, .arrived = 1000u * MB};
    struct xh_asked a = {.bytes = MB, .question = 1};
    cr_assert_not(xh_control_is_worth_opening(&l, &load, &a), "a new one would take longer for it");
    a.waited_ns = 105 * MS;
    cr_assert(xh_control_is_worth_opening(&l, &load, &a), "they stand still");
    a = (struct xh_asked){.bytes = MB};
    cr_assert(xh_control_is_worth_opening(&l, &load, &a), "their reader may wait for what is no opening");
    a = (struct xh_asked){.bytes = 12288, .question = 1};
    cr_assert(xh_control_is_worth_opening(&l, &load, &a), "a short answer");
}

Test(control, a_file_comes_with_its_opening_where_one_connection_brings_it_in_a_round_trip)
{
    static const struct xh_link far = {.rtt_ns = 40 * MS, .connection_rate = 0.025}; /* a MB in a round trip */
    static const struct xh_link new = {.connection_rate = 0.025};
    enum { USUAL = 12288 };
    static const struct {
        const char *what;
        const struct xh_link *l;
        struct xh_first f;
        uint64_t bytes;
    } cases[] = {
        {"one connection brings it", &far, {USUAL, MB, 4 * MB, .proves = 1}, MB},
        {"it does not", &far, {USUAL, MB + 1, 4 * MB, .proves = 1}, USUAL},
        {"the link is not known", &new, {USUAL, 2 * USUAL, 4 * MB, .proves = 1}, USUAL},
        {"nor is the server", NULL, {USUAL, 2 * USUAL, 4 * MB, .proves = 1}, USUAL},
        {"it will not be read through", &far, {USUAL, 0, 4 * MB, .proves = 1}, USUAL},
        {"it is shorter than what comes anyway", &far, {USUAL, 100, 4 * MB, .proves = 1}, USUAL},
        {"there is room for no more", &far, {USUAL, MB, MB, .proves = 1}, MB},
        {"there is none for so much", &far, {USUAL, MB, MB - 1, .proves = 1}, USUAL},
        {"it would come once more, as at XRootD", &far, {USUAL, MB, 4 * MB, .proves = 0}, USUAL},
        {"another server is waiting to be asked", &far, {USUAL, MB, 4 * MB, .proves = 1, .hurried = 1}, USUAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(xh_control_opens_with(cases[i].l, &cases[i].f), cases[i].bytes, "%s", cases[i].what);
}

/* ---- the link */

Test(control, each_of_many_files_is_opened_over_its_own_connection)
{
    static const struct {
        unsigned sockets, opening, files;
        int stream, own;
    } table[] = {
        {2, 0, 0, 0, 0},                     /* a file alone */
        {2, 0, 4, 0, 0},  {2, 0, 7, 0, 0},   /* two bring three openings each before a new one brings its first */
        {2, 0, 8, 0, 1},  {2, 0, 16, 0, 1},
        {3, 1, 8, 0, 1},  {7, 5, 8, 0, 1},   /* that others of them have new ones changes nothing */
        {2, 6, 8, 0, 1},                     /* those do not count yet */
        {8, 6, 8, 0, 0},  {17, 0, 16, 0, 0}, /* there is one for each */
        {2, 0, 16, 1, 0},
    };
    const struct xh_link l = {.rtt_ns = 50.0 * MS}, unknown = {0};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const struct xh_load load = {.sockets = table[i].sockets, .opening = table[i].opening};
        const struct xh_asked a = {.bytes = 12288, .stream = table[i].stream, .files = table[i].files};
        cr_expect_eq(xh_control_opens_own(&l, &load, &a), table[i].own, "row %zu", i);
        cr_expect_not(xh_control_opens_own(&unknown, &load, &a), "row %zu", i);
    }
}

Test(control, a_round_trip_falls_at_once_and_rises_slowly)
{
    struct xh_link l = {0};
    xh_link_sample(&l, 0, 100 * MS, 200 * MS, 0);
    cr_assert_eq(l.rtt_ns, 0, "no request was sent");
    xh_link_sample(&l, 100 * MS, 180 * MS, 180 * MS, 0);
    cr_assert_eq(l.rtt_ns, 80.0 * MS);
    xh_link_sample(&l, 200 * MS, 240 * MS, 240 * MS, 0);
    cr_assert_eq(l.rtt_ns, 40.0 * MS);
    xh_link_sample(&l, 300 * MS, 404 * MS, 404 * MS, 0);
    cr_assert_eq(l.rtt_ns, 41.0 * MS);
    cr_assert_eq(l.connection_rate, 0);
}

Test(control, replies_that_come_together_count_their_time_once)
{
    struct xh_link l = {0};
    xh_link_sample(&l, 0, 0, 990 * MS, 9 * MB);
    cr_assert_eq(xh_link_known_rate(&l), 0, "it is no second yet");
    xh_link_sample(&l, 0, 990 * MS, 1000 * MS, 1 * MB);
    cr_assert_eq(xh_link_known_rate(&l), l.rate);
    xh_link_sample(&l, 0, 500 * MS, 1000 * MS, 10 * MB);
    cr_assert_float_eq(l.rate, 20.0 * MB / (1000.0 * MS), 1e-9);
    xh_link_sample(&l, 0, 500 * MS, 1000 * MS, 1000);
    cr_assert_float_eq(l.rate, 20.0 * MB / (1000.0 * MS), 1e-9, "that says more about latency");
}

Test(control, round_trips_double_what_a_young_connection_brings)
{
    static const struct {
        double bytes, window;
        int young;
        double trips;
    } table[] = {{1e6, 1e6, 0, 1}, {8e6, 1e6, 0, 8}, {1e6, 1e6, 1, 1}, {3e6, 1e6, 1, 2}, {12e6, 4e6, 1, 3}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_assert_float_eq(xh_link_round_trips(table[i].bytes, table[i].window, table[i].young), table[i].trips, 1e-6,
                           "row %zu", i);
    cr_assert(xh_link_is_young(15 * MB, 2) && !xh_link_is_young(16 * MB, 2));
}

Test(control, young_connections_are_for_what_is_small_while_there_are_streams)
{
    static const struct {
        struct xh_choice a, b;
        struct xh_asked r;
        int streams, better;
    } table[] = {
        {{4e6, 3}, {1e6, 0}, {.bytes = 64 * MB, .stream = 1}, 1, 1},
        {{1e6, 0}, {4e6, 3}, {.bytes = 64 * MB, .stream = 1}, 1, 0},
        {{1e6, 3}, {4e6, 0}, {.bytes = 12288}, 1, 1},
        {{4e6, 0}, {1e6, 3}, {.bytes = 12288}, 1, 0},
        {{4e6, 3}, {1e6, 0}, {.bytes = 12288}, 0, 0}, /* without streams the one that has less to do */
        {{3e6, 0}, {4e6, 3}, {.bytes = 64 * MB, .stream = 1}, 1, 1}, /* less than a round trip behind */
        {{4e6, 3}, {1e6, 0}, {.bytes = MB}, 0, 1}, /* but for what is large */
        {{1e6, 0}, {4e6, 3}, {.bytes = MB}, 0, 0},
        {{0, 0}, {0, 1}, {.bytes = 12288}, 1, 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_assert_eq(xh_control_suits(&table[i].a, &table[i].b, &table[i].r, table[i].streams), table[i].better,
                     "row %zu", i);
    const struct xh_choice young = {.grown = 0.4e6}, soon = {.grown = 0.5e6}, grown = {.grown = 4e6};
    cr_assert(xh_control_is_too_young(&young, &grown) && !xh_control_is_too_young(&soon, &grown));
    cr_assert_not(xh_control_is_too_young(&young, &young));
    /* One that has brought nothing is no further behind one that has brought a little than a new one's first flight. */
    const struct xh_choice nothing = {.grown = 0}, little = {.grown = 12e3}, more = {.grown = 120e3};
    cr_assert(!xh_control_is_too_young(&nothing, &little) && xh_control_is_too_young(&nothing, &more));
}

Test(control, a_stream_that_waits_leaves_one_connection)
{
    const struct xh_load none = {0}, some = {.active = 14, .streams = 10, .guesses = 4};
    const struct xh_load nearly = {.active = 15, .streams = 10, .guesses = 5}, all = {.active = 16, .streams = 16};
    cr_assert(xh_control_may_stream(&some, 16, 0));
    cr_assert_not(xh_control_may_stream(&nearly, 16, 0));
    cr_assert(xh_control_may_stream(&nearly, 16, 1));
    cr_assert_not(xh_control_may_stream(&all, 16, 1));
    cr_assert(xh_control_may_stream(&none, 1, 0), "there is nothing to wait for");
}
