/* An open file that is written: see edit.h. How it gets to the server is in commit.c, what a merge may do in merge.c.
 *
 * Invariants: a byte of the file is the overlay's where |have| has it, else the version's below, up to |base_limit|,
 * else zero; metadata that was read from the version below is in |base| as it was read, or what it says of nothing is
 * believed in a merge; a child of a fork changes nothing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../env.h"
#include "../now.h"
#include "../process.h"
#include "../trace.h"
#include "impl.h"

#define KEPT_RAW_BYTES (4u << 20) /* a read of raw data of up to so much is kept for merges: what partly changed chunks need */
#define HEADER_SPECULATION 512u   /* HDF5 reads so much of an object header at first, and of a local heap */

/* ---- opening */

/* One server, and nothing beside the file: what is written goes there. */
static int settle_options(struct xh_edit *e, const char *url, const struct xh_options *o, struct xh_err *err)
{
    const char *host = strstr(url, "://"), *end = host ? host + 3 + strcspn(host + 3, "/?#") : url;
    const char *at = host ? memrchr(host + 3, '@', (size_t)(end - host - 3)) : NULL;
    const char *from = at ? at + 1 : host ? host + 3 : url;
    e->opt = *o;
    xh_env_hold(&e->opt);
    snprintf(e->opt.sidecar, sizeof e->opt.sidecar, "off");
    int n = snprintf(e->opt.endpoints, sizeof e->opt.endpoints, "https://%.*s", (int)(end - from), from);
    return n < (int)sizeof e->opt.endpoints ? 0 : xh_err_set(err, XH_E_INVAL, 0, "the URL's host is too long");
}

/* Opens the version that is there now, and asks what the commit will be judged by. */
static int open_below(struct xh_edit *e, const char *url, struct xh_dav_stat *st, struct xh_err *err)
{
    for (int tries = 0;; tries++) {
        int rc = xh_cache_open_part(url, &e->opt, &e->account, &e->file, err);
        if (rc == XH_E_NOENT && tries == 0 && xh_replace_find(e))
            continue;
        rc = rc ? rc : xh_dav_stat(e->dav, "", st, err);
        if (rc)
            return rc;
        if (st->there && strcmp(st->validator, xh_cache_validator(e->file)) == 0)
            return 0;
        xh_cache_close(e->file);
        e->file = NULL;
        if (tries == 3)
            return xh_err_set(err, XH_E_CHANGED, 0,
                              "%.200s: the file is being changed on the server, or the server does not tell its version",
                              xh_dav_shown(e->dav));
    }
}

static int greet(struct xh_aside *s)
{
    xh_dav_greet(s->e->side);
    return 0;
}

/* Asks whether the file is there. A server may hang up when it is not (XRootD): the second client opens a connection
 * meanwhile, so that the upload need not. */
static int look_for(struct xh_edit *e, struct xh_dav_stat *st, struct xh_err *err)
{
    struct xh_aside hello = {.e = e, .run = greet};
    struct xh_err ignored;
    xh_aside_begin(&hello);
    int rc = xh_dav_stat(e->dav, "", st, err);
    if (xh_aside_end(&hello, &ignored) == 0 && rc == 0 && !xh_dav_is_warm(e->dav) && xh_dav_is_warm(e->side)) {
        struct xh_dav *warm = e->side;
        e->side = e->dav;
        e->dav = warm;
    }
    if (e->side) /* a new file is at no server: that this is a cluster's redirector shows at its directory */
        xh_dav_learn(e->dav, e->side);
    return rc;
}

