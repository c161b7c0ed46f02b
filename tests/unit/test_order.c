/* The order of a reader: regular walks are foreseen once they have shown themselves, random ones cost
 * little. Walks are made by naive loops; what is proposed is compared with what they do next. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "chunkindex/chunkindex.h"
#include "chunkindex/order.h"

/* ---- order.c alone --------------------------------------------------------------------------- */

struct ranks {
    int64_t n;
    int64_t holes; /* every so many is a hole; 0: none */
};

static enum xh_order_place look(const void *ctx, int64_t rank)
{
    const struct ranks *r = ctx;
    if (rank < 0 || rank >= r->n)
        return XH_PLACE_OUTSIDE;
    return r->holes && rank % r->holes == 0 ? XH_PLACE_HOLE : XH_PLACE_CHUNK;
}

/* Reads |walk| and counts the misses of its second part, from read |from| on. */
static size_t misses_from(const int64_t *walk, size_t n, size_t from, struct ranks ranks)
{
    struct xh_order *o = calloc(1, sizeof *o);
    size_t bad = 0;
    for (size_t i = 0; i < n; i++)
        bad += xh_order_read(o, walk[i], look, &ranks) == XH_ORDER_MISS && i >= from;
    free(o);
    return bad;
}

Test(order, strides_forwards_and_backwards_are_known_after_two_equal_steps)
{
    for (int64_t stride = -9; stride <= 9; stride++) {
        if (stride == 0)
            continue;
        int64_t walk[50];
        for (int i = 0; i < 50; i++)
            walk[i] = 500 + i * stride;
        cr_assert_eq(misses_from(walk, 50, 3, (struct ranks){1000, 0}), 0, "stride %lld", (long long)stride);
    }
}

Test(order, a_hyperslab_across_a_grid_is_known_after_two_runs)
{
    srand(7);
    for (int round = 0; round < 500; round++) {
        int64_t wide = 2 + rand() % 30, run = 1 + rand() % wide, walk[300], first = rand() % (wide - run + 1);
        for (int i = 0; i < 300; i++)
            walk[i] = first + i / run * wide + i % run;
        /* Two runs and the first chunk of the third show the period twice. */
        cr_assert_eq(misses_from(walk, 300, (size_t)(2 * run + 1), (struct ranks){1 << 20, 0}), 0, "runs of %lld in %lld",
                     (long long)run, (long long)wide);
    }
}

Test(order, images_of_a_region_are_known_after_two_images)
{
    int64_t walk[400];
    for (int i = 0; i < 400; i++) /* 3 x 4 chunks of a grid of 10 x 10 an image */
        walk[i] = i / 12 * 100 + 250 + i % 12 / 4 * 10 + i % 4;
    cr_assert_eq(misses_from(walk, 400, 25, (struct ranks){1 << 20, 0}), 0);
    /* Before, one miss an unlearned jump. */
    cr_assert_leq(misses_from(walk, 400, 0, (struct ranks){1 << 20, 0}), 5);
}

Test(order, holes_are_stepped_over)
{
    int64_t walk[600], rank = 991;
    for (int i = 0; i < 600; i++, rank++) {
        while (rank % 7 == 0)
            rank++;
        walk[i] = rank;
    }
    cr_assert_eq(misses_from(walk, 600, 0, (struct ranks){1 << 20, 7}), 0);
}

Test(order, the_frontier_is_what_is_read_next)
{
    struct ranks ranks = {1 << 20, 0};
    struct xh_order *o = calloc(1, sizeof *o);
    struct xh_order_guess g[8];
    for (int64_t i = 0; i < 30; i++) {
        xh_order_read(o, 100 + i / 5 * 20 + i % 5, look, &ranks);
        if (i < 12)
            continue;
        cr_assert_leq(o->ahead, 8);
        while (o->ahead < 8) {
            cr_assert_eq(xh_order_peek(o, &g[0], look, &ranks), XH_PLACE_CHUNK);
            xh_order_take(o, g[0]);
            int64_t at = i + (int64_t)o->ahead;
            cr_assert_eq(g[0].rank, 100 + at / 5 * 20 + at % 5);
        }
    }
    free(o);
}

/* ---- with an index: a fixed array made by hand, unpaged, chunks of |bytes| in a row ---------------- */

