/* How fast a load comes: base/pace.h. */
#include <criterion/criterion.h>

#include "base/pace.h"

#define MS 1000000u

/* |p| gets |bytes| each 10 ms for |ms|, from |now| on. Returns the time then. */
static uint64_t flows(struct xh_pace *p, uint64_t now, unsigned ms, uint64_t bytes)
{
    for (unsigned i = 0; i < ms / 10; i++) {
        p->bytes += bytes;
        now += 10 * MS;
        xh_pace_look(p, now, 0);
    }
    return now;
}

Test(pace, is_known_after_a_quarter_of_a_second)
{
    struct xh_pace p = {0};
    xh_pace_look(&p, MS, 0);
    uint64_t now = flows(&p, MS, 240, 10000);
    cr_assert_eq(p.rate, 0);
    now = flows(&p, now, 10, 10000);
    cr_assert_eq(p.rate, 1000000);
    flows(&p, now, 250, 30000);
    cr_assert_eq(p.rate, 3000000);
}

Test(pace, what_has_stood_still_is_measured_anew)
{
    struct xh_pace p = {0};
    xh_pace_look(&p, MS, 0);
    uint64_t now = flows(&p, MS, 500, 10000);
    cr_assert(p.steady);
    xh_pace_look(&p, now, 1);
    cr_assert_eq(p.rate, 1000000, "it is as fast as it was");
    cr_assert_not(p.steady);
    now += 5000ull * MS;
    xh_pace_look(&p, now, 1);
    xh_pace_look(&p, now, 0);
    flows(&p, now, 250, 20000);
    cr_assert_eq(p.rate, 2000000, "the time in which it stood does not count");
}

Test(pace, is_steady_once_it_grows_no_more)
{
    struct xh_pace p = {0};
    uint64_t now = MS;
    xh_pace_look(&p, now, 0);
    for (uint64_t bytes = 1000; bytes < 16000; bytes *= 2) {
        now = flows(&p, now, 250, bytes);
        cr_assert_not(p.steady, "it doubles");
    }
    now = flows(&p, now, 250, 10000);
    cr_assert(p.steady, "a fourth more than 8000");
    flows(&p, now, 250, 5000);
    cr_assert(p.steady, "a half");
}
