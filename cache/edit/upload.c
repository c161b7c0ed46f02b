/* Sending a new version: see upload.h, and docs/commit.md for the protocol and why it is safe.
 *
 * One attempt:
 *  - take the turn (changes only);
 *  - ask for the present version at the server; if it is not the one below: rebase;
 *  - PUT the whole file into a directory of its own, and rename that directory to the lock;
 *  - check that the new file is complete, and that the version is still the same;
 *  - MOVE the new file out of the lock over the old one, and remove the lock.
 * Round trips count on long links. So requests that need not wait for others are made beside them, by a second client
 * on a thread of its own.
 *
 * Invariants
 * 1. The final MOVE takes the new file out of the lock's directory, by a name that no other attempt uses. A writer that
 *    has lost the lock, for whatever reason, has lost what it would move: a writer that was suspended, or whose request
 *    took long, does no harm.
 * 2. Between the last look at the version and that MOVE no other xhdf5 writer can have replaced the file: it would have
 *    had to take the lock away. Other programs can; replace.c detects that where the server allows it.
 * 3. Each version's date is later than that of the one before: servers report whole seconds, and two versions of one
 *    second and one size would look the same. */
#include "upload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/now.h"
#include "base/waits.h"
#include "watch/trace.h"
#include "aside.h"
#include "compose.h"
#include "landing.h"
#include "lock.h"
#include "merge.h"
#include "replace.h"

#define TURN ".xhdf5-turn/"
#define ATTEMPTS_MOST 100
#define UPLOADS_MOST 3 /* uploads that the network broke off, or that were in vain though nobody else came */
#define MOVES_MOST 5
#define TICKS_MOST 30
#define TICK_NS    300000000u
/* Requests after which nginx most likely keeps a file in memory: open_file_cache_min_uses is 1, or 2 in many
 * examples. */
#define FILE_CACHE_USES 2
#define SHOWN_AFTER_NS 1000000000u /* a shorter upload is not worth a bar */
#define LONG_UPLOAD (16u << 20) /* lasts for many round trips */

/* What became of a step, besides 0 and negative codes. */
enum {
    LOST = 1, /* it met other writers: the next attempt may succeed */
    NOT_DONE, /* the final MOVE has not been done, and may be repeated */
};

struct attempt {
    struct xh_turn lock; /* its directory, with the new file in it */
    int made;
    int moved;           /* the new file is no longer in it */
    struct xh_dav_stat old, fresh; /* the file that is replaced; the new file */
    struct xh_dav_stat shown;      /* what the server shows after the last step; valid if |looked| */
    int looked;
    struct xh_aside quick; /* opens the connection of the last step */
    int quick_begun;
    char aside[64];        /* where the old file was put aside; "": nowhere */
    int aside_stays;       /* the server refuses to remove it */
};

static ptrdiff_t read_new(void *ctx, uint64_t off, char *buf, size_t len, struct xh_err *err)
{
    struct xh_edit *e = ctx;
    xh_count(&e->counters, bytes_sent, len);
    int rc = xh_edit_compose(e, off, buf, len, err);
    xh_progress_at(&e->progress, off + len);
    return rc ? rc : (ptrdiff_t)len;
}

static void beat(void *ctx)
{
    struct xh_edit *e = ctx;
    if (e->turn)
        xh_turn_beat(e->turn);
}

/* Checks that the version |now| may be replaced; if it is not the one below, merges with it. Returns 0 or a negative
 * code. */
static int accept_old(struct xh_edit *e, const struct xh_dav_stat *now, struct xh_err *err)
{
    const struct xh_overlay *v = e->overlay;
    if (xh_dav_is_same(now->validator, v->base_version)) /* both "": there is no file, and there was none */
        return 0;
    int own = now->there ? xh_landing_accept(e, now, err) : 0;
    if (own)
        return own < 0 ? own : 0;
    if (v->mode == XH_OVERLAY_EDIT && now->there)
        return xh_edit_rebase(e, now, err);
    if (!now->there)
        return xh_edit_fail(e, err, XH_E_CHANGED,
                            "the file was removed on the server since it was opened: this is a conflict");
    int rc = xh_edit_fail(e, err, XH_E_CHANGED,
                          "somebody else %s the file on the server since it was opened: this is a conflict",
                          *v->base_version ? "changed" : "made");
    if (v->mode == XH_OVERLAY_CREATE)
        err->sys_errno = EEXIST;
    return rc;
}

