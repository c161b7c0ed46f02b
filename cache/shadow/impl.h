/* One shadow as a process has it open. What each file of the room does is told by a table in docs/shadow.md.
 *
 * No other room includes this header, nor those of the room's other files: they include only shadow.h and image.h. */
#ifndef XH_SHADOW_IMPL_H
#define XH_SHADOW_IMPL_H

#include <sys/types.h>

#include "base/files.h"
#include "guard.h"
#include "layout.h"

#define XH_DIR_BYTES 1100
#define XH_STUCK 8u

struct xh_shadow {
    /* Constant while the object is in the list. */
    char dir[XH_DIR_BYTES];   /* as asked for; "" when no sharing was wanted */
    char name[XH_NAME_BYTES]; /* "s-<hex of the key>"; a private shadow has a name too */
    char url_hex[65];
    struct xh_layout_head head; /* the head that is in the file, or would be */
    enum xh_private private_;
    int visitor; /* 1: opened by xh_shadow_visit */
    uint64_t sums_of; /* |whose| of xh_sum_page. 0 in memory, where no page comes from another file */
    int dirfd; /* -1: private */
    struct xh_own own_dir; /* it, too; none: so is that */
    uint64_t budget_bytes; /* when it was opened */
    int by_memory;         /* 1: that follows from the memory, as the user has chosen none */
    uint64_t block_words; /* page states in one unit, which is reserved at once */
    uint64_t step_bytes;  /* claimed bytes between two measurements */
    void *map;            /* header, page states and sums; NULL: no storage, every claim is NONE */
    size_t map_bytes;
    struct xh_layout_live *live;
    _Atomic uint16_t *epochs;
    _Atomic uint64_t *words, *sums;
    _Atomic uint64_t *reserved; /* one bit per block of page states and sums: backed by memory, safe to touch */
    struct xh_guard *guard;     /* of |map|; NULL without one */

    /* Changed only by a forked child before it has a second thread. */
    int fd; /* -1: no storage */
    struct xh_own own_file; /* it, too: asked before anything is done to the file that is not only read */

    /* Under xh_shadow_lock. */
    struct xh_shadow *next;
    unsigned refs;

    /* Atomic; used by this process alone. */
    _Atomic uint32_t owner;         /* 0: none yet. Release in owner.c pairs with the claimers' acquire */
    _Atomic uint64_t budget_now;    /* at the last measurement: see xh_shadow_budget */
    _Atomic uint64_t base_bytes;    /* bytes that all files took at the last measurement */
    _Atomic uint64_t others_bytes;  /* of them, those of other files */
    _Atomic uint64_t own_bytes;     /* a private shadow: bytes that its file took at its last measurement */
    _Atomic uint64_t since_bytes;   /* bytes claimed since */
    _Atomic uint64_t inflight;      /* pages claimed by this process now */
    _Atomic uint64_t scan_at_ns;    /* when the next scan of the directory is due */
    _Atomic uint64_t retry_at_ns;   /* no eviction before this time: the last one freed nothing */
    _Atomic int evicting;           /* 1: a thread of this process is making room */
    struct {                        /* owners that were waited for in vain: see page.c */
        _Atomic uint64_t idx, word; /* a page that the owner holds, and its state then; 0: none */
    } stuck[XH_STUCK];
    _Atomic unsigned next_stuck;
};

/* Returns 1 while there is storage to claim pages in. */
static inline int xh_shadow_usable(const struct xh_shadow *s)
{
    return s->fd >= 0 && !xh_guard_broken(s->guard);
}

static inline int xh_page_usable(const struct xh_shadow *s, uint64_t idx)
{
    return xh_shadow_usable(s) && idx < s->head.pages;
}

#endif
