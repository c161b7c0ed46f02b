/* One kind of read of a URL whose server has a fault, and then a read of one that has none, in one process.
 *
 * Usage: fault_reads KIND URL GOOD-URL LOCAL-COPY, with a contiguous dataset "data" of bytes, ROW_BYTES a row
 *
 * Kinds: head, single, several, ahead, stream, early (a stream that pauses behind its first read), hint. The last
 * four say "now" once what they have read or hinted makes the driver fetch ahead, and wait for a line before they go
 * there. Prints a line
 *     right|WRONG|error ms=N after=right|WRONG|error peak_kib=N
 * and, after an error, what HDF5's stack says. */
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "xhdf5.h"

#define ROW_BYTES 65536u
#define MIB (1u << 20)
#define STEP_BYTES (256u << 10) /* of a reader who goes on */
#define LEAP_BYTES (4u << 20)   /* of one whom the bytes stream to */
#define PIECES 8u
#define PIECE_BYTES 1024u
#define PIECE_STEP_BYTES (2u * ROW_BYTES) /* farther than what is joined */

static int local; /* read, not mapped: mapped pages would count in the peak */
static char said[8192];

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static herr_t keep_text(unsigned n, const H5E_error2_t *e, void *ctx)
{
    size_t len = strlen(said);
    snprintf(said + len, sizeof said - len, "%s\n", e->desc);
    return 0;
}

enum end { RIGHT, WRONG, FAILED };
static const char *const end_names[] = {"right", "WRONG", "error"};

/* What HDF5 says of a failure is kept, of the first one. */
static enum end failed(void)
{
    if (!said[0])
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_text, NULL);
    return FAILED;
}

/* |count| blocks of |len| bytes, |step| apart, from byte |off| of the dataset on. A step is whole rows; a single block
 * too, or it lies in one. */
static enum end read_blocks(hid_t data, hsize_t off, hsize_t count, hsize_t step, hsize_t len)
{
    hsize_t rows = len < ROW_BYTES ? 1 : len / ROW_BYTES, n = count * len;
    hsize_t at[2] = {off / ROW_BYTES, 0}, by[2] = {step / ROW_BYTES, 1}, counts[2] = {count, 1},
            block[2] = {rows, len / rows};
    unsigned char *got = calloc(1, n), *want = malloc(len);
    hid_t space = H5Dget_space(data), memory = H5Screate_simple(1, &n, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, at, by, counts, block);
    enum end end = !got || !want || H5Dread(data, H5T_NATIVE_UCHAR, memory, space, H5P_DEFAULT, got) < 0 ? failed() : RIGHT;
    for (hsize_t i = 0; i < count && end == RIGHT; i++)
        if (pread(local, want, len, (off_t)(H5Dget_offset(data) + off + i * step)) != (ssize_t)len ||
            memcmp(got + i * len, want, len) != 0)
            end = WRONG;
    H5Sclose(space);
    H5Sclose(memory);
    free(got);
    free(want);
    return end;
}

/* From |off| on, upwards. */
static enum end read_up(hid_t data, hsize_t off, hsize_t to, hsize_t step)
{
    enum end end = RIGHT;
    for (; off < to && end == RIGHT; off += step)
        end = read_blocks(data, off, 1, step, step);
    return end;
}

/* Waits until somebody has seen that the fault was met. */
static void wait_for_it(void)
{
    char line[8];
    if (puts("now") < 0 || fflush(stdout) != 0 || !fgets(line, sizeof line, stdin))
        exit(2);
}

static enum end hinted(hid_t data)
{
    haddr_t addrs[PIECES];
    size_t sizes[PIECES];
    for (size_t i = 0; i < PIECES; i++) {
        addrs[i] = H5Dget_offset(data) + 8 * MIB + i * PIECE_STEP_BYTES;
        sizes[i] = PIECE_BYTES;
    }
    if (H5FDxhdf5_prefetch(data, PIECES, addrs, sizes) < 0)
        return failed();
    wait_for_it();
    enum end end = RIGHT;
    for (hsize_t i = 0; i < PIECES && end == RIGHT; i++)
        end = read_blocks(data, 8 * MIB + i * PIECE_STEP_BYTES, 1, ROW_BYTES, PIECE_BYTES);
    return end;
}

/* Of the dataset, where tests/integration/fault_table.py has its faults strike. */
static enum end read_kind(hid_t data, const char *kind)
{
    enum end end = RIGHT;
    if (strcmp(kind, "head") == 0)
        return read_blocks(data, 0, 1, ROW_BYTES, 1024);
    if (strcmp(kind, "single") == 0)
        return read_blocks(data, 8 * MIB, 1, ROW_BYTES, ROW_BYTES);
    if (strcmp(kind, "several") == 0)
        return read_blocks(data, 8 * MIB, PIECES, PIECE_STEP_BYTES, PIECE_BYTES);
    if (strcmp(kind, "hint") == 0)
        return hinted(data);
    int early = strcmp(kind, "early") == 0, streams = early || strcmp(kind, "stream") == 0;
    hsize_t step = streams ? LEAP_BYTES : STEP_BYTES, from = early ? LEAP_BYTES : streams ? 12 * MIB : 2 * MIB;
    if ((end = read_up(data, 0, from, step)) != RIGHT)
        return end;
    wait_for_it();
    return read_up(data, from, streams ? 32 * MIB : 8 * MIB, step);
}

static enum end read_file(const char *url, const char *kind)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    enum end end = FAILED;
    if (H5Pset_fapl_xhdf5(fapl, NULL) < 0)
        return failed();
    hid_t file = H5Fopen(url, H5F_ACC_RDONLY, fapl), data = file < 0 ? -1 : H5Dopen2(file, "data", H5P_DEFAULT);
    end = data < 0 ? failed() : read_kind(data, kind);
    if ((data >= 0 && H5Dclose(data) < 0) || (file >= 0 && H5Fclose(file) < 0))
        end = end == WRONG ? WRONG : failed();
    H5Pclose(fapl);
    return end;
}

/* The most memory that this process had, in KiB. */
static long peak_kib(void)
{
    char line[200];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "VmHWM: %ld", &kib);
    if (f)
        fclose(f);
    return kib;
}

int main(int argc, char **argv)
{
    local = argc == 5 ? open(argv[4], O_RDONLY) : -1;
    if (local < 0)
        return 2;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    double begun = now_ms();
    enum end end = read_file(argv[2], argv[1]);
    double ms = now_ms() - begun;
    long peak = peak_kib();
    enum end after = read_file(argv[3], "single");
    printf("%s ms=%.0f after=%s peak_kib=%ld\n%s", end_names[end], ms, end_names[after], peak, said);
    fflush(stdout); /* the caller sees how long the process takes to end */
    return 0;
}
