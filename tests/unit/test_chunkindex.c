/* Chunk indexes: real files of every index type, written by the HDF5 library; HDF5's own reads of
 * them, as its log driver notes them, are replayed; the library's list of chunks is the truth. */
#include <criterion/criterion.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/chunkindex/chunkindex.h"

#define MIB (1ull << 20)

/* ---- files ------------------------------------------------------------------------------- */

struct layout {
    const char *name;
    int latest, rank;
    hsize_t dims[3], max[3], chunk[3];
    int swapped;      /* the array's order is not the reader's */
    unsigned k;       /* B-tree 1's K; 0: default */
    unsigned offsets; /* bytes of addresses; 0: default */
    unsigned user_block;
    int holes; /* only every |holes|-th chunk row is written */
};

#define U H5S_UNLIMITED
static const struct layout layouts[] = {
    {.name = "btree1", .latest = 0, .rank = 2, .dims = {200, 300}, .max = {U, 300}, .chunk = {10, 20}},
    {.name = "btree1_deep", .latest = 0, .rank = 1, .dims = {20000}, .max = {U}, .chunk = {4}},
    {.name = "btree1_small_k", .latest = 0, .rank = 3, .dims = {40, 40, 40}, .max = {40, 40, 40}, .chunk = {4, 4, 4},
     .k = 3},
    {.name = "btree1_offsets_4", .latest = 0, .rank = 2, .dims = {200, 300}, .max = {200, 300}, .chunk = {10, 20},
     .offsets = 4},
    {.name = "btree1_user_block", .latest = 0, .rank = 2, .dims = {200, 300}, .max = {200, 300}, .chunk = {10, 20},
     .user_block = 1024},
    {.name = "fixed", .latest = 1, .rank = 2, .dims = {200, 300}, .max = {200, 300}, .chunk = {10, 20}},
    {.name = "fixed_paged", .latest = 1, .rank = 1, .dims = {20000}, .max = {20000}, .chunk = {4}},
    {.name = "fixed_user_block", .latest = 1, .rank = 1, .dims = {20000}, .max = {20000}, .chunk = {4},
     .user_block = 512},
    {.name = "fixed_offsets_4", .latest = 1, .rank = 1, .dims = {20000}, .max = {20000}, .chunk = {4}, .offsets = 4},
    {.name = "fixed_larger_max", .latest = 1, .rank = 2, .dims = {100, 100}, .max = {400, 300}, .chunk = {10, 20}},
    {.name = "fixed_holes", .latest = 1, .rank = 2, .dims = {200, 300}, .max = {200, 300}, .chunk = {10, 20},
     .holes = 3},
    {.name = "extensible", .latest = 1, .rank = 2, .dims = {40, 20}, .max = {U, 20}, .chunk = {10, 20}},
    {.name = "extensible_blocks", .latest = 1, .rank = 1, .dims = {20000}, .max = {U}, .chunk = {4}},
    {.name = "extensible_paged", .latest = 1, .rank = 1, .dims = {560000}, .max = {U}, .chunk = {4}},
    {.name = "extensible_user_block", .latest = 1, .rank = 1, .dims = {20000}, .max = {U}, .chunk = {4},
     .user_block = 2048},
    {.name = "extensible_2nd", .latest = 1, .rank = 2, .dims = {200, 300}, .max = {200, U}, .chunk = {10, 20},
     .swapped = 1},
    {.name = "btree2", .latest = 1, .rank = 2, .dims = {200, 300}, .max = {U, U}, .chunk = {10, 20}},
    {.name = "btree2_deep", .latest = 1, .rank = 2, .dims = {400, 400}, .max = {U, U}, .chunk = {4, 4}},
    {.name = "btree2_offsets_4", .latest = 1, .rank = 2, .dims = {400, 400}, .max = {U, U}, .chunk = {10, 10},
     .offsets = 4},
    {.name = "btree2_user_block", .latest = 1, .rank = 3, .dims = {40, 40, 40}, .max = {U, U, U}, .chunk = {4, 4, 4},
     .user_block = 512},
};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

static size_t elements_of(const hsize_t *d, int rank)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= d[i];
    return n;
}

