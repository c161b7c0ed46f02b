/* The sum of a dataset at a server, of which each rank of an MPI program reads its slab, all together.
 *
 * usage: mpiexec -n N mpi_slabs URL-OR-FILE DATASET
 *
 * Rank 0 alone asks for the metadata, and the others are told. Build: mpicc mpi_slabs.c -o mpi_slabs with the HDF5 of
 * that MPI and -lhdf5_vfd_xhdf5_mpi (docs/mpi.md). */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <xhdf5_mpi.h>

/* Reads the rank's rows of |set| and adds them up. */
static double add_rows(hid_t set, int rank, int ranks, hid_t dxpl)
{
    hsize_t dims[H5S_MAX_RANK], start[H5S_MAX_RANK] = {0}, count[H5S_MAX_RANK], n = 1;
    hid_t space = H5Dget_space(set);
    int nd = H5Sget_simple_extent_dims(space, dims, NULL);
    if (nd < 1)
        MPI_Abort(MPI_COMM_WORLD, 1);
    start[0] = dims[0] * (hsize_t)rank / (hsize_t)ranks;
    for (int d = 0; d < nd; d++) {
        count[d] = d ? dims[d] : dims[0] * (hsize_t)(rank + 1) / (hsize_t)ranks - start[0];
        n *= count[d];
    }
    hid_t memory = H5Screate_simple(1, &n, NULL);
    double *v = malloc(n * sizeof *v + 1), sum = 0;
    if (n == 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) < 0)
        H5Sselect_none(space); /* who has no share takes part all the same */
    if (!v || H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, dxpl, v) < 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (hsize_t i = 0; i < n; i++)
        sum += v[i];
    free(v);
    H5Sclose(memory);
    H5Sclose(space);
    return sum;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    double sum = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), dxpl = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_xhdf5_mpi(fapl, MPI_COMM_WORLD, MPI_INFO_NULL, NULL);
    H5Pset_all_coll_metadata_ops(fapl, 1);
    H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE);
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, fapl);
    hid_t set = file < 0 ? H5I_INVALID_HID : H5Dopen2(file, argv[2], H5P_DEFAULT);
    if (set < 0)
        MPI_Abort(MPI_COMM_WORLD, 1); /* HDF5 has printed why */
    sum = add_rows(set, rank, ranks, dxpl);
    H5Dclose(set);
    H5Fclose(file);
    H5Pclose(dxpl);
    H5Pclose(fapl);
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d ranks, sum %.6g\n", ranks, all);
    MPI_Finalize();
    return 0;
}
