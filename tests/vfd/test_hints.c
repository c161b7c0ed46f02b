/* Hints and vectored reads of a URL, or of a local file, with every byte checked.
 *
 * usage: test_hints CASE NAME CACERT, with the files that hints.py makes. Where a request is to be
 * counted apart, the program says "now", waits for a line, and goes on. */
#include "check.h"

#include <unistd.h>

#include "xhdf5.h"

#define ROWS 16000u
#define ROW_VALUES 2500u /* 10,000 bytes */
#define READS 2000u
#define SIDE 1024u /* of the chunked sets, whose chunks are 64 x 64 */

static unsigned long long state = 88172645463325252ull;

static unsigned long long rnd(unsigned long long below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* The value of element |n| of most sets: hard to compress. */
static int value(unsigned long long n)
{
    unsigned v = (unsigned)n * 2654435761u;
    return (int)((v ^ v >> 15) * 2246822519u);
}

static void let_count(void)
{
    char line[8];
    CHECK(puts("now") >= 0 && fflush(stdout) == 0 && fgets(line, sizeof line, stdin));
}

static hid_t open_file(const char *name, const char *cacert)
{
    H5FD_xhdf5_config_t config = H5FD_XHDF5_CONFIG_INIT;
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    if (*cacert)
        config.ca_bundle = cacert;
    CHECK(H5Pset_fapl_xhdf5(fapl, &config) >= 0);
    hid_t f = H5Fopen(name, H5F_ACC_RDONLY, fapl);
    CHECK(f >= 0 && H5Pclose(fapl) >= 0);
    return f;
}

static hid_t open_set(hid_t f, const char *name, hid_t *space)
{
    hid_t d = H5Dopen2(f, name, H5P_DEFAULT);
    CHECK(d >= 0 && (*space = H5Dget_space(d)) >= 0);
    return d;
}

/* Reads |rows| rows from |start| on, every |stride|th, of a set of |width| values a row. */
static void read_rows(hid_t d, hid_t space, hsize_t start, hsize_t stride, hsize_t rows, hsize_t width)
{
    hsize_t at[2] = {start, 0}, by[2] = {stride, 1}, count[2] = {rows, 1}, block[2] = {1, width}, n = rows * width;
    hid_t mem = H5Screate_simple(1, &n, NULL);
    int *v = malloc(n * sizeof *v);
    CHECK(v && H5Sselect_hyperslab(space, H5S_SELECT_SET, at, by, count, block) >= 0);
    CHECK(H5Dread(d, H5T_NATIVE_INT, mem, space, H5P_DEFAULT, v) >= 0);
    for (hsize_t r = 0; r < rows; r++)
        for (hsize_t i = 0; i < width; i++)
            CHECK(v[r * width + i] == value((start + r * stride) * width + i));
    free(v);
    CHECK(H5Sclose(mem) >= 0);
}

static hsize_t rows_wanted[ROWS]; /* all in a random order */

static void choose_rows(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        size_t k = rnd(i + 1);
        rows_wanted[i] = rows_wanted[k];
        rows_wanted[k] = i;
    }
}

