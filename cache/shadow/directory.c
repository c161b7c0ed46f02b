/* The directory of the shadows: finds, creates and checks it, and knows the directories of other layouts. See
 * directory.h. Threads: any. */
#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/files.h"
#include "base/filesystems.h"
#include "base/letters.h"
#include "base/waits.h"
#include "watch/trace.h"
#include "store.h"

static const char *layout_dir(int on_disk)
{
    return on_disk ? XH_LAYOUT_DISK_DIR : XH_LAYOUT_DIR;
}

void xh_directory_base(const struct xh_options *o, char path[XH_DIR_BYTES])
{
    if (o->shadow_dir[0] || o->on_disk)
        snprintf(path, XH_DIR_BYTES, "%s", o->shadow_dir);
    else
        snprintf(path, XH_DIR_BYTES, "/dev/shm/xhdf5-%u", (unsigned)geteuid());
    /* A slash at the end would follow a symlink. */
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    path[n] = '\0';
}

void xh_directory_path(const struct xh_options *o, char path[XH_DIR_BYTES])
{
    xh_directory_base(o, path);
    size_t n = strlen(path);
    snprintf(path + n, XH_DIR_BYTES - n, "/%s", layout_dir(o->on_disk));
}

static int is_default(const struct xh_options *o)
{
    return o->shadow_dir[0] == '\0';
}

/* Returns why a directory's file system is unsuitable, or NULL. A shared mapping must be coherent (no network file
 * system), and reserved blocks must stay reserved (no copy on write). */
static const char *bad_fs(int dirfd, const struct xh_options *o)
{
    struct statfs fs;
    if (fstatfs(dirfd, &fs) < 0)
        return "statfs failed";
    switch ((unsigned long)fs.f_type) {
    case TMPFS_MAGIC: return NULL;
    case EXT4_SUPER_MAGIC:
    case XFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC:
        if (is_default(o))
            return "it is in no tmpfs";
        return !o->on_disk && access("/proc/sys/kernel/random/boot_id", R_OK) ? "no boot id" : NULL;
    default:
        return o->on_disk ? "it must be on a local disk with ext4 or XFS, not on a network or copy-on-write file system"
                          : "its file system is unsuitable";
    }
}

void xh_directory_unfit(struct xh_unfit *out, int bad)
{
    out->cure = bad == EMFILE || bad == ENFILE ? XH_CURE_FILES
                : bad == EFBIG ? XH_CURE_LENGTH
                : bad == ENOSPC || bad == EDQUOT ? XH_CURE_ROOM
                                                 : XH_CURE_DIRECTORY;
    out->why = out->cure == XH_CURE_FILES    ? "this process has as many files open as it may"
               : out->cure == XH_CURE_LENGTH ? "this process may write no files that are as long"
                                             : strerror_r(bad, out->text, sizeof out->text);
}

const char *xh_directory_cure(const struct xh_unfit *u, int on_disk)
{
    switch (u->cure) {
    case XH_CURE_FILES: return "raise that limit (ulimit -n), or close files";
    case XH_CURE_LENGTH: return "raise that limit (ulimit -f)";
    case XH_CURE_ROOM:
        return on_disk ? "make room there, or name a directory on another disk with XHDF5_DISK_CACHE_DIR"
                       : "make room there, or name a directory in another tmpfs with XHDF5_SHADOW_DIR";
    case XH_CURE_DIRECTORY: break;
    }
    return on_disk ? "name a directory on a local disk that is yours alone (chmod 700) with XHDF5_DISK_CACHE_DIR"
                   : "name a directory in a tmpfs that is yours alone (chmod 700) with XHDF5_SHADOW_DIR";
}

void xh_directory_say_disk(const char *path, const struct xh_unfit *u)
{
    static atomic_int said;
    xh_trace(XH_T_SHADOW, "no-disk", "dir=%s why=\"%s\"", path, u->why);
    if (!atomic_exchange(&said, 1))
        xh_say("the disk cache in %s cannot be used: %s. Reading goes on without it; %s", path, u->why,
               xh_directory_cure(u, 1));
}

/* Traces that |path| cannot be used. Prints it once if the user named the directory: the program runs on, and shares
 * nothing. With too many files open it most likely keeps nothing either, which is told then (xh_shadow_open). */
static void say_unusable(const struct xh_options *o, const char *path, const struct xh_unfit *u)
{
    static atomic_int said;
    if (o->on_disk) {
        xh_directory_say_disk(path, u);
        return;
    }
    xh_trace(XH_T_SHADOW, "private", "dir=%s why=\"%s\"", path, u->why);
    if (o->shadow_dir[0] && u->cure != XH_CURE_FILES && !atomic_exchange(&said, 1))
        xh_say("the shadow directory %s cannot be used: %s. What is read stays in this process's memory and is not "
               "shared: %s",
               path, u->why, xh_directory_cure(u, 0));
}

/* Returns why the opened directory |fd| is unsuitable, or NULL. */
static const char *bad_dir(int fd, const struct xh_options *o)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return "no access";
    if (st.st_uid != geteuid())
        return "it is another user's";
    if (st.st_mode & 077)
        return "it is open to others";
    return bad_fs(fd, o);
}

/* Opens the layout's directory in |base| and marks it as used. If another process is removing it, makes a new one. */
static int open_layout(int base, const char *name, int create)
{
    struct stat st;
    for (unsigned i = 0; i < XH_STORE_TRIES; i++) {
        int fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && ((errno != ENOENT && errno != EACCES) || !create || i + 1 == XH_STORE_TRIES ||
                       xh_make_own_dir(base, name) < 0))
            return -1;
        if (fd < 0)
            continue;
        int removed = flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        if (!removed && fstat(fd, &st) == 0 && st.st_nlink > 0)
            return fd;
        close(fd);
        xh_pause_ns(XH_STORE_PAUSE_NS);
    }
    errno = ENOENT;
    return -1;
}

