/* Inside edit/: one file that is written, and what its commit consists of. */
#ifndef XH_EDIT_IMPL_H
#define XH_EDIT_IMPL_H

#include <pthread.h>
#include <sys/types.h>

#include "../account.h"
#include "../origin/dav.h"
#include "../overlay/overlay.h"
#include "edit.h"

/* Kinds of the overlay's set |seen|. */
enum {
    XH_SEEN_META = 1,   /* its bytes are in |base|; a merge wants them unchanged */
    XH_SEEN_RAW = 2,    /* likewise; a merge applies what differs from them */
    XH_SEEN_UNKEPT = 3, /* raw data that was read and not kept */
};

#define XH_EDIT_PIECE (1u << 20) /* bytes that are moved or compared at once */

struct xh_edit {
    struct xh_options opt;
    uint64_t process;
    char *url; /* as it was given: user name and password may be in it */
    struct xh_overlay *overlay;
    struct xh_dav *dav;
    struct xh_account account; /* of all that follows */
    struct xh_counters counters; /* of what |file| does not count */
    struct xh_file *file; /* the version that the overlay lies over; NULL: none is needed, or it is gone */
    int broken;           /* a write was lost, or a merge half made: nothing is sent by this process */
    int blind;            /* metadata that is overwritten is not read before: that has failed */
    int unflushed;        /* something was written since the last record */
    enum xh_edit_discard discard;
    int closing;
    int told;             /* in the child of a fork: that it cannot write */
    int is_current;       /* the server's answers have been seen to be of what is there, not from memory */
    int careful;          /* the server does not make directories by itself, as it was thought to */
    /* While it is committed: */
    char *piece;          /* XH_EDIT_PIECE bytes */
    unsigned attempt;
    struct xh_turn *turn; /* held during an upload, or NULL */
    struct xh_dav *quick; /* the client of the last step in one piece; NULL: none yet */
    int is_quick;         /* its connection is there */
    struct xh_dav *side;  /* a second client: the turn's, and for what is done beside the first; NULL: none yet */
    struct xh_dav_stat found; /* what was there at opening; a commit that replaces it need not look first */
    int found_good;       /* it has not been used yet */
    uint64_t super_off;   /* the superblock as it goes out */
    size_t super_len;     /* 0: not known */
    unsigned char super[96];
    /* What commits have taken over of others: */
    struct xh_extents stale; /* raw data of which HDF5 may hold older bytes in memory than the version below has */
};

/* The new file's bytes: the overlay over the version below. Returns 0 or a negative code. */
int xh_edit_compose(struct xh_edit *e, uint64_t off, char *buf, size_t len, struct xh_err *err);

/* 1 when the overlay differs from the version below, 0 when not, or a negative code. */
int xh_edit_differs(struct xh_edit *e, struct xh_err *err);

/* Lays the overlay over the server's present version |now| instead of the one below, where that is sound; else
 * XH_E_CHANGED, and nothing is changed. XH_E_CANCELLED: it is not the present one any more; ask again. */
int xh_edit_rebase(struct xh_edit *e, const struct xh_dav_stat *now, struct xh_err *err);

/* 1 when the server's file has every byte that was written, 0 when not, or a negative code. */
int xh_edit_is_there(struct xh_edit *e, struct xh_err *err);

/* Finds the file's superblock. From then on xh_edit_compose gives it as it is when no writer has the file open. */
void xh_edit_super(struct xh_edit *e);

/* 1 when the file is as long as its superblock says; HDF5 flushes one that it has just begun to make. */
int xh_edit_is_whole(struct xh_edit *e);

/* If the superblock begins in |buf|, the file's |len| bytes at |off|: makes it so there. */
void xh_edit_plain(const struct xh_edit *e, uint64_t off, void *buf, uint64_t len);

/* If |p| begins with a superblock: makes it so. Returns its length, or as much of it as matters; 0: it is none that is known. Pure. */
size_t xh_super_plain(unsigned char *p, size_t n);

/* Says that older data was written over what others had changed. Returns XH_E_CHANGED. */
int xh_edit_say_stale(const struct xh_edit *e, struct xh_err *err);

/* A commit failed with |err|: writes the overlay's record, so that it can be recovered, and adds to |err| how. */
void xh_edit_keep(struct xh_edit *e, struct xh_err *err);

/* Removes directories beside the file that this writer made and did not come to remove. */
void xh_edit_tidy(struct xh_edit *e);

/* Closes and frees it; |keep|: what was written stays on this machine. Sends nothing. */
void xh_edit_free(struct xh_edit *e, int keep);

/* ---- beside the first client: aside.c */

/* Something that is done on a thread of its own. */
struct xh_aside {
    struct xh_edit *e;
    int (*run)(struct xh_aside *s); /* returns 0 or a negative code with |err| set; may use the second client, never the first */
    void *ctx;
    pthread_t thread;
    int began, rc;
    struct xh_err err;
};

/* Opens the second client and begins it. Without a client or a thread it is done in end. */
void xh_aside_begin(struct xh_aside *s);

/* Waits for its end. Returns what |run| returned, and its |err|. */
int xh_aside_end(struct xh_aside *s, struct xh_err *err);

/* Opens the second client, unless it is open, and tells it what the first has learned. */
int xh_edit_side(struct xh_edit *e, struct xh_err *err);

/* ---- the last step in one piece: replace.c */

enum { XH_REPLACE_DONE, XH_REPLACE_LOST, XH_REPLACE_NOT }; /* LOST: others came between, and nothing of theirs is gone; NOT: nothing was done */

/* Opens its connection, beside what else is done. Returns 1: the caller ends |s| before xh_replace; 0: there is nothing to end. */
int xh_replace_begin(struct xh_edit *e, struct xh_aside *s);

/* Puts |data|, which is |fresh|, in the place of the file, which should be |old|. DONE: |shown| is what the server shows, and the old one lies at
 * xh_replace_name(|own|, 'w'), to be removed. Returns one of the above, or a negative code. Blocks. */
int xh_replace(struct xh_edit *e, const char *own, const char *data, const struct xh_dav_stat *old, const struct xh_dav_stat *fresh,
               struct xh_dav_stat *shown, struct xh_err *err);

/* The name of the file that goes aside in the attempt whose directory is |own|. */
int xh_replace_name(char *out, size_t size, const char *own, char letter);

/* What lies |aside| goes back to the file's name if that is free, and is removed if it is not. Returns 1 when that is done. */
int xh_replace_undo(struct xh_edit *e, const char *aside);

/* The file is not there. If a server was stopped in the midst of a last step: puts back what lies beside it. Returns 1 when it is there now. */
int xh_replace_find(struct xh_edit *e);

/* ---- locks at the server: lock.c */

#define XH_LOCK ".xhdf5-lock/"
#define XH_OWNER_WORD "xhdf5 " /* of the text in its file "owner"; the owner's ID, letter and number follow */

#define XH_TURN_PREFIX ".xhdf5-" /* of a directory's name that becomes a lock: then the overlay's ID, a letter, a number */

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