static int open_edit(struct xh_edit *e, const char *url, enum xh_edit_how how, struct xh_err *err)
{
    struct xh_dav_stat st = {0};
    int rc = xh_dav_open(url, &e->opt, &e->dav, err);
    if (rc)
        return rc;
    xh_dav_count(e->dav, &e->counters, &e->account);
    rc = how == XH_EDIT_CHANGE ? open_below(e, url, &st, err) : look_for(e, &st, err);
    if (rc == 0 && xh_dav_is_elsewhere(e->dav))
        rc = xh_err_set(err, XH_E_INVAL, 0,
                        "%.200s: the server sends requests for it to another one, as the redirector of a cluster does. Files are "
                        "written at one server alone: open it by that server's URL", xh_dav_shown(e->dav));
    if (rc == 0 && how == XH_EDIT_CREATE && st.there) {
        rc = xh_err_set(err, XH_E_INVAL, 0, "%.200s: there is such a file", xh_dav_shown(e->dav));
        err->sys_errno = EEXIST;
    }
    rc = rc ? rc : xh_overlay_new(&e->opt, xh_dav_text(e->dav), &e->overlay, err);
    if (rc)
        return rc;
    struct xh_overlay *v = e->overlay;
    v->mode = how == XH_EDIT_CHANGE ? XH_OVERLAY_EDIT : how == XH_EDIT_CREATE ? XH_OVERLAY_CREATE : XH_OVERLAY_REPLACE;
    snprintf(v->base_version, sizeof v->base_version, "%s", st.validator);
    e->found = st;
    e->found_good = how != XH_EDIT_CHANGE;
    if (how == XH_EDIT_CHANGE)
        v->size = v->base_size = v->base_limit = st.size;
    return xh_overlay_save(v, XH_OVERLAY_OPENED, 0, err); /* whose it is, should the program be killed */
}

void xh_edit_free(struct xh_edit *e, int keep)
{
    if (e->file)
        xh_cache_close(e->file);
    xh_overlay_close(e->overlay, keep);
    xh_dav_close(e->side);
    xh_dav_close(e->quick);
    xh_dav_close(e->dav);
    xh_extents_free(&e->stale);
    free(e->piece);
    free(e->url);
    xh_env_release(&e->opt);
    free(e);
}

/* On the time line, and that into its file. */
static void draw(const struct xh_edit *e, const char *what, uint64_t begun)
{
    if (!xh_timeline_on())
        return;
    xh_timeline_slice(0, what, begun, xh_now_ns(), "url=%s size=%llu", xh_dav_shown(e->dav), (unsigned long long)e->overlay->size);
    xh_timeline_write(1);
}

int xh_edit_open(const char *url, const struct xh_options *o, enum xh_edit_how how, struct xh_edit **out, struct xh_err *err)
{
    struct xh_edit *e = calloc(1, sizeof *e);
    if (!e)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening a URL");
    xh_trace_enable(o->log);
    xh_timeline_start(o->trace);
    xh_account_init(&e->account, o->stats != 0);
    uint64_t begun = xh_now_ns();
    e->process = xh_process();
    e->url = strdup(url);
    int rc = e->url ? settle_options(e, url, o, err) : xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening a URL");
    rc = rc ? rc : open_edit(e, url, how, err);
    if (rc) {
        xh_edit_free(e, 0);
        return rc;
    }
    xh_trace(XH_T_VFD, "edit", "url=%s id=%s mode=%d size=%llu", xh_dav_shown(e->dav), e->overlay->id, (int)e->overlay->mode,
             (unsigned long long)e->overlay->size);
    xh_account_opened(&e->account);
    draw(e, "open to write", begun);
    *out = e;
    return 0;
}

int xh_edit_is_behind(const struct xh_edit *e)
{
    return e->stale.n > 0;
}

uint64_t xh_edit_size(const struct xh_edit *e)
{
    return e->overlay->size;
}

const char *xh_edit_url(const struct xh_edit *e)
{
    return xh_dav_text(e->dav);
}

void xh_edit_stats(struct xh_edit *e, struct xh_stats *out)
{
    struct xh_stats more;
    xh_counters_snapshot(&e->counters, out);
    xh_stats_add(out, &e->account.ended);
    if (e->file) {
        xh_cache_stats(e->file, &more);
        xh_stats_add(out, &more);
    }
}

/* ---- reading */

static uint64_t le(const unsigned char *p, unsigned n)
{
    uint64_t x = 0;
    while (n--)
        x = x << 8 | p[n];
    return x;
}

/* How much of a read of metadata is that metadata: HDF5 reads 512 bytes of object headers and local heaps before it knows
 * their size, and what follows may be another's data. Source: HDF5 File Format Specification 3.0, III.D, IV.A.1. */
