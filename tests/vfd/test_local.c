/* Local paths through the driver behave as with sec2: bytes, sizes, locks, identity, errors. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xhdf5.h"

static char dir[] = "/tmp/xh-local-XXXXXX";
static hid_t fapl;

static const char *in_dir(const char *name)
{
    static char path[4][256];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static off_t size_of(const char *path)
{
    struct stat st;
    CHECK(stat(path, &st) == 0);
    return st.st_size;
}

static void make(const char *path, int value, hid_t with)
{
    hsize_t n = 1000;
    int data[1000];
    for (int i = 0; i < 1000; i++)
        data[i] = value + i;
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, with), space = H5Screate_simple(1, &n, NULL);
    CHECK(file >= 0);
    hid_t set = H5Dcreate2(file, "d", H5T_NATIVE_INT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(H5Dwrite(set, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    CHECK(H5Fclose(file) >= 0);
}

static void same_bytes_as_sec2(void)
{
    const char *a = in_dir("a.h5"), *b = in_dir("b.h5");
    static char one[65536], two[65536];
    make(a, 5, fapl);
    make(b, 5, H5P_DEFAULT);
    CHECK(size_of(a) == size_of(b));
    int fd = open(a, O_RDONLY), gd = open(b, O_RDONLY);
    ssize_t n = read(fd, one, sizeof one), m = read(gd, two, sizeof two);
    CHECK(n == m && n == size_of(a) && n > 4000);
    int differing = 0;
    for (ssize_t i = 0; i < n; i++)
        differing += one[i] != two[i];
    CHECK(differing <= 8); /* object headers carry the time of their making */
    close(fd);
    close(gd);
}

static void growing_rewriting_and_truncating(void)
{
    const char *a = in_dir("a.h5");
    make(a, 1, fapl);
    off_t first = size_of(a);
    hid_t file = H5Fopen(a, H5F_ACC_RDWR, fapl);
    CHECK(file >= 0);
    hid_t group = H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(group >= 0);
    H5Gclose(group);
    CHECK(H5Fclose(file) >= 0);
    CHECK(size_of(a) >= first);
    make(a, 1, fapl);
    CHECK(size_of(a) == first);
}

static void one_file_under_two_names_is_one(void)
{
    const char *a = in_dir("a.h5"), *link_to_a = in_dir("link.h5"), *b = in_dir("b.h5");
    unsigned long n1, n2, n3;
    make(a, 1, fapl);
    make(b, 2, fapl);
    CHECK(symlink(a, link_to_a) == 0);
    hid_t f1 = H5Fopen(a, H5F_ACC_RDONLY, fapl), f2 = H5Fopen(link_to_a, H5F_ACC_RDONLY, fapl);
    hid_t f3 = H5Fopen(b, H5F_ACC_RDONLY, fapl);
    CHECK(f1 >= 0 && f2 >= 0 && f3 >= 0);
    CHECK(H5Fget_fileno(f1, &n1) >= 0 && H5Fget_fileno(f2, &n2) >= 0 && H5Fget_fileno(f3, &n3) >= 0);
    CHECK(n1 == n2 && n1 != n3);
    H5Fclose(f1);
    H5Fclose(f2);
    H5Fclose(f3);
}

/* In a child, because locks of one process do not exclude its own descriptors alike. */
static int opens_for_writing(const char *path, const char *locking)
{
    pid_t pid = fork();
    if (pid == 0) {
        setenv("HDF5_USE_FILE_LOCKING", locking, 1);
        execl("/proc/self/exe", "test_local", "open", path, (char *)NULL);
        _exit(9);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) < 9);
    return WEXITSTATUS(status) == 0;
}

static void locks_exclude_unless_switched_off(void)
{
    const char *a = in_dir("a.h5");
    make(a, 1, fapl);
    int fd = open(a, O_RDONLY);
    CHECK(opens_for_writing(a, "TRUE"));
    CHECK(flock(fd, LOCK_SH | LOCK_NB) == 0);
    CHECK(!opens_for_writing(a, "TRUE"));
    CHECK(!opens_for_writing(a, "BEST_EFFORT"));
    CHECK(opens_for_writing(a, "FALSE"));
    close(fd);
    /* And ours exclude others. */
    hid_t file = H5Fopen(a, H5F_ACC_RDWR, fapl);
    fd = open(a, O_RDONLY);
    CHECK(file >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0);
    H5Fclose(file);
    CHECK(flock(fd, LOCK_SH | LOCK_NB) == 0);
    close(fd);
}

