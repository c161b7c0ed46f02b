/* The stress test's reader: reads a dataset over and over until its time is up, and compares each block with the sum
 * that the local file's has.
 *
 *   client_load FILE DSET ROWS sums OUT               writes a sum for each block of ROWS rows of each image
 *   client_load URL DSET ROWS read SUMS SECONDS I/N reads the I-th of N parts of the blocks, in order, as "URL?pass=1";
 * then, as long as there is time, as "URL?pass=2" and so on: another
 *                                                     file, for all that a cache can know
 *
 * When it is ready it waits for the end of standard input, so that many begin together. BENCH_PROGRESS names a file
 * of two words of 8 bytes. In the first it keeps how many bytes it got. Until the second is not 0 it goes on, also
 * after its time. A failure is told, counted, and the next block tried. Prints one line of JSON. */
#include <fcntl.h>
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LANES = 4, FAILURES_MAX = 20 };

struct images {
    hid_t file, dset, space, type, memory;
    hsize_t dims[3], rows, bands; /* a block is a band of |rows| rows of an image */
    size_t bytes;                 /* of a block */
};

static struct {
    uint64_t blocks, bytes, wrong, failed, opened;
    double longest; /* seconds that the program once had to wait, for an opening or a block */
} report;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what)
{
    H5Eprint2(H5E_DEFAULT, stderr);
    fprintf(stderr, "client_load: %s\n", what);
    exit(1);
}

/* Notices order; in lanes that do not wait for each other. */
static uint64_t sum_of(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t lane[LANES] = {1, 2, 3, 4}, w, sum = n;
    for (; n >= 8 * LANES; p += 8 * LANES, n -= 8 * LANES)
        for (int k = 0; k < LANES; k++) {
            memcpy(&w, p + 8 * k, 8);
            lane[k] = (lane[k] ^ w) * 0x9E3779B97F4A7C15u;
        }
    for (; n; n--)
        lane[0] = (lane[0] ^ *p++) * 0x9E3779B97F4A7C15u;
    for (int k = 0; k < LANES; k++)
        sum = (sum ^ lane[k]) * 0xD6E8FEB86659FD93u;
    return sum;
}

/* Returns 0, or -1 with HDF5's reasons on its stack. */
static int open_images(struct images *d, const char *name, const char *dset, hsize_t rows)
{
    *d = (struct images){.rows = rows};
    d->file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (d->file < 0)
        return -1;
    d->dset = H5Dopen2(d->file, dset, H5P_DEFAULT);
    if (d->dset < 0) {
        H5Fclose(d->file);
        return -1;
    }
    d->space = H5Dget_space(d->dset);
    d->type = H5Dget_type(d->dset);
    if (H5Sget_simple_extent_dims(d->space, d->dims, NULL) != 3 || d->dims[1] % rows != 0)
        die("the dataset is none of images, or ROWS does not divide them");
    d->bands = d->dims[1] / rows;
    d->bytes = rows * d->dims[2] * H5Tget_size(d->type);
    hsize_t block[3] = {1, rows, d->dims[2]};
    d->memory = H5Screate_simple(3, block, NULL);
    return 0;
}

static void close_images(struct images *d)
{
    H5Sclose(d->memory);
    H5Tclose(d->type);
    H5Sclose(d->space);
    H5Dclose(d->dset);
    H5Fclose(d->file);
}

static herr_t read_block(const struct images *d, uint64_t i, void *buf)
{
    hsize_t at[3] = {i / d->bands, i % d->bands * d->rows, 0}, block[3] = {1, d->rows, d->dims[2]};
    H5Sselect_hyperslab(d->space, H5S_SELECT_SET, at, NULL, block, NULL);
    return H5Dread(d->dset, d->type, d->memory, d->space, H5P_DEFAULT, buf);
}

static void write_sums(const char *name, const char *dset, hsize_t rows, const char *out)
{
    struct images d;
    if (open_images(&d, name, dset, rows) < 0)
        die("cannot open the file");
    void *buf = malloc(d.bytes);
    FILE *f = fopen(out, "wb");
    if (!buf || !f)
        die("cannot write the sums");
    for (uint64_t i = 0; i < d.dims[0] * d.bands; i++) {
        if (read_block(&d, i, buf) < 0)
            die("cannot read the local file");
        uint64_t sum = sum_of(buf, d.bytes);
        if (fwrite(&sum, sizeof sum, 1, f) != 1)
            die("cannot write the sums");
    }
    if (fclose(f) != 0)
        die("cannot write the sums");
    free(buf);
    close_images(&d);
}

