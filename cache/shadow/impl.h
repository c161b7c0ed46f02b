/* One shadow as a process has it open, and what each file of the room does:
 *
 *   objects.c the objects of this process, fork        store.c  directory and file: create, check, lock
 *   claim.c   words: claims, at once and for later     page.c   words: publish, read, wait
 *   owner.c   slots: who is alive
 *   vector.c  many small extents read at once
 *   page_state.c    a word: reserved, changed                sum.c    what a page's bytes are known by
 *   guard.c   a file that shrinks under its mapping
 *   budget.c  how much, and how much is taken          evict.c  making room, whole shadows first
 *   clock.c   which pages of one shadow go             hint.c   what was last known of a URL
 *   turn.c    who does first what many want to do      negative_cache.c   what was looked for in vain
 *   busy.c    how many processes fetch just now
 *   image.c   all shadows seen from outside, for tools
 *
 * No other room includes this, nor the headers of those files but shadow.h and image.h. */
#ifndef XH_SHADOW_IMPL_H
#define XH_SHADOW_IMPL_H

#include <sys/types.h>

#include "guard.h"
#include "layout.h"

#define XH_NAME_BYTES 96 /* of a file in the directory, or in that of another layout, with its NUL */
#define XH_DIR_BYTES 1100
#define XH_STUCK 8u

struct xh_shadow {
    /* Constant while the object is in the list. */
    char dir[XH_DIR_BYTES];   /* as asked for; "" when no sharing was wanted */
    char name[XH_NAME_BYTES]; /* "s-<hex of the key>", also of a private one */
    char url_hex[65];
    struct xh_layout_head head; /* what is, or would be, in the file */
    int private_; /* 0, or XH_PRIVATE_… */
    int visitor; /* 1: opened by xh_shadow_visit */
    int dirfd; /* -1: private */
    uint64_t budget_bytes;
    uint64_t block_words; /* words of one unit: what is reserved at once */
    uint64_t step_bytes;  /* claimed bytes between two measurements */
    void *map;            /* header, words and sums, or NULL: no storage, every claim is NONE */
    size_t map_bytes;
    struct xh_layout_live *live;
    _Atomic uint16_t *epochs;
    _Atomic uint64_t *words, *sums;
    _Atomic uint64_t *reserved; /* bit per block of words and sums: backed by memory, safe to touch */
    struct xh_guard *guard;     /* of |map|; NULL without one */

    /* Changed only by fork's child before it has a second thread. */
    int fd; /* -1: no storage */

    /* Under xh_shadow_lock. */
    struct xh_shadow *next;
    unsigned refs;

    /* Atomic; of this process alone. */
    _Atomic uint32_t owner;         /* 0: none yet. Release in owner.c, acquire by claimers. */
    _Atomic uint64_t base_bytes;    /* taken by all files at the last measurement */
    _Atomic uint64_t others_bytes;  /* of them, by other files */
    _Atomic uint64_t own_bytes;     /* of a private one: taken by its file at its last measurement */
    _Atomic uint64_t since_bytes;   /* claimed since */
    _Atomic uint64_t inflight;      /* pages claimed by this process now */
    _Atomic uint64_t scan_at_ns;    /* when to look through the directory again */
    _Atomic uint64_t retry_at_ns;   /* no eviction before: the last one freed nothing */
    _Atomic int evicting;           /* 1: a thread of this process makes room */
    struct {                        /* owners that somebody waited for in vain: see page.c */
        _Atomic uint64_t idx, word; /* a page that the owner holds, and its word then; 0: none */
    } stuck[XH_STUCK];
    _Atomic unsigned next_stuck;
};

/* 1 while there is something to claim pages in. */
static inline int xh_shadow_usable(const struct xh_shadow *s)
{
    return s->fd >= 0 && !xh_guard_broken(s->guard);
}

static inline int xh_page_usable(const struct xh_shadow *s, uint64_t idx)
{
    return xh_shadow_usable(s) && idx < s->head.pages;
}

#endif
