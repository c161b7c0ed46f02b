/* A file system that hands everything on to DIR, and fails as its control file says. Each line of it is
 *     read|write ERRNO FROM END INODE
 * and fails what touches the bytes [FROM, END) of that file; INODE 0: of any. A read through a mapping fails, too.
 * A page that cannot be read can be read once it was written. A line
 *     quota ERRNO 0 BYTES 0
 * fails what is written while all files of the disk cache in DIR take more than so many bytes.
 *
 * Usage: failing_disk DIR CONTROL -f MOUNTPOINT */
#define FUSE_USE_VERSION 312
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

static int root; /* DIR */
static const char *control;

static const char *below(const char *path)
{
    return path[1] ? path + 1 : ".";
}

static int done(long rc)
{
    return rc < 0 ? -errno : 0;
}

/* The pages that were written since the control file said what it says: a disk has another sector for them. */
static char says[4096];
static unsigned char written[1 << 16];

static void look(void)
{
    char now[sizeof says] = "";
    int fd = open(control, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, now, sizeof now - 1) >= 0 && strcmp(now, says) != 0) {
        memcpy(says, now, sizeof says);
        memset(written, 0, sizeof written);
    }
    if (fd >= 0)
        close(fd);
}

/* Returns the bytes that all files of the disk cache take. */
static long long all_taken(void)
{
    long long sum = 0;
    struct stat st;
    int fd = openat(root, "d6", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
            sum += (long long)st.st_blocks * 512;
    if (d)
        closedir(d);
    return sum;
}

static int is_bad(const char *how, off_t off, off_t end, long long from, long long to)
{
    if (end <= from || off >= to)
        return 0;
    off = off > from ? off : (off_t)from;
    end = end < to ? end : (off_t)to;
    for (off_t p = off / PAGE; p * PAGE < end; p++)
        if (*how == 'w' || !written[p % (off_t)sizeof written])
            return 1;
    return 0;
}

/* Returns the error of a |how| of bytes of the file |fd|, negative; or 0. */
static int fails(int fd, const char *how, off_t off, size_t len)
{
    char what[8];
    int error, n, rc = 0;
    long long from, to;
    unsigned long long ino;
    struct stat st;
    look();
    fstat(fd, &st);
    for (const char *at = says; !rc && sscanf(at, "%7s %d %lld %lld %llu%n", what, &error, &from, &to, &ino, &n) == 5;
         at += n)
        if ((*how == 'w' && strcmp(what, "quota") == 0 && all_taken() > to) ||
            (strcmp(what, how) == 0 && (ino == 0 || ino == st.st_ino) && is_bad(how, off, off + (off_t)len, from, to)))
            rc = -error;
    for (off_t p = off / PAGE; !rc && *how == 'w' && p * PAGE < off + (off_t)len; p++)
        written[p % (off_t)sizeof written] = 1;
    return rc;
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
    return done(fi ? fstat((int)fi->fh, st) : fstatat(root, below(path), st, AT_SYMLINK_NOFOLLOW));
}

static int fs_open(const char *path, struct fuse_file_info *fi)
{
    int fd = openat(root, below(path), (fi->flags & ~(O_NOATIME | O_APPEND)) | O_CLOEXEC);
    fi->fh = (uint64_t)fd;
    return done(fd);
}

static int fs_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    int fd = openat(root, below(path), (fi->flags & ~O_NOATIME) | O_CREAT | O_CLOEXEC, mode);
    fi->fh = (uint64_t)fd;
    return done(fd);
}

static int fs_release(const char *path, struct fuse_file_info *fi)
{
    (void)path;
    return done(close((int)fi->fh));
}

static int fs_read(const char *path, char *buf, size_t len, off_t off, struct fuse_file_info *fi)
{
    (void)path;
    int rc = fails((int)fi->fh, "read", off, len);
    ssize_t n = rc ? rc : pread((int)fi->fh, buf, len, off);
    return rc ? rc : n < 0 ? -errno : (int)n;
}

static int fs_write(const char *path, const char *buf, size_t len, off_t off, struct fuse_file_info *fi)
{
    (void)path;
    int rc = fails((int)fi->fh, "write", off, len);
    ssize_t n = rc ? rc : pwrite((int)fi->fh, buf, len, off);
    return rc ? rc : n < 0 ? -errno : (int)n;
}

static int fs_fallocate(const char *path, int mode, off_t off, off_t len, struct fuse_file_info *fi)
{
    (void)path;
    return done(fallocate((int)fi->fh, mode, off, len));
}

static off_t fs_lseek(const char *path, off_t off, int whence, struct fuse_file_info *fi)
{
    (void)path;
    off_t at = lseek((int)fi->fh, off, whence);
    return at < 0 ? -errno : at;
}

static int fs_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
    if (fi)
        return done(ftruncate((int)fi->fh, size));
    int fd = openat(root, below(path), O_WRONLY | O_CLOEXEC), rc = done(fd < 0 ? -1 : ftruncate(fd, size));
    if (fd >= 0)
        close(fd);
    return rc;
}

static int fs_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off, struct fuse_file_info *fi,
                      enum fuse_readdir_flags flags)
{
    (void)off, (void)fi, (void)flags;
    int fd = openat(root, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        return -errno;
    for (struct dirent *e; (e = readdir(d));)
        fill(buf, e->d_name, NULL, 0, 0);
    closedir(d);
    return 0;
}

static int fs_rename(const char *from, const char *to, unsigned flags)
{
    return done(renameat2(root, below(from), root, below(to), flags));
}

static int fs_unlink(const char *path)
{
    return done(unlinkat(root, below(path), 0));
}

static int fs_rmdir(const char *path)
{
    return done(unlinkat(root, below(path), AT_REMOVEDIR));
}

static int fs_mkdir(const char *path, mode_t mode)
{
    return done(mkdirat(root, below(path), mode));
}

static int fs_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
    return done(fi ? fchmod((int)fi->fh, mode) : fchmodat(root, below(path), mode, 0));
}

static int fs_utimens(const char *path, const struct timespec tv[2], struct fuse_file_info *fi)
{
    return done(fi ? futimens((int)fi->fh, tv) : utimensat(root, below(path), tv, 0));
}

static int fs_statfs(const char *path, struct statvfs *fs)
{
    (void)path;
    return done(fstatvfs(root, fs));
}

/* Nothing is served from a cache of names or attributes: the test looks into DIR, too. */
static void *fs_init(struct fuse_conn_info *conn, struct fuse_config *c)
{
    (void)conn;
    c->nullpath_ok = 0;
    c->entry_timeout = c->attr_timeout = c->negative_timeout = 0;
    c->hard_remove = 1;
    return NULL;
}

static const struct fuse_operations ops = {
    .init = fs_init, .getattr = fs_getattr, .open = fs_open, .create = fs_create, .release = fs_release,
    .read = fs_read, .write = fs_write, .fallocate = fs_fallocate, .lseek = fs_lseek, .truncate = fs_truncate,
    .readdir = fs_readdir, .rename = fs_rename, .unlink = fs_unlink, .rmdir = fs_rmdir, .mkdir = fs_mkdir,
    .chmod = fs_chmod, .utimens = fs_utimens, .statfs = fs_statfs,
};

int main(int argc, char **argv)
{
    if (argc < 4 || (root = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return 2;
    control = argv[2];
    argv[2] = argv[0];
    return fuse_main(argc - 2, argv + 2, &ops, NULL);
}
