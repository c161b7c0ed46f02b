/* The order of a reader: regular walks are foreseen once they have shown themselves, random ones cost
 * little. Walks are made by naive loops; what is proposed is compared with what they do next. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "format/chunkindex/chunkindex.h"
#include "format/chunkindex/order.h"

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
        cr_assert_eq(misses_from(walk, 300, (size_t)(2 * run + 1), (struct ranks){1 << 20, 0}), 0,
                     "runs of %lld in %lld", (long long)run, (long long)wide);
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
    struct xh_order_spot g;
    for (int64_t i = 0; i < 30; i++) {
        xh_order_read(o, 100 + i / 5 * 20 + i % 5, look, &ranks);
        if (i < 12)
            continue;
        cr_assert_leq(o->ahead, 8);
        while (o->ahead < 8) {
            cr_assert_eq(xh_order_peek(o, &g, look, &ranks), XH_PLACE_CHUNK);
            xh_order_take(o, &g);
            int64_t at = i + (int64_t)o->ahead;
            cr_assert_eq(g.rank, 100 + at / 5 * 20 + at % 5);
        }
    }
    free(o);
}

static unsigned passes; /* of the orders that follow() makes */

/* Reads the first |n| of |walk| and returns the misses; the guesses, up to |ahead| of the reader, are compared with
 * what is read then. */
static int follow(const int64_t *walk, size_t n, struct ranks ranks, size_t ahead)
{
    struct xh_order *o = calloc(1, sizeof *o);
    int64_t *guess = malloc((n + ahead) * sizeof *guess);
    o->passes = passes;
    int misses = 0, in_order = 1; /* what threads read is guessed, but not for when */
    for (size_t i = 0; i < n; i++) {
        size_t out = o->ahead;
        enum xh_order_event e = xh_order_read(o, walk[i], look, &ranks);
        in_order &= !o->loosely;
        if (e == XH_ORDER_HIT && out && in_order)
            cr_assert_eq(guess[i], walk[i], "a hit at %zu that was not guessed", i);
        misses += e == XH_ORDER_TURN || e == XH_ORDER_MISS;
        struct xh_order_spot g;
        while (o->ahead < ahead && xh_order_peek(o, &g, look, &ranks) == XH_PLACE_CHUNK) {
            xh_order_take(o, &g);
            guess[i + o->ahead] = g.rank;
        }
    }
    free(guess);
    free(o);
    return misses;
}

#define EVERYWHERE ((struct ranks){1 << 20, 0})

Test(order, bands_of_images_miss_once_a_loop)
{
    int64_t walk[320]; /* bands of 8 images of 4 x 2 chunks: 0 1 8 9 … 56 57, 2 3 10 11 …, 64 65 … */
    for (int i = 0; i < 320; i++)
        walk[i] = i / 64 * 64 + i % 64 / 16 * 2 + i % 16 / 2 * 8 + i % 2;
    cr_assert_eq(follow(walk, 320, (struct ranks){320, 0}, 32), 3);
    cr_assert_eq(misses_from(walk, 320, 65, (struct ranks){320, 0}), 0);
}

Test(order, sinograms_miss_at_the_second_image_and_at_the_end)
{
    int64_t walk[320]; /* of 40 images of 8 chunks: 0 8 16 … 312, 1 9 17 … */
    for (int i = 0; i < 320; i++)
        walk[i] = i % 40 * 8 + i / 40;
    cr_assert_eq(follow(walk, 320, (struct ranks){320, 0}, 32), 2);
    /* The last images lack chunks: runs leave the index earlier and earlier. */
    size_t n = 0;
    for (int i = 0; i < 320; i++)
        if (i % 40 * 8 + i / 40 < 315)
            walk[n++] = i % 40 * 8 + i / 40;
    cr_assert_eq(follow(walk, n, (struct ranks){315, 0}, 32), 2);
}

Test(order, a_pass_over_the_same_chunks_again_is_a_loop)
{
    int64_t walk[90];
    for (int i = 0; i < 90; i++)
        walk[i] = 7 + i % 30;
    cr_assert_eq(follow(walk, 90, EVERYWHERE, 8), 1);
}