static uint64_t own_length(enum xh_edit_kind kind, uint64_t off, const unsigned char *p, uint64_t len)
{
    uint64_t need = len;
    if (len > HEADER_SPECULATION || len < 32)
        return len;
    if (memcmp(p, "OHDR", 4) == 0 && p[4] == 2) {
        unsigned at = 6u + (p[5] & 0x20 ? 16u : 0) + (p[5] & 0x10 ? 4u : 0), width = 1u << (p[5] & 3);
        need = at + width + 4 <= len ? at + width + 4 + le(p + at, width) : len;
    } else if (memcmp(p, "HEAP", 4) == 0 && p[4] == 0) {
        need = le(p + 24, 8) == off + 32 ? 32 + le(p + 8, 8) : 32;
    } else if (kind == XH_EDIT_HEADER && p[0] == 1 && p[1] == 0) {
        uint64_t messages = le(p + 2, 2), size = le(p + 8, 4), links = le(p + 4, 4);
        if (messages && messages * 8 <= size && links && links < 65536)
            need = 16 + size;
    }
    return need < len ? need : len;
}

/* Takes note of bytes of the version below, for merges. */
static int note(struct xh_edit *e, enum xh_edit_kind kind, uint64_t off, const void *buf, uint64_t len, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    int raw = kind == XH_EDIT_RAW && !(len >= 5 && memcmp(buf, "GCOL\1", 5) == 0); /* the global heap comes as raw data */
    uint64_t to, end = off + (raw ? len : own_length(kind, off, buf, len));
    int was;
    for (uint64_t at = off; at < end; at = to) {
        int seen = xh_extents_next(&v->seen, at, end, &to, &was);
        if (seen && (raw || was == XH_SEEN_META))
            continue;
        int as = !raw ? XH_SEEN_META : len <= KEPT_RAW_BYTES ? XH_SEEN_RAW : XH_SEEN_UNKEPT;
        int rc = as == XH_SEEN_UNKEPT ? 0 : xh_overlay_see(v, at, (const char *)buf + (at - off), to - at, err);
        if (rc)
            return rc;
        if (xh_extents_put(&v->seen, at, to, as))
            return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a read");
    }
    return 0;
}

struct below { /* pieces of a read that the version below has */
    struct xh_extent *at;
    size_t n, room;
};

/* What is done here and not in cache.h, nor at the server, is copying. */
static uint64_t begin_copying(struct xh_edit *e)
{
    /* A child prints none, and a thread of the parent may have the lock. */
    return e->process == xh_process() ? xh_account_enter(&e->account, XH_COPYING) : 0;
}

static void end_copying(struct xh_edit *e, uint64_t begun)
{
    xh_account_leave(&e->account, XH_COPYING, begun);
}

static int add_below(struct below *b, uint64_t off, uint64_t len, void *buf, struct xh_err *err)
{
    if (b->n == b->room) {
        size_t room = b->room ? 2 * b->room : 16;
        struct xh_extent *at = realloc(b->at, room * sizeof *at);
        if (!at)
            return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a read");
        b->at = at;
        b->room = room;
    }
    b->at[b->n++] = (struct xh_extent){off, len, buf};
    return 0;
}

/* One extent: from the overlay, or zero, or into |b|. */
static int read_one(struct xh_edit *e, const struct xh_extent *x, struct below *b, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    uint64_t end = x->off + x->len, to;
    int rc = 0;
    for (uint64_t off = x->off; off < end && rc == 0; off = to) {
        char *buf = (char *)x->buf + (off - x->off);
        if (xh_extents_next(&v->have, off, end, &to, NULL)) {
            rc = xh_overlay_read(v, off, buf, to - off, err);
            continue;
        }
        uint64_t there = off < v->base_limit ? v->base_limit - off : 0;
        if (there > to - off)
            there = to - off;
        memset(buf + there, 0, (size_t)(to - off - there));
        if (there && !e->file)
            rc = xh_err_set(err, XH_E_CHANGED, 0, "%.200s: the version that was changed is gone from the server", xh_dav_shown(e->dav));
        else if (there)
            rc = add_below(b, off, there, buf, err);
    }
    return rc;
}

