/* Writing files beside a file: see place.h. */
#include "place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "../../cache/base/files.h"
#include "../../cache/base/waits.h"

#define ACL "system.posix_acl_access"
#define ACL_BYTES 4096 /* of 500 entries; ext4's own limit is less */
#define LOOK_EVERY_NS 20000000u /* whether the second of the last change is over */
#define SETTLES_S 10 /* a file that changes once a second all that time is being written */
/* A later date than the file system's own was set by somebody, and passes for old, too. Writers on other machines may
 * date by their own clocks; what they are ahead is waited for, so it is half of that. */
#define AHEAD_MOST_S (SETTLES_S / 2)

static int names_of(const char *path, const char *suffix, struct xh_place *n)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    int dir = (int)(base - path);
    *n = (struct xh_place){0};
    if (asprintf(&n->dir, "%.*s", dir ? dir : 1, dir ? path : ".") < 0)
        n->dir = NULL;
    if (asprintf(&n->sidecar, "%s%s", path, suffix) < 0)
        n->sidecar = NULL;
    if (asprintf(&n->part, "%.*s.%s%s.part", dir, path, base, suffix) < 0)
        n->part = NULL;
    return n->dir && n->sidecar && n->part ? 0 : -1;
}

void xh_place_free(struct xh_place *n)
{
    free(n->dir);
    free(n->sidecar);
    free(n->part);
}

/* Opens and locks the temporary file. Returns a descriptor, or -1 with errno. */
static int open_part(const char *part)
{
    int fd = xh_open_part(part, O_RDWR, 0600);
    if (fd < 0 && errno == EEXIST)
        errno = EPERM;
    return fd;
}

