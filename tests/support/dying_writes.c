/* Preloaded: the process kills itself in the DYING_AT'th system call that changes a file whose name ends with .h5, a
 * write when half of it is done, or nothing of it where it is at most a sector. At exit the number of those calls is
 * written, as text, to the file DYING_COUNT. With DYING_SAY a line of what each did is appended to that file. With
 * DYING_SLOW_US each pread and each call that changes any file takes so many microseconds longer. With DYING_NFS what
 * lies on a disk seems to lie on NFS; with DYING_NO_FLOCK flock fails with ENOSYS. With DYING_AGED_S fstat and stat
 * tell of files that they were changed so many seconds earlier, with DYING_CHANGED_S that it was then (s since 1970),
 * with DYING_OWNER that they are that user's. */
#undef _FILE_OFFSET_BITS /* both names of each call are defined here; 64-bit systems */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#pragma GCC visibility push(default)
ssize_t pread(int fd, void *buf, size_t n, off_t at);
ssize_t pread64(int fd, void *buf, size_t n, off_t at);
ssize_t pwrite(int fd, const void *buf, size_t n, off_t at);
ssize_t pwrite64(int fd, const void *buf, size_t n, off_t at);
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at);
ssize_t pwritev64(int fd, const struct iovec *v, int n, off_t at);
int ftruncate(int fd, off_t size);
int ftruncate64(int fd, off_t size);
int fstatfs(int fd, struct statfs *fs);
int fstatfs64(int fd, struct statfs64 *fs);
int flock(int fd, int operation);
int fstat(int fd, struct stat *st);
int fstat64(int fd, struct stat64 *st);
int stat(const char *path, struct stat *st);
int stat64(const char *path, struct stat64 *st);
#pragma GCC visibility pop

#define SECTOR 512

static unsigned long calls;

static void wait_a_little(void)
{
    static long us = -1;
    if (us < 0)
        us = getenv("DYING_SLOW_US") ? atol(getenv("DYING_SLOW_US")) : 0;
    if (us)
        usleep((useconds_t)us);
}

/* 1 when this is the call to die in. */
static int dies(int fd, const char *what, off_t at, size_t size)
{
    wait_a_little();
    char link[64], path[512];
    const char *when = getenv("DYING_AT"), *say = getenv("DYING_SAY");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 3 || memcmp(path + n - 3, ".h5", 3) != 0)
        return 0;
    calls++;
    FILE *f = say ? fopen(say, "a") : NULL;
    if (f) {
        fprintf(f, "%lu %s %lld %zu\n", calls, what, (long long)at, size);
        fclose(f);
    }
    return when && strtoul(when, NULL, 10) == calls;
}

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static ssize_t put(int fd, const void *buf, size_t n, off_t at)
{
    ssize_t (*real)(int, const void *, size_t, off_t) = (ssize_t (*)(int, const void *, size_t, off_t))next("pwrite");
    if (dies(fd, "write", at, n)) {
        if (n > SECTOR)
            (void)!real(fd, buf, n / 2, at);
        raise(SIGKILL);
    }
    return real(fd, buf, n, at);
}

static ssize_t putv(int fd, const struct iovec *v, int n, off_t at)
{
    ssize_t (*real)(int, const struct iovec *, int, off_t) =
        (ssize_t (*)(int, const struct iovec *, int, off_t))next("pwritev");
    size_t size = 0;
    for (int i = 0; i < n; i++)
        size += v[i].iov_len;
    if (dies(fd, "writev", at, size)) {
        struct iovec half[1024];
        size_t left = size / 2;
        int k = 0;
        for (; k < n && left > 0; k++) {
            half[k] = (struct iovec){v[k].iov_base, v[k].iov_len < left ? v[k].iov_len : left};
            left -= half[k].iov_len;
        }
        if (size > SECTOR)
            (void)!real(fd, half, k, at);
        raise(SIGKILL);
    }
    return real(fd, v, n, at);
}

static int cut(int fd, off_t size)
{
    int (*real)(int, off_t) = (int (*)(int, off_t))next("ftruncate");
    if (dies(fd, "truncate", size, 0))
        raise(SIGKILL);
    return real(fd, size);
}

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
    wait_a_little();
    return ((ssize_t (*)(int, void *, size_t, off_t))next("pread"))(fd, buf, n, at);
}

ssize_t pread64(int fd, void *buf, size_t n, off_t at)
{
    wait_a_little();
    return ((ssize_t (*)(int, void *, size_t, off_t))next("pread"))(fd, buf, n, at);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return put(fd, buf, n, at);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off_t at)
{
    return put(fd, buf, n, at);
}

ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at)
{
    return putv(fd, v, n, at);
}

ssize_t pwritev64(int fd, const struct iovec *v, int n, off_t at)
{
    return putv(fd, v, n, at);
}

int ftruncate(int fd, off_t size)
{
    return cut(fd, size);
}

int ftruncate64(int fd, off_t size)
{
    return cut(fd, size);
}

__attribute__((destructor)) static void count(void)
{
    const char *to = getenv("DYING_COUNT");
    FILE *f = to ? fopen(to, "w") : NULL;
    if (f) {
        fprintf(f, "%lu\n", calls);
        fclose(f);
    }
}

/* As on a network file system, and as where such a one has no locks. */
int fstatfs(int fd, struct statfs *fs)
{
    int rc = ((int (*)(int, struct statfs *))next("fstatfs"))(fd, fs);
    if (rc == 0 && fs->f_type != TMPFS_MAGIC && getenv("DYING_NFS"))
        fs->f_type = NFS_SUPER_MAGIC;
    return rc;
}

int fstatfs64(int fd, struct statfs64 *fs)
{
    int rc = ((int (*)(int, struct statfs64 *))next("fstatfs64"))(fd, fs);
    if (rc == 0 && fs->f_type != TMPFS_MAGIC && getenv("DYING_NFS"))
        fs->f_type = NFS_SUPER_MAGIC;
    return rc;
}

static void retell(int regular, struct timespec *modified, struct timespec *changed, uid_t *owner)
{
    const char *aged = getenv("DYING_AGED_S"), *then = getenv("DYING_CHANGED_S"), *whose = getenv("DYING_OWNER");
    if (regular && aged) {
        modified->tv_sec -= atoll(aged);
        changed->tv_sec -= atoll(aged);
    }
    if (regular && then)
        *modified = *changed = (struct timespec){.tv_sec = atoll(then)};
    if (regular && whose)
        *owner = (uid_t)atoll(whose);
}

#define RETOLD(name, of, kind)                                                              \
    int name(of, struct kind *st)                                                           \
    {                                                                                       \
        int rc = ((int (*)(of, struct kind *))next(#name))(file, st);                       \
        if (rc == 0)                                                                        \
            retell(S_ISREG(st->st_mode), &st->st_mtim, &st->st_ctim, &st->st_uid);          \
        return rc;                                                                          \
    }

RETOLD(fstat, int file, stat)
RETOLD(fstat64, int file, stat64)
RETOLD(stat, const char *file, stat)
RETOLD(stat64, const char *file, stat64)

int flock(int fd, int operation)
{
    if (getenv("DYING_NO_FLOCK")) {
        errno = ENOSYS;
        return -1;
    }
    return ((int (*)(int, int))next("flock"))(fd, operation);
}
