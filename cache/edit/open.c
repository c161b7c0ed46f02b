/* Opening and closing a file that is written: see edit.h. commit.c and upload.c send it to the server. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/now.h"
#include "base/process.h"
#include "watch/trace.h"
#include "aside.h"
#include "keep.h"
#include "replace.h"

/* ---- opening */

int xh_edit_settle(struct xh_edit *e, const char *url, const struct xh_options *o, struct xh_err *err)
{
    const char *end = url + xh_url_server_bytes(url), *at = memrchr(url, '@', (size_t)(end - url));
    const char *from = at ? at + 1 : end > url ? strstr(url, "://") + 3 : url;
    e->opt = *o;
    e->opt.is_written = e->opt.is_kept = 1;
    xh_env_hold(&e->opt);
    snprintf(e->opt.sidecar, sizeof e->opt.sidecar, "off");
    int n = snprintf(e->opt.endpoints, sizeof e->opt.endpoints, "https://%.*s", (int)(end - from), from);
    return n < (int)sizeof e->opt.endpoints ? 0 : xh_err_set(err, XH_E_INVAL, 0, "the URL's host is too long");
}

/* Opens the present version, and asks for the status that the commit will compare with. Returns 0 or a negative
 * code. */
static int open_below(struct xh_edit *e, const char *url, struct xh_dav_stat *st, struct xh_err *err)
{
    for (int tries = 0;; tries++) {
        int rc = xh_cache_open_part(url, &e->opt, &e->account, &e->file, err);
        if (rc == XH_E_NOENT && tries == 0 && !*e->refused && xh_replace_find(e, XH_IGNORED) > 0)
            continue;
        rc = rc ? rc : xh_cache_prove(e->file, err); /* now, as it can still be opened again */
        if (rc != XH_E_CHANGED) {
            rc = rc ? rc : xh_dav_stat(e->dav, "", st, err);
            if (rc)
                return rc;
            if (st->there && xh_dav_is_same(st->validator, xh_cache_validator(e->file)))
                return 0;
        }
        xh_edit_close_below(e);
        if (tries == 3)
            return xh_edit_fail(e, err, XH_E_CHANGED,
                                "the file is being changed on the server, or the server does not tell its version, "
                                "or it answers from memory (nginx: open_file_cache)");
    }
}

static int greet(struct xh_aside *s)
{
    xh_dav_greet(s->e->side);
    return 0;
}

/* Asks whether the file exists. If it does not, a server may close the connection (XRootD). So the second client
 * opens a connection meanwhile, and the upload need not. */
static int look_for(struct xh_edit *e, struct xh_dav_stat *st, struct xh_err *err)
{
    struct xh_aside hello = {.e = e, .run = greet};
    xh_aside_begin(&hello);
    int rc = xh_dav_stat(e->dav, "", st, err);
    if (xh_aside_end(&hello, 0, XH_IGNORED) == 0 && rc == 0 && !xh_dav_is_warm(e->dav) && xh_dav_is_warm(e->side)) {
        struct xh_dav *warm = e->side;
        e->side = e->dav;
        e->dav = warm;
    }
    if (rc == 0 && st->directory)
        rc = xh_dav_is_directory(e->dav, 0, err);
    if (e->side) /* a new file is at no server; its directory shows whether this is a cluster's redirector */
        xh_dav_learn(e->dav, e->side);
    return rc;
}

int xh_edit_refuse_foreign(struct xh_edit *e, struct xh_err *err)
{
    char why[sizeof e->refused], names[300];
    if (!xh_dav_is_foreign(e->dav))
        return 0;
    snprintf(names, sizeof names, "not the program but the file %.200s names this URL, at another server",
             e->opt.namer.parent);
    snprintf(why, sizeof why,
             "%s, so nothing is written there. If it may be, name the server's host in XHDF5_CREDENTIAL_HOSTS",
             strcmp(e->opt.namer.parent, XH_OVERLAY_NOT_NOTED) != 0
                 ? names
                 : "an older xhdf5 kept this, and did not note whether the program or a file names the URL");
    xh_edit_refuse(e, why);
    return xh_edit_fail(e, err, XH_E_READONLY, "%.500s", e->refused);
}

