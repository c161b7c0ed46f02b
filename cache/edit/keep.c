/* What stays of a file that was not sent, and the end of an open file: see keep.h. */
#include "keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/process.h"
#include "lock.h"
#include "merge.h"
#include "replace.h"
#include "super.h"
#include "watch/trace.h"

#define ADVICE_BYTES 280u /* longest text of advise(), with its NUL */
#define ADVISED_BYTES (sizeof ((struct xh_err *)0)->text - sizeof ". ") /* of the reason, and of what is added */
#define UNSAFE_BYTES 160u /* longest sentence of unsafe(), with its NUL */
#define WHERE_BYTES 200u  /* longest sentence of where(), with its NUL */

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
    for (char *name = strtok_r(names, " ", &at); name; name = strtok_r(NULL, " ", &at))
        if (is_ours(name))
            xh_turn_remove(e->dav, name);
        else
            xh_replace_tidy(e, name);
    names[0] = '\0';
}

int xh_edit_say_stale(const struct xh_edit *e, struct xh_err *err)
{
    return xh_edit_fail(e, err, XH_E_CHANGED,
                        "this is a conflict: an earlier commit took over what somebody else had changed, and then "
                        "older bytes were written over it, which HDF5 still had in memory. Close the file, open it "
                        "again, and write that anew");
}

int xh_edit_save(struct xh_edit *e, enum xh_overlay_state state, struct xh_err *err)
{
    int rc = xh_overlay_save(e->overlay, state, 1, err);
    if (rc == 0 && e->overlay->unsynced)
        xh_trace(XH_T_VFD, "names_unsynced", "errno=%d path=%s", e->overlay->unsynced, e->overlay->path);
    return rc;
}

/* What to add where |v| is |kept|: "", or that it is not safe on the disk. A file system that never syncs directories
 * is no failure: docs/writing.md says what holds there. Returns |out|. */
static const char *unsafe(const struct xh_overlay *v, int kept, char *out, size_t size)
{
    int never = v->unsynced == EINVAL || v->unsynced == EBADF || v->unsynced == EOPNOTSUPP || v->unsynced == ENOSYS;
    out[0] = '\0';
    if (kept && v->unsynced && !never)
        snprintf(out, size, ". Its directory could not be synced (%.60s): if this machine fails, it may be lost",
                 strerror(v->unsynced));
    return out;
}

/* What to add where what is kept lies in the directory that the option overlay_dir names: "", or the variable by which
 * the command finds it, whatever set the option here. Returns |out|. */
static const char *where(const struct xh_edit *e, char *out)
{
    const char *path = e->overlay->path;
    int n = (int)(strrchr(path, '/') - path);
    out[0] = '\0';
    if (e->opt.overlay_dir[0] &&
        snprintf(out, WHERE_BYTES, ". The command needs XHDF5_OVERLAY_DIR=%.*s", n, path) >= (int)WHERE_BYTES)
        snprintf(out, WHERE_BYTES, ". The command needs XHDF5_OVERLAY_DIR set to the overlay_dir of this program");
    return out;
}

/* Sets |advice| to what became of what was written, and how to get at it. |unsaved|: why it could not be saved, or
 * NULL. |only_kept|: it will never be sent. */
static void advise(const struct xh_edit *e, int code, const char *unsaved, int only_kept, char advice[ADVICE_BYTES])
{
    const struct xh_overlay *v = e->overlay;
    if (unsaved)
        snprintf(advice, ADVICE_BYTES, "What was written was NOT saved: %.180s", unsaved);
    else if (only_kept && code != XH_E_CHANGED)
        snprintf(advice, ADVICE_BYTES, "What was written is kept: \"xhdf5 recover export %s\" writes it to a file",
                 v->id);
    else if (v->broken && !only_kept)
        snprintf(advice, ADVICE_BYTES, "It is no whole file: \"xhdf5 recover drop %s\" removes it", v->id);
    else if (code == XH_E_CHANGED) /* most conflicts end the same however often it is sent */
        snprintf(advice, ADVICE_BYTES,
                 "What was written is kept: \"xhdf5 recover export %s FILE\" writes it to a local file. To have it at "
                 "the server, open the file there again and change it anew; \"xhdf5 recover drop %s\" removes what is "
                 "kept",
                 v->id, v->id);
    else
        snprintf(advice, ADVICE_BYTES,
                 "What was written is kept: \"xhdf5 recover retry %s\" sends it again, \"xhdf5 recover export\" "
                 "writes it to a file",
                 v->id);
}

