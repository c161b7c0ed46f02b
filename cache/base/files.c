/* Files: see files.h. */
#include "files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t xh_read_at(int fd, void *buf, size_t len, uint64_t off)
{
    size_t got = 0;
    while (got < len) {
        ssize_t n = xh_retry(pread(fd, (char *)buf + got, len - got, (off_t)(off + got)));
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

int xh_read_full(int fd, void *buf, size_t len, uint64_t off)
{
    ssize_t n = xh_read_at(fd, buf, len, off);
    if (n >= 0 && (size_t)n < len)
        errno = EIO;
    return n == (ssize_t)len ? 0 : -1;
}

#define AT_ITS_PLACE UINT64_MAX

static int write_all(int fd, const char *p, size_t len, uint64_t off)
{
    while (len > 0) {
        ssize_t n = xh_retry(off == AT_ITS_PLACE ? write(fd, p, len) : pwrite(fd, p, len, (off_t)off));
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
        off += off == AT_ITS_PLACE ? 0 : (uint64_t)n;
    }
    return 0;
}

int xh_write_at(int fd, const void *buf, size_t len, uint64_t off)
{
    return write_all(fd, buf, len, off);
}

int xh_write(int fd, const void *buf, size_t len)
{
    return write_all(fd, buf, len, AT_ITS_PLACE);
}

int xh_rename_new(const char *from, const char *to)
{
    int rc = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    /* a file system without RENAME_NOREPLACE */
    if (rc != 0 && errno != EEXIST && (rc = link(from, to)) == 0)
        unlink(from);
    return rc;
}

int xh_make_own_dir(int at, const char *name)
{
    struct stat st;
    char path[40];
    int made = mkdirat(at, name, 0700) == 0;
    if (!made && errno != EEXIST)
        return -1;
    int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return 0; /* whoever opens it says why that fails */
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) == 0 &&
        (st.st_mode & (made ? S_IRWXU : S_IXUSR)) != (made ? S_IRWXU : S_IXUSR)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd); /* fchmod takes no O_PATH */
        (void)!chmod(path, S_IRWXU);
    }
    close(fd);
    return 0;
}

int xh_open_own(int at, const char *name, int flags)
{
    struct stat st;
    int fd = openat(at, name, flags, 0600);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 0600) != 0600)
        fchmod(fd, 0600);
    return fd;
}

DIR *xh_list(int fd)
{
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0)
        close(fd);
    return d;
}

int xh_list_fd(DIR *d)
{
    return dirfd(d);
}
