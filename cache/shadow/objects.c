/* The shadow objects of this process: one for each shadow, with a reference count; and their handling in fork.
 *
 * Invariants
 * 1. An object is in the list from its creation to its last close, and complete while it is there.
 * 2. After fork the child has an open file description of its own for each object before any of its code runs. So the
 *    child does not hold the parent's locks, which prove the parent alive. (A mapping holds its file's description too,
 *    so it is replaced at its address.) The child takes a new owner number at its first claim.
 *
 * Lock: xh_shadow_lock (objects.h). This file knows nothing of page states. */
#include "objects.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/extent.h"
#include "base/memory.h"
#include "base/table.h"
#include "watch/trace.h"
#include "budget.h"
#include "guard.h"
#include "directory.h"
#include "store.h"

#define PRIVATE_LEAST_BYTES (1u << 20) /* the budget however little memory is left */
#define STEP_MIN_BYTES (64u << 10)
#define STEP_MAX_BYTES (1u << 20)

pthread_mutex_t xh_shadow_lock = PTHREAD_MUTEX_INITIALIZER;
static struct xh_shadow *shadows; /* under xh_shadow_lock */

/* ---- fork --------------------------------------------------------------------------------- */

static void before_fork(void)
{
    pthread_mutex_lock(&xh_shadow_lock);
}

static void after_fork_parent(void)
{
    pthread_mutex_unlock(&xh_shadow_lock);
}