/* A filter in place of zlib, which sets up 260 KB for each chunk, of 16 bytes mostly: a third of this file's time.
 * Stored chunks are of sizes that differ, as any compressor's are, and are about as long as zlib makes those of 16 bytes. */
#define UNEVEN 300 /* HDF5 leaves 256 to 511 to tests */

static size_t uneven(unsigned flags, size_t nwords, const unsigned *words, size_t nbytes, size_t *room, void **buf)
{
    size_t whole = words[0];
    if (flags & H5Z_FLAG_REVERSE)
        return whole;
    cr_assert(nwords == 1 && nbytes == whole);
    size_t longer = whole + 4 + *(uint8_t *)*buf % 5;
    if (*room < longer) {
        *buf = H5resize_memory(*buf, longer);
        *room = longer;
    }
    memset((char *)*buf + whole, 0, longer - whole);
    return longer;
}

static void make_uneven(hid_t dcpl, size_t chunk_bytes)
{
    static const H5Z_class2_t class = {H5Z_CLASS_T_VERS, UNEVEN, 1, 1, "uneven", NULL, NULL, uneven};
    const unsigned words[] = {(unsigned)chunk_bytes};
    cr_assert_geq(H5Zregister(&class), 0);
    cr_assert_geq(H5Pset_filter(dcpl, UNEVEN, H5Z_FLAG_MANDATORY, 1, words), 0);
}

static void write_file(const char *path, const struct layout *l, int zipped)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), fcpl = H5Pcreate(H5P_FILE_CREATE);
    if (l->latest)
        H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    if (l->k)
        H5Pset_istore_k(fcpl, l->k);
    if (l->offsets)
        H5Pset_sizes(fcpl, l->offsets, l->offsets);
    H5Pset_userblock(fcpl, l->user_block);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    hid_t space = H5Screate_simple(l->rank, l->dims, l->max), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, l->rank, l->chunk);
    if (zipped)
        make_uneven(dcpl, elements_of(l->chunk, l->rank) * sizeof(int));
    hid_t set = H5Dcreate2(file, "data", H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    size_t n = elements_of(l->dims, l->rank);
    int *data = malloc(n * sizeof *data);
    srand(1);
    for (size_t i = 0; i < n; i++)
        data[i] = rand() % 1000;
    if (l->holes) {
        hsize_t at[3] = {0}, rows[3];
        memcpy(rows, l->dims, sizeof rows);
        rows[0] = l->chunk[0];
        hid_t mem = H5Screate_simple(l->rank, rows, NULL);
        for (; at[0] < l->dims[0]; at[0] += l->chunk[0] * (hsize_t)l->holes) {
            H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, rows, NULL);
            cr_assert_geq(H5Dwrite(set, H5T_NATIVE_INT, mem, space, H5P_DEFAULT, data), 0);
        }
        H5Sclose(mem);
    } else {
        cr_assert_geq(H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), 0);
    }
    free(data);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(dcpl);
    H5Fclose(file);
    H5Pclose(fapl);
    H5Pclose(fcpl);
}

/* ---- what the library says ----------------------------------------------------------------- */

struct chunk {
    uint64_t addr, size, order; /* in the file, user block included; stored bytes; place in row-major order of the chunk
                                 * grid */
};

struct truth {
    const struct layout *l;
    struct chunk *c;
    size_t n;
};

static int take_chunk(const hsize_t *offset, unsigned mask, haddr_t addr, hsize_t size, void *ctx)
{
    struct truth *t = ctx;
    uint64_t order = 0;
    for (int i = 0; i < t->l->rank; i++)
        order = order * ((t->l->dims[i] - 1) / t->l->chunk[i] + 1) + offset[i] / t->l->chunk[i];
    t->c[t->n++] = (struct chunk){addr, size, order};
    return 0;
}

