/* Reads a data set in all ranks of a job, through the driver for collective access, and compares every byte with
 * the local original, which HDF5's own driver reads.
 *
 * Usage: read_together TARGET ORIGINAL WORD...
 *   independent   the transfers are, else collective      metadata     metadata is read collectively
 *   rows columns points all uneven none                   the share of each rank, one after the other
 *   int64         into another type than the file's       noselection  selection I/O is off
 *   walk          visits every object and its attributes  open         nothing but that
 *   broken=LINK   which no rank can follow                length=DATASET   of one dimension, the same in all ranks
 *   DATASET       a word with a '/' : from here on
 * Rank 0 prints "NAME SHARE mode=M" for each, HDF5's word for how the transfer went, and "objects=N". */
#include <mpi.h>
#include <stdint.h>

#include "check.h"
#include "xhdf5_mpi.h"

static int rank, size;

/* What of |space| this rank reads. Returns the number of elements. */
static hssize_t share(hid_t space, const char *how)
{
    hsize_t dims[3], start[3] = {0}, count[3], stride[3] = {1, 1, 1};
    int n = H5Sget_simple_extent_dims(space, dims, NULL);
    CHECK(n == 2);
    memcpy(count, dims, sizeof count);
    if (!strcmp(how, "rows")) {
        start[0] = dims[0] * (hsize_t)rank / (hsize_t)size;
        count[0] = dims[0] * (hsize_t)(rank + 1) / (hsize_t)size - start[0];
    } else if (!strcmp(how, "columns")) {
        start[1] = (hsize_t)rank;
        stride[1] = (hsize_t)size;
        count[1] = dims[1] / (hsize_t)size;
    } else if (!strcmp(how, "uneven")) { /* the first rank reads nothing, the others windows that overlap */
        count[0] = rank ? dims[0] / 2 + (hsize_t)rank : 0;
        count[1] = dims[1] / 3 + (hsize_t)rank;
        start[0] = rank ? 3 : 0;
        start[1] = 7;
    } else if (!strcmp(how, "points")) {
        hsize_t at[200][2];
        for (int i = 0; i < 200; i++) {
            at[i][0] = ((hsize_t)i * 7919 + (hsize_t)rank * 31) % dims[0];
            at[i][1] = ((hsize_t)i * 104729 + (hsize_t)rank) % dims[1];
        }
        CHECK(H5Sselect_elements(space, H5S_SELECT_SET, 200, &at[0][0]) >= 0);
        return 200;
    } else if (!strcmp(how, "all")) {
        return H5Sget_select_npoints(space);
    }
    if (!strcmp(how, "none") || count[0] == 0)
        CHECK(H5Sselect_none(space) >= 0);
    else
        CHECK(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL) >= 0);
    return H5Sget_select_npoints(space);
}

static void *read_share(hid_t file, const char *name, const char *how, hid_t type, hid_t dxpl, size_t *bytes)
{
    hid_t dset = H5Dopen2(file, name, H5P_DEFAULT);
    CHECK(dset >= 0);
    hid_t space = H5Dget_space(dset);
    hsize_t n = (hsize_t)share(space, how);
    hid_t mem = H5Scopy(space);
    if (strcmp(how, "all")) {
        H5Sclose(mem);
        hsize_t room = n + 5; /* the selection in memory is not all of it */
        mem = H5Screate_simple(1, &room, NULL);
        hsize_t start = 2;
        if (n)
            CHECK(H5Sselect_hyperslab(mem, H5S_SELECT_SET, &start, NULL, &n, NULL) >= 0);
        else
            CHECK(H5Sselect_none(mem) >= 0);
    }
    *bytes = (n + 5) * H5Tget_size(type);
    char *buf = malloc(*bytes);
    memset(buf, 0x5a, *bytes);
    CHECK(H5Dread(dset, type, mem, space, dxpl, buf) >= 0);
    H5Sclose(mem);
    H5Sclose(space);
    H5Dclose(dset);
    return buf;
}

static void compare(hid_t file, hid_t original, const char *name, const char *how, hid_t type, hid_t dxpl)
{
    size_t n, m;
    char *got = read_share(file, name, how, type, dxpl, &n),
         *want = read_share(original, name, how, type, H5P_DEFAULT, &m);
    H5D_mpio_actual_io_mode_t mode;
    CHECK(H5Pget_mpio_actual_io_mode(dxpl, &mode) >= 0);
    if (rank == 0)
        printf("%s %s mode=%d\n", name, how, (int)mode);
    CHECK(n == m);
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i]) {
            fprintf(stderr, "rank %d: %s, %s: wrong byte at %zu of %zu\n", rank, name, how, i, n);
            exit(1);
        }
    free(got);
    free(want);
}

