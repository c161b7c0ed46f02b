/* Local paths: what HDF5's own sec2 driver does, so that nothing changes for them.
 *
 * The environment's driver gets every file, those to be created included. Messages keep
 * sec2's form, which h5py and other programs read. Knows nothing of the cache. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "h5err.h"

struct xh_local {
    int fd;
    haddr_t eof; /* grows with writes */
    dev_t dev;
    ino_t ino;
    int ignore_disabled_locks; /* a file system that has no locks is no error */
};

/* The largest piece that one system call moves on Linux is a little under 2 GiB. */
#define MOST_BYTES ((size_t)1 << 30)

/* HDF5_USE_FILE_LOCKING: 1 best effort, 0 set otherwise, -1 not set or not understood. */
static int env_ignores_disabled_locks(void)
{
    const char *v = getenv("HDF5_USE_FILE_LOCKING");
    if (!v)
        return -1;
    if (strcmp(v, "BEST_EFFORT") == 0)
        return 1;
    if (!strcmp(v, "TRUE") || !strcmp(v, "1") || !strcmp(v, "FALSE") || !strcmp(v, "0"))
        return 0;
    return -1;
}

static void push_open(struct xh_h5 *h5, const char *name, int e, unsigned flags, int oflags)
{
    char text[2048];
    snprintf(text, sizeof text,
             "unable to open file: name = '%s', errno = %d, error message = '%s', flags = %x, o_flags = %x", name, e,
             strerror(e), flags, (unsigned)oflags);
    xh_h5err_push_text(h5, text, "xh_local_open", __LINE__);
}

struct xh_local *xh_local_open(struct xh_h5 *h5, const char *name, unsigned flags, hid_t fapl)
{
    struct stat st;
    hbool_t use = 0, ignore = 0;
    int oflags = flags & XH_ACC_RDWR ? O_RDWR : O_RDONLY;
    oflags |= (flags & XH_ACC_TRUNC ? O_TRUNC : 0) | (flags & XH_ACC_CREAT ? O_CREAT : 0) |
              (flags & XH_ACC_EXCL ? O_EXCL : 0) | O_CLOEXEC;
    int env = env_ignores_disabled_locks();
    if (env < 0)
        h5->H5Pget_file_locking(fapl, &use, &ignore);
    struct xh_local *l = calloc(1, sizeof *l);
    if (!l) {
        push_open(h5, name, ENOMEM, flags, oflags);
        return NULL;
    }
    l->ignore_disabled_locks = env < 0 ? ignore : env;
    l->fd = open(name, oflags, 0666);
    if (l->fd < 0 || fstat(l->fd, &st)) {
        int e = errno;
        if (l->fd >= 0)
            close(l->fd);
        free(l);
        push_open(h5, name, e, flags, oflags & ~O_CLOEXEC);
        return NULL;
    }
    l->eof = (haddr_t)st.st_size;
    l->dev = st.st_dev;
    l->ino = st.st_ino;
    return l;
}

herr_t xh_local_close(struct xh_vfd *v)
{
    int rc = close(v->local->fd);
    int e = errno;
    free(v->local);
    v->local = NULL;
    if (rc)
        xh_h5err_push_errno(v->h5, "unable to close file", e, __func__, __LINE__);
    return rc ? -1 : 0;
}

static herr_t failed_at(struct xh_vfd *v, const char *doing, int e, haddr_t addr, size_t size, const char *func)
{
    char what[1024];
    snprintf(what, sizeof what, "file %s failed: filename = '%s', file descriptor = %d, address = %llu, bytes left = %zu",
             doing, v->name_shown, v->local->fd, (unsigned long long)addr, size);
    xh_h5err_push_errno(v->h5, what, e, func, __LINE__);
    return -1;
}

herr_t xh_local_read(struct xh_vfd *v, haddr_t addr, size_t size, void *buf)
{
    char *p = buf;
    while (size) {
        ssize_t n = pread(v->local->fd, p, size < MOST_BYTES ? size : MOST_BYTES, (off_t)addr);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed_at(v, "read", errno, addr, size, __func__);
        if (n == 0) { /* past the end of the file, before the end of the allocation: zeros */
            memset(p, 0, size);
            return 0;
        }
        p += n;
        addr += (haddr_t)n;
        size -= (size_t)n;
    }
    return 0;
}

herr_t xh_local_write(struct xh_vfd *v, haddr_t addr, size_t size, const void *buf)
{
    const char *p = buf;
    while (size) {
        ssize_t n = pwrite(v->local->fd, p, size < MOST_BYTES ? size : MOST_BYTES, (off_t)addr);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return failed_at(v, "write", errno, addr, size, __func__);
        p += n;
        addr += (haddr_t)n;
        size -= (size_t)n;
        if (addr > v->local->eof)
            v->local->eof = addr;
    }
    return 0;
}

herr_t xh_local_truncate(struct xh_vfd *v)
{
    if (v->eoa == v->local->eof)
        return 0;
    if (ftruncate(v->local->fd, (off_t)v->eoa)) {
        xh_h5err_push_errno(v->h5, "unable to extend file properly", errno, __func__, __LINE__);
        return -1;
    }
    v->local->eof = v->eoa;
    return 0;
}

static herr_t set_lock(struct xh_vfd *v, int how, const char *what)
{
    if (flock(v->local->fd, how) == 0 || (errno == ENOSYS && v->local->ignore_disabled_locks))
        return 0;
    xh_h5err_push_errno(v->h5, what, errno, __func__, __LINE__);
    return -1;
}

herr_t xh_local_lock(struct xh_vfd *v, hbool_t rw)
{
    return set_lock(v, (rw ? LOCK_EX : LOCK_SH) | LOCK_NB, "unable to lock file");
}

herr_t xh_local_unlock(struct xh_vfd *v)
{
    return set_lock(v, LOCK_UN, "unable to unlock file");
}

herr_t xh_local_delete(struct xh_h5 *h5, const char *name)
{
    if (unlink(name) == 0)
        return 0;
    xh_h5err_push_errno(h5, "unable to delete file", errno, __func__, __LINE__);
    return -1;
}

haddr_t xh_local_eof(const struct xh_local *l)
{
    return l->eof;
}

int xh_local_cmp(const struct xh_local *a, const struct xh_local *b)
{
    if (a->dev != b->dev)
        return a->dev < b->dev ? -1 : 1;
    return (a->ino > b->ino) - (a->ino < b->ino);
}

int *xh_local_fd(struct xh_local *l)
{
    return &l->fd;
}
