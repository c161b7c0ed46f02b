/* The order of a reader: regular walks are foreseen once they have shown themselves, random ones cost
 * little. Walks are made by naive loops; what is proposed is compared with what they do next. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* Chunk |i| is at |addr[i]|. */
static struct xh_chunkindex *array_at(uint64_t n, uint64_t bytes, const uint64_t *addr)
{
    uint64_t end = DATA_AT;
    for (uint64_t i = 0; i < n; i++)
        end = addr[i] + bytes > end ? addr[i] + bytes : end;
    struct xh_chunkindex *ci = xh_chunkindex_new(end);
    uint8_t head[28] = "FAHD", *block = calloc(1, 22 + 16 * n);
    head[5] = 1; /* filtered: address, size in 4 bytes, mask */
    head[6] = 16;
    head[7] = 20;
    put(head + 8, n, 8);
    put(head + 16, BLOCK_AT, 8);
    memcpy(block, "FADB\0\1", 6);
    put(block + 6, HEADER_AT, 8);
    for (uint64_t i = 0; i < n; i++) {
        put(block + 14 + 16 * i, addr[i], 8);
        put(block + 14 + 16 * i + 8, bytes, 4);
    }
    xh_chunkindex_see(ci, HEADER_AT, head, sizeof head);
    xh_chunkindex_see(ci, BLOCK_AT, block, 18 + 16 * n);
    free(block);
    cr_assert_eq(xh_chunkindex_held(ci).chunks, n);
    return ci;
}