Test(order, an_irregular_period_is_known_after_two)
{
    static const int64_t odd[] = {0, 3, 5, 6, 1};
    int64_t walk[100];
    for (int n = 3; n <= 5; n++) {
        for (int i = 0; i < 100; i++)
            walk[i] = i / n * 10 + odd[i % n];
        cr_assert_eq(misses_from(walk, 100, (size_t)(3 * n + 1), EVERYWHERE), 0, "%d", n);
    }
}

/* ---- nested loops, made at random --------------------------------------------------------------- */

#define WALK_MOST 20000

struct nest {
    int loops;
    int64_t step[6], len[6]; /* the innermost first */
    int64_t start;
};

/* The ranks that |n| visits, holes left out. */
static size_t walk_nest(const struct nest *n, struct ranks ranks, int64_t *walk)
{
    int64_t at[6] = {0};
    size_t k = 0;
    for (int l = 0; l < n->loops;) {
        int64_t rank = n->start;
        for (int i = 0; i < n->loops; i++)
            rank += at[i] * n->step[i];
        if (look(&ranks, rank) == XH_PLACE_CHUNK)
            walk[k++] = rank;
        cr_assert_lt(k, WALK_MOST);
        for (l = 0; l < n->loops && ++at[l] == n->len[l]; l++)
            at[l] = 0;
    }
    return k;
}

/* As slabs make them: each of up to three dimensions in blocks, in a grid with room behind them, perhaps backwards. */
static struct nest slabs(void)
{
    struct nest n = {0};
    int dims = 1 + rand() % 3, back = rand() % 2;
    int64_t stride = 1, block[3], blocks[3], skip[3];
    for (int d = 0; d < dims; d++) {
        block[d] = 1 + rand() % 5;
        blocks[d] = 1 + rand() % 5;
        skip[d] = stride;
        stride *= block[d] * blocks[d] + rand() % 4;
    }
    for (int d = 0; d < 2 * dims; d++) {
        int64_t len = d < dims ? block[d] : blocks[d - dims],
                step = d < dims ? skip[d] : skip[d - dims] * block[d - dims];
        if (len == 1)
            continue;
        n.step[n.loops] = back ? -step : step;
        n.len[n.loops++] = len;
    }
    n.start = back ? stride - 1 : rand() % 100;
    return n;
}

Test(order, nested_loops_miss_at_most_once_a_loop, .timeout = 60)
{
    int64_t *walk = malloc(WALK_MOST * sizeof *walk);
    srand(3);
    for (int round = 0; round < 20000; round++) {
        struct nest n = slabs();
        size_t k = walk_nest(&n, EVERYWHERE, walk);
        int misses = follow(walk, k, EVERYWHERE, 16);
        cr_assert_leq(misses, n.loops, "round %d: %d misses, %d loops, the innermost %lld x %lld", round, misses,
                      n.loops, (long long)n.len[0], (long long)n.step[0]);
    }
    free(walk);
}

Test(order, holes_in_nested_loops_cost_less_than_a_quarter_of_the_turns, .timeout = 60)
{
    int64_t *walk = malloc(WALK_MOST * sizeof *walk);
    size_t misses = 0, turns = 0;
    srand(8);
    for (int round = 0; round < 5000; round++) {
        struct nest n = slabs();
        struct ranks ranks = {1 << 20, 5 + rand() % 30};
        size_t k = walk_nest(&n, ranks, walk);
        misses += (size_t)follow(walk, k, ranks, 16);
        for (size_t i = 1; i < k; i++)
            turns += walk[i] - walk[i - 1] != (n.loops ? n.step[0] : 0);
    }
    cr_assert_lt(misses, turns / 4, "%zu of %zu", misses, turns);
    free(walk);
}

/* Six images of h x w chunks in blocks of bh x bw, which need not divide them. */
static size_t walk_blocks(int64_t *walk, int64_t h, int64_t w, int64_t bh, int64_t bw)
{
    size_t k = 0;
    for (int64_t image = 0; image < 6; image++)
        for (int64_t y = 0; y < h; y += bh)
            for (int64_t x = 0; x < w; x += bw)
                for (int64_t i = y; i < y + bh && i < h; i++)
                    for (int64_t j = x; j < x + bw && j < w; j++)
                        walk[k++] = (image * h + i) * w + j;
    return k;
}

