/* cache/localfs: how far a read goes, and the image of a file that is written, against a naive model. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "localfs/write_buffer.h"
#include "localfs/read_around.h"

#define MOST (1u << 20)
#define BUDGET (64u << 20)

/* ---- reach ---- */

Test(reach, grows_while_what_it_brings_is_used)
{
    struct xh_read_around r;
    xh_read_around_begin(&r, -1, 1ull << 40);
    cr_assert_eq(r.bytes, XH_READ_AROUND_FIRST);
    for (int i = 0; i < 10; i++) {
        xh_read_around_learn(&r);
        xh_read_around_hit(&r);
    }
    cr_assert_eq(r.bytes, XH_READ_AROUND_MOST);
}

Test(reach, stays_small_where_nothing_of_it_is_used)
{
    struct xh_read_around r;
    xh_read_around_begin(&r, -1, 1ull << 40);
    for (int i = 0; i < 20; i++)
        xh_read_around_learn(&r);
    cr_assert_eq(r.bytes, XH_READ_AROUND_LEAST);
}

Test(reach, a_window_is_aligned_holds_what_is_wanted_and_ends_with_the_file)
{
    struct xh_read_around r;
    uint64_t lo, hi;
    srand(1);
    for (int i = 0; i < 10000; i++) {
        uint64_t end = 1 + (uint64_t)rand() % 5000000, off = (uint64_t)rand() % 5000000,
                 len = 1 + (uint64_t)rand() % 300000;
        xh_read_around_begin(&r, -1, end);
        r.bytes = XH_READ_AROUND_LEAST << rand() % 7;
        xh_read_around_around(&r, off, len, end, &lo, &hi);
        cr_assert(lo <= hi && hi <= end);
        if (off < end)
            cr_assert(lo <= off && lo % r.bytes == 0 && hi >= (off + len < end ? off + len : end) &&
                      hi - lo <= r.bytes + len);
        else
            cr_assert(lo == hi);
    }
}

/* ---- held ---- */

static uint8_t model[MOST], buf[MOST], disk[MOST];

static int file_of(size_t size)
{
    int fd = memfd_create("held", 0);
    for (size_t i = 0; i < size; i++)
        model[i] = (uint8_t)rand();
    cr_assert(fd >= 0 && pwrite(fd, model, size, 0) == (ssize_t)size);
    return fd;
}

static size_t size_of(int fd)
{
    struct stat st;
    cr_assert(fstat(fd, &st) == 0);
    return (size_t)st.st_size;
}

static void same_as_file(int fd, size_t eof)
{
    cr_assert_eq(size_of(fd), eof);
    cr_assert_eq(pread(fd, disk, eof, 0), (ssize_t)eof);
    for (size_t i = 0; i < eof; i++)
        cr_assert_eq(disk[i], model[i], "byte %zu of %zu", i, eof);
}

static void random_life(unsigned seed, size_t size, uint64_t budget, int alone)
{
    struct xh_write_buffer h;
    srand(seed);
    memset(model, 0, sizeof model);
    int fd = file_of(size);
    size_t eof = size;
    xh_write_buffer_begin(&h, fd, size, budget);
    h.alone = alone;
    for (int i = 0; i < 800; i++) {
        size_t at = (size_t)rand() % (MOST - 1), len = 1 + (size_t)rand() % (rand() % 20 ? 3000 : 200000);
        if (rand() % 4) /* mostly near where something is */
            at = eof ? (size_t)rand() % eof : 0;
        len = len < MOST - at ? len : MOST - at;
        int raw = rand() % 2, what = rand() % 100;
        if (what < 50) {
            for (size_t k = 0; k < len; k++)
                buf[k] = (uint8_t)rand();
            memcpy(model + at, buf, len);
            cr_assert_eq(xh_write_buffer_write(&h, raw, at, len, buf), 0);
            eof = at + len > eof ? at + len : eof;
        } else if (what < 95) {
            cr_assert_eq(xh_write_buffer_read(&h, raw, at, len, buf), 0);
            for (size_t k = 0; k < len; k++)
                cr_assert_eq(buf[k], model[at + k], "read of %zu+%zu differs at %zu, eof %zu", at, len, k, eof);
        } else if (what < 98) {
            cr_assert_eq(xh_write_buffer_write_back(&h), 0);
            same_as_file(fd, eof);
        } else {
            eof = (size_t)rand() % MOST;
            memset(model + eof, 0, MOST - eof);
            cr_assert_eq(xh_write_buffer_truncate(&h, eof), 0);
        }
        cr_assert_eq(h.eof, eof);
    }
    cr_assert_eq(xh_write_buffer_write_back(&h), 0);
    same_as_file(fd, eof);
    xh_write_buffer_end(&h);
    close(fd);
}

Test(held, a_random_life_leaves_the_file_that_writing_it_straight_would, .timeout = 100)
{
    for (unsigned seed = 0; seed < 12; seed++)
        random_life(seed, seed % 3 * 300000, seed % 2 ? BUDGET : 4u << 20, seed % 5 == 0);
}

