/* FUSE's protocol: see fuse.h.
 *
 * Invariants 1. Each request that wants an answer gets one, from the thread that serves it or, once its program was
 * killed, from interrupt(); work->unique says who: whoever sets it to 0 under the lock answers.
 * 2. While all threads are at work there is one more that waits for requests, up to THREADS_MOST.
 *
 * A program that was killed stays until its request is answered. A signal that a program handles does not end a
 * request: few programs expect EINTR of a file. */
#include "fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../cache/base/files.h"
#include "../../cache/base/table.h"
#include "../../cache/base/thread.h"

#define THREADS_MOST  64u
#define REQUEST_BYTES 16384u /* a request's; the kernel wants 8192 at least */
#define PAGE_BYTES    4096u
#define NAME_VALID_S  1u      /* for so long the kernel takes a name for granted; then it asks which version is there */
#define ATTR_VALID_S  86400u  /* a node's never change */
#define READ_ONLY     0444u
/* Of protocol 7.39, in flags2: files that are not read over the kernel's pages may be mapped all the same. */
#define INIT_EXT      (1u << 30)
#define MMAP_FLAG2    (1u << 4)
#define FLAGS2_OFFSET 32u

/* What a thread serves. Guarded by the lock. */
struct work {
    uint64_t unique; /* 0: nothing that waits for an answer */
    uint32_t thread; /* the program's */
    int interrupted; /* a signal came: look whether it killed */
};

struct xh_fuse {
    const struct xh_fuse_served *served;
    void *fs;
    int device;
    pthread_mutex_t lock; /* guards what follows */
    unsigned threads, idle;
    int ended;
    struct work works[THREADS_MOST];
};

/* A thread's own. */
struct server {
    struct xh_fuse *f;
    struct work *work;
    char *in;
    char *out;
    size_t out_room;
};

struct request {
    struct server *s;
    struct fuse_in_header *h;
    void *arg;
    size_t arg_len;
};

/* ---- names of a directory */

int xh_fuse_names_add(struct xh_fuse_names *names, const char *name, int directory)
{
    char *copy = strdup(name);
    if (!copy || xh_grow(names->of, names->room, names->n + 1)) {
        free(copy);
        return -1;
    }
    names->of[names->n++] = (struct xh_fuse_name){copy, directory};
    return 0;
}

void xh_fuse_names_free(struct xh_fuse_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->of[i].name);
    free(names->of);
    *names = (struct xh_fuse_names){0};
}

/* ---- answers */

/* Returns 0, or -1: the kernel wants no answer any more. */
static int send_answer(struct xh_fuse *f, uint64_t unique, int error, const void *body, size_t len)
{
    struct fuse_out_header h = {.len = (uint32_t)(sizeof h + len), .error = -error, .unique = unique};
    struct iovec v[2] = {{&h, sizeof h}, {(void *)body, len}};
    return xh_retry(writev(f->device, v, len ? 2 : 1)) < 0 ? -1 : 0;
}

/* 1 when the program's |thread| is about to die. */
static int is_killed(uint32_t thread)
{
    char path[40], line[128];
    unsigned long long pending = 0, one;
    if (thread == 0) /* of another process namespace: not to be told */
        return 0;
    snprintf(path, sizeof path, "/proc/%u/status", thread);
    FILE *status = fopen(path, "re");
    if (!status)
        return errno == ENOENT;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "SigPnd: %llx", &one) == 1 || sscanf(line, "ShdPnd: %llx", &one) == 1)
            pending |= one;
    fclose(status);
    return (pending >> (SIGKILL - 1)) & 1;
}

/* Answers what the thread |i| serves, if a signal came and the program was killed. */
static void interrupt(struct xh_fuse *f, unsigned i)
{
    pthread_mutex_lock(&f->lock);
    const struct work w = f->works[i];
    pthread_mutex_unlock(&f->lock);
    if (!w.unique || !w.interrupted || !is_killed(w.thread))
        return;
    pthread_mutex_lock(&f->lock);
    int mine = f->works[i].unique == w.unique; /* numbers of requests do not come again */
    if (mine)
        f->works[i].unique = 0;
    pthread_mutex_unlock(&f->lock);
    if (mine)
        send_answer(f, w.unique, EINTR, NULL, 0);
}