static void errors_have_the_texts_of_sec2(void)
{
    CHECK(H5Fopen(in_dir("none.h5"), H5F_ACC_RDONLY, fapl) < 0);
    CHECK_ERROR("unable to open file: name = '/tmp/xh-local-");
    CHECK_ERROR("none.h5', errno = 2, error message = 'No such file or directory', flags = 0, o_flags = 0");
    make(in_dir("a.h5"), 1, fapl);
    CHECK(H5Fcreate(in_dir("a.h5"), H5F_ACC_EXCL, H5P_DEFAULT, fapl) < 0);
    CHECK_ERROR("errno = 17, error message = 'File exists', flags = 15, o_flags = c2");
    CHECK(H5Fopen(dir, H5F_ACC_RDWR, fapl) < 0);
    CHECK_ERROR("errno = 21");
    CHECK(H5Fopen("/cwd/https://host/d/y.h5", H5F_ACC_RDONLY, fapl) < 0);
    CHECK_ERROR("errno = 2,");
    char name[3000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    CHECK(H5Fopen(name, H5F_ACC_RDONLY, fapl) < 0);
    char *found = strstr(check_error_text(), "name = 'nnn");
    CHECK(found);
}

static void handle_delete_and_ctl(void)
{
    const char *a = in_dir("a.h5");
    int *fd = NULL;
    struct stat st, st2;
    make(a, 1, fapl);
    hid_t file = H5Fopen(a, H5F_ACC_RDONLY, fapl);
    CHECK(H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&fd) >= 0 && fd);
    CHECK(fstat(*fd, &st) == 0 && stat(a, &st2) == 0 && st.st_ino == st2.st_ino);
    H5Fclose(file);
    H5FD_t *f = H5FDopen(a, H5F_ACC_RDONLY, fapl, HADDR_UNDEF);
    CHECK(f && H5FDctl(f, H5FD_CTL_OPC_EXPER_MIN, 0, NULL, NULL) >= 0);
    CHECK(H5FDctl(f, H5FD_CTL_OPC_EXPER_MIN, H5FD_CTL_FAIL_IF_UNKNOWN_FLAG, NULL, NULL) < 0);
    CHECK(H5FDclose(f) >= 0);
    CHECK(H5Fdelete(a, fapl) >= 0 && access(a, F_OK) != 0);
}

static void swmr_works_on_local_files(void)
{
    const char *a = in_dir("swmr.h5");
    hid_t late = H5Pcopy(fapl);
    CHECK(H5Pset_libver_bounds(late, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST) >= 0);
    make(a, 1, late);
    hid_t w = H5Fopen(a, H5F_ACC_RDWR | H5F_ACC_SWMR_WRITE, late);
    CHECK(w >= 0);
    H5Fclose(w);
    hid_t r = H5Fopen(a, H5F_ACC_RDONLY | H5F_ACC_SWMR_READ, late);
    CHECK(r >= 0);
    H5Fclose(r);
    H5Pclose(late);
}

static void far_addresses(void)
{
    const char *a = in_dir("far");
    H5FD_t *f = H5FDopen(a, H5F_ACC_RDWR | H5F_ACC_CREAT, fapl, HADDR_UNDEF);
    const haddr_t far = (haddr_t)5 << 30;
    char got[8] = "xxxxxxx";
    CHECK(f && H5FDset_eoa(f, H5FD_MEM_DRAW, far + 16) >= 0);
    CHECK(H5FDwrite(f, H5FD_MEM_DRAW, H5P_DEFAULT, far, 8, "8 bytes") >= 0);
    CHECK(H5FDget_eof(f, H5FD_MEM_DRAW) == far + 8);
    CHECK(H5FDread(f, H5FD_MEM_DRAW, H5P_DEFAULT, far, 8, got) >= 0 && strcmp(got, "8 bytes") == 0);
    CHECK(H5FDread(f, H5FD_MEM_DRAW, H5P_DEFAULT, far + 8, 8, got) >= 0 && got[0] == 0 && got[7] == 0);
    CHECK(H5FDread(f, H5FD_MEM_DRAW, H5P_DEFAULT, far + 9, 8, got) < 0); /* behind what was given out */
    CHECK(H5FDtruncate(f, H5P_DEFAULT, 0) >= 0 && size_of(a) == (off_t)(far + 16));
    CHECK(H5FDclose(f) >= 0);
    CHECK(H5Fdelete(a, fapl) < 0); /* no HDF5 file: HDF5 refuses before it asks us */
    unlink(a);
}

int main(int argc, char **argv)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    fapl = H5Pcreate(H5P_FILE_ACCESS);
    CHECK(H5Pset_fapl_xhdf5(fapl, NULL) >= 0);
    if (argc == 3)
        return H5Fopen(argv[2], H5F_ACC_RDWR, fapl) < 0;
    CHECK(mkdtemp(dir));
    same_bytes_as_sec2();
    growing_rewriting_and_truncating();
    one_file_under_two_names_is_one();
    locks_exclude_unless_switched_off();
    errors_have_the_texts_of_sec2();
    handle_delete_and_ctl();
    swmr_works_on_local_files();
    far_addresses();
    CHECK(H5close() >= 0);
    char *rm[] = {"rm", "-rf", dir, NULL};
    execvp("rm", rm);
    return 1;
}
