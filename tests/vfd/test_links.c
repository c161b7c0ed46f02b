/* A program without any environment: the driver of a file opened by H5Pset_fapl_xhdf5 is also
 * that of the files that its external links and virtual data sets name.
 *
 * usage: test_links NAME CA_BUNDLE    NAME has "elsewhere" and "virtual", 50 doubles each */
#include "check.h"
#include "xhdf5.h"

static double sum_of(hid_t file, const char *path)
{
    double v[50], sum = 0;
    hid_t set = H5Dopen2(file, path, H5P_DEFAULT);
    CHECK(set >= 0);
    CHECK(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    H5Dclose(set);
    for (int i = 0; i < 50; i++)
        sum += v[i];
    return sum;
}

int main(int argc, char **argv)
{
    H5FD_xhdf5_config_t config = H5FD_XHDF5_CONFIG_INIT;
    CHECK(argc == 3 && !getenv("HDF5_DRIVER") && !getenv("XHDF5_CA_BUNDLE"));
    config.ca_bundle = argv[2];
    config.shadow = 0;
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_xhdf5(fapl, &config) >= 0);
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, fapl);
    H5Pclose(fapl);
    CHECK(file >= 0);
    CHECK(sum_of(file, "elsewhere") == 1225);
    CHECK(sum_of(file, "virtual") == 1225);
    CHECK(H5Fclose(file) >= 0);
    CHECK(H5close() >= 0);
    return 0;
}
