/* A shadow's file: finds, creates, checks and locks it. directory.c has the directory that it is in.
 *
 * Invariants
 * 1. A file has a shadow's name only when it is complete: it is built under a temporary name and renamed where no such
 *    name exists. The loser of a race uses the winner's file.
 * 2. Nothing of a file is believed before all of it was compared with what this process would have written: type,
 *    owner, mode, size, head. A file that differs is set aside.
 * 3. A process that has a file open holds XH_LOCK_OPEN shared. A process that removes a shadow to make room holds it
 *    exclusively. So a shadow in use keeps its name, and one without a name is not opened again. A visitor, which makes
 *    room in it, does not hold it, as it is no reader: it loses nothing where the shadow is removed meanwhile.
 *
 * This file knows nothing of page states. Threads: any; callers hold xh_shadow_lock or own |s| alone. */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/now.h"
#include "base/sha256.h"
#include "base/waits.h"
#include "watch/trace.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

uint64_t xh_shadow_test_unit;

static uint64_t unit_bytes(void)
{
    if (xh_shadow_test_unit)
        return xh_shadow_test_unit;
    long kernel = sysconf(_SC_PAGESIZE);
    return kernel > (long)XH_PAGE_BYTES ? (uint64_t)kernel : XH_PAGE_BYTES;
}

int xh_store_url_hex(const char *url, char hex[65])
{
    uint8_t sha[32];
    if (!xh_sha256(url, strlen(url), sha))
        return -1;
    xh_hex(sha, sizeof sha, hex);
    return 0;
}

int xh_store_is_name(const char *name, char letter)
{
    size_t digits = letter == 't' ? 32 : 64;
    return name[0] == letter && name[1] == '-' && strlen(name + 2) == digits &&
           strspn(name + 2, "0123456789abcdef") == digits;
}

void xh_store_temp_name(char name[XH_NAME_BYTES])
{
    uint64_t r[2] = {(uint64_t)getpid(), xh_now_ns()};
    (void)!getrandom(r, sizeof r, GRND_NONBLOCK);
    snprintf(name, XH_NAME_BYTES, "t-%016llx%016llx", (unsigned long long)r[0], (unsigned long long)r[1]);
}

/* ---- locks ------------------------------------------------------------------------------- */

int xh_store_lock(int fd, short type, uint64_t at)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    return xh_retry(fcntl(fd, F_OFD_SETLK, &l)) == 0 ? 0 : errno == EAGAIN || errno == EACCES ? 1 : -1;
}

int xh_store_locked(int fd, uint64_t at)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
    if (fcntl(fd, F_OFD_GETLK, &l) < 0)
        return -1;
    return l.l_type != F_UNLCK;
}

/* ---- head -------------------------------------------------------------------------------- */

static char boot_id[40]; /* constant after the first xh_store_describe */

static void read_boot_id(void)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, boot_id, 36) != 36)
        memset(boot_id, 0, sizeof boot_id);
    close(fd);
}

static int key_of(const char *url, const char *validator, uint64_t size, uint8_t sha[32])
{
    char *key = NULL;
    int n = asprintf(&key, "%s%c%s%c%llu", url, '\0', validator, '\0', (unsigned long long)size);
    if (n < 0)
        return -1;
    int rc = xh_sha256(key, (size_t)n, sha) ? 0 : -1;
    free(key);
    return rc;
}

/* Sets all fields that follow from the size alone. Returns 0 or -1. */
static int set_numbers(struct xh_layout_head *h, uint64_t size, int on_disk)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t unit = unit_bytes();
    if (size == 0 || size >= 1ull << 60 || unit > XH_UNIT_MAX_PAGES * XH_PAGE_BYTES)
        return -1;
    memcpy(h->magic, XH_LAYOUT_MAGIC, sizeof h->magic);
    h->version = XH_LAYOUT_VERSION;
    h->header_bytes = (uint32_t)xh_round_up(XH_HEADER_MIN_BYTES, unit);
    h->page_bytes = XH_PAGE_BYTES;
    h->unit_bytes = (uint32_t)unit;
    h->origin_bytes = size;
    h->pages = xh_page_up(size);
    h->sums_off = h->header_bytes + xh_round_up(h->pages * 8, unit);
    h->data_off = h->sums_off + xh_round_up(h->pages * 8, unit);
    h->file_bytes = h->data_off + xh_round_up(size, unit);
    h->slots = XH_SLOTS;
    h->on_disk = (uint32_t)on_disk;
    pthread_once(&once, read_boot_id);
    memset(h->boot_id, 0, sizeof h->boot_id);
    if (!on_disk)
        memcpy(h->boot_id, boot_id, sizeof boot_id);
    return 0;
}