static int by_order(const void *a, const void *b)
{
    const struct chunk *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

/* One read that HDF5 made. */
struct noted {
    uint64_t off, len;
    int raw;
};

struct replay {
    struct layout l;
    struct truth truth;
    struct noted *reads;
    size_t nreads;
    uint8_t *bytes; /* the file */
    uint64_t size;
};

static void read_log(const char *path, struct replay *r)
{
    FILE *f = fopen(path, "r");
    char line[256], type[64];
    unsigned long long a, b, n;
    cr_assert_not_null(f);
    r->reads = malloc(sizeof *r->reads * 400000);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, " %llu-%llu ( %llu bytes) (%63[^)]) Read", &a, &b, &n, type) == 4 && r->nreads < 400000)
            r->reads[r->nreads++] = (struct noted){a, n, strstr(type, "DRAW") != NULL};
    fclose(f);
}

static void read_file(const char *path, struct replay *r)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    cr_assert(f && fstat(fileno(f), &st) == 0);
    r->size = (uint64_t)st.st_size;
    r->bytes = malloc(r->size);
    cr_assert_eq(fread(r->bytes, 1, r->size, f), r->size);
    fclose(f);
}

/* The library names wrong coordinates for an extensible array whose unlimited dimension is not the
 * first one; the order is that of its reads then. */
static void order_by_reads(struct replay *r)
{
    for (size_t i = 0, k = 0; i < r->nreads; i++) {
        if (!r->reads[i].raw)
            continue;
        for (size_t j = 0; j < r->truth.n; j++)
            if (r->truth.c[j].addr == r->reads[i].off)
                r->truth.c[j].order = k++;
    }
}

static int pass_chunk(const hsize_t *offset, unsigned mask, haddr_t addr, hsize_t size, void *ctx)
{
    return 0;
}

/* Writes a file, reads all of it through the library, or only lists its chunks, and keeps what the library read and
 * says. */
static void record(struct replay *r, const struct layout *l, int zipped, int lists)
{
    char path[] = "/tmp/xh-chunks-XXXXXX", log[] = "/tmp/xh-chunks-log-XXXXXX";
    close(mkstemp(path));
    close(mkstemp(log));
    memset(r, 0, sizeof *r);
    r->l = *l;
    r->truth.l = &r->l;
    write_file(path, l, zipped);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_log(fapl, log, H5FD_LOG_LOC_READ, 0);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, fapl), set = H5Dopen2(file, "data", H5P_DEFAULT);
    size_t n = elements_of(l->dims, l->rank);
    int *data = malloc(n * sizeof *data);
    if (lists)
        cr_assert_geq(H5Dchunk_iter(set, H5P_DEFAULT, pass_chunk, NULL), 0);
    else
        cr_assert_geq(H5Dread(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), 0);
    free(data);
    H5Dclose(set);
    H5Fclose(file); /* the log is complete */
    read_log(log, r);
    read_file(path, r);
    r->truth.c = malloc(n * sizeof *r->truth.c);
    file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    set = H5Dopen2(file, "data", H5P_DEFAULT);
    cr_assert_geq(H5Dchunk_iter(set, H5P_DEFAULT, take_chunk, &r->truth), 0);
    if (l->swapped)
        order_by_reads(r);
    qsort(r->truth.c, r->truth.n, sizeof *r->truth.c, by_order);
    H5Dclose(set);
    H5Fclose(file);
    H5Pclose(fapl);
    unlink(path);
    unlink(log);
}

static void replay_free(struct replay *r)
{
    free(r->truth.c);
    free(r->reads);
    free(r->bytes);
}

static void see(struct xh_chunkindex *ci, const struct replay *r, uint64_t off, uint64_t len)
{
    if (len <= r->size && off <= r->size - len && xh_chunkindex_cares(ci, off, r->bytes + off, len))
        xh_chunkindex_see(ci, off, r->bytes + off, len);
}

/* Feeds what the index wants, as a cache with everything in it would. */
static void feed_wanted(struct xh_chunkindex *ci, const struct replay *r)
{
    struct xh_range want[8];
    for (int round = 0; round < 10; round++) {
        size_t n = xh_chunkindex_wanted(ci, want, 8);
        for (size_t i = 0; i < n; i++) {
            cr_assert(want[i].len <= r->size && want[i].off <= r->size - want[i].len);
            see(ci, r, want[i].off, want[i].len);
        }
        if (n == 0)
            return;
    }
}

/* ---- claims ----------------------------------------------------------------------------------- */