/* Returns 1 when |fresh|, or a successor of it, could be taken for |old|, which it is to replace. */
static int looks_older(const struct xh_dav_stat *old, const struct xh_dav_stat *fresh)
{
    return old->there && fresh->mtime_s <= old->mtime_s;
}

/* ---- beside the first client */

static int sign(struct xh_aside *s)
{
    struct attempt *a = s->ctx;
    char owner[96];
    struct xh_dav_stat st;
    int rc = xh_turn_sign(&a->lock, s->e->side, &s->err);
    snprintf(owner, sizeof owner, "%sowner", a->lock.own);
    if (rc == 0 && s->e->overlay->size > LONG_UPLOAD)
        xh_dav_stat(s->e->side, owner, &st, XH_IGNORED); /* learns how versions are asked for, while there is time */
    return rc;
}

static int look(struct xh_aside *s)
{
    return xh_dav_stat(s->e->side, "", s->ctx, &s->err);
}

/* The last step is done: removes the old file that was put aside, or asks what the server shows. If that is the new
 * version, and the file is being closed, the overlay is cleared. */
static int finish(struct xh_aside *s)
{
    struct attempt *a = s->ctx;
    if (a->aside[0]) {
        int rc = xh_dav_delete(s->e->side, a->aside);
        a->aside_stays = rc == XH_E_ACCES || rc == XH_E_STATUS;
    } else {
        a->looked = xh_dav_stat(s->e->side, "", &a->shown, XH_IGNORED) == 0;
    }
    if (s->e->closing && a->looked && xh_dav_is_same(a->shown.validator, a->fresh.validator))
        /* here, beside the removal of the lock: freeing a gigabyte of pages takes a while */
        xh_overlay_clear(s->e->overlay);
    return 0; /* the server has reported success; a failed question is no failure */
}

/* ---- one attempt */

/* Makes the directory of |t|, and with |signs| the owner's file in it. A server that makes directories by itself is
 * not asked for one: the first file in it suffices. Returns 0 or a negative code. */
static int begin_place(struct xh_edit *e, struct xh_turn *t, int signs, struct xh_err *err)
{
    for (;;) {
        int makes = e->careful || !xh_dav_makes_dirs(t->dav), rc = makes ? xh_turn_make(t, err) : 0;
        rc = rc || !signs ? rc : xh_turn_sign(t, t->dav, err);
        if (rc == 0 || makes || (rc != XH_E_NOENT && rc != XH_E_STATUS))
            return rc;
        e->careful = 1;
    }
}

#define CACHED "the server answers from memory (nginx: open_file_cache; or a cache before the server)"

/* The error of a server whose answers are old, where nothing of anybody was replaced. */
static int answers_old(struct xh_edit *e, struct xh_err *err)
{
    return xh_edit_fail(e, err, XH_E_INVAL, CACHED
                        ": what others write is not seen in time, and would be lost. Files cannot be changed there");
}

/* Asks for the owner's file |name| in the new directory. The first time, also proves that the server's answers are
 * not cached: a cached one would hide others' changes. For that |name| is asked for, replaced by a longer file, and
 * asked for again. */
static int look_at_owner(struct xh_edit *e, struct attempt *a, const char *name, struct xh_dav_stat *st,
                         struct xh_err *err)
{
    int rc = 0;
    for (int i = 0; i < (e->is_current ? 1 : FILE_CACHE_USES) && rc == 0; i++)
        rc = xh_dav_stat(e->dav, name, st, err);
    if (rc || e->is_current)
        return rc;
    uint64_t was = st->size;
    a->lock.beats = 10; /* one more digit */
    rc = xh_turn_sign(&a->lock, e->dav, err);
    rc = rc ? rc : xh_dav_stat(e->dav, name, st, err);
    if (rc)
        return rc;
    if (!st->there || st->size != was + 1)
        return answers_old(e, err);
    e->is_current = 1;
    return 0;
}

