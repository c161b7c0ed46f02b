/* The predictors: guesses stay in the object, in the window, and are right for what is regular.
 * Of several runs, a read goes on with the right one. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "ahead/predict.h"
#include "ahead/turns.h"

#define MIB (1ull << 20)

/* ---- a naive model: everything that was proposed, as a list --------------------------------- */

struct model {
    struct xh_predict_seq p;
    struct xh_turns s;     /* as of |in_turns| */
    int in_turns;          /* reads may go on with one of several runs */
    struct xh_range whole; /* what is known of the next read */
    struct xh_range *at;   /* what was proposed */
    size_t n;
    uint64_t proposed, asked; /* bytes */
};

static uint64_t rnd(uint64_t below)
{
    return ((uint64_t)rand() << 31 ^ (uint64_t)rand()) % below;
}

static uint64_t overlap(struct xh_range a, struct xh_range b)
{
    uint64_t from = a.off > b.off ? a.off : b.off;
    uint64_t to = a.off + a.len < b.off + b.len ? a.off + a.len : b.off + b.len;
    return to > from ? to - from : 0;
}

/* Bytes of |r| that were proposed. */
static uint64_t had(const struct model *m, struct xh_range r)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->n; i++)
        sum += overlap(m->at[i], r);
    return sum;
}

/* One read; checks what every proposal must be. Returns how many bytes it proposes. */
static uint64_t reads(struct model *m, struct xh_range r, uint64_t most, uint64_t size)
{
    struct xh_turns_due due;
    const struct xh_range *out = due.want;
    uint64_t sum = 0;
    if (m->in_turns)
        xh_turns_saw(&m->s, &(struct xh_turns_read){.r = r, .whole = m->whole, .size = size, .window = most}, &due);
    else
        due.n = xh_predict_seq(&m->p, r, m->whole, most, size, due.want);
    size_t n = due.n;
    cr_assert_leq(n, XH_PREDICT_RANGES);
    for (size_t i = 0; i < n; i++) {
        cr_assert_gt(out[i].len, 0);
        cr_assert(out[i].len <= size && out[i].off <= size - out[i].len);
        cr_assert_eq(overlap(out[i], r), 0);
        for (size_t k = 0; k < i; k++)
            cr_assert_eq(overlap(out[i], out[k]), 0);
        sum += out[i].len;
    }
    cr_assert_leq(sum, most);
    m->at = realloc(m->at, (m->n + n + 1) * sizeof *m->at);
    memcpy(m->at + m->n, out, n * sizeof *out);
    m->n += n;
    m->proposed += sum;
    m->asked += r.len;
    return sum;
}

Test(predict, a_first_and_a_random_read_fetch_nothing_ahead)
{
    struct model m = {0};
    cr_assert_eq(reads(&m, (struct xh_range){0, 4096}, 64 * MIB, 1000 * MIB), 0);
    cr_assert_eq(reads(&m, (struct xh_range){500 * MIB, 4096}, 64 * MIB, 1000 * MIB), 0);
    cr_assert_eq(reads(&m, (struct xh_range){10 * MIB, 4096}, 64 * MIB, 1000 * MIB), 0);
    free(m.at);
}

/* |n| reads of |len| bytes from |off| on at distance |step|: all are covered from read |from| on,
 * none twice, and at no time more than four times what was read is ahead. */
static void check_run(uint64_t off, uint64_t len, uint64_t step, uint64_t n, uint64_t from, uint64_t size)
{
    struct model m = {0};
    for (uint64_t i = 0; i < n; i++, off += step) {
        struct xh_range r = {off, len};
        if (i >= from)
            cr_assert_eq(had(&m, r), len, "read %llu was not fetched ahead, or twice", (unsigned long long)i);
        reads(&m, r, 64 * MIB, size);
        cr_assert_leq(m.proposed, 5 * m.asked);
        cr_assert(i + 1 < from || m.proposed || off + 2 * step >= size, "nothing was proposed");
    }
    free(m.at);
}

Test(predict, image_by_image_is_covered_from_the_third_image_on)
{
    check_run(2048, 8 * MIB, 8 * MIB, 100, 2, 100 * 8 * MIB + 2048);
}

Test(predict, where_many_share_the_room_what_is_asked_for_is_large_all_the_same)
{
    struct model m = {0};
    uint64_t foreseen = 0;
    for (uint64_t i = 0; i < 64; i++) {
        struct xh_range r = {i * MIB, MIB};
        foreseen += had(&m, r) == MIB;
        reads(&m, r, 4 * MIB, 64 * MIB);
    }
    cr_assert_geq(foreseen, 62);
    cr_assert_leq(m.n, 64 / 3 + 4, "%zu requests", m.n);
    free(m.at);
}

