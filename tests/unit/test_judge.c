/* Whether a compressed body wins, against a link and an unpacker that are a few numbers. */
#include <criterion/criterion.h>

#include "source/judge.h"

enum { READ_NS = 70000000 };

/* A reader who waits, or (|waits| 0) computes half of the time and more; rates in bytes per ns. */
struct world {
    struct xh_judge j;
    struct xh_judged so_far;
    double link, unpack, ratio;
    int waits;
};

/* |n| reads, each of 70 ms. Returns how often the verdict changed. */
static int reads(struct world *w, int n)
{
    int changes = 0;
    for (int i = 0; i < n; i++) {
        double took = READ_NS, wire = took * w->link;
        double got = w->j.packed
                         ? took / (1 / (w->link * w->ratio) > 1 / w->unpack ? 1 / (w->link * w->ratio) : 1 / w->unpack)
                         : wire;
        w->so_far.now_ns += READ_NS;
        w->so_far.waited_ns += w->waits ? READ_NS : READ_NS / 3;
        w->so_far.wire_bytes += (uint64_t)(w->j.packed ? got / w->ratio : wire);
        w->so_far.got_bytes += (uint64_t)got;
        w->so_far.body_bytes += w->j.packed ? (uint64_t)got : 0;
        if (w->j.packed)
            xh_judge_unpacked(&w->j, 1000000, (uint64_t)(1e6 / w->unpack * 0.75), 1);
        changes += xh_judge_weigh(&w->j, &w->so_far, 10000000);
    }
    return changes;
}

static struct world world_of(double link, double unpack, double ratio)
{
    return (struct world){.so_far.now_ns = 1000, .link = link, .unpack = unpack, .ratio = ratio, .waits = 1};
}

/* A stream from a server |rtt_ns| away, by |n| young connections: each round trip brings twice as much, up to the
 * link's rate. Its reader is seen every 20 ms until the link is known, at most for ten seconds. Returns bytes that
 * had come by then, 0: it never was. */
static double stream(struct world *w, double rtt_ns, double n)
{
    double window = 14600 * n, came = 0;
    for (double t = 0, trip = 0; t < 10e9; t += 20e6) {
        for (; trip + rtt_ns <= t; trip += rtt_ns)
            window = 2 * window < w->link * rtt_ns ? 2 * window : w->link * rtt_ns;
        double rate = window / rtt_ns;
        came += 20e6 * rate;
        w->so_far.now_ns += 20000000;
        w->so_far.waited_ns += 20000000;
        w->so_far.wire_bytes += (uint64_t)(20e6 * rate);
        w->so_far.got_bytes = w->so_far.wire_bytes;
        xh_judge_weigh(&w->j, &w->so_far, (uint64_t)rtt_ns);
        if (w->j.link_rate > 0)
            return came;
    }
    return 0;
}

Test(judge, a_far_server_is_looked_beside_before_its_link_is_known)
{
    struct world w = world_of(0.1, 1.5, 1.4);
    cr_assert(xh_judge_looks(&w.j, 0, 10000000));
    cr_assert_not(xh_judge_looks(&w.j, 0, 1000000));
    cr_assert_not(xh_judge_looks(&w.j, 1.6, 10000000), "but for one that is known to be fast");
}

Test(judge, a_link_is_known_soon_after_slow_start)
{
    for (double rtt = 10e6; rtt < 170e6; rtt *= 2)
        for (double link = 0.0125; link < 0.3; link *= 2) {
            struct world w = world_of(link, 1.5, 1.4);
            double trip = rtt > 20e6 ? rtt : 20e6, came = stream(&w, rtt, 8);
            cr_assert(came > 0 && came < 1e6 + 6 * link * trip, "%g bytes, link %g, %g ms", came, link, rtt / 1e6);
            cr_assert(w.j.link_rate > 0.7 * link && w.j.link_rate < 1.05 * link, "%g, link %g", w.j.link_rate, link);
        }
}

Test(judge, a_fast_link_is_not_taken_for_a_slow_one_while_it_grows)
{
    for (double rtt = 1e6; rtt < 170e6; rtt *= 2) {
        struct world w = world_of(1.2, 1.5, 1.4);
        xh_judge_begin(&w.j, w.ratio);
        stream(&w, rtt, 2);
        cr_assert_not(w.j.packed);
        cr_assert(w.j.link_rate > 0.6, "%g at %g ms", w.j.link_rate, rtt / 1e6);
    }
}