/* Two misses more at most: each edge when it is seen first. Where there is but a second row of blocks, of one
 * chunk, it looks as if the row before it went on, and all is learned again. */
Test(order, clipped_edges_miss_once_each, .timeout = 60)
{
    int64_t *walk = malloc(WALK_MOST * sizeof *walk);
    for (int64_t h = 1; h < 13; h++)
        for (int64_t w = 1; w < 13; w++)
            for (int64_t bh = 1; bh <= h; bh++)
                for (int64_t bw = 1; bw <= w; bw++) {
                    size_t k = walk_blocks(walk, h, w, bh, bw);
                    int misses = follow(walk, k, EVERYWHERE, 16);
                    cr_assert_leq(misses, h == bh + 1 ? 12 : 6, "%lld x %lld in %lld x %lld: %d", (long long)h,
                                  (long long)w, (long long)bh, (long long)bw, misses);
                }
    free(walk);
}

static enum xh_order_place look_everywhere(const void *ctx, int64_t rank)
{
    (void)ctx;
    return rank < 0 ? XH_PLACE_OUTSIDE : XH_PLACE_CHUNK;
}

Test(order, ranks_that_move_while_they_are_read_change_nothing)
{
    struct xh_order *o = calloc(1, sizeof *o), *p = calloc(1, sizeof *p);
    struct xh_order_spot g, h;
    int64_t moved = 0;
    for (int64_t i = 0; i < 400; i++) {
        int64_t rank = 5000 + i / 60 * 100 + i % 60 / 6 * 3 + i % 6 * 1000;
        enum xh_order_event a = xh_order_read(o, rank, look_everywhere, NULL);
        enum xh_order_event b = xh_order_read(p, rank + moved, look_everywhere, NULL);
        cr_assert_eq(a, b);
        while (o->ahead < 5) {
            xh_order_peek(o, &g, look_everywhere, NULL);
            xh_order_take(o, &g);
            cr_assert_eq(xh_order_peek(p, &h, look_everywhere, NULL), XH_PLACE_CHUNK);
            xh_order_take(p, &h);
            cr_assert_eq(g.rank + moved, h.rank);
        }
        if (i % 37 == 0) { /* below all that is read */
            xh_order_shift(p, 4000, i % 2 ? 17 : -11);
            moved += i % 2 ? 17 : -11;
        }
    }
    free(o);
    free(p);
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
    cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + i * bytes, bytes}, 0));
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

/* As tasks that take blocks of an array in no order read them, each of |threads| the next one. Returns how many chunks
 * come unexpected once two blocks were read. */
static unsigned missed_of_blocks(unsigned threads)
{
    static const uint64_t order[] = {0, 3, 2, 13, 4, 7, 6, 1, 8, 11, 10, 5, 12, 15, 14, 9};
    enum { BLOCK = 16, BLOCKS = sizeof order / sizeof *order };
    uint64_t bytes = 200u << 10, proposed = 0;
    unsigned missed = 0;
    char known[BLOCK * BLOCKS] = {0};
    struct xh_chunkindex *ci = array_of(BLOCK * BLOCKS, bytes);
    for (unsigned i = 0; i < BLOCK * BLOCKS; i++) {
        struct xh_range out[256];
        uint64_t at = order[i / BLOCK] * BLOCK + i % BLOCK;
        missed += i >= 2 * BLOCK && !known[at];
        xh_chunkindex_reader(ci, i / BLOCK % threads, 8 * bytes);
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + at * bytes, bytes}, !known[at]));
        for (size_t n = xh_chunkindex_next(ci, 64u << 20, out, 256); n--; proposed++)
            known[(out[n].off - DATA_AT) / bytes] = 1;
    }
    cr_expect_leq(proposed, BLOCK * BLOCKS * 5 / 4, "%llu were proposed", (unsigned long long)proposed);
    xh_chunkindex_free(ci);
    return missed;
}

