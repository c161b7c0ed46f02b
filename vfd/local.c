/* Files of the file system: see local.h.
 *
 * Invariants 1. |eof| is the size at open, raised by writes and set by truncate. As in sec2, growth by other processes
 * is not seen.
 * 2. Bytes behind |eof| read as zeroes: HDF5 allocates addresses before it writes them.
 * 3. Texts of errors are sec2's: "Other projects may rely on the description format". */
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../cache/base/files.h"
#include "../cache/open/mistaken.h"
#include "../cache/localfs/localfs.h"
#include "h5err.h"

/* A vectored read replaces HDF5's sieve buffer. This is that buffer's default size. */
#define SIEVE_BYTES 65536u

struct xh_local {
    struct xh_h5 *h5; /* constant */
    dev_t dev;        /* constant */
    ino_t ino;        /* constant */
    int ignore_disabled_locks; /* constant */
    int fd;           /* constant */
    struct xh_localfs *near; /* constant; NULL: without local_shadow */
    int lost;         /* 1: a child of a fork wrote raw data, which does not reach the file */
    uint64_t eof;     /* used without |near|; HDF5 serialises writes and truncation of one file */
    char name[];      /* constant; for messages */
};

/* HDF5_USE_FILE_LOCKING, read once as in sec2: 1 ignore, 0 do not ignore, -1 not set. */
static int env_ignore = -1;

static void read_env(void)
{
    const char *v = getenv("HDF5_USE_FILE_LOCKING");
    if (v && strcmp(v, "BEST_EFFORT") == 0)
        env_ignore = 1;
    else if (v && (strcmp(v, "TRUE") == 0 || strcmp(v, "1") == 0))
        env_ignore = 0;
}

static int open_flags(unsigned flags)
{
    return ((flags & XH_ACC_RDWR) ? O_RDWR : O_RDONLY) | ((flags & XH_ACC_TRUNC) ? O_TRUNC : 0) |
           ((flags & XH_ACC_CREAT) ? O_CREAT : 0) | ((flags & XH_ACC_EXCL) ? O_EXCL : 0);
}

/* Returns 1 when something local has the name with which the path |name| begins, up to its first slash. */
static int begins_here(const char *name)
{
    size_t n = strcspn(name, "/");
    char *first = name[n] ? strndup(name, n) : NULL;
    int here = first && access(first, F_OK) == 0;
    free(first);
    return here;
}

int xh_local_open(struct xh_h5 *h5, const char *name, unsigned flags, int ignore_disabled_locks,
                  const struct xh_options *shadow, struct xh_local **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct stat st;
    int o_flags = open_flags(flags);
    int fd = open(name, o_flags, 0666);
    if (fd < 0) {
        int e = errno;
        char say[400] = "", shown[400];
        if ((e == ENOENT || e == ENOTDIR) && !begins_here(name))
            xh_mistaken(name, say, sizeof say);
        if (say[0] || strstr(name, "://"))
            name = xh_mistaken_shown(name, shown, sizeof shown);
        return xh_fail(h5, xh_h5err_code(e),
                       "unable to open file: name = '%s', errno = %d, error message = '%s', flags = %x, "
                       "o_flags = %x%s%s",
                       name, e, strerror(e), flags, (unsigned)o_flags,
                       say[0] ? ". There is no such local file, and it is no URL: " : "", say);
    }
    struct xh_local *f = NULL;
    if (fstat(fd, &st) < 0) {
        xh_fail_sys(h5, "unable to fstat file", errno);
        goto err;
    }
    if (!(f = calloc(1, sizeof *f + strlen(name) + 1))) {
        xh_fail(h5, XH_E_NOMEM, "unable to allocate file struct");
        goto err;
    }
    pthread_once(&once, read_env);
    f->h5 = h5;
    f->fd = fd;
    f->eof = (uint64_t)st.st_size;
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    f->ignore_disabled_locks = env_ignore >= 0 ? env_ignore : ignore_disabled_locks;
    memcpy(f->name, name, strlen(name) + 1);
    /* With SWMR, the writer and the readers use the file itself. */
    if (shadow && !(flags & (XH_ACC_SWMR_WRITE | XH_ACC_SWMR_READ)))
        f->near = xh_localfs_open(fd, &st, name, (flags & XH_ACC_RDWR) != 0, shadow);
    *out = f;
    return 0;
err:
    close(fd);
    return -1;
}

