/* Contiguous raw data as metadata tells of it: in files that HDF5 itself has written each dataset's place
 * is learnt from what HDF5 reads of them; made and damaged metadata does no harm. */
#include <criterion/criterion.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/contiguous.h"
#include "slurp.h"

#define DATASETS 6
#define MIB (1ull << 20)

/* The test framework's own leak, in its parent process, is not ours to report. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcriterion";
}

/* ---- a file of HDF5's own */

struct file {
    uint8_t *bytes;
    uint64_t size, user_block;
    haddr_t header[DATASETS], data[DATASETS]; /* where HDF5 says they are */
    int hidden; /* nothing is there but what is shown */
};

static uint64_t data_bytes(int i)
{
    return (1 + (uint64_t)i) * MIB + 24;
}

/* A dataset with |attributes|, so that its header goes on elsewhere. */
static hid_t dataset(hid_t file, int i, int attributes)
{
    char name[64];
    hsize_t n = data_bytes(i);
    hid_t space = H5Screate_simple(1, &n, NULL), one = H5Screate(H5S_SCALAR), how = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_alloc_time(how, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(how, H5D_FILL_TIME_NEVER);
    snprintf(name, sizeof name, "data %d", i);
    hid_t d = H5Dcreate2(file, name, H5T_NATIVE_UINT8, space, H5P_DEFAULT, how, H5P_DEFAULT);
    cr_assert_geq(d, 0);
    for (int k = 0; k < attributes; k++) {
        snprintf(name, sizeof name, "an attribute with quite a long name %d", k);
        H5Aclose(H5Acreate2(d, name, H5T_NATIVE_DOUBLE, one, H5P_DEFAULT, H5P_DEFAULT));
    }
    H5Pclose(how);
    H5Sclose(one);
    H5Sclose(space);
    return d;
}

static struct file *make(H5F_libver_t low, hsize_t user_block)
{
    char path[] = "/tmp/xh-contiguous-XXXXXX";
    close(mkstemp(path));
    struct file *f = calloc(1, sizeof *f);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), fcpl = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_libver_bounds(fapl, low, H5F_LIBVER_LATEST);
    H5Pset_userblock(fcpl, user_block);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    cr_assert_geq(file, 0);
    f->user_block = user_block;
    for (int i = 0; i < DATASETS; i++) {
        H5O_info2_t info;
        hid_t d = dataset(file, i, 4 * i);
        H5Oget_info3(d, &info, H5O_INFO_BASIC);
        H5VLnative_token_to_addr(file, info.token, &f->header[i]);
        f->data[i] = H5Dget_offset(d);
        H5Dclose(d);
    }
    H5Fclose(file);
    H5Pclose(fcpl);
    H5Pclose(fapl);
    f->bytes = slurp(path, 0, &f->size);
    unlink(path);
    return f;
}

static void file_free(struct file *f)
{
    free(f->bytes);
    free(f);
}

static int look(void *ctx, uint64_t off, void *buf, size_t len)
{
    const struct file *f = ctx;
    cr_assert(len <= f->size && off <= f->size - len);
    if (f->hidden)
        return 0;
    memcpy(buf, f->bytes + off, len);
    return 1;
}

/* A copy of the exact length lets the sanitizer see every step outside. */
static void see(struct xh_contiguous *c, struct file *f, uint64_t off, size_t len)
{
    uint8_t *p = malloc(len);
    memcpy(p, f->bytes + off, len);
    xh_contiguous_see(c, off, p, len, look, f);
    free(p);
}

static void expect(const struct xh_contiguous *c, struct xh_range r, uint64_t off, uint64_t len)
{
    struct xh_range d = xh_contiguous_at(c, r);
    cr_assert(d.off == off && d.len == len, "%llu+%llu, not %llu+%llu", (unsigned long long)d.off,
              (unsigned long long)d.len, (unsigned long long)off, (unsigned long long)len);
}

/* What HDF5 reads of a file and of its datasets' headers at first is shown; with |late|, what the headers
 * go on with is there only after that. */
static void expect_all(H5F_libver_t low, hsize_t user_block, int late)
{
    struct file *f = make(low, user_block);
    struct xh_contiguous *c = xh_contiguous_new(f->size);
    see(c, f, user_block, 8); /* piece by piece, as HDF5 does */
    see(c, f, user_block, 48);
    for (int i = 0; i < DATASETS; i++) {
        f->hidden = late;
        see(c, f, f->header[i] + user_block, 512);
        f->hidden = 0;
        if (late)
            see(c, f, f->size - 8, 8);
        uint64_t off = f->data[i], len = data_bytes(i);
        expect(c, (struct xh_range){off, 1}, off, len);
        expect(c, (struct xh_range){off + 100, len - 100}, off, len);
        expect(c, (struct xh_range){off + 100, len - 99}, 0, 0);
        expect(c, (struct xh_range){off - 1, 2}, 0, 0);
    }
    cr_assert_eq(xh_contiguous_held(c), DATASETS);
    xh_contiguous_free(c);
    file_free(f);
}