/* What the sums of |h|'s pages are of: on a disk, where a block may turn up in another file's place, the key. */
static uint64_t sums_of(const struct xh_layout_head *h)
{
    uint64_t key = 0;
    if (h->on_disk)
        memcpy(&key, h->key_sha256, sizeof key);
    return key;
}

int xh_store_describe(struct xh_shadow *s, const char *url, const char *validator, uint64_t size, int on_disk)
{
    struct xh_layout_head *h = &s->head;
    if (set_numbers(h, size, on_disk) < 0)
        return -1;
    if (key_of(url, validator, size, h->key_sha256) < 0 || !xh_sha256(url, strlen(url), h->url_sha256))
        return -1;
    snprintf(h->validator, sizeof h->validator, "%s", validator);
    xh_url_shown(url, h->url_shown, sizeof h->url_shown);
    s->name[0] = 's', s->name[1] = '-';
    xh_hex(h->key_sha256, sizeof h->key_sha256, s->name + 2);
    xh_hex(h->url_sha256, sizeof h->url_sha256, s->url_hex);
    s->sums_of = sums_of(h);
    return 0;
}

int xh_store_sound(const struct xh_layout_head *h, const char *name, int on_disk)
{
    char hex[65];
    struct xh_layout_head want = *h;
    xh_hex(h->key_sha256, sizeof h->key_sha256, hex);
    return set_numbers(&want, h->origin_bytes, on_disk) == 0 && memcmp(&want, h, sizeof want) == 0 &&
           strcmp(hex, name + 2) == 0;
}

int xh_store_describe_existing(struct xh_shadow *s, int on_disk)
{
    struct xh_layout_head *h = &s->head;
    int fd = openat(s->dirfd, s->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOATIME);
    if (fd < 0)
        return -1;
    int rc = xh_read_full(fd, h, sizeof *h, 0);
    close(fd);
    if (rc < 0 || !xh_store_sound(h, s->name, on_disk))
        return -1;
    s->sums_of = sums_of(h);
    return 0;
}

/* Gives a new file its size, its head, and memory for the part that every process maps. */
static int fill_new(int fd, const struct xh_layout_head *h)
{
    if (!xh_may_write(h->file_bytes))
        return -1;
    if (ftruncate(fd, (off_t)h->file_bytes) < 0 || xh_retry(fallocate(fd, 0, 0, h->header_bytes)) < 0)
        return -1;
    return xh_write_at(fd, h, sizeof *h, 0);
}