/* HDF5 has forgotten the file when it calls this. Where local_shadow holds bytes that cannot be written, the program's
 * own writes have succeeded, and a program that ends without closing its files hears of nothing else: a line on
 * standard error tells of it. NFS tells of a full disk when the file is closed. */
int xh_local_close(struct xh_local *f)
{
    char said[80];
    int rc = f->near ? xh_local_flush(f, 1) : 0, bad = rc ? errno : 0;
    if (f->lost)
        xh_say("%s was opened by the parent of this process (%d): what this child of a fork wrote did not go "
               "to the file (local_shadow)",
               f->name, (int)getpid());
    if (close(f->fd) < 0) {
        bad = bad ? bad : errno;
        rc = xh_fail_sys(f->h5, "unable to close file", errno);
    }
    if (f->near && bad)
        xh_say("%s: not all that was written is in the file: %s (local_shadow)", f->name,
               strerror_r(bad, said, sizeof said));
    if (f->near)
        xh_localfs_close(f->near);
    free(f);
    return rc;
}

int xh_local_cmp(const struct xh_local *a, const struct xh_local *b)
{
    if (a->dev != b->dev)
        return a->dev < b->dev ? -1 : 1;
    return a->ino < b->ino ? -1 : a->ino > b->ino;
}

void xh_local_names(const struct xh_local *f, struct xh_namer *child)
{
    memset(child, 0, sizeof *child);
    child->by_file = 1;
    snprintf(child->parent, sizeof child->parent, "%s", f->name);
}

uint64_t xh_local_eof(const struct xh_local *f)
{
    return f->near ? xh_localfs_eof(f->near) : f->eof;
}

int *xh_local_fd(struct xh_local *f)
{
    return &f->fd;
}

static int io_failed(struct xh_local *f, int is_write, uint64_t addr, size_t size, const void *buf)
{
    int e = errno;
    const char *verb = is_write ? "write" : "read";
    time_t t = time(NULL);
    char when[32] = "";
    ctime_r(&t, when);
    return xh_fail(f->h5, XH_E_SYS,
                   "file %s failed: time = %s, filename = '%s', file descriptor = %d, errno = %d, "
                   "error message = '%s', buf = %p, total %s size = %zu, bytes this sub-%s = %zu, offset = %llu",
                   verb, when, f->name, f->fd, e, strerror(e), buf, verb, size, verb, size,
                   (unsigned long long)addr);
}

static int bad_region(struct xh_local *f, uint64_t addr, size_t size)
{
    if (addr <= INT64_MAX && size <= INT64_MAX - addr)
        return 0;
    return xh_fail(f->h5, XH_E_RANGE, "addr overflow, addr = %llu, size = %zu", (unsigned long long)addr,
                   size);
}

int xh_local_read(struct xh_local *f, int raw, uint64_t addr, size_t size, void *buf)
{
    if (bad_region(f, addr, size))
        return -1;
    if (f->near)
        return xh_localfs_read(f->near, raw, addr, size, buf) ? io_failed(f, 0, addr, size, buf) : 0;
    ssize_t got = xh_read_at(f->fd, buf, size, addr);
    if (got < 0)
        return io_failed(f, 0, addr, size, buf);
    memset((char *)buf + got, 0, size - (size_t)got); /* what HDF5 gave out addresses for, and nothing was written to */
    return 0;
}