static int open_edit(struct xh_edit *e, const char *url, enum xh_edit_how how, struct xh_err *err)
{
    struct xh_dav_stat st = {0};
    int rc = xh_dav_open(url, &e->opt, &e->dav, err);
    if (rc)
        return rc;
    xh_dav_count(e->dav, &e->counters, &e->account);
    rc = xh_edit_refuse_foreign(e, how == XH_EDIT_CHANGE ? NULL : err);
    if (rc == 0 || how == XH_EDIT_CHANGE) /* what is there can be opened, as it may only be read */
        rc = how == XH_EDIT_CHANGE ? open_below(e, url, &st, err) : look_for(e, &st, err);
    if (rc == 0 && xh_dav_is_elsewhere(e->dav))
        rc = xh_edit_fail(e, err, XH_E_INVAL,
                          "the server sends requests for it to another one, as the redirector of a cluster does. "
                          "Files are written at one server alone: open it by that server's URL");
    if (rc == 0 && how == XH_EDIT_CREATE && st.there) {
        rc = xh_edit_fail(e, err, XH_E_INVAL, "there is such a file");
        err->sys_errno = EEXIST;
    }
    if (rc == 0 && how == XH_EDIT_EMPTY && !st.there)
        rc = xh_edit_fail(e, err, XH_E_NOENT, "there is no such file");
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
    return xh_overlay_save(v, XH_OVERLAY_OPENED, 0, err); /* names the owner, should the program be killed */
}

/* Draws a slice on the time line, and writes the time line's file. */
static void draw(const struct xh_edit *e, const char *what, uint64_t begun)
{
    if (!xh_timeline_on())
        return;
    xh_timeline_slice(0, what, begun, xh_now_ns(), "url=%s size=%llu", xh_dav_shown(e->dav),
                      (unsigned long long)e->overlay->size);
    xh_timeline_write(1);
}

int xh_edit_open(const char *url, const struct xh_options *o, enum xh_edit_how how, struct xh_edit **out,
                 struct xh_err *err)
{
    enum xh_progress_mode ignored;
    if (xh_progress_by(o->progress, &ignored, err))
        return XH_E_INVAL;
    struct xh_edit *e = calloc(1, sizeof *e);
    if (!e)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening a URL");
    xh_trace_enable(o->log);
    xh_timeline_start(o->trace);
    xh_account_init(&e->account, o->stats != 0);
    uint64_t begun = xh_now_ns();
    e->process = xh_process();
    xh_account_edits(&e->account, 1);
    e->url = strdup(url);
    int rc =
        e->url ? xh_edit_settle(e, url, o, err) : xh_err_set(err, XH_E_NOMEM, 0, "out of memory while opening a URL");
    rc = rc ? rc : open_edit(e, url, how, err);
    xh_account_edits(&e->account, -1u);
    if (rc) {
        xh_edit_free(e, 0);
        return rc;
    }
    xh_trace(XH_T_VFD, "edit", "url=%s id=%s mode=%d size=%llu", xh_dav_shown(e->dav), e->overlay->id,
             (int)e->overlay->mode, (unsigned long long)e->overlay->size);
    xh_account_opened(&e->account);
    draw(e, "open to write", begun);
    *out = e;
    return 0;
}

int xh_edit_is_behind(const struct xh_edit *e)
{
    return e->stale.n > 0;
}

void xh_edit_has_pages(struct xh_edit *e)
{
    e->pages = 1;
}

uint64_t xh_edit_size(const struct xh_edit *e)
{
    return e->overlay->size;
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

/* ---- closing */

/* Traces and prints the counters and times of all but the removal of the overlay. */
static void tell(struct xh_edit *e)
{
    struct xh_stats all;
    xh_edit_close_below(e);
    xh_edit_stats(e, &all);
    xh_stats_trace(&all, xh_dav_shown(e->dav));
    /* else HDF5 only checks whether the file exists */
    if (e->opt.stats && (all.reads || all.bytes_written || all.commit_ms))
        xh_account_print(&e->account, xh_dav_shown(e->dav), &all, &e->account.known);
}

void xh_edit_refuse(struct xh_edit *e, const char *why)
{
    if (!*e->refused)
        snprintf(e->refused, sizeof e->refused, "%s", why);
}

void xh_edit_discard(struct xh_edit *e, enum xh_edit_discard how)
{
    if (e->process == xh_process() && how > e->discard)
        e->discard = how;
}

/* Closes a file that is not to be sent. */
static int close_unsent(struct xh_edit *e, struct xh_err *err)
{
    err->text[0] = '\0';
    int keep = e->discard == XH_EDIT_DISCARD_KEEP && xh_edit_withhold(e, err);
    int rc = keep || !err->text[0] ? 0 : err->code;
    tell(e);
    xh_edit_free(e, keep);
    return rc;
}

int xh_edit_close(struct xh_edit *e, struct xh_err *err)
{
    if (e->process != xh_process()) { /* the file stays the parent's, with its connections and local files */
        xh_overlay_forsake(e->overlay);
        e->overlay = NULL;
        e->dav = e->side = e->quick = NULL;
        xh_edit_free(e, 1);
        return 0;
    }
    e->closing = 1;
    if (e->discard)
        return close_unsent(e, err);
    uint64_t begun = xh_now_ns();
    int rc = xh_edit_commit(e, err);
    if (rc == 0)
        err->text[0] = '\0'; /* the error of a request that was repeated */
    tell(e);
    draw(e, "close", begun);
    xh_edit_free(e, rc != 0);
    return rc;
}
