/* Local files on slow file systems: see localfs.h.
 *
 * For a file that is only read, this code claims pages of its shadow, reads them from the file in pieces of a
 * profitable size (read_around.h), and publishes them. Where that fails it reads as if there were no shadow. */
#include "localfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/filesystems.h"
#include "base/now.h"
#include "base/process.h"
#include "shadow/shadow.h"
#include "watch/trace.h"
#include "write_buffer.h"
#include "read_around.h"

#define OTHERS_MS 1000             /* longest wait for another process to publish a page */
#define HELD_LEAST_BYTES (8u << 20) /* with a smaller budget the image would be written back all the time */

struct xh_localfs {
    /* Constant. */
    uint64_t process;         /* the process that opened it */
    uint64_t size;            /* of a file that is only read, when it was opened */
    struct xh_shadow *shadow; /* NULL: the file is written */

    struct xh_read_around reach; /* used for a file that is only read */
    uint64_t hits;
    struct { /* option stats: for both kinds of file */
        int on;
        uint64_t opened_ns, spent_ns;  /* spent: in calls of localfs.h */
        uint64_t reads, writes;        /* calls of HDF5 */
        char path[512];
    } account;
    /* for one read, XH_READ_AROUND_BUFFER bytes; kept, as new memory costs as much as reading */
    char *buf;
    struct xh_write_buffer held; /* used for a file that is written */
};

/* Returns 1 when the local shadow gains nothing on this file system: it is in memory, or on a local disk that the page
 * cache serves. It is asked once, at opening: what is held back must not depend on how long one write happens to
 * take. */
static int is_quick(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) < 0)
        return 0;
    switch ((unsigned long)fs.f_type) {
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case EXT4_SUPER_MAGIC: /* ext2 and ext3 too */
    case XFS_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case ZFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC: return 1;
    default: return 0;
    }
}