Test(predict, of_a_run_that_takes_turns_a_whole_read_is_asked_for_however_small_its_share)
{
    static const uint64_t shares[] = {MIB / 4, MIB / 2, MIB, MIB + MIB / 2, 2 * MIB - 1};
    for (size_t k = 0; k < sizeof shares / sizeof *shares; k++) {
        struct xh_predict_seq p = {.takes_turns = 1};
        struct xh_range out[XH_PREDICT_RANGES];
        for (uint64_t i = 0; i < 16; i++) {
            struct xh_range r = {i * MIB, MIB};
            size_t n = xh_predict_seq(&p, r, (struct xh_range){0, 0}, shares[k], 16 * MIB, out);
            cr_assert(i < 3 || n == (i < 15), "%zu, read %llu: %zu", k, (unsigned long long)i, n);
            cr_assert(i < 3 || n == 0 || (out->off == r.off + MIB && out->len == MIB), "%zu: %llu bytes", k,
                      (unsigned long long)out->len);
        }
        /* What it asked for and did not get, as the room is full, it asks for again. */
        p.ahead = 16 * MIB;
        cr_assert_eq(xh_predict_seq(&p, (struct xh_range){16 * MIB, MIB}, (struct xh_range){0, 0}, shares[k],
                                    99 * MIB, out), 1);
        p.ahead = 17 * MIB;
        cr_assert_eq(xh_predict_seq(&p, (struct xh_range){17 * MIB, MIB}, (struct xh_range){0, 0}, shares[k],
                                    99 * MIB, out), 1);
        cr_assert_eq(out->off, 18 * MIB);
    }
}

Test(predict, a_run_that_comes_from_elsewhere_is_not_new)
{
    struct xh_predict_seq p = {0};
    struct xh_range out[XH_PREDICT_RANGES], r = {2048, 100000};
    xh_predict_expect(&p, 2048, 64 * MIB);
    cr_assert_eq(xh_predict_seq(&p, r, (struct xh_range){2048, 64 * MIB}, 8 * MIB, 65 * MIB, out), 1);
    cr_assert_eq(p.window, 8 * MIB, "it is trusted as it was");
    xh_predict_expect(&p, 2048, 64 * MIB);
    r.off = 10 * MIB;
    cr_assert_eq(xh_predict_seq(&p, r, (struct xh_range){2048, 64 * MIB}, 8 * MIB, 65 * MIB, out), 0,
                 "not where it was expected");
    xh_predict_expect(&p, 10 * MIB, 64 * MIB);
    p.ahead = 40 * MIB; /* so much of it was fetched */
    r = (struct xh_range){2048, 2 * MIB};
    cr_assert_eq(xh_predict_seq(&p, r, (struct xh_range){2048, 9 * MIB}, 8 * MIB, 80 * MIB, out), 1,
                 "what was fetched is of another dataset");
    cr_assert_eq(out[0].off, 2048 + 2 * MIB);
}

Test(predict, a_run_downwards_is_covered_as_one_upwards)
{
    /* One later: the distance must have been seen twice. */
    check_run(2048 + 99 * 8 * MIB, 8 * MIB, 0 - 8 * MIB, 100, 3, 100 * 8 * MIB + 2048);
    check_run(2048 + 99 * 50000, 50000, UINT64_C(0) - 50000, 100, 3, 100 * 50000 + 2048);
}

Test(predict, equal_distances_are_covered_from_the_fourth_read_on, .timeout = 30)
{
    srand(11);
    for (int round = 0; round < 300; round++) {
        uint64_t len = 1 + rnd(100000), step = 2 * len + 1 + rnd(3 * MIB), n = 4 + rnd(200);
        uint64_t size = n * step + rnd(MIB);
        struct model m = {0};
        int down = rand() % 2;
        for (uint64_t i = 0; i < n; i++) {
            struct xh_range r = {(down ? n - 1 - i : i) * step, len};
            if (i > 2)
                cr_assert_eq(had(&m, r), len, "read %llu of %llu bytes every %llu", (unsigned long long)i,
                             (unsigned long long)len, (unsigned long long)step);
            reads(&m, r, 64 * MIB, size);
        }
        cr_assert_leq(m.proposed, m.asked + XH_PREDICT_RANGES * len, "what lies between was fetched");
        free(m.at);
    }
}

