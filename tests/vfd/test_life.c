/* A process's life: reopening after H5close, fork with files open, threads, exit with
 * files open, one file opened twice. The name may be a local path or a URL; the driver comes from the
 * environment (HDF5_DRIVER).
 *
 * usage: test_life CASE NAME DATASET    CASE: reopen, twice, fork, fork_exit, exit, threads, stack */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *name, *dataset;

/* Reads the whole data set as doubles and adds it up. */
static double sum_of(hid_t file)
{
    hid_t set = H5Dopen2(file, dataset, H5P_DEFAULT);
    CHECK(set >= 0);
    hid_t space = H5Dget_space(set);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    double *v = malloc((size_t)n * sizeof *v), sum = 0;
    CHECK(v && H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    for (hssize_t i = 0; i < n; i++)
        sum += v[i];
    free(v);
    H5Sclose(space);
    H5Dclose(set);
    return sum;
}

static hid_t open_it(void)
{
    hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(file >= 0);
    return file;
}

/* Each life of the library reads the same, and reports errors. */
static void reopen(void)
{
    double first = 0;
    for (int life = 0; life < 3; life++) {
        hid_t file = open_it();
        double sum = sum_of(file);
        CHECK(life == 0 || sum == first);
        first = sum;
        char none[1024];
        snprintf(none, sizeof none, "%s.none", name);
        H5E_BEGIN_TRY
        {
            CHECK(H5Fopen(none, H5F_ACC_RDONLY, H5P_DEFAULT) < 0);
        }
        H5E_END_TRY
        CHECK_ERROR("errno = 2, error message = ");
        if (life == 1)
            CHECK(H5Fclose(file) >= 0); /* else H5close() does it */
        CHECK(H5close() >= 0);
    }
}

/* Two openings are one file to HDF5, each outlives the other, and a URL is not deleted. */
static void twice(void)
{
    hid_t a = open_it(), b = open_it();
    unsigned long in_a, in_b;
    CHECK(H5Fget_fileno(a, &in_a) >= 0 && H5Fget_fileno(b, &in_b) >= 0 && in_a == in_b);
    double sum = sum_of(a);
    CHECK(H5Fclose(a) >= 0 && sum_of(b) == sum);
    hsize_t size = 0;
    haddr_t eoa = 0;
    CHECK(H5Fget_filesize(b, &size) >= 0 && size > 0);
    CHECK(H5Fget_eoa(b, &eoa) >= 0 && eoa == size);
    CHECK(H5Fclose(b) >= 0);
    if (strstr(name, "://")) {
        H5E_BEGIN_TRY
        {
            CHECK(H5Fdelete(name, H5P_DEFAULT) < 0);
        }
        H5E_END_TRY
        CHECK_ERROR("URLs are read-only");
        H5E_BEGIN_TRY
        {
            CHECK(H5Fopen(name, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, H5P_DEFAULT) < 0);
        }
        H5E_END_TRY
        CHECK_ERROR("SWMR");
    }
}

static void wait_for_child(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Children read what their parent opened, before and after it has read, and the parent goes on. */
static void fork_reads(int leave_by_exit)
{
    hid_t file = open_it();
    for (int round = 0; round < 2; round++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            double in_child = sum_of(file);
            hid_t again = open_it();
            CHECK(sum_of(again) == in_child);
            if (leave_by_exit)
                exit(0); /* HDF5 closes everything */
            CHECK(H5Fclose(again) >= 0 && H5Fclose(file) >= 0);
            _exit(0);
        }
        double here = sum_of(file);
        wait_for_child(pid);
        CHECK(sum_of(file) == here);
    }
    CHECK(H5Fclose(file) >= 0);
}

static void *open_and_sum(void *arg)
{
    /* HDF5 is called by one thread at a time unless it was built to be thread-safe. */
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    double *sum = arg;
    for (int i = 0; i < 5; i++) {
        pthread_mutex_lock(&turn);
        hid_t file = open_it();
        *sum = sum_of(file);
        H5Fclose(file);
        pthread_mutex_unlock(&turn);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t t[4];
    double sum[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, open_and_sum, &sum[i]) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(t[i], NULL) == 0 && sum[i] == sum[0]);
}

/* A thread has as little stack as those of programs that have thousands. */
static void stack(void)
{
    pthread_attr_t small;
    pthread_t t;
    double sum;
    CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 64 << 10) == 0);
    CHECK(pthread_create(&t, &small, open_and_sum, &sum) == 0 && pthread_join(t, NULL) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    name = argv[2];
    dataset = argv[3];
    if (strcmp(argv[1], "reopen") == 0)
        reopen();
    else if (strcmp(argv[1], "twice") == 0)
        twice();
    else if (strcmp(argv[1], "fork") == 0)
        fork_reads(0);
    else if (strcmp(argv[1], "fork_exit") == 0)
        fork_reads(1);
    else if (strcmp(argv[1], "threads") == 0)
        threads();
    else if (strcmp(argv[1], "stack") == 0)
        stack();
    else if (strcmp(argv[1], "exit") == 0)
        sum_of(open_it()); /* and leaves it open */
    else
        return 2;
    return 0;
}
