/* Images: see image.h.
 *
 * Page states and pages are read with pread only. A load from a mapping of a file that another program truncates raises
 * SIGBUS, and a load from a hole takes memory. Holes are skipped with SEEK_DATA, so that the work is bounded by what
 * the file takes, not by the size that its head claims.
 *
 * Readers are counted in /proc/locks: each process that has a shadow open holds XH_LOCK_OPEN once. */
#include "image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/sha256.h"
#include "budget.h"
#include "evict.h"
#include "hint.h"
#include "impl.h"
#include "directory.h"
#include "page.h"
#include "store.h"

#define OTHER_LAYOUT "of another layout version"
#define LOCKS_AGREE 5      /* so many readings in a row have to tell the same locks */
#define LOCKS_READ_MOST 40 /* then the last one counts */

struct xh_image {
    int fd;
    struct xh_layout_head head;
    uint64_t at; /* the next page to look at */
    uint64_t first, n; /* the page states in |word| */
    uint64_t word[XH_PAGE_BYTES / 8]; /* as many as are read at once */
};

/* ---- directory and head --------------------------------------------------------------------- */

/* Tells what is at |path| where no directory of this layout could be opened. Returns 0: nothing at all; 1: a sound
 * directory for all layouts without one for this; 2: something else. */
static int what_is_there(const char *path)
{
    char base[XH_DIR_BYTES];
    struct stat st;
    snprintf(base, sizeof base, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (lstat(base, &st) < 0)
        return errno == ENOENT ? 0 : 2;
    int sound = S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
    return sound && lstat(path, &st) < 0 && errno == ENOENT ? 1 : 2;
}

static int open_dir(const struct xh_options *o, char path[XH_DIR_BYTES])
{
    xh_directory_path(o, path);
    int fd = xh_directory_open(o, 0);
    return fd < 0 && what_is_there(path) == 1 ? xh_directory_open(o, 1) : fd; /* other layouts are listed too */
}

/* Opens |name| and reads its head. Returns why it is no shadow, or NULL with |*fd| and |*h| set. */
static const char *look(int dirfd, int on_disk, const char *name, int *fd, struct stat *st, struct xh_layout_head *h)
{
    *fd = -1;
    *st = (struct stat){0};
    if (fstatat(dirfd, name, st, AT_SYMLINK_NOFOLLOW) < 0)
        return "gone";
    if (!S_ISREG(st->st_mode)) /* a device or a pipe is not even opened */
        return S_ISLNK(st->st_mode) ? "a symbolic link" : "not a regular file";
    int there = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const char *flaw = NULL;
    if (there < 0 || fstat(there, st) < 0)
        flaw = "cannot be opened";
    else if (!S_ISREG(st->st_mode))
        flaw = "not a regular file";
    else if (st->st_uid != geteuid())
        flaw = "another user's";
    else if ((st->st_mode & 07777) != 0600)
        flaw = "its mode is not 0600";
    else if (xh_read_full(there, h, sizeof *h, 0) < 0)
        flaw = "truncated in its head";
    else if (memcmp(h->magic, XH_LAYOUT_MAGIC, sizeof h->magic) != 0)
        flaw = "scribbled over";
    else if (h->version != XH_LAYOUT_VERSION)
        flaw = OTHER_LAYOUT;
    else if (!xh_store_sound(h, name, on_disk))
        flaw = "scribbled over, or of an earlier boot";
    else if ((uint64_t)st->st_size != h->file_bytes)
        flaw = "truncated";
    if (flaw && there >= 0)
        close(there);
    else
        *fd = there;
    return flaw;
}

/* ---- page states --------------------------------------------------------------------------- */

/* Loads the page states from |m->at| on; a hole that begins there is skipped. Returns 0 when there are no more. */
static int load_words(struct xh_image *m)
{
    uint64_t end = m->head.header_bytes + m->head.pages * 8;
    off_t data = lseek(m->fd, (off_t)(m->head.header_bytes + m->at * 8), SEEK_DATA);
    if (data < 0 || (uint64_t)data >= end)
        return 0;
    uint64_t first = ((uint64_t)data - m->head.header_bytes) / 8;
    uint64_t from = m->head.header_bytes + first * 8;
    ssize_t n = pread(m->fd, m->word, end - from < sizeof m->word ? end - from : sizeof m->word, (off_t)from);
    if (n < 8)
        return 0;
    m->at = m->first = first;
    m->n = (uint64_t)n / 8;
    return 1;
}

int xh_image_next(struct xh_image *m, struct xh_image_run *out)
{
    struct xh_image_run r = {0};
    while (m->at < m->head.pages && r.count < XH_IMAGE_RUN_PAGES) {
        if (m->at - m->first >= m->n) { /* also where |at| is before |first| */
            uint64_t was = m->at;
            if (!load_words(m))
                m->at = m->head.pages;
            if (m->at != was && r.count)
                break;
            continue;
        }
        uint64_t w = m->word[m->at - m->first];
        int ready = xh_w_state(w) == XH_READY, meta = (w & XH_W_META) != 0;
        if (r.count && (!ready || meta != r.meta))
            break;
        if (ready && r.count++ == 0) {
            r.first = m->at;
            r.meta = meta;
        }
        m->at++;
    }
    *out = r;
    return r.count != 0;
}

static uint64_t bytes_of(const struct xh_layout_head *h, const struct xh_image_run *r)
{
    uint64_t off = r->first * XH_PAGE_BYTES, len = r->count * XH_PAGE_BYTES;
    return len < h->origin_bytes - off ? len : h->origin_bytes - off;
}

/* Reads [off, off + len). Returns how many bytes were there. */
static size_t read_some(int fd, void *buf, size_t len, uint64_t off)
{
    ssize_t got = xh_read_at(fd, buf, len, off);
    return got > 0 ? (size_t)got : 0;
}

void xh_image_read(struct xh_image *m, const struct xh_image_run *run, uint8_t *buf, uint8_t *good)
{
    uint64_t before[XH_IMAGE_RUN_PAGES], after[XH_IMAGE_RUN_PAGES];
    uint64_t words = m->head.header_bytes + run->first * 8;
    size_t n = run->count, len = bytes_of(&m->head, run);
    size_t had = read_some(m->fd, before, n * 8, words) / 8;
    /* As in page.c, but that the kernel loads the page states too: system calls order nothing by themselves. The first
     * pairs with publish, the second with the evictor's fence. */
    xh_page_fence();
    size_t got = read_some(m->fd, buf, len, m->head.data_off + run->first * XH_PAGE_BYTES);
    xh_page_fence();
    size_t has = read_some(m->fd, after, n * 8, words) / 8;
    for (size_t i = 0; i < n; i++) {
        size_t end = (i + 1) * XH_PAGE_BYTES < len ? (i + 1) * XH_PAGE_BYTES : len;
        good[i] = i < had && i < has && end <= got && xh_w_state(before[i]) == XH_READY &&
                  ((before[i] ^ after[i]) & XH_W_SEEN) == 0;
    }
}

/* ---- one image ------------------------------------------------------------------------------ */

struct xh_image *xh_image_open(const struct xh_options *o, const char *url, const char *validator, uint64_t size)
{
    char path[XH_DIR_BYTES];
    struct stat st;
    struct xh_image *m = calloc(1, sizeof *m);
    struct xh_shadow *named = calloc(1, sizeof *named); /* only to compute its name */
    int dirfd = open_dir(o, path);
    int there = m && named && dirfd >= 0 && xh_store_describe(named, url, validator, size, o->on_disk) == 0 &&
                !look(dirfd, o->on_disk, named->name, &m->fd, &st, &m->head);
    free(named);
    if (dirfd >= 0)
        close(dirfd);
    if (there)
        return m;
    free(m);
    return NULL;
}

void xh_image_close(struct xh_image *m)
{
    if (m)
        close(m->fd);
    free(m);
}

/* ---- the list ------------------------------------------------------------------------------- */

/* Returns a line for each reader of a shadow that /proc/locks tells: its file, as "major:minor:inode"; NULL where it
 * cannot be read. Owns: the caller frees it. */
static char *read_locks_once(void)
{
    char *text = NULL;
    size_t room = 0;
    FILE *f = fopen("/proc/locks", "re");
    if (!f)
        return NULL;
    ssize_t n = getdelim(&text, &room, '\0', f);
    fclose(f);
    if (n < 0) {
        free(text);
        return NULL;
    }
    char *to = text;
    for (char *line = text, *next; *line; line = next) {
        unsigned long long at;
        int first = 0, end = 0;
        next = line + strcspn(line, "\n");
        next += *next != '\0';
        if (sscanf(line, "%*u: OFDLCK %*s READ %*d %n%*x:%*x:%*u%n %llu", &first, &end, &at) == 1 &&
            at == XH_LOCK_OPEN) {
            memmove(to, line + first, (size_t)(end - first));
            to += end - first;
            *to++ = '\n';
        }
    }
    *to = '\0';
    return text;
}

/* The same, without those that were passed over or told twice: the kernel tells the locks page by page, and begins each
 * page by counting from the first lock, while others' come and go. */
static char *read_locks(void)
{
    char *locks = read_locks_once();
    for (int same = 1, i = 0; locks && same < LOCKS_AGREE && i < LOCKS_READ_MOST; i++) {
        char *again = read_locks_once();
        same = again && strcmp(again, locks) == 0 ? same + 1 : 1;
        free(locks);
        locks = again;
    }
    return locks;
}

static unsigned count_readers(const char *locks, int fd, const struct stat *st)
{
    unsigned n = 0, major, minor;
    unsigned long long ino;
    for (const char *line = locks; line && *line; line = strchr(line, '\n') + 1)
        n += sscanf(line, "%x:%x:%llu", &major, &minor, &ino) == 3 && ino == st->st_ino &&
             makedev(major, minor) == st->st_dev;
    return n ? n : xh_store_locked(fd, XH_LOCK_OPEN) > 0;
}

static void count_pages(struct xh_image *m, struct xh_image_info *i)
{
    struct xh_image_run r;
    while (xh_image_next(m, &r)) {
        *(r.meta ? &i->meta_pages : &i->raw_pages) += r.count;
        *(r.meta ? &i->meta_bytes : &i->raw_bytes) += bytes_of(&m->head, &r);
    }
}

/* Fills |i| with the facts about the file |name|. */
static void inspect(int dirfd, int on_disk, const char *name, const char *locks, struct xh_image *m,
                    struct xh_image_info *i)
{
    struct stat st;
    *i = (struct xh_image_info){0};
    *m = (struct xh_image){0};
    snprintf(i->name, sizeof i->name, "%s", name);
    i->flaw = look(dirfd, on_disk, name, &m->fd, &st, &m->head);
    if (!i->flaw && name[0] == '.') { /* whatever its head says */
        i->flaw = OTHER_LAYOUT;
        close(m->fd);
    }
    i->taken_bytes = (uint64_t)st.st_blocks * 512;
    i->used = st.st_mtim.tv_sec;
    if (i->flaw)
        return;
    memcpy(i->url_shown, m->head.url_shown, sizeof i->url_shown - 1);
    memcpy(i->validator, m->head.validator, sizeof i->validator - 1);
    xh_hex(m->head.url_sha256, sizeof m->head.url_sha256, i->url_hex);
    i->origin_bytes = m->head.origin_bytes;
    if (read_some(m->fd, &i->hit_bytes, 8, XH_LIVE_OFF + offsetof(struct xh_layout_live, hit_bytes)) != 8)
        i->hit_bytes = 0;
    i->readers = count_readers(locks, m->fd, &st);
    count_pages(m, i);
    close(m->fd);
}

/* A listing and its receiver. */
struct listing {
    int dirfd, on_disk;
    char *locks;
    struct xh_image *m;
    struct xh_image_info *i;
    int (*each)(void *ctx, const struct xh_image_info *i);
    void *ctx;
};

/* Lists the shadows of |place|. Returns 1 when the receiver wants no more. */
static int list_place(const struct listing *l, const char *place)
{
    char name[XH_NAME_BYTES];
    DIR *d = xh_directory_list(l->dirfd, place);
    int over = 0;
    if (!d)
        return 0;
    for (struct dirent *e; !over && (e = readdir(d));) {
        if (!xh_store_is_name(e->d_name, 's'))
            continue;
        snprintf(name, sizeof name, "%.*s%.*s", XH_PLACE_BYTES - 1, place, XH_NAME_BYTES - XH_PLACE_BYTES, e->d_name);
        inspect(l->dirfd, l->on_disk, name, l->locks, l->m, l->i);
        over = l->each(l->ctx, l->i);
    }
    closedir(d);
    return over;
}

int xh_image_each(const struct xh_options *o, int (*each)(void *ctx, const struct xh_image_info *i), void *ctx,
                  struct xh_err *err)
{
    char path[XH_DIR_BYTES], place[XH_PLACES_MOST][XH_PLACE_BYTES];
    int rc = 0, dirfd = open_dir(o, path);
    if (dirfd < 0) {
        if (what_is_there(path) == 0)
            return 0;
        return xh_err_set(
            err, XH_E_SYS, 0,
            "%.500s is no directory for %s: it and the one that it is in must be directories of yours "
            "alone (mode 0700), no symbolic links, and on %s",
            path, o->on_disk ? "the disk cache" : "shadows", o->on_disk ? "a local disk with ext4 or XFS" : "tmpfs");
    }
    struct listing l = {.dirfd = dirfd, .on_disk = o->on_disk, .locks = read_locks(), .each = each, .ctx = ctx};
    l.m = malloc(sizeof *l.m);
    l.i = malloc(sizeof *l.i);
    if (!l.m || !l.i)
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory while listing %.500s", path);
    size_t n = rc ? 0 : xh_directory_places(dirfd, o->on_disk, place);
    for (size_t i = 0; i < n && !list_place(&l, place[i]); i++)
        ;
    free(l.locks);
    free(l.i);
    free(l.m);
    close(dirfd);
    return rc;
}

static int by_use(const void *a, const void *b)
{
    time_t x = ((const struct xh_image_info *)a)->used, y = ((const struct xh_image_info *)b)->used;
    return (x > y) - (x < y);
}

void xh_image_sort(struct xh_image_info *at, size_t n)
{
    time_t now = time(NULL);
    for (size_t i = 0; i < n; i++)
        at[i].used = xh_evict_used((struct timespec){.tv_sec = at[i].used}, now).tv_sec;
    if (n)
        qsort(at, n, sizeof *at, by_use);
}

int xh_image_is_of(const struct xh_image_info *i, const char *url)
{
    char hex[65];
    return !i->flaw &&
           (strcmp(url, i->url_shown) == 0 || (xh_store_url_hex(url, hex) == 0 && strcmp(hex, i->url_hex) == 0));
}

/* ---- removing, budget ----------------------------------------------------------------------- */

int xh_image_remove(const struct xh_options *o, const struct xh_image_info *i, struct xh_err *err)
{
    char path[XH_DIR_BYTES], hint[XH_NAME_BYTES];
    int dirfd = open_dir(o, path), rc = 0;
    if (dirfd < 0)
        return xh_err_set(err, XH_E_SYS, 0, "%.500s cannot be opened any more", path);
    if (xh_store_drop(dirfd, i->name)) {
        if (i->name[0] == '.')
            xh_directory_tidy(dirfd, o->on_disk);
        snprintf(hint, sizeof hint, "u-%s", i->url_hex);
        if (!i->flaw && xh_hint_orphan(dirfd, hint))
            unlinkat(dirfd, hint, 0);
    } else {
        int why = errno, fd = openat(dirfd, i->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        int used = fd >= 0 && xh_store_locked(fd, XH_LOCK_OPEN) > 0;
        if (fd >= 0)
            close(fd);
        if (used)
            rc = xh_err_set(err, XH_E_INVAL, 0, "in use");
        else if (fd >= 0 || errno != ENOENT) /* else another process has removed it */
            rc = xh_err_set(err, XH_E_SYS, 0, "cannot be removed: %s", strerror(why));
    }
    close(dirfd);
    return rc;
}

void xh_image_room(const struct xh_options *o, uint64_t *budget_bytes, uint64_t *taken_bytes)
{
    char path[XH_DIR_BYTES];
    int dirfd = open_dir(o, path);
    *budget_bytes = *taken_bytes = 0;
    if (dirfd < 0)
        return;
    *budget_bytes = xh_budget_of(dirfd, o, taken_bytes);
    close(dirfd);
}

/* Returns 0 when a file with a page can be made in the directory, else an errno. */
static int try_file(int dirfd)
{
    int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EOPNOTSUPP || errno == EISDIR ? 0 : errno; /* it has no files without a name */
    int bad = xh_retry(fallocate(fd, 0, 0, XH_PAGE_BYTES)) < 0 ? errno : 0; /* as for a shadow */
    close(fd);
    return bad;
}

int xh_image_usable(const struct xh_options *o, uint64_t *free_bytes, const char **cure, struct xh_err *err)
{
    char path[XH_DIR_BYTES];
    struct xh_unfit unfit;
    uint64_t used;
    int dirfd = xh_directory_try(o, 1, &unfit), bad = dirfd < 0 ? 0 : try_file(dirfd);
    *free_bytes = xh_free_bytes(dirfd);
    if (bad)
        xh_directory_unfit(&unfit, bad);
    else if (dirfd >= 0 && xh_budget_is_useless(o, xh_budget_of(dirfd, o, &used)))
        unfit = (struct xh_unfit){.why = "too little is free, there or of the memory", .cure = XH_CURE_ROOM};
    if (dirfd >= 0)
        close(dirfd);
    if (!unfit.why)
        return 0;
    xh_directory_base(o, path);
    *cure = xh_directory_cure(&unfit, o->on_disk);
    return xh_err_set(err, XH_E_SYS, 0, "the directory %.300s cannot be used: %s", path, unfit.why);
}