/* Makes the directory's entry survive a crash, too. */
static void sync_directory(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

int xh_place_part(const struct xh_place *n, struct xh_baked *out)
{
    int fd = open_part(n->part);
    if (fd < 0)
        return errno == EWOULDBLOCK || errno == ESTALE /* which has just given it its name */
                   ? xh_baked_say(out, XH_BAKED_FAILED, "another publisher is at work on it")
               : xh_has_no_locks(errno)
                   ? xh_baked_say(out, XH_BAKED_FAILED,
                                  "%s is there, and this file system has no locks, which would tell whether another "
                                  "publisher is at work on it: if none is, remove it", n->part)
                   : xh_baked_say(out, XH_BAKED_FAILED, "%s cannot be written: %s", n->part, strerror(errno));
    if (ftruncate(fd, 0) == 0)
        return fd;
    xh_baked_tell(out, XH_BAKED_FAILED, "%s cannot be written: %s", n->part, strerror(errno));
    close(fd);
    return -1;
}

/* Gives the original's list of users and groups, or takes the one away that the directory gave. */
static int give_list(int fd, int original)
{
    char list[ACL_BYTES];
    ssize_t len = fgetxattr(original, ACL, list, sizeof list);
    if (len >= 0)
        return fsetxattr(fd, ACL, list, (size_t)len, 0);
    if (errno != ENODATA && errno != ENOTSUP)
        return -1;
    return fremovexattr(fd, ACL) == 0 || errno == ENODATA || errno == ENOTSUP ? 0 : -1;
}

/* Those who may read the original may read what lies beside it, and nobody else: it holds the same. So a group's rights
 * to read are of no use without the group, also where it has less than others; without it, the publisher's may no more
 * than others. Root gives the owner, too. The list comes before the mode: that would widen a list that the directory
 * gave. Returns 0, or -1 with |out| or errno set. */
static int give_rights(int fd, int original, const struct stat *st, struct xh_baked *out)
{
    struct stat mine;
    mode_t mode = st->st_mode & 0666, others = mode & 6;
    if (fstat(fd, &mine) != 0)
        return -1;
    if ((mine.st_gid != st->st_gid || (geteuid() == 0 && mine.st_uid != st->st_uid)) &&
        fchown(fd, geteuid() == 0 ? st->st_uid : (uid_t)-1, st->st_gid) != 0) {
        if ((mode >> 3 & 4) != (others & 4))
            return xh_baked_say(out, XH_BAKED_FAILED,
                                "its group has another right to read it than the rest, and what lies beside it cannot "
                                "be given to that group (%s): publish it as a member of the group",
                                strerror(errno));
        mode = (mode & 0606) | others << 3;
    }
    return give_list(fd, original) == 0 ? fchmod(fd, mode) : -1;
}

int xh_place_done(const struct xh_place *n, int fd, int from, const struct stat *original, int wrote,
                  struct xh_baked *out)
{
    int rc = -1;
    if (wrote && give_rights(fd, from, original, out) == 0 && fsync(fd) == 0 && rename(n->part, n->sidecar) == 0)
        rc = 0;
    if (rc) {
        if (out->as != XH_BAKED_FAILED && out->as != XH_BAKED_SKIPPED)
            xh_baked_tell(out, XH_BAKED_FAILED, "%s cannot be written: %s", n->sidecar, strerror(errno));
        unlink(n->part);
    } else {
        sync_directory(n->dir);
    }
    close(fd);
    return rc;
}

int xh_place_of(const char *path, const char *suffix, struct xh_place *n, struct stat *st, struct xh_baked *out)
{
    *n = (struct xh_place){0};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return xh_baked_say(out, XH_BAKED_FAILED, "it cannot be opened: %s", strerror(errno));
    if (names_of(path, suffix, n) == 0 && fstat(fd, st) == 0 && S_ISREG(st->st_mode)) {
        out->file_bytes = (uint64_t)st->st_size;
        return fd;
    }
    close(fd);
    return xh_baked_say(out, XH_BAKED_FAILED, "it is no regular file");
}

int xh_place_sidecar(const struct xh_place *n, void *head, size_t len, uint64_t *bytes, struct xh_baked *out)
{
    struct stat st;
    int fd = open(n->sidecar, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return xh_baked_say(out, errno == ENOENT ? XH_BAKED_NONE : XH_BAKED_FAILED, "%s", strerror(errno));
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && xh_read_full(fd, head, len, 0) == 0) {
        *bytes = (uint64_t)st.st_size;
        return fd;
    }
    close(fd);
    return xh_baked_say(out, XH_BAKED_STALE, "it is shorter than a header");
}

void xh_place_judge(const char *wrong, uint64_t file_bytes, int64_t mtime_s, uint32_t mtime_ns, const struct stat *st,
                    struct xh_baked *out)
{
    if (!wrong && (file_bytes != (uint64_t)st->st_size || mtime_s != st->st_mtim.tv_sec ||
                   mtime_ns != (uint32_t)st->st_mtim.tv_nsec))
        wrong = "the file was changed since";
    xh_baked_tell(out, wrong ? XH_BAKED_STALE : XH_BAKED_FRESH, "%s", wrong ? wrong : "");
}

/* How a file that is changed now is dated there: |part| is one. A file server has a clock of its own. */
static time_t its_clock(int part)
{
    struct stat st;
    return part >= 0 && futimens(part, NULL) == 0 && fstat(part, &st) == 0 ? st.st_mtim.tv_sec : time(NULL);
}

int xh_place_settle(const struct xh_place *n, int fd, struct stat *st, struct xh_baked *out)
{
    int part = -1, rc = 0, looks = 0;
    if (st->st_mtim.tv_sec >= time(NULL) - XH_CLOCKS_APART_S) /* a file server's clock may be behind */
        part = open_part(n->part);
    for (time_t now; (now = its_clock(part)) <= st->st_mtim.tv_sec && st->st_mtim.tv_sec - now <= AHEAD_MOST_S;) {
        xh_pause_ns(LOOK_EVERY_NS);
        if (fstat(fd, st) != 0)
            rc = xh_baked_say(out, XH_BAKED_FAILED, "it cannot be read: %s", strerror(errno));
        else if (++looks == SETTLES_S * (int)(1000000000 / LOOK_EVERY_NS))
            rc = xh_baked_say(out, XH_BAKED_FAILED, "somebody is writing to it: publish it when it is whole");
        if (rc)
            break;
    }
    if (part >= 0) {
        unlink(n->part);
        close(part);
    }
    out->file_bytes = (uint64_t)st->st_size;
    return rc;
}

int xh_place_is_changed(const char *path, const struct stat *was)
{
    struct stat st;
    return stat(path, &st) != 0 || st.st_ino != was->st_ino || st.st_dev != was->st_dev || st.st_size != was->st_size ||
           st.st_mtim.tv_sec != was->st_mtim.tv_sec || st.st_mtim.tv_nsec != was->st_mtim.tv_nsec;
}

void xh_place_remove(const char *path, const char *suffix, struct xh_baked *out)
{
    struct xh_place n;
    if (names_of(path, suffix, &n) != 0)
        xh_baked_tell(out, XH_BAKED_FAILED, "out of memory");
    else if (unlink(n.sidecar) == 0)
        out->as = XH_BAKED_GONE;
    else
        xh_baked_tell(out, errno == ENOENT ? XH_BAKED_NONE : XH_BAKED_FAILED, "%s: %s", n.sidecar, strerror(errno));
    if (n.part && out->as != XH_BAKED_FAILED) { /* left by a killed publisher, unless one is working */
        int fd = access(n.part, F_OK) == 0 ? open_part(n.part) : -1;
        if (fd >= 0) {
            unlink(n.part);
            close(fd);
        }
    }
    xh_place_free(&n);
}