static struct xh_chunkindex *array_of(uint64_t n, uint64_t bytes)
{
    uint64_t *addr = malloc(n * sizeof *addr);
    for (uint64_t i = 0; i < n; i++)
        addr[i] = DATA_AT + i * bytes;
    struct xh_chunkindex *ci = array_at(n, bytes, addr);
    free(addr);
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

/* ---- stretches ------------------------------------------------------------------------------------- */

#define MIB (1ull << 20)
#define LEAST MIB
#define MOST (64 * MIB)

static struct xh_range stretch_after(struct xh_chunkindex *ci, uint64_t addr, uint64_t bytes, uint64_t *window)
{
    cr_assert(xh_chunkindex_raw(ci, (struct xh_range){addr, bytes}));
    return xh_chunkindex_stretch(ci, 16 * MIB, LEAST, MOST, window);
}

/* Reads |walk| of chunks of 256 KiB at |addr|; returns how many stretches were seen, and the last of them. */
static size_t stretches(const uint64_t *addr, uint64_t n, const uint64_t *walk, size_t reads, struct xh_range *last)
{
    struct xh_chunkindex *ci = array_at(n, MIB / 4, addr);
    size_t found = 0;
    uint64_t window;
    for (size_t i = 0; i < reads; i++) {
        struct xh_range r = stretch_after(ci, addr[walk[i]], MIB / 4, &window);
        found += r.len != 0;
        *last = r.len ? r : *last;
    }
    xh_chunkindex_free(ci);
    return found;
}

static void in_a_row(uint64_t *addr, uint64_t n, uint64_t step)
{
    for (uint64_t i = 0; i < n; i++)
        addr[i] = DATA_AT + i * step;
}

Test(order, a_stretch_begins_once_the_order_is_proven_and_ends_where_the_chunks_do)
{
    uint64_t n = 100, bytes = MIB / 4, window;
    struct xh_chunkindex *ci = array_of(n, bytes);
    for (uint64_t i = 0; i < 3; i++) {
        cr_assert_eq(stretch_after(ci, DATA_AT + i * bytes, bytes, &window).len, 0, "%llu", (unsigned long long)i);
        cr_assert_eq(window, 0);
    }
    struct xh_range r = stretch_after(ci, DATA_AT + 3 * bytes, bytes, &window);
    cr_assert_eq(r.off, DATA_AT + 4 * bytes);
    cr_assert_eq(r.len, 96 * bytes);
    cr_assert(window >= LEAST && window <= 16 * MIB);
    cr_assert_eq(xh_chunkindex_stretch(ci, LEAST - 1, LEAST, MOST, &window).len, 0, "a smaller window");
    xh_chunkindex_free(ci);
}

Test(order, a_stretch_is_no_longer_than_asked_for_and_holds_whole_chunks)
{
    uint64_t bytes = MIB / 4 + 77, window;
    struct xh_chunkindex *ci = array_of(1000, bytes);
    for (uint64_t i = 0; i < 3; i++)
        stretch_after(ci, DATA_AT + i * bytes, bytes, &window);
    struct xh_range r = stretch_after(ci, DATA_AT + 3 * bytes, bytes, &window);
    cr_assert_eq(r.len, MOST / bytes * bytes);
    xh_chunkindex_free(ci);
}

Test(order, what_a_stretch_took_is_not_proposed_again_until_a_miss_forgets_it)
{
    uint64_t n = 300, bytes = MIB / 4, window, i;
    struct xh_range out[64], r = {0, 0};
    struct xh_chunkindex *ci = array_of(n, bytes);
    for (i = 0; r.len == 0; i++)
        r = stretch_after(ci, DATA_AT + i * bytes, bytes, &window);
    uint64_t end = r.off + 40 * bytes; /* the caller saw to a part of it, to the middle of a chunk */
    xh_chunkindex_took(ci, (struct xh_range){r.off, end - r.off + bytes / 2});
    for (; DATA_AT + i * bytes < end; i++) {
        struct xh_range more = stretch_after(ci, DATA_AT + i * bytes, bytes, &window);
        cr_assert(more.len == 0 || more.off == end, "%llu", (unsigned long long)i);
        size_t k = xh_chunkindex_next(ci, 16 * MIB, out, 64);
        cr_assert(k == 0 || out[0].off >= end, "chunk %llu again", (unsigned long long)((out[0].off - DATA_AT) / bytes));
        end = k ? out[k - 1].off + out[k - 1].len : end;
        if (i > 60)
            break;
    }
    cr_assert_gt(end, r.off + 40 * bytes, "and on from there");
    stretch_after(ci, DATA_AT, bytes, &window); /* elsewhere */
    for (i = 1, r.len = 0; r.len == 0; i++)
        r = stretch_after(ci, DATA_AT + i * bytes, bytes, &window);
    cr_assert_eq(r.off, DATA_AT + i * bytes);
    cr_assert_leq(i, 10);
    xh_chunkindex_free(ci);
}

Test(order, no_stretch_for_strides_backwards_nested_or_random_reads)
{
    uint64_t addr[2000], walk[400];
    struct xh_range r;
    in_a_row(addr, 2000, MIB / 4);
    for (uint64_t i = 0; i < 400; i++)
        walk[i] = 2 * i;
    cr_assert_eq(stretches(addr, 2000, walk, 400, &r), 0, "every other one");
    for (uint64_t i = 0; i < 400; i++)
        walk[i] = 1999 - i;
    cr_assert_eq(stretches(addr, 2000, walk, 400, &r), 0, "backwards");
    for (uint64_t i = 0; i < 400; i++)
        walk[i] = i / 3 * 10 + i % 3;
    cr_assert_eq(stretches(addr, 2000, walk, 400, &r), 0, "three of each row of ten");
    srand(3);
    for (uint64_t i = 0; i < 400; i++)
        walk[i] = (uint64_t)rand() % 2000;
    cr_assert_eq(stretches(addr, 2000, walk, 400, &r), 0, "at random");
    for (uint64_t i = 0; i < 400; i++)
        walk[i] = i;
    cr_assert_gt(stretches(addr, 2000, walk, 400, &r), 0, "else nothing was shown");
}

Test(order, no_stretch_where_chunks_lie_apart_downwards_or_scattered)
{
    uint64_t addr[500], walk[100], n = 500;
    struct xh_range r;
    for (uint64_t i = 0; i < 100; i++)
        walk[i] = i;
    in_a_row(addr, n, MIB / 2);
    cr_assert_eq(stretches(addr, n, walk, 100, &r), 0, "as much between them as in them");
    in_a_row(addr, n, MIB / 4);
    for (uint64_t i = 0; i < n; i++)
        addr[i] = DATA_AT + (n - 1 - i) * (MIB / 4);
    cr_assert_eq(stretches(addr, n, walk, 100, &r), 0, "downwards");
    srand(4);
    in_a_row(addr, n, MIB / 4);
    for (uint64_t i = n - 1; i > 0; i--) {
        uint64_t k = (uint64_t)rand() % (i + 1), was = addr[i];
        addr[i] = addr[k];
        addr[k] = was;
    }
    cr_assert_eq(stretches(addr, n, walk, 100, &r), 0, "scattered");
}

/* Against a naive walk: gaps of all sizes, and now and then a chunk that lies below the one before it. */
Test(order, a_stretch_goes_over_small_gaps_alone)
{
    uint64_t addr[400], n = 400, bytes = MIB / 4;
    size_t found = 0;
    srand(9);
    for (int round = 0; round < 300; round++) {
        uint64_t at = DATA_AT, window, most = 1 + (uint64_t)rand() % 60000;
        for (uint64_t i = 0; i < n; i++) {
            at += rand() % 4 ? 0 : (uint64_t)rand() % most;
            addr[i] = at;
            at += bytes;
        }
        if (rand() % 2) {
            uint64_t k = 10 + (uint64_t)rand() % 380, was = addr[k];
            addr[k] = addr[k + 1];
            addr[k + 1] = was;
        }
        struct xh_chunkindex *ci = array_at(n, bytes, addr);
        struct xh_range r = {0, 0};
        for (uint64_t i = 0; i < 4; i++)
            r = stretch_after(ci, addr[i], bytes, &window);
        uint64_t end = addr[4] + bytes, gaps = 0;
        for (uint64_t i = 5; i < n && addr[i] >= end; i++) {
            gaps += addr[i] - end;
            if (gaps > 65536 + (end - addr[4]) / 16 || addr[i] + bytes - addr[4] > MOST)
                break;
            end = addr[i] + bytes;
        }
        if (end - addr[4] < LEAST)
            cr_assert_eq(r.len, 0);
        else
            cr_assert(r.off == addr[4] && r.len == end - addr[4], "%d: %llu, not %llu", round, (unsigned long long)r.len,
                      (unsigned long long)(end - addr[4]));
        found += r.len != 0;
        xh_chunkindex_free(ci);
    }
    cr_assert_gt(found, 200);
}

/* A look walks over thousands of chunks: in vain, it is not repeated before a quarter of the least was read. */
Test(order, many_tiny_chunks_are_not_looked_through_at_every_read, .timeout = 20)
{
    uint64_t n = 40000, bytes = 100, window;
    struct xh_chunkindex *ci = array_of(n, bytes); /* 8192 of them are less than a stretch */
    clock_t began = clock();
    for (uint64_t i = 0; i < n; i++)
        cr_assert_eq(stretch_after(ci, DATA_AT + i * bytes, bytes, &window).len, 0);
    cr_assert_geq(window, LEAST, "so it did look");
    cr_assert_lt(clock() - began, CLOCKS_PER_SEC, "as many looks as reads take several seconds");
    xh_chunkindex_free(ci);
}

/* What a stream was to bring, and mostly never did, is not what wrong guesses cost. */
Test(order, a_stretch_that_was_left_leaves_other_guesses_their_allowance)
{
    uint64_t n = 5000, bytes = MIB / 4, window;
    struct xh_chunkindex *ci = array_of(n, bytes);
    struct xh_range out[64];
    for (uint64_t i = 0; i < 24; i++) { /* eight of each row of a hundred */
        struct xh_range r = stretch_after(ci, DATA_AT + (i / 8 * 100 + i % 8) * bytes, bytes, &window);
        if (r.len)
            xh_chunkindex_took(ci, r);
    }
    srand(2);
    for (int i = 0; i < 8; i++)
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + (uint64_t)rand() % n * bytes, bytes}));
    for (uint64_t i = 1000; i < 1002; i++)
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + i * bytes, bytes}));
    cr_assert_gt(xh_chunkindex_next(ci, 16 * MIB, out, 64), 0, "two in a row may be the beginning of a run");
    xh_chunkindex_free(ci);
}

/* To and fro between two chunks is an order as well: a period of two. */
Test(order, what_a_stretch_took_ends_in_an_order_that_goes_in_circles, .timeout = 20)
{
    uint64_t bytes = MIB / 4;
    struct xh_chunkindex *ci = array_of(20, bytes);
    for (uint64_t i = 0; i < 12; i++)
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + (5 + i % 2) * bytes, bytes}));
    xh_chunkindex_took(ci, (struct xh_range){DATA_AT, 20 * bytes}); /* another thread's stretch */
    xh_chunkindex_free(ci);
}