/* The chunk at |off|, of those from |from| on; |likely| is looked at first. Returns t->n without one. */
static size_t chunk_at(const struct truth *t, size_t from, size_t likely, uint64_t off)
{
    if (likely >= from && likely < t->n && t->c[likely].addr == off)
        return likely;
    while (from < t->n && t->c[from].addr != off)
        from++;
    return from;
}

/* Replays; |wanted|: nodes asked for are fed at once. Checks each proposal; returns how many raw reads
 * of whole chunks had been proposed before. */
static size_t replay(const struct replay *r, struct xh_chunkindex *ci, int wanted, size_t *raw)
{
    const struct truth *t = &r->truth;
    struct xh_range out[64];
    uint8_t *proposed = calloc(t->n, 1);
    size_t good = 0, k = 0, likely = 0;
    int64_t last = -1;
    *raw = 0;
    for (size_t i = 0; i < r->nreads; i++) {
        const struct noted *rd = &r->reads[i];
        if (!rd->raw) {
            see(ci, r, rd->off, rd->len);
            continue;
        }
        cr_assert_lt(k, t->n, "%s: more raw reads than chunks", r->l.name);
        cr_assert_eq(rd->off, t->c[k].addr, "%s: read %zu is not chunk %zu", r->l.name, i, k);
        ++*raw;
        good += proposed[k++];
        int known = xh_chunkindex_raw(ci, (struct xh_range){rd->off, rd->len}, 0) != 0;
        if (!known)
            continue;
        if (wanted)
            feed_wanted(ci, r);
        size_t n = xh_chunkindex_next(ci, 4 * MIB, out, 64);
        for (size_t j = 0; j < n; j++) {
            size_t at = chunk_at(t, k, likely, out[j].off);
            likely = at + 1;
            if (r->l.swapped) { /* guesses at the first rows may be wrong */
                if (at < t->n)
                    proposed[at] = 1;
                continue;
            }
            cr_assert_lt(at, t->n, "%s: %llu is no chunk to come", r->l.name, (unsigned long long)out[j].off);
            cr_assert_eq(out[j].len, t->c[at].size, "%s: chunk %zu has %llu bytes, not %llu", r->l.name, at,
                         (unsigned long long)t->c[at].size, (unsigned long long)out[j].len);
            cr_assert(!proposed[at] && (int64_t)at > last, "%s: chunk %zu after %lld", r->l.name, at, (long long)last);
            last = (int64_t)at;
            proposed[at] = 1;
        }
    }
    free(proposed);
    return good;
}

static void check_all_known(const struct replay *r, const struct xh_chunkindex *ci)
{
    uint64_t size, rank, last = 0;
    for (size_t i = 0; i < r->truth.n; i++) {
        const struct chunk *c = &r->truth.c[i];
        cr_assert(xh_chunkindex_find(ci, c->addr, &size, &rank), "%s: chunk %zu is not known",
                  r->l.name, i);
        cr_assert(size == 0 || size == c->size, "%s: chunk %zu: %llu bytes", r->l.name, i, (unsigned long long)size);
        if (i && !r->l.swapped)
            cr_assert_gt(rank, last, "%s: chunk %zu out of order", r->l.name, i);
        last = rank;
        struct xh_chunkindex_spot s = xh_chunkindex_spot(ci, (struct xh_range){c->addr, 1});
        struct xh_range there = xh_chunkindex_at(ci, s);
        cr_assert(s.index && s.rank == rank);
        cr_assert(there.off == c->addr && (there.len == 0 || there.len == c->size), "%s: chunk %zu", r->l.name, i);
        s.index++;
        cr_assert_eq(xh_chunkindex_at(ci, s).len, 0);
        cr_assert_eq(xh_chunkindex_at(ci, (struct xh_chunkindex_spot){s.index - 1, UINT64_MAX}).len, 0);
    }
}