Test(predict, a_run_keeps_to_the_known_whole_that_it_began_in, .timeout = 30)
{
    srand(13);
    for (int round = 0; round < 1000; round++) {
        struct model m = {.whole = {10 * MIB + rnd(MIB), 5 * MIB + rnd(MIB)}};
        uint64_t len = 1 + rnd(300000), step = rand() % 2 ? len : 2 * len + rnd(MIB), at = 0;
        int down = rand() % 2;
        for (; at + len <= m.whole.len; at += step)
            reads(&m, (struct xh_range){m.whole.off + (down ? m.whole.len - at - len : at), len}, 64 * MIB, 1000 * MIB);
        for (size_t i = 0; i < m.n; i++)
            cr_assert(m.at[i].off >= m.whole.off && m.at[i].off + m.at[i].len <= m.whole.off + m.whole.len);
        cr_assert(m.n || at <= 4 * step || m.p.window < len, "nothing was proposed");
        free(m.at);
    }
}

Test(predict, a_run_from_one_known_whole_to_the_next_goes_on)
{
    struct model m = {0};
    for (uint64_t i = 0; i < 40; i++) { /* each a dataset of its own */
        struct xh_range r = {i * 2 * MIB, 2 * MIB};
        m.whole = r;
        if (i > 2)
            cr_assert_eq(had(&m, r), r.len, "read %llu was not fetched ahead", (unsigned long long)i);
        reads(&m, r, 64 * MIB, 1000 * MIB);
    }
    free(m.at);
}

Test(predict, nothing_is_fetched_ahead_twice_nor_past_the_end, .timeout = 30)
{
    srand(3);
    for (int round = 0; round < 1000; round++) {
        struct model m = {0};
        uint64_t size = 1 + rnd(64 * MIB), at = 0, most = rnd(8 * MIB);
        int down = rand() % 2;
        while (at < size) {
            uint64_t len = 1 + rnd(MIB);
            if (len > size - at)
                len = size - at;
            size_t before = m.n;
            reads(&m, (struct xh_range){down ? size - at - len : at, len}, most, size);
            for (size_t i = before; i < m.n; i++)
                for (size_t k = 0; k < before; k++)
                    cr_assert_eq(overlap(m.at[i], m.at[k]), 0);
            at += len;
        }
        free(m.at);
    }
}

/* Reads as they come in life and foretell nothing: anywhere; rows of a small place; in pairs. */
static struct xh_range by_chance(int way, uint64_t i, uint64_t size)
{
    static struct xh_range first;
    uint64_t rows = way == 1 ? 10 : way == 2 ? 4 : 300, len = 10000;
    switch (way) {
    case 0: return (struct xh_range){rnd(size - MIB), 1 + rnd(20000)};
    case 1:
    case 2:
    case 3: return (struct xh_range){5 * MIB + rnd(rows) * len, len};
    case 4: return (struct xh_range){MIB + rnd(50000), 1 + rnd(10000)};
    default:
        if (i % 2 == 0)
            first = (struct xh_range){rnd(size - MIB), 1 + rnd(50000)};
        else
            first.off += first.len;
        return first;
    }
}

Test(turns, reads_by_chance_propose_less_than_half_of_what_they_ask, .timeout = 60)
{
    uint64_t size = 1000 * MIB;
    srand(9);
    for (int way = 0; way < 6; way++)
        for (int round = 0; round < 10; round++) {
            struct model m = {.in_turns = 1};
            for (uint64_t i = 0; i < 2000; i++)
                reads(&m, by_chance(way, i, size), 64 * MIB, size);
            /* Two places have 100 KB or less, which are all here before long. */
            cr_expect_lt((way == 1 || way == 4 ? 1 : 2) * m.proposed, m.asked, "way %d: %llu proposed, %llu asked", way,
                         (unsigned long long)m.proposed, (unsigned long long)m.asked);
            free(m.at);
        }
}

Test(turns, a_run_regains_what_chance_has_lost)
{
    struct model m = {.in_turns = 1};
    uint64_t size = 1000 * MIB, len = 100000;
    srand(10);
    for (uint64_t i = 0; i < 200; i++)
        reads(&m, by_chance(5, i, size), 64 * MIB, size);
    cr_assert_gt(m.s.doubt, 4);
    for (uint64_t i = 0; i < 2000; i++) {
        struct xh_range r = {10 * MIB + i * len, len};
        if (i >= 10)
            cr_assert_geq(had(&m, r), len, "read %llu was not fetched ahead", (unsigned long long)i);
        reads(&m, r, 64 * MIB, size);
    }
    cr_assert_eq(m.s.doubt, 0);
    cr_assert_geq(m.s.run[0].seq.ahead, m.s.run[0].seq.last.off + len + 32 * MIB);
    free(m.at);
}