Test(contiguous, datasets_of_every_format_are_known_once_their_header_was_read, .timeout = 60)
{
    expect_all(H5F_LIBVER_EARLIEST, 0, 0);
    expect_all(H5F_LIBVER_V18, 0, 0);
    expect_all(H5F_LIBVER_LATEST, 0, 0);
}

Test(contiguous, a_user_block_moves_them, .timeout = 60)
{
    expect_all(H5F_LIBVER_EARLIEST, 2048, 0);
    expect_all(H5F_LIBVER_LATEST, 512, 0);
}

Test(contiguous, what_a_header_goes_on_with_is_awaited, .timeout = 60)
{
    expect_all(H5F_LIBVER_EARLIEST, 0, 1);
    expect_all(H5F_LIBVER_LATEST, 0, 1);
}

/* ---- made metadata */

static void put(uint8_t *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* Shows a header that says that its dataset has |len| bytes of |off|. */
static void tell(struct xh_contiguous *c, struct file *f, uint64_t off, uint64_t len)
{
    uint8_t h[64] = "OHDR\2\0\x16\x08\x12\0\0\3\1";
    put(h + 13, off, 8);
    put(h + 21, len, 8);
    xh_contiguous_see(c, 4096, h, sizeof h, look, f);
}

static struct xh_contiguous *begin(struct file *f)
{
    static uint8_t s[96] = "\211HDF\r\n\032\n\2\x08\x08";
    put(s + 20, UINT64_MAX, 8);
    put(s + 36, 4096, 8);
    struct xh_contiguous *c = xh_contiguous_new(f->size);
    f->bytes = s;
    f->hidden = 0;
    xh_contiguous_see(c, 0, s, 8, look, f);
    f->hidden = 1;
    return c;
}

Test(contiguous, absurd_and_small_ones_are_not_believed)
{
    struct file f = {.size = 100 * MIB};
    struct xh_contiguous *c = begin(&f);
    uint64_t bad[][2] = {{MIB, UINT64_MAX}, {MIB, 99 * MIB + 1}, {UINT64_MAX, 2 * MIB}, {100 * MIB, MIB},
                         {UINT64_MAX - MIB, 2 * MIB}, {MIB, 0}, {MIB, XH_CONTIGUOUS_LEAST_BYTES - 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        tell(c, &f, bad[i][0], bad[i][1]);
    cr_assert_eq(xh_contiguous_held(c), 0);
    tell(c, &f, MIB, 99 * MIB);
    expect(c, (struct xh_range){99 * MIB, MIB}, MIB, 99 * MIB);
    xh_contiguous_free(c);
}

Test(contiguous, more_than_fit_displace_each_other_and_are_right_all_the_same, .timeout = 60)
{
    struct file f = {.size = 1ull << 50};
    struct xh_contiguous *c = begin(&f);
    unsigned seed = 1;
    size_t known = 0;
    for (uint64_t i = 0; i < 5000; i++) {
        uint64_t k = i * 2741 % 5000; /* in no order */
        tell(c, &f, k * 4 * MIB, (1 + k % 3) * MIB);
        expect(c, (struct xh_range){k * 4 * MIB + 5, 5}, k * 4 * MIB, (1 + k % 3) * MIB);
    }
    cr_assert_eq(xh_contiguous_held(c), XH_CONTIGUOUS_MAX);
    for (uint64_t k = 0; k < 5000; k++) {
        struct xh_range r = {k * 4 * MIB + (uint64_t)rand_r(&seed) % (uint64_t)MIB, 1}, d = xh_contiguous_at(c, r);
        known += d.len > 0;
        cr_assert(d.len == 0 || (d.off == k * 4 * MIB && d.len == (1 + k % 3) * MIB));
    }
    cr_assert_eq(known, XH_CONTIGUOUS_MAX);
    xh_contiguous_free(c);
}

Test(contiguous, damaged_metadata_does_no_harm, .timeout = 60)
{
    unsigned seed = 2;
    H5F_libver_t low[] = {H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST};
    for (int round = 0; round < 2; round++) {
        struct file *f = make(low[round], 0);
        struct xh_contiguous *c = xh_contiguous_new(f->size);
        see(c, f, 0, 48);
        for (int i = 0; i < 20000; i++) {
            uint64_t at = f->header[rand_r(&seed) % DATASETS];
            uint8_t saved[4096];
            memcpy(saved, f->bytes + at, sizeof saved);
            for (int k = rand_r(&seed) % 8; k >= 0; k--)
                f->bytes[at + (uint64_t)rand_r(&seed) % (k % 2 ? 64 : sizeof saved)] = (uint8_t)rand_r(&seed);
            see(c, f, at, rand_r(&seed) % 4 ? 512 : (size_t)rand_r(&seed) % 600 + 1);
            memcpy(f->bytes + at, saved, sizeof saved);
            struct xh_range r = {(uint64_t)rand_r(&seed) % f->size, 1}, d = xh_contiguous_at(c, r);
            cr_assert(d.len == 0 || (d.len <= f->size && d.off <= f->size - d.len && d.off <= r.off &&
                                     r.off - d.off < d.len));
            cr_assert_leq(xh_contiguous_held(c), XH_CONTIGUOUS_MAX);
        }
        xh_contiguous_free(c);
        file_free(f);
    }
}
