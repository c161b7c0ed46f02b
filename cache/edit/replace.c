/* The last step of a commit, where a server takes two requests in one piece: see replace.h, and docs/commit.md.
 *
 * The old file is put aside, and the new one takes its place; neither replaces an existing file. Then the file that was
 * put aside is checked. So a file that a program without a lock has put there in the meantime is found and put back; it
 * is not replaced unseen. Readers miss the file for the microseconds between the two requests.
 *
 * Invariants: nothing is removed except this writer's own files and the version that it replaces. If a server was
 * stopped between the two requests, the old file is beside its name, and moves back to it; this never replaces a
 * file that another writer has put there. Names: .xhdf5-IDwN and .xhdf5-IDvN are files; ID and N are those of the
 * lock's owner .xhdf5-IDnN. */
#include "replace.h"

#include <stdio.h>
#include <string.h>

#include "base/letters.h"
#include "base/waits.h"
#include "watch/trace.h"
#include "landing.h"
#include "lock.h"

#define EXCHANGES_MOST 6 /* in each of them other writers came between */
#define UNKNOWN_MOST   3 /* exchanges without an answer: then the server, or what is before it, takes no such pieces */
#define REFUSED_MOST   3 /* of the new file: what passes would have passed */
#define REFUSED_NS     300000000u /* between two of them: the file is at its name, so this holds up nobody */

enum placed { REFUSED, PLACED, UNKNOWN };

struct swap {
    const char *from, *aside;
    const struct xh_dav_stat *here; /* what should be at the file's name before the swap */
    struct xh_dav_stat was, now; /* what is at |aside|, and at the file's name, after the swap */
    enum placed placed;          /* what became of the move of |from| to the file's name */
    int status;                  /* the server's, of that; 0: not known */
};

static int is_same(const struct xh_dav_stat *a, const struct xh_dav_stat *b)
{
    return a->there && b->there && xh_dav_is_same(a->validator, b->validator);
}

void xh_replace_name(char *out, size_t size, const char *own, char letter)
{
    const char *digits = own + strlen(XH_TURN_PREFIX) + XH_OVERLAY_ID; /* behind the ID and a letter */
    int n = (int)strcspn(digits, "/ ");
    snprintf(out, size, XH_TURN_PREFIX "%.16s%c%.*s", own + strlen(XH_TURN_PREFIX), letter, n < 10 ? n : 10, digits);
}

/* ---- beside the first client: threads with blocked signals */

static int open_quick(struct xh_aside *s)
{
    s->e->is_quick = xh_dav_begin_quick(s->e->quick);
    return 0;
}

int xh_replace_begin(struct xh_edit *e, struct xh_aside *s)
{
    *s = (struct xh_aside){.e = e, .run = open_quick};
    e->is_quick = 0;
    if (e->unknown >= UNKNOWN_MOST || (!e->quick && xh_dav_open(e->url, &e->opt, &e->quick, XH_IGNORED)))
        return 0;
    xh_dav_learn(e->quick, e->dav);
    xh_dav_count(e->quick, &e->counters, &e->account);
    xh_aside_begin(s);
    return 1;
}

static int run_swap(struct xh_aside *s)
{
    struct swap *w = s->ctx;
    int rc = xh_dav_exchange(s->e->quick, w->from, w->aside, &w->was, &w->now, &w->status);
    w->placed = rc ? UNKNOWN : xh_dav_moves(w->status) ? PLACED : REFUSED;
    return rc;
}

/* The connection broke, or the token expired, before anything was done: that is no reason to replace the file without
 * looking at it. Returns 1 when there is another connection, by a client that has looked for its token anew. */
static int begin_again(struct xh_edit *e)
{
    struct xh_aside s;
    xh_dav_close(e->quick);
    e->quick = NULL;
    if (xh_replace_begin(e, &s))
        xh_aside_end(&s, 0, XH_IGNORED);
    return e->is_quick;
}

