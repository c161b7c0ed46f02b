/* A mounted file system: see fuse.h.
 *
 * Invariant: each request gets one answer, from the thread that serves it or, once its program was killed, from
 * xh_fuse_tick(). Whoever takes work->req under the lock answers, and nobody else touches the request from then on.
 *
 * A program that was killed stays until its request is answered. A signal that a program handles does not end a
 * request: few programs expect EINTR of a file. */
#define FUSE_USE_VERSION 312
#include "fuse.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../cache/base/extent.h"
#include "../../cache/base/letters.h"
#include "../../cache/base/thread.h"

#define THREADS_MOST 64u
#define NAME_VALID_S 1.0     /* for so long the kernel takes a name for granted; then it asks which version is there */
#define ATTR_VALID_S 86400.0 /* a node's never change */
#define READ_ONLY    0444u
#define NOT_KNOWN    UINT32_MAX /* an entry's number before it is looked up */

/* What a thread serves. Guarded by the lock, but for the buffer, which is the thread's. */
struct work {
    int busy;
    fuse_req_t req; /* NULL: answered */
    uint64_t number; /* the request's; never again */
    pid_t program;
    char *buf; /* kept for others */
    size_t room;
};

struct xh_fuse {
    struct xh_tree *tree;
    struct fuse_session *session;
    pthread_mutex_t lock; /* guards what follows */
    uint64_t requests;
    struct work works[THREADS_MOST];
};

/* ---- requests that wait, and their answers */

static struct xh_fuse *fuse_of(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

/* There is one for each thread. */
static struct work *begin(fuse_req_t req)
{
    struct xh_fuse *f = fuse_of(req);
    unsigned i = 0;
    pthread_mutex_lock(&f->lock);
    while (i < THREADS_MOST - 1 && f->works[i].busy)
        i++;
    struct work *w = &f->works[i];
    assert(!w->busy);
    w->busy = 1;
    w->req = req;
    w->number = ++f->requests;
    w->program = fuse_req_ctx(req)->pid;
    pthread_mutex_unlock(&f->lock);
    return w;
}

/* The request, which the caller answers from now on; NULL: it was answered, now with |failed|, an errno, if that is
 * not 0. */
static fuse_req_t claim(struct xh_fuse *f, struct work *w, int failed)
{
    pthread_mutex_lock(&f->lock);
    fuse_req_t req = w->req;
    w->req = NULL;
    pthread_mutex_unlock(&f->lock);
    if (req && failed)
        fuse_reply_err(req, failed);
    return failed ? NULL : req;
}

static void end(struct xh_fuse *f, struct work *w)
{
    pthread_mutex_lock(&f->lock);
    w->busy = 0;
    pthread_mutex_unlock(&f->lock);
}

/* 1 when the program's thread is about to die. */
static int is_killed(pid_t thread)
{
    char path[40], line[128];
    unsigned long long pending = 0, one;
    if (thread == 0) /* of another process namespace: not to be told */
        return 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
    FILE *status = fopen(path, "re");
    if (!status)
        return errno == ENOENT;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "SigPnd: %llx", &one) == 1 || sscanf(line, "ShdPnd: %llx", &one) == 1)
            pending |= one;
    fclose(status);
    return (pending >> (SIGKILL - 1)) & 1;
}

int xh_fuse_tick(struct xh_fuse *f)
{
    for (unsigned i = 0; i < THREADS_MOST; i++) {
        struct work *w = &f->works[i];
        fuse_req_t killed = NULL;
        pthread_mutex_lock(&f->lock);
        uint64_t number = w->req && fuse_req_interrupted(w->req) ? w->number : 0;
        pid_t program = w->program;
        pthread_mutex_unlock(&f->lock);
        if (!number || !is_killed(program))
            continue;
        pthread_mutex_lock(&f->lock);
        if (w->number == number) {
            killed = w->req;
            w->req = NULL;
        }
        pthread_mutex_unlock(&f->lock);
        if (killed)
            fuse_reply_err(killed, EINTR);
    }
    return !fuse_session_exited(f->session);
}

/* ---- requests */

static struct stat stat_of(const struct xh_tree_attr *a)
{
    const struct timespec time = {.tv_sec = a->changed_s > 0 ? a->changed_s : 0};
    return (struct stat){.st_ino = a->node,
                         .st_size = (off_t)a->size,
                         .st_blocks = (blkcnt_t)(a->size / 512 + (a->size % 512 != 0)),
                         .st_atim = time,
                         .st_mtim = time,
                         .st_ctim = time,
                         .st_mode = a->directory ? S_IFDIR | READ_ONLY | 0111u : S_IFREG | READ_ONLY,
                         .st_nlink = a->directory ? 2 : 1,
                         .st_uid = geteuid(),
                         .st_gid = getegid(),
                         .st_blksize = XH_PAGE_BYTES};
}

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
    conn->max_read = XH_TREE_READ_BYTES; /* as the mount's option says */
    conn->max_background = THREADS_MOST;
    conn->congestion_threshold = THREADS_MOST;
