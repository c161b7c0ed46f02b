/* The negative cache: names that do not exist, for the user's other processes. Each entry is an empty file "n-<hex
 * SHA-256 of the name>"; its time says when it was noted. This code knows nothing of what the names mean. Threads,
 * processes: any. */
#include "negative_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "directory.h"

static int is_fresh(const struct stat *st, unsigned lasts_s)
{
    time_t now = time(NULL);
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_mtime <= now &&
           now - st->st_mtime < (time_t)lasts_s;
}

int xh_shadow_lacks(const char *name, const struct xh_options *o, unsigned lasts_s)
{
    char file[XH_NAME_BYTES];
    struct stat st;
    int dirfd = xh_directory_place('n', name, o, 0, file);
    if (dirfd < 0)
        return 0;
    int lacks = fstatat(dirfd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_fresh(&st, lasts_s);
    close(dirfd);
    return lacks;
}

void xh_shadow_note_lack(const char *name, const struct xh_options *o, int lacks, unsigned since_s)
{
    char file[XH_NAME_BYTES];
    int dirfd = xh_directory_place('n', name, o, lacks, file);
    if (dirfd < 0)
        return;
    int fd = lacks ? xh_open_own(dirfd, file, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd >= 0) {
        time_t since = time(NULL) - (time_t)since_s;
        futimens(fd, (struct timespec[2]){{.tv_sec = since}, {.tv_sec = since}});
        close(fd);
    } else if (!lacks) {
        unlinkat(dirfd, file, 0);
    }
    close(dirfd);
}

int xh_negative_is_old(int dirfd, const char *name)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !is_fresh(&st, XH_NEGATIVE_MOST_S);
}
