/* Overlays: see overlay.h.
 *
 * Invariants:
 *  1. An overlay's directory belongs to the user and is closed to others; else nothing in it is believed.
 *  2. Bytes count only as far as the sets say.
 *  3. The record is always replaced as a whole.
 *  4. A directory without |data| that no process has locked is the rest of a removal that was killed. Listing the
 *     overlays removes it. */
#include "overlay.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"

#define RECORD_WORD "xhdf5-overlay 1"

static int sys_error(struct xh_err *err, const char *what, const char *path)
{
    int e = errno;
    int code = e == ENOSPC || e == EDQUOT || e == EFBIG ? XH_E_NOSPACE : XH_E_SYS;
    return xh_err_set(err, code, 0, "%s %.300s: %s", what, path, strerror(e));
}

/* ---- the directory */

/* Opens the directory of all overlays; |make|: creates it. Returns a descriptor, -1 when there is none, or a code
 * below -1 with |err| set. */
static int open_top(const struct xh_options *o, int make, char *path, size_t size, struct xh_err *err)
{
    struct stat st;
    /* The program may be elsewhere when the overlay is removed. */
    char *named = o->overlay_dir[0] ? xh_path_from_root(o->overlay_dir) : NULL;
    if (o->overlay_dir[0])
        snprintf(path, size, "%s", named && strlen(named) < size ? named : o->overlay_dir);
    else
        snprintf(path, size, "/var/tmp/xhdf5-%u", (unsigned)geteuid());
    free(named);
    if (make && xh_make_own_dir(AT_FDCWD, path) < 0)
        return sys_error(err, "cannot make the directory for written bytes", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && !make)
        return -1;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 077) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    else if (errno != EACCES && errno != ENOTDIR && errno != ELOOP) /* else somebody else has made it */
        return sys_error(err, "cannot open the directory for written bytes", path);
    return xh_err_set(
        err, XH_E_ACCES, 0,
        "the directory for written bytes, %.300s, is not this user's alone (mode 0700): correct that, or name "
        "another one with XHDF5_OVERLAY_DIR",
        path);
}

static void one_line(char *text)
{
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
}

static void random_id(char id[XH_OVERLAY_ID])
{
    uint64_t r = 0;
    if (getrandom(&r, sizeof r, 0) != sizeof r)
        r = (uint64_t)time(NULL) << 24 ^ (uint64_t)getpid();
    snprintf(id, XH_OVERLAY_ID, "%016" PRIx64, r);
}

static struct xh_overlay *overlay_new(void)
{
    struct xh_overlay *v = calloc(1, sizeof *v);
    if (v)
        v->dir = v->data = v->base = v->alive = -1;
    return v;
}

/* Opens the files of |v|, and takes the lock. |flags|: O_CREAT | O_EXCL for a new overlay, which is locked before
 * others can see it. */
