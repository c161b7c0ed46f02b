/* The bench's reader of several ranks: a dataset of images, each rank a slab of them, by the driver for collective
 * access. Prints one line of JSON as client.c does, for all ranks together.
 *
 *   client_mpi FILE DSET N collective|independent      N images with each call; the sums are of every byte */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "xhdf5_mpi.h"

static void must(int good, const char *what)
{
    if (good)
        return;
    H5Eprint2(H5E_DEFAULT, stderr);
    fprintf(stderr, "client_mpi: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Notices order. */
static uint64_t sum_of(uint64_t sum, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t w;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&w, p, 8);
        sum = (sum ^ w) * 0x9E3779B97F4A7C15u;
    }
    return sum;
}

struct reading {
    uint64_t bytes, sum, calls;
};

/* This rank's slab, |many| images with each call. All ranks make as many calls: who has nothing left selects
 * nothing. */
static struct reading read_slab(hid_t file, const char *name, hsize_t many, hid_t dxpl, int rank, int size)
{
    struct reading r = {0};
    hsize_t dims[3], most = 0;
    hid_t dset = H5Dopen2(file, name, H5P_DEFAULT);
    must(dset >= 0, "cannot open the dataset");
    hid_t space = H5Dget_space(dset), type = H5Dget_type(dset);
    must(H5Sget_simple_extent_dims(space, dims, NULL) == 3, "the dataset is none of images");
    hsize_t begin = dims[0] * (hsize_t)rank / (hsize_t)size, end = dims[0] * (hsize_t)(rank + 1) / (hsize_t)size;
    for (int i = 0; i < size; i++) {
        hsize_t n = dims[0] * (hsize_t)(i + 1) / (hsize_t)size - dims[0] * (hsize_t)i / (hsize_t)size;
        most = n > most ? n : most;
    }
    size_t image = dims[1] * dims[2] * H5Tget_size(type);
    char *buf = malloc(many * image);
    must(buf != NULL, "no memory");
    for (hsize_t done = 0; done < most; done += many, r.calls++) {
        hsize_t at = begin + done, n = at < end ? end - at < many ? end - at : many : 0;
        hsize_t start[3] = {at, 0, 0}, count[3] = {n, dims[1], dims[2]};
        hid_t mem = H5Screate_simple(3, count, NULL);
        must((n ? H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) : H5Sselect_none(space)) >= 0 &&
             H5Dread(dset, type, mem, space, dxpl, buf) >= 0, "cannot read");
        H5Sclose(mem);
        r.sum = sum_of(r.sum, buf, n * image);
        r.bytes += n * image;
    }
    free(buf);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(dset);
    return r;
}

int main(int argc, char **argv)
{
    int rank, size;
    double began = now();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    must(argc == 5 && atoi(argv[3]) > 0, "usage: client_mpi FILE DSET N collective|independent");
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), dxpl = H5Pcreate(H5P_DATASET_XFER);
    must(H5Pset_fapl_xhdf5_mpi(fapl, MPI_COMM_WORLD, MPI_INFO_NULL, NULL) >= 0, "no driver");
    H5Pset_all_coll_metadata_ops(fapl, 1);
    H5Pset_dxpl_mpio(dxpl, strcmp(argv[4], "collective") ? H5FD_MPIO_INDEPENDENT : H5FD_MPIO_COLLECTIVE);
    MPI_Barrier(MPI_COMM_WORLD);
    double init = now();
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, fapl);
    must(file >= 0, "cannot open the file");
    double opened = now();
    struct reading mine = read_slab(file, argv[2], (hsize_t)atoi(argv[3]), dxpl, rank, size), *all = NULL;
    double got = now();
    must(H5Fclose(file) >= 0, "cannot close the file");
    MPI_Barrier(MPI_COMM_WORLD);
    double end = now();
    all = calloc((size_t)size, sizeof *all);
    must(all != NULL, "no memory");
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int i = 1; i < size; i++) {
        all->bytes += all[i].bytes;
        all->sum = (all->sum ^ all[i].sum) * 0xD6E8FEB86659FD93u;
    }
    if (rank == 0)
        printf("{\"main\":%.6f,\"init\":%.6f,\"open\":%.6f,\"read\":%.6f,\"end\":%.6f,\"bytes\":%" PRIu64
               ",\"operations\":%" PRIu64 ",\"sum\":\"%016" PRIx64 "\",\"rss_bytes\":0}\n",
               began, init, opened, got, end, all->bytes, all->calls, all->sum);
    free(all);
    H5Pclose(dxpl);
    H5Pclose(fapl);
    MPI_Finalize();
    return 0;
}