/* Answers |q|, unless that was done. Returns 0, or -1: the answer did not reach the kernel. */
static int answer(struct request *q, int error, const void *body, size_t len)
{
    struct xh_fuse *f = q->s->f;
    pthread_mutex_lock(&f->lock);
    int mine = q->s->work->unique != 0;
    q->s->work->unique = 0;
    pthread_mutex_unlock(&f->lock);
    return mine ? send_answer(f, q->h->unique, error, error ? NULL : body, error ? 0 : len) : -1;
}

static char *room_for(struct request *q, size_t len)
{
    struct server *s = q->s;
    if (len > s->out_room) {
        free(s->out);
        s->out = malloc(len);
        s->out_room = s->out ? len : 0;
    }
    return s->out;
}

/* ---- requests */

static struct fuse_attr attr_of(const struct xh_fuse_attr *a)
{
    uint64_t time = a->changed_s > 0 ? (uint64_t)a->changed_s : 0;
    return (struct fuse_attr){.ino = a->node,
                              .size = a->size,
                              .blocks = a->size / 512 + (a->size % 512 != 0),
                              .atime = time,
                              .mtime = time,
                              .ctime = time,
                              .mode = a->directory ? S_IFDIR | READ_ONLY | 0111u : S_IFREG | READ_ONLY,
                              .nlink = a->directory ? 2 : 1,
                              .uid = geteuid(),
                              .gid = getegid(),
                              .blksize = PAGE_BYTES};
}

static void do_init(struct request *q)
{
    const struct fuse_init_in *in = q->arg;
    const uint32_t flags = FUSE_ASYNC_READ | FUSE_MAX_PAGES | FUSE_PARALLEL_DIROPS | FUSE_ASYNC_DIO;
    struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
                                .minor = 31,
                                .max_readahead = in->max_readahead,
                                .flags = in->flags & flags,
                                .max_background = THREADS_MOST,
                                .congestion_threshold = THREADS_MOST,
                                .max_write = PAGE_BYTES,
                                .time_gran = 1000000000,
                                .max_pages = XH_FUSE_READ_BYTES / PAGE_BYTES};
    if (in->flags & INIT_EXT && in->minor >= 39) {
        const uint32_t flags2 = MMAP_FLAG2;
        out.flags |= INIT_EXT;
        out.minor = 39;
        memcpy((char *)&out + FLAGS2_OFFSET, &flags2, sizeof flags2);
    }
    if (in->major != FUSE_KERNEL_VERSION || in->minor < 23)
        answer(q, EPROTO, NULL, 0);
    else
        answer(q, 0, &out, sizeof out);
}

static void do_lookup(struct request *q)
{
    struct xh_fuse *f = q->s->f;
    const char *name = q->arg;
    struct xh_fuse_attr a = {0};
    int rc = ENOENT;
    if (!memchr(name, '\0', q->arg_len))
        rc = EINVAL;
    else if (strlen(name) > XH_FUSE_NAME_BYTES)
        rc = ENAMETOOLONG;
    else if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
        rc = f->served->lookup(f->fs, q->h->nodeid, name, &a);
    struct fuse_entry_out out = {
        .nodeid = a.node, .entry_valid = NAME_VALID_S, .attr_valid = ATTR_VALID_S, .attr = attr_of(&a)};
    if (answer(q, rc, &out, sizeof out) && rc == 0)
        f->served->forget(f->fs, a.node, 1);
}

static void do_getattr(struct request *q)
{
    struct xh_fuse *f = q->s->f;
    struct xh_fuse_attr a = {0};
    int rc = f->served->attr(f->fs, q->h->nodeid, &a);
    struct fuse_attr_out out = {.attr_valid = ATTR_VALID_S, .attr = attr_of(&a)};
    answer(q, rc, &out, sizeof out);
}