Test(predict, whatever_is_read_the_proposals_keep_their_bounds, .timeout = 60)
{
    srand(12);
    for (int round = 0; round < 3000; round++) {
        struct model m = {0};
        uint64_t size = 2 + rnd(rand() % 2 ? 100000 : 100 * MIB), most = rand() % 5 ? rnd(64 * MIB) : 0;
        struct xh_range r = {rnd(size), 1};
        for (int i = 0; i < 50; i++) {
            uint64_t step = rand() % 3 ? m.p.step : rnd(size); /* often the same again */
            r.off = (r.off + step) % size;
            r.len = rand() % 3 ? r.len : 1 + rnd(size);
            if (r.len > size - r.off)
                r.len = size - r.off;
            reads(&m, r, most, size);
        }
        free(m.at);
    }
}

Test(predict, a_run_of_small_reads_is_let_as_far_ahead_as_one_of_large_ones)
{
    const struct xh_range whole = {MIB, 800 * MIB};
    const uint64_t lens[] = {4096, 65536, MIB / 4, MIB / 2, MIB};
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++) {
        struct xh_predict_seq p = {0};
        struct xh_range out[XH_PREDICT_RANGES];
        uint64_t least = MIB > 2 * lens[i] ? MIB : 2 * lens[i];
        for (uint64_t read = lens[i]; read <= least; read += lens[i]) {
            struct xh_range r = {whole.off + read - lens[i], lens[i]};
            xh_predict_seq(&p, r, whole, 128 * MIB, 900 * MIB, out);
            cr_assert_leq(p.window, read < least ? 2 * read : 16 * read);
        }
        cr_assert_eq(p.window, 16 * least, "in pieces of %llu", (unsigned long long)lens[i]);
    }
}

/* Reads |n| pieces of |len| bytes from |at| on. Returns the largest window behind the |from|-th; |*asked|: all bytes
 * that were proposed. */
static uint64_t sample(struct model *m, uint64_t at, uint64_t n, uint64_t len, uint64_t *asked)
{
    uint64_t most = 0, before = m->proposed;
    for (uint64_t i = 0; i < n; i++) {
        reads(m, (struct xh_range){at + i * len, len}, 128 * MIB, 9000 * MIB);
        most = m->s.run[0].seq.window > most ? m->s.run[0].seq.window : most;
    }
    *asked = m->proposed - before;
    return most;
}

Test(turns, what_is_read_in_places_of_one_length_is_asked_for_up_to_that_length)
{
    static const struct {
        uint64_t n, len;
    } places[] = {{8, MIB}, {100, 65536}, {100, 4096}, {4, 4 * MIB}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        uint64_t n = places[i].n, len = places[i].len, asked;
        struct model m = {.in_turns = 1};
        for (uint64_t k = 0; k < 20; k++) {
            uint64_t at = (1 + k * k * 37 % 80) * 100 * MIB + k * 12345;
            sample(&m, at, n, len, &asked);
            if (k >= 1)
                cr_expect_leq(asked, (n - 1) * len, "%zu: place %llu, %llu", i, (unsigned long long)k,
                              (unsigned long long)asked);
            if (k >= 2)
                cr_expect_eq(m.s.run[0].seq.window, 0, "nothing behind it");
        }
        reads(&m, (struct xh_range){8900 * MIB, len}, 128 * MIB, 9000 * MIB);
        cr_expect_eq(m.s.run[0].seq.window, (n - 1) * len, "%zu: with its first read", i);
        reads(&m, (struct xh_range){8500 * MIB, len}, 128 * MIB, 9000 * MIB);
        reads(&m, (struct xh_range){8400 * MIB, len}, 128 * MIB, 9000 * MIB);
        cr_expect_eq(m.s.run[0].seq.window, 0, "one ended with its first read");
        free(m.at);
    }
}

/* Three places of eight reads of 1 MiB each. */
static void three_slabs(struct model *m)
{
    uint64_t asked;
    for (uint64_t k = 0; k < 3; k++)
        sample(m, (1 + k * k) * 100 * MIB, 8, MIB, &asked);
}

Test(turns, a_run_that_goes_on_for_longer_than_those_before_earns_what_it_may_look_ahead)
{
    struct model m = {.in_turns = 1};
    uint64_t asked;
    three_slabs(&m);
    sample(&m, 2000 * MIB, 8, MIB, &asked);
    for (uint64_t i = 8; i < 30; i++) {
        uint64_t read = (i + 1) * MIB;
        reads(&m, (struct xh_range){2000 * MIB + i * MIB, MIB}, 128 * MIB, 9000 * MIB);
        cr_expect_eq(m.s.run[0].seq.window, read < 12 * MIB ? 2 * (read - 8 * MIB) : 128 * MIB, "%llu",
                     (unsigned long long)i);
    }
    free(m.at);
}