int xh_edit_read(struct xh_edit *e, enum xh_edit_kind kind, const struct xh_extent *ext, size_t n, struct xh_err *err)
{
    struct below b = {0};
    int rc = 0;
    uint64_t begun = begin_copying(e);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = read_one(e, &ext[i], &b, err);
    end_copying(e, begun);
    if (rc == 0 && b.n)
        rc = xh_cache_read(e->file, kind == XH_EDIT_RAW ? XH_KIND_RAW : XH_KIND_META, b.at, b.n, err);
    begun = begin_copying(e);
    for (size_t i = 0; i < b.n && rc == 0; i++)
        rc = note(e, kind, b.at[i].off, b.at[i].buf, b.at[i].len, err);
    free(b.at);
    end_copying(e, begun);
    return rc;
}

int xh_edit_compose(struct xh_edit *e, uint64_t off, char *buf, size_t len, struct xh_err *err)
{
    struct below b = {0};
    struct xh_extent x = {off, len, buf};
    uint64_t begun = begin_copying(e);
    int rc = read_one(e, &x, &b, err);
    end_copying(e, begun);
    if (rc == 0 && b.n)
        rc = xh_cache_read(e->file, XH_KIND_RAW, b.at, b.n, err);
    free(b.at);
    if (rc)
        return rc;
    for (size_t i = 0; i < e->super_len; i++)
        if (e->super_off + i >= off && e->super_off + i - off < len)
            buf[e->super_off + i - off] = (char)e->super[i];
    return 0;
}

/* ---- writing */

/* HDF5 flushes in the child what the parent has changed, when the child closes the file or ends: that is no error, as the
 * parent does it too. Data is the child's own. */
static int in_child(struct xh_edit *e, enum xh_edit_kind kind, struct xh_err *err)
{
    static const char text[] = "the child of a fork cannot write what its parent has open";
    if (kind == XH_EDIT_RAW)
        return xh_err_set(err, XH_E_READONLY, 0, "%.200s: %s", xh_dav_shown(e->dav), text);
    if (!e->told)
        dprintf(STDERR_FILENO, "xhdf5: %s: %s\n", xh_dav_shown(e->dav), text);
    e->told = 1;
    return 0;
}

/* Metadata that is overwritten and was never read: a merge wants to know what it was. When that cannot be had (no network; the
 * version is gone; the disk is full) the write goes on: what is not known is a conflict, should somebody else change the file.
 * It is not asked for again then, as each try may last for long. */
static void note_below(struct xh_edit *e, uint64_t off, uint64_t len)
{
    struct xh_overlay *v = e->overlay;
    uint64_t end = off + len < v->base_limit ? off + len : v->base_limit, to;
    int rc = 0, kind;
    struct xh_err why;
    for (; off < end && e->file && !e->blind; off = to) {
        int seen = xh_extents_next(&v->seen, off, end, &to, &kind);
        uint64_t until;
        if ((seen && kind == XH_SEEN_META) || xh_extents_next(&v->have, off, to, &until, NULL))
            continue; /* known; or written before */
        to = until < to ? until : to;
        char *buf = malloc((size_t)(to - off));
        struct xh_extent x = {off, to - off, buf};
        rc = buf ? xh_cache_read(e->file, XH_KIND_META, &x, 1, &why) : xh_err_set(&why, XH_E_NOMEM, 0, "out of memory for a write");
        rc = rc ? rc : xh_overlay_see(v, off, buf, to - off, &why);
        free(buf);
        e->blind = rc != 0;
        if (rc)
            xh_trace(XH_T_VFD, "blind", "url=%s why=\"%s\"", xh_dav_shown(e->dav), why.text);
    }
}

int xh_edit_say_stale(const struct xh_edit *e, struct xh_err *err)
{
    return xh_err_set(err, XH_E_CHANGED, 0,
                      "%.200s: this is a conflict: an earlier commit took over what somebody else had changed, and then older bytes "
                      "were written over it, which HDF5 still had in memory. Close the file, open it again, and write that anew",
                      xh_dav_shown(e->dav));
}

/* 1 when [off, off + len) holds data that others have changed since HDF5 was given it, and |buf| would undo that; also
 * when that cannot be told, as the version below is gone: a write that fails would leave nothing to export. */
