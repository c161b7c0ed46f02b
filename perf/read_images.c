/* Reads a dataset slab by slab along its first dimension, as a viewer of detector images does,
 * through whatever driver the environment names, and prints "seconds=… bytes=… sum=… between=…".
 *
 * Usage: read_images FILE-OR-URL DATASET [FIRST [COUNT]]
 * The sum is a checksum of all bytes in order: compare it with that of the local file. The time
 * runs from before H5Fopen to after H5Fclose; that between runs from after the one to before the other. */
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A sum that notices order; in lanes, so that it costs the processor less than the bytes' way to it. */
#define LANES 8
struct sum {
    uint64_t lane[LANES];
};

static void add(struct sum *sum, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t w[LANES];
    size_t i = 0;
    for (; i + sizeof w <= n; i += sizeof w) {
        memcpy(w, p + i, sizeof w);
        for (int k = 0; k < LANES; k++)
            sum->lane[k] = (sum->lane[k] ^ w[k]) * 0x9E3779B97F4A7C15u;
    }
    for (; i < n; i++)
        sum->lane[i % LANES] = (sum->lane[i % LANES] ^ p[i]) * 0x9E3779B97F4A7C15u;
}

static uint64_t total(const struct sum *sum)
{
    uint64_t all = 0;
    for (int k = 0; k < LANES; k++)
        all = (all ^ sum->lane[k]) * 0x9E3779B97F4A7C15u;
    return all;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: read_images FILE-OR-URL DATASET [FIRST [COUNT]]\n");
        return 2;
    }
    double start = now();
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    double opened = now();
    hid_t dset = file < 0 ? -1 : H5Dopen2(file, argv[2], H5P_DEFAULT);
    if (dset < 0)
        return 1;
    hid_t space = H5Dget_space(dset);
    hid_t type = H5Tget_native_type(H5Dget_type(dset), H5T_DIR_DEFAULT);
    int rank = H5Sget_simple_extent_ndims(space);
    hsize_t dims[H5S_MAX_RANK] = {1}, at[H5S_MAX_RANK] = {0}, slab[H5S_MAX_RANK];
    if (rank < 1)
        return 1;
    H5Sget_simple_extent_dims(space, dims, NULL);
    memcpy(slab, dims, sizeof slab);
    slab[0] = 1;
    hsize_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    hsize_t count = argc > 4 ? strtoull(argv[4], NULL, 10) : dims[0];
    hsize_t elements = 1;
    for (int i = 1; i < rank; i++)
        elements *= dims[i];
    size_t bytes = elements * H5Tget_size(type);
    hid_t mem = H5Screate_simple(rank, slab, NULL);
    void *buf = malloc(bytes ? bytes : 1);
    struct sum sum = {{0}};
    uint64_t all = 0;
    for (hsize_t i = first; buf && i < dims[0] && i - first < count; i++) {
        at[0] = i;
        H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, slab, NULL);
        if (H5Dread(dset, type, mem, space, H5P_DEFAULT, buf) < 0)
            return 1;
        add(&sum, buf, bytes);
        all += bytes;
    }
    free(buf);
    H5Sclose(mem);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dset);
    double closing = now();
    H5Fclose(file);
    printf("seconds=%.6f bytes=%" PRIu64 " sum=%016" PRIx64 " between=%.6f\n", now() - start, all, total(&sum),
           closing - opened);
    return 0;
}