Test(held, nothing_reaches_the_old_part_of_the_file_before_it_is_written_back)
{
    struct xh_write_buffer h;
    int fd = file_of(100000);
    xh_write_buffer_begin(&h, fd, 100000, BUDGET);
    cr_assert_eq(xh_write_buffer_write(&h, 0, 5000, 8, "metadata"), 0);
    cr_assert_eq(xh_write_buffer_write(&h, 1, 6000, 8, "raw data"), 0);
    cr_assert_eq(xh_write_buffer_write(&h, 0, 100000, 8, "new data"), 0);
    same_as_file(fd, 100000);
    cr_assert_eq(xh_write_buffer_write_back(&h), 0);
    memcpy(model + 5000, "metadata", 8);
    memcpy(model + 6000, "raw data", 8);
    memcpy(model + 100000, "new data", 8);
    same_as_file(fd, 100008);
    xh_write_buffer_end(&h);
    close(fd);
}

Test(held, bytes_that_nobody_here_wrote_are_left_to_others)
{
    struct xh_write_buffer h;
    int fd = file_of(100000);
    xh_write_buffer_begin(&h, fd, 100000, BUDGET);
    cr_assert_eq(xh_write_buffer_read(&h, 0, 5000, 3000, buf), 0);
    cr_assert_eq(xh_write_buffer_write(&h, 0, 5000, 4, "here"), 0);
    cr_assert_eq(xh_write_buffer_write(&h, 0, 5100, 4, "here"), 0);
    cr_assert_eq(pwrite(fd, "there", 5, 5050), 5);
    cr_assert_eq(xh_write_buffer_write_back(&h), 0);
    memcpy(model + 5000, "here", 4);
    memcpy(model + 5100, "here", 4);
    memcpy(model + 5050, "there", 5);
    same_as_file(fd, 100000);
    xh_write_buffer_end(&h);
    close(fd);
}

Test(held, small_neighbours_are_one_system_call)
{
    struct xh_write_buffer h;
    int fd = file_of(0);
    xh_write_buffer_begin(&h, fd, 0, BUDGET);
    for (unsigned i = 0; i < 1000; i++)
        cr_assert_eq(xh_write_buffer_write(&h, (int)(i % 2), i * 1000, 600, model), 0);
    cr_assert_eq(xh_write_buffer_write_back(&h), 0);
    cr_assert_leq(h.writes, 8);
    xh_write_buffer_end(&h);
    close(fd);
}

Test(held, what_could_not_be_written_is_written_the_next_time)
{
    struct xh_write_buffer h;
    char name[] = "/tmp/xh-held-XXXXXX";
    int fd = mkstemp(name), broken = open("/dev/full", O_RDWR);
    cr_assert(fd >= 0 && broken >= 0);
    xh_write_buffer_begin(&h, broken, 0, BUDGET);
    memset(model, 7, 5000);
    cr_assert_eq(xh_write_buffer_write(&h, 0, 0, 5000, model), 0);
    cr_assert_eq(xh_write_buffer_write_back(&h), -1);
    h.reach.fd = fd;
    cr_assert_eq(xh_write_buffer_write_back(&h), 0);
    same_as_file(fd, 5000);
    xh_write_buffer_end(&h);
    close(fd);
    close(broken);
    unlink(name);
}

Test(held, the_mark_of_a_file_being_written_goes_first_as_with_sec2)
{
    struct xh_write_buffer h;
    uint8_t super[48] = "\211HDF\r\n\032\n\003\010\010\001";
    int fd = file_of(3000);
    xh_write_buffer_begin(&h, fd, 3000, BUDGET);
    cr_assert_eq(xh_write_buffer_write(&h, 0, 0, sizeof super, super), 0);
    memcpy(model, super, sizeof super);
    same_as_file(fd, 3000);
    super[20] = 9;
    cr_assert_eq(xh_write_buffer_write(&h, 0, 0, sizeof super, super), 0);
    same_as_file(fd, 3000);
    xh_write_buffer_end(&h);
    close(fd);
}

Test(held, the_superblock_of_a_swmr_writer_ends_the_image)
{
    struct xh_write_buffer h;
    uint8_t super[48] = "\211HDF\r\n\032\n\003\010\010\005";
    int fd = file_of(0);
    memset(model, 0, 6000);
    xh_write_buffer_begin(&h, fd, 0, BUDGET);
    cr_assert_eq(xh_write_buffer_write(&h, 0, 1000, 4, "held"), 0);
    cr_assert_eq(xh_write_buffer_write(&h, 0, 0, sizeof super, super), 0);
    memcpy(model + 1000, "held", 4);
    memcpy(model, super, sizeof super);
    same_as_file(fd, 1004);
    cr_assert_eq(xh_write_buffer_write(&h, 0, 1004, 4, "then"), 0);
    memcpy(model + 1004, "then", 4);
    same_as_file(fd, 1008);
    cr_assert_eq(pwrite(fd, "else", 4, 2000), 4);
    cr_assert_eq(xh_write_buffer_read(&h, 0, 2000, 4, buf), 0);
    cr_assert_arr_eq(buf, "else", 4);
    xh_write_buffer_end(&h);
    close(fd);
}
