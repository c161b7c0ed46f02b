/* Inside edit/: one file that is written. */
#ifndef XH_EDIT_IMPL_H
#define XH_EDIT_IMPL_H

#include <pthread.h>
#include <sys/types.h>

#include "watch/account.h"
#include "origin/dav.h"
#include "overlay/overlay.h"
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

#endif