/* Each block's first chunk comes unexpected, and few others. Where others read, too, the reader cannot be told from
 * threads that take a block each once most was read. */
Test(order, blocks_in_no_order_are_each_followed)
{
    unsigned one = missed_of_blocks(1), two = missed_of_blocks(2);
    cr_expect_leq(one, 8, "%u chunks came unexpected", one);
    cr_expect_leq(two, 100, "%u chunks came unexpected", two);
}

/* A reader goes through forty chunks of which the rest was |took|, and then to one elsewhere that was foreseen or not;
 * |threads| take turns. Returns whether it has moved. */
static int moved_after(int took, int alone, unsigned threads)
{
    uint64_t bytes = 200u << 10, at = 0;
    struct xh_chunkindex *ci = array_of(1000, bytes);
    for (; at < 40; at++) {
        xh_chunkindex_reader(ci, at % threads, 0);
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + at * bytes, bytes}, at == 0));
        cr_expect_not(xh_chunkindex_moved(ci));
    }
    if (took)
        xh_chunkindex_took(ci, (struct xh_range){DATA_AT + at * bytes, 900 * bytes});
    cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + 700 * bytes, bytes}, alone));
    int moved = xh_chunkindex_moved(ci);
    cr_expect_not(xh_chunkindex_moved(ci), "it is told once");
    xh_chunkindex_free(ci);
    return moved;
}

Test(order, one_thread_that_leaves_a_stretch_for_what_is_not_there_has_moved)
{
    cr_expect(moved_after(1, 1, 1));
    cr_expect_not(moved_after(0, 1, 1), "no stretch of this index was taken");
    cr_expect_not(moved_after(1, 0, 1), "what it wants there was foreseen");
    cr_expect_not(moved_after(1, 1, 2), "several threads read it");
}

/* ---- walks over blocks of any shape: how many chunks come unexpected */

#define AXES 4
#define CHUNKS_MOST 6000u

/* Blocks of |block| chunks in a grid of |all|, each read in the grid's order; one after another by nested loops, of
 * which axis[0] is the outermost, |down|: from its end; or in no order. */
struct walk {
    unsigned axes, all[AXES], block[AXES], axis[AXES], down[AXES], chunks, shuffled;
    unsigned reads, runs, rank[CHUNKS_MOST];
};

static void walk_block(struct walk *w, const unsigned *at)
{
    unsigned from[AXES], i[AXES];
    for (unsigned a = 0; a < w->axes; a++)
        i[a] = from[a] = at[a] * w->block[a];
    for (unsigned a = w->axes; a > 0;) {
        unsigned rank = 0;
        for (unsigned k = 0; k < w->axes; k++)
            rank = rank * w->all[k] + i[k];
        w->runs += w->reads == 0 || rank != w->rank[w->reads - 1] + 1;
        w->rank[w->reads++] = rank;
        for (a = w->axes; a > 0; a--) {
            if (++i[a - 1] < w->all[a - 1] && i[a - 1] < from[a - 1] + w->block[a - 1])
                break;
            i[a - 1] = from[a - 1];
        }
    }
}

static unsigned below(unsigned n)
{
    return (unsigned)rand() % n;
}

static void walk_make(struct walk *w)
{
    static const unsigned longest[AXES] = {2000, 60, 20, 10};
    unsigned blocks, number[AXES], order[CHUNKS_MOST];
    do {
        *w = (struct walk){.axes = 1 + below(AXES), .chunks = 1, .shuffled = below(3) == 0};
        for (unsigned a = 0; a < w->axes; a++)
            w->chunks *= w->all[a] = 1 + below(longest[w->axes - 1]);
    } while (w->chunks > CHUNKS_MOST || w->chunks < 60);
    blocks = 1;
    for (unsigned a = 0; a < w->axes; a++) {
        unsigned kind = below(3);
        w->block[a] = kind == 0 ? 1 : kind == 1 ? w->all[a] : 1 + below(w->all[a]);
        blocks *= number[a] = (w->all[a] + w->block[a] - 1) / w->block[a];
        w->axis[a] = a;
        w->down[a] = below(4) == 0;
    }
    for (unsigned a = w->axes - 1, swaps = below(2); swaps && a > 0; a--) {
        unsigned k = below(a + 1), was = w->axis[a];
        w->axis[a] = w->axis[k];
        w->axis[k] = was;
    }
    for (unsigned b = 0; b < blocks; b++) {
        unsigned k = w->shuffled ? below(b + 1) : b;
        order[b] = order[k];
        order[k] = b;
    }
    for (unsigned b = 0; b < blocks; b++) {
        unsigned at[AXES], rest = order[b];
        for (unsigned k = w->axes; k > 0; k--) {
            unsigned a = w->axis[k - 1];
            at[a] = w->down[a] ? number[a] - 1 - rest % number[a] : rest % number[a];
            rest /= number[a];
        }
        walk_block(w, at);
    }
}

