/* How many bytes the shadows may take, and how many they take.
 *
 * The bytes taken are measured (st_blocks), never counted: a counter shared by processes that may die at any
 * instruction would drift. Between two measurements a process adds only what it claimed itself. So N processes
 * together may exceed the budget by N × step_bytes. */
#include "budget.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/extent.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/now.h"
#include "directory.h"
#include "store.h"

/* Other files grow as fast as the link, or as another program copies. So each measurement looks at them too, unless
 * there are so many that this would take more than 1/SCAN_PART of the processor's time. */
#define SCAN_PART 20
#define SCAN_EVERY_NS 250000000ull /* longest time between two scans, however many files there are */

/* 1 for a shadow, one in the making, and what is known of a URL: a directory that the user named may hold more. */
static int is_ours(const char *name)
{
    return xh_store_is_name(name, 's') || xh_store_is_name(name, 't') || xh_store_is_name(name, 'u') ||
           xh_store_is_name(name, 'n');
}

/* Does the same for one layout. */
static uint64_t used_in(int base, const char *place, ino_t skip)
{
    uint64_t sum = 0;
    DIR *d = xh_directory_list(base, place);
    struct stat st;
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_ino != skip && is_ours(e->d_name) &&
            fstatat(xh_list_fd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_blocks * 512;
    if (d)
        closedir(d);
    return sum;
}

uint64_t xh_budget_used(int dirfd, ino_t skip, int on_disk)
{
    char place[XH_PLACES_MOST][XH_PLACE_BYTES];
    size_t n = xh_directory_places(dirfd, on_disk, place);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += used_in(dirfd, place[i], skip);
    return sum;
}

/* Bytes that the private shadows of this process take together, each as last measured, and the number of those with
 * more than |LARGE_BYTES|. Both are relaxed; they order nothing. */
#define LARGE_BYTES (1u << 20)
static _Atomic uint64_t privates_bytes;
static _Atomic unsigned privates;

/* Notes that the private |s| takes |own| bytes. Returns the bytes of the other private shadows. */
static uint64_t note_private(struct xh_shadow *s, uint64_t own)
{
    uint64_t had = atomic_exchange_explicit(&s->own_bytes, own, memory_order_relaxed);
    uint64_t all = atomic_fetch_add_explicit(&privates_bytes, own - had, memory_order_relaxed) + (own - had);
    if ((own > LARGE_BYTES) != (had > LARGE_BYTES))
        atomic_fetch_add_explicit(&privates, own > LARGE_BYTES ? 1u : -1u, memory_order_relaxed);
    return all > own && all - own < UINT64_MAX / 2 ? all - own : 0; /* another thread may be between its two updates */
}

void xh_budget_leave(struct xh_shadow *s)
{
    if (s->private_)
        note_private(s, 0);
}

unsigned xh_shadow_privates(void)
{
    unsigned n = atomic_load_explicit(&privates, memory_order_relaxed);
    return n ? n : 1;
}

uint64_t xh_budget_measure(struct xh_shadow *s, int scan)
{
    struct stat st;
    uint64_t own = 0, now = xh_now_ns();
    if (fstat(s->fd, &st) == 0)
        own = (uint64_t)st.st_blocks * 512;
    if (s->private_)
        atomic_store_explicit(&s->others_bytes, note_private(s, own), memory_order_relaxed);
    if (!s->private_ && (scan || now >= atomic_load_explicit(&s->scan_at_ns, memory_order_relaxed))) {
        uint64_t begun = xh_cpu_ns();
        /* Other threads of this process need not scan meanwhile. */
        atomic_store_explicit(&s->scan_at_ns, now + SCAN_EVERY_NS, memory_order_relaxed);
        uint64_t others = xh_budget_used(s->dirfd, st.st_ino, (int)s->head.on_disk);
        atomic_store_explicit(&s->others_bytes, others, memory_order_relaxed);
        uint64_t pause = SCAN_PART * (xh_cpu_ns() - begun);
        atomic_store_explicit(&s->scan_at_ns, xh_now_ns() + (pause < SCAN_EVERY_NS ? pause : SCAN_EVERY_NS),
                              memory_order_relaxed);
    }
    uint64_t taken = own + atomic_load_explicit(&s->others_bytes, memory_order_relaxed) +
                     atomic_load_explicit(&s->inflight, memory_order_relaxed) * XH_PAGE_BYTES;
    atomic_store_explicit(&s->base_bytes, taken, memory_order_relaxed);
    if (s->private_ || s->by_memory)
        atomic_store_explicit(&s->budget_now, xh_memory_part(taken, s->budget_bytes), memory_order_relaxed);
    atomic_store_explicit(&s->since_bytes, 0, memory_order_relaxed);
    return taken;
}

uint64_t xh_shadow_budget(const struct xh_shadow *s)
{
    return atomic_load_explicit(&s->budget_now, memory_order_relaxed);
}

/* ---- what this process may use ------------------------------------------------------------ */

static uint64_t budget_auto(int dirfd, uint64_t used_bytes, int on_disk)
{
    uint64_t memory = on_disk ? UINT64_MAX : xh_memory_left();
    uint64_t room = xh_free_bytes(dirfd), most = UINT64_MAX - used_bytes;
    memory = memory > most ? UINT64_MAX : memory + used_bytes;
    room = (room > most ? UINT64_MAX : room + used_bytes) / (on_disk ? 4 : 2);
    return xh_min64(memory / XH_MEMORY_PART, room);
}

#define USELESS_BYTES (4u << 20)

int xh_budget_is_useless(const struct xh_options *o, uint64_t budget)
{
    return !o->shadow_budget_bytes && budget < USELESS_BYTES;
}

uint64_t xh_budget_of(int dirfd, const struct xh_options *o, uint64_t *used_bytes)
{
    *used_bytes = xh_budget_used(dirfd, 0, o->on_disk);
    return o->shadow_budget_bytes ? o->shadow_budget_bytes : budget_auto(dirfd, *used_bytes, o->on_disk);
}
