/* Locks at the server: a lock is a directory beside the file that one client has at a time. */
#ifndef XH_LOCK_H
#define XH_LOCK_H

#include <stdint.h>

#include "origin/dav.h"

#define XH_LOCK ".xhdf5-lock/"
/* begins the text in the lock's file "owner"; the owner's ID, letter and number follow */
#define XH_OWNER_WORD "xhdf5 "

/* Begins the name of a directory that becomes a lock; the overlay's ID, a letter and a number follow. */
#define XH_TURN_PREFIX ".xhdf5-"

/* A directory that becomes the lock, and its owner. */
struct xh_turn {
    struct xh_dav *dav;
    const char *name;  /* the lock's name: ".xhdf5-lock/" */
    char own[64];      /* the directory's name before it becomes the lock: ".xhdf5-ID/" */
    char text[128];    /* begins the text of its file "owner" */
    char data[64];     /* the new file's name in it, different for each attempt */
    unsigned beats;
    uint64_t beat_ns;
    uint64_t taken_ns; /* 0: it is not the lock */
    /* Called before the lock is taken away from a dead owner, whom |t|'s name alone leads to: saves what would be lost
     * with it. Returns 1: it may be taken away; 0: not now. NULL: there is nothing to save. May ask |dav|. */
    int (*save)(void *ctx);
    void *ctx;
};

/* Sets the names; sends no request. */
void xh_turn_name(struct xh_turn *t, struct xh_dav *d, const char *name, const char *id, unsigned number, char letter);

/* Makes the directory |own|. Returns 0 or a negative code. Blocks. */
int xh_turn_make(struct xh_turn *t, struct xh_err *err);

/* Writes or rewrites the file "owner" in |own|; |d| is the turn's client or another one. Returns 0 or a negative
 * code. Blocks. */
int xh_turn_sign(struct xh_turn *t, struct xh_dav *d, struct xh_err *err);

/* Waits until |own| has become the lock. Returns 0, XH_E_TIMEOUT, or the code of the server's refusal. Blocks, half
 * an hour at most. */
int xh_turn_take(struct xh_turn *t, struct xh_err *err);

/* Sets |out| to the new file's name in the directory of the attempt that |who| begins with (letters and digits). A
 * client that comes back late thus moves nothing of another attempt. "" when |who| begins with none. */
void xh_turn_data(char *out, size_t size, const char *who);

/* Sets |out| to a name beside the file: with the ID and the number of the attempt whose owner's file begins with
 * |text|, and |letter|. Returns 1; or 0 when no commit writes such a text: a stranger that may write beside a file must
 * not choose what others move and remove there. */
int xh_turn_named(char *out, size_t size, const char *text, char letter);

/* Returns 1 when it is the lock, 0 when it no longer is, or a negative code. Blocks. */
int xh_turn_is_mine(struct xh_turn *t, struct xh_err *err);

/* Tells waiting clients every few seconds that the owner is alive; cheap between. A failure does not matter. */
void xh_turn_beat(struct xh_turn *t);

/* Gives up and removes the lock or the directory. |empty|: only the file "owner" is in it. Returns 1 when the server
 * refuses to remove such a lock, so that the next writer waits for it, else 0. Blocks. */
int xh_turn_leave(struct xh_turn *t, int empty);

/* Removes |own|, the directory of an attempt (XH_TURN_PREFIX and so on), and the files that may be in it. Blocks. */
void xh_turn_remove(struct xh_dav *d, const char *own);

#endif
