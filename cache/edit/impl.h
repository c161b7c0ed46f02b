/* Inside edit/: one file that is written. */
#ifndef XH_EDIT_IMPL_H
#define XH_EDIT_IMPL_H

#include <sys/types.h>

#include "base/progress.h"
#include "watch/account.h"
#include "origin/dav.h"
#include "overlay/overlay.h"
#include "edit.h"

/* Kinds of the overlay's set |seen|. */
enum {
    XH_SEEN_META = 1,   /* the bytes are in |base|; a merge requires them unchanged */
    XH_SEEN_RAW = 2,    /* the bytes are in |base|; a merge applies what differs from them */
    XH_SEEN_UNKEPT = 3, /* raw data that was read and not kept */
};

/* Sets |err| to |code| and a sentence: the URL of |e|, as it may be shown, and |text|, a literal. Returns |code|. */
#define xh_edit_fail(e, err, code, text, ...) \
    xh_err_set((err), (code), 0, "%.200s: " text, xh_dav_shown((e)->dav)__VA_OPT__(, ) __VA_ARGS__)

#define XH_EDIT_PIECE (1u << 20) /* bytes that are moved or compared at once */

struct xh_edit {
    struct xh_options opt;
    uint64_t process;
    char *url; /* as given: it may contain user name and password */
    struct xh_overlay *overlay;
    struct xh_dav *dav;
    struct xh_account account; /* covers all that follows */
    struct xh_counters counters; /* for what |file| does not count */
    struct xh_file *file; /* the version below the overlay; NULL: none is needed, or it is gone */
    int broken;           /* a write was lost, or a merge failed halfway: this process sends nothing */
    int blind;            /* metadata is overwritten without being read before: a read has failed */
    int unflushed;        /* something was written since the last record */
    char refused[512];    /* nothing is sent, for this reason; "": it is sent */
    enum xh_edit_discard discard;
    int closing;
    int told_stays;       /* 1: it was printed that the server refuses to remove what commits leave */
    int told;             /* 1: a forked child has printed that it cannot write */
    int pages;            /* HDF5 reads and writes whole pages; see xh_edit_has_pages */
    int is_current;       /* the server's answers were proved to show the present state, not a cached one */
    int careful;          /* the server does not make directories by itself, though it seemed to */
    /* During a commit: */
    char *piece;          /* XH_EDIT_PIECE bytes */
    unsigned attempt;
    struct xh_progress progress; /* of an upload */
    struct xh_turn *turn; /* held during an upload; else NULL */
    struct xh_dav *quick; /* the client of xh_replace; NULL: none yet */
    int is_quick;         /* its connection is open */
    unsigned unknown;     /* of its exchanges, how many had no answer */
    struct xh_dav *side;  /* a second client, for the turn and for work beside the first; NULL: none yet */
    struct xh_dav_stat missed; /* the version that an attempt came upon, where its first look had shown another */
    struct xh_dav_stat found; /* the file at opening; a commit that replaces it need not ask first */
    int found_good;       /* |found| has not been used yet */
    uint64_t super_off;   /* the superblock as it is sent */
    size_t super_len;     /* 0: not known */
    unsigned char super[96];
    /* What commits have taken over of others' changes: */
    struct xh_extents pieces; /* raw data that was read before it was written: HDF5's writes, each apart */
    struct xh_extents stale; /* raw data of which HDF5 may have older bytes in memory than the version below */
};

/* Sets the options of |e|, new or left behind: one server and no sidecar, as the file is written at the server of |url|
 * and what lies below is read there alone. Another one that has the file may have an older version of it: its bytes
 * would be sent as this one's. Returns 0 or XH_E_INVAL. */
int xh_edit_settle(struct xh_edit *e, const char *url, const struct xh_options *o, struct xh_err *err);

/* A file must not choose at which servers this program changes files. What it names elsewhere than where its reader's
 * credentials may go is not sent. Returns 0, or XH_E_READONLY. */
int xh_edit_refuse_foreign(struct xh_edit *e, struct xh_err *err);

#endif
