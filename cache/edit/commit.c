/* The commit: see edit.h, and docs/commit.md. upload.c sends the new version; here is what comes before and after. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/now.h"
#include "base/process.h"
#include "watch/trace.h"
#include "compose.h"
#include "keep.h"
#include "landing.h"
#include "lock.h"
#include "merge.h"
#include "super.h"
#include "upload.h"

/* Updates the overlay after a commit. It holds nothing that the server does not have. Its bytes still serve reads,
 * and a later merge begins with them. */
static int committed(struct xh_edit *e, const struct xh_dav_stat *fresh, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    int rc = 0;
    for (size_t i = 0; i < v->dirty.n && rc == 0 && !e->closing; i++) {
        const struct xh_stretch *s = &v->dirty.at[i];
        int kind = s->kind == XH_WRITTEN_META            ? XH_SEEN_META
                   : s->end - s->off > 4 * XH_EDIT_PIECE ? XH_SEEN_UNKEPT
                                                         : XH_SEEN_RAW;
        uint64_t to;
        for (uint64_t off = s->off; off < s->end && rc == 0 && kind != XH_SEEN_UNKEPT; off = to) {
            to = s->end - off < XH_EDIT_PIECE ? s->end : off + XH_EDIT_PIECE;
            rc = xh_edit_compose(e, off, e->piece, (size_t)(to - off), err);
            rc = rc ? rc : xh_overlay_see(v, off, e->piece, to - off, err);
            if (rc == XH_E_NOSPACE) { /* a merge has a conflict: what is compared with metadata are other bytes */
                kind = kind == XH_SEEN_META ? kind : XH_SEEN_UNKEPT;
                rc = 0;
                break;
            }
        }
        if (rc == 0 && xh_extents_put(&v->seen, s->off, s->end, kind))
            rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
    }
    int whole = v->base_limit == 0; /* nothing shows through */
    xh_extents_free(&v->dirty);
    v->mode = XH_OVERLAY_EDIT;
    v->base_size = v->size;
    v->base_limit = whole ? 0 : v->size;
    snprintf(v->base_version, sizeof v->base_version, "%s", fresh->validator);
    /* else it is removed; if the process is killed before that, "retry" finds that the record's work is done */
    if (!e->closing)
        xh_overlay_unsave(v);
    return rc;
}

/* Opens the version below. Returns 0 or a negative code. */
static int open_below(struct xh_edit *e, struct xh_err *err)
{
    xh_edit_close_below(e);
    int rc = xh_cache_open_part(e->url, &e->opt, &e->account, &e->file, err);
    if (rc || xh_dav_is_same(xh_cache_validator(e->file), e->overlay->base_version))
        return rc;
    xh_edit_close_below(e);
    return xh_edit_fail(e, err, XH_E_CHANGED,
                        "what was written is at the server, and was changed there since by somebody else: close the "
                        "file and open it again");
}

/* Opens the version below, which could not be opened behind the last commit. A version that is gone is left to the
 * merge. Returns 0 or a negative code. */
static int have_below(struct xh_edit *e, struct xh_err *err)
{
    int needs = !e->file && e->overlay->mode == XH_OVERLAY_EDIT && e->overlay->base_limit;
    int rc = needs ? open_below(e, err) : 0;
    return rc == XH_E_CHANGED || rc == XH_E_NOENT ? 0 : rc;
}

static int send_all(struct xh_edit *e, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    struct xh_turn turn;
    struct xh_dav_stat fresh;
    if (!e->piece && !(e->piece = malloc(XH_EDIT_PIECE)))
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a commit");
    int done = xh_landing_is_done(e, &fresh);
    int rc = v->mode == XH_OVERLAY_EDIT && !done ? xh_upload_turn(e, &turn, err) : 0;
    if (rc == 0)
        xh_cache_forget(e->url, &e->opt); /* also where the answer is lost, or this process, once the server has it */
    rc = rc || done ? rc : xh_upload(e, &fresh, err);
    if (e->turn)
        xh_turn_leave(e->turn, 1);
    e->turn = NULL;
    xh_dav_close(e->side);
    xh_dav_close(e->quick);
    e->side = e->quick = NULL;
    if (rc)
        return rc;
    xh_cache_forget(e->url, &e->opt);
    xh_edit_tidy(e);
    rc = committed(e, &fresh, err);
    if (e->closing)
        return 0;
    if (rc)
        xh_edit_close_below(e); /* it is no longer what is below */
    rc = rc ? rc : open_below(e, err);
    if (rc == 0)
        v->base_limit = v->size; /* bytes in neither set are zero there too */
    return rc;
}

