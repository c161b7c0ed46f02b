/* A process of the bench of local files: many small datasets written one by one, or some of them read in random order.
 *
 *   bench_client_local write FILE DATASETS BYTES
 *   bench_client_local read FILE DATASETS BYTES COUNT SEED
 *
 * DATASETS datasets of BYTES bytes each, in one group, created, written and closed one after the other; COUNT of them
 * opened, read, checked and closed. The driver is the environment's. Waits for a line on standard input when it is
 * ready, so that many begin together, and prints the seconds from before the file is opened until it is closed. */
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "bench_client_local: %s\n", what);
    exit(1);
}

static void fill(int32_t *data, size_t n, unsigned dataset)
{
    for (size_t i = 0; i < n; i++)
        data[i] = (int32_t)(dataset * 7919u + i);
}

static void write_all(const char *path, unsigned datasets, size_t n, int32_t *data)
{
    hsize_t dim = n;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space = H5Screate_simple(1, &dim, NULL);
    must(file >= 0, "cannot create the file");
    for (unsigned i = 0; i < datasets; i++) {
        char name[32];
        snprintf(name, sizeof name, "block%06u", i);
        fill(data, n, i);
        hid_t d = H5Dcreate2(file, name, H5T_NATIVE_INT32, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        must(d >= 0 && H5Dwrite(d, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, "cannot write");
        must(H5Dclose(d) >= 0, "cannot close a dataset");
    }
    H5Sclose(space);
    must(H5Fclose(file) >= 0, "cannot close the file");
}

static void read_some(const char *path, unsigned datasets, size_t n, int32_t *data, unsigned count, uint64_t seed)
{
    int32_t *want = malloc(n * sizeof *want);
    unsigned *order = malloc(datasets * sizeof *order);
    must(want && order, "no memory");
    for (unsigned i = 0; i < datasets; i++)
        order[i] = i;
    for (unsigned i = 0; i < count; i++) { /* the first |count| of a shuffle */
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        unsigned j = i + (unsigned)((seed >> 33) % (datasets - i)), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    must(file >= 0, "cannot open the file");
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "block%06u", order[i]);
        hid_t d = H5Dopen2(file, name, H5P_DEFAULT);
        must(d >= 0 && H5Dread(d, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, "cannot read");
        fill(want, n, order[i]);
        must(memcmp(want, data, n * sizeof *want) == 0, "wrong bytes");
        H5Dclose(d);
    }
    must(H5Fclose(file) >= 0, "cannot close the file");
}

int main(int argc, char **argv)
{
    must(argc >= 5, "write FILE DATASETS BYTES | read FILE DATASETS BYTES COUNT SEED");
    int writing = strcmp(argv[1], "write") == 0;
    must(writing || argc >= 7, "read FILE DATASETS BYTES COUNT SEED");
    unsigned datasets = (unsigned)atol(argv[3]);
    size_t n = (size_t)atol(argv[4]) / sizeof(int32_t);
    int32_t *data = malloc(n * sizeof *data);
    char line[8];
    must(data && H5open() >= 0, "no HDF5");
    puts("ready");
    fflush(stdout);
    must(fgets(line, sizeof line, stdin) != NULL, "nobody says go");
    double begun = now();
    if (writing)
        write_all(argv[2], datasets, n, data);
    else
        read_some(argv[2], datasets, n, data, (unsigned)atol(argv[5]), (uint64_t)atol(argv[6]));
    printf("%.6f\n", now() - begun);
    return 0;
}