static int is_stale(struct xh_edit *e, uint64_t off, const char *buf, uint64_t len)
{
    uint64_t end = off + len, at, to;
    int differs = 0;
    struct xh_err ignored;
    if (!e->stale.n || (!xh_extents_next(&e->stale, off, end, &to, NULL) && to == end))
        return 0;
    char *there = malloc(XH_EDIT_PIECE);
    for (at = off; there && at < end && !differs; at = to) { /* HDF5 writes what it has not changed, too */
        to = end - at < XH_EDIT_PIECE ? end : at + XH_EDIT_PIECE;
        differs = xh_edit_compose(e, at, there, (size_t)(to - at), &ignored) ||
                  memcmp(there, buf + (at - off), (size_t)(to - at)) != 0;
    }
    free(there);
    return !there || differs;
}

/* A record of a file that was whole: what is written or cut off from now on may be in it or not, as in a local file. */
static void unsettle(struct xh_edit *e)
{
    struct xh_err ignored;
    e->unflushed = 1;
    if (e->overlay->state == XH_OVERLAY_CLOSED && xh_overlay_save(e->overlay, XH_OVERLAY_FLUSHED, 0, &ignored))
        xh_overlay_unsave(e->overlay);
}

int xh_edit_write(struct xh_edit *e, enum xh_edit_kind kind, uint64_t off, const void *buf, uint64_t len, struct xh_err *err)
{
    int rc = 0;
    if (e->process != xh_process())
        return in_child(e, kind, err);
    if (len == 0)
        return 0;
    if (kind == XH_EDIT_RAW && len >= 5 && memcmp(buf, "GCOL\1", 5) == 0)
        kind = XH_EDIT_META; /* a heap that several datasets may share */
    if (kind != XH_EDIT_RAW)
        note_below(e, off, len);
    else if (is_stale(e, off, buf, len))
        /* That is said when it is committed: a write that fails while HDF5 closes a dataset is lost, in silence, and some versions
         * of HDF5 crash at the program's end. */
        e->overlay->behind = 1;
    unsettle(e);
    uint64_t begun = begin_copying(e);
    rc = rc ? rc : xh_overlay_write(e->overlay, off, buf, len, kind == XH_EDIT_RAW ? XH_WRITTEN_RAW : XH_WRITTEN_META, err);
    if (rc && e->discard == XH_EDIT_DISCARD_ALL)
        rc = 0; /* HDF5 writes when it closes a file, too; nobody wants that */
    else if (rc)
        e->broken = e->overlay->broken = 1;
    else
        xh_count(&e->counters, bytes_written, len);
    if (begun && xh_timeline_on())
        xh_timeline_slice(0, kind == XH_EDIT_RAW ? "write data" : "write metadata", begun, xh_now_ns(), "first=%llu bytes=%llu",
                          (unsigned long long)off, (unsigned long long)len);
    end_copying(e, begun);
    return rc;
}

int xh_edit_truncate(struct xh_edit *e, uint64_t size, struct xh_err *err)
{
    if (size == e->overlay->size || e->process != xh_process())
        return 0;
    unsettle(e);
    uint64_t begun = begin_copying(e);
    int cut = size < e->overlay->size && e->overlay->state == XH_OVERLAY_FLUSHED, rc = xh_overlay_truncate(e->overlay, size, err);
    if (rc == 0 && cut)
        rc = xh_overlay_save(e->overlay, XH_OVERLAY_FLUSHED, 0, err); /* it speaks of bytes that are gone */
    end_copying(e, begun);
    if (rc)
        e->broken = e->overlay->broken = 1;
    return rc;
}

int xh_edit_flush(struct xh_edit *e, struct xh_err *err)
{
    if (!e->unflushed || e->process != xh_process() || !xh_edit_is_whole(e))
        return 0;
    uint64_t begun = begin_copying(e);
    int rc = xh_overlay_save(e->overlay, XH_OVERLAY_FLUSHED, 0, err);
    end_copying(e, begun);
    e->unflushed = rc != 0;
    return rc;
}

/* ---- the end */

