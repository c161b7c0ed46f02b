/* Sets of extents against a naive model: a byte map of kinds. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "overlay/extents.h"

#define SPACE 200u

/* Checks the invariants, and every byte against |model|. */
static void check(const struct xh_extents *s, const unsigned char *model)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->n; i++) {
        cr_assert_lt(s->at[i].off, s->at[i].end);
        bytes += s->at[i].end - s->at[i].off;
        if (i > 0) {
            cr_assert_leq(s->at[i - 1].end, s->at[i].off);
            cr_assert(s->at[i - 1].end < s->at[i].off || s->at[i - 1].kind != s->at[i].kind,
                      "two that touch are of one kind");
        }
    }
    cr_assert_eq(bytes, s->bytes);
    uint64_t to;
    for (uint64_t off = 0; off < SPACE; off = to) {
        int kind, in = xh_extents_next(s, off, SPACE, &to, &kind);
        cr_assert(to > off && to <= SPACE);
        for (uint64_t i = off; i < to; i++)
            cr_assert_eq(model[i], in ? kind : 0, "byte %u", (unsigned)i);
    }
}

Test(extents, random_puts_and_cuts_are_what_a_map_of_bytes_says, .timeout = 20)
{
    for (unsigned seed = 0; seed < 300; seed++) {
        unsigned char model[SPACE] = {0};
        struct xh_extents s = {0};
        srand(seed);
        for (int i = 0; i < 60; i++) {
            unsigned off = (unsigned)rand() % SPACE, len = (unsigned)rand() % 30,
                     end = off + len < SPACE ? off + len : SPACE;
            int kind = rand() % 4;
            cr_assert_eq(kind ? xh_extents_put(&s, off, end, kind) : xh_extents_cut(&s, off, end), 0);
            memset(model + off, kind, end - off);
            check(&s, model);
            unsigned from = (unsigned)rand() % SPACE, until = from + (unsigned)rand() % (SPACE - from);
            int all = 1;
            for (unsigned b = from; b < until; b++)
                all &= model[b] != 0;
            cr_assert_eq(xh_extents_covers(&s, from, until), all);
        }
        xh_extents_free(&s);
        cr_assert(s.n == 0 && s.at == NULL);
    }
}

Test(extents, many_stretches_at_once_are_as_many_puts, .timeout = 20)
{
    for (unsigned seed = 0; seed < 2000; seed++) {
        unsigned char model[SPACE] = {0};
        struct xh_extents s = {0};
        srand(seed);
        for (int i = 0; i < 20; i++) {
            struct xh_stretch with[SPACE];
            size_t n = 0;
            unsigned at = (unsigned)rand() % SPACE, gap = 1 + (unsigned)rand() % 20;
            for (; at < SPACE; at = (unsigned)with[n - 1].end + (unsigned)rand() % gap) {
                unsigned end = at + 1 + (unsigned)rand() % 10;
                with[n++] = (struct xh_stretch){at, end < SPACE ? end : SPACE, 1 + rand() % 3};
                memset(model + at, with[n - 1].kind, with[n - 1].end - at);
            }
            cr_assert_eq(xh_extents_put_all(&s, with, n), 0);
            check(&s, model);
            unsigned from = (unsigned)rand() % SPACE, end = from + (unsigned)rand() % (SPACE - from);
            cr_assert_eq(xh_extents_cut(&s, from, end), 0);
            memset(model + from, 0, end - from);
        }
        xh_extents_free(&s);
    }
}

/* Reads of a dataset in several strides, in a file that is written: what was seen is noted of each. */
Test(extents, interleaved_stretches_take_time_by_their_number, .timeout = 60)
{
    enum { N = 50000, TURNS = 5 };
    static struct xh_stretch with[N];
    struct xh_extents s = {0};
    for (unsigned t = 0; t < TURNS; t++) {
        for (unsigned i = 0; i < N; i++)
            with[i] = (struct xh_stretch){100 * i + 10 * t, 100 * i + 10 * t + 4, 1};
        cr_assert_eq(xh_extents_put_all(&s, with, N), 0);
    }
    cr_assert(s.n == TURNS * N && s.bytes == 4 * TURNS * N);
    cr_assert_leq(s.moved, (uint64_t)TURNS * TURNS * N, "%llu were moved", (unsigned long long)s.moved);
    xh_extents_free(&s);
}

Test(extents, a_cut_to_the_end_leaves_what_is_before)
{
    struct xh_extents s = {0};
    xh_extents_put(&s, 10, 20, 1);
    xh_extents_put(&s, 30, INT64_MAX, 1);
    cr_assert_eq(xh_extents_cut(&s, 15, UINT64_MAX), 0);
    cr_assert(s.n == 1 && s.at[0].off == 10 && s.at[0].end == 15 && s.bytes == 5);
    xh_extents_free(&s);
}
