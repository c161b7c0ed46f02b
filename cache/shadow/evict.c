/* Makes room: drops whole shadows that no process has open, then evicts pages by the clock.
 *
 * Pages are taken where most is taken: first from other open shadows that are larger than this one, then from this one,
 * then from any. So many open files reach equal shares, whichever was first, and a process that has nothing yet is not
 * shut out.
 *
 * Locks: none during a sweep. A flag keeps the process's other threads from sweeping too. */
#include "evict.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/now.h"
#include "base/table.h"
#include "watch/trace.h"
#include "budget.h"
#include "clock.h"
#include "hint.h"
#include "negative_cache.h"
#include "objects.h"
#include "directory.h"
#include "store.h"

#define FUTILE_NS 20000000ull /* after a sweep that freed nothing, claims get NONE at once for this time */

struct entry {
    char name[XH_NAME_BYTES];
    struct timespec used;
    uint64_t bytes;
};

struct timespec xh_evict_used(struct timespec used, time_t now)
{
    return used.tv_sec > now + XH_CLOCKS_APART_S ? (struct timespec){0} : used;
}

static int older(const void *a, const void *b)
{
    const struct timespec *x = &((const struct entry *)a)->used, *y = &((const struct entry *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* A growing list of shadows. */
struct entries {
    struct entry *at;
    size_t n, room;
};

/* Adds the shadows of |place|. Removes temporary files that crashes left behind. */
static void list_place(int dirfd, const char *place, struct entries *out)
{
    char name[XH_NAME_BYTES];
    DIR *d = xh_directory_list(dirfd, place);
    if (!d)
        return;
    time_t now = time(NULL);
    struct stat st;
    for (struct dirent *e; (e = readdir(d));) {
        snprintf(name, sizeof name, "%.*s%.*s", XH_PLACE_BYTES, place, XH_NAME_BYTES - XH_PLACE_BYTES - 1, e->d_name);
        if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        struct timespec used = xh_evict_used(st.st_mtim, now);
        /* built in milliseconds, by a clock that may be behind */
        if (xh_store_is_name(e->d_name, 't') && used.tv_sec + XH_CLOCKS_APART_S < now)
            xh_store_drop(dirfd, name);
        if (!xh_store_is_name(e->d_name, 's'))
            continue;
        if (xh_grow(out->at, out->room, out->n + 1))
            break;
        struct entry *to = &out->at[out->n++];
        memcpy(to->name, name, sizeof name);
        to->used = used;
        to->bytes = (uint64_t)st.st_blocks * 512;
    }
    closedir(d);
}

/* Lists all shadows of the directory and of the other layouts. Owns: the caller frees |at|. */
static struct entries list_shadows(int dirfd, int on_disk)
{
    char place[XH_PLACES_MOST][XH_PLACE_BYTES];
    struct entries list = {0};
    size_t n = xh_directory_places(dirfd, on_disk, place);
    for (size_t i = 0; i < n; i++)
        list_place(dirfd, place[i], &list);
    return list;
}

static int is_foreign(const struct entry *e)
{
    return e->name[0] == '.';
}

static void drop_orphan_hints(int dir, const char *place)
{
    DIR *d = xh_directory_list(dir, place);
    for (struct dirent *e; d && (e = readdir(d));)
        if ((xh_store_is_name(e->d_name, 'u') && xh_hint_orphan(xh_list_fd(d), e->d_name)) ||
            (xh_store_is_name(e->d_name, 'n') && xh_negative_is_old(xh_list_fd(d), e->d_name)))
            unlinkat(xh_list_fd(d), e->d_name, 0);
    if (d)
        closedir(d);
}

static uint64_t drop_unused(struct xh_shadow *s, struct entries *list, uint64_t want_bytes)
{
    uint64_t freed = 0;
    int foreign = 0;
    if (list->n)
        qsort(list->at, list->n, sizeof *list->at, older);
    for (struct entry *e = list->at; e < list->at + list->n && freed < want_bytes; e++)
        if (strcmp(e->name, s->name) != 0 && xh_store_drop(s->dirfd, e->name)) {
            freed += e->bytes;
            xh_trace(XH_T_SHADOW, "dropped", "name=%.20s bytes=%llu", e->name, (unsigned long long)e->bytes);
            e->bytes = 0;
            foreign |= is_foreign(e);
        }
    if (freed)
        drop_orphan_hints(s->dirfd, "");
    if (foreign) {
        drop_orphan_hints(s->dirfd, "../");
        xh_directory_tidy(s->dirfd, (int)s->head.on_disk);
    }
    return freed;
}

static int larger(const void *a, const void *b)
{
    uint64_t x = ((const struct entry *)a)->bytes, y = ((const struct entry *)b)->bytes;
    return (x < y) - (x > y);
}

/* Evicts pages of other shadows that have more than |floor_bytes|, the largest first. Returns the bytes freed. */
static uint64_t take_from_others(struct xh_shadow *s, struct entries *list, uint64_t floor_bytes, uint64_t want_bytes,
                                 uint64_t meta_room_bytes, struct xh_counters *c)
{
    uint64_t freed = 0;
    if (list->n)
        qsort(list->at, list->n, sizeof *list->at, larger);
    for (struct entry *e = list->at; e < list->at + list->n && freed < want_bytes && e->bytes > floor_bytes; e++) {
        struct xh_shadow *other;
        if (strcmp(e->name, s->name) == 0 || is_foreign(e) || !(other = xh_shadow_visit(s, e->name)))
            continue;
        freed += xh_clock_sweep(other, want_bytes - freed, meta_room_bytes, c);
        xh_shadow_close(other);
    }
    return freed;
}

/* Does the same with this process's private shadows. */
static uint64_t take_from_privates(struct xh_shadow *s, uint64_t floor_bytes, uint64_t want_bytes,
                                   uint64_t meta_room_bytes, struct xh_counters *c)
{
    uint64_t freed = 0, n = 1;
    struct xh_shadow *other;
    while (n && freed < want_bytes && (other = xh_shadow_largest_private(s, floor_bytes)) != NULL) {
        n = xh_clock_sweep(other, want_bytes - freed, meta_room_bytes, c);
        xh_budget_measure(other, 0);
        xh_shadow_close(other);
        freed += n;
    }
    return freed;
}

static uint64_t make_private_room(struct xh_shadow *s, uint64_t want_bytes, uint64_t meta_room_bytes,
                                  struct xh_counters *c)
{
    uint64_t own = atomic_load_explicit(&s->own_bytes, memory_order_relaxed);
    uint64_t freed = take_from_privates(s, own + s->step_bytes, want_bytes, meta_room_bytes, c);
    if (freed < want_bytes)
        freed += xh_clock_sweep(s, want_bytes - freed, meta_room_bytes, c);
    if (freed == 0)
        freed = take_from_privates(s, XH_HEADER_MIN_BYTES, want_bytes, meta_room_bytes, c);
    xh_budget_measure(s, 0);
    return freed;
}

/* ---- charging a page ------------------------------------------------------------------------- */

static uint64_t make_room(struct xh_shadow *s, uint64_t want_bytes, int meta, struct xh_counters *c)
{
    uint64_t meta_room_bytes = meta ? 0 : xh_shadow_budget(s) / 2, own_bytes = 0, freed;
    struct stat st;
    if (s->private_)
        return make_private_room(s, want_bytes, meta_room_bytes, c);
    if (!xh_own_is_there(&s->own_dir))
        return 0;
    struct entries list = list_shadows(s->dirfd, (int)s->head.on_disk);
    freed = drop_unused(s, &list, want_bytes);
    int elsewhere = freed != 0;
    if (freed < want_bytes && fstat(s->fd, &st) == 0) {
        own_bytes = (uint64_t)st.st_blocks * 512;
        uint64_t taken = take_from_others(s, &list, own_bytes + s->step_bytes, want_bytes - freed, meta_room_bytes, c);
        elsewhere |= taken != 0;
        freed += taken;
    }
    if (freed < want_bytes)
        freed += xh_clock_sweep(s, want_bytes - freed, meta_room_bytes, c);
    if (freed == 0) {
        freed = take_from_others(s, &list, XH_HEADER_MIN_BYTES, want_bytes, meta_room_bytes, c);
        elsewhere |= freed != 0;
    }
    free(list.at);
    xh_budget_measure(s, elsewhere);
    return freed;
}

uint64_t xh_evict_squeeze(struct xh_shadow *s, uint64_t want_bytes, int meta, struct xh_counters *c)
{
    if (!xh_shadow_usable(s) || xh_now_ns() < atomic_load_explicit(&s->retry_at_ns, memory_order_relaxed))
        return 0;
    if (atomic_exchange_explicit(&s->evicting, 1, memory_order_acquire))
        return 0;
    uint64_t freed = make_room(s, want_bytes, meta, c);
    if (freed == 0)
        atomic_store_explicit(&s->retry_at_ns, xh_now_ns() + FUTILE_NS, memory_order_relaxed);
    atomic_store_explicit(&s->evicting, 0, memory_order_release);
    return freed;
}

int xh_evict_charge(struct xh_shadow *s, uint64_t bytes, int meta, struct xh_counters *c)
{
    atomic_fetch_add_explicit(&s->inflight, 1, memory_order_relaxed);
    uint64_t since = bytes + atomic_fetch_add_explicit(&s->since_bytes, bytes, memory_order_relaxed);
    uint64_t base = atomic_load_explicit(&s->base_bytes, memory_order_relaxed);
    if (since < s->step_bytes && base + since <= xh_shadow_budget(s))
        return 1;
    uint64_t taken = xh_budget_measure(s, 0), budget = xh_shadow_budget(s);
    if (taken <= budget)
        return 1;
    /* While another thread of this process makes room, some overdraft is better than a page that is not cached. */
    if (atomic_load_explicit(&s->evicting, memory_order_relaxed) && taken <= budget + 4 * s->step_bytes)
        return 1;
    uint64_t batch = budget / 64 > s->step_bytes ? budget / 64 : s->step_bytes;
    if (xh_evict_squeeze(s, taken - budget + batch, meta, c))
        return 1;
    atomic_fetch_sub_explicit(&s->inflight, 1, memory_order_relaxed);
    return 0;
}
