/* Collections of values of variable length: of files that HDF5 itself has written they are known before HDF5 asks for
 * them; one that picks elements gets little else; made and damaged bytes do no harm. */
#include <criterion/criterion.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/globalheap.h"
#include "slurp.h"

#define STRINGS 60000u
#define SPARE_BYTES 300000u
#define ROUND_MOST 64u

/* The test framework's own leak, in its parent process, is not ours to report. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcriterion";
}

/* ---- a file of HDF5's own, of one dataset of strings */

struct file {
    uint8_t *bytes;
    uint64_t size, at; /* at: the descriptors */
    struct xh_meta_format format;
};

static int ignore(void *ctx, const struct xh_meta_place *found)
{
    (void)ctx, (void)found;
    return 0;
}

static struct file *make(hsize_t user_block)
{
    char path[] = "/tmp/xh-heap-XXXXXX";
    static char text[STRINGS][48];
    static const char *value[STRINGS];
    hsize_t n = STRINGS;
    struct file *f = calloc(1, sizeof *f);
    close(mkstemp(path));
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE), type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &n, NULL);
    H5Pset_userblock(fcpl, user_block);
    H5Tset_size(type, H5T_VARIABLE);
    for (unsigned i = 0; i < STRINGS; i++) {
        snprintf(text[i], sizeof text[i], "the name of sample %u%.*s", i, (int)(i % 20), "....................");
        value[i] = i % 1000 == 999 ? NULL : text[i];
    }
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, H5P_DEFAULT);
    hid_t d = H5Dcreate2(file, "names", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    cr_assert_geq(H5Dwrite(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value), 0);
    f->at = H5Dget_offset(d); /* with the user block */
    H5Dclose(d);
    H5Fclose(file);
    H5Sclose(space);
    H5Tclose(type);
    H5Pclose(fcpl);
    f->bytes = slurp(path, 0, &f->size);
    unlink(path);
    cr_assert(xh_meta_superblock(f->bytes + user_block, 96, user_block, f->size, &f->format, ignore, NULL));
    return f;
}

static void file_free(struct file *f)
{
    free(f->bytes);
    free(f);
}

/* ---- a reader, as HDF5 reads */

struct reader {
    struct file *f;
    struct xh_globalheap *g;
    uint8_t *there; /* by page */
    unsigned waits;
    uint64_t fetched, read;
    struct xh_heap_limits lim;
};

static struct reader begin(struct file *f)
{
    return (struct reader){.f = f, .g = xh_globalheap_new(f->size), .there = calloc(f->size / XH_PAGE_BYTES + 2, 1),
                           .lim = {SPARE_BYTES, UINT64_MAX}};
}

static void end(struct reader *r)
{
    xh_globalheap_free(r->g);
    free(r->there);
}

static int fetch(struct reader *r, struct xh_range range)
{
    int any = 0;
    for (uint64_t p = range.off / XH_PAGE_BYTES; p < xh_page_up(range.off + range.len); p++) {
        any |= !r->there[p];
        r->fetched += r->there[p] ? 0 : XH_PAGE_BYTES;
        r->there[p] = 1;
    }
    return any;
}

static void take(struct reader *r)
{
    struct xh_range out[ROUND_MOST];
    size_t n = xh_globalheap_next(r->g, &r->lim, out, ROUND_MOST);
    cr_assert_leq(n, ROUND_MOST);
    for (size_t i = 0; i < n; i++) {
        cr_assert(out[i].len && out[i].len <= r->f->size && out[i].off <= r->f->size - out[i].len);
        fetch(r, out[i]);
    }
}

/* Reads |range| as raw data: it waits where something is missing, and what is proposed comes meanwhile. */
static void reads(struct reader *r, struct xh_range range, int heap)
{
    uint8_t *copy = malloc(range.len); /* of the exact length */
    struct xh_extent ext = {range.off, range.len, copy};
    r->waits += fetch(r, range) != 0;
    r->read += range.len;
    int said = xh_globalheap_reads(r->g, range);
    cr_assert_eq(said != 0, heap);
    if (said)
        take(r);
    memcpy(copy, r->f->bytes + range.off, range.len);
    xh_globalheap_saw(r->g, &r->f->format, &ext, 1);
    take(r);
    free(copy);
}

static uint64_t le(const uint8_t *p, int n)
{
    return n ? (uint64_t)*p | le(p + 1, n - 1) << 8 : 0;
}

