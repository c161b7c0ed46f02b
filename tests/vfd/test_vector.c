/* Vectored reads, and reads of selections, against a naive model: random pieces, shortened arrays, count 0, sizes
 * past the end of the file.
 *
 * usage: test_vector FILE [NAME]: reads NAME (FILE itself when it is missing; a URL will
 * do) through the driver and compares with FILE's bytes. */
#include "check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "xhdf5.h"

#define PIECES_MAX 600
#define PAST_END 5000 /* bytes given out behind the end of the file */

static unsigned long long state = 88172645463325252ull;

static unsigned long long rnd(unsigned long long below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

struct model {
    unsigned char *bytes; /* the file, then zeroes */
    size_t size;          /* with PAST_END */
};

static struct model load(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    struct model m = {.size = (size_t)st.st_size + PAST_END};
    CHECK((m.bytes = calloc(1, m.size)));
    CHECK(read(fd, m.bytes, (size_t)st.st_size) == st.st_size);
    close(fd);
    return m;
}

/* One random vectored read. |fold|: sizes and types are cut short where they repeat. */
static void one_round(H5FD_t *f, const struct model *m, uint32_t count, int ascending, int fold)
{
    static H5FD_mem_t types[PIECES_MAX + 1];
    static haddr_t addrs[PIECES_MAX + 1];
    static size_t sizes[PIECES_MAX + 1], real[PIECES_MAX + 1];
    static void *bufs[PIECES_MAX + 1];
    size_t longest = 1 + rnd(rnd(4) ? 300 : 90000), at = rnd(m->size);
    size_t same = 1 + rnd(longest);
    for (uint32_t i = 0; i < count; i++) {
        size_t want = fold && i >= count / 2 ? same : 1 + rnd(longest);
        if (want > m->size)
            want = m->size;
        at = ascending ? at + rnd(3 * longest) : rnd(m->size);
        if (at > m->size - want)
            at = rnd(m->size - want + 1);
        addrs[i] = at;
        real[i] = want;
        sizes[i] = fold && i > count / 2 ? (i == count / 2 + 1 ? 0 : (size_t)-1) : want;
        types[i] = fold && i > 0 ? (i == 1 ? H5FD_MEM_NOLIST : (H5FD_mem_t)99) : H5FD_MEM_DRAW;
        CHECK((bufs[i] = malloc(want)));
        memset(bufs[i], 0xa5, want);
    }
    CHECK(H5FDread_vector(f, H5P_DEFAULT, count, types, addrs, sizes, bufs) >= 0);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(memcmp(bufs[i], m->bytes + addrs[i], real[i]) == 0);
        free(bufs[i]);
    }
}

/* |n| single elements of |bytes| bytes, |step| elements apart, read at once as |n| / |per| selections of |per|
 * elements, which go to every other element in memory. */
static void one_selection(H5FD_t *f, const struct model *m, hsize_t n, hsize_t per, hsize_t step, size_t bytes)
{
    static hid_t memory[64], file[64];
    static haddr_t addrs[64];
    static size_t sizes[64];
    static void *bufs[64];
    hsize_t pairs = n / per, wide = per * step, memory_wide = 2 * per, start = 0, each = 2;
    unsigned char *buf = malloc(pairs * memory_wide * bytes);
    CHECK(buf && pairs <= 64 && n * step * bytes <= m->size);
    memset(buf, 0xa5, pairs * memory_wide * bytes);
    for (hsize_t i = 0; i < pairs; i++) {
        file[i] = H5Screate_simple(1, &wide, NULL);
        memory[i] = H5Screate_simple(1, &memory_wide, NULL);
        CHECK(H5Sselect_hyperslab(file[i], H5S_SELECT_SET, &start, &step, &per, NULL) >= 0);
        CHECK(H5Sselect_hyperslab(memory[i], H5S_SELECT_SET, &start, &each, &per, NULL) >= 0);
        addrs[i] = i * wide * bytes;
        sizes[i] = i == 0 ? bytes : i == 1 ? 0 : (size_t)-1; /* cut short */
        bufs[i] = buf + i * memory_wide * bytes;
    }
    CHECK(H5FDread_selection(f, H5FD_MEM_DRAW, H5P_DEFAULT, (uint32_t)pairs, memory, file, addrs, sizes, bufs) >= 0);
    for (hsize_t i = 0; i < 2 * n; i++)
        for (size_t b = 0; b < bytes; b++)
            CHECK(buf[i * bytes + b] == (i % 2 ? 0xa5 : m->bytes[i / 2 * step * bytes + b]));
    CHECK(H5Sselect_none(file[0]) >= 0);
    H5E_BEGIN_TRY
    { /* HDF5 says so itself where it was built to look */
        CHECK(H5FDread_selection(f, H5FD_MEM_DRAW, H5P_DEFAULT, 1, memory, file, addrs, sizes, bufs) < 0);
    }
    H5E_END_TRY
    CHECK(H5Eget_num(H5E_DEFAULT) > 1);
    CHECK(H5Sselect_none(memory[0]) >= 0);
    CHECK(H5FDread_selection(f, H5FD_MEM_DRAW, H5P_DEFAULT, 1, memory, file, addrs, sizes, bufs) >= 0);
    for (hsize_t i = 0; i < pairs; i++)
        CHECK(H5Sclose(memory[i]) >= 0 && H5Sclose(file[i]) >= 0);
    free(buf);
}