Test(turns, a_run_behind_a_long_single_read_farther_up_is_asked_for_with_its_first_read)
{
    struct model m = {.in_turns = 1};
    uint64_t asked;
    three_slabs(&m);
    reads(&m, (struct xh_range){8000 * MIB, 8 * MIB}, 128 * MIB, 9000 * MIB);
    sample(&m, 2000 * MIB, 8, MIB, &asked);
    cr_expect_eq(asked, 7 * MIB, "%llu", (unsigned long long)asked);
    free(m.at);
}

Test(turns, one_small_read_after_large_samples_brings_nothing)
{
    struct model m = {.in_turns = 1};
    uint64_t asked;
    for (uint64_t k = 0; k < 16; k++) {
        sample(&m, (k + 1) * 97 % 80 * 100 * MIB, 50, MIB, &asked);
        if (k % 4 == 3)
            sample(&m, 8000 * MIB + 3000 * k * k, 1, 8, &asked);
        cr_expect(k % 4 != 3 || asked == 0, "%llu", (unsigned long long)asked);
    }
    free(m.at);
}

Test(turns, runs_to_which_the_reader_comes_back_bound_no_other)
{
    struct model m = {.in_turns = 1};
    for (uint64_t i = 0; i < 40; i++)
        for (uint64_t k = 0; k < 3; k++) {
            uint64_t got = reads(&m, (struct xh_range){(100 + 300 * k * k + i) * MIB, MIB}, 48 * MIB, 9000 * MIB);
            cr_expect(i != 4 || m.s.run[0].seq.window == 16 * MIB, "%llu: %llu", (unsigned long long)k,
                      (unsigned long long)got);
        }
    free(m.at);
}

Test(turns, a_run_that_came_to_the_end_of_its_dataset_bounds_no_other)
{
    struct model m = {.in_turns = 1};
    uint64_t asked;
    for (uint64_t k = 0; k < 4; k++) {
        m.whole = (struct xh_range){(1 + k * k) * 300 * MIB, 4 * MIB};
        sample(&m, m.whole.off, 4, MIB, &asked);
    }
    m.whole = (struct xh_range){6000 * MIB, 400 * MIB};
    cr_expect_eq(sample(&m, m.whole.off, 2, MIB, &asked), 32 * MIB, "%llu", (unsigned long long)asked);
    free(m.at);
}

Test(turns, a_label_that_is_read_before_each_sample_lets_none_go_far_ahead)
{
    struct model m = {.in_turns = 1};
    uint64_t asked;
    for (uint64_t k = 0; k < 3; k++) {
        m.whole = (struct xh_range){0, 0};
        reads(&m, (struct xh_range){8900 * MIB + 800 * k * k, 8}, 128 * MIB, 9000 * MIB);
        m.whole = (struct xh_range){MIB, 800 * MIB};
        uint64_t window = sample(&m, MIB + (1 + 7 * k) * 32 * MIB, 32, MIB / 16, &asked);
        cr_assert(k == 0 || window <= 2 * MIB, "sample %d: %llu", (int)k, (unsigned long long)window);
    }
    free(m.at);
}

Test(predict, a_read_goes_on_with_a_run_or_does_not)
{
    struct xh_predict_seq p = {0};
    struct xh_range out[XH_PREDICT_RANGES], none = {0, 0};
    const struct xh_predict_seq *seq = &p;
    cr_assert_eq(xh_predict_goes_on(seq, (struct xh_range){0, 4096}), XH_RUN_NONE, "a first small read shows no order");
    xh_predict_seq(&p, (struct xh_range){0, 4096}, none, 64 * MIB, 900 * MIB, out);
    cr_assert_eq(xh_predict_goes_on(seq, (struct xh_range){4096, 4096}), XH_RUN_UP);
    cr_assert(xh_predict_is_met(seq, (struct xh_range){4096, 4096}));
    cr_assert_eq(xh_predict_goes_on(seq, (struct xh_range){4096 + 100, 4096}), XH_RUN_UP, "behind a small gap");
    cr_assert_not(xh_predict_is_met(seq, (struct xh_range){4096 + 100, 4096}));
    cr_assert_eq(xh_predict_goes_on(seq, (struct xh_range){MIB, 4096}), XH_RUN_NONE);
    xh_predict_seq(&p, (struct xh_range){MIB, 4096}, none, 64 * MIB, 900 * MIB, out);
    cr_assert_eq(xh_predict_goes_on(seq, (struct xh_range){2 * MIB, 4096}), XH_RUN_STRIDE, "the same step again");
    xh_predict_seq(&p, (struct xh_range){2 * MIB, 4096}, none, 64 * MIB, 900 * MIB, out);
    cr_assert(xh_predict_is_met(seq, (struct xh_range){3 * MIB, 4096}));
    cr_assert_eq(p.last.off, 2 * MIB, "to ask changes nothing");
}

