/* Locks at the server: a directory beside the file that one client has at a time. */
#ifndef XH_LOCK_H
#define XH_LOCK_H

#include <stdint.h>

#include "origin/dav.h"

#define XH_LOCK ".xhdf5-lock/"
#define XH_OWNER_WORD "xhdf5 " /* of the text in its file "owner"; the owner's ID, letter and number follow */

/* Of a directory's name that becomes a lock: then the overlay's ID, a letter, a number. */
#define XH_TURN_PREFIX ".xhdf5-"

/* A directory beside the file that one client has at a time. */
struct xh_turn {
    struct xh_dav *dav;
    const char *name;  /* of the lock: ".xhdf5-lock/" */
    char own[64];      /* the directory that becomes the lock: ".xhdf5-ID/" */
    char text[128];    /* of its file "owner" */
    char data[64];     /* what the new file is called in it: as nobody else's */
    unsigned beats;
    uint64_t beat_ns;
    uint64_t taken_ns; /* 0: it is not the lock */
};

/* Names it; asks nothing. */
void xh_turn_name(struct xh_turn *t, struct xh_dav *d, const char *name, const char *id, unsigned number, char letter);

/* Makes the directory |own|. */
int xh_turn_make(struct xh_turn *t, struct xh_err *err);

/* Puts its owner's file into it, or puts it anew; |d| is the turn's client or another one. */
int xh_turn_sign(struct xh_turn *t, struct xh_dav *d, struct xh_err *err);

/* Waits until it has become the lock. Returns 0, or XH_E_TIMEOUT, or what the server refused it with. */
int xh_turn_take(struct xh_turn *t, struct xh_err *err);

/* 1 when it is the lock; 0: not any more; or a negative code. */
int xh_turn_is_mine(struct xh_turn *t, struct xh_err *err);

/* Says that the owner is alive, every few seconds; cheap. Whether it was heard does not matter. */
void xh_turn_beat(struct xh_turn *t);

/* Gives it up, and removes it. |empty|: nothing is in it but the owner's file. */
void xh_turn_leave(struct xh_turn *t, int empty);

/* Removes |own|, the directory of an attempt (XH_TURN_PREFIX and so on), and what may be in it. */
void xh_turn_remove(struct xh_dav *d, const char *own);

#endif