#ifdef FUSE_CAP_DIRECT_IO_ALLOW_MMAP
    conn->want |= conn->capable & FUSE_CAP_DIRECT_IO_ALLOW_MMAP;
#endif
}

static void on_lookup(fuse_req_t req, fuse_ino_t directory, const char *name)
{
    struct xh_fuse *f = fuse_of(req);
    struct work *w = begin(req);
    struct xh_tree_attr a = {0};
    int rc = strlen(name) > XH_ENTRY_NAME_BYTES                  ? ENAMETOOLONG
             : strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ? ENOENT
                                                                 : xh_tree_lookup(f->tree, directory, name, &a);
    const struct fuse_entry_param e = {
        .ino = a.node, .attr = stat_of(&a), .attr_timeout = ATTR_VALID_S, .entry_timeout = NAME_VALID_S};
    fuse_req_t mine = claim(f, w, rc);
    if (rc == 0 && (!mine || fuse_reply_entry(mine, &e) != 0))
        xh_tree_forget(f->tree, a.node, 1);
    end(f, w);
}

static void on_forget(fuse_req_t req, fuse_ino_t node, uint64_t times)
{
    xh_tree_forget(fuse_of(req)->tree, node, times);
    fuse_reply_none(req);
}

static void on_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *of)
{
    for (size_t i = 0; i < n; i++)
        xh_tree_forget(fuse_of(req)->tree, of[i].ino, of[i].nlookup);
    fuse_reply_none(req);
}

static void on_getattr(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    struct xh_tree_attr a = {0};
    int rc = xh_tree_attr(fuse_of(req)->tree, node, &a);
    const struct stat st = stat_of(&a);
    if (rc)
        fuse_reply_err(req, rc);
    else
        fuse_reply_attr(req, &st, ATTR_VALID_S);
}

static void on_open(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    struct xh_fuse *f = fuse_of(req);
    struct work *w = begin(req);
    struct fuse_file_info out = *fi;
    int direct = 1, rc = (fi->flags & O_ACCMODE) != O_RDONLY ? EROFS : xh_tree_open(f->tree, node, &direct);
    out.direct_io = direct != 0;
    out.keep_cache = 1;
    fuse_req_t mine = claim(f, w, rc);
    if (rc == 0 && (!mine || fuse_reply_open(mine, &out) != 0))
        xh_tree_release(f->tree, node);
    end(f, w);
}

static void on_release(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    xh_tree_release(fuse_of(req)->tree, node);
    fuse_reply_err(req, 0);
}

/* 1 when the buffer of |w| holds |len| bytes. */
static int has_room(struct work *w, size_t len)
{
    if (len > w->room) {
        free(w->buf);
        w->buf = malloc(len);
        w->room = w->buf ? len : 0;
    }
    return len <= w->room;
}

static void on_read(fuse_req_t req, fuse_ino_t node, size_t len, off_t off, struct fuse_file_info *fi)
{
    struct xh_fuse *f = fuse_of(req);
    struct work *w = begin(req);
    int rc = has_room(w, len) ? xh_tree_read(f->tree, node, (uint64_t)off, w->buf, &len) : ENOMEM;
    fuse_req_t mine = claim(f, w, rc);
    if (mine)
        fuse_reply_buf(mine, w->buf, len);
    end(f, w);
}

static void drop(struct xh_entries *names)
{
    if (names)
        xh_entries_free(names);
    free(names);
}

static void on_opendir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    struct xh_fuse *f = fuse_of(req);
    struct work *w = begin(req);
    struct xh_entries *names = calloc(1, sizeof *names);
    struct fuse_file_info out = *fi;
    out.fh = (uintptr_t)names;
    int rc = names ? xh_tree_list(f->tree, node, names) : ENOMEM;
    fuse_req_t mine = claim(f, w, rc);
    if (!mine || fuse_reply_open(mine, &out) != 0)
        drop(names);
    end(f, w);
}

