/* Metadata as bytes: in files that HDF5 itself has written every object is found, in every style of
 * group; what is asked for stays within the object and the window; damaged files do no harm. */
#include <criterion/criterion.h>
#include <ftw.h>
#include <hdf5.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/messages.h"
#include "format/metaindex.h"
#include "format/metaparse.h"
#include "slurp.h"

#define PLACES_MAX 200000

/* ---- a file of HDF5's own, and its bytes */

struct file {
    uint8_t *bytes;
    uint64_t size;
    haddr_t object[20000]; /* where HDF5 says the objects' headers are */
    size_t objects;
};

struct style {
    H5F_libver_t low, high;
    hsize_t user_block;
    int paged, links;
};

static void attribute(hid_t o, const char *name)
{
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    const char *value = "a value of variable length";
    H5Tset_size(type, H5T_VARIABLE);
    hid_t a = H5Acreate2(o, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    cr_assert_geq(a, 0);
    H5Awrite(a, type, &value);
    H5Aclose(a);
    H5Sclose(space);
    H5Tclose(type);
}

static void fill(hid_t group, int links, int depth)
{
    char name[64];
    hsize_t one = 10;
    hid_t space = H5Screate_simple(1, &one, NULL);
    for (int i = 0; i < links; i++) {
        snprintf(name, sizeof name, "a dataset with quite a long name %05d", i);
        hid_t d = H5Dcreate2(group, name, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        attribute(d, "units");
        H5Dclose(d);
    }
    H5Sclose(space);
    for (int i = 0; i < 3 && depth > 0; i++) {
        snprintf(name, sizeof name, "group %d", i);
        hid_t g = H5Gcreate2(group, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        attribute(g, "class");
        fill(g, links / 2, depth - 1);
        H5Gclose(g);
    }
}

static herr_t note_object(hid_t top, const char *name, const H5O_info2_t *info, void *ctx)
{
    struct file *f = ctx;
    (void)name;
    if (f->objects < sizeof f->object / sizeof *f->object)
        H5VLnative_token_to_addr(top, info->token, &f->object[f->objects++]);
    return 0;
}

static struct file *file_at(const char *path)
{
    struct file *f = calloc(1, sizeof *f);
    f->bytes = slurp(path, 1, &f->size);
    return f;
}

static void file_free(struct file *f)
{
    free(f->bytes);
    free(f);
}

/* The file at |path|, which is removed. */
static struct file *take(const char *path)
{
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    struct file *f = file_at(path);
    cr_assert_geq(H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_INC, note_object, f, H5O_INFO_BASIC), 0);
    H5Fclose(file);
    unlink(path);
    return f;
}

static struct file *make(const struct style *s)
{
    char path[] = "/tmp/xh-meta-XXXXXX";
    close(mkstemp(path));
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), fcpl = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_libver_bounds(fapl, s->low, s->high);
    if (s->user_block)
        H5Pset_userblock(fcpl, s->user_block);
    if (s->paged)
        H5Pset_file_space_strategy(fcpl, H5F_FSPACE_STRATEGY_PAGE, 0, 1);
    if (s->paged)
        H5Pset_file_space_page_size(fcpl, 16384);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    cr_assert_geq(file, 0);
    fill(file, s->links, 2);
    H5Fclose(file);
    H5Pclose(fapl);
    H5Pclose(fcpl);
    return take(path);
}

/* ---- everything that the parser finds, breadth first */

struct found {
    struct xh_meta_place *at;
    size_t n;
    uint64_t size;
};

static int keep(void *ctx, const struct xh_meta_place *p)
{
    struct found *all = ctx;
    cr_assert_lt(p->off, all->size);
    cr_assert_gt(p->len, 0);
    cr_assert_leq(p->len, all->size - p->off);
    for (size_t i = all->n; i > 0 && all->n - i < 4000; i--)
        if (all->at[i - 1].off == p->off)
            return 0;
    if (all->n == PLACES_MAX)
        return 1;
    all->at[all->n++] = *p;
    return 0;
}

static struct found parse_all(const struct file *f, struct xh_meta_format *format, size_t most)
{
    struct found all = {malloc(PLACES_MAX * sizeof *all.at), 0, f->size};
    for (uint64_t at = 0; at < f->size; at = at ? 2 * at : 512) {
        /* A copy of the exact length lets the sanitizer see every step outside. */
        size_t len = f->size - at < 128 ? f->size - at : 128;
        uint8_t *p = malloc(len);
        memcpy(p, f->bytes + at, len);
        int is = xh_meta_superblock(p, len, at, f->size, format, keep, &all);
        free(p);
        if (is)
            break;
    }
    for (size_t i = 0; i < all.n && i < most; i++) {
        struct xh_meta_place place = all.at[i];
        if (place.len > XH_META_PARSE_MAX)
            continue;
        uint8_t *p = malloc(place.len);
        memcpy(p, f->bytes + place.off, place.len);
        xh_meta_parse(format, &place, p, place.len, keep, &all);
        free(p);
    }
    return all;
}

static void expect_every_object(const struct style *s)
{
    struct file *f = make(s);
    struct xh_meta_format format = {0};
    struct found all = parse_all(f, &format, PLACES_MAX);
    size_t missing = 0, values = 0;
    for (size_t i = 0; i < f->objects; i++) {
        size_t k = 0;
        while (k < all.n && all.at[k].off != f->object[i] + s->user_block)
            k++;
        missing += k == all.n;
    }
    for (size_t k = 0; k < all.n; k++)
        values += all.at[k].kind == XH_META_BYTES && memcmp(f->bytes + all.at[k].off, "GCOL", 4) == 0;
    cr_assert_gt(f->objects, (size_t)s->links);
    cr_assert_eq(missing, 0, "%zu of %zu objects were not found", missing, f->objects);
    cr_assert_gt(values, 0, "no global heap was found");
    cr_assert_eq(format.base, s->user_block);
    cr_assert_eq(format.page_bytes, s->paged ? 16384u : 0u);
    free(all.at);
    file_free(f);
}

/* The test framework's own leak, in its parent process, is not ours to report. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcriterion";
}

Test(meta, old_groups_are_followed, .timeout = 60)
{
    expect_every_object(&(struct style){H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST, 0, 0, 400});
}

Test(meta, compact_groups_are_followed, .timeout = 60)
{
    expect_every_object(&(struct style){H5F_LIBVER_LATEST, H5F_LIBVER_LATEST, 0, 0, 4});
}

Test(meta, dense_groups_are_followed_through_indirect_blocks, .timeout = 60)
{
    expect_every_object(&(struct style){H5F_LIBVER_LATEST, H5F_LIBVER_LATEST, 0, 0, 2000});
}

Test(meta, files_of_version_108_are_followed, .timeout = 60)
{
    expect_every_object(&(struct style){H5F_LIBVER_V18, H5F_LIBVER_V18, 0, 0, 100});
}

Test(meta, a_user_block_moves_all_addresses, .timeout = 60)
{
    expect_every_object(&(struct style){H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST, 2048, 0, 50});
    expect_every_object(&(struct style){H5F_LIBVER_LATEST, H5F_LIBVER_LATEST, 512, 0, 50});
}

Test(meta, a_paged_file_tells_its_page_size, .timeout = 60)
{
    expect_every_object(&(struct style){H5F_LIBVER_LATEST, H5F_LIBVER_LATEST, 0, 1, 50});
}

/* ---- the index: a reader with pages that arrive */

struct pages {
    const struct file *f;
    uint8_t *there; /* one a page */
};

static int look(void *ctx, uint64_t off, void *buf, size_t len)
{
    const struct pages *p = ctx;
    cr_assert(len <= p->f->size && off <= p->f->size - len);
    for (uint64_t i = off / 4096; i * 4096 < off + len; i++)
        if (!p->there[i])
            return 0;
    memcpy(buf, p->f->bytes + off, len);
    return 1;
}

/* Asks once and lets all of it arrive. Returns the bytes asked for. */
static uint64_t round_within(struct xh_metaindex *m, struct pages *p, const struct xh_meta_limits *lim)
{
    struct xh_range r[256];
    uint64_t bytes = 0, end = 0;
    size_t n = xh_metaindex_next(m, 1, lim, look, p, r, 256);
    cr_assert_leq(n, 256);
    for (size_t i = 0; i < n; i++) {
        cr_assert_gt(r[i].len, 0);
        cr_assert(r[i].len <= p->f->size && r[i].off <= p->f->size - r[i].len);
        cr_assert(i == 0 || r[i].off > end, "ranges are sorted and disjoint");
        end = r[i].off + r[i].len;
        bytes += r[i].len;
    }
    for (size_t i = 0; i < n; i++)
        memset(p->there + r[i].off / 4096, 1, (r[i].off + r[i].len - 1) / 4096 - r[i].off / 4096 + 1);
    return bytes;
}

static uint64_t one_round(struct xh_metaindex *m, struct pages *p)
{
    static const struct xh_meta_limits lim = {.gap_bytes = 4096, .most_bytes = UINT64_MAX / 2};
    return round_within(m, p, &lim);
}

static struct pages pages_of(const struct file *f)
{
    struct pages p = {f, calloc(f->size / 4096 + 2, 1)};
    memset(p.there, 1, f->size < 12288 ? f->size / 4096 + 1 : 3);
    return p;
}

Test(meta, who_does_not_walk_wastes_little, .timeout = 60)
{
    struct style s = {H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST, 0, 0, 4000};
    struct file *f = make(&s);
    struct pages p = pages_of(f);
    struct xh_metaindex *m = xh_metaindex_new(f->size);
    uint64_t asked = 0;
    for (int i = 0; i < 200; i++)
        asked += one_round(m, &p);
    cr_assert_gt(asked, 0);
    cr_assert_leq(asked, 1u << 20, "%llu bytes of %llu", (unsigned long long)asked, (unsigned long long)f->size);
    xh_metaindex_free(m);
    free(p.there);
    file_free(f);
}

/* What comes in 200 rounds while nobody reads; |*largest| is the largest of them. */
static uint64_t asked_in_vain(const struct file *f, const struct xh_meta_limits *lim, uint64_t *largest)
{
    struct pages p = pages_of(f);
    struct xh_metaindex *m = xh_metaindex_new(f->size);
    uint64_t sum = 0;
    *largest = 0;
    for (int i = 0; i < 200; i++) {
        uint64_t bytes = round_within(m, &p, lim);
        *largest = bytes > *largest ? bytes : *largest;
        sum += bytes;
    }
    xh_metaindex_free(m);
    free(p.there);
    return sum;
}

Test(meta, the_more_can_be_spared_the_more_is_asked_for_and_no_more_at_once_than_said, .timeout = 60)
{
    struct style s = {H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST, 0, 0, 4000};
    struct file *f = make(&s);
    struct xh_meta_limits lim = {.gap_bytes = 4096, .most_bytes = UINT64_MAX / 2};
    uint64_t largest, at_once, little = asked_in_vain(f, &lim, &largest);
    lim.spare_bytes = 1200000;
    uint64_t much = asked_in_vain(f, &lim, &at_once);
    cr_assert_gt(much, little + 300000);
    cr_assert_leq(much, lim.spare_bytes + (1u << 19));
    lim.most_bytes = 65536;
    uint64_t as_much = asked_in_vain(f, &lim, &largest);
    cr_assert_lt(largest, at_once);
    cr_assert_gt(as_much, much - much / 4, "the rest comes later");
    file_free(f);
}

static void expect_few_rounds(const struct style *s, int most)
{
    struct file *f = make(s);
    struct pages p = pages_of(f);
    struct xh_metaindex *m = xh_metaindex_new(f->size);
    int rounds = 0;
    one_round(m, &p);
    for (size_t i = 0; i < f->objects; i++) { /* in the order in which HDF5 visits them */
        uint64_t off = f->object[i] + s->user_block;
        uint64_t len = f->size - off < 512 ? f->size - off : 512;
        uint8_t bytes[512];
        while (!look(&p, off, bytes, len)) {
            rounds++;
            if (one_round(m, &p) == 0) /* not foreseen: the reader fetches it herself */
                memset(p.there + off / 4096, 1, 2);
        }
        xh_metaindex_note(m, (struct xh_range){off, len}, 1, look, &p);
        one_round(m, &p);
    }
    cr_assert_leq(rounds, most, "%d rounds for %zu objects", rounds, f->objects);
    xh_metaindex_free(m);
    free(p.there);
    file_free(f);
}

Test(meta, a_walk_waits_for_few_rounds, .timeout = 60)
{
    expect_few_rounds(&(struct style){H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST, 0, 0, 1000}, 40);
    expect_few_rounds(&(struct style){H5F_LIBVER_LATEST, H5F_LIBVER_LATEST, 0, 0, 1000}, 40);
    expect_few_rounds(&(struct style){H5F_LIBVER_LATEST, H5F_LIBVER_LATEST, 0, 1, 1000}, 40);
}

#define PICKED 700

/* A file of datasets with 6 KB of data each; |at|: where those lie. */
static struct file *make_small_datasets(uint64_t at[PICKED])
{
    char path[] = "/tmp/xh-meta-XXXXXX", name[32];
    close(mkstemp(path));
    static int numbers[1500];
    hsize_t n = sizeof numbers / sizeof *numbers;
    hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(1, &n, NULL);
    for (int i = 0; i < PICKED; i++) {
        snprintf(name, sizeof name, "dataset %05d", i);
        hid_t d = H5Dcreate2(f, name, H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        H5Dwrite(d, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers);
        at[i] = H5Dget_offset(d);
        H5Dclose(d);
    }
    H5Sclose(space);
    H5Fclose(f);
    return take(path);
}

Test(meta, small_datasets_come_along_for_who_reads_them_and_for_nobody_else, .timeout = 60)
{
    static uint64_t at[PICKED];
    struct file *f = make_small_datasets(at);
    struct pages p = pages_of(f);
    struct xh_metaindex *m = xh_metaindex_new(f->size);
    uint8_t bytes[512];
    unsigned there = 0, missed = 0;
    for (size_t i = 0; i < f->objects; i++) { /* all headers are visited */
        uint64_t off = f->object[i];
        while (!look(&p, off, bytes, sizeof bytes))
            if (one_round(m, &p) == 0)
                memset(p.there + off / 4096, 1, 2);
        xh_metaindex_note(m, (struct xh_range){off, sizeof bytes}, 1, look, &p);
        one_round(m, &p);
    }
    for (size_t i = 0; i < PICKED; i++)
        there += look(&p, at[i], f->bytes + at[i], 6000) != 0;
    cr_assert_leq(there, PICKED / 4, "%u datasets came along in vain", there);
    for (unsigned k = 0; k < 200; k++) { /* some are picked and read, in no order */
        size_t i = (size_t)k * 389 % PICKED;
        if (!look(&p, at[i], f->bytes + at[i], 6000)) {
            missed++;
            memset(p.there + at[i] / 4096, 1, (at[i] + 5999) / 4096 - at[i] / 4096 + 1);
        }
        xh_metaindex_note(m, (struct xh_range){at[i], 6000}, 0, look, &p);
        one_round(m, &p);
    }
    cr_assert_leq(missed, 30, "%u of 200 were missed", missed);
    xh_metaindex_free(m);
    free(p.there);
    file_free(f);
}

/* Groups that hold the same datasets each, of 4 KB of data. */
#define ENTRIES 120
#define SIGNALS 25
#define SIGNAL_BYTES 4000

struct entries {
    struct file *f;
    uint64_t group[ENTRIES], header[ENTRIES][SIGNALS], at[ENTRIES][SIGNALS];
};

static uint64_t address(hid_t object)
{
    H5O_info2_t info;
    haddr_t at;
    cr_assert_geq(H5Oget_info3(object, &info, H5O_INFO_BASIC), 0);
    cr_assert_geq(H5VLnative_token_to_addr(object, info.token, &at), 0);
    return at;
}

static struct entries *make_entries(H5F_libver_t low)
{
    char path[] = "/tmp/xh-meta-XXXXXX", name[32];
    static uint8_t values[SIGNAL_BYTES];
    hsize_t n = SIGNAL_BYTES;
    struct entries *e = calloc(1, sizeof *e);
    close(mkstemp(path));
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), space = H5Screate_simple(1, &n, NULL);
    H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    for (int i = 0; i < ENTRIES; i++) {
        snprintf(name, sizeof name, "entry %d", i);
        hid_t g = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        e->group[i] = address(g);
        for (int k = 0; k < SIGNALS; k++) {
            snprintf(name, sizeof name, "signal %d", k);
            hid_t d = H5Dcreate2(g, name, H5T_NATIVE_UINT8, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
            H5Dwrite(d, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
            e->at[i][k] = H5Dget_offset(d);
            e->header[i][k] = address(d);
            H5Dclose(d);
        }
        H5Gclose(g);
    }
    H5Sclose(space);
    H5Fclose(file);
    H5Pclose(fapl);
    e->f = take(path);
    return e;
}

static void entries_free(struct entries *e)
{
    file_free(e->f);
    free(e);
}

struct walker {
    struct pages p;
    struct xh_metaindex *m;
    unsigned waits;
    uint64_t bytes;
};

/* Reads |len| bytes at |off|, once they are there. */
static void walker_reads(struct walker *w, uint64_t off, uint64_t len, int meta)
{
    uint8_t bytes[SIGNAL_BYTES];
    len = xh_min64(len, w->p.f->size - off);
    while (!look(&w->p, off, bytes, len)) {
        uint64_t came = one_round(w->m, &w->p);
        w->waits++;
        w->bytes += came;
        if (came == 0)
            memset(w->p.there + off / 4096, 1, (off + len - 1) / 4096 - off / 4096 + 1);
    }
    xh_metaindex_note(w->m, (struct xh_range){off, len}, meta, look, &w->p);
    w->bytes += one_round(w->m, &w->p);
}

/* Reads signal |k| of each entry from |from| to |to|. */
static void read_signals(struct walker *w, const struct entries *e, int from, int to, int k)
{
    for (int i = from; i < to; i++) {
        walker_reads(w, e->group[i], 512, 1);
        walker_reads(w, e->header[i][k], 512, 1);
        walker_reads(w, e->at[i][k], SIGNAL_BYTES, 0);
    }
}

static void expect_one_signal(H5F_libver_t low)
{
    struct entries *e = make_entries(low);
    struct walker w = {.p = pages_of(e->f), .m = xh_metaindex_new(e->f->size)};
    read_signals(&w, e, 0, ENTRIES, 7);
    /* Of each entry some structures lie among the data, and the data is in two pages. */
    cr_assert_leq(w.bytes, e->f->size / 5 * 2, "%lu bytes of %lu", (unsigned long)w.bytes, (unsigned long)e->f->size);
    cr_assert_leq(w.waits, 25, "%u waits", w.waits);
    unsigned before = w.waits;
    read_signals(&w, e, 0, ENTRIES, 9); /* another one is not foreseen at first, and then it is */
    cr_assert_leq(w.waits, before + 20, "%u and %u waits", before, w.waits - before);
    xh_metaindex_free(w.m);
    free(w.p.there);
    entries_free(e);
}

Test(meta, who_reads_one_dataset_of_each_group_gets_those_and_few_others, .timeout = 60)
{
    expect_one_signal(H5F_LIBVER_EARLIEST);
    expect_one_signal(H5F_LIBVER_LATEST);
}

Test(meta, who_reads_some_of_each_group_in_no_order_or_all_is_followed, .timeout = 60)
{
    struct entries *e = make_entries(H5F_LIBVER_EARLIEST);
    struct walker w = {.p = pages_of(e->f), .m = xh_metaindex_new(e->f->size)};
    srand(11);
    for (int i = 0; i < 400; i++) {
        int entry = rand() % ENTRIES;
        read_signals(&w, e, entry, entry + 1, rand() % SIGNALS);
    }
    cr_assert_leq(w.waits, 80, "%u waits", w.waits);
    xh_metaindex_free(w.m);
    free(w.p.there);
    w = (struct walker){.p = pages_of(e->f), .m = xh_metaindex_new(e->f->size)};
    for (int i = 0; i < ENTRIES; i++)
        for (int k = 0; k < SIGNALS; k++)
            read_signals(&w, e, i, i + 1, k);
    cr_assert_leq(w.waits, 60, "%u waits", w.waits);
    xh_metaindex_free(w.m);
    free(w.p.there);
    entries_free(e);
}

Test(meta, few_small_datasets_come_when_the_file_is_opened, .timeout = 60)
{
    char path[] = "/tmp/xh-meta-XXXXXX";
    close(mkstemp(path));
    static const char *const name[] = {"field", "time", "lat", "lon"};
    static const hsize_t size[] = {400000, 240, 361, 720};
    static double values[400000];
    uint64_t at[4];
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    for (int i = 0; i < 4; i++) { /* as netCDF has it: a field, then what it is laid over */
        hid_t space = H5Screate_simple(1, &size[i], NULL);
        hid_t d = H5Dcreate2(file, name[i], H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
        at[i] = H5Dget_offset(d);
        H5Sclose(space);
        H5Dclose(d);
    }
    H5Fclose(file);
    struct file *f = take(path);
    struct pages p = pages_of(f);
    struct xh_metaindex *m = xh_metaindex_new(f->size);
    uint64_t asked = 0;
    for (int round = 0; round < 2; round++)
        asked += one_round(m, &p);
    for (int i = 1; i < 4; i++)
        cr_assert(look(&p, at[i], f->bytes + at[i], size[i] * 8), "%s is not there", name[i]);
    cr_assert_leq(asked, 32768);
    cr_assert_eq(p.there[at[0] / 4096 + 100], 0, "the large one is not read");
    xh_metaindex_free(m);
    free(p.there);
    file_free(f);
}

/* A file of one dataset of |chunks| chunks, whose index lies among them. */
static struct file *make_chunked(hsize_t chunks)
{
    char path[] = "/tmp/xh-meta-XXXXXX";
    close(mkstemp(path));
    static int values[32 * 64];
    hsize_t size[] = {chunks, 32, 64}, chunk[] = {1, 32, 64}, at[] = {0, 0, 0};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(3, size, NULL);
    hid_t dcpl = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(dcpl, 3, chunk);
    hid_t d = H5Dcreate2(file, "x", H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    for (; at[0] < chunks; at[0]++)
        H5Dwrite_chunk(d, H5P_DEFAULT, 0, at, sizeof values, values);
    H5Sclose(space);
    H5Pclose(dcpl);
    H5Dclose(d);
    H5Fclose(file);
    return take(path);
}

/* Nodes of chunk indexes in |f|, and how many of them are there. */
static size_t index_nodes(const struct pages *p, size_t *there)
{
    size_t n = 0;
    *there = 0;
    for (uint64_t off = 0; off + 8 < p->f->size; off += 8)
        if (memcmp(p->f->bytes + off, "TREE\1", 5) == 0) {
            n++;
            *there += p->there[off / 4096];
        }
    return n;
}

Test(meta, a_small_chunk_index_comes_when_the_file_is_opened_a_large_one_does_not, .timeout = 60)
{
    for (int large = 0; large < 2; large++) {
        struct file *f = make_chunked(large ? 5000 : 240);
        struct pages p = pages_of(f);
        struct xh_metaindex *m = xh_metaindex_new(f->size);
        uint64_t asked = 0;
        size_t there;
        for (int round = 0; round < 3; round++)
            asked += one_round(m, &p);
        size_t nodes = index_nodes(&p, &there);
        if (large)
            cr_assert(nodes > 70 && there < 20, "%zu of %zu", there, nodes);
        else
            cr_assert(nodes > 4 && there == nodes, "%zu of %zu", there, nodes);
        cr_assert_leq(asked, 128u << 10);
        xh_metaindex_free(m);
        free(p.there);
        file_free(f);
    }
}

/* Reads all nodes of the chunk indexes in |f|, in the order of their addresses or in a random one. Returns for how many
 * it waited. */
static unsigned waits_for_nodes(const struct file *f, int random)
{
    static uint64_t node[4000];
    struct pages p = pages_of(f);
    struct xh_metaindex *m = xh_metaindex_new(f->size);
    unsigned waits = 0, seed = 7;
    size_t n = 0;
    for (uint64_t off = 0; off + 8 < f->size; off += 8)
        if (memcmp(f->bytes + off, "TREE\1", 5) == 0 && n < sizeof node / sizeof *node)
            node[n++] = off;
    for (size_t i = n; random && i > 1; i--) {
        size_t k = (size_t)rand_r(&seed) % i;
        uint64_t t = node[i - 1];
        node[i - 1] = node[k];
        node[k] = t;
    }
    for (int round = 0; round < 3; round++) /* the file is opened */
        one_round(m, &p);
    for (size_t i = 0; i < n; i++) {
        uint64_t first = node[i] / 4096, last = (node[i] + 2095) / 4096;
        if (!p.there[first] || !p.there[last]) {
            waits++;
            p.there[first] = p.there[last] = 1;
        }
        xh_metaindex_note(m, (struct xh_range){node[i], 24}, 1, look, &p);
        one_round(m, &p);
    }
    cr_assert_gt(n, 500, "%zu nodes", n);
    xh_metaindex_free(m);
    free(p.there);
    return waits;
}

Test(meta, the_leaves_of_a_large_chunk_index_are_not_waited_for_one_by_one, .timeout = 60)
{
    struct file *f = make_chunked(30000);
    unsigned in_order = waits_for_nodes(f, 0), random = waits_for_nodes(f, 1);
    printf("# waits: %u in order, %u at random\n", in_order, random);
    cr_assert_leq(in_order, 20, "%u", in_order);
    cr_assert_leq(random, 60, "%u", random);
    file_free(f);
}

/* ---- damage */

static void damage(struct file *f, unsigned strokes)
{
    for (unsigned k = 0; k < strokes; k++) {
        uint64_t at = (uint64_t)rand() % f->size;
        switch (rand() % 4) {
        case 0: f->bytes[at] = (uint8_t)rand(); break;
        case 1: f->bytes[at] = 0xff; break;
        case 2: f->bytes[at] ^= (uint8_t)(1u << rand() % 8); break;
        default: /* an address or a length of this very file */
            if (at + 8 <= f->size) {
                uint64_t v = (uint64_t)rand() % f->size;
                memcpy(f->bytes + at, &v, 8);
            }
        }
    }
}

static void survive(struct file *f)
{
    struct xh_meta_format format = {0};
    struct found all = parse_all(f, &format, 2000);
    free(all.at);
    struct pages p = pages_of(f);
    struct xh_metaindex *m = xh_metaindex_new(f->size);
    for (int i = 0; i < 60; i++) {
        uint64_t off = (uint64_t)rand() % f->size, len = 1 + (uint64_t)rand() % 5000;
        len = len < f->size - off ? len : f->size - off;
        one_round(m, &p);
        memset(p.there + off / 4096, 1, (off + len - 1) / 4096 - off / 4096 + 1);
        xh_metaindex_note(m, (struct xh_range){off, len}, rand() % 2, look, &p);
    }
    xh_metaindex_free(m);
    free(p.there);
}

Test(meta, damaged_files_do_no_harm, .timeout = 110)
{
    struct style styles[] = {{H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST, 0, 0, 30},
                             {H5F_LIBVER_LATEST, H5F_LIBVER_LATEST, 0, 0, 30},
                             {H5F_LIBVER_LATEST, H5F_LIBVER_LATEST, 512, 0, 300},
                             {H5F_LIBVER_V110, H5F_LIBVER_V110, 0, 1, 30}};
    srand(7);
    for (size_t s = 0; s < sizeof styles / sizeof *styles; s++) {
        struct file *f = make(&styles[s]);
        uint8_t *good = malloc(f->size);
        memcpy(good, f->bytes, f->size);
        for (int round = 0; round < 300; round++) {
            memcpy(f->bytes, good, f->size);
            damage(f, 1u + (unsigned)rand() % 2000);
            survive(f);
        }
        free(good);
        file_free(f);
    }
}

/* A file of 2^40 bytes whose groups' B-trees have no end: in each KiB lies a node, of 32 children in others. */
#define ENDLESS_BYTES (UINT64_C(1) << 40)

static void put(uint8_t *p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void endless_block(uint64_t block, uint8_t out[1024])
{
    memset(out, 0, 1024);
    if (block == 0) { /* a superblock of version 0, the root's symbol table cached */
        memcpy(out, "\x89HDF\r\n\x1a\n", 8);
        out[13] = out[14] = 8;
        out[16] = 4, out[18] = 16;
        put(out + 32, UINT64_MAX, 8);
        put(out + 40, ENDLESS_BYTES, 8);
        put(out + 48, UINT64_MAX, 8);
        put(out + 64, 4096, 8), put(out + 72, 1, 4);
        put(out + 80, 1024, 8), put(out + 88, 8192, 8);
        return;
    }
    memcpy(out, "TREE\0\5\x20\0", 8);
    memset(out + 8, 0xff, 16);
    for (uint64_t i = 0; i < 32; i++) {
        uint64_t h = (block * 32 + i) * UINT64_C(0x9E3779B97F4A7C15);
        put(out + 24 + 16 * i + 8, 1024 * (1 + (h >> 20) % (ENDLESS_BYTES / 1024 - 2)), 8);
    }
}

static int look_endless(void *ctx, uint64_t off, void *buf, size_t len)
{
    uint8_t block[1024], *to = buf;
    ++*(uint64_t *)ctx;
    while (len > 0) {
        size_t at = off % 1024, n = len < 1024 - at ? len : 1024 - at;
        endless_block(off / 1024, block);
        memcpy(to, block + at, n);
        off += n, to += n, len -= n;
    }
    return 1;
}

static uint64_t allocated(void)
{
    struct mallinfo2 i = mallinfo2(); /* zeros where a sanitizer allocates */
    return i.uordblks + i.hblkhd;
}

Test(meta, a_file_without_end_takes_little_memory, .timeout = 110)
{
    static const struct xh_meta_limits lim = {.gap_bytes = 4096, .most_bytes = UINT64_MAX / 2};
    struct xh_range r[256];
    uint64_t looks = 0, before = allocated(), most = 0;
    struct xh_metaindex *m = xh_metaindex_new(ENDLESS_BYTES);
    xh_metaindex_note(m, (struct xh_range){0, 96}, 1, look_endless, &looks);
    for (int i = 0; i < 400; i++) {
        xh_metaindex_next(m, 1, &lim, look_endless, &looks, r, 256);
        most = allocated() > before + most ? allocated() - before : most;
    }
    cr_expect_gt(looks, 20000, "it was followed: %lu nodes", (unsigned long)looks);
    cr_expect_lt(most, UINT64_C(24) << 20, "%lu bytes", (unsigned long)most);
    xh_metaindex_free(m);
}

static int corpus_files;

static int try_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || st->st_size == 0 || st->st_size > 1 << 20 || !strstr(path, ".h5"))
        return 0;
    struct file *f = file_at(path);
    survive(f);
    damage(f, 50);
    survive(f);
    file_free(f);
    corpus_files++;
    return 0;
}

Test(meta, the_files_of_hdf5s_own_tests_do_no_harm, .timeout = 110)
{
    srand(8);
    if (nftw("/opt/hdf5-corpus", try_file, 16, FTW_PHYS) != 0)
        cr_skip_test("HDF5's test files are not on this machine");
    cr_assert_gt(corpus_files, 100);
}

/* ---- filters */

static void add_filtered(hid_t file, int which)
{
    char name[16];
    hsize_t n = 64;
    hid_t space = H5Screate_simple(1, &n, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    snprintf(name, sizeof name, "d%d", which);
    H5Pset_chunk(dcpl, 1, &n);
    switch (which) {
    case 1: H5Pset_fletcher32(dcpl); break;
    case 2: H5Pset_deflate(dcpl, 4); break;
    case 3: H5Pset_shuffle(dcpl); H5Pset_deflate(dcpl, 1); H5Pset_fletcher32(dcpl); break;
    case 4: H5Pset_scaleoffset(dcpl, H5Z_SO_INT, 0); break; /* 20 parameters */
    case 5: H5Pset_attr_creation_order(dcpl, H5P_CRT_ORDER_TRACKED); H5Pset_fletcher32(dcpl); break;
    default: H5Pset_attr_creation_order(dcpl, H5P_CRT_ORDER_TRACKED); break; /* none */
    }
    hid_t d = H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    cr_assert_geq(d, 0);
    attribute(d, "a");
    H5Dclose(d);
    H5Pclose(dcpl);
    H5Sclose(space);
}

/* Makes a file whose datasets share the messages that |flags| name. The first list of its kind stands in its dataset's
 * header, later ones in the heap of the index. */
static struct file *shared(H5F_libver_t low, unsigned flags, int which, unsigned copies)
{
    char path[] = "/tmp/xh-meta-XXXXXX";
    close(mkstemp(path));
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), fcpl = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST);
    H5Pset_shared_mesg_nindexes(fcpl, 1);
    H5Pset_shared_mesg_index(fcpl, 0, flags, 1);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    for (unsigned i = 0; i < copies; i++) {
        char name[16];
        snprintf(name, sizeof name, "g%u", i);
        hid_t group = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        add_filtered(group, which);
        H5Gclose(group);
    }
    H5Fclose(file);
    H5Pclose(fapl);
    H5Pclose(fcpl);
    return take(path);
}

/* How many object headers of |f|, cut out one by one as HDF5 reads them, name filters: those with their signature. */
static unsigned headers_named(const struct file *f)
{
    unsigned n = 0;
    for (size_t i = 0, to; i + 4 < f->size; i = to) {
        const uint8_t *next = memmem(f->bytes + i + 1, f->size - i - 1, "OHDR", 4);
        to = next ? (size_t)(next - f->bytes) : f->size;
        const uint8_t *others = memmem(f->bytes + i, to - i, "FHDB", 4); /* a heap's bytes are no header's */
        size_t end = others ? (size_t)(others - f->bytes) : to;
        n += memcmp(f->bytes + i, "OHDR", 4) == 0 && xh_filters_named(f->bytes + i, end - i);
    }
    return n;
}

Test(meta, a_list_of_filters_that_datasets_share_is_found_in_each_ones_header)
{
    static const H5F_libver_t low[] = {H5F_LIBVER_EARLIEST, H5F_LIBVER_V18, H5F_LIBVER_LATEST};
    for (size_t i = 0; i < sizeof low / sizeof *low; i++)
        for (int which = 0; which <= 5; which++)
            for (unsigned copies = 1; copies <= 3; copies += 2) {
                struct file *f = shared(low[i], H5O_SHMESG_PLINE_FLAG, which, copies);
                cr_expect_eq(xh_filters_named(f->bytes, f->size), which != 0, "format %zu, filters %d", i, which);
                if (low[i] == H5F_LIBVER_LATEST)
                    cr_expect_eq(headers_named(f), which ? copies : 0, "filters %d, %u datasets", which, copies);
                file_free(f);
            }
    struct file *f = shared(H5F_LIBVER_LATEST, H5O_SHMESG_ALL_FLAG & ~(unsigned)H5O_SHMESG_PLINE_FLAG, 0, 3);
    cr_expect_eq(xh_filters_named(f->bytes, f->size), 0, "other messages are shared, and no filters");
    file_free(f);
}

Test(meta, filters_are_found_in_files_of_every_format_and_only_there)
{
    static const H5F_libver_t low[] = {H5F_LIBVER_EARLIEST, H5F_LIBVER_V18, H5F_LIBVER_V110, H5F_LIBVER_LATEST};
    for (size_t i = 0; i < sizeof low / sizeof *low; i++)
        for (int which = 0; which <= 5; which++) {
            char path[] = "/tmp/xh-meta-XXXXXX";
            close(mkstemp(path));
            hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
            H5Pset_libver_bounds(fapl, low[i], H5F_LIBVER_LATEST);
            hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
            add_filtered(file, which);
            H5Fclose(file);
            H5Pclose(fapl);
            struct file *f = take(path);
            cr_expect_eq(xh_filters_named(f->bytes, f->size), which != 0, "format %zu, filters %d", i, which);
            for (size_t n = 0; n < f->size && which == 3; n += 7) { /* cut off; the sanitizer sees each step outside */
                uint8_t *p = malloc(n + 1);
                memcpy(p, f->bytes, n);
                xh_filters_named(p, n);
                free(p);
            }
            file_free(f);
        }
    for (int latest = 0; latest <= 1; latest++) {
        struct file *f = make(&(struct style){.low = latest ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST,
                                              .high = H5F_LIBVER_LATEST, .links = 1000});
        cr_expect_eq(xh_filters_named(f->bytes, f->size), 0);
        file_free(f);
    }
}

/* ---- elements */

static struct file *of_type(H5F_libver_t low, hid_t type)
{
    char path[] = "/tmp/xh-meta-XXXXXX";
    close(mkstemp(path));
    hsize_t n = 8;
    hid_t space = H5Screate_simple(1, &n, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_chunk(dcpl, 1, &n);
    H5Pset_attr_creation_order(dcpl, H5P_CRT_ORDER_TRACKED);
    H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
    hid_t d = H5Dcreate2(file, "d", type, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    cr_assert_geq(d, 0);
    attribute(d, "a");
    H5Dclose(d);
    H5Fclose(file);
    H5Pclose(fapl);
    H5Pclose(dcpl);
    H5Sclose(space);
    return take(path);
}

static int has_length(const struct xh_elements *e, uint32_t bytes)
{
    unsigned i = 0;
    while (i < e->n && e->bytes[i] != bytes)
        i++;
    return i < e->n;
}

static void look_for_length(H5F_libver_t low, hid_t type)
{
    struct xh_elements e = {.n = 0};
    struct file *f = of_type(low, type);
    uint32_t want = H5Tis_variable_str(type) > 0 ? 16 : (uint32_t)H5Tget_size(type); /* of a text: where it lies */
    xh_elements_named(f->bytes, f->size, &e);
    cr_expect(has_length(&e, want), "format %d, class %d: %u bytes", (int)low, (int)H5Tget_class(type), want);
    cr_expect(e.n <= 2 && !e.unknown, "format %d, class %d: %u lengths", (int)low, (int)H5Tget_class(type), e.n);
    for (size_t n = 0; n < f->size; n += 7) { /* cut off; the sanitizer sees each step outside */
        uint8_t *p = malloc(n + 1);
        memcpy(p, f->bytes, n);
        xh_elements_named(p, n, &e);
        free(p);
    }
    file_free(f);
}

Test(meta, the_lengths_of_elements_are_found_in_files_of_every_format_and_hardly_others)
{
    static const H5F_libver_t low[] = {H5F_LIBVER_EARLIEST, H5F_LIBVER_V18, H5F_LIBVER_V110, H5F_LIBVER_LATEST};
    hid_t text = H5Tcopy(H5T_C_S1), word = H5Tcopy(H5T_C_S1), pair = H5Tcreate(H5T_COMPOUND, 20);
    hid_t choice = H5Tenum_create(H5T_STD_I16LE), seven = H5Tcreate(H5T_OPAQUE, 7);
    hsize_t three = 3;
    int member = 1;
    H5Tset_size(text, 13);
    H5Tset_size(word, H5T_VARIABLE);
    H5Tinsert(pair, "a", 0, H5T_STD_I32LE);
    H5Tinsert(pair, "b", 9, H5T_IEEE_F64BE);
    H5Tenum_insert(choice, "one", &member);
    H5Tset_tag(seven, "seven");
    const hid_t types[] = {H5T_STD_U8LE,   H5T_STD_I16BE, H5T_STD_I32LE,   H5T_IEEE_F32LE, H5T_IEEE_F64BE,
                           H5T_STD_B64LE,  text,          word,            pair,           choice,
                           seven,          H5T_STD_REF_OBJ, H5Tarray_create2(H5T_STD_I16LE, 1, &three)};
    for (size_t i = 0; i < sizeof low / sizeof *low; i++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            look_for_length(low[i], types[k]);
    for (int latest = 0; latest <= 1; latest++) {
        struct xh_elements e = {.n = 0};
        struct file *f = make(&(struct style){.low = latest ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST,
                                              .high = H5F_LIBVER_LATEST, .links = 1000});
        xh_elements_named(f->bytes, f->size, &e);
        cr_expect(e.n <= 2 && !e.unknown, "a file of groups: %u lengths", e.n);
        file_free(f);
    }
    struct xh_elements e = {.n = 0};
    struct file *f = shared(H5F_LIBVER_LATEST, H5O_SHMESG_DTYPE_FLAG, 0, 3);
    xh_elements_named(f->bytes, f->size, &e);
    cr_expect(e.unknown, "they stand in a heap");
    file_free(f);
}