static long objects;

static herr_t see_attribute(hid_t obj, const char *name, const H5A_info_t *info, void *arg)
{
    hid_t a = H5Aopen(obj, name, H5P_DEFAULT);
    CHECK(a >= 0);
    objects++;
    return H5Aclose(a);
}

static herr_t see_object(hid_t obj, const char *name, const H5O_info2_t *info, void *arg)
{
    hsize_t at = 0;
    hid_t o = H5Oopen(obj, name, H5P_DEFAULT);
    CHECK(o >= 0);
    objects++;
    CHECK(H5Aiterate2(o, H5_INDEX_NAME, H5_ITER_INC, &at, see_attribute, NULL) >= 0);
    return H5Oclose(o);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), dxpl = H5Pcreate(H5P_DATASET_XFER), type = H5T_NATIVE_INT32;
    const char *name = "/gzip";
    H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE);
    CHECK(H5Pset_fapl_xhdf5_mpi(fapl, MPI_COMM_WORLD, MPI_INFO_NULL, NULL) >= 0);
    for (int i = 3; i < argc; i++)
        if (!strcmp(argv[i], "metadata"))
            H5Pset_all_coll_metadata_ops(fapl, 1);
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, fapl);
    if (file < 0) { /* in all ranks, and each has its reason */
        char text[4096];
        int same, all;
        snprintf(text, sizeof text, "%s", check_error_text());
        MPI_Bcast(text, sizeof text, MPI_CHAR, 0, MPI_COMM_WORLD);
        same = !strcmp(text, check_error_text());
        MPI_Allreduce(&same, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            printf("failed alike in %d: %s\n", all, text);
        MPI_Finalize();
        return 3;
    }
    hid_t plain = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_sec2(plain);
    hid_t original = H5Fopen(argv[2], H5F_ACC_RDONLY, plain);
    CHECK(original >= 0);
    for (int i = 3; i < argc; i++) {
        if (!strcmp(argv[i], "independent"))
            H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_INDEPENDENT);
        else if (!strcmp(argv[i], "int64"))
            type = H5T_NATIVE_INT64;
        else if (!strcmp(argv[i], "noselection"))
            H5Pset_selection_io(dxpl, H5D_SELECTION_IO_MODE_OFF);
        else if (!strcmp(argv[i], "walk"))
            CHECK(H5Ovisit3(file, H5_INDEX_NAME, H5_ITER_INC, see_object, NULL, H5O_INFO_BASIC) >= 0);
        else if (!strncmp(argv[i], "broken=", 7)) { /* a link that no rank can follow, and none waits for another */
            int failed = H5Oopen(file, argv[i] + 7, H5P_DEFAULT) < 0, all;
            MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            if (rank == 0)
                printf("%s not followed in %d\n", argv[i] + 7, all);
        } else if (!strncmp(argv[i], "length=", 7)) { /* of a virtual data set, whose sources are opened for that */
            hid_t dset = H5Dopen2(file, argv[i] + 7, H5P_DEFAULT), space = H5Dget_space(dset);
            hsize_t dims[1], least;
            CHECK(H5Sget_simple_extent_dims(space, dims, NULL) == 1 && H5Sclose(space) >= 0 && H5Dclose(dset) >= 0);
            MPI_Allreduce(dims, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
            CHECK(least == dims[0]);
            if (rank == 0)
                printf("%s length=%llu\n", argv[i] + 7, (unsigned long long)least);
        } else if (argv[i][0] == '/')
            name = argv[i];
        else if (strcmp(argv[i], "metadata") && strcmp(argv[i], "open"))
            compare(file, original, name, argv[i], type, dxpl);
    }
    hid_t again = H5Fget_access_plist(file);
    MPI_Comm comm;
    MPI_Info info;
    int same;
    CHECK(H5Pget_mpi_params(again, &comm, &info) >= 0);
    CHECK(MPI_Comm_compare(comm, MPI_COMM_WORLD, &same) == MPI_SUCCESS && same == MPI_CONGRUENT);
    MPI_Comm_free(&comm);
    MPI_Info_free(&info);
    H5Pclose(again);
    CHECK(H5Fclose(original) >= 0 && H5Fclose(file) >= 0);
    H5Pclose(plain);
    H5Pclose(dxpl);
    H5Pclose(fapl);
    if (rank == 0)
        printf("objects=%ld\n", objects);
    MPI_Finalize();
    return 0;
}