/* Numbers of entries are those of names, behind "." and "..". */
static void on_readdir(fuse_req_t req, fuse_ino_t node, size_t room, off_t off, struct fuse_file_info *fi)
{
    const struct xh_entries *names = (void *)(uintptr_t)fi->fh;
    char *out = malloc(room);
    size_t used = 0;
    for (size_t i = (size_t)off; out && i < names->n + 2; i++) {
        const char *name = i == 0 ? "." : i == 1 ? ".." : names->of[i - 2].name;
        const struct stat st = {.st_ino = NOT_KNOWN,
                                .st_mode = i < 2 || names->of[i - 2].directory ? S_IFDIR : S_IFREG};
        size_t len = fuse_add_direntry(req, out + used, room - used, name, &st, (off_t)i + 1);
        if (len > room - used)
            break;
        used += len;
    }
    if (out)
        fuse_reply_buf(req, out, used);
    else
        fuse_reply_err(req, ENOMEM);
    free(out);
}

static void on_releasedir(fuse_req_t req, fuse_ino_t node, struct fuse_file_info *fi)
{
    drop((void *)(uintptr_t)fi->fh);
    fuse_reply_err(req, 0);
}

static void on_statfs(fuse_req_t req, fuse_ino_t node)
{
    const struct statvfs v = {.f_bsize = XH_PAGE_BYTES, .f_frsize = XH_PAGE_BYTES, .f_namemax = XH_ENTRY_NAME_BYTES};
    fuse_reply_statfs(req, &v);
}

static const struct fuse_lowlevel_ops ops = {.init = on_init,
                                             .lookup = on_lookup,
                                             .forget = on_forget,
                                             .forget_multi = on_forget_multi,
                                             .getattr = on_getattr,
                                             .open = on_open,
                                             .release = on_release,
                                             .read = on_read,
                                             .opendir = on_opendir,
                                             .readdir = on_readdir,
                                             .releasedir = on_releasedir,
                                             .statfs = on_statfs};

/* ---- mounting */

static char said[256]; /* by libfuse, while it mounts */

static void note(enum fuse_log_level level, const char *format, va_list args)
{
    vsnprintf(said, sizeof said, format, args);
    said[strcspn(said, "\n")] = '\0';
}

/* Copies |source| without what a table of mounts or a list of options takes for more than a character. */
static void make_plain(const char *source, char *plain, size_t room)
{
    size_t n = 0;
    for (; source[n] && n + 1 < room; n++)
        plain[n] = strchr("/:.-_~%+=@", source[n]) || xh_isalnum((unsigned char)source[n]) ? source[n] : '_';
    plain[n] = '\0';
}

static struct fuse_session *session_of(const char *source, struct xh_fuse *f)
{
    char plain[128], options[256];
    make_plain(source, plain, sizeof plain);
    snprintf(options, sizeof options, "ro,nosuid,nodev,noatime,default_permissions,subtype=xhdf5,max_read=%u,fsname=%s",
             XH_TREE_READ_BYTES, plain);
    char *words[] = {"xhdf5", "-o", options, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(3, words);
    struct fuse_session *session = fuse_session_new(&args, &ops, sizeof ops, f);
    fuse_opt_free_args(&args);
    return session;
}

int xh_fuse_mount(const char *dir, const char *source, struct xh_tree *tree, struct xh_fuse **out, struct xh_err *err)
{
    struct xh_fuse *f = calloc(1, sizeof *f);
    if (!f)
        return xh_err_set(err, XH_E_SYS, 0, "out of memory for a mount");
    f->tree = tree;
    pthread_mutex_init(&f->lock, NULL);
    said[0] = '\0';
    fuse_set_log_func(note);
    f->session = session_of(source, f);
    int rc = f->session ? fuse_session_mount(f->session, dir) : -1;
    fuse_set_log_func(NULL);
    if (rc == 0) {
        *out = f;
        return 0;
    }
    if (f->session)
        fuse_session_destroy(f->session);
    pthread_mutex_destroy(&f->lock);
    free(f);
    return xh_err_set(err, XH_E_SYS, 0, "%.300s cannot be mounted%s%s%s", dir, said[0] ? ": " : "", said,
                      access("/dev/fuse", F_OK) != 0
                          ? ". The kernel has no FUSE, or this container was not given the device /dev/fuse"
                      : geteuid() != 0
                          ? ". Users other than root need fusermount3 (package fuse3), and the right to open /dev/fuse"
                          : "");
}

static void *serve(void *arg)
{
    struct xh_fuse *f = arg;
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    if (config) {
        fuse_loop_cfg_set_max_threads(config, THREADS_MOST);
        fuse_session_loop_mt(f->session, config);
        fuse_loop_cfg_destroy(config);
    }
    fuse_session_exit(f->session);
    return NULL;
}

int xh_fuse_serve(struct xh_fuse *f, struct xh_err *err)
{
    int bad = xh_thread_start(NULL, serve, f);
    return bad ? xh_thread_lacks(bad, "a mount", err) : 0;
}

void xh_fuse_unmount(struct xh_fuse *f)
{
    fuse_session_unmount(f->session);
}
