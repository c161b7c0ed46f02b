/* The decisions of policy.h, each with a table of cases. */
#include <criterion/criterion.h>

#include "policy.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define COUNT(a) (sizeof(a) / sizeof *(a))

Test(policy, a_read_is_kept_until_a_stream_has_begun)
{
    static const struct {
        const char *what;
        struct xh_keeping k;
        int kept;
    } cases[] = {
        {"metadata", {.meta = 1, .streamed = MIB}, 1},
        {"what others read", {.shared = 1, .streamed = 64 * MIB, .stream_bytes = MIB}, 1},
        {"the beginning", {.streamed = MIB - 1, .stream_bytes = MIB}, 1},
        {"a stream", {.streamed = MIB, .stream_bytes = MIB}, 0},
        {"nothing, where the option is 0", {.streamed = 0, .stream_bytes = 0}, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_assert_eq(xh_policy_keeps_read(&cases[i].k), cases[i].kept, "%s", cases[i].what);
}

Test(policy, a_file_that_is_read_after_others_is_asked_for_in_parts)
{
    static const struct {
        const char *what;
        struct xh_following f;
        unsigned parts;
    } cases[] = {
        {"next: as the connections bring it meanwhile", {64 * MIB, 64 * MIB, 999 * MIB, 0, 16}, 8},
        {"farther: longer parts", {64 * MIB, 192 * MIB, 999 * MIB, 0, 16}, 4},
        {"the last one: all connections end together", {64 * MIB, 192 * MIB, 0, 0, 16}, 16},
        {"the one before it", {64 * MIB, 192 * MIB, 64 * MIB, 0, 16}, 8},
        {"the reader is there", {64 * MIB, 0, 999 * MIB, 0, 16}, 16},
        {"no longer than a connection brings soon", {64 * MIB, 192 * MIB, 999 * MIB, 4 * MIB, 16}, 16},
        {"a small one", {MIB, 64 * MIB, 999 * MIB, 0, 16}, 1},
        {"one connection", {64 * MIB, 0, 0, 0, 1}, 1},
        {"less than the connections are", {3, 0, 0, 0, 16}, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_assert_eq(xh_policy_parts(&cases[i].f), cases[i].parts, "%s: %u", cases[i].what,
                     xh_policy_parts(&cases[i].f));
}

Test(policy, a_read_passes_a_stream_where_one_connection_is_sooner_or_the_room_is_full)
{
    static const struct {
        const char *what;
        uint64_t before, connections, len, readahead_bytes, room;
        int passes;
    } cases[] = {
        {"two images that were left out, an image", 16 * MIB, 16, 8 * MIB, 128 * MIB, 128 * MIB, 0},
        {"one connection has its 256 KiB before sixteen have these", 16 * MIB, 16, 256 * KIB, 128 * MIB, 128 * MIB, 1},
        {"half of what may be ahead", 64 * MIB, 16, 8 * MIB, 128 * MIB, 128 * MIB, 0},
        {"more than that", 65 * MIB, 16, 8 * MIB, 128 * MIB, 128 * MIB, 1},
        {"a quarter, and the room is full", 32 * MIB, 16, 8 * MIB, 128 * MIB, 0, 0},
        {"more than that", 33 * MIB, 16, 8 * MIB, 128 * MIB, 0, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_assert_eq(xh_policy_passes(cases[i].before, cases[i].connections, cases[i].len, cases[i].readahead_bytes,
                                      cases[i].room),
                     cases[i].passes, "%s", cases[i].what);
}

Test(policy, a_load_holds_up_others_that_are_more_than_twice_as_fast)
{
    cr_assert(xh_policy_holds_up(MIB, 3 * MIB) && !xh_policy_holds_up(MIB, 2 * MIB) && !xh_policy_holds_up(MIB, 0));
}

Test(policy, a_load_is_relieved_that_lacks_more_than_twice_what_it_keeps)
{
    cr_assert(xh_policy_is_relieved(2 * MIB + 1, MIB) && !xh_policy_is_relieved(2 * MIB, MIB));
    cr_assert(!xh_policy_is_relieved(0, 0));
}

Test(policy, a_slow_load_keeps_what_comes_while_a_new_connection_brings_the_next)
{
    static const struct {
        const char *what;
        uint64_t bytes, rate;
        double rtt_ms;
        uint64_t keeps;
    } cases[] = {
        {"eight flights, and two round trips for the opening, at 2 MiB a second", 2 * MIB, 2 * MIB, 100, 2 * MIB},
        {"half as fast", 2 * MIB, MIB, 100, MIB},
        {"a near server", 2 * MIB, 2 * MIB, 10, 2 * MIB / 10},
        {"what comes in one flight", 14600, 10 * MIB, 100, 3 * MIB},
        {"its speed is not known", 2 * MIB, 0, 100, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t keeps = xh_policy_keeps(cases[i].bytes, cases[i].rate, cases[i].rtt_ms * 1e6);
        cr_assert(keeps + 1 >= cases[i].keeps && keeps <= cases[i].keeps + 1, "%s: %llu", cases[i].what,
                  (unsigned long long)keeps);
    }
}

Test(policy, a_load_gives_what_lets_both_end_together)
{
    static const struct {
        const char *what;
        struct xh_giving g;
        uint64_t gives;
    } cases[] = {
        {"as fast: 5 MiB come in the time of 4 and a round trip", {9 * MIB, 10 * MIB, 10 * MIB, 1e8}, 4 * MIB},
        {"four times as fast", {21 * MIB, 10 * MIB, 40 * MIB, 1e8}, 16 * MIB},
        {"a fourth as fast: 6 MiB at 40 a second, 1 at 10", {9 * MIB, 40 * MIB, 10 * MIB, 1e8}, 0},
        {"a round trip's", {3 * MIB, 10 * MIB, 10 * MIB, 1e8}, MIB},
        {"less than that", {3 * MIB - 2, 10 * MIB, 10 * MIB, 1e8}, 0},
        {"it is over before the other begins", {MIB / 2, 10 * MIB, 100 * MIB, 1e8}, 0},
        {"nothing is known of the taker", {9 * MIB, 10 * MIB, 0, 1e8}, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_assert_eq(xh_policy_gives(&cases[i].g), cases[i].gives, "%s: %llu", cases[i].what,
                     (unsigned long long)xh_policy_gives(&cases[i].g));
}

Test(policy, a_connection_that_is_done_takes_a_part_of_the_room)
{
    static const struct {
        const char *what;
        struct xh_part p;
        uint64_t bytes;
    } cases[] = {
        {"as fast as the others", {128 * MIB, 1024 * MIB, 16, 100 * MIB, 100 * MIB / 16, 5e7, 0}, 8 * MIB},
        {"faster", {128 * MIB, 1024 * MIB, 16, 100 * MIB, 50 * MIB, 5e7, 0}, 8 * MIB},
        {"it stood still", {128 * MIB, 1024 * MIB, 16, 100 * MIB, 0, 5e7, 0}, 8 * MIB},
        {"half as fast", {128 * MIB, 1024 * MIB, 16, 100 * MIB, 100 * MIB / 32, 5e7, 0}, 4 * MIB},
        {"a share of the room", {16 * MIB, 1024 * MIB, 16, 10 * MIB, 0, 5e7, 0}, MIB},
        {"nothing is known", {128 * MIB, 1024 * MIB, 4, 0, 0, 0, 0}, 32 * MIB},
        {"eight round trips fit", {128 * MIB, 1024 * MIB, 16, 100 * MIB, 0, 1.6e8, 0}, 8 * MIB},
        {"fewer", {128 * MIB, 1024 * MIB, 16, 101 * MIB, 0, 1.6e8, 0}, 0},
        {"fewer by now", {128 * MIB, 1024 * MIB, 16, 50 * MIB, 0, 1.6e8, 101 * MIB}, 0},
        {"it has become slower", {128 * MIB, 1024 * MIB, 16, 100 * MIB, 0, 1.6e8, 10 * MIB}, 8 * MIB},
        {"so near that many fit", {128 * MIB, 1024 * MIB, 16, 500 * MIB, 0, 1e6, 0}, 8 * MIB},
        {"the end is near: an equal part of the rest", {128 * MIB, 64 * MIB, 16, 500 * MIB, 0, 1e6, 0}, 4 * MIB},
        {"but eight round trips", {128 * MIB, 16 * MIB, 16, 80 * MIB, 0, 5e7, 0}, 2 * MIB},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_assert_eq(xh_policy_part(&cases[i].p), cases[i].bytes, "%s: %llu", cases[i].what,
                     (unsigned long long)xh_policy_part(&cases[i].p));
}

Test(policy, small_reads_and_what_is_read_again_are_kept)
{
    static const struct {
        uint64_t bytes, empty, again;
        int kept, reread;
    } cases[] = {
        {256 * KIB - 1, 64, 0, 1, 0}, {256 * KIB, 64, 0, 0, 0}, {MIB, 256, 128, 0, 0}, {MIB, 256, 129, 1, 1},
        {MIB, 0, 0, 0, 0},            {MIB, 1, 1, 1, 1},        {4 * KIB, 1, 0, 1, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        cr_assert_eq(xh_policy_keeps_pages(cases[i].bytes, cases[i].empty, cases[i].again), cases[i].kept, "%zu", i);
        cr_assert_eq(xh_policy_is_reread(cases[i].empty, cases[i].again), cases[i].reread, "%zu", i);
    }
    cr_assert_eq(xh_policy_stays_reread(8 * MIB), 32 * MIB, "a fifth of what is read");
    cr_assert_eq(xh_policy_stays_reread(MIB), 16 * MIB, "the shortest stream");
}

Test(policy, what_is_fetched_ahead_is_kept_up_to_the_first_stream_bytes)
{
    static const struct xh_range r[] = {{0, MIB}, {MIB, MIB}, {2 * MIB, MIB}};
    static const struct {
        struct xh_keeping k;
        size_t kept;
    } cases[] = {
        {{.streamed = 0, .stream_bytes = 0}, 0},
        {{.streamed = 0, .stream_bytes = 2 * MIB}, 2},
        {{.streamed = 1, .stream_bytes = 2 * MIB}, 1},
        {{.streamed = 8 * MIB, .stream_bytes = 2 * MIB}, 0},
        {{.streamed = 8 * MIB, .stream_bytes = 2 * MIB, .shared = 1}, 3},
        {{.meta = 1}, 3},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_assert_eq(xh_policy_keeps_ahead(&cases[i].k, r, COUNT(r)), cases[i].kept, "%zu", i);
}

Test(policy, chunks_that_were_told_of_are_kept)
{
    static const struct {
        struct xh_range r[3];
        size_t n;
        int kept;
    } cases[] = {
        {{{0, 16 << 10}, {MIB, 16 << 10}, {2 * MIB, 16 << 10}}, 3, 1},
        {{{0, 16 << 10}, {MIB, 16 << 10}, {2 * MIB, (16 << 10) - 1}}, 3, 0}, /* by their mean */
        {{{0, 1}, {MIB, MIB}}, 2, 1},
        {{{0, 4096}, {MIB, 4096}}, 2, 0},
        {{{0, 5000}, {5000, 5000}, {10000, 6384}}, 3, 1}, /* they share pages */
        {{{0, 5000}, {5000, 5000}, {10001, 6384}}, 3, 0},
        {{{0, 64 * MIB}}, 1, 0}, /* a contiguous run */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct xh_announced t = {.r = cases[i].r, .n = cases[i].n, .run = cases[i].r[cases[i].n - 1].len,
                                       .room = 64 * MIB};
        const struct xh_keeping k = {.stream_bytes = 8 * MIB};
        cr_assert_eq(!xh_policy_passes_told(&t) && xh_policy_keeps_told(&k, &t), cases[i].kept, "%zu", i);
    }
}

Test(policy, a_contiguous_run_that_was_told_of_is_kept_as_one_that_was_foreseen)
{
    static const struct xh_range r = {0, 40 * MIB};
    static const struct {
        uint64_t run, streamed, empty, again;
        int kept;
    } cases[] = {
        {0, 0, 10240, 0, 1}, /* several */
        {40 * MIB, 0, 10240, 0, 1},  /* up to twice stream_bytes */
        {65 * MIB, 0, 10240, 0, 0},  /* with what comes later it streams */
        {40 * MIB, 32 * MIB, 10240, 0, 0},
        {40 * MIB, 32 * MIB, 10240, 5121, 1}, /* it was read before */
        {40 * MIB, 32 * MIB, 10240, 5120, 0},
        {40 * MIB, 32 * MIB, 0, 0, 0},
        {16 * MIB - 1, 32 * MIB, 4096, 0, 1}, /* shorter than any stream */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct xh_announced t = {&r, 1, .run = cases[i].run, .bytes = r.len, .room = 128 * MIB,
                                 .readahead_bytes = 128 * MIB, .empty = cases[i].empty, .again = cases[i].again};
        const struct xh_keeping k = {.streamed = cases[i].streamed, .stream_bytes = 32 * MIB};
        cr_assert_eq(xh_policy_keeps_told(&k, &t), cases[i].kept, "%zu", i);
        cr_assert(!xh_policy_passes_told(&t));
        t.room = r.len - 1; /* it does not fit, and there is more room elsewhere */
        cr_assert(xh_policy_passes_told(&t));
        t.readahead_bytes = t.room;
        cr_assert(!xh_policy_passes_told(&t));
    }
    struct xh_announced rest = {&r, 1, .run = 64 * MIB, .begun = 24 * MIB, .empty = 10240};
    struct xh_keeping k = {.streamed = 56 * MIB - 1, .stream_bytes = 32 * MIB};
    cr_assert(xh_policy_keeps_told(&k, &rest), "as what came of it before");
    k.streamed++;
    cr_assert_not(xh_policy_keeps_told(&k, &rest));
}

Test(policy, of_several_long_ranges_that_were_told_of_no_more_is_kept_than_of_one)
{
    static const struct xh_range r[] = {{0, MIB}, {64 * MIB, 40 * MIB}, {128 * MIB, 16 * MIB - 1}};
    const struct xh_keeping k = {.streamed = 32 * MIB, .stream_bytes = 32 * MIB}, first = {.stream_bytes = 32 * MIB};
    struct xh_announced t = {.r = r, .n = 3, .run = 40 * MIB, .room = 128 * MIB, .readahead_bytes = 128 * MIB,
                             .empty = 10240};
    cr_assert_not(xh_policy_keeps_told(&k, &t));
    cr_assert(xh_policy_keeps_told(&first, &t));
    t.again = 5121;
    cr_assert(xh_policy_keeps_told(&k, &t), "they were read before");
    t = (struct xh_announced){.r = r + 2, .n = 1, .run = 16 * MIB - 1, .room = 128 * MIB, .empty = 4096};
    cr_assert(xh_policy_keeps_told(&k, &t));
}

Test(policy, short_pieces_that_were_told_of_come_to_the_byte_once)
{
    static const struct xh_range r[] = {{0, 10000}, {MIB, 10000}};
    cr_assert(xh_policy_passes_told(&(struct xh_announced){r, 2, .room = MIB, .empty = 7, .again = 3}));
    cr_assert(!xh_policy_passes_told(&(struct xh_announced){r, 2, .room = MIB, .empty = 7, .again = 4}));
}

Test(policy, a_stream_begins_where_it_is_long_and_not_kept)
{
    const struct xh_keeping once = {.stream_bytes = 32 * MIB}, others = {.stream_bytes = 32 * MIB, .shared = 1};
    cr_assert(xh_policy_streams(&once, 64 * MIB + 2));
    cr_assert_not(xh_policy_streams(&once, 64 * MIB), "nearly all of it would be kept anyway");
    cr_assert_not(xh_policy_streams(&others, 640 * MIB));
    cr_assert_eq(xh_policy_stream_end(16 * MIB - 1, 99), 0);
    cr_assert_eq(xh_policy_stream_end(16 * MIB, 99), 99);
}

Test(policy, what_is_as_long_as_a_stream_and_kept_all_the_same_is_dealt)
{
    const struct xh_keeping once = {.stream_bytes = 32 * MIB}, others = {.stream_bytes = 32 * MIB, .shared = 1};
    const struct xh_keeping later = {.stream_bytes = 32 * MIB, .streamed = 32 * MIB}, never = {.stream_bytes = 0};
    cr_assert_not(xh_policy_deals(&once, 16 * MIB - 1));
    cr_assert(xh_policy_deals(&once, 16 * MIB));
    cr_assert(xh_policy_deals(&once, 64 * MIB));
    cr_assert_not(xh_policy_deals(&once, 64 * MIB + 2), "it streams");
    cr_assert_not(xh_policy_deals(&others, 64 * MIB), "each fetches its share");
    cr_assert_not(xh_policy_deals(&later, 32 * MIB), "it is not kept");
    cr_assert_not(xh_policy_deals(&never, 32 * MIB));
}

Test(policy, a_stream_begins_with_the_read_only_on_young_connections_for_a_large_read_of_a_dataset)
{
    const struct xh_leading most = {.len = 8 * MIB, .dataset = 800 * MIB, .young = 1};
    struct xh_leading l[6];
    for (size_t i = 0; i < COUNT(l); i++)
        l[i] = most;
    l[1].len--;
    l[2].dataset = 0;
    l[3].hinted = 1;
    l[4].joint = 1;
    l[5].young = 0;
    for (size_t i = 0; i < COUNT(l); i++)
        cr_assert_eq(xh_policy_leads(&l[i]), i == 0, "%zu", i);
}

Test(policy, reads_that_skip_much_leave_their_stream)
{
    static const struct {
        uint64_t step, len, ahead;
        int leaves;
    } table[] = {
        {3 * MIB, MIB, 64 * MIB, 1},
        {3 * MIB - 1, MIB, 64 * MIB, 0},      /* less than twice as much */
        {2 * MIB, MIB, 64 * MIB, 0},          /* each second piece */
        {3 * MIB, MIB, 64 * MIB - 1, 0},      /* too little comes without it */
        {16 * MIB, MIB, 1, 1},                /* whatever comes without it */
        {16 * MIB - 16, MIB, 1, 0},
        {0 - (uint64_t)MIB, MIB, 64 * MIB, 1}, /* downwards */
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_expect_eq(xh_policy_leaves(table[i].step, table[i].len, table[i].ahead), table[i].leaves, "row %zu", i);
}

Test(policy, a_jump_leads_unless_the_one_before_went_astray)
{
    const struct xh_leading young = {.len = 8 * MIB, .files = 1, .dataset = 64 * MIB, .young = 1, .astray = 1};
    struct xh_leading l = {.len = 8 * MIB, .files = 1, .dataset = 64 * MIB, .jumped = 1};
    cr_expect(xh_policy_leads(&l));
    l.astray = 1;
    cr_expect_not(xh_policy_leads(&l));
    cr_expect(xh_policy_leads(&young), "the first read of all");
    cr_expect_not(xh_policy_is_astray(1, 0));
    cr_expect(xh_policy_is_astray(2, 0));
    cr_expect(xh_policy_is_astray(1, 1));
    cr_expect_not(xh_policy_is_astray(0, 1));
    cr_expect(xh_policy_is_worth_all(2 * MIB));
    cr_expect_not(xh_policy_is_worth_all(2 * MIB - 1));
}

Test(policy, with_several_files_side_by_side_their_streams_begin_with_smaller_reads)
{
    static const struct {
        uint64_t each;
        unsigned files;
        int begins, leads;
    } table[] = {
        {MIB, 1, 1, 0},      {MIB, 2, 1, 1}, {MIB, 4, 1, 1},     {MIB, 4, 0, 0}, {MIB, 8, 0, 1}, {MIB - 1, 4, 1, 0},
        {MIB / 2, 15, 1, 0}, {MIB / 2, 16, 1, 1}, {8 * MIB, 1, 0, 1},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        const struct xh_leading l = {.len = table[i].files * table[i].each, .files = table[i].files,
                                     .begins = table[i].begins, .dataset = 64 * MIB, .young = 1};
        cr_assert_eq(xh_policy_leads(&l), table[i].leads, "row %zu", i);
    }
}

Test(policy, windows)
{
    static const struct {
        struct xh_window w;
        uint64_t window;
    } cases[] = {
        {{.most = 64 * MIB, .room = 64 * MIB, .width = 1}, 64 * MIB},
        {{.most = 64 * MIB, .room = 16 * MIB, .width = 1}, 16 * MIB},
        {{.most = 64 * MIB, .room = 64 * MIB, .width = 4}, 16 * MIB},
        {{.most = 64 * MIB, .room = 64 * MIB, .width = 4, .hinted = 15 * MIB}, MIB},
        {{.most = 64 * MIB, .room = 64 * MIB, .width = 4, .hinted = 48 * MIB}, 0},
        {{.most = 0, .room = 64 * MIB, .width = 1}, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_assert_eq(xh_policy_guess_window(&cases[i].w), cases[i].window, "%zu", i);
    cr_assert_eq(xh_policy_hint_window(64 * MIB), 48 * MIB);
    cr_assert_eq(xh_policy_most_ahead(64 * MIB, 16 * MIB, 0), 64 * MIB, "it comes elsewhere");
    cr_assert_eq(xh_policy_most_ahead(64 * MIB, 16 * MIB, 2), 4 * MIB);
    cr_assert_eq(xh_policy_most_ahead(MIB, 16 * MIB, 2), MIB);
    cr_assert_eq(xh_policy_joint_window(64 * MIB, MIB, 2 * MIB), 3 * MIB, "never farther than it has read");
    cr_assert_eq(xh_policy_joint_window(MIB, MIB, 2 * MIB), MIB);
    cr_assert_eq(xh_policy_spare_bytes(0), 0);
    cr_assert_eq(xh_policy_spare_bytes(10), 156250);
}

Test(policy, what_comes_ahead_is_divided_down_to_what_a_connection_brings_soon)
{
    static const struct {
        const char *what;
        uint64_t part, trip;
        int divides;
        uint64_t least;
    } cases[] = {
        {"a connection that fills a fast link", 512 * KIB, 4 * MIB, 1, 4 * MIB},
        {"one that has lost packets, or is limited", 512 * KIB, 400 * KIB, 1, 800 * KIB},
        {"no less than the option says", 2 * MIB, 400 * KIB, 1, 2 * MIB},
        {"nor than what waits for round trips", 16 * KIB, 20 * KIB, 1, 256 * KIB},
        {"it is not known", 512 * KIB, 0, 1, 4 * MIB},
        {"one file of many", 512 * KIB, 400 * KIB, 0, 4 * MIB},
        {"the option says more", 8 * MIB, 400 * KIB, 0, 8 * MIB},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_expect_eq(xh_policy_least_ahead(cases[i].part, cases[i].trip, cases[i].divides), cases[i].least, "%s",
                     cases[i].what);
}

Test(policy, a_file_comes_whole_where_that_takes_no_longer_than_a_walk)
{
    const struct {
        double rtt_ms;
        uint64_t second_bytes;
        unsigned connections, misses;
        uint64_t largest; /* that comes whole */
    } links[] = {
        {0, 0, 8, 1, 16 * MIB},             /* nothing is known: the option */
        {10, 0, 8, 1, 16 * MIB},
        {50, 0, 16, 1, 16 * MIB},
        {160, 0, 16, 1, 16 * MIB},
        {160, 0, 4, 1, 14892000},           /* what four connections in slow start bring in eight round trips */
        {160, 0, 1, 1, 3723000},
        {160, 0, 1, 9, 7460600},            /* it goes on longer than a walk */
        {160, 0, 1, 1000, 16 * MIB},
        {1, 1250000, 8, 1, 135000},         /* 10 Mbit/s, known */
        {50, 1250000, 16, 1, 625000},
        {50, 12500000, 16, 1, 6250000},
        {50, 12500000, 16, 20, 13750000},
        {1, 1250000000, 8, 1, 16 * MIB},
    };
    for (size_t i = 0; i < COUNT(links); i++) {
        struct xh_opened o = {.size = links[i].largest, .most_ahead = 64 * MIB, .whole_file_bytes = 16 * MIB,
                              .rtt_ms = links[i].rtt_ms, .second_bytes = links[i].second_bytes,
                              .connections = links[i].connections, .misses = links[i].misses, .readahead = 1};
        cr_assert(xh_policy_is_whole(&o), "%zu", i);
        o.size++;
        cr_assert_not(xh_policy_is_whole(&o), "%zu", i);
    }
}

Test(policy, after_one_that_came_in_vain_a_file_comes_whole_for_a_reader_that_goes_on_alone)
{
    struct xh_opened o = {.size = 4 * MIB, .most_ahead = 64 * MIB, .whole_file_bytes = 16 * MIB, .rtt_ms = 50,
                          .connections = 16, .readahead = 1, .in_vain = 1};
    for (o.misses = 0; o.misses < 8; o.misses++)
        cr_assert_not(xh_policy_is_whole(&o), "%u", o.misses);
    cr_assert(xh_policy_is_whole(&o), "as many round trips as a walk has");
    cr_assert(xh_policy_came_in_vain(10000, 4 * MIB), "an attribute of it");
    cr_assert_not(xh_policy_came_in_vain(4 * MIB / 8, 4 * MIB));
    cr_assert_not(xh_policy_came_in_vain(0, 0));
    cr_assert_not(xh_policy_is_read_through(2 * MIB - 1, 4 * MIB));
    cr_assert(xh_policy_is_read_through(2 * MIB, 4 * MIB), "half of it");
}

Test(policy, what_lies_around_reads_in_no_order_comes_once_it_is_paid_for_and_goes_on_while_it_does_not_slow_them)
{
    const struct xh_paid eight = {.reads = 8, .waited_ns = 400000000, .far = 1};
    static const struct {
        const char *what;
        uint64_t slowed_ns, second_bytes, bytes;
        unsigned reads;
        int runs, in_vain, comes;
    } cases[] = {
        {"a fast link takes 0.8 s", 0, 0, 100000000, 8, 0, 0, 1},
        {"or longer", 0, 0, 100000001, 8, 0, 0, 0},
        {"too few reads", 0, 0, 40 * MIB, 7, 0, 0, 0},
        {"the last file's came in vain", 0, 0, 40 * MIB, 63, 0, 1, 0},
        {"the reader goes on all the same", 0, 0, 40 * MIB, 64, 0, 1, 1},
        {"the link is known, and takes 0.8 s", 0, 50 * MIB, 40 * MIB, 8, 0, 0, 1},
        {"or longer", 0, 50 * MIB, 40 * MIB + 1, 8, 0, 0, 0},
        {"it takes 40 s, but slows no read", 100000000, MIB, 40 * MIB, 8, 1, 0, 1},
        {"it takes 40 s, and slows them", 100000001, MIB, 40 * MIB, 8, 1, 0, 0},
        {"it slows them, and is paid for", 400000000, 50 * MIB, 40 * MIB, 8, 1, 0, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct xh_paid p = eight;
        p.slowed_ns = cases[i].slowed_ns;
        p.second_bytes = cases[i].second_bytes;
        p.bytes = cases[i].bytes;
        p.reads = cases[i].reads;
        p.runs = cases[i].runs;
        p.in_vain = cases[i].in_vain;
        cr_assert_eq(xh_policy_pays_for_all(&p), cases[i].comes, "%s", cases[i].what);
        p.far = 0;
        cr_assert_not(xh_policy_pays_for_all(&p), "%s, near", cases[i].what);
    }
    struct xh_paid again = eight;
    again.bytes = MIB;
    again.came = 2 * MIB;
    cr_assert(xh_policy_pays_for_all(&again), "some of it was evicted");
    again.came++;
    cr_assert_not(xh_policy_pays_for_all(&again), "there is no room for it");
    cr_assert(xh_policy_paid_in_vain(7));
    cr_assert_not(xh_policy_paid_in_vain(8));
    cr_assert(xh_policy_comes_by_itself(5 * MIB, 40 * MIB));
    cr_assert_not(xh_policy_comes_by_itself(5 * MIB, 41 * MIB));
    cr_assert_not(xh_policy_comes_by_itself(XH_BULK_BYTES - 1, MIB));
}

Test(policy, small_and_scattered_reads_and_those_of_less_than_a_flight_wait_for_trips)
{
    const struct xh_extent one[] = {{0, XH_BULK_BYTES, NULL}}, less[] = {{0, XH_BULK_BYTES - 1, NULL}};
    const struct xh_extent dense[] = {{0, XH_BULK_BYTES, NULL}, {2 * XH_BULK_BYTES, XH_BULK_BYTES, NULL}};
    const struct xh_extent scattered[] = {{0, XH_BULK_BYTES / 2, NULL}, {4 * XH_BULK_BYTES, XH_BULK_BYTES, NULL}};
    const struct xh_extent bulky[] = {{0, XH_BULK_BYTES, NULL}, {8 * XH_BULK_BYTES, XH_BULK_BYTES, NULL}};
    const struct {
        const char *what;
        const struct xh_extent *ext;
        size_t n;
        uint64_t flight;
        int waits;
    } cases[] = {
        {"a small one", less, 1, 0, 1},
        {"a large one", one, 1, 0, 0},
        {"a large one on a link that holds four of them", one, 1, 4 * XH_BULK_BYTES, 0},
        {"a large one on a link that holds more", one, 1, 4 * XH_BULK_BYTES + 4, 1},
        {"two beside each other", dense, 2, 0, 0},
        {"pieces of which one is small, far from each other", scattered, 2, 0, 1},
        {"large pieces far from each other", bulky, 2, 0, 0},
        {"the same on a link that holds more", bulky, 2, 8 * XH_BULK_BYTES + 4, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_assert_eq(xh_policy_waits_for_trips(cases[i].ext, cases[i].n, cases[i].flight), cases[i].waits, "%s",
                     cases[i].what);
}

Test(policy, what_does_not_come_whole)
{
    const struct xh_opened small = {.size = 4 * MIB, .most_ahead = 64 * MIB, .whole_file_bytes = 16 * MIB,
                                    .rtt_ms = 50, .connections = 16, .readahead = 1};
    struct xh_opened o[6];
    for (size_t i = 0; i < COUNT(o); i++)
        o[i] = small;
    o[1].size = 0;
    o[2].readahead = 0;
    o[3].whole_file_bytes = 4 * MIB - 1;
    o[4].most_ahead = 4 * MIB - 1;
    o[5].imaged = 1;
    for (size_t i = 0; i < COUNT(o); i++)
        cr_assert_eq(xh_policy_is_whole(&o[i]), i == 0, "%zu", i);
}

Test(policy, a_large_read_of_much_of_a_small_file_or_of_its_beginning_comes_with_the_rest)
{
    static const struct {
        uint64_t bytes, end, size;
        int with;
    } table[] = {
        {256 * KIB - 1, 256 * KIB, 256 * KIB, 0}, /* a small one comes first */
        {256 * KIB, 256 * KIB, 256 * KIB, 1},
        {256 * KIB, 2 * MIB, 2 * MIB, 1},
        {256 * KIB, 2 * MIB, 2 * MIB + 8, 0},
        {2 * MIB, 16 * MIB, 16 * MIB, 1},
        {2 * MIB - 1, 16 * MIB, 16 * MIB, 0},
        {256 * KIB - 1, 256 * KIB, 16 * MIB, 0},
        {256 * KIB, 2 * MIB, 16 * MIB, 1}, /* at the beginning */
        {256 * KIB, 2 * MIB + 1, 16 * MIB, 0},
    };
    for (size_t i = 0; i < COUNT(table); i++)
        cr_assert_eq(xh_policy_comes_with_rest(table[i].bytes, table[i].end, table[i].size), table[i].with, "%zu", i);
}

Test(policy, a_large_read_of_less_than_half_of_a_sibling_leaves_the_rest)
{
    cr_assert(xh_policy_leaves_rest(2 * MIB - 1, 4 * MIB, 1));
    cr_assert(xh_policy_leaves_rest(256 * KIB, 4 * MIB, 1));
    cr_assert_not(xh_policy_leaves_rest(2 * MIB, 4 * MIB, 1));
    cr_assert_not(xh_policy_leaves_rest(256 * KIB - 1, 4 * MIB, 1));
    cr_assert_not(xh_policy_leaves_rest(256 * KIB, 4 * MIB, 0));
}

Test(policy, a_compressed_copy_serves_where_it_is_faster_and_smaller)
{
    cr_assert_not(xh_policy_uses_copy(0, 1, 1));
    cr_assert_not(xh_policy_uses_copy(1, 0, 0));
    cr_assert(xh_policy_uses_copy(1, 1, 0));
    cr_assert(xh_policy_uses_copy(1, 0, 1));
    cr_assert(xh_policy_takes_packed(4096, 4096));
    cr_assert_not(xh_policy_takes_packed(4097, 4096));
}

Test(policy, a_read_fetches_itself_what_another_process_comes_to_late)
{
    static const struct {
        const char *what;
        struct xh_coming c;
        int late;
    } cases[] = {
        {"far ahead on a slow link", {.wanted = 1, .before = 4000, .came = 100, .nearer = 100, .ns = 100000000}, 1},
        {"nothing comes", {.wanted = 1, .before = 4000, .came = 0, .nearer = 0, .ns = 100000000}, 0},
        {"soon there", {.wanted = 1, .before = 4000, .came = 4000, .nearer = 4000, .ns = 100000000}, 0},
        {"too little before it", {.wanted = 1, .before = 200, .came = 10, .nearer = 10, .ns = 100000000}, 0},
        {"much is wanted", {.wanted = 500, .before = 4400, .came = 100, .nearer = 100, .ns = 100000000}, 0},
        {"other stretches come as fast", {.wanted = 1, .before = 100, .came = 400, .nearer = 100, .ns = 400000000}, 1},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        cr_assert_eq(xh_policy_comes_late(&cases[i].c), cases[i].late, "%s", cases[i].what);
}