/* What comes behind a lost packet is kept back, and comes at once. */
Test(judge, a_copy_is_read_whose_link_is_known_from_a_burst)
{
    struct world w = world_of(0.118, 1.5, 1.5);
    xh_judge_begin(&w.j, w.ratio);
    stream(&w, 50e6, 8);
    cr_assert(w.j.packed);
    cr_assert_eq(reads(&w, 200), 0);
    struct world lossy = world_of(0.118, 1.5, 1.5);
    xh_judge_begin(&lossy.j, lossy.ratio);
    double mb[] = {0.2, 4, 8, 17, 40, 90, 117, 86, 0, 126, 240, 0, 80, 267};
    for (size_t i = 0; i < sizeof mb / sizeof *mb && !lossy.j.packed; i++) {
        lossy.so_far.now_ns += 60000000;
        lossy.so_far.waited_ns += 60000000;
        lossy.so_far.wire_bytes += (uint64_t)(60e3 * mb[i]);
        lossy.so_far.got_bytes = lossy.so_far.wire_bytes;
        xh_judge_weigh(&lossy.j, &lossy.so_far, 50000000);
    }
    cr_assert(lossy.j.packed, "%g", lossy.j.link_rate);
    cr_assert_eq(reads(&lossy, 200), 0);
}

Test(judge, a_slow_link_is_looked_beside_and_a_fast_one_not)
{
    struct world slow = world_of(0.0125, 1.5, 1.4), fast = world_of(1.6, 1.5, 1.4);
    cr_assert_not(xh_judge_looks(&slow.j, 0, 0), "before anything is known");
    cr_assert(xh_judge_looks(&slow.j, 0.1, 0), "another file has told of it");
    reads(&slow, 3);
    reads(&fast, 3);
    cr_assert(xh_judge_looks(&slow.j, 0, 0));
    cr_assert_not(xh_judge_looks(&fast.j, 0, 0));
}

Test(judge, a_body_is_read_behind_a_slow_link_and_stays)
{
    for (double link = 0.0125; link < 0.13; link *= 3) {
        struct world w = world_of(link, 1.5, 1.4);
        reads(&w, 5);
        cr_assert_not(w.j.packed);
        xh_judge_begin(&w.j, w.ratio);
        reads(&w, 3);
        cr_assert(w.j.packed, "link %g", link);
        cr_assert_eq(reads(&w, 200), 0);
    }
}

Test(judge, a_body_is_left_where_the_link_is_as_fast_as_unpacking)
{
    struct world w = world_of(0.4, 0.6, 1.4);
    reads(&w, 5);
    xh_judge_begin(&w.j, w.ratio);
    cr_assert_eq(reads(&w, 200), 0);
    cr_assert_not(w.j.packed);
}

Test(judge, a_body_of_lz4_is_read_behind_a_link_that_is_too_fast_for_zstd)
{
    for (int lz4 = 0; lz4 < 2; lz4++) {
        struct world w = world_of(1.0, lz4 ? 4 : 1.5, lz4 ? 3 : 4);
        w.j.unpack_guess = lz4 ? XH_UNPACK_GUESS_LZ4 : XH_UNPACK_GUESS;
        cr_assert(xh_judge_looks(&w.j, w.link, 0), "until it is seen, nobody knows how it is packed");
        reads(&w, 5);
        xh_judge_begin(&w.j, w.ratio);
        reads(&w, 200);
        cr_assert_eq(w.j.packed, lz4);
    }
}

Test(judge, a_body_whose_unpacking_falls_behind_the_link_is_left)
{
    struct world w = world_of(0.12, 1.5, 1.5);
    reads(&w, 5);
    xh_judge_begin(&w.j, w.ratio);
    reads(&w, 20);
    cr_assert(w.j.packed);
    w.unpack = 0.1; /* others need the processors */
    cr_assert_eq(reads(&w, 20), 1, "%g", w.j.unpack_rate);
    cr_assert_not(w.j.packed);
    cr_assert_eq(reads(&w, 200), 0);
}

Test(judge, who_waits_little_changes_nothing)
{
    struct world w = world_of(0.0125, 1.5, 1.4);
    w.waits = 0;
    xh_judge_begin(&w.j, w.ratio);
    cr_assert_eq(reads(&w, 100), 0);
    cr_assert_not(w.j.packed);
}

Test(judge, a_link_that_is_known_decides_at_once_and_no_body_ends_it)
{
    struct world w = world_of(0.0125, 1.5, 1.4);
    w.j.link_rate = w.link;
    cr_assert(xh_judge_begin(&w.j, w.ratio));
    cr_assert(w.j.packed);
    cr_assert(xh_judge_begin(&w.j, 0));
    cr_assert_not(w.j.packed);
}