/* Notes that the file is to be sent, and sends it. */
static int commit(struct xh_edit *e, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    uint64_t begun = xh_now_ns(), moved;
    v->since_s = 0;
    unsigned number = e->attempt + (v->mode == XH_OVERLAY_EDIT ? 2 : 1);
    snprintf(v->left, sizeof v->left, XH_TURN_PREFIX "%s%c%u/ " XH_TURN_PREFIX "%s%c%u/ " XH_TURN_PREFIX "%s%c%u",
             v->id, 't', e->attempt + 1, v->id, 'n', number, v->id, 'w', number);
    /* From here on a killed process, or a failed machine, leaves a record. Without room for that the file may still be
     * sent. */
    if (xh_edit_save(e, XH_OVERLAY_CLOSED, err))
        xh_trace(XH_T_VFD, "unsaved", "url=%s why=\"%s\"", xh_dav_shown(e->dav), err->text);
    v->left[0] = '\0'; /* a process that lives notes what it leaves */
    int rc = send_all(e, err);
    moved = xh_now_ns() - begun;
    xh_count(&e->counters, commits, rc == 0);
    xh_count(&e->counters, commit_ms, (moved + 500000u) / 1000000u);
    if (xh_timeline_on())
        xh_timeline_slice(0, "commit", begun, begun + moved, "url=%s bytes=%" PRIu64 " rc=%d", xh_dav_shown(e->dav),
                          v->size, rc);
    return rc;
}

/* 1 when nothing is written that is not at the server. */
static int is_clean(const struct xh_edit *e)
{
    const struct xh_overlay *v = e->overlay;
    return v->dirty.n == 0 && (v->mode != XH_OVERLAY_EDIT ||
                               (v->size == v->base_size && (v->base_limit == v->base_size || !e->file)));
}

static int commit_changes(struct xh_edit *e, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    int rc = 0;
    if (e->discard == XH_EDIT_DISCARD_ALL)
        return xh_edit_fail(e, err, XH_E_INVAL, "what was written has been discarded: close the file");
    e->discard = XH_EDIT_DISCARD_NOT;
    if (e->broken)
        rc = xh_edit_fail(e, err, XH_E_SYS, "a write failed, so the file is not sent to the server");
    else if (v->behind)
        rc = xh_edit_say_stale(e, err);
    if (is_clean(e) && !e->broken)
        return rc; /* nothing was written; a file that was to be made was not */
    /* What follows may take long. An older record does not know where all is to which the superblock leads by now. */
    xh_edit_flush(e, XH_IGNORED);
    rc = rc ? rc : have_below(e, err);
    if (rc == 0) {
        xh_edit_super(e);
        rc = xh_edit_differs(e, err);
    }
    if (rc == 0)
        return 0;
    if (rc == 1 || (rc == XH_E_CHANGED && !v->behind))
        rc = *e->refused ? xh_edit_fail(e, err, XH_E_READONLY, "%.500s", e->refused)
                         : commit(e, err);
    e->super_len = 0;
    if (rc && (e->broken || !is_clean(e))) /* all of it may be there, and the version below not be opened */
        xh_edit_keep(e, err);
    return rc;
}

int xh_edit_commit(struct xh_edit *e, struct xh_err *err)
{
    if (e->process != xh_process())
        return xh_edit_fail(e, err, XH_E_READONLY, "the child of a fork cannot write what its parent has open");
    xh_account_edits(&e->account, 1);
    int rc = commit_changes(e, err);
    xh_account_edits(&e->account, -1u);
    return rc;
}
