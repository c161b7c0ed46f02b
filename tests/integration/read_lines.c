/* Reads images of a file through the driver, as standard input says, and compares them with a local copy.
 *
 * Usage: read_lines URL LOCAL-COPY, with a contiguous dataset "images"
 *
 * Lines: "read FIRST COUNT" prints "same SECONDS" or "other"; "fork FIRST COUNT" does so in a child; "exit" ends with
 * the file open; the end of the lines closes it. Prints "open" first. */
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static hid_t images;
static hsize_t dims[3];
static int local;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns 1 when image |i| is read and is that of the local copy, 0 when it is another; ends the process on an
 * error. */
static int is_same(hsize_t i, char *got, char *want)
{
    size_t len = (size_t)(dims[1] * dims[2] * 2);
    hsize_t from[3] = {i, 0, 0}, count[3] = {1, dims[1], dims[2]};
    hid_t space = H5Dget_space(images), memory = H5Screate_simple(3, count, NULL);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, count, NULL);
    herr_t rc = H5Dread(images, H5T_NATIVE_UINT16, memory, space, H5P_DEFAULT, got);
    H5Sclose(space);
    H5Sclose(memory);
    if (rc < 0)
        exit(1);
    return pread(local, want, len, (off_t)(H5Dget_offset(images) + i * len)) == (ssize_t)len &&
           memcmp(got, want, len) == 0;
}

static void read_some(hsize_t first, hsize_t count)
{
    size_t len = (size_t)(dims[1] * dims[2] * 2);
    char *got = malloc(len), *want = malloc(len);
    double begun = now();
    int same = 1;
    for (hsize_t i = first; i < first + count; i++)
        same &= is_same(i, got, want);
    printf("%s %.3f\n", same ? "same" : "other", now() - begun);
    fflush(stdout);
    free(got);
    free(want);
}

int main(int argc, char **argv)
{
    char line[100], how[8];
    unsigned first, count;
    if (argc != 3)
        return 2;
    local = open(argv[2], O_RDONLY);
    hid_t file = H5Fopen(argv[1], H5F_ACC_RDONLY, H5P_DEFAULT);
    images = file < 0 ? -1 : H5Dopen2(file, "images", H5P_DEFAULT);
    if (local < 0 || images < 0)
        return 1;
    hid_t space = H5Dget_space(images);
    H5Sget_simple_extent_dims(space, dims, NULL);
    H5Sclose(space);
    puts("open");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int n = sscanf(line, "%7s %u %u", how, &first, &count);
        if (n == 1)
            exit(0);
        pid_t child = strcmp(how, "fork") == 0 ? fork() : -1;
        if (child <= 0)
            read_some(first, count);
        if (child == 0)
            _exit(0);
        if (child > 0)
            waitpid(child, NULL, 0);
    }
    H5Dclose(images);
    return H5Fclose(file) < 0;
}