static int put_back_first(void *e)
{
    return xh_replace_find(e, XH_IGNORED) >= 0;
}

/* Makes the directory for the new file. Where a file is replaced, waits until the server's time is later than that
 * file's date. Returns 0 or a negative code. */
static int make_place(struct xh_edit *e, struct attempt *a, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    struct xh_dav_stat st;
    long long first = 0;
    char owner[96];
    xh_turn_name(&a->lock, e->dav, XH_LOCK, v->id, ++e->attempt, 'n');
    a->lock.save = put_back_first;
    a->lock.ctx = e;
    a->made = 1;
    int rc = begin_place(e, &a->lock, a->old.there, err);
    for (int ticks = 0; rc == 0 && a->old.there; ticks++) {
        snprintf(owner, sizeof owner, "%sowner", a->lock.own);
        rc = look_at_owner(e, a, owner, &st, err);
        if (rc || !looks_older(&a->old, &st))
            break;
        first = ticks == 0 ? st.mtime_s : first;
        if (ticks == TICKS_MOST && st.mtime_s == first)
            return answers_old(e, err); /* the file was put anew for seconds */
        if (ticks == TICKS_MOST)
            return xh_edit_fail(e, err, XH_E_STATUS,
                                "the file's date is in the server's future: two versions could not be told apart");
        xh_pause_ns(TICK_NS);
        rc = xh_turn_sign(&a->lock, e->dav, err);
    }
    return rc;
}

/* |what| gets what is shown of the URL: its last part. */
static void progress_begin(struct xh_edit *e, char *what, size_t size)
{
    const char *shown = xh_dav_shown(e->dav), *last = strrchr(shown, '/');
    snprintf(what, size, "sending %s", last ? last + 1 : shown);
    xh_progress_begin(&e->progress, what, e->overlay->size, "bytes");
    e->progress.after_ns = SHOWN_AFTER_NS;
    e->progress.quiet |= !xh_progress_wanted(e->opt.progress);
}

/* Sends the new file into its directory; where there is no old file, sends the owner's file beside it. Returns 0,
 * LOST or a negative code. */
static int upload(struct xh_edit *e, struct attempt *a, struct xh_err *err)
{
    struct xh_dav_source source = {.size = e->overlay->size, .read = read_new, .tick = beat, .ctx = e};
    struct xh_aside owner = {.e = e, .ctx = a, .run = sign};
    char data[sizeof a->lock.own + sizeof a->lock.data], what[48];
    uint64_t begun = xh_now_ns();
    progress_begin(e, what, sizeof what);
    snprintf(data, sizeof data, "%s%s", a->lock.own, a->lock.data);
    if (!a->old.there)
        xh_aside_begin(&owner);
    int rc = xh_dav_put(e->dav, data, &source, err);
    if (rc == 0)
        xh_progress_end(&e->progress, source.size);
    else
        xh_progress_clear(&e->progress);
    if (rc == XH_E_INTR && e->side)
        xh_dav_give_up(e->side, 1);
    if (!a->old.there)
        rc = xh_aside_end(&owner, rc, err);
    if (e->side)
        xh_dav_give_up(e->side, 0);
    if (!a->old.there && e->side)
        xh_dav_learn(e->dav, e->side);
    if (rc && !a->old.there && !e->careful && xh_dav_makes_dirs(e->dav)) {
        e->careful = 1; /* it may not behave like other servers of its name */
        rc = rc == XH_E_NOENT || rc == XH_E_STATUS ? LOST : rc;
    }
    if (rc == 0)
        xh_trace(XH_T_VFD, "uploaded", "url=%s bytes=%" PRIu64 " ms=%" PRIu64, xh_dav_shown(e->dav), e->overlay->size,
                 (xh_now_ns() - begun) / 1000000u);
    return rc;
}