static void each_layout(int zipped)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        struct replay r;
        size_t raw, good;
        record(&r, &layouts[i], zipped, 0);
        cr_assert_gt(r.truth.n, 3, "%s: %zu chunks", r.l.name, r.truth.n);

        struct xh_chunkindex *ci = xh_chunkindex_new(r.size);
        good = replay(&r, ci, 1, &raw);
        cr_assert_eq(raw, r.truth.n, "%s: %zu reads of %zu chunks", r.l.name, raw, r.truth.n);
        /* All but the first; where the array's order is another one, rows have to be learned. */
        size_t missed = raw - good, may = r.l.swapped ? 3 * r.l.dims[1] / r.l.chunk[1] : 1;
        cr_assert_leq(missed, may, "%s: %zu of %zu chunks were not foreseen", r.l.name, missed, raw);
        if (raw < 100000) { /* else more than is kept */
            struct xh_chunkindex_plain plain = xh_chunkindex_plain(ci);
            check_all_known(&r, ci);
            cr_assert(zipped ? plain.bytes == 0 : plain.bytes / plain.chunk_bytes + 1 >= raw,
                      "%s: %llu bytes in whole plain chunks", r.l.name, (unsigned long long)plain.bytes);
        }
        cr_assert_leq(xh_chunkindex_held(ci).bytes, XH_CHUNKINDEX_BYTES);
        xh_chunkindex_free(ci);

        /* HDF5's own reads alone: what is lost is one chunk a node, at most one in 16. */
        ci = xh_chunkindex_new(r.size);
        good = replay(&r, ci, 0, &raw);
        cr_assert_leq(raw - good, may + raw / (r.l.k ? 3 : 16) + 8,
                      "%s: %zu of %zu not foreseen by passing bytes alone", r.l.name, raw - good, raw);
        xh_chunkindex_free(ci);
        replay_free(&r);
    }
}

Test(chunkindex, every_compressed_chunk_but_the_first_is_foreseen_with_its_size_in_order, .timeout = 280)
{
    each_layout(1);
}

Test(chunkindex, unfiltered_chunks_are_foreseen_with_the_size_of_the_first_read, .timeout = 280)
{
    each_layout(0);
}

/* ---- parts of chunks ---------------------------------------------------------------------------------- */

#define PART 4096

/* Reads |n| parts of each chunk, one behind the other, and returns the bytes that are foretold for them. */
static uint64_t foretold_for_parts(const struct replay *r, struct xh_chunkindex *ci, unsigned n)
{
    struct xh_range out[64];
    uint64_t bytes = 0;
    for (size_t k = 0; k < r->truth.n; k++)
        for (unsigned i = 0; i < n; i++) {
            cr_assert(xh_chunkindex_raw(ci, (struct xh_range){r->truth.c[k].addr + i * PART, PART}, 0));
            for (size_t found = xh_chunkindex_next(ci, 128 * MIB, out, 64); found > 0; found--)
                bytes += out[found - 1].len;
        }
    return bytes;
}

/* 40 chunks of 256 KiB, of which HDF5 would read parts if its chunk cache were smaller. The index has their sizes. */
Test(chunkindex, where_a_row_of_each_chunk_is_read_no_whole_chunks_are_foretold, .timeout = 60)
{
    static const struct layout l = {.name = "large", .rank = 1, .dims = {40 * 65536}, .max = {U}, .chunk = {65536}};
    const unsigned all = 65536 * sizeof(int) / PART;
    struct replay r;
    record(&r, &l, 0, 0);
    for (unsigned parts = 1; parts <= all; parts *= all) {
        struct xh_chunkindex *ci = xh_chunkindex_new(r.size);
        for (size_t i = 0; i < r.nreads; i++)
            if (!r.reads[i].raw)
                see(ci, &r, r.reads[i].off, r.reads[i].len);
        uint64_t bytes = foretold_for_parts(&r, ci, parts), whole = r.truth.n * all * PART;
        cr_assert(parts == 1 ? bytes < whole / 4 : bytes > whole / 4 * 3, "%u parts: %llu", parts,
                  (unsigned long long)bytes);
        xh_chunkindex_free(ci);
    }
    replay_free(&r);
}

/* ---- stretches -------------------------------------------------------------------------------------- */

#define LEAST (128u << 10)

