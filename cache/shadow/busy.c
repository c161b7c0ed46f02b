/* Counts the processes of this user and host that fetch now, and so share the link, whichever files they read.
 *
 * The file "busy" in the shadows' directory has an entry for each, with the time when the process last fetched or
 * opened something. An old entry is free for any process. Two processes that take one entry at once count as one
 * until the next time. Wrong bytes in the file make the count wrong, and a fetch slower or greedier, no more.
 * Threads, processes: any. */
#include <unistd.h>

#include "base/files.h"
#include "base/now.h"
#include "base/process.h"
#include "impl.h"
#include "directory.h"

#define FILE_NAME "busy"
#define SLOTS 256u
#define RECENT_NS 2000000000u
#define LOOK_NS (RECENT_NS / 20) /* a process that fetches without a pause is never old */

struct entry {
    uint64_t at_ns, process;
};

static int is_recent(const struct entry *e, uint64_t now)
{
    return xh_is_near(now, e->at_ns, RECENT_NS);
}

/* Returns the index of this process's entry, or of a free one. A pid would not do: in each pid namespace the first
 * one is 1. */
static size_t entry_of(const struct entry *all, size_t n, uint64_t process, uint64_t now)
{
    size_t free = process % SLOTS;
    for (size_t k = SLOTS; k-- > 0;) {
        size_t i = (process + k) % SLOTS;
        if (i < n && all[i].process == process)
            return i;
        if (i >= n || !is_recent(&all[i], now))
            free = i;
    }
    return free;
}

/* Notes this process and counts all. Returns 1 when that is impossible. */
static unsigned note_and_count(int dirfd, uint64_t now)
{
    struct entry all[SLOTS], own = {now, xh_process()};
    int fd = xh_may_write(sizeof all) ? xh_directory_common(dirfd, FILE_NAME) : -1;
    if (fd < 0)
        return 1;
    ssize_t got = pread(fd, all, sizeof all, 0);
    size_t there = got > 0 ? (size_t)got / sizeof *all : 0, at = entry_of(all, there, own.process, now);
    unsigned n = 1;
    if (pwrite(fd, &own, sizeof own, (off_t)(at * sizeof own)) == sizeof own)
        for (size_t i = 0; i < there; i++)
            n += i != at && is_recent(&all[i], now);
    close(fd);
    return n;
}

void xh_shadow_join(const struct xh_options *o)
{
    int dirfd = o->shadow ? xh_directory_open(o, 0) : -1;
    if (dirfd < 0)
        return;
    note_and_count(dirfd, xh_now_ns());
    close(dirfd);
}

static _Atomic unsigned counted = 1; /* when this process last looked */

unsigned xh_shadow_busy(struct xh_shadow *s)
{
    static _Atomic uint64_t looked_ns;
    uint64_t now = xh_now_ns(), last = atomic_load_explicit(&looked_ns, memory_order_relaxed);
    if (s->dirfd >= 0 && now - last >= LOOK_NS && xh_own_is_there(&s->own_dir) &&
        atomic_compare_exchange_strong_explicit(&looked_ns, &last, now, memory_order_relaxed, memory_order_relaxed))
        atomic_store_explicit(&counted, note_and_count(s->dirfd, now), memory_order_relaxed);
    return xh_shadow_were_busy();
}

unsigned xh_shadow_were_busy(void)
{
    return atomic_load_explicit(&counted, memory_order_relaxed);
}