int xh_store_private(struct xh_shadow *s)
{
    int fd = memfd_create("xhdf5-shadow", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* Linux before 6.3 */
        fd = memfd_create("xhdf5-shadow", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fill_new(fd, &s->head) < 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    s->fd = xh_move_up(fd);
    return 0;
}

/* ---- file -------------------------------------------------------------------------------- */

enum attached { GOOD, AGAIN, BAD, MISSING, FAILED };

/* Opens the file if it is sound and, once locked, not being dropped. Sets s->fd when GOOD. */
static enum attached open_existing(struct xh_shadow *s)
{
    const struct xh_layout_head *h = &s->head;
    struct xh_layout_head there;
    struct stat st;
    enum attached rc = BAD;
    int fd = openat(s->dirfd, s->name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOATIME);
    if (fd < 0)
        return errno == ENOENT ? MISSING : errno == EMFILE || errno == ENFILE || errno == ENOMEM ? FAILED : BAD;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        (st.st_mode & 07777) != 0600 || (uint64_t)st.st_size != h->file_bytes)
        goto out;
    switch (s->visitor ? 0 : xh_store_lock(fd, F_RDLCK, XH_LOCK_OPEN)) {
    case 0: break;
    case 1: rc = AGAIN; goto out; /* it is being dropped */
    default: rc = FAILED; goto out;
    }
    if (fstat(fd, &st) < 0 || st.st_nlink == 0) {
        rc = AGAIN; /* it was dropped before we had the lock */
        goto out;
    }
    if (xh_read_full(fd, &there, sizeof there, 0) < 0 || memcmp(&there, h, sizeof there) != 0)
        goto out;
    /* A store into a hole could raise SIGBUS. */
    rc = FAILED;
    if (xh_retry(fallocate(fd, 0, 0, h->header_bytes)) < 0 || !xh_may_write(h->file_bytes))
        goto out;
    if (!s->visitor)
        (void)!futimens(fd, NULL); /* the time of last use: shadows are dropped in that order */
    s->fd = xh_move_up(fd);
    return GOOD;
out:
    close(fd);
    return rc;
}

/* Frees |s->name| from a file that is no shadow. Returns 0 or -1. */
static int set_aside(struct xh_shadow *s)
{
    char to[XH_NAME_BYTES];
    xh_trace(XH_T_SHADOW, "set_aside", "dir=%s name=%s", s->dir, s->name);
    if (unlinkat(s->dirfd, s->name, 0) == 0 || errno == ENOENT || unlinkat(s->dirfd, s->name, AT_REMOVEDIR) == 0)
        return 0;
    xh_store_temp_name(to); /* a directory with something in it, which is not ours */
    return renameat(s->dirfd, s->name, s->dirfd, to);
}

/* Renames if |to| does not exist. Returns 0, or -1 with errno EEXIST if it does. */
static int rename_new(int dirfd, const char *from, const char *to)
{
    if (renameat2(dirfd, from, dirfd, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    if (linkat(dirfd, from, dirfd, to, 0) < 0)
        return -1;
    unlinkat(dirfd, from, 0);
    return 0;
}

static enum attached create_new(struct xh_shadow *s)
{
    char temp[XH_NAME_BYTES];
    xh_store_temp_name(temp);
    int fd = openat(s->dirfd, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOATIME, 0600);
    if (fd < 0)
        return FAILED;
    enum attached rc = FAILED;
    if (xh_store_lock(fd, F_RDLCK, XH_LOCK_OPEN) != 0 || fchmod(fd, 0600) < 0 || fill_new(fd, &s->head) < 0)
        goto out;
    if (rename_new(s->dirfd, temp, s->name) == 0) {
        s->fd = xh_move_up(fd);
        return GOOD;
    }
    rc = errno == EEXIST ? AGAIN : FAILED;
out:
    unlinkat(s->dirfd, temp, 0);
    close(fd);
    return rc;
}

int xh_store_attach(struct xh_shadow *s)
{
    for (unsigned i = 0; i < XH_STORE_TRIES; i++) {
        enum attached rc = open_existing(s);
        if (s->visitor)
            return rc == GOOD ? 0 : -1;
        if (rc == MISSING)
            rc = create_new(s);
        /* xh_store_drop locks, so that no process removes what another has made anew. */
        if (rc == BAD && xh_store_drop(s->dirfd, s->name))
            rc = AGAIN;
        /* The file is damaged and in use by others, or it is no regular file. */
        if (rc == BAD && i == XH_STORE_TRIES / 2 && set_aside(s) < 0)
            rc = FAILED;
        if (rc == GOOD)
            return 0;
        if (rc == FAILED)
            break;
        if (i > 0)
            xh_pause_ns(XH_STORE_PAUSE_NS);
    }
    xh_trace(XH_T_SHADOW, "private", "dir=%s name=%s errno=%d", s->dir, s->name, errno);
    return -1;
}

int xh_store_reopen(const struct xh_shadow *s)
{
    char path[40];
    struct stat mine, other;
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOATIME);
    if (fd < 0 && s->dirfd >= 0) { /* there is no /proc, or this process may not be inspected */
        fd = openat(s->dirfd, s->name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && (fstat(fd, &other) < 0 || fstat(s->fd, &mine) < 0 || mine.st_ino != other.st_ino ||
                        mine.st_dev != other.st_dev)) {
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0 && !s->visitor)
        xh_store_lock(fd, F_RDLCK, XH_LOCK_OPEN); /* without the lock the shadow may be dropped sooner, no more */
    return fd;
}

int xh_store_drop(int dirfd, const char *name)
{
    struct stat mine, named;
    int gone = 0;
    int fd = openat(dirfd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) /* A missing file may be made anew, and used, before the next call. */
        return errno != ENOENT && errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != EINTR &&
               unlinkat(dirfd, name, 0) == 0;
    if (xh_store_lock(fd, F_WRLCK, XH_LOCK_OPEN) == 0 && fstat(fd, &mine) == 0 &&
        fstatat(dirfd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && mine.st_ino == named.st_ino)
        gone = unlinkat(dirfd, name, 0) == 0;
    close(fd);
    return gone;
}