/* 1,600 chunks of 4 KiB, or what is left of them compressed, as a program writes them: in order. */
static const struct layout dense[] = {
    {.name = "dense btree1", .latest = 0, .rank = 1, .dims = {1638400}, .max = {U}, .chunk = {1024}},
    {.name = "dense fixed", .latest = 1, .rank = 2, .dims = {1600, 1024}, .max = {1600, 1024}, .chunk = {1, 1024}},
    {.name = "dense extensible", .latest = 1, .rank = 1, .dims = {1638400}, .max = {U}, .chunk = {1024}},
    {.name = "dense btree2", .latest = 1, .rank = 2, .dims = {1600, 1024}, .max = {U, U}, .chunk = {1, 1024}},
};

/* Chunk |from|, and those after it up to the last that a stretch holds, by what the library says. */
static struct xh_range naive_stretch(const struct truth *t, size_t from)
{
    struct xh_range r = {t->c[from].addr, t->c[from].size};
    uint64_t gaps = 0;
    for (size_t i = from + 1; i < t->n && t->c[i].addr >= r.off + r.len; i++) {
        gaps += t->c[i].addr - (r.off + r.len);
        if (gaps > 65536 + r.len / 16)
            break;
        r.len = t->c[i].addr + t->c[i].size - r.off;
    }
    return r;
}

/* Replays; each stretch is as a naive walk has it, and is taken. Returns how many there were, and the last. */
static size_t replay_stretches(const struct replay *r, struct xh_chunkindex *ci, struct xh_range *last)
{
    size_t k = 0, found = 0;
    uint64_t window;
    struct xh_range out[64];
    for (size_t i = 0; i < r->nreads; i++) {
        const struct noted *rd = &r->reads[i];
        if (!rd->raw) {
            see(ci, r, rd->off, rd->len);
            continue;
        }
        cr_assert_eq(rd->off, r->truth.c[k++].addr, "%s: read %zu", r->l.name, i);
        if (!xh_chunkindex_raw(ci, (struct xh_range){rd->off, rd->len}, 0))
            continue;
        feed_wanted(ci, r);
        struct xh_range s = xh_chunkindex_stretch(ci, MIB, LEAST, 64 * MIB, &window);
        if (s.len) {
            struct xh_range want = naive_stretch(&r->truth, k);
            cr_assert(s.off == want.off && s.len == want.len, "%s: %llu+%llu, not %llu+%llu", r->l.name,
                      (unsigned long long)s.off, (unsigned long long)s.len, (unsigned long long)want.off,
                      (unsigned long long)want.len);
            xh_chunkindex_took(ci, s);
            *last = s;
            found++;
        }
        if (found) /* all that is left was seen to */
            cr_assert_eq(xh_chunkindex_next(ci, MIB, out, 64), 0, "%s: a chunk after read %zu", r->l.name, k);
    }
    return found;
}

Test(chunkindex, chunks_read_in_order_are_one_stretch_over_the_index_nodes_between_them, .timeout = 60)
{
    for (int zipped = 0; zipped < 2; zipped++)
        for (size_t i = 0; i < sizeof dense / sizeof *dense; i++) {
            struct replay r;
            struct xh_range s = {0, 0};
            uint64_t sum = 0, end = 0;
            record(&r, &dense[i], zipped, 0);
            struct xh_chunkindex *ci = xh_chunkindex_new(r.size);
            cr_assert_eq(replay_stretches(&r, ci, &s), 1, "%s", r.l.name);
            for (size_t k = 0; k < r.truth.n; k++) {
                sum += r.truth.c[k].addr >= s.off && r.truth.c[k].addr < s.off + s.len ? r.truth.c[k].size : 0;
                end = r.truth.c[k].addr + r.truth.c[k].size;
            }
            cr_assert_eq(s.off + s.len, end, "%s: the end of the last chunk", r.l.name);
            if (i != 1)
                cr_assert_gt(s.len, sum, "%s: this one has nodes between its chunks", r.l.name);
            xh_chunkindex_free(ci);
            replay_free(&r);
        }
}