Test(predict, one_slice_of_a_large_dataset_brings_little_behind_it)
{
    const struct xh_range whole = {MIB, 800 * MIB};
    const struct {
        uint64_t off, most; /* of the first read of 8 MiB; what it proposes at most */
    } first[] = {{whole.off, 16 * MIB}, {whole.off + 400 * MIB, 4 * MIB}};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        struct model m = {.whole = whole};
        uint64_t got = reads(&m, (struct xh_range){first[i].off, 8 * MIB}, 128 * MIB, 900 * MIB);
        cr_assert(got > first[i].most / 2 && got <= first[i].most, "%zu: %llu", i, (unsigned long long)got);
        got += reads(&m, (struct xh_range){first[i].off + 8 * MIB, 8 * MIB}, 128 * MIB, 900 * MIB);
        cr_assert_geq(got, 100 * MIB, "the second read shows that it goes on");
        free(m.at);
    }
}

Test(turns, pieces_that_are_skipped_for_good_end_a_run)
{
    /* Of a run each eighth to twelfth piece is read from the 30th on, by chance: it ends soon. */
    struct model m = {.in_turns = 1, .whole = {0, 4000 * MIB}};
    uint64_t at = 0, far = 0;
    srand(6);
    for (int i = 0; i < 130; i++, at += i < 30 ? 1 : 8 + rnd(5)) {
        uint64_t got = reads(&m, (struct xh_range){at * MIB, MIB}, 16 * MIB, 4000 * MIB);
        far += i >= 60 ? got : 0;
    }
    cr_expect_leq(far, 70 * MIB, "%llu MiB", (unsigned long long)(far / MIB));
    free(m.at);
}

/* ---- several runs in turns ------------------------------------------------------------------ */

#define NEVER (-1)
#define AT_MOST 12

Test(turns, how_a_read_goes_on_and_what_becomes_of_streams)
{
    static const struct {
        const char *what;
        uint64_t at[AT_MOST]; /* the reads, of 1 MiB each, in MiB; 0: no more */
        int leaves;           /* the first of them at which streams end */
        /* After the last one. */
        unsigned n, excursion;
        enum xh_run_kind kind; /* of its run, of which the next three are */
        uint64_t first, end;   /* in MiB */
    } cases[] = {
        {"one run", {8, 9, 10, 11}, NEVER, 0, 0, XH_RUN_UP, 8, 900},
        {"the first of two came back", {8, 60, 9}, NEVER, 1, 0, XH_RUN_UP, 8, 900},
        {"both did: the first ends where the second began", {8, 60, 9, 61, 10}, 3, 2, 0, XH_RUN_UP, 8, 60},
        {"three in turns", {8, 60, 90, 9, 61, 91}, 4, 3, 0, XH_RUN_UP, 90, 900},
        {"threads that are not quite in order", {8, 10, 9, 11, 12}, NEVER, 0, 0, XH_RUN_UP, 10, 900},
        {"an excursion", {8, 9, 10, 60}, NEVER, 0, 1, XH_RUN_NONE, 60, 900},
        {"one of two reads", {8, 9, 10, 60, 61}, NEVER, 0, 1, XH_RUN_UP, 60, 900},
        {"what goes on for four is none", {8, 9, 10, 60, 61, 62, 63}, NEVER, 0, 0, XH_RUN_UP, 60, 900},
        {"back from it", {8, 9, 10, 60, 11}, NEVER, 1, 0, XH_RUN_UP, 8, 900},
        {"and on", {8, 9, 10, 60, 11, 12, 13}, NEVER, 0, 0, XH_RUN_UP, 8, 900},
        {"three equal steps", {8, 60, 11, 70, 14}, 4, 0, 0, XH_RUN_STRIDE, 11, 900},
        {"three beside a run", {100, 8, 101, 11, 102, 14}, 5, 1, 1, XH_RUN_STRIDE, 11, 100},
        {"steps that were none", {20, 40, 21, 43, 22, 46, 23, 70, 24, 75, 25, 80}, 5, 1, 1, XH_RUN_STRIDE, 75, 900},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_turns s = {0};
        struct xh_turns_due due;
        int leaves = NEVER;
        for (int k = 0; k < AT_MOST && cases[i].at[k]; k++) {
            xh_turns_saw(&s, &(struct xh_turns_read){.r = {cases[i].at[k] * MIB, MIB}, .size = 900 * MIB,
                                                     .window = 64 * MIB}, &due);
            leaves = leaves == NEVER && due.leaves ? k : leaves;
        }
        const struct xh_predict_seq *p = &s.run[0].seq;
        cr_expect_eq(leaves, cases[i].leaves, "%s: read %d", cases[i].what, leaves);
        cr_expect_eq(s.n, cases[i].n, "%s: %u", cases[i].what, s.n);
        cr_expect_eq(xh_turns_is_excursion(&s), cases[i].excursion, "%s", cases[i].what);
        cr_expect_eq(p->kind, cases[i].kind, "%s: %d", cases[i].what, (int)p->kind);
        cr_expect(p->first == cases[i].first * MIB && p->end == cases[i].end * MIB, "%s", cases[i].what);
    }
}