/* Checks that the new file in the lock is complete. Returns 0, LOST or a negative code. */
static int check_new(struct xh_edit *e, struct attempt *a, struct xh_err *err)
{
    if (a->fresh.there && a->fresh.size == e->overlay->size)
        return looks_older(&a->old, &a->fresh) ? LOST : 0;
    int mine = a->fresh.there ? 1 : xh_turn_is_mine(&a->lock, err);
    if (mine <= 0)
        return mine ? mine : LOST;
    return xh_edit_fail(e, err, XH_E_STATUS, "the server has %" PRIu64 " bytes of the new file, %" PRIu64 " were sent",
                        a->fresh.there ? a->fresh.size : 0, e->overlay->size);
}

static int is_network(int rc)
{
    return rc == XH_E_NET || rc == XH_E_TIMEOUT || rc == XH_E_PROTO;
}

/* 1 when an attempt that ended with |rc| leaves things at the server: it cannot be asked to remove them, or is not to
 * be waited for. */
static int leaves(int rc)
{
    return is_network(rc) || rc == XH_E_INTR;
}

/* Finds the effect of the final MOVE, which returned |rc|. Returns 0: it was done; LOST; NOT_DONE; or a
 * negative code. */
static int what_became(struct xh_edit *e, struct attempt *a, int rc, struct xh_err *err)
{
    struct xh_dav_stat now;
    struct xh_err why;
    if (rc != XH_E_NOENT && !is_network(rc) && rc != XH_E_STATUS)
        return rc;
    int known = xh_dav_stat(e->dav, "", &now, &why);
    if (known == 0 && now.there && xh_dav_is_same(now.validator, a->fresh.validator)) {
        int ours = xh_edit_is_there(e, &why);
        if (ours > 0)
            return 0;
        known = ours < 0 ? ours : 0;
    }
    int mine = known ? known : xh_turn_is_mine(&a->lock, &why);
    if (mine < 0) {
        xh_err_set(err, mine, why.status, "%.400s. Whether the new version is there is not known", why.text);
        return mine;
    }
    if (!mine && xh_landing_is_undone(e))
        return LOST;
    if (!mine) /* nor is a refusal an answer, of a request that was sent twice: the next attempt looks */
        return xh_edit_fail(e, err, XH_E_NET, "the lock was lost in the last step of a commit. Whether the new version "
                            "was there is not known");
    if (rc == XH_E_STATUS) /* a refusal, though this writer has the lock */
        xh_landing_forget(e);
    return rc == XH_E_STATUS ? rc : NOT_DONE;
}

static void end_quick(struct attempt *a)
{
    if (a->quick_begun)
        xh_aside_end(&a->quick, 0, XH_IGNORED);
    a->quick_begun = 0;
}