/* A fixed array has pages of 1,024 elements: up to the end of the first, then what is behind is not known. */
Test(chunkindex, a_stretch_that_ends_at_an_unseen_node_has_to_be_four_times_as_long, .timeout = 60)
{
    struct replay r;
    record(&r, &dense[1], 0, 0);
    for (unsigned least = 1; least < 12; least++) {
        struct xh_range s = {0, 0};
        size_t k = 0, i = 0;
        uint64_t window, left, waited = 0;
        struct xh_chunkindex *ci = xh_chunkindex_new(r.size);
        for (; k < 100; i++)
            if (!r.reads[i].raw)
                see(ci, &r, r.reads[i].off, r.reads[i].len);
            else
                xh_chunkindex_raw(ci, (struct xh_range){r.truth.c[k++].addr, 4096}, 0);
        left = (1024 - k) * 4096;
        s = xh_chunkindex_stretch(ci, 4 * MIB, least * LEAST, 64 * MIB, &window);
        cr_assert_geq(window, least * LEAST);
        if (left >= 4 * least * LEAST) {
            cr_assert_eq(s.off + s.len, r.truth.c[1023].addr + 4096);
        } else {
            cr_assert_eq(s.len, 0, "%u", least);
            feed_wanted(ci, &r); /* it comes: the next look is not at once */
            for (; s.len == 0; waited += 4096) {
                xh_chunkindex_raw(ci, (struct xh_range){r.truth.c[k++].addr, 4096}, 0);
                s = xh_chunkindex_stretch(ci, 4 * MIB, least * LEAST, 64 * MIB, &window);
            }
            cr_assert_eq(waited, least * LEAST / 4);
            cr_assert_eq(s.off + s.len, r.truth.c[r.truth.n - 1].addr + 4096);
        }
        xh_chunkindex_free(ci);
    }
    replay_free(&r);
}

/* ---- walks through an index -------------------------------------------------------------------------- */

/* Replays what HDF5 reads to list all chunks. |*nodes|: its reads of index nodes. Returns how many of them nobody had
 * foreseen; |*vain|: nodes that were foreseen, and not read. */
static size_t replay_walk(const struct replay *r, struct xh_chunkindex *ci, size_t *nodes, size_t *vain)
{
    uint8_t *proposed = calloc(r->size, 1);
    struct xh_range out[64];
    size_t late = 0, foreseen = 0, used = 0;
    *nodes = 0;
    for (size_t i = 0; i < r->nreads; i++) {
        const struct noted *rd = &r->reads[i];
        cr_assert_not(rd->raw);
        if (xh_chunkindex_cares(ci, rd->off, r->bytes + rd->off, rd->len) || proposed[rd->off]) {
            ++*nodes;
            late += !proposed[rd->off];
            used += proposed[rd->off];
        }
        see(ci, r, rd->off, rd->len);
        if (!xh_chunkindex_walked(ci, rd->off))
            continue;
        for (size_t n; (n = xh_chunkindex_unwalked(ci, out, 64)) > 0;)
            for (size_t j = 0; j < n; j++) {
                cr_assert_not(proposed[out[j].off], "%s: %llu is proposed twice", r->l.name,
                              (unsigned long long)out[j].off);
                proposed[out[j].off] = 1;
                foreseen++;
                see(ci, r, out[j].off, out[j].len);
            }
    }
    *vain = foreseen - used;
    free(proposed);
    return late;
}

Test(chunkindex, who_lists_chunks_waits_for_few_nodes_of_any_index, .timeout = 60)
{
    static const char *const deep[] = {"btree1_deep", "fixed_paged", "extensible_blocks", "extensible_paged",
                                       "btree2_deep"};
    size_t tried = 0;
    for (size_t i = 0; i < LAYOUTS; i++)
        for (size_t k = 0; k < sizeof deep / sizeof *deep; k++) {
            if (strcmp(layouts[i].name, deep[k]) != 0)
                continue;
            struct replay r;
            size_t nodes, vain;
            record(&r, &layouts[i], 1, 1);
            struct xh_chunkindex *ci = xh_chunkindex_new(r.size);
            size_t late = replay_walk(&r, ci, &nodes, &vain);
            cr_assert_geq(nodes, 8, "%s: %zu nodes", r.l.name, nodes);
            cr_assert_leq(late, 8, "%s: %zu of %zu nodes were not foreseen", r.l.name, late, nodes);
            cr_assert_eq(vain, 0, "%s: %zu nodes were not read", r.l.name, vain);
            xh_chunkindex_free(ci);
            replay_free(&r);
            tried++;
        }
    cr_assert_eq(tried, sizeof deep / sizeof *deep);
}
