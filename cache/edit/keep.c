/* What stays of a file that was not sent, and the end of an open file: see keep.h. */
#include "keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "lock.h"
#include "merge.h"
#include "replace.h"
#include "super.h"

/* Returns 1 for the name of an old file that a commit put aside. */
static int is_aside(const char *name)
{
    size_t prefix = strlen(XH_TURN_PREFIX), n = strlen(name);
    return n > prefix + XH_OVERLAY_ID && strncmp(name, XH_TURN_PREFIX, prefix) == 0 &&
           name[prefix + XH_OVERLAY_ID - 1] == 'w' && strspn(name + prefix, "0123456789abcdef") == XH_OVERLAY_ID - 1 &&
           strspn(name + prefix + XH_OVERLAY_ID, "0123456789") == n - prefix - XH_OVERLAY_ID;
}

/* Returns 1 for a directory's name as commits make them. Nothing else at the server is removed, whatever the record
 * says. */
static int is_ours(const char *name)
{
    size_t prefix = strlen(XH_TURN_PREFIX), n = strlen(name);
    return n > prefix + 1 && strncmp(name, XH_TURN_PREFIX, prefix) == 0 && name[n - 1] == '/' &&
           strspn(name + prefix, "0123456789abcdefnt") == n - prefix - 1;
}

void xh_edit_tidy(struct xh_edit *e)
{
    char *names = e->overlay->left, *at = NULL;
    struct xh_dav_stat st;
    struct xh_err ignored;
    for (char *name = strtok_r(names, " ", &at); name; name = strtok_r(NULL, " ", &at))
        if (is_ours(name))
            xh_turn_remove(e->dav, name);
        else if (is_aside(name) && xh_dav_stat(e->dav, name, &st, &ignored) == 0 && st.there &&
                 xh_dav_removes_trees(e->dav) &&
                 strcmp(st.validator, e->overlay->base_version) == 0) /* else another writer has written it */
            xh_replace_undo(e, name);
    names[0] = '\0';
}

int xh_edit_say_stale(const struct xh_edit *e, struct xh_err *err)
{
    return xh_err_set(
        err, XH_E_CHANGED, 0,
        "%.200s: this is a conflict: an earlier commit took over what somebody else had changed, and then older bytes "
        "were written over it, which HDF5 still had in memory. Close the file, open it again, and write that anew",
        xh_dav_shown(e->dav));
}

void xh_edit_keep(struct xh_edit *e, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    struct xh_err own, was = *err;
    snprintf(v->why, sizeof v->why, "%.590s", err->text);
    enum xh_overlay_state as =
        *e->refused || v->state == XH_OVERLAY_WITHHELD ? XH_OVERLAY_WITHHELD : XH_OVERLAY_CLOSED;
    int only_kept = v->behind || *e->refused, unsaved = xh_overlay_save(v, as, 1, &own);
    if (unsaved)
        xh_overlay_unsave(v); /* an older record would no longer be true */
    xh_err_set(err, was.code, was.status,
               unsaved     ? "%.480s. What was written was NOT saved: %.180s"
               : only_kept ? "%.560s. What was written is kept: \"xhdf5 recover export %s\" writes it to a file"
               : v->broken ? "%.560s. It is no whole file: \"xhdf5 recover drop %s\" removes it"
                           : "%.560s. What was written is kept: \"xhdf5 recover retry %s\" sends it again, "
                             "\"xhdf5 recover export\" writes it to a file",
               was.text, unsaved ? own.text : v->id);
    err->sys_errno = was.sys_errno;
}

int xh_edit_withhold(struct xh_edit *e, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    struct xh_err why;
    xh_edit_super(e);
    if (v->dirty.n == 0 || xh_edit_differs(e, &why) == 0)
        return 0;
    snprintf(v->why, sizeof v->why, "the program withdrew it, or left it by an exception");
    int rc = xh_overlay_save(v, XH_OVERLAY_WITHHELD, 1, &why);
    if (rc)
        xh_err_set(err, rc, 0,
                   "%.200s: it is not sent, as the program withdrew it, or left it by an exception. "
                   "What was written was NOT saved: %.200s",
                   xh_dav_shown(e->dav), why.text);
    else if (v->broken || v->behind)
        xh_err_set(err, 0, 0,
                   "%.200s: it is not sent, as the program withdrew it, or left it by an exception. "
                   "It could not have been sent, %s: \"xhdf5 recover drop %s\" removes what was written",
                   xh_dav_shown(e->dav),
                   v->broken ? "as a write had failed" : "as somebody else had changed the same data", v->id);
    else
        xh_err_set(err, 0, 0,
                   "%.200s: it is not sent, as the program withdrew it, or left it by an exception. "
                   "What was written is kept: \"xhdf5 recover retry %s\" sends it, "
                   "\"xhdf5 recover drop %s\" removes it",
                   xh_dav_shown(e->dav), v->id, v->id);
    return rc == 0;
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
