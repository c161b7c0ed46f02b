/* Turns: of all processes that want to do the same thing at once, one does it first.
 *
 * A turn is a lock on one byte of the file "turns" in the shadows' directory, chosen by the hash of a name. Two
 * names on the same byte wait for each other without need, and no more. A waiting process holds a shared lock on the
 * next byte, which tells the one whose turn it is. The kernel releases the locks with the process. A process that
 * waits too long, as for a suspended one, continues without a turn. It notes that in the file, so that those that come
 * after it do not wait. A process that gets the turn takes the note away. Wrong bytes in the file make a wait shorter
 * or longer, no more. Threads, processes: any. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/now.h"
#include "base/sha256.h"
#include "base/waits.h"
#include "watch/trace.h"
#include "directory.h"
#include "store.h"

#define FILE_NAME "turns"
#define NOTES 256u /* turns that were waited for in vain; two in one place take it from each other */

static int open_turns(const struct xh_options *o)
{
    int dirfd = xh_directory_open(o, 1);
    if (dirfd < 0)
        return -1;
    int fd = xh_directory_common(dirfd, FILE_NAME);
    close(dirfd);
    return fd;
}

static off_t place_of(uint64_t at)
{
    return (off_t)((at >> 1) % NOTES * sizeof at);
}

static int is_noted(const struct xh_turn *t)
{
    uint64_t at;
    return pread(t->fd, &at, sizeof at, place_of(t->at)) == sizeof at && at == t->at;
}

/* |at|: the turn, or 0 to take its note away. */
static void note(const struct xh_turn *t, uint64_t at)
{
    if (xh_may_write(NOTES * sizeof at))
        (void)!pwrite(t->fd, &at, sizeof at, place_of(t->at));
}

int xh_shadow_turn(const char *name, const struct xh_options *o, unsigned most_ms, struct xh_turn *t)
{
    uint8_t sha[32];
    uint64_t hash, begun = xh_now_ns();
    *t = (struct xh_turn){.fd = -1};
    if (!o->shadow || !xh_sha256(name, strlen(name), sha) || (t->fd = open_turns(o)) < 0)
        return 0;
    memcpy(&hash, sha, sizeof hash);
    t->at = hash >> 2 & ~UINT64_C(1); /* below the largest offset, with another byte behind it */
    int waited = 0, rc, noted = is_noted(t);
    while ((rc = xh_store_lock(t->fd, F_WRLCK, t->at)) == 1 && !noted &&
           xh_now_ns() - begun < most_ms * UINT64_C(1000000)) {
        if (!waited++)
            xh_store_lock(t->fd, F_RDLCK, t->at + 1);
        xh_pause_ns(XH_STORE_PAUSE_NS);
    }
    if (waited)
        xh_store_lock(t->fd, F_UNLCK, t->at + 1);
    if (rc == 1 && !noted)
        note(t, t->at);
    else if (rc == 0 && noted)
        note(t, 0);
    if (rc != 0) {
        close(t->fd);
        t->fd = -1;
    }
    xh_trace(XH_T_SHADOW, "turn", "waited_us=%llu got=%d", (unsigned long long)(xh_now_ns() - begun) / 1000, rc == 0);
    return waited > 0;
}

int xh_shadow_turn_awaited(const struct xh_turn *t)
{
    return t->fd >= 0 && xh_store_locked(t->fd, t->at + 1) > 0;
}

void xh_shadow_turn_over(struct xh_turn *t)
{
    if (t->fd < 0)
        return;
    xh_store_lock(t->fd, F_UNLCK, t->at); /* a forked child may still have the description */
    close(t->fd);
    t->fd = -1;
}