void xh_edit_keep(struct xh_edit *e, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    char doubt[UNSAFE_BYTES], advice[ADVICE_BYTES], named[WHERE_BYTES] = "";
    struct xh_err own, was = *err;
    snprintf(v->why, sizeof v->why, "%.590s", err->text);
    enum xh_overlay_state as =
        *e->refused || v->state == XH_OVERLAY_WITHHELD ? XH_OVERLAY_WITHHELD : XH_OVERLAY_CLOSED;
    int only_kept = v->behind || *e->refused, unsaved = xh_edit_save(e, as, &own);
    if (unsaved)
        xh_overlay_unsave(v); /* an older record would no longer be true */
    unsafe(v, !unsaved && !v->broken, doubt, sizeof doubt);
    advise(e, was.code, unsaved ? own.text : NULL, only_kept, advice);
    if (!unsaved)
        where(e, named);
    size_t room = ADVISED_BYTES - strlen(advice) - strlen(named) - strlen(doubt);
    xh_err_set(err, was.code, was.status, "%.*s. %s%s%s", (int)room, was.text, advice, named, doubt);
    err->sys_errno = was.sys_errno;
}

int xh_edit_withhold(struct xh_edit *e, struct xh_err *err)
{
    struct xh_overlay *v = e->overlay;
    char doubt[UNSAFE_BYTES], named[WHERE_BYTES];
    struct xh_err why;
    xh_edit_super(e);
    if (v->dirty.n == 0 || xh_edit_differs(e, &why) == 0)
        return 0;
    snprintf(v->why, sizeof v->why, "the program withdrew it, or left it by an exception");
    int rc = xh_edit_save(e, XH_OVERLAY_WITHHELD, &why);
    xh_edit_fail(e, err, rc, "it is not sent, as the program withdrew it, or left it by an exception. ");
    char *more = err->text + strlen(err->text);
    size_t room = sizeof err->text - strlen(err->text);
    if (rc)
        snprintf(more, room, "What was written was NOT saved: %.180s", why.text);
    else if (v->broken || v->behind)
        snprintf(more, room, "It could not have been sent, %s: \"xhdf5 recover drop %s\" removes what was written%s",
                 v->broken ? "as a write had failed" : "as somebody else had changed the same data", v->id,
                 where(e, named));
    else
        snprintf(more, room,
                 "What was written is kept: \"xhdf5 recover retry %s\" sends it, \"xhdf5 recover drop %s\" removes "
                 "it%s%s", v->id, v->id, where(e, named), unsafe(v, 1, doubt, sizeof doubt));
    return rc == 0;
}

int xh_edit_unclosed(const struct xh_edit *e, struct xh_err *err)
{
    char named[WHERE_BYTES];
    if (e->process != xh_process() || e->discard == XH_EDIT_DISCARD_ALL || e->overlay->dirty.n == 0)
        return 0;
    xh_edit_fail(e, err, XH_E_SYS,
                 "the program has ended, and HDF5 has not closed the file, so it is not sent. \"xhdf5 recover list\" "
                 "shows what is kept of it%s",
                 where(e, named));
    return 1;
}

void xh_edit_close_below(struct xh_edit *e)
{
    xh_cache_close(e->file);
    e->file = NULL;
}

void xh_edit_free(struct xh_edit *e, int keep)
{
    xh_edit_close_below(e);
    xh_overlay_close(e->overlay, keep);
    xh_dav_close(e->side);
    xh_dav_close(e->quick);
    xh_dav_close(e->dav);
    xh_extents_free(&e->stale);
    xh_extents_free(&e->pieces);
    free(e->piece);
    free(e->url);
    xh_env_release(&e->opt);
    free(e);
}