static long long ns_of(struct timespec t)
{
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Makes the text that identifies a version of the file. Returns 1 when the times may not tell two versions apart:
 * the file has just been changed, and its clock ticks coarsely. Then the text is unique to this opening. */
static int version_of(const struct stat *st, char *out, size_t size)
{
    static _Atomic unsigned opened;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    long long last = ns_of(st->st_mtim) > ns_of(st->st_ctim) ? ns_of(st->st_mtim) : ns_of(st->st_ctim);
    /* File systems tick in up to two seconds, and the clock of a file server may be behind. */
    int young = last > ns_of(now) - XH_CLOCKS_APART_S * 1000000000ll;
    int n = snprintf(out, size, "%llx-%llx-%llx-%llx", (unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
                     (unsigned long long)ns_of(st->st_mtim), (unsigned long long)ns_of(st->st_ctim));
    if (young)
        snprintf(out + n, size - (size_t)n, "-%d-%u", (int)getpid(), opened++);
    return young;
}

/* Opens the shadow of a file that is only read. Returns NULL when there can be none. */
static struct xh_shadow *shadow_of(const struct stat *st, const char *path, const struct xh_options *o)
{
    char version[160];
    struct xh_options *alone = NULL; /* a thread's stack may be small */
    struct xh_shadow *s = NULL;
    char *whole = realpath(path, NULL), *name = NULL;
    if (version_of(st, version, sizeof version)) {
        if (!(alone = malloc(sizeof *alone))) {
            free(whole);
            return NULL;
        }
        *alone = *o;
        alone->shadow = 0;
        o = alone;
    }
    if (asprintf(&name, "file://%s", whole ? whole : path) < 0)
        name = NULL;
    if (name && xh_shadow_open(name, version, (uint64_t)st->st_size, o, &s, XH_IGNORED))
        s = NULL;
    free(name);
    free(whole);
    free(alone);
    return s;
}

struct xh_localfs *xh_localfs_open(int fd, const struct stat *st, const char *path, int writing,
                                   const struct xh_options *o)
{
    if (!S_ISREG(st->st_mode) || is_quick(fd) || (!writing && st->st_size == 0) ||
        (writing && o->private_budget_bytes < HELD_LEAST_BYTES))
        return NULL;
    struct xh_localfs *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->process = xh_process();
    n->size = (uint64_t)st->st_size;
    xh_read_around_begin(&n->reach, fd, n->size);
    if (writing) {
        xh_write_buffer_begin(&n->held, fd, n->size, o->private_budget_bytes);
    } else if (!(n->shadow = shadow_of(st, path, o))) {
        free(n);
        return NULL;
    }
    if ((n->account.on = o->stats != 0)) {
        n->account.opened_ns = xh_now_ns();
        snprintf(n->account.path, sizeof n->account.path, "%s", path);
        xh_text_plain(n->account.path);
    }
    xh_trace_enable(o->log);
    xh_trace(XH_T_SHADOW, "near", "writing=%d private=%d", writing, n->shadow ? xh_shadow_private(n->shadow) != 0 : 1);
    return n;
}

/* Prints the account of a local file. */
static void tell(const struct xh_localfs *n)
{
    const struct xh_write_buffer *h = &n->held;
    const struct xh_read_around *r = n->shadow ? &n->reach : &h->reach;
    uint64_t wall = xh_now_ns() - n->account.opened_ns, spent = n->account.spent_ns;
    double all = (double)(wall ? wall : 1);
    dprintf(STDERR_FILENO,
            "xhdf5: %s: local_shadow, open for %.3f s\n"
            "  reads     %llu by HDF5; %llu of the file system, %.1f MB\n"
            "  writes    %llu by HDF5; %llu to the file system, %.1f MB\n"
            "  time      memory and file system %.3f s (%.0f %%), HDF5 and application %.3f s (%.0f %%)\n",
            n->account.path, all / 1e9, (unsigned long long)n->account.reads,
            (unsigned long long)r->reads, (double)r->read_bytes / 1e6, (unsigned long long)n->account.writes,
            (unsigned long long)h->writes, (double)h->written_bytes / 1e6, (double)spent / 1e9,
            100 * (double)spent / all, (double)(wall - spent) / 1e9, 100 * (double)(wall - spent) / all);
}

/* enter() and leave() measure the time of a call of localfs.h. */
static uint64_t enter(const struct xh_localfs *n)
{
    return n->account.on ? xh_now_ns() : 0;
}

static int leave(struct xh_localfs *n, uint64_t entered, int rc)
{
    if (entered)
        n->account.spent_ns += xh_now_ns() - entered;
    return rc;
}

void xh_localfs_close(struct xh_localfs *n)
{
    const struct xh_write_buffer *h = &n->held;
    if (n->account.on && n->process == xh_process())
        tell(n);
    if (n->shadow) {
        xh_trace(XH_T_STATS, "near", "reads=%llu bytes=%llu hits=%llu", (unsigned long long)n->reach.reads,
                 (unsigned long long)n->reach.read_bytes, (unsigned long long)n->hits);
        xh_shadow_close(n->shadow);
    } else {
        xh_trace(XH_T_STATS, "near", "reads=%llu bytes=%llu writes=%llu written=%llu",
                 (unsigned long long)h->reach.reads, (unsigned long long)h->reach.read_bytes,
                 (unsigned long long)h->writes, (unsigned long long)h->written_bytes);
        xh_write_buffer_end(&n->held);
    }
    free(n->buf);
    free(n);
}

/* Reads from the file alone. Bytes behind its end are zeros. Returns 0 or -1. */
static int read_plain(struct xh_localfs *n, uint64_t off, size_t len, void *buf)
{
    ssize_t got = xh_read_around_file(&n->reach, off, len, buf);
    if (got < 0)
        return -1;
    memset((char *)buf + got, 0, len - (size_t)got);
    return 0;
}

/* Reads pages [first, first+count) from the file at once, from the first claimed one to the last, and publishes the
 * claimed ones. */
static void bring(struct xh_localfs *n, uint64_t first, size_t count, const uint8_t *mine)
{
    size_t from = 0, to = count;
    while (from < to && !mine[from])
        from++;
    while (to > from && !mine[to - 1])
        to--;
    uint64_t off = (first + from) * XH_PAGE_BYTES, end = (first + to) * XH_PAGE_BYTES;
    size_t len = (size_t)((end < n->size ? end : n->size) - off);
    if (!n->buf)
        n->buf = malloc(XH_READ_AROUND_BUFFER);
    char *buf = n->buf;
    ssize_t got = buf ? xh_read_around_file(&n->reach, off, len, buf) : -1;
    if (got != (ssize_t)len) { /* it failed, or the file has become shorter: read as if there were no shadow */
        for (size_t i = from; i < to; i++)
            if (mine[i])
                xh_shadow_abandon(n->shadow, first + i, 1);
        return;
    }
    xh_read_around_learn(&n->reach);
    for (size_t i = from, run; i < to; i += run) {
        for (run = 1; i + run < to && mine[i + run] == mine[i]; run++) {}
        size_t at = (i - from) * XH_PAGE_BYTES, size = run * XH_PAGE_BYTES < len - at ? run * XH_PAGE_BYTES : len - at;
        if (!mine[i])
            continue;
        if (xh_shadow_fill(n->shadow, off + at, buf + at, size) == 0)
            xh_shadow_publish(n->shadow, first + i, run, NULL);
        else
            xh_shadow_abandon(n->shadow, first + i, run);
    }
}

/* Claims the page of |off|, which is missing, and pages around [off, off+len); reads and publishes those it got.
 * Returns the result of the first claim. */
static enum xh_claim fetch(struct xh_localfs *n, int raw, uint64_t off, size_t len)
{
    uint64_t lo, hi;
    uint8_t mine[XH_READ_AROUND_BUFFER / XH_PAGE_BYTES] = {0};
    xh_read_around_around(&n->reach, off, len, n->size, &lo, &hi);
    uint64_t first = lo / XH_PAGE_BYTES, wanted = off / XH_PAGE_BYTES;
    size_t count = (size_t)(xh_page_up(hi) - first);
    count = count < sizeof mine ? count : sizeof mine;
    enum xh_claim claim = xh_shadow_claim(n->shadow, wanted, !raw, NULL);
    if (claim != XH_CLAIM_MINE)
        return claim;
    for (size_t i = 0; i < count; i++)
        mine[i] = first + i == wanted || xh_shadow_claim(n->shadow, first + i, !raw, NULL) == XH_CLAIM_MINE;
    bring(n, first, count, mine);
    return claim;
}

/* Serves a small read of a file that is only read. Returns 0 or -1. */
static int read_shadow(struct xh_localfs *n, int raw, uint64_t off, size_t len, char *buf)
{
    size_t got = xh_shadow_read(n->shadow, off, buf, len);
    if (got == len) {
        xh_read_around_hit(&n->reach);
        n->hits++;
        return 0;
    }
    uint64_t last = UINT64_MAX; /* the page that was missing in the last round */
    for (; got < len; got += xh_shadow_read(n->shadow, off + got, buf + got, len - got)) {
        uint64_t page = (off + got) / XH_PAGE_BYTES;
        if (page == last) /* it was published and evicted again */
            break;
        last = page;
        enum xh_claim claim = fetch(n, raw, off + got, len - got);
        if (claim == XH_CLAIM_NONE ||
            (claim == XH_CLAIM_BUSY && xh_shadow_wait(n->shadow, page, OTHERS_MS, NULL) != 0))
            break;
    }
    return got == len ? 0 : read_plain(n, off + got, len - got, buf + got);
}

static int read_any(struct xh_localfs *n, int raw, uint64_t addr, size_t size, void *buf)
{
    if (!n->shadow)
        return xh_write_buffer_read(&n->held, raw, addr, size, buf);
    if (addr >= n->size || xh_read_around_is_bulk(raw, size))
        return read_plain(n, addr, size, buf);
    size_t there = size < n->size - addr ? size : (size_t)(n->size - addr);
    memset((char *)buf + there, 0, size - there);
    return read_shadow(n, raw, addr, there, buf);
}

int xh_localfs_read(struct xh_localfs *n, int raw, uint64_t addr, size_t size, void *buf)
{
    uint64_t entered = enter(n);
    n->account.reads++;
    return leave(n, entered, read_any(n, raw, addr, size, buf));
}

int xh_localfs_write(struct xh_localfs *n, int raw, uint64_t addr, size_t size, const void *buf)
{
    uint64_t entered = enter(n);
    n->account.writes++;
    if (xh_localfs_is_parents(n))
        return leave(n, entered, xh_write_buffer_keep(&n->held, raw, addr, size, buf));
    if (!n->shadow)
        return leave(n, entered, xh_write_buffer_write(&n->held, raw, addr, size, buf));
    errno = EBADF; /* the error of the system for a file opened for reading */
    return -1;
}

void xh_localfs_locked(struct xh_localfs *n, int exclusive)
{
    n->held.alone = exclusive;
}

int xh_localfs_is_parents(const struct xh_localfs *n)
{
    return !n->shadow && n->process != xh_process();
}

int xh_localfs_flush(struct xh_localfs *n)
{
    uint64_t entered = enter(n);
    return n->shadow || xh_localfs_is_parents(n) ? 0 : leave(n, entered, xh_write_buffer_write_back(&n->held));
}

int xh_localfs_truncate(struct xh_localfs *n, uint64_t size)
{
    uint64_t entered = enter(n);
    if (xh_localfs_is_parents(n))
        return 0;
    return leave(n, entered,
                 n->shadow ? ftruncate(n->reach.fd, (off_t)size) : xh_write_buffer_truncate(&n->held, size));
}

uint64_t xh_localfs_eof(const struct xh_localfs *n)
{
    return n->shadow ? n->size : n->held.eof;
}
