/* Whether this writer's new file came to its name: see landing.h.
 *
 * The new file keeps its date and size when it is moved, so its version is known before it has its name. That it was
 * moved out of the lock is the proof that it came to its name. A writer that takes the lock away removes that proof; if
 * it finds the new file still there, it leaves the owner's file, under a name of the attempt (letter u).
 * The note: the text of the owner's file, a blank, the new version, a tab, the old one. */
#include "landing.h"

#include <stdio.h>
#include <string.h>

#include "merge.h"
#include "watch/trace.h"

struct note {
    char owner[sizeof ((struct xh_turn *)0)->text];
    char fresh[XH_VALIDATOR_TEXT_BYTES], old[XH_VALIDATOR_TEXT_BYTES];
};

/* Returns 1, or 0 where there is no note that makes sense. */
static int parse(const struct xh_overlay *v, struct note *n)
{
    const char *text = v->landing, *tab = strchr(text, '\t');
    const char *blank = tab && strlen(text) > strlen(XH_OWNER_WORD) ? strchr(text + strlen(XH_OWNER_WORD), ' ') : NULL;
    if (!blank || blank > tab)
        return 0;
    snprintf(n->owner, sizeof n->owner, "%.*s", (int)(blank - text), text);
    snprintf(n->fresh, sizeof n->fresh, "%.*s", (int)(tab - blank - 1), blank + 1);
    snprintf(n->old, sizeof n->old, "%s", tab + 1);
    return *n->fresh != '\0';
}

void xh_landing_note(struct xh_edit *e, const struct xh_turn *t, const struct xh_dav_stat *old,
                     const struct xh_dav_stat *fresh)
{
    char text[sizeof e->overlay->landing];
    snprintf(text, sizeof text, "%s %s\t%s", t->text, fresh->validator, old->validator);
    int bad = xh_overlay_note_landing(e->overlay, text);
    if (bad)
        xh_trace(XH_T_VFD, "landing-unsaved", "errno=%d path=%s", bad, e->overlay->path);
}

void xh_landing_forget(struct xh_edit *e)
{
    if (e->overlay->landing[0])
        xh_overlay_note_landing(e->overlay, "");
}

/* Asks whether the new file still is where it was before the step, or somebody who took the lock away has found it
 * there; if so, forgets it. */
static void weigh(struct xh_edit *e, const struct note *n)
{
    char undone[64], own[64], data[64], places[2][160];
    struct xh_dav_stat st = {0};
    if (!xh_turn_named(undone, sizeof undone, n->owner, 'u') || !xh_turn_named(own, sizeof own, n->owner, 'n'))
        return;
    xh_turn_data(data, sizeof data, own + strlen(XH_TURN_PREFIX));
    snprintf(places[0], sizeof places[0], XH_LOCK "%s", data);
    snprintf(places[1], sizeof places[1], "%s/%s", own, data);
    int rc = xh_dav_stat(e->dav, undone, &st, XH_IGNORED), told = rc == 0 && st.there;
    for (size_t i = 0; i < sizeof places / sizeof *places && rc == 0 && !st.there; i++)
        rc = xh_dav_stat(e->dav, places[i], &st, XH_IGNORED);
    xh_trace(XH_T_VFD, "landing", "url=%s owner=\"%s\" waits=%d rc=%d", xh_dav_shown(e->dav), n->owner, st.there, rc);
    if (rc || !st.there)
        return;
    xh_landing_forget(e);
    if (told)
        xh_dav_delete(e->dav, undone);
}

int xh_landing_is_undone(struct xh_edit *e)
{
    struct note n;
    if (parse(e->overlay, &n))
        weigh(e, &n);
    return !e->overlay->landing[0];
}

/* The step was done; |now| is at the file's name. Removes the old version, if it lies aside. If another one lies there,
 * and nobody has replaced the step's file since, puts it back: then |*undone| is 1. Returns 0 or a negative code. */
static int see_to_aside(struct xh_edit *e, const struct note *n, const struct xh_dav_stat *now, int *undone,
                        struct xh_err *err)
{
    char aside[64], own[64];
    struct xh_dav_stat st;
    if (!xh_turn_named(aside, sizeof aside, n->owner, 'w') || !xh_turn_named(own, sizeof own, n->owner, 'v'))
        return 0;
    int rc = xh_dav_stat(e->dav, aside, &st, err);
    if (rc || !st.there)
        return rc;
    if (xh_dav_is_same(st.validator, n->old)) {
        if (now->there)
            xh_dav_delete(e->dav, aside);
        return 0;
    }
    if (now->there && !xh_dav_is_same(now->validator, n->fresh))
        return xh_edit_fail(e, err, XH_E_CHANGED,
                            "a commit has replaced a version of somebody else that it had not seen, and was replaced "
                            "since. That version lies at the server as %.200s%s: this is a conflict",
                            xh_dav_shown(e->dav), aside);
    /* Killed between the two, this is known still: the next retry finds no file there */
    rc = now->there ? xh_dav_move(e->dav, "", own, 0, err) : 0;
    rc = rc ? rc : xh_dav_move(e->dav, aside, "", 0, err);
    if (rc)
        return rc;
    xh_dav_delete(e->dav, own);
    xh_landing_forget(e);
    *undone = 1;
    return 0;
}

int xh_landing_settle(struct xh_edit *e, struct xh_err *err)
{
    struct note n;
    struct xh_dav_stat now;
    int undone;
    if (!parse(e->overlay, &n))
        return 0;
    int rc = xh_dav_stat(e->dav, "", &now, err);
    if (rc == 0 && !xh_dav_is_same(now.validator, n.fresh))
        weigh(e, &n);
    return rc || !e->overlay->landing[0] ? rc : see_to_aside(e, &n, &now, &undone, err);
}

int xh_landing_is_done(struct xh_edit *e, struct xh_dav_stat *now)
{
    struct note n;
    int undone = 0;
    return parse(e->overlay, &n) && xh_dav_stat(e->dav, "", now, XH_IGNORED) == 0 &&
           xh_dav_is_same(now->validator, n.fresh) && xh_edit_is_there(e, XH_IGNORED) > 0 &&
           see_to_aside(e, &n, now, &undone, XH_IGNORED) == 0 && !undone;
}

int xh_landing_accept(struct xh_edit *e, const struct xh_dav_stat *now, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    struct note n;
    int undone = 0, rc = 0, is_own;
    if (!parse(v, &n))
        return 0;
    /* The same version with other bytes is another writer's of the same second, unless more was written here since. */
    is_own = xh_dav_is_same(now->validator, n.fresh);
    if (!is_own)
        weigh(e, &n);
    if (!v->landing[0])
        return 0;
    if (!is_own || v->readable)
        return xh_edit_fail(e, err, XH_E_CHANGED,
                            "what was written was at the server already, as far as is known, and somebody else has "
                            "changed the file since: this is a conflict");
    rc = see_to_aside(e, &n, now, &undone, err);
    xh_cache_close(e->file);
    e->file = NULL;
    if (rc == 0 && v->base_limit && !undone)
        rc = xh_cache_open_part(e->url, &e->opt, &e->account, &e->file, err);
    if (rc == 0 && (undone || (e->file && !xh_dav_is_same(xh_cache_validator(e->file), now->validator)))) {
        xh_cache_close(e->file);
        e->file = NULL;
        rc = xh_err_set(err, XH_E_CANCELLED, 0, "changed again");
    }
    if (rc)
        return rc;
    snprintf(v->base_version, sizeof v->base_version, "%s", now->validator);
    v->base_size = now->size;
    xh_landing_forget(e);
    return 1;
}
