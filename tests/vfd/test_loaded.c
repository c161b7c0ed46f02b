/* A program that links the library while HDF5 has loaded the same driver as a plugin
 * (HDF5_DRIVER and HDF5_PLUGIN_PATH are set): one driver, one ID, one file. */
#include "check.h"
#include "xhdf5.h"

int main(int argc, char **argv)
{
    H5FD_xhdf5_config_t config = H5FD_XHDF5_CONFIG_INIT;
    CHECK(argc == 2);
    hid_t plain = H5Pcreate(H5P_FILE_ACCESS), fapl = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5FD_XHDF5 > 0 && H5Pget_driver(plain) == H5FD_XHDF5);
    CHECK(H5Pget_fapl_xhdf5(plain, &config) >= 0 && config.connections == H5FD_XHDF5_UNSET);
    config.connections = 2;
    CHECK(H5Pset_fapl_xhdf5(fapl, &config) >= 0 && H5Pget_driver(fapl) == H5Pget_driver(plain));
    hid_t f1 = H5Fopen(argv[1], H5F_ACC_RDONLY, plain), f2 = H5Fopen(argv[1], H5F_ACC_RDONLY, fapl);
    unsigned long n1 = 0, n2 = 1;
    CHECK(f1 >= 0 && f2 >= 0 && H5Fget_fileno(f1, &n1) >= 0 && H5Fget_fileno(f2, &n2) >= 0 && n1 == n2);
    /* A file tells the settings that it was opened with. */
    hid_t f3 = H5Freopen(f1), of_file = H5Fget_access_plist(f2);
    CHECK(f3 >= 0 && H5Pget_fapl_xhdf5(of_file, &config) >= 0);
    H5Fclose(f1);
    H5Fclose(f2);
    H5Fclose(f3);
    f2 = H5Fopen(argv[1], H5F_ACC_RDONLY, fapl);
    H5Pclose(of_file);
    of_file = H5Fget_access_plist(f2);
    config = (H5FD_xhdf5_config_t)H5FD_XHDF5_CONFIG_INIT;
    CHECK(H5Pget_fapl_xhdf5(of_file, &config) >= 0 && config.connections == 2);
    H5Fclose(f2);
    CHECK(H5close() >= 0);
    puts("ok");
    return 0;
}
