/* An ordinary HDF5 program: it knows nothing of xhdf5. With HDF5_DRIVER=xhdf5 and
 * HDF5_PLUGIN_PATH in its environment it reads URLs.
 *
 * Usage: demo_read FILE-OR-URL [DATASET]
 * Reads the dataset, or the largest one of numbers in the file, along its first dimension: an image
 * at a time, or as many rows as come to 4 MiB. Prints
 *   seconds=… bytes=… mb_per_s=… sum=… dataset=…
 * The time runs from before H5Fopen to after H5Fclose; the sum is of all bytes in order. */
#include <hdf5.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLAB_BYTES (4u << 20)

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* FNV-1a over words rather than bytes, so that it is not what is measured. */
static uint64_t add(uint64_t sum, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t word;
    size_t i = 0;
    for (; n - i >= sizeof word; i += sizeof word) {
        memcpy(&word, p + i, sizeof word);
        sum = (sum ^ word) * 0x100000001b3u;
        sum ^= sum >> 29;
    }
    for (; i < n; i++)
        sum = (sum ^ p[i]) * 0x100000001b3u;
    return sum;
}

/* Bytes that all of the dataset takes in memory, 0 for what this program does not read: strings
 * and other types that hold pointers. */
static uint64_t dataset_bytes(hid_t dset)
{
    hid_t type = H5Dget_type(dset), space = H5Dget_space(dset);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    uint64_t size = 0;
    if (H5Tdetect_class(type, H5T_VLEN) <= 0 && H5Tis_variable_str(type) <= 0 &&
        H5Tdetect_class(type, H5T_REFERENCE) <= 0 && n > 0)
        size = (uint64_t)n * H5Tget_size(type);
    H5Sclose(space);
    H5Tclose(type);
    return size;
}

struct largest {
    uint64_t bytes;
    char name[1024];
};

static herr_t consider(hid_t file, const char *name, const H5O_info2_t *info, void *arg)
{
    struct largest *best = arg;
    if (info->type != H5O_TYPE_DATASET || strlen(name) >= sizeof best->name)
        return 0;
    hid_t dset = H5Dopen2(file, name, H5P_DEFAULT);
    uint64_t bytes = dset < 0 ? 0 : dataset_bytes(dset);
    if (bytes > best->bytes) {
        best->bytes = bytes;
        strcpy(best->name, name);
    }
    if (dset >= 0)
        H5Dclose(dset);
    return 0;
}

/* Reads |dset| slab by slab. Returns 0 and sets |*sum| and |*bytes|, or -1 with HDF5's errors printed. */
static int read_slabs(hid_t dset, uint64_t *sum, uint64_t *bytes)
{
    int result = -1;
    hid_t stored = H5Dget_type(dset), type = H5Tget_native_type(stored, H5T_DIR_DEFAULT);
    hid_t space = H5Dget_space(dset), memory = -1;
    int rank = H5Sget_simple_extent_ndims(space);
    hsize_t dims[H5S_MAX_RANK] = {1}, at[H5S_MAX_RANK] = {0}, slab[H5S_MAX_RANK];
    void *buf = NULL;
    if (type < 0 || rank < 0 || H5Sget_simple_extent_dims(space, dims, NULL) < 0)
        goto out;
    if (rank == 0) /* a scalar is a row of one */
        H5Sset_extent_simple(space, rank = 1, dims, NULL);
    size_t row_bytes = H5Tget_size(type);
    for (int i = 1; i < rank; i++)
        row_bytes *= dims[i];
    hsize_t rows = row_bytes == 0 || row_bytes > SLAB_BYTES || rank > 2 ? 1 : SLAB_BYTES / row_bytes;
    if (rows > dims[0])
        rows = dims[0];
    memcpy(slab, dims, sizeof slab);
    buf = malloc(rows * row_bytes + 1);
    for (; buf && row_bytes > 0 && at[0] < dims[0]; at[0] += slab[0]) {
        slab[0] = rows < dims[0] - at[0] ? rows : dims[0] - at[0];
        memory = H5Screate_simple(rank, slab, NULL);
        if (H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, slab, NULL) < 0 ||
            H5Dread(dset, type, memory, space, H5P_DEFAULT, buf) < 0)
            goto out;
        H5Sclose(memory);
        memory = -1;
        *sum = add(*sum, buf, slab[0] * row_bytes);
        *bytes += slab[0] * row_bytes;
    }
    result = buf ? 0 : -1;
out:
    free(buf);
    if (memory >= 0)
        H5Sclose(memory);
    H5Sclose(space);
    H5Tclose(type);
    H5Tclose(stored);
    return result;
}

int main(int argc, char **argv)
{
    struct largest choice = {0};
    uint64_t sum = 0xcbf29ce484222325u, bytes = 0;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: demo_read FILE-OR-URL [DATASET]\n");
        return 2;
    }
    double start = now_s();
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        return 1;
    const char *name = argv[argc - 1];
    if (argc == 2) {
        if (H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_NATIVE, consider, &choice, H5O_INFO_BASIC) < 0)
            return 1;
        if (choice.bytes == 0) {
            fprintf(stderr, "demo_read: no dataset of numbers in %s\n", argv[1]);
            return 1;
        }
        name = choice.name;
    }
    hid_t dset = H5Dopen2(file, name, H5P_DEFAULT);
    if (dset < 0 || dataset_bytes(dset) == 0) {
        fprintf(stderr, "demo_read: %s is not a dataset of numbers\n", name);
        return 1;
    }
    if (read_slabs(dset, &sum, &bytes) != 0)
        return 1;
    H5Dclose(dset);
    H5Fclose(file);
    double seconds = now_s() - start;
    printf("seconds=%.3f bytes=%" PRIu64 " mb_per_s=%.1f sum=%016" PRIx64 " dataset=%s\n", seconds, bytes,
           (double)bytes / seconds / 1e6, sum, name);
    return 0;
}
