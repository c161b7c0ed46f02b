/* A file system that is slow by a stated time for each operation: FUSE, without libfuse.
 *
 *   slowfs BACKING MOUNTPOINT MICROSECONDS [THREADS]
 *
 * Shows the regular files of the directory BACKING, which are best on tmpfs. Prints "ready" when mounted; SIGTERM or
 * SIGINT ends it, and so does unmounting; it then prints how many operations it served, by kind.
 *
 * What it is like: a parallel file system whose client keeps nothing. Files are opened for direct I/O, names and
 * attributes expire at once, so each read, write, stat, open and truncate of a program is an operation here, of at
 * most 1 MiB. Many are served at once (THREADS, 32), each after MICROSECONDS. Locks stay in the kernel and cost
 * nothing, as do closing a file (the answer to FLUSH is sent at once) and forgetting a name. There is no bandwidth
 * limit. What it is not: directories, links, extended attributes, mapping a file to be written.
 *
 * Needs root, or a user namespace of one's own. Source: linux/fuse.h, protocol 7.31. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MOST_BYTES (1u << 20)               /* of one read or write */
#define BUFFER_BYTES (MOST_BYTES + 65536u)
#define NAMES 65536u

/* A name of BACKING. Its number, and 1 more than the root's 1, is the node's; names are never given up. */
static char *names[NAMES];
static unsigned name_count;
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

static int device, backing;
static const char *mountpoint;
static struct timespec delay;
static _Atomic unsigned long served[64];

struct request {
    struct fuse_in_header *h;
    void *arg;
    char *out; /* room for an answer behind its header */
};

static uint64_t node_of(const char *name)
{
    uint64_t node = 0;
    pthread_mutex_lock(&names_lock);
    for (unsigned i = 0; i < name_count && !node; i++)
        if (strcmp(names[i], name) == 0)
            node = i + 2;
    if (!node && name_count < NAMES && (names[name_count] = strdup(name)))
        node = ++name_count + 1;
    pthread_mutex_unlock(&names_lock);
    return node;
}

static const char *name_of(uint64_t node)
{
    const char *name = ".";
    pthread_mutex_lock(&names_lock);
    if (node > 1 && node - 2 < name_count)
        name = names[node - 2];
    pthread_mutex_unlock(&names_lock);
    return name;
}

static void fill_attr(const struct stat *st, struct fuse_attr *a)
{
    *a = (struct fuse_attr){.ino = st->st_ino, .size = (uint64_t)st->st_size, .blocks = (uint64_t)st->st_blocks,
                            .atime = (uint64_t)st->st_atim.tv_sec, .mtime = (uint64_t)st->st_mtim.tv_sec,
                            .ctime = (uint64_t)st->st_ctim.tv_sec, .atimensec = (uint32_t)st->st_atim.tv_nsec,
                            .mtimensec = (uint32_t)st->st_mtim.tv_nsec, .ctimensec = (uint32_t)st->st_ctim.tv_nsec,
                            .mode = st->st_mode, .nlink = (uint32_t)st->st_nlink, .uid = st->st_uid, .gid = st->st_gid,
                            .blksize = 4096};
}

