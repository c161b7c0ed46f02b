/* Files: see files.h. */
#include "files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MOVED_UP   32
#define PART_TRIES 100 /* others may make and remove it meanwhile */

int xh_move_up(int fd)
{
    int up = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, MOVED_UP);
    if (up < 0)
        return fd;
    close(fd);
    return up;
}

struct xh_own xh_own(int fd)
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return (struct xh_own){.fd = -1};
    return (struct xh_own){fd, st.st_dev, st.st_ino};
}

int xh_own_is_there(const struct xh_own *o)
{
    struct stat st;
    return o->fd >= 0 && fstat(o->fd, &st) == 0 && st.st_ino == o->ino && st.st_dev == o->dev;
}

void xh_own_close(struct xh_own *o)
{
    if (xh_own_is_there(o))
        close(o->fd);
    o->fd = -1;
}

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

char *xh_path_from_root(const char *path)
{
    char here[PATH_MAX], *out = NULL;
    if (path[0] == '/' || !getcwd(here, sizeof here))
        return strdup(path);
    return asprintf(&out, "%s/%s", here, path) < 0 ? NULL : out;
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

int xh_may_write(uint64_t bytes)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_FSIZE, &lim) < 0 || lim.rlim_cur == RLIM_INFINITY || lim.rlim_cur >= bytes)
        return 1;
    errno = EFBIG;
    return 0;
}

int xh_rename_new(const char *from, const char *to)
{
    int rc = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
    if (rc == 0 || errno == EEXIST)
        return rc;
    if (link(from, to) == 0) { /* a file system without RENAME_NOREPLACE */
        unlink(from);
        return 0;
    }
    int fd = errno == EEXIST ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600); /* nor with links */
    if (fd < 0)
        return -1;
    close(fd);
    if ((rc = rename(from, to)) != 0) {
        int why = errno;
        unlink(to);
        errno = why;
    }
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
        return 0; /* to open it fails, too, and says why */
    mode_t needs = made ? S_IRWXU : S_IXUSR;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) == 0 && (st.st_mode & needs) != needs) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd); /* fchmod takes no O_PATH */
        (void)!chmod(path, S_IRWXU);
    }
    close(fd);
    return 0;
}

int xh_open_own(int at, const char *name, int flags)
{
    struct stat st;
    int fd = openat(at, name, flags | O_NONBLOCK, 0600); /* else a FIFO of that name would make it wait */
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 0600) != 0600)
        fchmod(fd, 0600);
    return fd;
}

int xh_has_no_locks(int error)
{
    return error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP;
}

/* Returns 1 when the open |part| is locked and may be written; 0: it was in the way, and is gone; or -1 with errno. */
static int take_part(const char *part, int fd, int made)
{
    struct stat mine, now;
    int own = EEXIST;
    if (fstat(fd, &mine) != 0)
        return -1;
    if (S_ISREG(mine.st_mode)) {
        if (flock(fd, LOCK_EX | LOCK_NB) != 0 && !(made && xh_has_no_locks(errno)))
            return -1;
        if (lstat(part, &now) != 0 || now.st_ino != mine.st_ino || now.st_dev != mine.st_dev)
            own = ESTALE;
        else if (made || (mine.st_uid == geteuid() && mine.st_nlink == 1))
            return 1;
        else if (unlink(part) == 0)
            return 0;
    }
    errno = own;
    return -1;
}

int xh_open_part(const char *part, int flags, mode_t mode)
{
    flags |= O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    for (int tries = 0; tries < PART_TRIES; tries++) {
        int fd = open(part, flags | O_CREAT | O_EXCL, mode), made = fd >= 0;
        if (!made && errno == EEXIST && (fd = open(part, flags)) < 0 && errno == ENOENT)
            continue;
        int taken = fd < 0 ? -1 : take_part(part, fd, made), why = errno;
        if (taken > 0)
            return fd;
        if (fd >= 0)
            close(fd);
        errno = why;
        if (taken < 0)
            return -1;
    }
    errno = EEXIST;
    return -1;
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

uint64_t xh_free_bytes(int fd)
{
    struct statvfs fs;
    /* A tmpfs without limit reports 0 blocks. */
    return fstatvfs(fd, &fs) == 0 && fs.f_blocks ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
}