/* 2,000 rows at random, known beforehand, read one after another. */
static void known(hid_t f)
{
    static haddr_t addrs[READS];
    static size_t sizes[READS];
    hid_t space, d = open_set(f, "rows", &space);
    haddr_t base = H5Dget_offset(d);
    choose_rows();
    for (size_t i = 0; i < READS; i++) {
        sizes[i] = ROW_VALUES * sizeof(int);
        addrs[i] = base + rows_wanted[i] * sizes[i];
    }
    let_count();
    CHECK(H5FDxhdf5_prefetch(f, READS, addrs, sizes) >= 0);
    for (size_t i = 0; i < READS; i++)
        read_rows(d, space, rows_wanted[i], 1, 1, ROW_VALUES);
    let_count();
    CHECK(H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

/* One selection of 2,000 rows; the whole set is 160 MB. */
static void selection(hid_t f)
{
    hid_t space, d = open_set(f, "rows", &space);
    let_count();
    read_rows(d, space, 3, 7, READS, ROW_VALUES);
    let_count();
    CHECK(H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

/* One selection of 2,000 points. */
static void points(hid_t f)
{
    static hsize_t at[READS][2];
    static int v[READS];
    hsize_t n = READS;
    hid_t space, d = open_set(f, "rows", &space), mem = H5Screate_simple(1, &n, NULL);
    for (size_t i = 0; i < READS; i++) {
        at[i][0] = rnd(ROWS);
        at[i][1] = rnd(ROW_VALUES);
    }
    CHECK(H5Sselect_elements(space, H5S_SELECT_SET, READS, &at[0][0]) >= 0);
    let_count();
    CHECK(H5Dread(d, H5T_NATIVE_INT, mem, space, H5P_DEFAULT, v) >= 0);
    let_count();
    for (size_t i = 0; i < READS; i++)
        CHECK(v[i] == value(at[i][0] * ROW_VALUES + at[i][1]));
    CHECK(H5Sclose(mem) >= 0 && H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

/* 100 data sets by one H5Dread_multi. */
static void multi(hid_t f)
{
    enum { SETS = 100 };
    static hid_t sets[SETS], types[SETS], all[SETS];
    static int values[SETS][ROW_VALUES];
    static void *bufs[SETS];
    char name[16];
    for (int i = 0; i < SETS; i++) {
        snprintf(name, sizeof name, "many/%03d", i);
        CHECK((sets[i] = H5Dopen2(f, name, H5P_DEFAULT)) >= 0);
        types[i] = H5T_NATIVE_INT;
        all[i] = H5S_ALL;
        bufs[i] = values[i];
    }
    let_count();
    CHECK(H5Dread_multi(SETS, sets, types, all, all, H5P_DEFAULT, bufs) >= 0);
    let_count();
    for (int i = 0; i < SETS; i++) {
        for (unsigned k = 0; k < ROW_VALUES; k++)
            CHECK(values[i][k] == 1000 * i + (int)k);
        CHECK(H5Dclose(sets[i]) >= 0);
    }
}

/* A band of rows through the chunks, told beforehand (|hint|) or not. */
static void chunks(hid_t f, const char *name, int hint)
{
    hsize_t at[2] = {100, 0}, count[2] = {200, SIDE};
    hid_t space, d = open_set(f, name, &space);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, count, NULL) >= 0);
    let_count();
    if (hint)
        CHECK(H5Dxhdf5_prefetch(d, space) >= 0);
    for (hsize_t r = 100; r < 300; r += 20)
        read_rows(d, space, r, 1, 20, SIDE);
    let_count();
    CHECK(H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

/* A few points of many chunks: those chunks and no others. */
static void chunk_points(hid_t f)
{
    hsize_t at[3][2] = {{10, 10}, {11, 900}, {1000, 500}}, n = 3;
    int v[3];
    hid_t space, d = open_set(f, "gz", &space), mem = H5Screate_simple(1, &n, NULL);
    CHECK(H5Sselect_elements(space, H5S_SELECT_SET, 3, &at[0][0]) >= 0);
    let_count();
    CHECK(H5Dxhdf5_prefetch(d, space) >= 0);
    CHECK(H5Dread(d, H5T_NATIVE_INT, mem, space, H5P_DEFAULT, v) >= 0);
    let_count();
    for (int i = 0; i < 3; i++)
        CHECK(v[i] == value(at[i][0] * SIDE + at[i][1]));
    CHECK(H5Sclose(mem) >= 0 && H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

/* Three rows out of chunks of 16 MiB each, which HDF5 does not read whole. */
static void big_chunks(hid_t f)
{
    hid_t space, d = open_set(f, "big", &space);
    hsize_t at[2] = {5, 0}, by[2] = {900, 1}, count[2] = {3, 1}, block[2] = {1, 2 * SIDE};
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, at, by, count, block) >= 0);
    let_count();
    CHECK(H5Dxhdf5_prefetch(d, space) >= 0);
    read_rows(d, space, 5, 900, 3, 2 * SIDE);
    let_count();
    CHECK(H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

/* Chunks of 2 GiB, of which the index says that each has 64 bytes: a column, and every second row. */
static void short_chunks(hid_t f)
{
    hid_t space, d = open_set(f, "short", &space);
    hsize_t n[2], at[2] = {0}, one[2] = {1, 1}, two[2] = {2, 1};
    CHECK(H5Sget_simple_extent_dims(space, n, NULL) == 2);
    hsize_t column[2] = {n[0], 1}, half[2] = {n[0] / 2, n[1]};
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, at, one, column, NULL) >= 0);
    CHECK(H5Dxhdf5_prefetch(d, space) >= 0);
    CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, at, two, half, NULL) >= 0);
    CHECK(H5Dxhdf5_prefetch(d, space) >= 0);
    CHECK(H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

/* Every set of the file in every way, whole, in part and not at all: the right bytes, or nothing, and no error. */
static void all_layouts(hid_t f)
{
    const char *names[] = {"rows", "gz", "plain", "big", "grown", "compact", "virtual", "scalar", "nothing",
                           "unwritten", "sparse"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hid_t space, d = open_set(f, names[i], &space);
        CHECK(H5Dxhdf5_prefetch(d, space) >= 0);
        if (H5Sget_simple_extent_type(space) == H5S_SIMPLE) {
            hsize_t n[2] = {0}, at[2] = {0}, by[2] = {2, 1};
            if (H5Sget_simple_extent_dims(space, n, NULL) == 2) {
                n[0] /= 2;
                CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, at, by, n, NULL) >= 0);
                CHECK(H5Dxhdf5_prefetch(d, space) >= 0);
            }
            CHECK(H5Sselect_none(space) >= 0);
            CHECK(H5Dxhdf5_prefetch(d, space) >= 0);
        }
        CHECK(H5Dxhdf5_prefetch(d, H5S_ALL) >= 0);
        CHECK(H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
    }
    const char *wide[] = {"gz", "plain", "grown"};
    for (size_t i = 0; i < 3; i++) {
        hid_t space, d = open_set(f, wide[i], &space);
        read_rows(d, space, 0, 1, SIDE, SIDE);
        CHECK(H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
    }
}

static void nonsense(hid_t f)
{
    haddr_t addrs[] = {HADDR_UNDEF, 0, 1ull << 62, 5, UINT64_MAX - 3};
    size_t sizes[] = {10, 0, 10, SIZE_MAX, 100};
    hid_t space, d = open_set(f, "gz", &space);
    hsize_t n[3] = {4, 4, 4};
    hid_t other = H5Screate_simple(3, n, NULL), smaller = H5Screate_simple(2, n, NULL);
    CHECK(H5FDxhdf5_prefetch(f, 5, addrs, sizes) >= 0);
    CHECK(H5FDxhdf5_prefetch(f, 0, NULL, NULL) >= 0);
    CHECK(H5FDxhdf5_prefetch(d, 1, addrs + 1, sizes) >= 0); /* anything in the file will do */
    CHECK(H5Dxhdf5_prefetch(d, smaller) >= 0);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    CHECK(H5FDxhdf5_prefetch(f, 1, NULL, sizes) < 0);
    CHECK_ERROR("addrs is NULL");
    CHECK(H5FDxhdf5_prefetch(f, 1, addrs, NULL) < 0);
    CHECK_ERROR("sizes is NULL");
    CHECK(H5FDxhdf5_prefetch(-1, 1, addrs, sizes) < 0 && H5Eget_num(H5E_DEFAULT) > 0);
    CHECK(H5FDxhdf5_prefetch(space, 1, addrs, sizes) < 0);
    CHECK(H5Dxhdf5_prefetch(f, H5S_ALL) < 0 && H5Eget_num(H5E_DEFAULT) > 0);
    CHECK(H5Dxhdf5_prefetch(-1, H5S_ALL) < 0);
    CHECK(H5Dxhdf5_prefetch(d, other) < 0);
    CHECK_ERROR("3 dimensions, the data set has 2");
    CHECK(H5Dxhdf5_prefetch(d, d) < 0);
    read_rows(d, space, 0, 1, SIDE, SIDE);
    CHECK(H5Sclose(other) >= 0 && H5Sclose(smaller) >= 0 && H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

/* Hints, and the file closed while all is on its way. */
static void closed_at_once(const char *name, const char *cacert)
{
    for (int i = 0; i < 20; i++) {
        hid_t f = open_file(name, cacert), space, d = open_set(f, i % 2 ? "rows" : "gz", &space);
        CHECK(H5Dxhdf5_prefetch(d, H5S_ALL) >= 0);
        CHECK(H5Sclose(space) >= 0 && H5Dclose(d) >= 0 && H5Fclose(f) >= 0);
    }
}

/* The same calls with HDF5's own driver. */
static void other_driver(const char *name)
{
    haddr_t addr = 100;
    size_t size = 100;
    hid_t f = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT), space, d = open_set(f, "gz", &space);
    CHECK(H5FDxhdf5_prefetch(f, 1, &addr, &size) >= 0 && H5Dxhdf5_prefetch(d, H5S_ALL) >= 0);
    CHECK(H5Sclose(space) >= 0 && H5Dclose(d) >= 0 && H5Fclose(f) >= 0);
}

#define MANY_CHUNKS 20000u /* a row each, of 1,024 zeros */

/* Four rows of a dataset with a large chunk index. */
static void large_index(hid_t f)
{
    hsize_t at[4][2] = {{10, 0}, {7000, 900}, {14000, 500}, {MANY_CHUNKS - 1, 0}};
    hid_t space, d = open_set(f, "many chunks", &space);
    CHECK(H5Sselect_elements(space, H5S_SELECT_SET, 4, &at[0][0]) >= 0);
    let_count();
    CHECK(H5Dxhdf5_prefetch(d, space) >= 0);
    let_count();
    CHECK(H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

/* 300 of its rows at random, of which nothing was said. */
static void large_index_untold(hid_t f)
{
    hid_t space, d = open_set(f, "many chunks", &space);
    hsize_t n = 1024, count[2] = {1, 1024};
    hid_t mem = H5Screate_simple(1, &n, NULL);
    let_count();
    for (int i = 0; i < 300; i++) {
        hsize_t at[2] = {rnd(MANY_CHUNKS), 0};
        int v[1024];
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, count, NULL) >= 0);
        CHECK(H5Dread(d, H5T_NATIVE_INT, mem, space, H5P_DEFAULT, v) >= 0);
        for (int k = 0; k < 1024; k++)
            CHECK(v[k] == 0);
    }
    let_count();
    CHECK(H5Sclose(mem) >= 0 && H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

/* A dataset three times, 16 rows of it at a time, in another order each time, of which it is |told| once, or each time.
 * Of "rows" as many bytes as the others have, 4 MiB. */
static void thrice(hid_t f, const char *name, int told)
{
    int is_rows = strcmp(name, "rows") == 0;
    hsize_t n = is_rows ? 416 : SIDE, width = is_rows ? ROW_VALUES : SIDE;
    hsize_t at[2] = {0, 0}, count[2] = {n, width};
    hid_t space, d = open_set(f, name, &space), all = H5Dget_space(d);
    CHECK(H5Sselect_hyperslab(all, H5S_SELECT_SET, at, NULL, count, NULL) >= 0);
    let_count();
    for (hsize_t k = 0; k < 3; k++) {
        if (told > (k > 0))
            CHECK(H5Dxhdf5_prefetch(d, all) >= 0);
        for (hsize_t i = 0, band = k; i < n / 16; i++, band = (band + 7 + 2 * k) % (n / 16)) /* it comes to all */
            read_rows(d, space, 16 * band, 1, 16, width);
    }
    let_count();
    CHECK(H5Sclose(all) >= 0 && H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

#define THRICE(set, name)                                            \
    static void set##_thrice(hid_t f) { thrice(f, name, 0); }         \
    static void set##_thrice_once(hid_t f) { thrice(f, name, 1); }    \
    static void set##_thrice_each(hid_t f) { thrice(f, name, 2); }
THRICE(rows, "rows")
THRICE(gz, "gz")
THRICE(plain, "plain")

/* 200 rows of 10 KB, which lie apart, six times, told of each time. */
static void apart_again(hid_t f)
{
    hsize_t at[2] = {7, 0}, by[2] = {50, 1}, count[2] = {200, 1}, block[2] = {1, ROW_VALUES};
    hid_t space, d = open_set(f, "rows", &space), some = H5Dget_space(d);
    CHECK(H5Sselect_hyperslab(some, H5S_SELECT_SET, at, by, count, block) >= 0);
    let_count();
    for (int k = 0; k < 6; k++) {
        CHECK(H5Dxhdf5_prefetch(d, some) >= 0);
        for (hsize_t i = 0; i < 200; i++)
            read_rows(d, space, 7 + 50 * (i * 77 % 200), 1, 1, ROW_VALUES);
    }
    let_count();
    CHECK(H5Sclose(some) >= 0 && H5Sclose(space) >= 0 && H5Dclose(d) >= 0);
}

static void gz_told(hid_t f) { chunks(f, "gz", 1); }
static void gz_untold(hid_t f) { chunks(f, "gz", 0); }
static void grown_told(hid_t f) { chunks(f, "grown", 1); }

static const struct {
    const char *name;
    void (*run)(hid_t);
} cases[] = {
    {"known", known},           {"selection", selection},       {"points", points},         {"multi", multi},
    {"gz_told", gz_told},       {"gz_untold", gz_untold},       {"grown_told", grown_told},
    {"some_chunks", chunk_points},
    {"big_chunks", big_chunks}, {"short_chunks", short_chunks}, {"layouts", all_layouts},    {"nonsense", nonsense},
    {"large_index", large_index}, {"large_index_untold", large_index_untold},
    {"rows_thrice", rows_thrice}, {"rows_thrice_once", rows_thrice_once}, {"rows_thrice_each", rows_thrice_each},
    {"gz_thrice", gz_thrice},   {"gz_thrice_once", gz_thrice_once}, {"gz_thrice_each", gz_thrice_each},
    {"plain_thrice", plain_thrice}, {"plain_thrice_once", plain_thrice_once},
    {"plain_thrice_each", plain_thrice_each}, {"apart_again", apart_again},
};

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    const char *c = argv[1];
    if (strcmp(c, "closed_at_once") == 0) {
        closed_at_once(argv[2], argv[3]);
    } else if (strcmp(c, "other_driver") == 0) {
        other_driver(argv[2]);
    } else {
        hid_t f = open_file(argv[2], argv[3]);
        size_t i = 0;
        while (i < sizeof cases / sizeof *cases && strcmp(c, cases[i].name))
            i++;
        CHECK(i < sizeof cases / sizeof *cases);
        cases[i].run(f);
        CHECK(H5Fclose(f) >= 0);
    }
    CHECK(H5close() >= 0);
    return 0;
}