static int fill_entry(const char *name, struct fuse_entry_out *e)
{
    struct stat st;
    if (fstatat(backing, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    *e = (struct fuse_entry_out){.nodeid = node_of(name)};
    fill_attr(&st, &e->attr);
    return e->nodeid ? (int)sizeof *e : -ENFILE;
}

static int do_getattr(struct request *q)
{
    struct fuse_getattr_in *in = q->arg;
    struct fuse_attr_out *out = (void *)q->out;
    struct stat st;
    int rc = in->getattr_flags & FUSE_GETATTR_FH ? fstat((int)in->fh, &st)
                                                 : fstatat(backing, name_of(q->h->nodeid), &st, AT_SYMLINK_NOFOLLOW);
    if (rc < 0)
        return -errno;
    *out = (struct fuse_attr_out){0};
    fill_attr(&st, &out->attr);
    return sizeof *out;
}

static int do_setattr(struct request *q)
{
    struct fuse_setattr_in *in = q->arg;
    const char *name = name_of(q->h->nodeid);
    int rc = 0;
    if (in->valid & FATTR_SIZE) {
        int fd = in->valid & FATTR_FH ? (int)in->fh : openat(backing, name, O_WRONLY | O_CLOEXEC);
        rc = fd < 0 ? -1 : ftruncate(fd, (off_t)in->size);
        if (fd >= 0 && !(in->valid & FATTR_FH))
            close(fd);
    }
    if (rc == 0 && in->valid & FATTR_MODE)
        rc = fchmodat(backing, name, in->mode & 07777, 0);
    if (rc < 0)
        return -errno;
    struct fuse_getattr_in get = {0};
    q->arg = &get;
    return do_getattr(q);
}

static int do_open(struct request *q)
{
    struct fuse_open_in *in = q->arg;
    int fd = openat(backing, name_of(q->h->nodeid), (int)(in->flags & (O_ACCMODE | O_TRUNC)) | O_CLOEXEC);
    *(struct fuse_open_out *)q->out = (struct fuse_open_out){.fh = (uint64_t)fd, .open_flags = FOPEN_DIRECT_IO};
    return fd < 0 ? -errno : (int)sizeof(struct fuse_open_out);
}

static int do_create(struct request *q)
{
    struct fuse_create_in *in = q->arg;
    const char *name = (const char *)(in + 1);
    struct fuse_entry_out *e = (void *)q->out;
    int fd = openat(backing, name, (int)(in->flags & (O_ACCMODE | O_TRUNC | O_EXCL)) | O_CREAT | O_CLOEXEC,
                    in->mode & 07777);
    int rc = fd < 0 ? -errno : fill_entry(name, e);
    if (rc < 0)
        return rc;
    *(struct fuse_open_out *)(e + 1) = (struct fuse_open_out){.fh = (uint64_t)fd, .open_flags = FOPEN_DIRECT_IO};
    return rc + (int)sizeof(struct fuse_open_out);
}

static int do_read(struct request *q)
{
    struct fuse_read_in *in = q->arg;
    ssize_t n = pread((int)in->fh, q->out, in->size < MOST_BYTES ? in->size : MOST_BYTES, (off_t)in->offset);
    return n < 0 ? -errno : (int)n;
}

static int do_write(struct request *q)
{
    struct fuse_write_in *in = q->arg;
    ssize_t n = pwrite((int)in->fh, in + 1, in->size, (off_t)in->offset);
    *(struct fuse_write_out *)q->out = (struct fuse_write_out){.size = (uint32_t)n};
    return n < 0 ? -errno : (int)sizeof(struct fuse_write_out);
}

static int do_rename(struct request *q, size_t head)
{
    const char *from = (const char *)q->arg + head;
    return renameat(backing, from, backing, from + strlen(from) + 1) < 0 ? -errno : 0;
}

static int do_statfs(struct request *q)
{
    struct statvfs v;
    if (fstatvfs(backing, &v) < 0)
        return -errno;
    *(struct fuse_statfs_out *)q->out = (struct fuse_statfs_out){.st = {
        .blocks = v.f_blocks, .bfree = v.f_bfree, .bavail = v.f_bavail, .files = v.f_files, .ffree = v.f_ffree,
        .bsize = (uint32_t)v.f_bsize, .frsize = (uint32_t)v.f_frsize, .namelen = 255}};
    return sizeof(struct fuse_statfs_out);
}

static int do_readdir(struct request *q)
{
    struct fuse_read_in *in = q->arg;
    uint64_t at = 0;
    int used = 0, fd = openat(backing, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        return -errno;
    for (struct dirent *e; (e = readdir(d)); at++) {
        size_t len = strlen(e->d_name), size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + len);
        if (at < in->offset)
            continue;
        if ((size_t)used + size > in->size)
            break;
        struct fuse_dirent *o = (void *)(q->out + used);
        memset(o, 0, size);
        *o = (struct fuse_dirent){.ino = e->d_ino, .off = at + 1, .namelen = (uint32_t)len, .type = e->d_type};
        memcpy(o->name, e->d_name, len);
        used += (int)size;
    }
    closedir(d);
    return used;
}

static int do_init(struct request *q)
{
    struct fuse_init_in *in = q->arg;
    uint32_t flags = FUSE_BIG_WRITES | FUSE_MAX_PAGES | FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_ATOMIC_O_TRUNC;
    *(struct fuse_init_out *)q->out = (struct fuse_init_out){
        .major = 7, .minor = 31, .max_readahead = in->max_readahead, .flags = in->flags & flags, .max_background = 256,
        .congestion_threshold = 192, .max_write = MOST_BYTES, .time_gran = 1, .max_pages = MOST_BYTES / 4096};
    return sizeof(struct fuse_init_out);
}

/* Returns the length of the answer in |q->out|, or a negative errno. */
static int serve(struct request *q)
{
    struct fuse_release_in *release = q->arg;
    switch (q->h->opcode) {
        case FUSE_INIT: return do_init(q);
        case FUSE_LOOKUP: return fill_entry(q->arg, (void *)q->out);
        case FUSE_GETATTR: return do_getattr(q);
        case FUSE_SETATTR: return do_setattr(q);
        case FUSE_OPEN: return do_open(q);
        case FUSE_CREATE: return do_create(q);
        case FUSE_READ: return do_read(q);
        case FUSE_WRITE: return do_write(q);
        case FUSE_RELEASE: close((int)release->fh); return 0;
        case FUSE_FLUSH: return 0;
        case FUSE_FSYNC: return fsync((int)((struct fuse_fsync_in *)q->arg)->fh) < 0 ? -errno : 0;
        case FUSE_UNLINK: return unlinkat(backing, q->arg, 0) < 0 ? -errno : 0;
        case FUSE_RENAME: return do_rename(q, sizeof(struct fuse_rename_in));
        case FUSE_RENAME2: return do_rename(q, sizeof(struct fuse_rename2_in));
        case FUSE_STATFS: return do_statfs(q);
        case FUSE_OPENDIR: memset(q->out, 0, sizeof(struct fuse_open_out)); return sizeof(struct fuse_open_out);
        case FUSE_READDIR: return do_readdir(q);
        case FUSE_RELEASEDIR: return 0;
        default: return -ENOSYS;
    }
}

static int is_slow(uint32_t opcode)
{
    return opcode != FUSE_INIT && opcode != FUSE_FLUSH && opcode != FUSE_RELEASE && opcode != FUSE_RELEASEDIR;
}

static void *work(void *arg)
{
    char *in = malloc(BUFFER_BYTES), *out = malloc(BUFFER_BYTES);
    prctl(PR_SET_TIMERSLACK, 1000);
    while (in && out) {
        ssize_t n = read(device, in, BUFFER_BYTES);
        if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
            continue;
        if (n < (ssize_t)sizeof(struct fuse_in_header))
            break; /* ENODEV: unmounted */
        struct request q = {.h = (void *)in, .arg = in + sizeof(struct fuse_in_header), .out = out};
        uint32_t opcode = q.h->opcode;
        uint64_t unique = q.h->unique;
        if (opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT)
            continue;
        served[opcode < 64 ? opcode : 0]++;
        if (is_slow(opcode) && (delay.tv_sec || delay.tv_nsec))
            nanosleep(&delay, NULL);
        int len = serve(&q);
        struct fuse_out_header h = {.len = (uint32_t)(sizeof h + (len > 0 ? (size_t)len : 0)),
                                    .error = len < 0 ? len : 0,
                                    .unique = unique};
        struct iovec v[2] = {{&h, sizeof h}, {out, len > 0 ? (size_t)len : 0}};
        if (writev(device, v, 2) < 0 && errno != ENOENT)
            perror("slowfs: answer");
    }
    free(in);
    free(out);
    return arg;
}

int main(int argc, char **argv)
{
    char options[128];
    sigset_t ends;
    int got;
    if (argc < 4) {
        fprintf(stderr, "usage: slowfs BACKING MOUNTPOINT MICROSECONDS [THREADS]\n");
        return 2;
    }
    long us = atol(argv[3]), threads = argc > 4 ? atol(argv[4]) : 32;
    delay = (struct timespec){us / 1000000, us % 1000000 * 1000};
    mountpoint = argv[2];
    backing = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (backing < 0 || device < 0) {
        perror(backing < 0 ? argv[1] : "/dev/fuse");
        return 1;
    }
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other,max_read=%u", device,
             (int)getuid(), (int)getgid(), MOST_BYTES);
    if (mount("slowfs", mountpoint, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
        perror("slowfs: mount");
        return 1;
    }
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    for (long i = 0; i < threads; i++) {
        pthread_t t;
        if (pthread_create(&t, NULL, work, NULL) == 0)
            pthread_detach(t);
    }
    puts("ready");
    fflush(stdout);
    sigwait(&ends, &got);
    umount2(mountpoint, MNT_DETACH);
    for (unsigned i = 0; i < 64; i++)
        if (served[i])
            printf("%u=%lu ", i, served[i]);
    puts("");
    return 0;
}