/* Reads the elements [from, end), and what they name, but for the collection that was read last: HDF5 still has it. */
static void elements(struct reader *r, unsigned from, unsigned end, uint64_t *last)
{
    reads(r, (struct xh_range){r->f->at + 16ull * from, 16ull * (end - from)}, 0);
    for (unsigned i = from; i < end; i++) {
        uint64_t off = le(r->f->bytes + r->f->at + 16ull * i + 4, 8);
        if (off == 0 || (off += r->f->format.base) == *last)
            continue;
        uint64_t bytes = le(r->f->bytes + off + 8, 8);
        cr_assert(memcmp(r->f->bytes + off, "GCOL", 4) == 0);
        reads(r, (struct xh_range){off, 4096}, 1);
        if (bytes > 4096)
            reads(r, (struct xh_range){off + 4096, bytes - 4096}, 1);
        *last = off;
    }
}

static void expect_all_to_come(hsize_t user_block)
{
    struct file *f = make(user_block);
    struct reader r = begin(f);
    uint64_t last = 0;
    elements(&r, 0, STRINGS, &last);
    cr_assert_gt(r.read, 40 * 65536u, "the file has collections to speak of");
    cr_assert_leq(r.waits, 3, "%u waits: for the descriptors, the first collection, and at most one more", r.waits);
    cr_assert_leq(r.fetched, r.read + r.read / 8 + 8 * XH_PAGE_BYTES, "%lu bytes for %lu", (unsigned long)r.fetched,
                  (unsigned long)r.read);
    end(&r);
    file_free(f);
}

Test(globalheap, the_collections_that_one_read_names_come_together, .timeout = 50)
{
    expect_all_to_come(0);
    expect_all_to_come(512);
}

Test(globalheap, of_an_element_that_is_picked_the_collection_comes_at_once_and_a_block_of_descriptors, .timeout = 50)
{
    struct file *f = make(0);
    struct reader r = begin(f);
    uint64_t last = 0;
    srand(5);
    for (unsigned i = 0; i < 30; i++) {
        unsigned k = (unsigned)rand() % STRINGS;
        elements(&r, k, k + 1, &last);
    }
    cr_assert_leq(r.waits, 3 + 16 + 8, "%u waits for 30 elements in 15 blocks of descriptors", r.waits);
    cr_assert_leq(r.fetched, 2 * r.read, "%lu bytes for %lu", (unsigned long)r.fetched, (unsigned long)r.read);
    end(&r);
    file_free(f);
}

Test(globalheap, who_reads_one_element_of_many_that_came_gets_no_other_collection_but_those_that_can_be_spared,
     .timeout = 50)
{
    struct file *f = make(0);
    struct reader r = begin(f);
    uint64_t last = 0;
    srand(5);
    for (unsigned i = 0; i < 30; i++) { /* as of a chunk of all of them */
        unsigned k = (unsigned)rand() % STRINGS;
        reads(&r, (struct xh_range){f->at, 16 * STRINGS}, 0);
        uint64_t off = le(f->bytes + f->at + 16ull * k + 4, 8);
        if (off == 0 || off == last)
            continue;
        last = off;
        reads(&r, (struct xh_range){off, 4096}, 1);
        reads(&r, (struct xh_range){off + 4096, le(f->bytes + off + 8, 8) - 4096}, 1);
    }
    cr_assert_leq(r.fetched, 16 * STRINGS + 30 * 69632ull + SPARE_BYTES + 65536);
    end(&r);
    file_free(f);
}

Test(globalheap, a_block_of_descriptors_comes_only_where_the_link_brings_it_in_a_round_trip, .timeout = 50)
{
    struct file *f = make(0);
    struct reader r = begin(f);
    uint64_t last = 0;
    r.lim.block_bytes = 30000;
    for (unsigned i = 0; i < 20; i++)
        elements(&r, i * 2999, i * 2999 + 1, &last);
    cr_assert_leq(r.fetched, r.read + 21 * 3 * XH_PAGE_BYTES);
    end(&r);
    file_free(f);
}

Test(globalheap, other_data_is_followed_nowhere, .timeout = 50)
{
    static uint8_t data[1 << 20];
    struct xh_meta_format format = {.offset_bytes = 8, .length_bytes = 8, .size = 1 << 30};
    struct xh_globalheap *g = xh_globalheap_new(format.size);
    struct xh_heap_limits lim = {SPARE_BYTES, UINT64_MAX};
    struct xh_range out[ROUND_MOST];
    for (int kind = 0; kind < 4; kind++) {
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = kind == 0 ? 0 : kind == 1 ? 255 : kind == 2 ? (uint8_t)(i * 7) : (uint8_t)(i % 8 == 0);
        for (uint64_t off = 8192; off < 1 << 26; off += sizeof data) {
            struct xh_extent ext = {off, sizeof data, data};
            cr_assert_eq(xh_globalheap_reads(g, (struct xh_range){off, sizeof data}), 0);
            xh_globalheap_saw(g, &format, &ext, 1);
            cr_assert_eq(xh_globalheap_next(g, &lim, out, ROUND_MOST), 0);
        }
    }
    xh_globalheap_free(g);
}

