/* A program without any environment: the driver of a file opened by H5Pset_fapl_xhdf5 is also
 * that of the files that its external links and virtual data sets name. A local file that is open for writing may name
 * a URL: its links are followed for reading where the program asks for that.
 *
 * usage: test_links NAME CA_BUNDLE    NAME has "elsewhere" and "virtual", 50 doubles each */
#include <unistd.h>

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

/* What was refused for writing is not refused for reading. |url|: a file with "d", 50 doubles. */
static void links_of_a_local_file(hid_t fapl, const char *url)
{
    char dir[] = "/tmp/xh-links-XXXXXX", name[64];
    double v[50] = {0};
    CHECK(mkdtemp(dir));
    snprintf(name, sizeof name, "%s/local.h5", dir);
    hid_t file = H5Fcreate(name, H5F_ACC_EXCL, H5P_DEFAULT, fapl), reading = H5Pcreate(H5P_LINK_ACCESS);
    CHECK(file >= 0 && H5Pset_elink_acc_flags(reading, H5F_ACC_RDONLY) >= 0);
    CHECK(H5Lcreate_external(url, "/d", file, "there", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    for (int i = 0; i < 2; i++) {
        H5E_BEGIN_TRY
        {
            CHECK(H5Oopen(file, "there", H5P_DEFAULT) < 0);
        }
        H5E_END_TRY
        CHECK_ERROR("which is open for writing");
        hid_t set = H5Oopen(file, "there", reading);
        CHECK(set >= 0 && H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
        CHECK(v[49] == 49 && H5Dclose(set) >= 0);
    }
    CHECK(H5Pclose(reading) >= 0 && H5Fclose(file) >= 0);
    CHECK(unlink(name) == 0 && rmdir(dir) == 0);
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
    CHECK(file >= 0);
    CHECK(sum_of(file, "elsewhere") == 1225);
    CHECK(sum_of(file, "virtual") == 1225);
    CHECK(H5Fclose(file) >= 0);
    char url[500];
    snprintf(url, sizeof url, "%.*ssub/other.h5", (int)(strrchr(argv[1], '/') + 1 - argv[1]), argv[1]);
    links_of_a_local_file(fapl, url);
    CHECK(H5Pclose(fapl) >= 0);
    CHECK(H5close() >= 0);
    return 0;
}