/* Returns how many of the chunks from the |from|th read on come unexpected. */
static unsigned unexpected(const struct walk *w, unsigned from, uint64_t *proposed)
{
    uint64_t bytes = below(2) ? 100000 : 500000, flight = below(8) * bytes;
    struct xh_chunkindex *ci = array_of(w->chunks, bytes);
    char known[CHUNKS_MOST] = {0};
    unsigned missed = 0;
    for (unsigned i = 0; i < w->reads; i++) {
        struct xh_range out[256];
        size_t n = 256;
        xh_chunkindex_reader(ci, 1, flight);
        missed += i >= from && !known[w->rank[i]];
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + w->rank[i] * bytes, bytes}, !known[w->rank[i]]));
        known[w->rank[i]] = 1;
        while (n == 256) {
            n = xh_chunkindex_next(ci, 128u << 20, out, 256);
            for (size_t k = 0; k < n; k++)
                known[(out[k].off - DATA_AT) / bytes] = 1;
            *proposed += n;
        }
    }
    xh_chunkindex_free(ci);
    return missed;
}

/* Of loops over blocks, once a third was read, 0.03 % of all chunks come unexpected; of blocks in no order a fourth as
 * many as there are runs of two chunks and more, as most of these lie in loops, too. 1.2 times what is read is
 * proposed. */
Test(order, what_a_walk_over_blocks_reads_is_foreseen, .timeout = 60)
{
    uint64_t reads = 0, late = 0, runs = 0, missed = 0, proposed = 0, all = 0;
    static struct walk w;
    srand(1);
    for (int round = 0; round < 3000; round++) {
        walk_make(&w);
        unsigned third = w.shuffled ? 0 : w.reads / 3, m = unexpected(&w, third, &proposed);
        all += w.reads;
        if (!w.shuffled) {
            cr_expect_leq(m, 3 + w.reads / 5, "%d: %u of %u", round, m, w.reads);
            reads += w.reads - third;
            late += m;
        } else if (w.reads >= 2 * w.runs) {
            runs += w.runs;
            missed += m;
        }
    }
    cr_expect_leq(late, reads / 2500, "%llu of %llu", (unsigned long long)late, (unsigned long long)reads);
    cr_expect_leq(missed, runs * 3 / 10, "%llu of %llu", (unsigned long long)missed, (unsigned long long)runs);
    cr_expect_leq(proposed, all * 5 / 4, "%llu of %llu", (unsigned long long)proposed, (unsigned long long)all);
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
    cr_assert(xh_chunkindex_raw(ci, (struct xh_range){addr, bytes}, 0));
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
        cr_assert(k == 0 || out[0].off >= end, "chunk %llu again",
                  (unsigned long long)((out[0].off - DATA_AT) / bytes));
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
            cr_assert(r.off == addr[4] && r.len == end - addr[4], "%d: %llu, not %llu", round,
                      (unsigned long long)r.len, (unsigned long long)(end - addr[4]));
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

/* Four threads take the next chunk each. Then a reader takes one here and there, farther on each time. */
Test(order, what_threads_pass_by_for_good_ends_their_order)
{
    uint64_t n = 20000, bytes = MIB / 4, holds[4] = {0, 1, 2, 3}, taken = 4, hops = 0, ahead = 0;
    struct xh_chunkindex *ci = array_of(n, bytes);
    struct xh_range out[256];
    srand(6);
    for (int i = 0; i < 200; i++) {
        size_t k = (size_t)rand() % 4;
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + holds[k] * bytes, bytes}, 0));
        ahead += xh_chunkindex_next(ci, 64 * MIB, out, 256);
        holds[k] = taken++;
    }
    cr_assert_geq(ahead, 300, "they are followed: %llu", (unsigned long long)ahead);
    for (uint64_t at = taken; at < n - 300; at += 300) {
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + at * bytes, bytes}, 0));
        hops += xh_chunkindex_next(ci, 64 * MIB, out, 256);
    }
    cr_assert_lt(hops, 3 * 256, "%llu", (unsigned long long)hops);
    xh_chunkindex_free(ci);
}