/* Returns 0, or a negative code when the state of the files is not known. */
static int swap(struct xh_edit *e, struct swap *w, struct xh_err *err)
{
    struct xh_aside s = {.e = e, .ctx = w, .run = run_swap};
    int known = e->is_quick;
    w->placed = UNKNOWN;
    if (known) {
        xh_aside_begin(&s);
        known = s.began && xh_aside_end(&s, 0, XH_IGNORED) == 0;
    /* the slow way, to put back another writer's file */
    } else if (xh_dav_move(e->dav, "", w->aside, 0, XH_IGNORED) == 0 &&
               xh_dav_move(e->dav, w->from, "", 0, XH_IGNORED) == 0) {
        w->placed = PLACED;
    }
    if (!known) {
        e->unknown += (unsigned)e->is_quick;
        e->is_quick = 0;
        w->was = (struct xh_dav_stat){0};
        int rc = xh_dav_stat(e->dav, "", &w->now, err);
        if (rc == 0 && !is_same(&w->now, w->here)) /* else nothing went aside; it need not be asked for */
            rc = xh_dav_stat(e->dav, w->aside, &w->was, err);
        if (rc)
            return rc;
    }
    xh_trace(XH_T_VFD, "exchange", "url=%s from=%s aside=%s was=%s now=%s placed=%d", xh_dav_shown(e->dav), w->from,
             w->aside, w->was.there ? w->was.validator : "-", w->now.there ? w->now.validator : "-", (int)w->placed);
    return 0;
}

/* ---- */

/* Moves the file at |aside| back, if there is no file. Returns 1 when there is one now: what a refusal says is looked
 * at, as the caller may remove |aside| then. */
static int put_back(struct xh_edit *e, const char *aside)
{
    struct xh_err err;
    struct xh_dav_stat now;
    int rc = xh_dav_move(e->dav, aside, "", 0, &err);
    return rc == 0 || (rc == XH_E_STATUS && err.status == 412 &&
                       xh_dav_stat(e->dav, "", &now, XH_IGNORED) == 0 && now.there);
}

/* Moves the file at |aside| back to the file's name if that is free, and removes it if not. Returns 1 when that is
 * done. */
static int undo(struct xh_edit *e, const char *aside)
{
    /* it was replaced since, or has moved back */
    int rc = put_back(e, aside) ? xh_dav_delete(e->dav, aside) : -1;
    return rc == 0;
}

/* Returns 1 for the name of a file that a commit put aside. Anything else that a server or a record names is not
 * touched: a stranger that may write beside a file must not choose what its next writer moves. */
static int is_aside(const char *name)
{
    size_t prefix = strlen(XH_TURN_PREFIX), n = strlen(name);
    return n > prefix + XH_OVERLAY_ID && strncmp(name, XH_TURN_PREFIX, prefix) == 0 &&
           name[prefix + XH_OVERLAY_ID - 1] == 'w' && strspn(name + prefix, "0123456789abcdef") == XH_OVERLAY_ID - 1 &&
           strspn(name + prefix + XH_OVERLAY_ID, XH_DIGITS) == n - prefix - XH_OVERLAY_ID;
}

/* Returns 1 when this client may have put a file aside in one piece, or others at this server. */
static int puts_aside(const struct xh_edit *e)
{
    return xh_dav_removes_trees(e->dav) && !xh_dav_makes_dirs(e->dav);
}

void xh_replace_tidy(struct xh_edit *e, const char *name)
{
    struct xh_dav_stat st, now;
    if (!is_aside(name) || xh_dav_stat(e->dav, name, &st, XH_IGNORED) || !st.there || !puts_aside(e))
        return;
    if (xh_dav_is_same(st.validator, e->overlay->base_version))
        undo(e, name);
    else if (xh_dav_stat(e->dav, "", &now, XH_IGNORED) == 0 && !now.there)
        put_back(e, name); /* another's: the last step came when the lock was lost */
}

/* The error of a file that is at |aside| and should be at its name. Once it is renamed, what was written here can be
 * sent: so |code| is not XH_E_CHANGED, which has a conflict's advice (keep.c). */
static int lies_aside(const struct xh_edit *e, const char *aside, int code, struct xh_err *err)
{
    return xh_edit_fail(e, err, code,
                        "the file lies at the server as %.200s%.60s, and could not be put back: rename it first",
                        xh_dav_shown(e->dav), aside);
}

