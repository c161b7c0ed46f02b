/* Writes a small HDF5 file with one data set of doubles, "d". usage: make_sample FILE */
#include "check.h"

int main(int argc, char **argv)
{
    static double v[20000];
    hsize_t n = 20000, chunk = 1000;
    CHECK(argc == 2);
    for (int i = 0; i < 20000; i++)
        v[i] = i * 0.5;
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, &n, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(H5Pset_chunk(dcpl, 1, &chunk) >= 0);
    hid_t set = H5Dcreate2(file, "d", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    CHECK(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    H5Dclose(set);
    CHECK(H5Fclose(file) >= 0);
    return 0;
}