Test(turns, a_reader_jumps_whose_long_run_ended_in_the_same_dataset)
{
    static const struct {
        const char *what;
        unsigned run;    /* reads one behind the other, from the beginning */
        uint64_t to;     /* then one there, in reads */
        uint64_t and_to; /* and one there; 0: none */
        int large, jumped;
    } cases[] = {
        {"behind a long run", 8, 100, 0, 1, 1},       {"backwards", 20, 3, 0, 1, 1},
        {"behind a short one", 7, 100, 0, 1, 0},      {"small reads", 20, 100, 0, 0, 0},
        {"to another dataset", 20, 1000, 0, 1, 0},    {"once more: the last run was one read", 20, 100, 50, 1, 0},
        {"on behind the jump", 20, 100, 101, 1, 0},   {"where the run goes on", 20, 20, 0, 1, 0},
        {"back to the run", 20, 100, 20, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_turns s = {0};
        struct xh_turns_due due;
        struct xh_range whole = {0};
        for (unsigned k = 0; k < cases[i].run + 1 + (cases[i].and_to > 0); k++) {
            uint64_t at = k < cases[i].run ? k : k == cases[i].run ? cases[i].to : cases[i].and_to;
            whole = (struct xh_range){at < 500 ? 0 : 4000 * MIB, 4000 * MIB};
            xh_turns_saw(&s, &(struct xh_turns_read){.r = {at * 8 * MIB, 8 * MIB}, .whole = whole, .size = 9000 * MIB,
                                                     .window = 64 * MIB, .large = cases[i].large}, &due);
        }
        cr_expect_eq(xh_turns_jumped(&s, whole), cases[i].jumped, "%s", cases[i].what);
        cr_expect(!cases[i].jumped || s.run[0].seq.window >= 16 * MIB, "%s: a stream may begin", cases[i].what);
    }
}

/* |threads| take the next piece each of |len| bytes, and one of them, by chance, is the next to read. Returns
 * how many of the last 300 of 400 reads were not proposed, of pieces that were taken when their run was known. */
static int missed_by_threads(unsigned threads, uint64_t len)
{
    struct model m = {0};
    struct xh_turns s = {0};
    struct xh_turns_due due;
    uint64_t holds[64], since[64] = {0}, taken = 0;
    int missed = 0;
    for (; taken < threads; taken++)
        holds[taken] = taken;
    m.at = malloc(400 * sizeof due.want);
    for (int i = 0; i < 400; i++) {
        size_t k = rnd(threads);
        struct xh_range r = {MIB + holds[k] * len, len};
        missed += i >= 100 && since[k] >= 60 && had(&m, r) < len;
        xh_turns_saw(&s, &(struct xh_turns_read){.r = r, .size = MIB + 500 * len, .window = 128 * MIB}, &due);
        memcpy(m.at + m.n, due.want, due.n * sizeof *due.want);
        m.n += due.n;
        holds[k] = taken++;
        since[k] = (uint64_t)i;
    }
    free(m.at);
    return missed;
}

/* Returns how many of the reads at |at|, in MiB, of 1 MiB each, end a run or streams. */
static unsigned breaks(const uint64_t *at, size_t n)
{
    struct xh_turns s = {0};
    struct xh_turns_due due;
    unsigned broken = 0;
    for (size_t i = 0; i < n; i++) {
        xh_turns_saw(&s, &(struct xh_turns_read){.r = {at[i] * MIB, MIB}, .size = 9000 * MIB, .window = 64 * MIB},
                     &due);
        broken += s.run[0].seq.kind != XH_RUN_UP || due.leaves;
    }
    return broken;
}

Test(turns, a_run_that_leaves_out_pieces_goes_on)
{
    /* Three equal steps among others are no stride. */
    static const uint64_t odd[] = {1, 2, 3, 4, 5, 6, 7, 9, 10, 13, 14, 15, 17, 18, 21, 22, 24, 26, 28, 29, 30};
    cr_expect_eq(breaks(odd, sizeof odd / sizeof *odd), 0);
    for (unsigned kept = 1; kept < 10; kept++) {
        uint64_t at[400], next = 8;
        for (size_t i = 0; i < 400; i++, next++) {
            while (i >= 24 && ((uint32_t)next * 2654435761u >> 16) % 10 >= kept) /* as by chance */
                next++;
            at[i] = next;
        }
        unsigned n = breaks(at, 400);
        cr_expect(kept > 1 ? n == 0 : n > 100, "%u of ten are read: %u", kept, n);
    }
}

Test(turns, pieces_that_threads_read_not_quite_in_order_are_a_run, .timeout = 60)
{
    const unsigned threads[] = {2, 4, 8, 16, 32};
    srand(5);
    for (int round = 0; round < 20; round++)
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
            int small = missed_by_threads(threads[i], 65536), large = missed_by_threads(threads[i], MIB);
            cr_expect(small <= 3 && large <= 3, "%u threads: %d, %d", threads[i], small, large);
        }
}