/* ---- hostile */

static void put(uint8_t *p, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

Test(globalheap, however_much_is_named_no_more_is_asked_for_than_was_used_and_can_be_spared, .timeout = 50)
{
    static uint8_t data[1 << 20], head[4096] = "GCOL";
    struct xh_meta_format format = {.offset_bytes = 8, .length_bytes = 8, .size = UINT64_C(1) << 41};
    struct xh_globalheap *g = xh_globalheap_new(format.size);
    struct xh_heap_limits lim = {SPARE_BYTES, UINT64_MAX};
    struct xh_range out[ROUND_MOST];
    uint64_t asked = 0, used = 0;
    size_t most = 0;
    for (unsigned round = 0; round < 300; round++) {
        put(head + 8, round % 2 ? UINT64_MAX : 4096, 8); /* each second one is longer than the file, by its own words */
        for (size_t i = 0; i < sizeof data; i += 16) { /* each names another one */
            put(data + i + 4, (1 + round * (sizeof data / 16) + i / 16) * UINT64_C(0x10001), 8);
            put(data + i + 12, 1, 4);
        }
        struct xh_extent ext[] = {{round * sizeof data, sizeof data, data}, {le(data + 4, 8), sizeof head, head}};
        for (unsigned k = 0; k < 2; k++) {
            used += xh_globalheap_reads(g, (struct xh_range){ext[k].off, ext[k].len}) ? ext[k].len : 0;
            xh_globalheap_saw(g, &format, &ext[k], 1);
            size_t n = xh_globalheap_next(g, &lim, out, ROUND_MOST);
            for (size_t i = 0; i < n; i++) {
                cr_assert(out[i].off < format.size && out[i].len <= format.size - out[i].off);
                asked += out[i].len;
            }
        }
        most = xh_globalheap_held(g) > most ? xh_globalheap_held(g) : most;
    }
    cr_assert_eq(used, 300 * 4096);
    cr_assert_leq(asked, SPARE_BYTES + 3 * used, "%lu", (unsigned long)asked); /* a third of it for blocks */
    cr_assert_leq(most, 16384);
    xh_globalheap_free(g);
}

Test(globalheap, damaged_bytes_do_no_harm, .timeout = 50)
{
    struct file *f = make(0);
    struct xh_heap_limits lim = {SPARE_BYTES, UINT64_MAX};
    struct xh_range out[ROUND_MOST];
    srand(9);
    for (int round = 0; round < 60; round++) {
        struct xh_globalheap *g = xh_globalheap_new(f->size);
        struct xh_meta_format format = f->format;
        unsigned widths[] = {2, 4, 8};
        format.offset_bytes = widths[rand() % 3];
        format.base = (unsigned)rand() % 4 ? 0 : (uint64_t)rand() << 20;
        for (unsigned i = 0; i < 200; i++)
            f->bytes[f->at + (unsigned)rand() % (16 * STRINGS)] = (uint8_t)rand();
        uint64_t next = f->at;
        for (int k = 0; k < 60; k++) {
            uint64_t off = rand() % 3 ? next : (uint64_t)rand() % f->size;
            uint64_t most = f->size - off < 80000 ? f->size - off : 80000;
            uint64_t len = rand() % 2 ? xh_min64(4096, most) : (uint64_t)rand() % (most + 1);
            uint8_t *copy = malloc(len ? len : 1);
            memcpy(copy, f->bytes + off, len);
            struct xh_extent ext = {off, len, copy};
            xh_globalheap_reads(g, (struct xh_range){off, len});
            xh_globalheap_saw(g, &format, &ext, 1);
            size_t n = xh_globalheap_next(g, &lim, out, ROUND_MOST);
            for (size_t i = 0; i < n; i++)
                cr_assert(out[i].len && out[i].len <= f->size && out[i].off <= f->size - out[i].len);
            unsigned at = (unsigned)rand() % STRINGS;
            next = rand() % 2 ? f->at + 16ull * at : le(f->bytes + f->at + 16ull * at + 4, 8);
            next = next < f->size ? next : 0;
            free(copy);
        }
        xh_globalheap_free(g);
    }
    file_free(f);
}
