/* Whether a compressed body wins, against a link and an unpacker that are a few numbers. */
#include <criterion/criterion.h>

#include "sidecar/judge.h"

enum { READ_NS = 70000000 };

/* A reader who waits, or (|waits| 0) computes half of the time and more; rates in bytes per ns. */
struct world {
    struct xh_judge j;
    struct xh_judged so_far;
    double link, unpack, ratio;
    int waits, surprise; /* surprise: unpacking seems to be fast, but what comes of it is not */
};

/* |n| reads, each of 70 ms. Returns how often the verdict changed. */
static int reads(struct world *w, int n)
{
    int changes = 0;
    for (int i = 0; i < n; i++) {
        double took = READ_NS, wire = took * w->link;
        double got = w->j.packed ? took / (1 / (w->link * w->ratio) > 1 / w->unpack ? 1 / (w->link * w->ratio) : 1 / w->unpack) : wire;
        w->so_far.now_ns += READ_NS;
        w->so_far.waited_ns += w->waits ? READ_NS : READ_NS / 3;
        w->so_far.wire_bytes += (uint64_t)(w->j.packed ? got / w->ratio : wire);
        w->so_far.got_bytes += (uint64_t)got;
        w->so_far.body_bytes += w->j.packed ? (uint64_t)got : 0;
        if (w->j.packed && !w->surprise)
            xh_judge_unpacked(&w->j, 1000000, (uint64_t)(1e6 / w->unpack * 0.75), 1);
        changes += xh_judge_weigh(&w->j, &w->so_far, 10000000);
    }
    return changes;
}

static struct world world_of(double link, double unpack, double ratio)
{
    return (struct world){.so_far.now_ns = 1000, .link = link, .unpack = unpack, .ratio = ratio, .waits = 1};
}

Test(judge, a_slow_link_is_looked_beside_and_a_fast_one_not)
{
    struct world slow = world_of(0.0125, 1.5, 1.4), fast = world_of(1.2, 1.5, 1.4);
    cr_assert_not(xh_judge_looks(&slow.j, 0), "before anything is known");
    cr_assert(xh_judge_looks(&slow.j, 0.1), "another file has told of it");
    reads(&slow, 3);
    reads(&fast, 3);
    cr_assert(xh_judge_looks(&slow.j, 0));
    cr_assert_not(xh_judge_looks(&fast.j, 0));
}

Test(judge, a_body_is_read_behind_a_slow_link_and_stays)
{
    for (double link = 0.0125; link < 0.13; link *= 3) {
        struct world w = world_of(link, 1.5, 1.4);
        reads(&w, 5);
        cr_assert_not(w.j.packed);
        xh_judge_begin(&w.j, w.ratio, 0, w.so_far.now_ns);
        reads(&w, 3);
        cr_assert(w.j.packed, "link %g", link);
        cr_assert_eq(reads(&w, 200), 0);
    }
}

Test(judge, a_body_is_left_where_the_link_is_as_fast_as_unpacking)
{
    struct world w = world_of(0.4, 0.6, 1.4);
    reads(&w, 5);
    xh_judge_begin(&w.j, w.ratio, 0, w.so_far.now_ns);
    cr_assert_eq(reads(&w, 200), 0);
    cr_assert_not(w.j.packed);
}

/* A body is on trial that brings less than the original did. */
static struct world on_trial(void)
{
    struct world w = world_of(0.12, 0.1, 1.5);
    w.surprise = 1;
    reads(&w, 5);
    xh_judge_begin(&w.j, w.ratio, 0, w.so_far.now_ns);
    reads(&w, 3);
    cr_assert(w.j.packed);
    return w;
}

Test(judge, a_trial_that_does_not_pay_ends_and_is_not_repeated_soon)
{
    struct world w = on_trial();
    cr_assert_eq(reads(&w, 40), 1, "within three seconds");
    cr_assert_not(w.j.packed);
    cr_assert_eq(reads(&w, 100), 0, "for seven seconds");
}

Test(judge, a_trial_whose_connections_have_to_find_their_speed_goes_on)
{
    struct world w = on_trial();
    cr_assert_eq(reads(&w, 20), 0, "a slow second");
    w.unpack = 1.5;
    cr_assert_eq(reads(&w, 200), 0);
    cr_assert(w.j.packed);
}

Test(judge, who_waits_little_changes_nothing)
{
    struct world w = world_of(0.0125, 1.5, 1.4);
    w.waits = 0;
    xh_judge_begin(&w.j, w.ratio, 0, w.so_far.now_ns);
    cr_assert_eq(reads(&w, 100), 0);
    cr_assert_not(w.j.packed);
}

Test(judge, a_link_that_is_known_decides_at_once_and_no_body_ends_it)
{
    struct world w = world_of(0.0125, 1.5, 1.4);
    cr_assert(xh_judge_begin(&w.j, w.ratio, 0.0125, 1));
    cr_assert(w.j.packed);
    cr_assert(xh_judge_begin(&w.j, 0, 0, 2));
    cr_assert_not(w.j.packed);
}