static void do_open(struct request *q)
{
    struct xh_fuse *f = q->s->f;
    const struct fuse_open_in *in = q->arg;
    /* Not over the kernel's pages: it would ask for 128 KiB at most, in pieces that start and end where no dataset
     * does, and the cache's guesses go by what a program asks for. docs/mount.md has what both cost. */
    struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO | FOPEN_KEEP_CACHE};
    int rc = (in->flags & O_ACCMODE) != O_RDONLY ? EROFS : f->served->open(f->fs, q->h->nodeid);
    if (answer(q, rc, &out, sizeof out) && rc == 0)
        f->served->release(f->fs, q->h->nodeid);
}

static void do_read(struct request *q)
{
    struct xh_fuse *f = q->s->f;
    const struct fuse_read_in *in = q->arg;
    size_t len = in->size < XH_FUSE_READ_BYTES ? in->size : XH_FUSE_READ_BYTES;
    char *out = room_for(q, len);
    int rc = out ? f->served->read(f->fs, q->h->nodeid, in->offset, out, &len) : ENOMEM;
    answer(q, rc, out, len);
}

static void do_opendir(struct request *q)
{
    struct xh_fuse *f = q->s->f;
    struct xh_fuse_names *names = calloc(1, sizeof *names);
    int rc = names ? f->served->list(f->fs, q->h->nodeid, names) : ENOMEM;
    struct fuse_open_out out = {.fh = (uintptr_t)names};
    if (answer(q, rc, &out, sizeof out) || rc) {
        if (names)
            xh_fuse_names_free(names);
        free(names);
    }
}

/* Numbers of entries are those of names, behind "." and "..". */
static void do_readdir(struct request *q)
{
    const struct fuse_read_in *in = q->arg;
    const struct xh_fuse_names *names = (void *)(uintptr_t)in->fh;
    size_t room = in->size < XH_FUSE_READ_BYTES ? in->size : XH_FUSE_READ_BYTES, used = 0;
    char *out = room_for(q, room);
    for (uint64_t i = in->offset; out && i < names->n + 2; i++) {
        const char *name = i == 0 ? "." : i == 1 ? ".." : names->of[i - 2].name;
        size_t len = strlen(name), size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + len);
        if (size > room - used)
            break;
        struct fuse_dirent *e = (void *)(out + used);
        memset(e, 0, size);
        *e = (struct fuse_dirent){.ino = UINT32_MAX, /* not known before it is looked up */
                                  .off = i + 1,
                                  .namelen = (uint32_t)len,
                                  .type = i < 2 || names->of[i - 2].directory ? S_IFDIR >> 12 : S_IFREG >> 12};
        memcpy(e->name, name, len);
        used += size;
    }
    answer(q, out ? 0 : ENOMEM, out, used);
}

static void do_releasedir(struct request *q)
{
    struct xh_fuse_names *names = (void *)(uintptr_t)((struct fuse_release_in *)q->arg)->fh;
    xh_fuse_names_free(names);
    free(names);
    answer(q, 0, NULL, 0);
}

static void do_statfs(struct request *q)
{
    struct fuse_statfs_out out = {.st = {.bsize = PAGE_BYTES, .frsize = PAGE_BYTES, .namelen = XH_FUSE_NAME_BYTES}};
    answer(q, 0, &out, sizeof out);
}

static void do_forget(struct request *q)
{
    struct xh_fuse *f = q->s->f;
    if (q->h->opcode == FUSE_FORGET) {
        f->served->forget(f->fs, q->h->nodeid, ((struct fuse_forget_in *)q->arg)->nlookup);
        return;
    }
    const struct fuse_batch_forget_in *in = q->arg;
    const struct fuse_forget_one *one = (void *)(in + 1);
    for (uint32_t i = 0; i < in->count && (i + 1) * sizeof *one + sizeof *in <= q->arg_len; i++)
        f->served->forget(f->fs, one[i].nodeid, one[i].nlookup);
}

static void do_interrupt(struct request *q)
{
    struct xh_fuse *f = q->s->f;
    uint64_t unique = ((struct fuse_interrupt_in *)q->arg)->unique;
    unsigned i = 0;
    pthread_mutex_lock(&f->lock);
    while (i < THREADS_MOST && f->works[i].unique != unique)
        i++;
    if (i < THREADS_MOST)
        f->works[i].interrupted = 1;
    pthread_mutex_unlock(&f->lock);
    if (i < THREADS_MOST)
        interrupt(f, i);
    else /* the request was answered, or its thread is about to note it: the kernel asks again while it is there */
        send_answer(f, q->h->unique, EAGAIN, NULL, 0);
}

