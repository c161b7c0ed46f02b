/* Locks at the server: see lock.h, and docs/commit.md for their reasons.
 *
 * A lock is a directory with a file in it. It is made under a name of its own and renamed to the lock's name. rename(2)
 * does not replace a directory that is not empty, so of all clients that try, one succeeds. That holds at nginx and at
 * XRootD (where MKCOL makes a directory that exists, and a MOVE replaces a file in spite of "Overwrite: F").
 *
 * Invariants:
 *  1. Nothing is ever PUT into the lock's directory, except the beats of the owner's file in a lock that guards
 *     nothing. A client that takes a lock away also takes what is in it.
 *  2. An owner is dead when its file has not changed for LEASE_NS by the clock of the waiting client: no two clocks
 *     are compared. */
#include "lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/letters.h"
#include "base/now.h"
#include "base/waits.h"
#include "overlay/overlay.h"
#include "watch/trace.h"

#define LEASE_NS 10000000000u
#define BEAT_NS (LEASE_NS / 3)
#define WAIT_MOST_NS (30u * 60 * UINT64_C(1000000000))
#define VAIN_MOST 20 /* refusals of a lock that no client has */
#define NAP_LEAST_MS 30u
#define NAP_MOST_MS 250u
#define NAP_MANY_MS 1000u /* where many wait: each has the lock for about a second */
#define LOOK_NS (LEASE_NS / 10)

static uint32_t dice(void)
{
    uint32_t r = 0;
    if (getrandom(&r, sizeof r, GRND_NONBLOCK) != sizeof r)
        r = (uint32_t)xh_now_ns();
    return r;
}

/* |owners| were seen since the waiting began. Most likely as many others wait, and one of them will ask soon. */
static void nap(unsigned owners)
{
    unsigned most = NAP_MOST_MS + owners * (NAP_MOST_MS / 8);
    most = most < NAP_MANY_MS ? most : NAP_MANY_MS;
    xh_pause_ns((NAP_LEAST_MS + dice() % (most - NAP_LEAST_MS)) * UINT64_C(1000000));
}

static void name_of(char *out, size_t size, const char *dir, const char *file)
{
    snprintf(out, size, "%.70s%s", dir, file);
}

void xh_turn_data(char *out, size_t size, const char *who)
{
    size_t len = strspn(who, "0123456789abcdefghijklmnopqrstuvwxyz");
    out[0] = '\0';
    if (len && len < 48)
        snprintf(out, size, "data-%.*s", (int)len, who);
}

int xh_turn_named(char *out, size_t size, const char *text, char letter)
{
    const char *id = text + strlen(XH_OWNER_WORD);
    size_t n = XH_OVERLAY_ID - 1;
    if (strncmp(text, XH_OWNER_WORD, strlen(XH_OWNER_WORD)) != 0 || strspn(id, "0123456789abcdef") != n || id[n] != 'n')
        return 0;
    size_t digits = strspn(id + n + 1, XH_DIGITS);
    if (!digits || digits > 10 || (id[n + 1 + digits] != ' ' && id[n + 1 + digits] != '\0'))
        return 0;
    snprintf(out, size, XH_TURN_PREFIX "%.*s%c%.*s", (int)n, id, letter, (int)digits, id + n + 1);
    return 1;
}

static int put_owner(struct xh_turn *t, struct xh_dav *d, const char *dir, struct xh_err *err)
{
    char name[96], text[160];
    name_of(name, sizeof name, dir, "owner");
    snprintf(text, sizeof text, "%.120s %u\n", t->text, t->beats);
    return xh_dav_put_text(d, name, text, err);
}

void xh_turn_name(struct xh_turn *t, struct xh_dav *d, const char *name, const char *id, unsigned number, char letter)
{
    *t = (struct xh_turn){.dav = d, .name = name};
    snprintf(t->own, sizeof t->own, XH_TURN_PREFIX "%.16s%c%u/", id, letter, number);
    snprintf(t->text, sizeof t->text, XH_OWNER_WORD "%.16s%c%u", id, letter, number);
    xh_turn_data(t->data, sizeof t->data, t->own + strlen(XH_TURN_PREFIX));
}

int xh_turn_make(struct xh_turn *t, struct xh_err *err)
{
    int rc = xh_dav_mkcol(t->dav, t->own, err);
    if (rc == XH_E_STATUS && err->status == 405) /* asked twice: it exists */
        rc = 0;
    return rc;
}

int xh_turn_sign(struct xh_turn *t, struct xh_dav *d, struct xh_err *err)
{
    return put_owner(t, d, t->own, err);
}