#define HEADER_AT 1024u
#define BLOCK_AT 4096u
#define DATA_AT (1u << 20)

static void put(uint8_t *p, uint64_t v, int n)
{
    for (; n--; v >>= 8)
        *p++ = (uint8_t)v;
}

static struct xh_chunkindex *array_of(uint64_t n, uint64_t bytes)
{
    struct xh_chunkindex *ci = xh_chunkindex_new(DATA_AT + n * bytes);
    uint8_t head[28] = "FAHD", *block = calloc(1, 22 + 16 * n);
    head[5] = 1; /* filtered: address, size in 4 bytes, mask */
    head[6] = 16;
    head[7] = 20;
    put(head + 8, n, 8);
    put(head + 16, BLOCK_AT, 8);
    memcpy(block, "FADB\0\1", 6);
    put(block + 6, HEADER_AT, 8);
    for (uint64_t i = 0; i < n; i++) {
        put(block + 14 + 16 * i, DATA_AT + i * bytes, 8);
        put(block + 14 + 16 * i + 8, bytes, 4);
    }
    xh_chunkindex_see(ci, HEADER_AT, head, sizeof head);
    xh_chunkindex_see(ci, BLOCK_AT, block, 18 + 16 * n);
    free(block);
    cr_assert_eq(xh_chunkindex_held(ci).chunks, n);
    return ci;
}

static uint64_t read_chunk(struct xh_chunkindex *ci, uint64_t i, uint64_t bytes, uint64_t window)
{
    struct xh_range out[256];
    uint64_t sum = 0;
    cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + i * bytes, bytes}));
    for (size_t n = xh_chunkindex_next(ci, window, out, 256); n--;)
        sum += out[n].len;
    return sum;
}

Test(order, random_access_proposes_less_than_half_of_what_is_read, .timeout = 60)
{
    srand(11);
    for (int round = 0; round < 60; round++) {
        uint64_t n = 12 + (uint64_t)rand() % 3000, bytes = 8192ull << rand() % 10, asked = 0, proposed = 0;
        struct xh_chunkindex *ci = array_of(n, bytes);
        for (int i = 0; i < 400; i++) {
            proposed += read_chunk(ci, (uint64_t)rand() % n, bytes, 64u << 20);
            asked += bytes;
        }
        cr_assert_lt(proposed, asked / 2, "%llu chunks of %llu: %.2f", (unsigned long long)n,
                     (unsigned long long)bytes, (double)proposed / (double)asked);
        xh_chunkindex_free(ci);
    }
}

Test(order, a_sequential_reader_always_has_chunks_under_way_and_never_more_than_the_window)
{
    uint64_t n = 2000, bytes = 256u << 10, out = 0, window = 16u << 20;
    struct xh_chunkindex *ci = array_of(n, bytes);
    for (uint64_t i = 0; i < n; i++) {
        out -= i ? bytes : 0;
        out += read_chunk(ci, i, bytes, window);
        cr_assert_leq(out, window);
        if (i > 40 && i < n - 64)
            cr_assert_geq(out, window / 2 - bytes, "at %llu: %llu", (unsigned long long)i, (unsigned long long)out);
    }
    cr_assert_eq(out, 0);
    xh_chunkindex_free(ci);
}

Test(order, after_random_reads_a_sequence_is_followed_again)
{
    uint64_t n = 3000, bytes = 64u << 10, got = 0;
    struct xh_chunkindex *ci = array_of(n, bytes);
    srand(5);
    for (int i = 0; i < 300; i++)
        read_chunk(ci, (uint64_t)rand() % n, bytes, 16u << 20);
    for (uint64_t i = 100; i < 110; i++)
        got += read_chunk(ci, i, bytes, 16u << 20);
    cr_assert_gt(got, 10 * bytes);
    xh_chunkindex_free(ci);
}

Test(order, what_was_refused_is_proposed_again)
{
    struct xh_chunkindex *ci = array_of(100, 65536);
    uint64_t first = read_chunk(ci, 0, 65536, 1u << 20);
    cr_assert_gt(first, 0);
    xh_chunkindex_refused(ci);
    struct xh_range out[64];
    cr_assert_gt(xh_chunkindex_next(ci, 1u << 20, out, 64), 0);
    cr_assert_eq(out[0].off, DATA_AT + 65536);
    xh_chunkindex_free(ci);
}
