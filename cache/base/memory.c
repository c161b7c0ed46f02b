/* Memory: see memory.h. */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "extent.h"
#include "files.h"
#include "now.h"

#define LOOK_NS 50000000u /* a look takes some 0.1 ms, and a fast link brings 50 MB in that time */
/* However little is left: with less, metadata is fetched again and again. */
#define LEAST_BYTES (4u << 20)

/* This thread could not open a file for want of a descriptor: it may have had a limit. */
static _Thread_local int blind;

/* Reads a small file whole into |buf|. Returns its length or 0. */
static size_t slurp(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        blind |= errno == EMFILE || errno == ENFILE;
        return 0;
    }
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
    const char *mounts[2], *limit, *usage, *reclaimable[2]; /* |reclaimable| are lines of memory.stat */
};
static const struct group_files versions[2] = {
    {{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"},
     "memory.limit_in_bytes", "memory.usage_in_bytes", {"\ntotal_inactive_file ", "\ntotal_active_file "}},
    {{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}, "memory.max", "memory.current",
     {"\ninactive_file ", "\nactive_file "}}};

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
    uint64_t usage = number(dir, f->usage, NULL, 0), cache = 0;
    for (int i = 0; i < 2; i++)
        cache += number(dir, "memory.stat", f->reclaimable[i], 0);
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

uint64_t xh_memory_left(void)
{
    static _Atomic uint64_t known = UINT64_MAX; /* relaxed: as below */
    blind = 0;
    uint64_t left = xh_min64(mem_available(), cgroup_left()), was = atomic_load_explicit(&known, memory_order_relaxed);
    if (blind)
        return was < UINT64_MAX ? was : left;
    atomic_store_explicit(&known, left, memory_order_relaxed);
    return left;
}

/* The same, as of 50 ms ago at most. */
static uint64_t left_lately(void)
{
    static _Atomic uint64_t looked_ns, left = UINT64_MAX; /* relaxed: a look that is older by a moment is as good */
    uint64_t now = xh_now_ns(), last = atomic_load_explicit(&looked_ns, memory_order_relaxed);
    if ((last == 0 || now - last >= LOOK_NS) &&
        atomic_compare_exchange_strong_explicit(&looked_ns, &last, now, memory_order_relaxed, memory_order_relaxed))
        atomic_store_explicit(&left, xh_memory_left(), memory_order_relaxed);
    return atomic_load_explicit(&left, memory_order_relaxed);
}

uint64_t xh_memory_part(uint64_t has, uint64_t most)
{
    uint64_t left = left_lately(), part = left < UINT64_MAX - has ? (left + has) / XH_MEMORY_PART : most;
    return xh_min64(most, xh_max64(part, LEAST_BYTES));
}