/* Reads the lock's owner; "" when there is none. Returns 0 or a negative code. */
static int whose(struct xh_turn *t, char *text, size_t size, struct xh_err *err)
{
    char name[96];
    size_t len;
    name_of(name, sizeof name, t->name, "owner");
    int rc = xh_dav_get(t->dav, name, text, size - 1, &len, err);
    text[len] = '\0';
    return rc == XH_E_NOENT ? 0 : rc;
}

static int is_own_text(const struct xh_turn *t, const char *text)
{
    size_t n = strlen(t->text);
    return strncmp(text, t->text, n) == 0 && text[n] == ' ';
}

int xh_turn_is_mine(struct xh_turn *t, struct xh_err *err)
{
    char text[256];
    int rc = whose(t, text, sizeof text, err);
    return rc ? rc : is_own_text(t, text);
}

/* Removes |dir|, its file "owner", and its file |data| unless that is "". */
static void remove_dir(struct xh_dav *d, const char *dir, const char *data)
{
    const char *files[] = {"owner", data}; /* the second one is mostly gone */
    char file[96];
    for (size_t i = 0; i < sizeof files / sizeof *files && *files[i]; i++) {
        name_of(file, sizeof file, dir, files[i]);
        xh_dav_delete(d, file);
        if (xh_dav_delete(d, dir) == 0) /* XRootD removes no directory that is not empty */
            return;
    }
}

void xh_turn_remove(struct xh_dav *d, const char *own)
{
    char data[64];
    xh_turn_data(data, sizeof data, own + strlen(XH_TURN_PREFIX));
    remove_dir(d, own, data);
}

/* Takes the lock's directory away from any owner, and removes it. If that one's last step was not done, leaves word of
 * that: it may have been killed in it, and not know. */
static void take_away(struct xh_turn *t)
{
    struct xh_turn gone = {.dav = t->dav};
    struct xh_dav_stat st;
    char name[64], text[256], data[64], file[96], undone[64];
    if (t->save && !t->save(t->ctx))
        return;
    snprintf(name, sizeof name, XH_TURN_PREFIX "gone-%08" PRIx32 "%08" PRIx32 "/", dice(), dice());
    gone.name = name;
    if (xh_dav_move(t->dav, t->name, name, 0, XH_IGNORED)) {
        /* XRootD makes the destination before it finds that there is no source */
        xh_dav_delete(t->dav, name);
        return;
    }
    int is_owner =
        whose(&gone, text, sizeof text, XH_IGNORED) == 0 && strncmp(text, XH_OWNER_WORD, strlen(XH_OWNER_WORD)) == 0;
    xh_turn_data(data, sizeof data, is_owner ? text + strlen(XH_OWNER_WORD) : "");
    name_of(file, sizeof file, name, data);
    /* an earlier attempt of this one's is told by nobody else */
    int is_others = strncmp(text, t->text, strlen(XH_OWNER_WORD) + XH_OVERLAY_ID - 1) != 0;
    if (is_owner && is_others && xh_turn_named(undone, sizeof undone, text, 'u') &&
        xh_dav_stat(t->dav, file, &st, XH_IGNORED) == 0 && st.there) {
        name_of(file, sizeof file, name, "owner");
        xh_dav_move(t->dav, file, undone, 0, XH_IGNORED);
    }
    remove_dir(t->dav, name, data);
}

/* What a waiting client has seen. */
struct wait {
    char was[256];    /* the owner's file; "": there is no owner */
    uint64_t same_ns; /* since when it has been the same */
    uint64_t look_ns; /* when it was last read */
    unsigned owners;  /* how many owners it had meanwhile */
    /* the server closed the connection after a refusal. As each try then costs a handshake, the lock is tried only
     * when a look finds no owner */
    int hung_up;
};

/* Handles a refused move. Returns 1: another client has the lock; 2: this client has it after all; 0: no client has
 * it; or a negative code. Takes the lock away from a dead owner. */
static int look(struct xh_turn *t, struct wait *w, struct xh_err *err)
{
    char text[256];
    int rc = whose(t, text, sizeof text, err);
    uint64_t now = xh_now_ns(), before = w->look_ns;
    w->look_ns = now;
    /* XRootD: the file is being written, or was when its host died; nothing new is known */
    if (rc == XH_E_STATUS && err->status == 423) {
        snprintf(text, sizeof text, "%.250s", *w->was ? w->was : "somebody");
        rc = 0;
    }
    if (rc)
        return rc;
    if (!*text)
        w->was[0] = '\0';
    if (!*text || is_own_text(t, text))
        return *text ? 2 : 0;
    if (strcmp(text, w->was) != 0) {
        const char *beats = strrchr(text, ' ');
        w->owners += !beats || strncmp(text, w->was, (size_t)(beats - text)) != 0;
        snprintf(w->was, sizeof w->was, "%s", text);
        w->same_ns = now;
    } else if (now - before > LEASE_NS) {
        w->same_ns = now; /* this client slept: it was suspended, and perhaps the owner with it */
    } else if (now - w->same_ns > LEASE_NS) {
        xh_trace(XH_T_ORIGIN, "lock-stale", "url=%s lock=%s owner=\"%.60s\"", xh_dav_shown(t->dav), t->name, w->was);
        take_away(t);
        w->was[0] = '\0';
    }
    return 1;
}