static uint64_t *load_sums(const char *path, uint64_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        die("cannot read the sums");
    long size = ftell(f);
    rewind(f);
    *n = size > 0 ? (uint64_t)size / 8 : 0;
    uint64_t *sums = malloc(*n * 8 + 1);
    if (!sums || fread(sums, 8, *n, f) != *n)
        die("cannot read the sums");
    fclose(f);
    return sums;
}

static void failed(const char *what, const char *name, uint64_t i)
{
    H5Eprint2(H5E_DEFAULT, stderr);
    fprintf(stderr, "client_load: %s %s, block %" PRIu64 "\n", what, name, i);
    if (++report.failed == FAILURES_MAX)
        die("too many failures");
}

static void waited(double since)
{
    double took = now() - since;
    if (took > report.longest)
        report.longest = took;
}

/* Where others see how far it is, and say when it is over. */
struct progress {
    _Atomic uint64_t bytes, over;
};

static struct progress *map_progress(void)
{
    static struct progress nobody = {.over = 1};
    const char *path = getenv("BENCH_PROGRESS");
    int fd = path ? open(path, O_RDWR) : -1;
    if (fd < 0)
        return &nobody;
    void *p = mmap(NULL, sizeof nobody, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        die("cannot map BENCH_PROGRESS");
    close(fd);
    return p;
}

static int goes_on(double end, const struct progress *p)
{
    return now() < end || !p->over;
}

static void read_until(const char *url, const char *dset, hsize_t rows, const char *path, double seconds, uint64_t part,
                       uint64_t parts)
{
    char name[4096], c;
    uint64_t n, *sums = load_sums(path, &n);
    size_t most = 0;
    void *buf = NULL;
    struct progress *progress = map_progress();
    while (read(0, &c, 1) > 0)
        ;
    double end = now() + seconds;
    for (unsigned pass = 1; goes_on(end, progress); pass++) {
        struct images d;
        double asked = now();
        snprintf(name, sizeof name, "%s%cpass=%u", url, strchr(url, '?') ? '&' : '?', pass);
        if (open_images(&d, name, dset, rows) < 0) {
            failed("cannot open", name, 0);
            continue;
        }
        waited(asked);
        report.opened++;
        if (d.dims[0] * d.bands != n || (most && most != d.bytes))
            die("the sums are of another dataset");
        most = d.bytes;
        if (!buf && !(buf = malloc(most)))
            die("no memory");
        for (uint64_t i = n * part / parts; i < n * (part + 1) / parts && goes_on(end, progress); i++) {
            asked = now();
            if (read_block(&d, i, buf) < 0) {
                failed("cannot read", name, i);
                continue;
            }
            waited(asked);
            report.blocks++;
            report.bytes += d.bytes;
            progress->bytes = report.bytes;
            if (sum_of(buf, d.bytes) != sums[i]) {
                fprintf(stderr, "client_load: WRONG BYTES in %s, block %" PRIu64 "\n", name, i);
                report.wrong++;
            }
        }
        close_images(&d);
    }
    free(buf);
    free(sums);
}

int main(int argc, char **argv)
{
    uint64_t part, parts;
    int sums = argc == 6 && strcmp(argv[4], "sums") == 0;
    int reads = argc == 8 && strcmp(argv[4], "read") == 0 &&
                sscanf(argv[7], "%" SCNu64 "/%" SCNu64, &part, &parts) == 2 && part < parts;
    hsize_t rows = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    if (rows < 1 || (!sums && !reads)) {
        fprintf(stderr, "usage: client_load FILE DSET ROWS sums OUT | URL DSET ROWS read SUMS SECONDS I/N\n");
        return 2;
    }
    if (H5open() < 0)
        die("HDF5 does not start");
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (sums) {
        write_sums(argv[1], argv[2], rows, argv[5]);
        return 0;
    }
    read_until(argv[1], argv[2], rows, argv[5], strtod(argv[6], NULL), part, parts);
    printf("{\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"wrong\":%" PRIu64 ",\"failed\":%" PRIu64
           ",\"opened\":%" PRIu64 ",\"longest\":%.3f}\n",
           report.blocks, report.bytes, report.wrong, report.failed, report.opened, report.longest);
    return report.wrong || report.failed;
}