int xh_replace_find(struct xh_edit *e, struct xh_err *err)
{
    char owner[256], name[64], data[64], file[sizeof XH_LOCK + sizeof data];
    struct xh_dav_stat st;
    size_t len = 0;
    int rc = puts_aside(e) ? xh_dav_get(e->dav, XH_LOCK "owner", owner, sizeof owner - 1, &len, err) : 0;
    owner[len] = '\0';
    if (rc || !xh_turn_named(name, sizeof name, owner, 'w'))
        return rc && rc != XH_E_NOENT ? -1 : 0;
    xh_turn_data(data, sizeof data, owner + strlen(XH_OWNER_WORD));
    snprintf(file, sizeof file, XH_LOCK "%s", data);
    /* If the new file is not in the lock any more, it took the old one's place, and was removed there since. */
    rc = xh_dav_stat(e->dav, file, &st, err);
    if (rc == 0 && st.there)
        rc = xh_dav_stat(e->dav, name, &st, err);
    if (rc || !st.there)
        return rc ? -1 : 0;
    xh_trace(XH_T_VFD, "put-back", "url=%s from=%s", xh_dav_shown(e->dav), name);
    if (put_back(e, name))
        return 1;
    lies_aside(e, name, XH_E_STATUS, err);
    return -1;
}

static int stranded(struct xh_edit *e, const struct swap *w, const char *aside, int code, struct xh_err *err)
{
    if (w->placed != PLACED && !w->now.there)
        xh_landing_forget(e); /* the new file did not come there */
    return lies_aside(e, aside, code, err);
}

/* The error of a step without an answer. The lock stays, by which the old file is found. */
static int not_known(struct xh_err *err, int code, int status, const char *why)
{
    return xh_err_set(err, code, status, "%.400s. Whether the new version is there is not known", why);
}

/* The new file did not come to its name in the first swap. Puts back what was put aside. Returns XH_REPLACE_LOST, or a
 * negative code. */
static int undo_first(struct xh_edit *e, const struct swap *w, int is_old, struct xh_err *err)
{
    struct xh_err why;
    if (!w->was.there)
        return XH_REPLACE_LOST;
    if (w->placed == UNKNOWN && is_old && w->now.there && !xh_landing_is_undone(e)) {
        undo(e, w->aside);
        return not_known(err, XH_E_NET, 0, "the server did not answer, and somebody else has written the file since");
    }
    if (w->placed == REFUSED || is_old)
        return undo(e, w->aside) ? XH_REPLACE_LOST : stranded(e, w, w->aside, XH_E_NET, err);
    /* Another's version is not removed for a file that may be this writer's own, hidden by a cache; and nothing is sent
     * again now, as that would be merged with it. */
    int rc = xh_dav_move(e->dav, w->aside, "", 0, &why);
    return rc == 0 ? XH_REPLACE_LOST : stranded(e, w, w->aside, XH_E_STATUS, err);
}

/* The new file did not come to its name, the old one was put back, and no other writer has to do with it. Returns 0
 * when it may be tried again, XH_REPLACE_NOT, or a negative code. |n| counts the refusals. */
static int after_refusal(struct xh_edit *e, const struct swap *w, unsigned *n, struct xh_err *err)
{
    int code = w->status == 401 || w->status == 403   ? XH_E_ACCES
               : w->status == 413 || w->status == 507 ? XH_E_NOSPACE
                                                      : XH_E_STATUS;
    if (w->placed == UNKNOWN)
        return begin_again(e) ? 0 : XH_REPLACE_NOT;
    if (code == XH_E_STATUS && ++*n < REFUSED_MOST) {
        xh_pause_ns(REFUSED_NS);
        return 0;
    }
    xh_landing_forget(e);
    return xh_err_set(err, code, w->status,
                      "%.200s: %d at MOVE: the server has taken the new file, and does not put it in the old one's "
                      "place", xh_dav_shown(e->dav), w->status);
}

/* Returns 1 when |data| is still in this writer's lock, whose name no other attempt uses. */
static int is_in_lock(struct xh_edit *e, const char *data)
{
    struct xh_dav_stat st;
    return xh_dav_stat(e->dav, data, &st, XH_IGNORED) == 0 && st.there;
}

/* The file that should be put back, at |from|, did not come to its name, and what was there is aside. Puts back the
 * newer one of the two. Returns XH_REPLACE_LOST, or a negative code. */