static int open_files(struct xh_overlay *v, int flags, struct xh_err *err)
{
    int is_new = flags & O_CREAT;
    flags |= O_RDWR | O_NOFOLLOW | O_CLOEXEC;
    v->alive = xh_open_own(v->dir, is_new ? "alive.new" : "alive", flags);
    if (v->alive < 0)
        return sys_error(err, "cannot open files in", v->path);
    if (flock(v->alive, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK
                   ? xh_err_set(err, XH_E_INVAL, 0, "%s: a process has it open", v->id)
                   : xh_err_set(err, XH_E_INVAL, 0,
                                "the directory for written bytes, %.300s, cannot be locked (flock: %s), which tells "
                                "whether a program has it open: name one on a local disk with XHDF5_OVERLAY_DIR",
                                v->path, strerror(errno));
    v->data = xh_open_own(v->dir, "data", flags);
    v->base = v->data < 0 ? -1 : xh_open_own(v->dir, "base", flags);
    int bad = v->base < 0 || (is_new && renameat(v->dir, "alive.new", v->dir, "alive") < 0);
    return bad ? sys_error(err, "cannot open files in", v->path) : 0;
}

static uint64_t budget_of(const struct xh_options *o, int dir)
{
    return o->overlay_budget_bytes ? o->overlay_budget_bytes : xh_free_bytes(dir) / 2;
}

/* In a child, closing a copy of a descriptor leaves the parent's lock alone. */
void xh_overlay_forsake(struct xh_overlay *v)
{
    int fds[] = {v->dir, v->data, v->base, v->alive};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    xh_extents_free(&v->have);
    xh_extents_free(&v->dirty);
    xh_extents_free(&v->seen);
    free(v->path);
    free(v->url);
    free(v);
}

/* Removes |data| first: the rest of an interrupted removal is never taken for an overlay to recover. Where the record
 * was on the disk, that is, too: a machine that fails now would else have it again, and "retry" send it over what
 * others have written since. */
static void remove_files(struct xh_overlay *v)
{
    static const char *const names[] = {"base", "record", "record.new", "landing", "alive.new", "alive"};
    if (unlinkat(v->dir, "data", 0) == 0 && (v->synced || v->readable))
        fsync(v->dir);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlinkat(v->dir, names[i], 0);
    rmdir(v->path);
}

int xh_overlay_new(const struct xh_options *o, const char *url, struct xh_overlay **out, struct xh_err *err)
{
    char top[XH_OPT_STR_BYTES];
    struct xh_overlay *v = overlay_new();
    if (!v)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for written bytes");
    int at = open_top(o, 1, top, sizeof top, err), rc = at < 0 ? at : 0;
    if (rc == 0) {
        random_id(v->id);
        v->url = strdup(url);
        v->namer = o->namer;
        one_line(v->namer.parent);
        if (asprintf(&v->path, "%s/%s", top, v->id) < 0)
            v->path = NULL;
        if (!v->path || !v->url)
            rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for written bytes");
        else if (xh_make_own_dir(at, v->id) < 0 ||
                 (v->dir = openat(at, v->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
            rc = sys_error(err, "cannot make a directory for written bytes in", top);
        else
            rc = open_files(v, O_CREAT | O_EXCL, err);
        v->budget = budget_of(o, at);
        close(at);
    }
    if (rc) {
        xh_overlay_close(v, 0);
        return rc;
    }
    *out = v;
    return 0;
}

void xh_overlay_clear(struct xh_overlay *v)
{
    remove_files(v);
    close(v->data);
    v->data = -1;
}

void xh_overlay_close(struct xh_overlay *v, int keep)
{
    if (!v)
        return;
    if (!keep && v->dir >= 0)
        remove_files(v);
    if (v->alive >= 0)
        flock(v->alive, LOCK_UN); /* a forked child may still have the description */
    xh_overlay_forsake(v);
}

/* ---- bytes */

static int read_bytes(struct xh_overlay *v, int fd, uint64_t off, void *buf, uint64_t len, struct xh_err *err)
{
    ssize_t got = xh_read_at(fd, buf, len, off);
    if (got >= 0 && (uint64_t)got < len)
        errno = EIO; /* another process has shortened the file */
    return (uint64_t)got == len ? 0 : sys_error(err, "cannot read from", v->path);
}

static int write_bytes(struct xh_overlay *v, int fd, uint64_t off, const void *buf, uint64_t len, struct xh_err *err)
{
    return xh_write_at(fd, buf, len, off) ? sys_error(err, "cannot write into", v->path) : 0;
}

int xh_overlay_write(struct xh_overlay *v, uint64_t off, const void *buf, uint64_t len, enum xh_overlay_kind kind,
                     struct xh_err *err)
{
    if (len == 0)
        return 0;
    if (off > INT64_MAX || len > INT64_MAX - off)
        return xh_err_set(err, XH_E_RANGE, 0, "a write behind the last byte that a file can have");
    /* only near the budget: bytes that are written again need no new space */
    if (v->have.bytes > v->budget || len > v->budget - v->have.bytes)
        if (!xh_extents_covers(&v->have, off, off + len))
            return xh_err_set(err, XH_E_NOSPACE, 0,
                              "more than %" PRIu64 " bytes written: raise XHDF5_OVERLAY_BUDGET_BYTES, or name a "
                              "directory with more room with XHDF5_OVERLAY_DIR (it is %.300s)",
                              v->budget, v->path);
    int rc = write_bytes(v, v->data, off, buf, len, err);
    if (rc)
        return rc;
    if (xh_extents_put(&v->have, off, off + len, 1) || xh_extents_put(&v->dirty, off, off + len, (int)kind))
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a write");
    if (off + len > v->size)
        v->size = off + len;
    return 0;
}

int xh_overlay_read(struct xh_overlay *v, uint64_t off, void *buf, uint64_t len, struct xh_err *err)
{
    return read_bytes(v, v->data, off, buf, len, err);
}

int xh_overlay_put_base(struct xh_overlay *v, uint64_t off, const void *buf, uint64_t len, struct xh_err *err)
{
    /* A program that reads is not killed for it. */
    return xh_may_write(off + len) ? write_bytes(v, v->base, off, buf, len, err)
                                   : sys_error(err, "cannot write into", v->path);
}

int xh_overlay_see(struct xh_overlay *v, uint64_t off, const void *buf, uint64_t len, struct xh_err *err)
{
    int rc = xh_overlay_put_base(v, off, buf, len, err);
    if (rc)
        return rc;
    return xh_extents_put(&v->seen, off, off + len, 1) ? xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a read") : 0;
}

int xh_overlay_seen(struct xh_overlay *v, uint64_t off, void *buf, uint64_t len, struct xh_err *err)
{
    return read_bytes(v, v->base, off, buf, len, err);
}

int xh_overlay_truncate(struct xh_overlay *v, uint64_t size, struct xh_err *err)
{
    if (size < v->size) {
        if (xh_extents_cut(&v->have, size, UINT64_MAX) || xh_extents_cut(&v->dirty, size, UINT64_MAX))
            return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a truncation");
        if (size < v->base_limit)
            v->base_limit = size;
        struct stat st;
        if (fstat(v->data, &st) == 0 && (uint64_t)st.st_size > size && ftruncate(v->data, (off_t)size) < 0)
            return sys_error(err, "cannot truncate a file in", v->path);
    }
    v->size = size;
    return 0;
}

/* ---- the record */

static const char *const state_words[] = {"opened", "flushed", "closed", "withheld"};

/* Syncs the directory |v| and its name in the parent directory. Some file systems cannot, and say so with several
 * errors. Whatever they say, the record is in its place, and is of use unless the machine fails now. */
static void sync_names(struct xh_overlay *v)
{
    v->unsynced = fsync(v->dir) < 0 ? errno : 0;
    if (v->synced)
        return;
    int above = openat(v->dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    v->synced = above >= 0 && fsync(above) == 0;
    if (!v->synced && !v->unsynced)
        v->unsynced = errno;
    if (above >= 0)
        close(above);
}

static void save_set(FILE *f, const char *word, const struct xh_extents *s)
{
    for (size_t i = 0; i < s->n; i++)
        fprintf(f, "%s %" PRIu64 " %" PRIu64 " %d\n", word, s->at[i].off, s->at[i].end, s->at[i].kind);
}

int xh_overlay_save(struct xh_overlay *v, enum xh_overlay_state state, int durable, struct xh_err *err)
{
    int fd = xh_open_own(v->dir, "record.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f) {
        if (fd >= 0)
            close(fd);
        return sys_error(err, "cannot write into", v->path);
    }
    one_line(v->why);
    if (v->since_s == 0 || v->state != state)
        v->since_s = (long long)time(NULL);
    v->state = state;
    fprintf(f,
            RECORD_WORD "\nurl %s\nmode %d\nversion %s\nbase_size %" PRIu64 "\nbase_limit %" PRIu64 "\nsize %" PRIu64
                        "\nbroken %d\nbehind %d\n%s %lld\nwhy %s\nleft %s\n",
            v->url, (int)v->mode, v->base_version, v->base_size, v->base_limit, v->size, v->broken, v->behind,
            state_words[state], v->since_s, v->why, v->left);
    fprintf(f, "named_by %s\nnamed_at %s\nnamed_far %d\nnamed_file %d\n", v->namer.parent, v->namer.server,
            (int)v->namer.remote, (int)v->namer.by_file);
    save_set(f, "have", &v->have);
    save_set(f, "dirty", &v->dirty);
    save_set(f, "seen", &v->seen);
    fputs("end\n", f);
    int bad = fflush(f) != 0 || ferror(f);
    if (durable)
        bad |= fdatasync(v->data) < 0 || fdatasync(v->base) < 0 || fsync(fd) < 0;
    bad |= fclose(f) != 0;
    if (bad || renameat(v->dir, "record.new", v->dir, "record") < 0)
        return sys_error(err, "cannot write into", v->path);
    if (durable)
        sync_names(v);
    return 0;
}

int xh_overlay_note_landing(struct xh_overlay *v, const char *text)
{
    snprintf(v->landing, sizeof v->landing, "%s", text);
    one_line(v->landing);
    if (!*text)
        return unlinkat(v->dir, "landing", 0) < 0 ? errno : 0;
    int fd = xh_open_own(v->dir, "landing", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
    char line[sizeof v->landing + 1]; /* its end tells that it is whole */
    int n = snprintf(line, sizeof line, "%s\n", v->landing);
    int bad = fd < 0 || xh_write(fd, line, (size_t)n) ? errno : 0;
    if (fd >= 0)
        close(fd);
    return bad;
}

void xh_overlay_unsave(struct xh_overlay *v)
{
    v->why[0] = '\0';
    v->since_s = 0;
    if (xh_overlay_save(v, XH_OVERLAY_OPENED, 0, NULL))
        unlinkat(v->dir, "record", 0); /* the old record is no longer true */
    if (v->synced)
        fsync(v->dir); /* nor is it when this machine fails now */
    if (v->landing[0])
        xh_overlay_note_landing(v, "");
}

static void take_text(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%.*s", (int)(size - 1), text);
}

static int take_state(struct xh_overlay *v, const char *word, const char *value)
{
    for (size_t i = 0; i < sizeof state_words / sizeof *state_words; i++)
        if (strcmp(word, state_words[i]) == 0) {
            v->state = (enum xh_overlay_state)i;
            v->since_s = strtoll(value, NULL, 10);
            return 0;
        }
    return -1;
}

static int take_namer(struct xh_namer *n, const char *word, const char *value)
{
    if (strcmp(word, "by") == 0)
        take_text(n->parent, sizeof n->parent, value);
    else if (strcmp(word, "at") == 0)
        take_text(n->server, sizeof n->server, value);
    else if (strcmp(word, "far") == 0)
        n->remote = strcmp(value, "0") != 0;
    else if (strcmp(word, "file") == 0)
        n->by_file = strcmp(value, "0") != 0;
    else
        return -1;
    return 0;
}

/* Takes one line of the record. Returns 0, 1 at the end, or -1 when the line makes no sense. */
static int take_line(struct xh_overlay *v, char *line)
{
    char *value = strchr(line, ' ');
    uint64_t off, end;
    int kind, is_set = 0;
    if (strcmp(line, "end") == 0)
        return 1;
    if (!value)
        return -1;
    *value++ = '\0';
    struct xh_extents *set = strcmp(line, "have") == 0 ? &v->have : strcmp(line, "dirty") == 0 ? &v->dirty
                           : strcmp(line, "seen") == 0 ? &v->seen : NULL;
    if (set) {
        is_set = sscanf(value, "%" SCNu64 " %" SCNu64 " %d", &off, &end, &kind) == 3 && off < end && end <= INT64_MAX;
        return is_set && xh_extents_put(set, off, end, kind) == 0 ? 0 : -1;
    }
    if (strcmp(line, "url") == 0)
        return !v->url && (v->url = strdup(value)) ? 0 : -1;
    if (strcmp(line, "mode") == 0) {
        int mode = atoi(value);
        v->mode = (enum xh_overlay_mode)mode;
        return mode >= XH_OVERLAY_EDIT && mode <= XH_OVERLAY_REPLACE ? 0 : -1;
    }
    if (strcmp(line, "version") == 0)
        take_text(v->base_version, sizeof v->base_version, value);
    else if (strcmp(line, "why") == 0)
        take_text(v->why, sizeof v->why, value);
    else if (strcmp(line, "left") == 0)
        take_text(v->left, sizeof v->left, value);
    else if (strncmp(line, "named_", 6) == 0)
        return take_namer(&v->namer, line + 6, value);
    else if (strcmp(line, "base_size") == 0)
        v->base_size = strtoull(value, NULL, 10);
    else if (strcmp(line, "base_limit") == 0)
        v->base_limit = strtoull(value, NULL, 10);
    else if (strcmp(line, "size") == 0)
        v->size = strtoull(value, NULL, 10);
    else if (strcmp(line, "broken") == 0)
        v->broken = strcmp(value, "0") != 0;
    else if (strcmp(line, "behind") == 0)
        v->behind = strcmp(value, "0") != 0;
    else
        return take_state(v, line, value);
    return 0;
}

/* A process that was killed behind a flush wrote on: what lies behind the version below is its own, and is in |data| as
 * in a local file. Without it, later writes over older ones would be there alone. Returns 0 or -1. */
static int take_later(struct xh_overlay *v)
{
    struct stat st;
    if (v->state != XH_OVERLAY_FLUSHED || fstat(v->data, &st) < 0 || (uint64_t)st.st_size <= v->base_limit)
        return 0;
    v->size = (uint64_t)st.st_size > v->size ? (uint64_t)st.st_size : v->size;
    return xh_extents_put(&v->have, v->base_limit, (uint64_t)st.st_size, 1);
}

/* Reads the line of |landing|, if it is whole. */
static void load_landing(struct xh_overlay *v)
{
    int fd = openat(v->dir, "landing", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? xh_read_at(fd, v->landing, sizeof v->landing - 1, 0) : 0;
    if (fd >= 0)
        close(fd);
    v->landing[n > 0 && v->landing[n - 1] == '\n' ? n - 1 : 0] = '\0';
}

static int ends_within(const struct xh_extents *s, uint64_t size)
{
    return s->n == 0 || s->at[s->n - 1].end <= size;
}

/* Reads the record. Leaves |v| unreadable when there is none, or when it makes no sense. */
static void load(struct xh_overlay *v)
{
    static const char first[] = RECORD_WORD "\n";
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int fd = openat(v->dir, "record", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), state = 0;
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!f) {
        if (fd >= 0)
            close(fd);
        return;
    }
    v->namer = (struct xh_namer){.by_file = 1, .remote = 1, .parent = XH_OVERLAY_NOT_NOTED};
    if (getline(&line, &room, f) >= 0 && strcmp(line, first) == 0)
        while (state == 0 && (n = getline(&line, &room, f)) > 0) {
            if (line[n - 1] == '\n')
                line[n - 1] = '\0';
            state = take_line(v, line);
        }
    free(line);
    fclose(f);
    v->readable = state == 1 && v->url && v->base_limit <= v->base_size && v->size <= INT64_MAX &&
                  ends_within(&v->have, v->size) && ends_within(&v->dirty, v->size) && take_later(v) == 0;
}

/* ---- all overlays */

/* Removes |v|, whose files could not be opened, if it is the rest of a removal. Returns 1 when it is. */
static int clear_rubble(struct xh_overlay *v)
{
    struct stat st;
    int is_locked = v->alive >= 0;
    if (faccessat(v->dir, is_locked ? "data" : "alive", F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
        return 0;
    /* A process that has just made the directory is about to make its files. (Twice: its disk may be slow, too.) */
    if (is_locked || (fstat(v->dir, &st) == 0 && time(NULL) - st.st_mtime > 2 * XH_CLOCKS_APART_S))
        remove_files(v);
    return 1;
}

/* Opens the overlay |name| of the directory |at|. Returns 0, XH_E_INVAL when a process has it open, XH_E_NOENT when
 * it was the rest of a removal, or another code. */
static int open_one(int at, const char *top, const char *name, struct xh_overlay **out, struct xh_err *err)
{
    struct stat st;
    struct xh_overlay *v = overlay_new();
    if (!v || asprintf(&v->path, "%s/%s", top, name) < 0) {
        free(v);
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for an overlay");
    }
    snprintf(v->id, sizeof v->id, "%.16s", name);
    v->budget = UINT64_MAX;
    v->dir = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc;
    if (v->dir < 0 || fstat(v->dir, &st) < 0)
        rc = sys_error(err, "cannot open", v->path);
    else if (st.st_uid != geteuid())
        rc = xh_err_set(err, XH_E_ACCES, 0, "%s is another user's", v->path);
    else if ((rc = open_files(v, 0, err)) == 0) {
        load(v);
        load_landing(v);
        *out = v;
        return 0;
    } else if (rc == XH_E_SYS && clear_rubble(v)) {
        rc = xh_err_set(err, XH_E_NOENT, 0, "%s was being removed", v->id);
    }
    xh_overlay_forsake(v);
    return rc;
}

static int is_id(const char *name)
{
    return strlen(name) == XH_OVERLAY_ID - 1 && strspn(name, "0123456789abcdef") == XH_OVERLAY_ID - 1;
}

/* Lists the directory of all overlays. Returns its descriptor, which closedir(*d) closes, or a code as open_top(). */
static int list_top(const struct xh_options *o, char *path, size_t size, DIR **d, struct xh_err *err)
{
    int at = open_top(o, 0, path, size, err);
    *d = at < 0 ? NULL : xh_list(at);
    return at < 0 || *d ? at : sys_error(err, "cannot list", path);
}

int xh_overlay_open(const struct xh_options *o, const char *id, struct xh_overlay **out, struct xh_err *err)
{
    char top[XH_OPT_STR_BYTES], found[XH_OVERLAY_ID] = "";
    struct dirent *e;
    unsigned n = 0;
    DIR *d;
    int rc, at = list_top(o, top, sizeof top, &d, err);
    if (at < -1)
        return at;
    while (d && *id && (e = readdir(d)))
        if (is_id(e->d_name) && strncmp(e->d_name, id, strlen(id)) == 0 && n++ == 0)
            memcpy(found, e->d_name, sizeof found);
    if (n == 1)
        rc = open_one(at, top, found, out, err);
    else if (n)
        rc = xh_err_set(err, XH_E_INVAL, 0, "%u overlays begin with %.20s: give more of it", n, id);
    else
        rc = xh_err_set(err, XH_E_NOENT, 0,
                        "there is no overlay %.20s in %.300s; xhdf5 recover list shows those that there are. If the "
                        "program had the option overlay_dir, name that directory with XHDF5_OVERLAY_DIR",
                        id, top);
    if (d)
        closedir(d);
    return rc;
}

int xh_overlay_each(const struct xh_options *o, xh_overlay_visit *visit, void *ctx, struct xh_err *err)
{
    char top[XH_OPT_STR_BYTES];
    struct dirent *e;
    DIR *d;
    int stop = 0, at = list_top(o, top, sizeof top, &d, err);
    if (at < -1)
        return at;
    while (d && !stop && (e = readdir(d))) {
        struct xh_overlay *v = NULL, stranger = {0};
        if (!is_id(e->d_name))
            continue;
        int rc = open_one(at, top, e->d_name, &v, NULL);
        if (rc == XH_E_NOENT)
            continue;
        snprintf(stranger.id, sizeof stranger.id, "%.16s", e->d_name);
        stop = visit(ctx, rc ? &stranger : v, rc == XH_E_INVAL);
        if (v)
            xh_overlay_forsake(v);
    }
    if (d)
        closedir(d);
    return 0;
}