/* Returns 1 when |rc| cannot mean that another client has the lock. */
static int is_final(int rc)
{
    return rc == XH_E_ACCES || rc == XH_E_NOSPACE || rc == XH_E_TLS || rc == XH_E_NOMEM || rc == XH_E_SYS ||
           rc == XH_E_INVAL;
}

/* Tries to take the lock. Returns as look(). |*vain| counts the refusals of a lock that no client has. */
static int try_to_take(struct xh_turn *t, struct wait *w, unsigned *vain, struct xh_err *err)
{
    struct xh_err why;
    int rc = xh_dav_move(t->dav, t->own, t->name, 0, err);
    if (rc == 0)
        return 2;
    if (is_final(rc))
        return rc;
    if (rc == XH_E_STATUS)
        w->hung_up |= !xh_dav_is_warm(t->dav);
    /* The owner is asked for now and then, and at once when the answer of the move may have been lost. */
    if (rc == XH_E_STATUS && w->was[0] && xh_now_ns() - w->look_ns <= LOOK_NS)
        return 1;
    int state = look(t, w, &why);
    if (state < 0)
        *err = why;
    *vain = state == 1 ? 0 : *vain + 1;
    if (*vain == VAIN_MOST / 2)
        take_away(t); /* no owner: a client or server was killed and left it */
    return state;
}

int xh_turn_take(struct xh_turn *t, struct xh_err *err)
{
    struct xh_account *account = xh_dav_account(t->dav);
    struct wait w = {0};
    uint64_t begun = xh_now_ns();
    for (unsigned vain = 0; vain < VAIN_MOST;) {
        int state = w.hung_up && w.was[0] ? look(t, &w, err) : 0;
        if (state == 0)
            state = try_to_take(t, &w, &vain, err);
        if (state < 0)
            return state;
        if (state == 2) {
            xh_trace(XH_T_ORIGIN, "lock", "url=%s lock=%s own=%s waited_ms=%" PRIu64, xh_dav_shown(t->dav), t->name,
                     t->own, (xh_now_ns() - begun) / 1000000u);
            t->beat_ns = t->taken_ns = xh_now_ns();
            return 0;
        }
        if (xh_now_ns() - begun > WAIT_MOST_NS)
            return xh_err_set(err, XH_E_TIMEOUT, 0, "%.200s: others have been writing for half an hour",
                              xh_dav_shown(t->dav));
        uint64_t entered = xh_account_enter(account, XH_COPYING), waits = xh_account_enter(account, XH_OTHERS);
        nap(w.owners);
        xh_account_leave(account, XH_OTHERS, waits);
        xh_account_leave(account, XH_COPYING, entered);
    }
    return err->code; /* the server does not rename directories, or somebody removes them */
}

void xh_turn_beat(struct xh_turn *t)
{
    if (xh_now_ns() - t->beat_ns < BEAT_NS)
        return;
    t->beat_ns = xh_now_ns();
    t->beats++;
    put_owner(t, t->dav, t->name, XH_IGNORED);
}

int xh_turn_leave(struct xh_turn *t, int empty)
{
    char owner[96], undone[64];
    if (t->taken_ns && empty && xh_now_ns() - t->beat_ns < LEASE_NS / 2) {
        int trees = xh_dav_removes_trees(t->dav);
        name_of(owner, sizeof owner, t->name, "owner");
        if (trees && xh_dav_delete(t->dav, t->name) == 0)
            return 0;
        int rc = xh_dav_delete(t->dav, owner);
        /* XRootD. Once the directory is empty another client's may replace it, and that one is not removed. */
        if (rc == 0)
            xh_dav_delete(t->dav, t->name);
        return rc == XH_E_ACCES || (trees && rc == XH_E_STATUS); /* XRootD refuses while somebody reads it */
    }
    if (!t->taken_ns || xh_dav_move(t->dav, t->name, t->own, 0, XH_IGNORED) == 0)
        xh_turn_remove(t->dav, t->own);
    else {
        xh_dav_delete(t->dav, t->own); /* as in take_away */
        if (xh_turn_named(undone, sizeof undone, t->text, 'u'))
            xh_dav_delete(t->dav, undone);
    }
    return 0;
}