/* Makes only async-signal-safe calls. */
static void after_fork_child(void)
{
    for (struct xh_shadow *s = shadows; s; s = s->next) {
        if (s->fd < 0)
            continue;
        /* Releases the parent's description, which the descriptor and the mapping hold. Number and address stay. */
        int fd = xh_own_is_there(&s->own_file) ? xh_store_reopen(s) : -1;
        int ours = fd >= 0 && dup3(fd, s->fd, O_CLOEXEC) >= 0 &&
                   mmap(s->map, s->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == s->map;
        if (fd >= 0)
            close(fd);
        if (!ours) {
            xh_guard_drop(s->guard);
            munmap(s->map, s->map_bytes);
            xh_own_close(&s->own_file);
            s->fd = -1; /* no storage: every claim is NONE */
            s->map = NULL;
            s->guard = NULL;
        }
        atomic_store_explicit(&s->owner, 0, memory_order_relaxed);
        atomic_store_explicit(&s->inflight, 0, memory_order_relaxed);
        atomic_store_explicit(&s->evicting, 0, memory_order_relaxed);
    }
    pthread_mutex_unlock(&xh_shadow_lock);
}

static void watch_process(void)
{
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    xh_guard_install();
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Maps the file of |s->fd|. Returns 0 or -1. */
static int map_words(struct xh_shadow *s)
{
    const struct xh_layout_head *h = &s->head;
    s->own_file = xh_own(s->fd);
    s->block_words = h->unit_bytes / 8;
    uint64_t blocks = (h->pages + s->block_words - 1) / s->block_words;
    s->reserved = calloc(blocks / 64 + 1, sizeof *s->reserved);
    if (!s->reserved || h->data_off > SIZE_MAX)
        return -1;
    s->map_bytes = (size_t)h->data_off;
    void *p = mmap(NULL, s->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (p == MAP_FAILED)
        return -1;
    s->map = p;
    s->guard = xh_guard_add(p, s->map_bytes, h->on_disk ? s->fd : -1, h->header_bytes, h->unit_bytes);
    s->live = (struct xh_layout_live *)((char *)p + XH_LIVE_OFF);
    s->epochs = (_Atomic uint16_t *)((char *)p + XH_EPOCHS_OFF);
    s->words = (_Atomic uint64_t *)((char *)p + h->header_bytes);
    s->sums = (_Atomic uint64_t *)((char *)p + h->sums_off);
    return s->guard ? 0 : -1;
}

/* Undoes the storage, so that another kind can be tried. */
static void drop_storage(struct xh_shadow *s)
{
    xh_guard_drop(s->guard);
    if (s->map)
        munmap(s->map, s->map_bytes);
    xh_own_close(&s->own_file);
    xh_own_close(&s->own_dir);
    free(s->reserved);
    s->map = NULL;
    s->guard = NULL;
    s->reserved = NULL;
    s->fd = s->dirfd = -1;
}

static void set_budget(struct xh_shadow *s, uint64_t bytes)
{
    uint64_t step = bytes / 256;
    s->budget_bytes = bytes;
    atomic_store_explicit(&s->budget_now, bytes, memory_order_relaxed);
    s->step_bytes = step < STEP_MIN_BYTES ? STEP_MIN_BYTES : step > STEP_MAX_BYTES ? STEP_MAX_BYTES : step;
    xh_budget_measure(s, 1);
}

static int make_shared(struct xh_shadow *s, const struct xh_options *o)
{
    s->dirfd = xh_directory_open(o, 1);
    s->own_dir = xh_own(s->dirfd);
    if (s->dirfd < 0) {
        s->private_ = XH_PRIVATE_NO_DIR;
        return -1;
    }
    uint64_t used, budget = xh_budget_of(s->dirfd, o, &used);
    if (xh_budget_is_useless(o, budget))
        xh_trace(XH_T_SHADOW, "private", "dir=%s why=\"no space\"", s->dir);
    else if (xh_store_attach(s) == 0 && map_words(s) == 0) {
        s->by_memory = !o->shadow_budget_bytes && !o->on_disk;
        set_budget(s, budget);
        return 0;
    }
    drop_storage(s);
    return -1;
}

/* There is no memory for |s|, as errno tells. Says so once, if the process may do something about it. */
static void say_not_kept(const struct xh_shadow *s)
{
    static atomic_int said;
    struct xh_unfit unfit;
    xh_directory_unfit(&unfit, errno);
    xh_trace(XH_T_SHADOW, "no_storage", "name=%.10s why=\"%s\"", s->name, unfit.why);
    if ((unfit.cure == XH_CURE_FILES || unfit.cure == XH_CURE_LENGTH) && !atomic_exchange(&said, 1))
        xh_say("%s. What it reads of the files at URLs that it opens now is not kept, and is fetched anew for "
               "each read: %s",
               unfit.why, xh_directory_cure(&unfit, 0));
}

static void make_private(struct xh_shadow *s, const struct xh_options *o)
{
    if (!s->private_)
        s->private_ = o->shadow ? XH_PRIVATE_NO_ROOM : XH_PRIVATE_WANTED;
    if (xh_store_private(s) == 0 && map_words(s) == 0) {
        uint64_t most = xh_max64(xh_memory_left() / XH_MEMORY_PART, PRIVATE_LEAST_BYTES);
        set_budget(s, xh_min64(o->private_budget_bytes, most));
        return;
    }
    say_not_kept(s);
    drop_storage(s);
}

struct xh_shadow *xh_shadow_largest_private(const struct xh_shadow *but, uint64_t floor_bytes)
{
    struct xh_shadow *largest = NULL;
    pthread_mutex_lock(&xh_shadow_lock);
    for (struct xh_shadow *s = shadows; s; s = s->next) {
        uint64_t own = atomic_load_explicit(&s->own_bytes, memory_order_relaxed);
        if (s == but || !s->private_ || !xh_shadow_usable(s) || own <= floor_bytes)
            continue;
        floor_bytes = own;
        largest = s;
    }
    if (largest)
        largest->refs++;
    pthread_mutex_unlock(&xh_shadow_lock);
    return largest;
}

int xh_shadow_private(const struct xh_shadow *s)
{
    return s->private_;
}

void xh_shadow_tell_hits(struct xh_shadow *s, uint64_t bytes)
{
    if (bytes && s->map && !s->private_)
        atomic_fetch_add_explicit(&s->live->hit_bytes, bytes, memory_order_relaxed);
}

/* Finds an open object of this directory and key that still has its storage. The caller holds the lock. */
static struct xh_shadow *find(const char *dir, const char *name)
{
    struct xh_shadow *s = shadows;
    while (s && (s->visitor || !xh_shadow_usable(s) || strcmp(s->name, name) != 0 || strcmp(s->dir, dir) != 0))
        s = s->next;
    return s;
}

int xh_shadow_on_disk(const struct xh_options *o, struct xh_options *out)
{
    if (!o->disk_cache_dir[0])
        return 0;
    *out = *o;
    out->shadow = 1;
    out->on_disk = 1;
    memcpy(out->shadow_dir, o->disk_cache_dir, sizeof out->shadow_dir);
    out->shadow_budget_bytes = o->disk_cache_bytes;
    return 1;
}

struct xh_options *xh_shadow_on_disk_new(const struct xh_options *o)
{
    struct xh_options *out = o->disk_cache_dir[0] ? malloc(sizeof *out) : NULL;
    if (out)
        xh_shadow_on_disk(o, out);
    return out;
}

int xh_shadow_open(const char *url, const char *validator, uint64_t size, const struct xh_options *o,
                   struct xh_shadow **out, struct xh_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_process);
    struct xh_shadow *s = calloc(1, sizeof *s);
    if (!s)
        return xh_err_set(err, XH_E_NOMEM, 0, "no memory for the cache of a file");
    s->fd = s->dirfd = s->own_file.fd = s->own_dir.fd = -1;
    s->refs = 1;
    if (o->shadow)
        xh_directory_path(o, s->dir);
    if (xh_store_describe(s, url, validator, size, o->on_disk) < 0) {
        free(s);
        return xh_err_set(err, XH_E_SYS, 0,
                          "cannot name the cache of a file of %llu bytes: too large, or out of memory",
                          (unsigned long long)size);
    }
    pthread_mutex_lock(&xh_shadow_lock);
    struct xh_shadow *there = find(s->dir, s->name);
    if (there) {
        there->refs++;
        free(s);
        s = there;
    } else {
        int shared = o->shadow && make_shared(s, o) == 0;
        if (!shared && o->on_disk) {
            pthread_mutex_unlock(&xh_shadow_lock);
            struct xh_unfit unfit = {.why = "no file can be made there, or its disk is full"};
            if (!xh_may_write(s->head.file_bytes))
                xh_directory_unfit(&unfit, errno);
            xh_directory_say_disk(o->shadow_dir, &unfit);
            free(s);
            return xh_err_set(err, XH_E_NOSPACE, 0, "%.500s: the disk cache cannot be used", o->shadow_dir);
        }
        if (!shared)
            make_private(s, o);
        LL_PREPEND(shadows, s);
        xh_trace(XH_T_SHADOW, "open", "name=%.10s private=%d pages=%llu budget=%llu", s->name, s->private_ != 0,
                 (unsigned long long)s->head.pages, (unsigned long long)s->budget_bytes);
    }
    pthread_mutex_unlock(&xh_shadow_lock);
    *out = s;
    return XH_OK;
}

struct xh_shadow *xh_shadow_visit(struct xh_shadow *near, const char *name)
{
    pthread_mutex_lock(&xh_shadow_lock);
    struct xh_shadow *s = find(near->dir, name);
    if (s) {
        s->refs++;
    } else if ((s = calloc(1, sizeof *s))) {
        s->visitor = 1;
        s->refs = 1;
        s->fd = s->own_file.fd = -1;
        snprintf(s->dir, sizeof s->dir, "%s", near->dir);
        snprintf(s->name, sizeof s->name, "%s", name);
        s->dirfd = fcntl(near->dirfd, F_DUPFD_CLOEXEC, 0);
        s->own_dir = xh_own(s->dirfd);
        if (xh_store_describe_existing(s, (int)near->head.on_disk) == 0 && xh_store_attach(s) == 0 &&
            map_words(s) == 0) {
            LL_PREPEND(shadows, s);
        } else {
            drop_storage(s);
            free(s);
            s = NULL;
        }
    }
    pthread_mutex_unlock(&xh_shadow_lock);
    return s;
}

void xh_shadow_close(struct xh_shadow *s)
{
    pthread_mutex_lock(&xh_shadow_lock);
    if (--s->refs == 0) {
        LL_DELETE(shadows, s);
        xh_budget_leave(s);
        if (!s->private_ && !s->visitor && xh_shadow_usable(s) && xh_own_is_there(&s->own_file))
            (void)!futimens(s->fd, NULL); /* the time of last use: shadows are dropped in that order */
        drop_storage(s);
        free(s);
    }
    pthread_mutex_unlock(&xh_shadow_lock);
}