/* A directory could not be opened, as errno says: fills |out|. */
static void note_unopened(struct xh_unfit *out)
{
    xh_directory_unfit(out, errno);
    if (out->cure == XH_CURE_DIRECTORY)
        out->why = errno == ENOENT                      ? "it is not there"
                   : errno == ELOOP || errno == ENOTDIR ? "it is no directory"
                                                        : "no access";
}

int xh_directory_try(const struct xh_options *o, int create, struct xh_unfit *out)
{
    char base_path[XH_DIR_BYTES];
    int base = -1, fd = -1;
    *out = (struct xh_unfit){0};
    xh_directory_base(o, base_path);
    if (create && xh_make_own_dir(AT_FDCWD, base_path) < 0)
        xh_directory_unfit(out, errno);
    else if ((base = open(base_path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        note_unopened(out);
    else if (!(out->why = bad_dir(base, o))) {
        fd = open_layout(base, layout_dir(o->on_disk), create);
        if (fd >= 0)
            out->why = bad_dir(fd, o);
        else if (create)
            xh_directory_unfit(out, errno);
        else
            note_unopened(out);
    }
    if (base >= 0)
        close(base);
    if (!out->why)
        return xh_move_up(fd);
    if (fd >= 0)
        close(fd);
    return -1;
}

int xh_directory_open(const struct xh_options *o, int create)
{
    char base_path[XH_DIR_BYTES];
    struct xh_unfit unfit;
    int fd = xh_directory_try(o, create, &unfit);
    if (fd < 0 && create) {
        xh_directory_base(o, base_path);
        say_unusable(o, base_path, &unfit);
    }
    return fd;
}

int xh_directory_place(char letter, const char *name, const struct xh_options *o, int create,
                       char file[XH_NAME_BYTES])
{
    file[0] = letter;
    file[1] = '-';
    return o->shadow && xh_store_url_hex(name, file + 2) == 0 ? xh_directory_open(o, create) : -1;
}

int xh_directory_common(int dirfd, const char *name)
{
    struct stat st;
    int fd = xh_open_own(dirfd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid()))
        return fd;
    close(fd);
    return -1;
}

/* ---- other layouts ----------------------------------------------------------------------- */

/* Returns 1 for "v", of the disk cache "d", and digits, except this layout's. */
static int is_other_layout(const char *name, int on_disk)
{
    size_t n = strlen(name);
    return name[0] == *layout_dir(on_disk) && n > 1 && n < XH_PLACE_BYTES - 4 &&
           strspn(name + 1, XH_DIGITS) == n - 1 && strcmp(name, layout_dir(on_disk)) != 0;
}

size_t xh_directory_places(int dirfd, int on_disk, char place[XH_PLACES_MOST][XH_PLACE_BYTES])
{
    size_t n = 0;
    place[n++][0] = '\0';
    if (!on_disk)
        snprintf(place[n++], XH_PLACE_BYTES, "../");
    DIR *d = xh_list(openat(dirfd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!d)
        return n;
    for (struct dirent *e; n < XH_PLACES_MOST && (e = readdir(d));)
        if (is_other_layout(e->d_name, on_disk))
            snprintf(place[n++], XH_PLACE_BYTES, "../%.*s/", XH_PLACE_BYTES - 5, e->d_name);
    closedir(d);
    return n;
}

DIR *xh_directory_list(int dirfd, const char *place)
{
    char path[XH_PLACE_BYTES + 1] = ".";
    if (place[0])
        /* A slash at the end would follow a symlink. */
        snprintf(path, sizeof path, "%.*s", (int)strlen(place) - 1, place);
    return xh_list(openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

/* Returns 1 for a file that is useless without a shadow. */
static int is_beside(const char *name)
{
    return strcmp(name, "turns") == 0 || strcmp(name, "busy") == 0 || xh_store_is_name(name, 'u') ||
           xh_store_is_name(name, 'n');
}

/* Returns 1 when |d| lists only files that are useless without a shadow: a directory that the user named may contain a
 * "v1" of the user's own. |empties|: removes those files. */
static int is_spent(DIR *d, int empties)
{
    int spent = 1;
    rewinddir(d);
    for (struct dirent *e; spent && (e = readdir(d));) {
        int itself = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
        spent = itself || is_beside(e->d_name);
        if (spent && empties && !itself)
            unlinkat(xh_list_fd(d), e->d_name, 0);
    }
    return spent;
}

void xh_directory_tidy(int base, int on_disk)
{
    char place[XH_PLACES_MOST][XH_PLACE_BYTES];
    struct stat st;
    size_t n = xh_directory_places(base, on_disk, place);
    for (size_t i = on_disk ? 1 : 2; i < n; i++) {
        DIR *d = xh_directory_list(base, place[i]);
        if (!d)
            continue;
        /* A process that uses the directory holds the lock shared: see open_layout. A directory without links was
         * removed already, and its name may belong to a new one. */
        if (flock(xh_list_fd(d), LOCK_EX | LOCK_NB) == 0 && fstat(xh_list_fd(d), &st) == 0 && st.st_nlink > 0 &&
            is_spent(d, 0) && is_spent(d, 1)) {
            unlinkat(base, place[i], AT_REMOVEDIR);
            xh_trace(XH_T_SHADOW, "tidied", "place=%s", place[i]);
        }
        closedir(d);
    }
}