/* A regular hyperslab of three dimensions that was moved, with H5Soffset_simple: the hyperslab itself does not say
 * so. */
static void moved_selection(H5FD_t *f, const struct model *m)
{
    static const hsize_t dims[3] = {9, 11, 13}, start[3] = {0, 1, 2};
    static const hsize_t stride[3] = {3, 4, 5}, count[3] = {3, 2, 2}, block[3] = {2, 3, 4};
    static const hssize_t by[3] = {1, 2, 1};
    unsigned char buf[288];
    hsize_t n = sizeof buf, k = 0;
    haddr_t addr = 5;
    size_t bytes = 1;
    void *to = buf;
    hid_t file = H5Screate_simple(3, dims, NULL), memory = H5Screate_simple(1, &n, NULL);
    CHECK(m->size > 9 * 11 * 13 + 5);
    CHECK(H5Sselect_hyperslab(file, H5S_SELECT_SET, start, stride, count, block) >= 0);
    CHECK(H5Soffset_simple(file, by) >= 0);
    CHECK(H5Sget_select_npoints(file) == (hssize_t)n);
    CHECK(H5FDread_selection(f, H5FD_MEM_DRAW, H5P_DEFAULT, 1, &memory, &file, &addr, &bytes, &to) >= 0);
    for (hsize_t z = 0; z < dims[0]; z++)
        for (hsize_t y = 0; y < dims[1]; y++)
            for (hsize_t x = 0; x < dims[2]; x++) {
                hsize_t a = z - 1, b = y - 3, c = x - 3; /* below 0: huge */
                if (a < 9 && a % 3 < 2 && b < 8 && b % 4 < 3 && c < 10 && c % 5 < 4)
                    CHECK(buf[k++] == m->bytes[5 + (z * dims[1] + y) * dims[2] + x]);
            }
    CHECK(k == n);
    CHECK(H5Sclose(memory) >= 0 && H5Sclose(file) >= 0);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    struct model m = load(argv[1]);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_xhdf5(fapl, NULL) >= 0);
    H5FD_t *f = H5FDopen(argc > 2 ? argv[2] : argv[1], H5F_ACC_RDONLY, fapl, HADDR_UNDEF);
    CHECK(f);
    CHECK(H5FDget_eof(f, H5FD_MEM_DRAW) == m.size - PAST_END);
    CHECK(H5FDset_eoa(f, H5FD_MEM_DRAW, m.size) >= 0);
    CHECK(H5FDread_vector(f, H5P_DEFAULT, 0, NULL, NULL, NULL, NULL) >= 0);
    for (int round = 0; round < 300; round++)
        one_round(f, &m, 1 + (uint32_t)rnd(rnd(3) ? 20 : PIECES_MAX), rnd(2) != 0, rnd(2) != 0);
    for (hsize_t n = 1; n * 3 * 4 < m.size && n < 40000; n = 5 * n / 2 + 1) { /* of one part, and of several */
        one_selection(f, &m, n, n, 3, 4);
        if (n >= 4)
            one_selection(f, &m, n / 4 * 4, n / 4, 2, 2);
    }
    moved_selection(f, &m);
    for (int round = 0; round < 100; round++) {
        unsigned char buf[512];
        size_t n = 1 + rnd(sizeof buf), at = rnd(m.size - n);
        CHECK(H5FDread(f, H5FD_MEM_OHDR, H5P_DEFAULT, at, n, buf) >= 0 && memcmp(buf, m.bytes + at, n) == 0);
    }
    CHECK(H5FDclose(f) >= 0);
    free(m.bytes);
    H5Pclose(fapl);
    CHECK(H5close() >= 0);
    puts("ok");
    return 0;
}
