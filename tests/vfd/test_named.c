/* Opens a file by H5Pset_fapl_xhdf5, with what the environment has not: the options come in the C struct. Prints a line
 * for each dataset: its name, then the sum of its values, or "error" and the error stack's texts.
 *
 * usage: test_named CA_BUNDLE CREDENTIAL_HOSTS NETRC PAGE_BUFFER FILE DATASET...
 *        test_named make DIRECTORY EXTERNAL     makes files with external raw data in the file EXTERNAL
 *
 * ELINK=struct: external links are followed with a list of the program's own (H5Pset_elink_fapl), made like the file's.
 * ELINK=name: that list names the driver, and nothing else has: the file is opened by HDF5's own one. */
#include "check.h"
#include "xhdf5.h"

static herr_t print_text(unsigned n, const H5E_error2_t *e, void *unused)
{
    if (n > 0 && e->desc)
        printf(" | %s", e->desc);
    return 0;
}

static void read_set(hid_t file, const char *name, hid_t dapl)
{
    double v[50], sum = 0;
    hid_t set = H5Dopen2(file, name, dapl);
    if (set >= 0 && H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0) {
        for (int i = 0; i < 50; i++)
            sum += v[i];
        printf("%s %.0f\n", name, sum);
    } else {
        printf("%s error", name);
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, print_text, NULL);
        printf("\n");
    }
    if (set >= 0)
        H5Dclose(set);
}

/* A file with a dataset "ext" of 50 doubles in |external|. */
static void make(const char *dir, const char *name, const char *external, hid_t fcpl, hid_t fapl)
{
    char path[4096];
    hsize_t n = 50;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    hid_t space = H5Screate_simple(1, &n, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    CHECK(file >= 0 && H5Pset_external(dcpl, external, 0, n * sizeof(double)) >= 0);
    hid_t set = H5Dcreate2(file, "ext", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    CHECK(set >= 0 && H5Dclose(set) >= 0 && H5Pclose(dcpl) >= 0 && H5Sclose(space) >= 0 && H5Fclose(file) >= 0);
}

static int make_all(const char *dir, const char *external)
{
    H5AC_cache_image_config_t image = {H5AC__CURR_CACHE_IMAGE_CONFIG_VERSION, 1, 0,
                                       H5AC__CACHE_IMAGE__ENTRY_AGEOUT__NONE};
    hid_t old = H5Pcreate(H5P_FILE_ACCESS), latest = H5Pcreate(H5P_FILE_ACCESS), cached = H5Pcreate(H5P_FILE_ACCESS);
    hid_t paged = H5Pcreate(H5P_FILE_CREATE), block = H5Pcreate(H5P_FILE_CREATE);
    CHECK(H5Pset_libver_bounds(latest, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST) >= 0);
    CHECK(H5Pset_libver_bounds(cached, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST) >= 0);
    CHECK(H5Pset_mdc_image_config(cached, &image) >= 0);
    CHECK(H5Pset_file_space_strategy(paged, H5F_FSPACE_STRATEGY_PAGE, 1, 1) >= 0);
    CHECK(H5Pset_userblock(block, 1024) >= 0);
    make(dir, "old.h5", external, H5P_DEFAULT, old);
    make(dir, "latest.h5", external, H5P_DEFAULT, latest);
    make(dir, "image.h5", external, H5P_DEFAULT, cached);
    make(dir, "paged.h5", external, paged, latest);
    make(dir, "block.h5", external, block, old);
    H5Pclose(old);
    H5Pclose(latest);
    H5Pclose(cached);
    H5Pclose(paged);
    H5Pclose(block);
    return 0;
}

/* What datasets are opened with, where the program follows external links with |fapl|. */
static hid_t follow_with(hid_t fapl)
{
    hid_t dapl = H5Pcreate(H5P_DATASET_ACCESS);
    CHECK(dapl >= 0 && H5Pset_elink_fapl(dapl, fapl) >= 0);
    return dapl;
}

static int read_sets(char **argv, hid_t fapl, hid_t dapl)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = H5Fopen(argv[5], H5F_ACC_RDONLY, fapl);
    if (file < 0) {
        printf("open error");
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, print_text, NULL);
        printf("\n");
        return 0;
    }
    for (char **name = argv + 6; *name; name++)
        read_set(file, *name, dapl);
    CHECK(H5Fclose(file) >= 0);
    CHECK(fapl == H5P_DEFAULT || H5Pclose(fapl) >= 0);
    CHECK(dapl == H5P_DEFAULT || H5Pclose(dapl) >= 0);
    CHECK(H5close() >= 0);
    return 0;
}

/* Nothing but the list for external links knows of the driver. */
static int read_by_name(char **argv, const char *config)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(fapl >= 0 && H5Pset_driver_by_name(fapl, "xhdf5", config) >= 0);
    hid_t dapl = follow_with(fapl);
    CHECK(H5Pclose(fapl) >= 0);
    return read_sets(argv, H5P_DEFAULT, dapl);
}

int main(int argc, char **argv)
{
    const char *elink = getenv("ELINK") ? getenv("ELINK") : "";
    H5FD_xhdf5_config_t config = H5FD_XHDF5_CONFIG_INIT;
    if (argc == 4 && strcmp(argv[1], "make") == 0)
        return make_all(argv[2], argv[3]);
    CHECK(argc > 6 && !getenv("HDF5_DRIVER") && !getenv("XHDF5_CA_BUNDLE"));
    if (strcmp(elink, "name") == 0) {
        char text[4096];
        snprintf(text, sizeof text, "ca_bundle=%s,credential_hosts=%s,netrc=%s,shadow=off", argv[1], argv[2], argv[3]);
        return read_by_name(argv, text);
    }
    config.ca_bundle = argv[1];
    config.credential_hosts = argv[2];
    config.netrc = atoi(argv[3]);
    config.shadow = 0;
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_xhdf5(fapl, &config) >= 0);
    if (atoi(argv[4]))
        CHECK(H5Pset_page_buffer_size(fapl, (size_t)atoi(argv[4]), 0, 0) >= 0);
    return read_sets(argv, fapl, *elink ? follow_with(fapl) : H5P_DEFAULT);
}
