/* Makes, changes and checks a file; local_shadow.py kills it meanwhile. The driver is the environment's.
 *
 *   local_writer make FILE [latest]    32 old datasets in 4 groups, and 16 that are there to be deleted
 * local_writer change FILE [latest]  40 new datasets, attributes, growth, deletions: a flush in the middle, then
 * closes
 *   local_writer leave FILE            20 new datasets; ends without a flush, and without closing the file
 *   local_writer forget FILE           the same with a flush, and HDF5 does not close it either
 *   local_writer check FILE            prints opens|shut, and how many of the old, flushed and late datasets are right
 *
 * A dataset's values follow from its name; nothing that "change" does touches the old datasets' values. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 300

static void must(int ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "local_writer: %s\n", what);
    exit(1);
}

static void values(const char *name, int *data)
{
    unsigned h = 5381;
    for (const char *c = name; *c; c++)
        h = h * 33 + (unsigned char)*c;
    for (unsigned i = 0; i < N; i++)
        data[i] = (int)(h + i);
}

static void name_of(char *out, size_t size, const char *kind, int i)
{
    snprintf(out, size, "g%d/%s%d", i % 4, kind, i);
}

static void put(hid_t file, const char *kind, int i)
{
    char name[32];
    int data[N];
    hsize_t dim = N, most = H5S_UNLIMITED, chunk = 100;
    hid_t space = H5Screate_simple(1, &dim, i % 3 ? NULL : &most), dcpl = H5Pcreate(H5P_DATASET_CREATE);
    name_of(name, sizeof name, kind, i);
    values(name, data);
    if (i % 3 == 0)
        H5Pset_chunk(dcpl, 1, &chunk);
    hid_t d = H5Dcreate2(file, name, H5T_NATIVE_INT, space, H5P_DEFAULT, dcpl, H5P_DEFAULT);
    must(d >= 0 && H5Dwrite(d, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0, name);
    H5Dclose(d);
    H5Pclose(dcpl);
    H5Sclose(space);
}

static int right(hid_t file, const char *kind, int i)
{
    char name[32];
    int want[N], data[N] = {0};
    name_of(name, sizeof name, kind, i);
    values(name, want);
    hid_t d = H5Dopen2(file, name, H5P_DEFAULT);
    int ok = d >= 0 && H5Dread(d, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0 &&
             memcmp(want, data, sizeof want) == 0;
    if (d >= 0)
        H5Dclose(d);
    return ok;
}

static void put_all(hid_t file, const char *kind, int n)
{
    for (int i = 0; i < n; i++)
        put(file, kind, i);
}

static void note(hid_t file, int i)
{
    char name[32];
    hid_t space = H5Screate(H5S_SCALAR);
    name_of(name, sizeof name, "old", i);
    hid_t a = H5Acreate_by_name(file, name, "note", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    must(a >= 0 && H5Awrite(a, H5T_NATIVE_INT, &i) >= 0, "an attribute");
    H5Aclose(a);
    H5Sclose(space);
}

int main(int argc, char **argv)
{
    must(argc >= 3, "make|change|leave|forget|check FILE [latest]");
    const char *verb = argv[1], *path = argv[2];
    char name[32];
    int forget = strcmp(verb, "forget") == 0;
    must(!forget || H5dont_atexit() >= 0, "H5dont_atexit");
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS), file;
    if (argc > 3)
        H5Pset_libver_bounds(fapl, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    if (strcmp(verb, "make") == 0) {
        file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);
        for (int i = 0; i < 4; i++) {
            snprintf(name, sizeof name, "g%d", i);
            hid_t g = H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
            must(g >= 0, "a group");
            H5Gclose(g);
        }
        put_all(file, "old", 32);
        put_all(file, "gone", 16);
    } else if (strcmp(verb, "change") == 0) {
        file = H5Fopen(path, H5F_ACC_RDWR, fapl);
        must(file >= 0, "cannot open");
        put_all(file, "flushed", 20);
        for (int i = 0; i < 16; i++)
            note(file, i);
        must(H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "flush");
        for (int i = 0; i < 16; i++) {
            name_of(name, sizeof name, "gone", i);
            must(H5Ldelete(file, name, H5P_DEFAULT) >= 0, "delete");
        }
        put_all(file, "late", 20);
    } else if (forget || strcmp(verb, "leave") == 0) {
        file = H5Fopen(path, H5F_ACC_RDWR, fapl);
        must(file >= 0, "cannot open");
        put_all(file, "late", 20);
        must(!forget || H5Fflush(file, H5F_SCOPE_GLOBAL) >= 0, "flush");
        return 0;
    } else {
        int old = 0, flushed = 0, late = 0;
        H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
        file = H5Fopen(path, H5F_ACC_RDONLY, fapl);
        for (int i = 0; file >= 0 && i < 32; i++) {
            old += right(file, "old", i);
            flushed += i < 20 && right(file, "flushed", i);
            late += i < 20 && right(file, "late", i);
        }
        printf("%s %d %d %d\n", file >= 0 ? "opens" : "shut", old, flushed, late);
        fflush(stdout);
        _Exit(0);
    }
    must(file >= 0 && H5Fclose(file) >= 0, "cannot close");
    return 0;
}
