/* Writes small files with a chunk index of each kind for the fuzzer: make_indexed OUT KIND, where KIND is btree1,
 * btree2, fixed, paged or extensible; or strings: then it has a dataset of them instead. Chunks have a byte an element:
 * what counts is the index, and the whole of it has to lie within the 64 KiB that the fuzzer's inputs may have. */
#include <hdf5.h>
#include <string.h>

static int write_strings(hid_t file)
{
    static const char *value[600];
    hsize_t n = sizeof value / sizeof *value;
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &n, NULL);
    for (hsize_t i = 0; i < n; i++)
        value[i] = i % 10 ? "a string of variable length, so long that there are some collections" : "another one";
    H5Tset_size(type, H5T_VARIABLE);
    hid_t set = H5Dcreate2(file, "strings", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int ok = H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0;
    H5Dclose(set);
    return ok;
}

int main(int argc, char **argv)
{
    static unsigned char data[8000];
    hsize_t dims[2] = {80, 100}, max[2] = {80, 100}, chunk[2] = {5, 4};
    int ok = argc == 3;
    const char *kind = ok ? argv[2] : "";
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    if (strcmp(kind, "btree1"))
        H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    if (!strcmp(kind, "btree2"))
        max[0] = max[1] = H5S_UNLIMITED;
    if (!strcmp(kind, "extensible"))
        max[0] = H5S_UNLIMITED;
    if (!strcmp(kind, "paged"))
        chunk[0] = chunk[1] = 2;
    for (int i = 0; i < 8000; i++)
        data[i] = (unsigned char)((unsigned)i * 2654435761u >> 24);
    hid_t file = ok ? H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, fapl) : -1;
    if (!strcmp(kind, "strings"))
        return !(write_strings(file) && H5Fclose(file) >= 0);
    hid_t space = H5Screate_simple(2, dims, max);
    H5Pset_chunk(dcpl, 2, chunk);
    H5Pset_deflate(dcpl, 1);
    hid_t set = H5Dcreate2(file, "data", H5T_NATIVE_UCHAR, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    ok = ok && H5Dwrite(set, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0;
    H5Dclose(set);
    return !(H5Fclose(file) >= 0 && ok);
}