Test(predict, a_run_that_is_known_by_what_it_covers_goes_on_from_there_whatever_it_has_left_out)
{
    struct xh_cover c = {0};
    struct xh_predict_seq p = {0};
    struct xh_range out[XH_PREDICT_RANGES], r = {0, MIB}, whole = {0, 0};
    for (uint64_t i = 0; i < 200; i++, r.off += i % 2 ? MIB : 3 * MIB) /* two of four */
        xh_cover_note(&c, r, MIB, 1);
    xh_cover_note(&c, r, MIB, 1);
    cr_assert(xh_cover_is_upwards(&c, 1) && c.holes.n == XH_HOLES_MOST);
    xh_predict_join(&p, &c, r);
    cr_expect(xh_predict_seq(&p, r, whole, 64 * MIB, 9000 * MIB, out) && p.kind == XH_RUN_UP);
}

Test(turns, a_few_reads_of_different_lengths_are_no_run)
{
    struct xh_turns s = {0};
    struct xh_turns_due due;
    uint64_t in_vain = 0;
    for (uint64_t i = 0; i < 24; i++) { /* an image, and a few bytes somewhere behind it */
        uint64_t at = ((i / 2) * (i / 2) * 31 % 800 + 8) * MIB; /* in no equal steps */
        struct xh_range r = i % 2 ? (struct xh_range){at + 5 * MIB, 1000} : (struct xh_range){at, 4 * MIB};
        xh_turns_saw(&s, &(struct xh_turns_read){.r = r, .size = 900 * MIB, .window = 128 * MIB}, &due);
        for (size_t k = 0; k < due.n; k++)
            in_vain += due.want[k].len;
    }
    cr_expect_leq(in_vain, 8 * MIB, "%llu", (unsigned long long)in_vain);
}

Test(turns, blocks_in_any_order_are_no_runs)
{
    const uint64_t len = 65536, pieces = 48, blocks = 100;
    struct xh_turns s = {0};
    struct xh_turns_due due;
    uint64_t asked = 0;
    srand(1);
    for (uint64_t i = 0; i < blocks * pieces; i++) {
        static uint64_t left[48], first;
        if (i % pieces == 0) {
            first = rnd(40000);
            for (uint64_t k = 0; k < pieces; k++)
                left[k] = first + k;
        }
        size_t k = rnd((uint32_t)(pieces - i % pieces));
        struct xh_range r = {left[k] * len, len};
        left[k] = left[pieces - 1 - i % pieces];
        xh_turns_saw(&s, &(struct xh_turns_read){.r = r, .size = 50000 * len, .window = 64 * MIB}, &due);
        for (size_t n = 0; n < due.n; n++)
            asked += due.want[n].len;
    }
    cr_expect_leq(asked, blocks * pieces * len / 2, "%llu of %llu", (unsigned long long)asked,
                  (unsigned long long)(blocks * pieces * len));
}

Test(turns, what_is_proposed_lies_in_the_object_where_threads_read_over_the_end_of_a_dataset)
{
    const uint64_t len = 65536, n = 100;
    struct xh_turns s = {0};
    struct xh_turns_due due;
    for (uint64_t i = 0; i < n; i++) { /* each second piece comes after the next two */
        uint64_t at = i % 4 == 1 ? i + 2 : i % 4 == 0 || i + 1 >= n ? i : i - 1;
        struct xh_range r = {at * len, len};
        struct xh_range whole = at < 50 ? (struct xh_range){0, 50 * len} : (struct xh_range){50 * len, 50 * len};
        xh_turns_saw(&s, &(struct xh_turns_read){.r = r, .whole = whole, .size = n * len, .window = 16 * MIB}, &due);
        for (size_t k = 0; k < due.n; k++)
            cr_expect(due.want[k].off + due.want[k].len <= n * len, "read %llu: to %llu", (unsigned long long)i,
                      (unsigned long long)(due.want[k].off + due.want[k].len));
    }
}
