/* Who fetches just now: how many processes of this user and host share the link, whichever files they read.
 *
 * The file "busy" in the shadows' directory has a slot for each of them, by its pid, with the time when it last fetched
 * or opened something.
 * Two processes in one slot count as one; rubbish in it makes the count wrong, and a fetch slower or greedier, no more.
 * Threads, processes: any. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../now.h"
#include "impl.h"

#define FILE_NAME "busy"
#define SLOTS 256u
#define LOOK_NS 100000000u
#define RECENT_NS 2000000000u

/* Notes this process and counts all. Returns 0 when that cannot be done. */
static unsigned note_and_count(int dirfd, uint64_t now)
{
    uint64_t slots[SLOTS];
    struct stat st;
    unsigned n = 0;
    int fd = openat(dirfd, FILE_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        pwrite(fd, &now, sizeof now, (off_t)((unsigned)getpid() % SLOTS * sizeof now)) == sizeof now) {
        ssize_t got = pread(fd, slots, sizeof slots, 0);
        for (ssize_t i = 0; i < got / (ssize_t)sizeof *slots; i++)
            n += now - slots[i] < RECENT_NS;
    }
    close(fd);
    return n;
}

unsigned xh_shadow_crowd(const struct xh_options *o)
{
    char path[XH_DIR_BYTES];
    unsigned n = 0;
    int dirfd = -1;
    if (o->shadow) {
        xh_store_dir_path(o, path);
        dirfd = xh_store_dir(o, path, 0);
    }
    if (dirfd >= 0) {
        n = note_and_count(dirfd, xh_now_ns());
        close(dirfd);
    }
    return n ? n : 1;
}

unsigned xh_shadow_busy(struct xh_shadow *s)
{
    static _Atomic uint64_t looked_ns;
    static _Atomic unsigned counted = 1;
    uint64_t now = xh_now_ns(), last = atomic_load_explicit(&looked_ns, memory_order_relaxed);
    if (s->dirfd >= 0 && now - last >= LOOK_NS &&
        atomic_compare_exchange_strong_explicit(&looked_ns, &last, now, memory_order_relaxed, memory_order_relaxed)) {
        unsigned n = note_and_count(s->dirfd, now);
        atomic_store_explicit(&counted, n ? n : 1, memory_order_relaxed);
    }
    return atomic_load_explicit(&counted, memory_order_relaxed);
}
