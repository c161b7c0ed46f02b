/* Overlays left by failed commits and killed processes: see edit.h. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "compose.h"
#include "keep.h"
#include "landing.h"
#include "merge.h"
#include "replace.h"
#include "super.h"
#include "base/process.h"

struct visitor {
    int (*visit)(void *ctx, const struct xh_left *l);
    void *ctx;
};

static int visit_one(void *ctx, const struct xh_overlay *v, int busy)
{
    const struct visitor *to = ctx;
    struct xh_left l = {.id = v->id,
                        .url = v->url,
                        .why = v->why,
                        .size = v->size,
                        .written_bytes = v->dirty.bytes,
                        .since_s = v->since_s};
    l.state = busy ? "open in a program" : !v->readable ? "not readable" : v->broken ? "a write failed"
            : v->state == XH_OVERLAY_OPENED ? "never closed" : v->state == XH_OVERLAY_FLUSHED ? "flushed"
            : v->behind ? "conflict" : v->state == XH_OVERLAY_WITHHELD ? "withheld" : "to be sent";
    l.is_whole = !busy && v->readable && !v->broken && v->state != XH_OVERLAY_OPENED;
    l.is_to_be_sent = l.is_whole && v->state == XH_OVERLAY_CLOSED && !v->behind;
    return to->visit(to->ctx, &l);
}

int xh_edit_each_left(const struct xh_options *o, int (*visit)(void *ctx, const struct xh_left *l), void *ctx,
                      struct xh_err *err)
{
    struct visitor to = {visit, ctx};
    return xh_overlay_each(o, visit_one, &to, err);
}

/* Opens the overlay |id| as a file that is closing. Its version below is not opened. Returns 0 or a negative code. */
static int reopen_left(const struct xh_options *o, const char *id, struct xh_edit **out, struct xh_err *err)
{
    struct xh_edit *e = calloc(1, sizeof *e);
    if (!e)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
    e->process = xh_process();
    e->closing = 1;
    int rc = xh_overlay_open(o, id, &e->overlay, err);
    if (rc == 0 && (!e->overlay->readable || e->overlay->state == XH_OVERLAY_OPENED))
        rc = xh_err_set(
            err, XH_E_INVAL, 0,
            "%.16s: the process that wrote it ended before it closed the file, which therefore never was whole",
            e->overlay->id);
    if (rc == 0 && e->overlay->broken)
        rc = xh_err_set(err, XH_E_INVAL, 0, "%.16s: a write to it failed, so that it is no whole file", e->overlay->id);
    if (rc == 0 && !(e->url = strdup(e->overlay->url)))
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
    rc = rc ? rc : xh_edit_settle(e, e->url, o, err);
    if (rc == 0)
        e->opt.namer = e->overlay->namer;
    xh_account_init(&e->account, 0);
    rc = rc ? rc : xh_dav_open(e->url, &e->opt, &e->dav, err);
    if (rc) {
        xh_edit_free(e, 1);
        return rc;
    }
    xh_dav_count(e->dav, &e->counters, &e->account);
    *out = e;
    return 0;
}

static int open_version(struct xh_edit *e, struct xh_err *err)
{
    if (e->overlay->base_limit == 0)
        return 0;
    int rc = xh_cache_open_part(e->url, &e->opt, &e->account, &e->file, err);
    if (rc == XH_E_NOENT && xh_replace_find(e, XH_IGNORED) > 0)
        rc = xh_cache_open_part(e->url, &e->opt, &e->account, &e->file, err);
    if (rc == XH_E_NOENT)
        return 0;
    if (rc == 0 && !xh_dav_is_same(xh_cache_validator(e->file), e->overlay->base_version))
        xh_edit_close_below(e);
    return rc;
}

static int may_be_sent(struct xh_edit *e, struct xh_err *err)
{
    const char *id = e->overlay->id;
    if (e->overlay->state == XH_OVERLAY_FLUSHED)
        return xh_err_set(err, XH_E_INVAL, 0,
                          "%.16s: the process that wrote it ended before it closed the file. "
                          "\"xhdf5 recover export %.16s FILE\" writes what it had flushed to a file; it is not sent",
                          id, id);
    return e->overlay->behind ? xh_edit_say_stale(e, err) : xh_edit_refuse_foreign(e, err);
}