/* A commit that failed: its overlay stays, and |err| says where. */
void xh_edit_keep(struct xh_edit *e, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    struct xh_err own, was = *err;
    snprintf(v->why, sizeof v->why, "%.590s", err->text);
    if (xh_overlay_save(v, v->state == XH_OVERLAY_WITHHELD ? XH_OVERLAY_WITHHELD : XH_OVERLAY_CLOSED, 1, &own) && !v->saved) {
        xh_overlay_unsave(v); /* an older record would not be true */
        xh_err_set(err, was.code, was.status, "%.480s. What was written was NOT saved: %.180s", was.text, own.text);
    } else if (v->behind)
        xh_err_set(err, was.code, was.status, "%.560s. What was written is kept: \"xhdf5 recover export %s\" writes it to a file",
                   was.text, v->id);
    else if (v->broken)
        xh_err_set(err, was.code, was.status, "%.560s. It is no whole file: \"xhdf5 recover drop %s\" removes it", was.text, v->id);
    else
        xh_err_set(err, was.code, was.status,
                   "%.560s. What was written is kept: \"xhdf5 recover retry %s\" sends it again, \"xhdf5 recover export\" writes it to a file",
                   was.text, v->id);
    err->sys_errno = was.sys_errno;
}

/* What was counted, and where the time went: all of it, but for removing the overlay. */
static void tell(struct xh_edit *e)
{
    struct xh_stats all;
    if (e->file)
        xh_cache_close(e->file);
    e->file = NULL;
    xh_edit_stats(e, &all);
    xh_stats_trace(&all, xh_dav_shown(e->dav));
    if (e->opt.stats && (all.reads || all.bytes_written || all.commit_ms)) /* else it is HDF5, which looks whether there is such a file */
        xh_account_print(&e->account, xh_dav_shown(e->dav), &all, &e->account.known, STDERR_FILENO);
}

void xh_edit_discard(struct xh_edit *e, enum xh_edit_discard how)
{
    if (e->process == xh_process() && how > e->discard)
        e->discard = how;
}

/* The program did not want it to be sent. Returns whether there is something that stays. */
static int withhold(struct xh_edit *e, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    struct xh_err why;
    xh_edit_super(e);
    if (v->dirty.n == 0 || xh_edit_differs(e, &why) == 0)
        return 0;
    snprintf(v->why, sizeof v->why, "the program withdrew it, or left it by an exception");
    int rc = xh_overlay_save(v, XH_OVERLAY_WITHHELD, 1, &why);
    if (rc)
        xh_err_set(err, rc, 0, "%.200s: it is not sent, as the program withdrew it, or left it by an exception. What was written was NOT saved: "
                   "%.200s", xh_dav_shown(e->dav), why.text);
    else if (v->broken || v->behind)
        xh_err_set(err, 0, 0, "%.200s: it is not sent, as the program withdrew it, or left it by an exception. It could not have been sent, %s: "
                   "\"xhdf5 recover drop %s\" removes what was written", xh_dav_shown(e->dav),
                   v->broken ? "as a write had failed" : "as somebody else had changed the same data", v->id);
    else
        xh_err_set(err, 0, 0, "%.200s: it is not sent, as the program withdrew it, or left it by an exception. What was written is kept: "
                   "\"xhdf5 recover retry %s\" sends it, \"xhdf5 recover drop %s\" removes it", xh_dav_shown(e->dav), v->id, v->id);
    return rc == 0;
}

/* The end of a file that is not to be sent. */
static int close_unsent(struct xh_edit *e, struct xh_err *err)
{
    err->text[0] = '\0';
    int keep = e->discard == XH_EDIT_DISCARD_KEEP && withhold(e, err);
    int rc = keep || !err->text[0] ? 0 : err->code;
    tell(e);
    xh_edit_free(e, keep);
    return rc;
}

int xh_edit_close(struct xh_edit *e, struct xh_err *err)
{
    if (e->process != xh_process()) { /* the parent's it stays; its connections and files are not to be touched */
        if (e->file)
            xh_cache_close(e->file);
        xh_overlay_forsake(e->overlay);
        xh_extents_free(&e->stale);
        free(e->piece);
        free(e->url);
        free(e);
        return 0;
    }
    e->closing = 1;
    if (e->discard)
        return close_unsent(e, err);
    uint64_t begun = xh_now_ns();
    int rc = xh_edit_commit(e, err);
    if (rc == 0)
        err->text[0] = '\0'; /* of a request that was asked again */
    tell(e);
    draw(e, "close", begun);
    xh_edit_free(e, rc != 0);
    return rc;
}