static int undo_later(struct xh_edit *e, const struct swap *w, int is_own, struct xh_err *err)
{
    const char *back = is_own ? w->from : w->aside, *rest = is_own ? w->aside : w->from;
    if (!undo(e, back))
        return stranded(e, w, back, XH_E_NET, err);
    xh_dav_delete(e->dav, rest);
    return XH_REPLACE_LOST;
}

int xh_replace(struct xh_edit *e, const char *own, const char *data, const struct xh_dav_stat *old,
               const struct xh_dav_stat *fresh, struct xh_dav_stat *shown, struct xh_err *err)
{
    char name[2][64];
    struct xh_dav_stat top = *fresh, expected = *old; /* what this writer puts there, and what it should find there */
    const char *from = data;
    unsigned refused = 0;
    int hidden = 0; /* the server did not show the file that was there */
    if (!e->is_quick)
        return XH_REPLACE_NOT;
    xh_replace_name(name[0], sizeof name[0], own, 'w');
    xh_replace_name(name[1], sizeof name[1], own, 'v');
    for (int i = 0; i < EXCHANGES_MOST; i++) {
        struct swap w = {.from = from, .aside = from == name[0] ? name[1] : name[0], .here = &expected};
        int rc = swap(e, &w, err);
        if (rc) { /* as without a network, whatever the refusal */
            struct xh_err why = *err;
            return not_known(err, rc == XH_E_TIMEOUT ? rc : XH_E_NET, why.status, why.text);
        }
        int shows = is_same(&w.now, &top), is_expected = is_same(&w.was, &expected);
        /* a refusal need not be true either, if the new file is at its name and no longer in the lock */
        if (shows && (w.placed == UNKNOWN || (i == 0 && w.placed == REFUSED && !is_in_lock(e, data))))
            w.placed = PLACED;
        if (i == 0 && w.placed != PLACED && !w.was.there) {
            if (!is_same(&w.now, old)) /* another writer has removed the file */
                return XH_REPLACE_LOST;
            if (e->is_quick || !begin_again(e)) /* refused, or never answered; neither request was done */
                return XH_REPLACE_NOT;
            i--;
            continue;
        }
        /* the second request failed: another writer came first, or the lock is lost, or the server stopped there, or
         * refuses it: then nothing but that keeps the new file, which is not sent again for it */
        if (i == 0 && !w.now.there && (w.placed != PLACED || is_expected)) {
            rc = undo_first(e, &w, is_expected, err);
            if (rc != XH_REPLACE_LOST || !is_expected || !is_in_lock(e, data))
                return rc;
            if ((rc = after_refusal(e, &w, &refused, err)) != 0)
                return rc;
            i--;
            continue;
        }
        if (i == 0 && w.placed != PLACED)
            return undo_first(e, &w, is_expected, err);
        if (w.placed != PLACED && !w.was.there)
            continue; /* the server was away: what is to be put back is still where it was */
        if (w.placed != PLACED)
            return undo_later(e, &w, is_expected, err);
        if (i == 0 && (is_expected || !w.was.there)) {
            *shown = w.now;
            /* old: an answer from a cache, if that is not all that the server says wrongly */
            if (shows || (is_same(&w.now, old) && !is_in_lock(e, data)))
                return XH_REPLACE_DONE;
            /* another writer's file came right behind */
            return w.was.there ? undo_first(e, &w, is_expected, err) : XH_REPLACE_LOST;
        }
        if (!w.was.there || is_expected) {
            xh_dav_delete(e->dav, w.aside); /* this writer's own file */
            e->missed = top;
            return hidden && is_expected ? XH_REPLACE_HIDDEN : XH_REPLACE_LOST;
        }
        /* the file that was put aside is another writer's, and newer than what this writer knew: put it back */
        expected = top;
        top = w.was;
        from = w.aside;
        hidden = !shows || (i == 0 && is_same(&w.was, &e->missed));
    }
    xh_landing_forget(e);
    return xh_edit_fail(e, err, XH_E_STATUS,
                        "others replace the file again and again. The newest of their versions lies at the server as "
                        "%.200s%.60s: rename it first", xh_dav_shown(e->dav), from);
}