/* Puts the new file in the old one's place. The lock is taken. Returns 0, LOST or a negative code. */
static int replace(struct xh_edit *e, struct attempt *a, struct xh_err *err)
{
    struct xh_dav_stat now;
    struct xh_aside old = {.e = e, .ctx = &now, .run = look};
    char data[sizeof XH_LOCK + sizeof a->lock.data];
    snprintf(data, sizeof data, XH_LOCK "%s", a->lock.data);
    xh_aside_begin(&old);
    int rc = xh_dav_stat(e->dav, data, &a->fresh, err);
    rc = xh_aside_end(&old, rc, err);
    rc = rc ? rc : check_new(e, a, err);
    if (rc)
        return rc;
    if (!xh_dav_is_same(now.validator, a->old.validator)) {
        /* A version does not come back: one of the two looks, on connections of their own, shows old ones. */
        int again = now.there && xh_dav_is_same(now.validator, e->missed.validator);
        e->missed = now;
        return again ? answers_old(e, err) : LOST;
    }
    if (xh_dav_is_elsewhere(e->dav) || (e->side && xh_dav_is_elsewhere(e->side)))
        return xh_edit_fail(e, err, XH_E_INVAL,
                            "the server has sent a question about it to another one, as the redirector of a cluster "
                            "does: what is at its name is not known. Files are written at one server alone: open it by "
                            "that server's URL");
    xh_landing_note(e, &a->lock, &a->old, &a->fresh);
    if (a->old.there) {
        end_quick(a);
        rc = xh_replace(e, a->lock.own, data, &a->old, &a->fresh, &a->shown, err);
        a->moved = a->looked = rc == XH_REPLACE_DONE;
        if (a->moved)
            xh_replace_name(a->aside, sizeof a->aside, a->lock.own, 'w');
        if (rc == XH_REPLACE_HIDDEN) {
            xh_landing_forget(e);
            return answers_old(e, err);
        }
        if (rc != XH_REPLACE_NOT)
            return rc == XH_REPLACE_LOST ? LOST : rc;
    }
    for (int i = 0; i < MOVES_MOST; i++) {
        /* nginx refuses to replace a file that should not exist */
        rc = xh_dav_move(e->dav, data, "", a->old.there, err);
        if (rc == 0) {
            a->moved = 1;
            return 0;
        }
        int is_taken = rc == XH_E_STATUS && err->status == 412 && !a->old.there;
        /* It may be this writer's own file: the request was sent twice, and its first answer was lost. */
        rc = what_became(e, a, rc, err);
        if (is_taken && rc == XH_E_STATUS)
            return accept_old(e, &(struct xh_dav_stat){.there = 1, .validator = "another"}, err);
        if (rc != NOT_DONE)
            return rc;
    }
    return xh_edit_fail(e, err, XH_E_NET, "the server did not put the new file in its place");
}

/* One attempt. Returns 0, LOST, or a negative code. */
static int attempt(struct xh_edit *e, struct attempt *a, struct xh_err *err)
{
    int rc = 0;
    if (e->found_good) {
        a->old = e->found; /* if it has changed since, the check inside the lock finds that */
    } else {
        rc = xh_dav_stat(e->dav, "", &a->old, err);
        int found = rc || a->old.there ? 0 : xh_replace_find(e, err);
        if (found < 0)
            rc = err->code;
        if (found > 0)
            rc = xh_dav_stat(e->dav, "", &a->old, err);
        rc = rc ? rc : accept_old(e, &a->old, err);
    }
    e->found_good = 0;
    if (rc == XH_E_CANCELLED)
        return LOST;
    rc = rc ? rc : make_place(e, a, err);
    if (rc)
        return rc;
    int is_long = e->overlay->size > LONG_UPLOAD; /* otherwise the connection would be idle during the upload */
    if (a->old.there && !is_long)
        a->quick_begun = xh_replace_begin(e, &a->quick);
    rc = upload(e, a, err);
    if (a->old.there && is_long && rc == 0)
        a->quick_begun = xh_replace_begin(e, &a->quick);
    if (rc)
        return rc == XH_E_CHANGED ? LOST : rc; /* the file was changed while its old bytes were read */
    rc = xh_turn_take(&a->lock, err);
    return rc ? rc : replace(e, a, err);
}

/* The network is gone: notes a name that is removed from the server when the network is back. */
static void leave_for_later(struct xh_overlay *v, const char *name)
{
    size_t used = strlen(v->left);
    if (used + strlen(name) + 2 < sizeof v->left)
        snprintf(v->left + used, sizeof v->left - used, "%s%s", used ? " " : "", name);
}

/* Judges the final state, after the server has reported that the new file is in its place. Returns 0, XH_E_INVAL or
 * XH_E_CHANGED. */
static int judge_end(struct xh_edit *e, const struct attempt *a, struct xh_err *err)
{
    if (!a->looked || xh_dav_is_same(a->shown.validator, a->fresh.validator))
        return 0;
    if (!a->shown.there || xh_dav_is_same(a->shown.validator, a->old.validator))
        return xh_edit_fail(e, err, XH_E_INVAL, CACHED
                            ": it has put the new version in its place, but shows the one before. What others had "
                            "written meanwhile was not seen, and may be lost");
    if (xh_edit_is_there(e, XH_IGNORED) > 0)
        return 0; /* the next version has merged it already */
    return xh_edit_fail(e, err, XH_E_CHANGED,
                        "somebody else replaced the file in the moment in which it was committed: this is a conflict");
}

