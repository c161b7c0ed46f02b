/* How much the shadows may take, and how much they take.
 *
 * What is taken is measured (st_blocks), never counted along: a counter shared by processes
 * that may die at any instruction would drift. Between two measurements a process adds what
 * it claimed itself, so N processes may pass the budget by N × step_bytes together. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "impl.h"

#define SCAN_EVERY_NS 250000000ull /* other files grow at most as fast as the link */

uint64_t xh_shadow_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

uint64_t xh_budget_used(int dirfd, ino_t skip)
{
    uint64_t sum = 0;
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a position of its own */
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    struct stat st;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_ino != skip && fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (uint64_t)st.st_blocks * 512;
    closedir(d);
    return sum;
}

uint64_t xh_budget_measure(struct xh_shadow *s, int scan)
{
    struct stat st;
    uint64_t own = 0, now = xh_shadow_now_ns();
    if (fstat(s->fd, &st) == 0)
        own = (uint64_t)st.st_blocks * 512;
    if (!s->private_ && (scan || now >= atomic_load_explicit(&s->scan_at_ns, memory_order_relaxed))) {
        atomic_store_explicit(&s->scan_at_ns, now + SCAN_EVERY_NS, memory_order_relaxed);
        atomic_store_explicit(&s->others_bytes, xh_budget_used(s->dirfd, st.st_ino), memory_order_relaxed);
    }
    uint64_t taken = own + atomic_load_explicit(&s->others_bytes, memory_order_relaxed) +
                     atomic_load_explicit(&s->inflight, memory_order_relaxed) * XH_PAGE_BYTES;
    atomic_store_explicit(&s->base_bytes, taken, memory_order_relaxed);
    atomic_store_explicit(&s->since_bytes, 0, memory_order_relaxed);
    return taken;
}

/* ---- what this process may use ------------------------------------------------------------ */

/* Reads a small file whole. Returns its length or 0. */
static size_t slurp(const char *path, char *buf, size_t size)
{
    size_t got = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    for (ssize_t n; got + 1 < size && (n = read(fd, buf + got, size - 1 - got)) > 0;)
        got += (size_t)n;
    close(fd);
    buf[got] = '\0';
    return got;
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

/* The smallest limit in |file| on the way from |group| up to the root below |mount|. A group
 * seen from inside a container may not exist there; its ancestors are tried all the same. */
static uint64_t limit_upwards(const char *mount, char *group, const char *file)
{
    uint64_t least = UINT64_MAX;
    char path[1400], buf[64];
    for (;;) {
        snprintf(path, sizeof path, "%s%s/%s", mount, group, file);
        if (slurp(path, buf, sizeof buf) && buf[0] >= '0' && buf[0] <= '9') { /* not "max" */
            uint64_t n = strtoull(buf, NULL, 10);
            least = n < least ? n : least;
        }
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* The memory limit of this process's control groups, version 2 or 1; UINT64_MAX for none. */
static uint64_t cgroup_limit(void)
{
    char buf[4096], group[1024];
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
        static const char *const try[2][3] = {
            {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "/sys/fs/cgroup"},
            {"/sys/fs/cgroup", "memory.max", "/sys/fs/cgroup/unified"}};
        for (int i = 0; i < 3; i += 2) {
            snprintf(group, sizeof group, "%s", strcmp(path, "/") == 0 ? "" : path);
            n = limit_upwards(try[v2][i], group, try[v2][1]);
            least = n < least ? n : least;
        }
    }
    return least;
}

uint64_t xh_budget_auto(int dirfd, uint64_t used_bytes)
{
    uint64_t memory = mem_available(), limit = cgroup_limit();
    memory = memory > UINT64_MAX - used_bytes ? UINT64_MAX : memory + used_bytes;
    if (limit < memory)
        memory = limit;
    struct statvfs fs;
    uint64_t room = 0;
    if (fstatvfs(dirfd, &fs) == 0)
        /* A tmpfs without limit says 0 blocks. */
        room = fs.f_blocks ? (uint64_t)fs.f_bavail * fs.f_frsize + used_bytes : UINT64_MAX;
    return memory / 4 < room / 2 ? memory / 4 : room / 2;
}