/* As good frames are, among bad ones. */
Test(order, chunks_that_are_left_out_here_and_there_are_no_misses)
{
    for (unsigned kept = 1; kept < 10; kept++) {
        int64_t walk[400], at = 0;
        srand(kept);
        for (size_t i = 0; i < 400; i++, at++) {
            while ((unsigned)rand() % 10 >= kept)
                at++;
            walk[i] = at;
        }
        passes = 1; /* as on a slow link */
        int slow = follow(walk, 400, (struct ranks){.n = at}, 64);
        passes = 4;
        int fast = follow(walk, 400, (struct ranks){.n = at}, 64);
        passes = 0;
        cr_expect(kept == 5 || (kept > 5 ? slow <= 20 : slow > 100), "%u of ten are read: %d", kept, slow);
        cr_expect(kept == 2 || (kept > 2 ? fast <= 20 : fast > 100), "%u of ten are read: %d", kept, fast);
    }
}

/* Eight chunks, of which some are left out, and then eight somewhere else: where they end is not known. */
Test(order, a_few_chunks_with_gaps_bring_little_behind_them)
{
    uint64_t n = 20000, bytes = MIB / 4, asked = 0, reads = 0;
    struct xh_chunkindex *ci = array_of(n, bytes);
    struct xh_range out[256];
    srand(3);
    for (int place = 0; place < 100; place++) {
        uint64_t at = (uint64_t)rand() % (n - 100);
        for (int i = 0; i < 8; i++, reads++) {
            cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + at * bytes, bytes}, 0));
            asked += xh_chunkindex_next(ci, 64 * MIB, out, 256);
            at += 1 + (uint64_t)(rand() % 2);
        }
    }
    cr_expect_lt(asked, 2 * reads, "%llu", (unsigned long long)asked);
    xh_chunkindex_free(ci);
}

/* As of images of several kinds that take turns. What is between them is not fetched. */
Test(order, a_period_is_found_also_where_most_chunks_are_read)
{
    static const char *const periods[] = {"1011", "10110", "10110011", "1011010011", "110100", "1100101101"};
    for (size_t p = 0; p < sizeof periods / sizeof *periods; p++) {
        struct xh_order *o = calloc(1, sizeof *o);
        size_t len = strlen(periods[p]);
        struct xh_order_spot next;
        int wrong = 0;
        for (int64_t at = 0; at < 200; at++) {
            wrong += at >= 80 && xh_order_peek(o, &next, look, &EVERYWHERE) == XH_PLACE_CHUNK && next.rank == at &&
                     periods[p][(size_t)at % len] == '0';
            o->ahead = 0;
            if (periods[p][(size_t)at % len] == '1')
                xh_order_read(o, at, look, &EVERYWHERE);
        }
        cr_expect_eq(wrong, 0, "%s: %d", periods[p], wrong);
        free(o);
    }
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
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + (uint64_t)rand() % n * bytes, bytes}, 0));
    for (uint64_t i = 1000; i < 1002; i++)
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + i * bytes, bytes}, 0));
    cr_assert_gt(xh_chunkindex_next(ci, 16 * MIB, out, 64), 0, "two in a row may be the beginning of a run");
    xh_chunkindex_free(ci);
}

