/* How much stack the driver needs: each way in is taken by a thread whose stack is measured.
 *
 * usage: test_stack WAY URL    WAY: open, link, expect, bytes, change, create, local
 *
 * Prints how many bytes of the stack were used. URL: a file with the datasets "d" and "link_near"; for "create" one
 * that is not there yet; for "local" a path. The options come from the environment. */
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"
#include "xhdf5.h"

#define ROOM  (1u << 20)
#define PAINT 0xa5

static const char *way, *url;

static void read_set(hid_t file, const char *name)
{
    double v[50];
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    CHECK(set >= 0 && H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0 && H5Dclose(set) >= 0);
}

static void change(hid_t file)
{
    double v[50] = {1};
    hid_t set = H5Dopen2(file, "d", H5P_DEFAULT);
    CHECK(set >= 0 && H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0 && H5Dclose(set) >= 0);
}

static void by_hdf5(void)
{
    hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_xhdf5(fapl, NULL) >= 0);
    hid_t file = strcmp(way, "create") == 0 ? H5Fcreate(url, H5F_ACC_TRUNC, H5P_DEFAULT, fapl)
                 : strcmp(way, "change") == 0 ? H5Fopen(url, H5F_ACC_RDWR, fapl)
                 : strcmp(way, "expect") == 0 ? H5FDxhdf5_expect(url, fapl)
                                              : H5Fopen(url, H5F_ACC_RDONLY, fapl);
    CHECK(file >= 0);
    if (strcmp(way, "change") == 0)
        change(file);
    else if (strcmp(way, "create") != 0 && strcmp(way, "expect") != 0)
        read_set(file, strcmp(way, "link") == 0 ? "link_near" : "d");
    CHECK(strcmp(way, "expect") == 0 || H5Fclose(file) >= 0);
    H5Pclose(fapl);
}

static void by_bytes(void)
{
    static char buf[100];
    H5FDxhdf5_why_t why;
    uint64_t off = 0;
    size_t len = sizeof buf;
    void *to = buf;
    CHECK(H5FDxhdf5_bytes_expect(url, NULL, &why) >= 0);
    H5FDxhdf5_bytes_t *b = H5FDxhdf5_bytes_open(url, NULL, &why);
    CHECK(b && H5FDxhdf5_bytes_read(b, 1, &off, &len, &to, &why) == 0);
    H5FDxhdf5_bytes_close(b);
}

static void *run(void *unused)
{
    strcmp(way, "bytes") == 0 ? by_bytes() : by_hdf5();
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_attr_t attr;
    pthread_t t;
    CHECK(argc == 3);
    way = argv[1];
    url = argv[2];
    unsigned char *stack = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    memset(stack, PAINT, ROOM);
    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstack(&attr, stack, ROOM) == 0);
    CHECK(pthread_create(&t, &attr, run, NULL) == 0 && pthread_join(t, NULL) == 0);
    size_t unused = 0;
    while (unused < ROOM && stack[unused] == PAINT)
        unused++;
    printf("%zu\n", ROOM - unused);
    return 0;
}