/* Returns how many pieces from |p| on lie in ascending order within one sieve. |*span| is their whole length. */
static size_t sieve_run(const struct xh_extent *p, size_t n, size_t *span)
{
    size_t i = 0;
    *span = 0;
    for (; i < n && p[i].len <= SIEVE_BYTES; i++) {
        if (i > 0 && p[i].off < p[i - 1].off)
            break;
        uint64_t ahead = p[i].off - p[0].off;
        if (ahead > SIEVE_BYTES - p[i].len)
            break;
        if (ahead + p[i].len > *span)
            *span = (size_t)ahead + p[i].len;
    }
    return i;
}

int xh_local_readv(struct xh_local *f, int raw, const struct xh_extent *p, size_t n)
{
    char *sieve = NULL;
    int rc = 0;
    for (size_t i = 0, run, span; rc == 0 && i < n; i += run) {
        run = sieve_run(p + i, n - i, &span);
        if (run > 1 && !sieve)
            sieve = malloc(SIEVE_BYTES);
        if (run <= 1 || !sieve) {
            run = 1;
            rc = xh_local_read(f, raw, p[i].off, p[i].len, p[i].buf);
            continue;
        }
        rc = xh_local_read(f, raw, p[i].off, span, sieve);
        for (size_t k = i; rc == 0 && k < i + run; k++)
            memcpy(p[k].buf, sieve + (p[k].off - p[i].off), p[k].len);
    }
    free(sieve);
    return rc;
}

int xh_local_write(struct xh_local *f, int raw, uint64_t addr, size_t size, const void *buf)
{
    if (bad_region(f, addr, size))
        return -1;
    if (f->near && raw && xh_localfs_is_parents(f->near))
        f->lost = 1;
    if (f->near)
        return xh_localfs_write(f->near, raw, addr, size, buf) ? io_failed(f, 1, addr, size, buf) : 0;
    if (xh_write_at(f->fd, buf, size, addr))
        return io_failed(f, 1, addr, size, buf);
    if (addr + size > f->eof)
        f->eof = addr + size;
    return 0;
}

int xh_local_flush(struct xh_local *f, int closing)
{
    if (f->near && !closing && xh_localfs_is_parents(f->near))
        return xh_fail(f->h5, XH_E_READONLY,
                       "%s was opened by the parent of this process: what a child of a fork writes does not go to the "
                       "file (local_shadow); open it in the child, errno = %d, error message = '%s'",
                       f->name, EPERM, strerror(EPERM));
    if (f->near && xh_localfs_flush(f->near))
        return xh_fail_sys(f->h5, "unable to write to the file what local_shadow holds", errno);
    return 0;
}

int xh_local_truncate(struct xh_local *f, uint64_t eoa)
{
    if (eoa == xh_local_eof(f))
        return 0;
    if (f->near)
        return xh_localfs_truncate(f->near, eoa) ? xh_fail_sys(f->h5, "unable to extend file properly", errno) : 0;
    if (ftruncate(f->fd, (off_t)eoa) < 0)
        return xh_fail_sys(f->h5, "unable to extend file properly", errno);
    f->eof = eoa;
    return 0;
}

/* Returns 1 when the lock was taken or released; 0 when the file system has no locks and that is ignored; -1. */
static int flock_or_fail(struct xh_local *f, int op, const char *what)
{
    if (flock(f->fd, op) == 0)
        return 1;
    if (f->ignore_disabled_locks && errno == ENOSYS) {
        errno = 0;
        return 0;
    }
    return xh_fail_sys(f->h5, what, errno);
}

int xh_local_lock(struct xh_local *f, int exclusive)
{
    int had = flock_or_fail(f, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB, "unable to lock file");
    if (had < 0)
        return -1;
    if (f->near)
        xh_localfs_locked(f->near, exclusive && had);
    return 0;
}

int xh_local_unlock(struct xh_local *f)
{
    if (f->near)
        xh_localfs_locked(f->near, 0);
    return flock_or_fail(f, LOCK_UN, "unable to unlock file") < 0 ? -1 : 0;
}

int xh_local_delete(struct xh_h5 *h5, const char *name)
{
    if (remove(name) < 0)
        return xh_fail_sys(h5, "unable to delete file", errno);
    return 0;
}
