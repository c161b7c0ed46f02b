/* The predictors: guesses stay in the object, in the window, and are right for what is regular. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "predict.h"

#define MIB (1ull << 20)

Test(predict, a_first_and_a_random_read_fetch_nothing_ahead)
{
    struct xh_predict_seq p = {0};
    cr_assert_eq(xh_predict_seq(&p, (struct xh_range){0, 4096}, 64 * MIB, 1000 * MIB).len, 0);
    cr_assert_eq(xh_predict_seq(&p, (struct xh_range){500 * MIB, 4096}, 64 * MIB, 1000 * MIB).len, 0);
    cr_assert_eq(xh_predict_seq(&p, (struct xh_range){10 * MIB, 4096}, 64 * MIB, 1000 * MIB).len, 0);
}

Test(predict, image_by_image_is_covered_from_the_second_image_on)
{
    struct xh_predict_seq p = {0};
    uint64_t image = 8 * MIB, size = 100 * image + 2048, ahead = 0;
    for (uint64_t i = 0; i < 100; i++) {
        struct xh_range r = {2048 + i * image, image};
        if (i > 2)
            cr_assert_geq(ahead, r.off + r.len, "image %llu was not fetched ahead", (unsigned long long)i);
        struct xh_range w = xh_predict_seq(&p, r, 64 * MIB, size);
        if (w.len) {
            cr_assert_geq(w.off, r.off + r.len);
            cr_assert_leq(w.off + w.len, r.off + r.len + 64 * MIB);
            ahead = w.off + w.len;
        }
    }
    cr_assert_eq(ahead, size);
}

Test(predict, nothing_is_fetched_ahead_twice_nor_past_the_end, .timeout = 30)
{
    srand(3);
    for (int round = 0; round < 2000; round++) {
        struct xh_predict_seq p = {0};
        uint64_t size = 1 + (uint64_t)rand() % (64 * MIB), at = 0, seen = 0;
        uint64_t most = (uint64_t)rand() % (8 * MIB);
        while (at < size) {
            uint64_t len = 1 + (uint64_t)rand() % MIB;
            if (len > size - at)
                len = size - at;
            struct xh_range w = xh_predict_seq(&p, (struct xh_range){at, len}, most, size);
            if (w.len) {
                cr_assert_geq(w.off, seen);
                cr_assert_geq(w.off, at + len);
                cr_assert_leq(w.len, size - w.off);
                cr_assert_leq(w.off + w.len - (at + len), most);
                seen = w.off + w.len;
            }
            at += len;
        }
    }
}

Test(predict, a_walk_through_metadata_widens_and_a_lone_miss_does_not)
{
    struct xh_predict_wide p = {0};
    uint64_t size = 1000 * MIB;
    struct xh_range w = xh_predict_widen(&p, (struct xh_range){0, 4096}, size);
    cr_assert_leq(w.len, 16384);
    uint64_t len = w.len;
    for (int i = 0; i < 10; i++) {
        for (uint64_t at = w.off; at < w.off + w.len; at += 1024)
            xh_predict_walk(&p, (struct xh_range){at, 512}, size);
        w = xh_predict_widen(&p, (struct xh_range){w.off + w.len, 4096}, size);
        cr_assert_geq(w.len, len);
        len = w.len;
    }
    cr_assert_eq(len, MIB);
    w = xh_predict_widen(&p, (struct xh_range){900 * MIB, 4096}, size);
    cr_assert_leq(w.len, 16384);
}

Test(predict, misses_where_little_metadata_lies_do_not_widen)
{
    struct xh_predict_wide p = {0};
    uint64_t size = 1000 * MIB;
    struct xh_range w = {0, 0};
    for (uint64_t i = 0; i < 100; i++) {
        w = xh_predict_widen(&p, (struct xh_range){i * 32768, 4096}, size);
        cr_assert_eq(xh_predict_walk(&p, (struct xh_range){i * 32768, 512}, size).len, 0);
    }
    cr_assert_leq(w.len, 8192);
}

Test(predict, a_walk_has_its_next_piece_before_it_gets_there)
{
    struct xh_predict_wide p = {0};
    uint64_t size = 64 * MIB, misses = 0, there = 0;
    for (uint64_t at = 0; at < size; at += 768) {
        if (at + 512 > there) {
            struct xh_range w = xh_predict_widen(&p, (struct xh_range){at / 4096 * 4096, 4096}, size);
            there = w.off + w.len;
            misses++;
        }
        struct xh_range next = xh_predict_walk(&p, (struct xh_range){at, 512}, size);
        if (next.len) {
            cr_assert_eq(next.off, there);
            cr_assert_leq(next.len, MIB);
            there += next.len;
        }
    }
    cr_assert_leq(misses, 4);
}

Test(predict, widening_always_holds_the_miss_and_stays_inside)
{
    srand(5);
    struct xh_predict_wide p = {0};
    for (int i = 0; i < 100000; i++) {
        uint64_t size = 1 + (uint64_t)rand() % (4 * MIB);
        uint64_t off = (uint64_t)rand() % size;
        uint64_t len = 1 + (uint64_t)rand() % (size - off);
        struct xh_range w = xh_predict_widen(&p, (struct xh_range){off, len}, size);
        cr_assert_leq(w.off, off);
        cr_assert_geq(w.off + w.len, off + len);
        cr_assert_leq(w.off + w.len, size);
    }
}