/* The file is sent. Tells, once, what the server does not let be removed: it would become more with each commit, or
 * hold up each. */
static void tell_refused(struct xh_edit *e, const struct attempt *a, int lock_stays)
{
    if (e->told_stays || (!a->aside_stays && !lock_stays))
        return;
    e->told_stays = 1;
    xh_say("%s is sent, but the server refuses to remove (DELETE) %s, which stays%s. Whoever writes there needs the "
           "right to delete, too",
           xh_dav_shown(e->dav), a->aside_stays ? "the version before it" : "the lock beside it",
           a->aside_stays ? " beside it at each commit, as NAME.xhdf5-…w…" : ": each writer waits ten seconds for it");
}

int xh_upload(struct xh_edit *e, struct xh_dav_stat *fresh, struct xh_err *err)
{
    unsigned broken_off = 0, vain = 0;
    char was[sizeof fresh->validator] = "?";
    for (unsigned i = 0; i < ATTEMPTS_MOST; i++) {
        struct attempt a = {0};
        struct xh_aside back = {.e = e, .ctx = &a, .run = finish};
        int rc = attempt(e, &a, err);
        end_quick(&a);
        xh_trace(XH_T_VFD, "attempt", "url=%s number=%u rc=%d", xh_dav_shown(e->dav), i, rc);
        if (a.made && leaves(rc)) {
            xh_replace_name(a.aside, sizeof a.aside, a.lock.own, 'w');
            leave_for_later(e->overlay, a.lock.own);
            leave_for_later(e->overlay, a.aside);
            a.aside[0] = '\0';
        }
        if (is_network(rc) && rc != XH_E_TIMEOUT && xh_landing_is_done(e, &a.fresh)) {
            rc = 0;
            a.moved = 1;
        }
        if (rc == 0)
            xh_aside_begin(&back);
        int lock_stays = a.made && !leaves(rc) && xh_turn_leave(&a.lock, a.moved);
        if (rc == 0) {
            xh_aside_end(&back, 0, err);
            tell_refused(e, &a, lock_stays);
            rc = judge_end(e, &a, err);
        }
        *fresh = a.fresh;
        if (rc == LOST)
            xh_landing_forget(e);
        vain = rc == LOST && xh_dav_is_same(was, a.old.validator) ? vain + 1 : 0;
        memcpy(was, a.old.validator, sizeof was);
        if (vain + 1 == UPLOADS_MOST)
            return xh_edit_fail(e, err, XH_E_STATUS,
                                "the new file did not come to its place, and nobody else has changed the file: the "
                                "server does not do what it says that it has done");
        /* A server that does not answer has had enough time; a broken connection may be the network's fault. */
        if (rc == 0 || (rc < 0 && !is_network(rc)) || rc == XH_E_TIMEOUT ||
            (is_network(rc) && broken_off++ >= UPLOADS_MOST))
            return rc;
    }
    return xh_edit_fail(e, err, XH_E_TIMEOUT, "others changed the file again and again while it was sent");
}

int xh_upload_turn(struct xh_edit *e, struct xh_turn *turn, struct xh_err *err)
{
    struct xh_err why;
    int rc = xh_edit_side(e, err); /* it beats while the other client sends */
    if (rc)
        return rc;
    xh_turn_name(turn, e->side, TURN, e->overlay->id, ++e->attempt, 't');
    rc = begin_place(e, turn, 1, err);
    int taken = rc ? rc : xh_turn_take(turn, &why);
    if (taken == 0)
        e->turn = turn;
    else if (leaves(taken))
        leave_for_later(e->overlay, turn->own);
    else
        xh_turn_leave(turn, 0);
    if (rc == 0 && taken)
        xh_trace(XH_T_VFD, "no-turn", "url=%s why=\"%s\"", xh_dav_shown(e->dav), why.text);
    return rc;
}