/* To and fro between two chunks is an order as well: a period of two. */
Test(order, what_a_stretch_took_ends_in_an_order_that_goes_in_circles, .timeout = 20)
{
    uint64_t bytes = MIB / 4;
    struct xh_chunkindex *ci = array_of(20, bytes);
    for (uint64_t i = 0; i < 12; i++)
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + (5 + i % 2) * bytes, bytes}, 0));
    xh_chunkindex_took(ci, (struct xh_range){DATA_AT, 20 * bytes}); /* another thread's stretch */
    xh_chunkindex_free(ci);
}

/* 100 images of 8 chunks in a random order: where the next one is cannot be known, all of it can once it began. */
Test(order, images_in_random_order_come_whole_and_little_else_does)
{
    uint64_t bytes = 1u << 20, window = 64u << 20, asked = 0, proposed = 0, whole = 0;
    struct xh_chunkindex *ci = array_of(8000, bytes);
    srand(12);
    for (int image = 0; image < 100; image++) {
        uint64_t first = (uint64_t)(rand() % 1000) * 8, at_once = 0;
        for (uint64_t i = 0; i < 8; i++) {
            uint64_t more = read_chunk(ci, first + i, bytes, window);
            at_once = i ? at_once : more;
            proposed += more;
            asked += bytes;
        }
        whole += at_once == 7 * bytes;
    }
    cr_assert_geq(whole, 90);
    cr_assert_leq(proposed, asked + 8 * bytes + asked / 4);
    xh_chunkindex_free(ci);
}

/* Bands of 8 images of 4 x 2 chunks: only the first chunk is not under way when it is read. What is asked for too
 * early and taken back stays below a sixth. */
Test(order, the_run_after_a_turn_is_under_way_at_once)
{
    uint64_t bytes = 1u << 20, window = 64u << 20;
    struct xh_chunkindex *ci = array_of(320, bytes);
    struct xh_range r[256];
    char under_way[320] = {0};
    int late = 0, unread = 0;
    for (uint64_t i = 0; i < 320; i++) {
        uint64_t rank = i / 64 * 64 + i % 64 / 16 * 2 + i % 16 / 2 * 8 + i % 2;
        late += !under_way[rank];
        under_way[rank] = 2;
        cr_assert(xh_chunkindex_raw(ci, (struct xh_range){DATA_AT + rank * bytes, bytes}, 0));
        if (xh_chunkindex_strayed(ci)) /* the caller takes back what was not read */
            for (int k = 0; k < 320; k++)
                if (under_way[k] == 1) {
                    under_way[k] = 0;
                    unread++;
                }
        for (size_t n = xh_chunkindex_next(ci, window, r, 256); n--;) {
            uint64_t k = (r[n].off - DATA_AT) / bytes;
            under_way[k] = under_way[k] ? under_way[k] : 1;
        }
        if (i == 64)
            for (int k = 1; k < 16; k++)
                cr_assert(under_way[64 + k / 2 * 8 + k % 2], "%d", k);
    }
    cr_assert_leq(late, 1);
    cr_assert_leq(unread, 48);
    xh_chunkindex_free(ci);
}

/* Runs of 8 chunks: three at one distance, then two anywhere, again and again. What lies behind a distance that was
 * seen but once is guessed each time, and nearly always wrong. */
Test(order, steps_that_fail_again_and_again_are_paid_from_one_account)
{
    uint64_t bytes = 1u << 20, window = 64u << 20, asked = 0, proposed = 0;
    struct xh_chunkindex *ci = array_of(16000, bytes);
    srand(21);
    for (int round = 0; round < 100; round++) {
        uint64_t from = (uint64_t)(rand() % 1000) * 8, skip = 16 + (uint64_t)(rand() % 50) * 8;
        for (int run = 0; run < 5; run++) {
            uint64_t first = run < 3 ? from + (uint64_t)run * skip : (uint64_t)(rand() % 1900) * 8;
            for (uint64_t i = 0; i < 8; i++)
                proposed += read_chunk(ci, first + i, bytes, window);
            asked += 8 * bytes;
        }
    }
    /* The third run proves an order for a moment, and that is free; the rest is a quarter of what was read. */
    cr_assert_leq(proposed, 2 * asked + asked / 4, "%.2f", (double)proposed / (double)asked);
    xh_chunkindex_free(ci);
}