static void serve(struct request *q)
{
    struct xh_fuse *f = q->s->f;
    switch (q->h->opcode) {
    case FUSE_INIT: do_init(q); return;
    case FUSE_LOOKUP: do_lookup(q); return;
    case FUSE_GETATTR: do_getattr(q); return;
    case FUSE_OPEN: do_open(q); return;
    case FUSE_READ: do_read(q); return;
    case FUSE_OPENDIR: do_opendir(q); return;
    case FUSE_READDIR: do_readdir(q); return;
    case FUSE_RELEASEDIR: do_releasedir(q); return;
    case FUSE_STATFS: do_statfs(q); return;
    case FUSE_RELEASE:
        f->served->release(f->fs, q->h->nodeid);
        answer(q, 0, NULL, 0);
        return;
    case FUSE_DESTROY: answer(q, 0, NULL, 0); return;
    default: answer(q, ENOSYS, NULL, 0); /* the kernel does without */
    }
}

/* ---- threads */

static void *run(void *arg);

/* Starts one more thread. Lock held. Returns 0, or -1. */
static int start(struct xh_fuse *f)
{
    struct server *s = calloc(1, sizeof *s);
    char *in = malloc(REQUEST_BYTES);
    if (s && in) {
        *s = (struct server){.f = f, .work = &f->works[f->threads], .in = in};
        if (xh_thread_start(NULL, run, s) == 0) {
            f->threads++;
            f->idle++;
            return 0;
        }
    }
    free(s);
    free(in);
    return -1;
}

/* |q| was taken. Notes it, and sees to it that a thread waits for the next one. */
static void take(struct request *q)
{
    struct xh_fuse *f = q->s->f;
    uint32_t op = q->h->opcode;
    int silent = op == FUSE_FORGET || op == FUSE_BATCH_FORGET || op == FUSE_INTERRUPT;
    pthread_mutex_lock(&f->lock);
    f->idle--;
    *q->s->work = (struct work){.unique = silent ? 0 : q->h->unique, .thread = q->h->pid};
    if (f->idle == 0 && f->threads < THREADS_MOST)
        start(f);
    pthread_mutex_unlock(&f->lock);
}

static void *run(void *arg)
{
    struct server *s = arg;
    struct xh_fuse *f = s->f;
    for (;;) {
        ssize_t n = read(f->device, s->in, REQUEST_BYTES);
        if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
            continue;
        if (n < (ssize_t)sizeof(struct fuse_in_header))
            break; /* ENODEV: unmounted */
        struct request q = {.s = s,
                            .h = (void *)s->in,
                            .arg = s->in + sizeof(struct fuse_in_header),
                            .arg_len = (size_t)n - sizeof(struct fuse_in_header)};
        take(&q);
        if (q.h->opcode == FUSE_FORGET || q.h->opcode == FUSE_BATCH_FORGET)
            do_forget(&q);
        else if (q.h->opcode == FUSE_INTERRUPT)
            do_interrupt(&q);
        else
            serve(&q);
        pthread_mutex_lock(&f->lock);
        f->idle++;
        pthread_mutex_unlock(&f->lock);
    }
    pthread_mutex_lock(&f->lock);
    int first = !f->ended;
    f->ended = 1;
    pthread_mutex_unlock(&f->lock);
    if (first)
        f->served->ended(f->fs);
    free(s->in);
    free(s->out);
    free(s);
    return NULL;
}

struct xh_fuse *xh_fuse_serve(int device, const struct xh_fuse_served *served, void *fs)
{
    struct xh_fuse *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->served = served;
    f->fs = fs;
    f->device = device;
    pthread_mutex_init(&f->lock, NULL);
    pthread_mutex_lock(&f->lock);
    int rc = start(f);
    pthread_mutex_unlock(&f->lock);
    if (rc == 0)
        return f;
    pthread_mutex_destroy(&f->lock);
    free(f);
    return NULL;
}

void xh_fuse_tick(struct xh_fuse *f)
{
    for (unsigned i = 0; i < THREADS_MOST; i++)
        interrupt(f, i);
}
