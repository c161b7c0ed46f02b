/* Files of HDF5's multi driver, whose parts' names stand in the file.
 *
 * usage: test_multi make PATH VERSION TEMPLATE EXTERNAL    VERSION: old or latest
 *            makes PATH-s.h5, with its raw data in the part TEMPLATE and its local heaps in PATH-l.h5,
 *            and with a dataset "ext" in the file EXTERNAL, unless that is ""
 *        test_multi read CA_BUNDLE PATH
 *            reads it, as the default multi driver names parts, each through this driver: prints the sums of "d" and
 *            of "ext", or the error
 */
#include "check.h"
#include "xhdf5.h"

#define VALUES 50

static void make_set(hid_t file, const char *name, const char *external)
{
    double v[VALUES];
    hsize_t n = VALUES;
    hid_t space = H5Screate_simple(1, &n, NULL), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    for (int i = 0; i < VALUES; i++)
        v[i] = 2;
    if (external)
        CHECK(H5Pset_external(dcpl, external, 0, sizeof v) >= 0);
    CHECK(H5Pset_obj_track_times(dcpl, 0) >= 0); /* the same bytes each time: see make */
    hid_t set = H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    CHECK(set >= 0);
    if (!external)
        CHECK(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    CHECK(H5Dclose(set) >= 0 && H5Pclose(dcpl) >= 0 && H5Sclose(space) >= 0);
}

static int make(char **argv)
{
    H5FD_mem_t map[H5FD_MEM_NTYPES];
    hid_t fapls[H5FD_MEM_NTYPES], fapl = H5Pcreate(H5P_FILE_ACCESS);
    const char *names[H5FD_MEM_NTYPES];
    haddr_t at[H5FD_MEM_NTYPES];
    for (int i = 0; i < H5FD_MEM_NTYPES; i++) {
        map[i] = H5FD_MEM_SUPER;
        fapls[i] = H5P_DEFAULT;
        names[i] = "%s-s.h5";
        at[i] = 0;
    }
    map[H5FD_MEM_DRAW] = H5FD_MEM_DRAW;
    names[H5FD_MEM_DRAW] = argv[4];
    at[H5FD_MEM_DRAW] = HADDR_MAX / 4;
    map[H5FD_MEM_LHEAP] = H5FD_MEM_LHEAP;
    names[H5FD_MEM_LHEAP] = "%s-l.h5";
    at[H5FD_MEM_LHEAP] = HADDR_MAX / 2;
    if (strcmp(argv[3], "latest") == 0)
        CHECK(H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST) >= 0);
    CHECK(H5Pset_fapl_multi(fapl, map, fapls, names, at, 0) >= 0);
    /* Where a part ends with what may begin a list of external files, it is refused; by chance, the checksum of a time
     * does, of one file in some thirty. */
    hid_t fcpl = H5Pcreate(H5P_FILE_CREATE);
    CHECK(H5Pset_obj_track_times(fcpl, 0) >= 0);
    hid_t file = H5Fcreate(argv[2], H5F_ACC_TRUNC, fcpl, fapl);
    CHECK(file >= 0 && H5Pclose(fcpl) >= 0);
    make_set(file, "d", NULL);
    if (*argv[5])
        make_set(file, "ext", argv[5]);
    CHECK(H5Fclose(file) >= 0 && H5Pclose(fapl) >= 0);
    return 0;
}

static herr_t print_text(unsigned n, const H5E_error2_t *e, void *unused)
{
    if (n > 0 && e->desc)
        printf(" | %s", e->desc);
    return 0;
}

static void say_error(const char *what)
{
    printf("%s error", what);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, print_text, NULL);
    printf("\n");
}

static int read_all(char **argv)
{
    static const char *const sets[] = {"d", "ext"};
    H5FD_xhdf5_config_t config = H5FD_XHDF5_CONFIG_INIT;
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), part = H5Pcreate(H5P_FILE_ACCESS), fapls[H5FD_MEM_NTYPES];
    config.ca_bundle = argv[2];
    config.shadow = 0;
    CHECK(H5Pset_fapl_xhdf5(part, &config) >= 0);
    for (int i = 0; i < H5FD_MEM_NTYPES; i++)
        fapls[i] = part;
    CHECK(H5Pset_fapl_multi(fapl, NULL, fapls, NULL, NULL, 1) >= 0);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = H5Fopen(argv[3], H5F_ACC_RDONLY, fapl);
    if (file < 0) {
        say_error("open");
        return 0;
    }
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        double v[VALUES], sum = 0;
        hid_t set = H5Dopen2(file, sets[k], H5P_DEFAULT);
        if (set < 0 && H5Lexists(file, sets[k], H5P_DEFAULT) == 0)
            continue;
        if (set < 0 || H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) < 0) {
            say_error(sets[k]);
            continue;
        }
        for (int i = 0; i < VALUES; i++)
            sum += v[i];
        printf("%s %.0f\n", sets[k], sum);
        CHECK(H5Dclose(set) >= 0);
    }
    CHECK(H5Fclose(file) >= 0 && H5Pclose(fapl) >= 0 && H5Pclose(part) >= 0);
    return 0;
}

int main(int argc, char **argv)
{
    CHECK(argc > 3);
    if (argc == 6 && strcmp(argv[1], "make") == 0)
        return make(argv);
    CHECK(argc == 4 && strcmp(argv[1], "read") == 0);
    return read_all(argv);
}
