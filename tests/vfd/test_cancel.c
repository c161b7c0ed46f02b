/* A thread is cancelled while it reads, and the file is read on.
 *
 * usage: test_cancel bytes|hdf5 URL     URL: a file with a dataset "d" of doubles, read over the environment's options
 *
 * Prints "reads" before the read whose answer the server holds. A line of standard input says that the server has the
 * request; then the thread is cancelled, and "cancelled" printed. Another says that the server has answered. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"
#include "xhdf5.h"

#define VALUES 100000
#define LAST   1000

static H5FDxhdf5_bytes_t *bytes;
static hid_t set;
static double seen[LAST];

static int read_bytes(void)
{
    H5FDxhdf5_why_t why;
    uint64_t off = H5FDxhdf5_bytes_size(bytes) - sizeof seen;
    size_t len = sizeof seen;
    void *buf = seen;
    if (H5FDxhdf5_bytes_read(bytes, 1, &off, &len, &buf, &why) == 0)
        return 0;
    fprintf(stderr, "%s\n", why.text);
    return -1;
}

static int read_set(void)
{
    hsize_t from = VALUES - LAST, n = LAST;
    hid_t file = H5Dget_space(set), memory = H5Screate_simple(1, &n, NULL);
    H5Sselect_hyperslab(file, H5S_SELECT_SET, &from, NULL, &n, NULL);
    int rc = H5Dread(set, H5T_NATIVE_DOUBLE, memory, file, H5P_DEFAULT, seen);
    H5Sclose(file);
    H5Sclose(memory);
    return rc < 0 ? -1 : 0;
}

static int read_last(void)
{
    return bytes ? read_bytes() : read_set();
}

static void *cancelled(void *unused)
{
    read_last();
    pthread_testcancel();
    return NULL;
}

static void wait_for_line(void)
{
    char line[16];
    CHECK(fgets(line, sizeof line, stdin));
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *how;
    H5FDxhdf5_why_t why;
    hid_t file = -1;
    CHECK(argc == 3);
    alarm(60); /* instead of waiting for ever */
    if (strcmp(argv[1], "bytes") == 0) {
        CHECK((bytes = H5FDxhdf5_bytes_open(argv[2], NULL, &why)) != NULL);
    } else {
        hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);
        CHECK(H5Pset_fapl_xhdf5(fapl, NULL) >= 0 && (file = H5Fopen(argv[2], H5F_ACC_RDONLY, fapl)) >= 0);
        CHECK((set = H5Dopen2(file, "d", H5P_DEFAULT)) >= 0 && H5Pclose(fapl) >= 0);
    }
    puts("reads");
    fflush(stdout);
    CHECK(pthread_create(&thread, NULL, cancelled, NULL) == 0);
    wait_for_line();
    CHECK(pthread_cancel(thread) == 0);
    puts("cancelled");
    fflush(stdout);
    wait_for_line();
    CHECK(pthread_join(thread, &how) == 0 && how == PTHREAD_CANCELED);
    memset(seen, 0, sizeof seen);
    CHECK(read_last() == 0 && seen[LAST - 1] == 7);
    if (bytes)
        H5FDxhdf5_bytes_close(bytes);
    else
        CHECK(H5Dclose(set) >= 0 && H5Fclose(file) >= 0);
    puts("done");
    return 0;
}