int xh_edit_retry(const struct xh_options *o, const char *id, char **url, struct xh_err *err)
{
    struct xh_edit *e = NULL;
    int rc = reopen_left(o, id, &e, err);
    if (rc)
        return rc;
    assert(e);
    if ((rc = may_be_sent(e, err)) != 0) {
        xh_edit_free(e, 1);
        return rc;
    }
    rc = open_version(e, err);
    rc = rc ? rc : xh_landing_settle(e, err); /* before what tells it is removed */
    if (rc == 0)
        xh_edit_tidy(e);
    xh_edit_super(e); /* as it was sent */
    e->attempt = (unsigned)xh_process(); /* most likely gives names that no earlier attempt had */
    /* its process may have been killed, or cut off, after the last step */
    int there = rc ? rc : xh_edit_is_there(e, err);
    if (there < 0 && !e->file)
        there = 0; /* without the version below that is not known */
    if (there > 0)
        xh_cache_forget(e->url, &e->opt);
    rc = there < 0 ? there : there ? 0 : xh_edit_commit(e, err);
    if (rc == 0)
        *url = strdup(xh_dav_shown(e->dav));
    xh_edit_free(e, rc != 0);
    return rc;
}

/* Composes the file's bytes where the version below is gone: from what was written, and metadata as it was read.
 * Sets |*holes| where zeros stand for unknown bytes. */
static int compose_lost(struct xh_edit *e, uint64_t off, char *buf, uint64_t len, int *holes, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    uint64_t end = off + len, to;
    int rc = 0, kind;
    for (uint64_t at = off; at < end && rc == 0; at = to) {
        uint64_t until;
        if (xh_extents_next(&v->have, at, end, &to, NULL)) {
            rc = xh_overlay_read(v, at, buf + (at - off), to - at, err);
            continue;
        }
        int seen = xh_extents_next(&v->seen, at, to, &until, &kind);
        to = until;
        if (seen && kind != XH_SEEN_UNKEPT) {
            rc = xh_overlay_seen(v, at, buf + (at - off), to - at, err);
        } else {
            memset(buf + (at - off), 0, (size_t)(to - at));
            *holes |= at < v->base_limit;
        }
    }
    if (rc == 0)
        xh_edit_plain(e, off, buf, len);
    return rc;
}

/* Writes the file to |fd|, of |path|. Returns 1 where unknown bytes are zeros, 0, or a negative code. */
static int export_to(struct xh_edit *e, int fd, const char *path, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    int rc = 0, holes = 0, lost = v->base_limit && !e->file;
    xh_edit_super(e);
    for (uint64_t off = 0, to; off < v->size && rc == 0; off = to) {
        to = v->size - off < XH_EDIT_PIECE ? v->size : off + XH_EDIT_PIECE;
        rc = lost ? compose_lost(e, off, e->piece, to - off, &holes, err)
                  : xh_edit_compose(e, off, e->piece, (size_t)(to - off), err);
        if (rc == 0 && xh_write(fd, e->piece, (size_t)(to - off)))
            rc = xh_err_set(err, XH_E_SYS, 0, "cannot write %.300s: %s", path, strerror(errno));
    }
    if (rc == 0 && fsync(fd) < 0 && errno != EINVAL)
        rc = xh_err_set(err, XH_E_SYS, 0, "cannot write %.300s: %s", path, strerror(errno));
    return rc ? rc : holes;
}

static int cannot_make(const char *path, int bad, struct xh_err *err)
{
    return xh_err_set(err, XH_E_SYS, 0, "cannot make %.300s: %s", path, strerror(bad));
}

/* Makes the file |path| by |part|, which gets its name when all of it is on the disk. Nobody else writes |part|: the
 * overlay, whose number it has, is locked. What is left of one that was killed is removed. Returns as export_to. */
static int export_by(struct xh_edit *e, const char *part, const char *path, struct xh_err *err)
{
    struct stat st;
    if (lstat(path, &st) == 0)
        return cannot_make(path, EEXIST, err);
    unlink(part);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return cannot_make(part, errno, err);
    int rc = export_to(e, fd, part, err);
    if (close(fd) < 0 && rc >= 0)
        rc = xh_err_set(err, XH_E_SYS, 0, "cannot write %.300s: %s", part, strerror(errno));
    if (rc >= 0 && xh_rename_new(part, path) != 0)
        rc = cannot_make(path, errno, err);
    if (rc < 0)
        unlink(part);
    return rc;
}

int xh_edit_export(const struct xh_options *o, const char *id, const char *path, struct xh_err *err)
{
    struct xh_edit *e = NULL;
    char *part = NULL;
    int rc = reopen_left(o, id, &e, err);
    if (rc)
        return rc;
    assert(e);
    rc = open_version(e, err);
    if (rc == 0 && asprintf(&part, "%s.part-%s", path, e->overlay->id) < 0)
        part = NULL;
    if (rc == 0 && (!part || !(e->piece = malloc(XH_EDIT_PIECE))))
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a file");
    if (rc == 0)
        rc = export_by(e, part, path, err);
    free(part);
    xh_edit_free(e, 1);
    return rc;
}

int xh_edit_drop(const struct xh_options *o, const char *id, struct xh_err *err)
{
    struct xh_overlay *v = NULL;
    int rc = xh_overlay_open(o, id, &v, err);
    if (rc == 0)
        xh_overlay_close(v, 0);
    return rc;
}
