/* How many bytes the shadows may take, and how many they take.
 *
 * The bytes taken are measured (st_blocks), never counted: a counter shared by processes that may die at any
 * instruction would drift. Between two measurements a process adds only what it claimed itself. So N processes
 * together may exceed the budget by N × step_bytes. */
#include "budget.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
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
    atomic_store_explicit(&s->since_bytes, 0, memory_order_relaxed);
    return taken;
}

/* ---- what this process may use ------------------------------------------------------------ */

/* Reads a small file whole into |buf|. Returns its length or 0. */
static size_t slurp(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = xh_read_at(fd, buf, size - 1, 0);
    close(fd);
    buf[got > 0 ? got : 0] = '\0';
    return got > 0 ? (size_t)got : 0;
}

static uint64_t mem_available(void)
{
    char buf[4096];
    if (slurp("/proc/meminfo", buf, sizeof buf)) {
        const char *line = strstr(buf, "MemAvailable:");
        if (line)
            return strtoull(line + 13, NULL, 10) * 1024;
    }
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes / 2 : UINT64_MAX;
}

/* The files of a control group with its memory, for versions 1 and 2. */
struct group_files {
    const char *mounts[2], *limit, *usage, *reclaimable; /* |reclaimable| is a line of memory.stat */
};
static const struct group_files versions[2] = {
    {{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"},
     "memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file "},
    {{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}, "memory.max", "memory.current", "\ninactive_file "}};

/* Returns the number in |dir|/|file|, or the one behind |line| in it; |none| where there is no number ("max"). */
static uint64_t number(const char *dir, const char *file, const char *line, uint64_t none)
{
    char path[1400], buf[8192] = "\n";
    snprintf(path, sizeof path, "%s/%s", dir, file);
    if (!slurp(path, buf + 1, sizeof buf - 1))
        return none;
    const char *at = line ? strstr(buf, line) : buf + 1;
    at = at && line ? at + strlen(line) : at;
    return at && *at >= '0' && *at <= '9' ? strtoull(at, NULL, 10) : none;
}

/* Returns what the group |dir| leaves to its members: its limit less the memory that is in use and cannot be
 * reclaimed. */
static uint64_t left_in(const char *dir, const struct group_files *f)
{
    uint64_t limit = number(dir, f->limit, NULL, UINT64_MAX);
    if (limit == UINT64_MAX)
        return limit;
    uint64_t usage = number(dir, f->usage, NULL, 0), cache = number(dir, "memory.stat", f->reclaimable, 0);
    usage -= cache < usage ? cache : usage;
    return usage < limit ? limit - usage : 0;
}

/* Returns the least that is left in |group| and the groups above it, up to the root at |mount|. Inside a container
 * |group| may not exist under that path; its ancestors are tried all the same. */
static uint64_t left_upwards(const char *mount, const char *group, const struct group_files *f)
{
    uint64_t least = UINT64_MAX;
    char dir[1100];
    snprintf(dir, sizeof dir, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
    for (size_t root = strlen(mount);;) {
        uint64_t n = left_in(dir, f);
        least = n < least ? n : least;
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= root)
            return least;
        *slash = '\0';
    }
}

/* Returns the memory that is left in this process's control groups; UINT64_MAX without a limit. */
static uint64_t cgroup_left(void)
{
    char buf[4096];
    uint64_t least = UINT64_MAX, n;
    if (!slurp("/proc/self/cgroup", buf, sizeof buf))
        return least;
    char *save = NULL;
    for (char *line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        int v2 = strncmp(line, "0:", 2) == 0 && controllers[1] == '\0';
        if (!v2 && !strstr(controllers + 1, "memory"))
            continue;
        for (int i = 0; i < 2; i++) {
            n = left_upwards(versions[v2].mounts[i], path, &versions[v2]);
            least = n < least ? n : least;
        }
    }
    return least;
}

uint64_t xh_budget_memory(void)
{
    uint64_t memory = mem_available(), left = cgroup_left();
    return left < memory ? left : memory;
}

uint64_t xh_budget_auto(int dirfd, uint64_t used_bytes, int on_disk)
{
    uint64_t memory = on_disk ? UINT64_MAX : xh_budget_memory();
    uint64_t room = xh_free_bytes(dirfd), most = UINT64_MAX - used_bytes;
    memory = memory > most ? UINT64_MAX : memory + used_bytes;
    room = (room > most ? UINT64_MAX : room + used_bytes) / (on_disk ? 4 : 2);
    return memory / 4 < room ? memory / 4 : room;
}

#define USELESS_BYTES (4u << 20)

int xh_budget_is_useless(const struct xh_options *o, uint64_t budget)
{
    return !o->shadow_budget_bytes && budget < USELESS_BYTES;
}

uint64_t xh_budget_of(int dirfd, const struct xh_options *o, uint64_t *used_bytes)
{
    *used_bytes = xh_budget_used(dirfd, 0, o->on_disk);
    return o->shadow_budget_bytes ? o->shadow_budget_bytes : xh_budget_auto(dirfd, *used_bytes, o->on_disk);
}
