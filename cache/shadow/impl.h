/* What the files of the shadow's room share; nobody else includes it.
 *
 *   shadow.c  the objects of this process, fork        store.c  directory and file: create, check, lock
 *   claim.c   words: claims, at once and for later     page.c   words: publish, read, wait
 *   owner.c   slots: who is alive
 *   vector.c  many small extents read at once
 *   word.c    a word: reserved, changed                sum.c    what a page's bytes are known by
 *   guard.c   a file that shrinks under its mapping
 *   budget.c  how much, and how much is taken          evict.c  making room, whole shadows first
 *   clock.c   which pages of one shadow go             hint.c   what was last known of a URL
 *   turn.c    who does first what many want to do          lack.c    what was looked for in vain
 *   busy.c    how many processes fetch just now
 *   image.c   all shadows seen from outside, for tools
 *
 * One mutex (xh_shadow_lock) guards the list of objects, their reference counts, and the
 * taking of slots. It is the only lock of the room; words take none. It is held over file
 * operations on the shadow's directory, never over a wait, and fork() holds it. */
#ifndef XH_SHADOW_IMPL_H
#define XH_SHADOW_IMPL_H

#include <fcntl.h>
#include <pthread.h>
#include <sys/types.h>

#include "layout.h"

#define XH_NAME_BYTES 96 /* of a file in the directory, or in that of another layout, with its NUL */
#define XH_DIR_BYTES 1100
#define XH_PLACES_MOST 16u
#define XH_PLACE_BYTES 20
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

extern pthread_mutex_t xh_shadow_lock;

/* Tests set it before the first open, to behave as on a kernel with larger pages; 0: the kernel's. */
extern uint64_t xh_shadow_test_unit;

/* shadow.c --------------------------------------------------------------------------------- */

/* Opens the shadow |name| of the directory of |near| only to evict in it: not made when it is
 * not there, its last use not touched. Returns NULL when it is not sound. Owns: close it. */
struct xh_shadow *xh_shadow_visit(struct xh_shadow *near, const char *name);

/* Of this process's other private shadows the one that has most, if that is more than |floor_bytes|; NULL: there is none.
 * Owns: close it. */
struct xh_shadow *xh_shadow_largest_private(const struct xh_shadow *but, uint64_t floor_bytes);

/* store.c ---------------------------------------------------------------------------------- */

/* Opens the directory |path|, as xh_store_dir_path gave it; |create| makes it. Returns a descriptor, which says as
 * long as it is
 * open that the directory is used, or -1 when there is none that may be trusted (traced; one that the user named is
 * told
 * of on standard error, once a process). */
int xh_store_dir(const struct xh_options *o, const char *path, int create);
/* The directory of this layout's shadows, in the one that the options name. */
void xh_store_dir_path(const struct xh_options *o, char path[XH_DIR_BYTES]);

/* Where shadows of all layouts are, seen from the directory of this one's: "" itself, "../" where layouts before 6
 * had theirs,
 * "../v<layout>/" the others. Returns how many. What all layouts have in common is the names of files, and what
 * XH_LOCK_OPEN
 * says: so a file of another one can be counted, and removed when nobody has it open, and is not looked into. */
size_t xh_store_places(int dirfd, char place[XH_PLACES_MOST][XH_PLACE_BYTES]);
/* Opens one of them. Owns: the caller closes it. -1: it is gone. */
int xh_store_place(int dirfd, const char *place);
/* Removes the directories of other layouts that have no shadow and that nobody uses. */
void xh_store_tidy(int dirfd);

/* Fills s->head, s->name, s->url_hex. Returns 0, or -1 when the sizes cannot be represented. */
int xh_store_describe(struct xh_shadow *s, const char *url, const char *validator, uint64_t size);

/* Fills s->head from the file s->name in s->dirfd; 0 when it is sound in itself, else -1. */
int xh_store_describe_existing(struct xh_shadow *s);

/* 1 when |h| is the head of a shadow of that file name, of this layout and boot. */
int xh_store_sound(const struct xh_layout_head *h, const char *name);

/* Opens or creates (a visitor: only opens) the file s->name in s->dirfd and sets s->fd; holds XH_LOCK_OPEN shared.
 * Returns 0, or -1 when no sound one can be had. */
int xh_store_attach(struct xh_shadow *s);

/* Makes a memfd with the same content. Returns 0 or -1. */
int xh_store_private(struct xh_shadow *s);

/* A second open file description of |fd|'s file with XH_LOCK_OPEN held, for fork's child.
 * Async-signal-safe. Returns a descriptor or -1. */
int xh_store_reopen(const struct xh_shadow *s);

/* fcntl of one lock. |type| F_RDLCK, F_WRLCK, F_UNLCK. 0: got it; 1: someone else has it; -1: error. */
int xh_store_lock(int fd, short type, uint64_t at);
/* 1: someone else holds a lock there; 0: nobody; -1: cannot be told. */
int xh_store_locked(int fd, uint64_t at);

/* Removes |name| when nobody has it open. Returns 1 when it is gone. */
int xh_store_drop(int dirfd, const char *name);

int xh_store_sha256(const void *data, size_t len, uint8_t sha[32]); /* 0 or -1 */

/* A name that no other process has: "t-<random>". */
void xh_store_temp_name(char name[XH_NAME_BYTES]);
/* "s-" and 64 hex digits. */
int xh_store_is_shadow_name(const char *name);
/* The names of files that are being built, of hints and of lacks: "t-" and 32, "u-" and 64, "n-" and 64 hex digits.
 * Nothing else is removed: the directory may be one that the user named, and holds other things in. */
int xh_store_is_temp_name(const char *name);
int xh_store_is_hint_name(const char *name);
int xh_store_is_lack_name(const char *name);
void xh_store_hex(const uint8_t sha[32], char hex[65]);
/* Hex SHA-256 of |url|. Returns 0 or -1. */
int xh_store_url_hex(const char *url, char hex[65]);

/* owner.c ---------------------------------------------------------------------------------- */

/* This process's owner number in |s|, taken at the first call; 0 when none can be had. */
uint32_t xh_owner_get(struct xh_shadow *s);
/* 1 when |owner| is proved dead; 0 when it is alive, or that cannot be told. */
int xh_owner_dead(struct xh_shadow *s, uint32_t owner);

/* guard.c ---------------------------------------------------------------------------------- */

/* Installs the handler; once a process. */
void xh_guard_install(void);
/* From here on a fault in [map, map + bytes) breaks the guard instead of ending the process. NULL: no memory. */
struct xh_guard *xh_guard_add(void *map, size_t bytes);
void xh_guard_drop(struct xh_guard *g); /* before the mapping goes; NULL is harmless */
/* 1 when the file shrank: what is mapped are zeros of this process alone from then on. */
int xh_guard_broken(const struct xh_guard *g);

/* 1 while there is something to claim pages in. */
static inline int xh_shadow_usable(const struct xh_shadow *s)
{
    return s->fd >= 0 && !xh_guard_broken(s->guard);
}

static inline int xh_page_usable(const struct xh_shadow *s, uint64_t idx)
{
    return xh_shadow_usable(s) && idx < s->head.pages;
}

/* sum.c ------------------------------------------------------------------------------------ */

#define XH_SUM_PIECES 2u /* no sum: the page comes in pieces */
/* The sum of a page's |len| bytes; odd. |idx| counts, so that a page is not taken for another. Pure. */
uint64_t xh_sum_page(uint64_t idx, const void *bytes, size_t len);

/* word.c ----------------------------------------------------------------------------------- */

/* Makes the words and sums of |idx|'s block safe to touch. Returns 1, or 0 when there is no memory. */
int xh_page_reserve(struct xh_shadow *s, uint64_t idx);
/* Replaces |*old| (kept up to date) by state, owner and flags; flags of |keep| are kept.
 * Returns 1, or 0 as soon as a bit of |mask| differs from |*old|. Wakes waiters. */
int xh_page_change(struct xh_shadow *s, uint64_t idx, uint64_t *old, uint64_t mask, enum xh_state state,
                   uint32_t owner, uint64_t flags, uint64_t keep);

/* claim.c ---------------------------------------------------------------------------------- */

/* |n| claims of this process are over. */
void xh_claims_over(struct xh_shadow *s, uint64_t n);

/* page.c ----------------------------------------------------------------------------------- */

/* Bytes of the origin in page |idx|. */
static inline size_t xh_page_bytes(const struct xh_shadow *s, uint64_t idx)
{
    uint64_t left = s->head.origin_bytes - idx * XH_PAGE_BYTES;
    return left < XH_PAGE_BYTES ? (size_t)left : XH_PAGE_BYTES;
}

/* Orders the copy before the second look at the words (a seqlock reader's fence). Pairs with
 * the evictor's CAS to EVICTING. ThreadSanitizer knows no fences, nor what the kernel copies. */
static inline void xh_page_fence(void)
{
#ifdef __SANITIZE_THREAD__
    atomic_signal_fence(memory_order_acquire);
#else
    atomic_thread_fence(memory_order_acquire);
#endif
}

/* Somebody wrote into the file: the page is to be fetched anew. |w| is its word, which said READY. */
void xh_page_damaged(struct xh_shadow *s, uint64_t idx, uint64_t w);

/* budget.c --------------------------------------------------------------------------------- */

/* What memory is left for this process: of the machine, and of its control groups. */
uint64_t xh_budget_memory(void);
/* The budget when none was given: a quarter of what memory this process may use, at most half
 * of the file system's free space; |used_bytes| of the directory count as free. */
uint64_t xh_budget_auto(int dirfd, uint64_t used_bytes);
/* Bytes that all files of the directory take, but for the one with inode |skip| (0: none). */
uint64_t xh_budget_used(int dirfd, ino_t skip);
/* Measures what is taken, this process's claims in flight included; looks through the whole
 * directory when |scan| or when its time has come. Returns it. */
uint64_t xh_budget_measure(struct xh_shadow *s, int scan);

/* A private shadow is closed: what it took is free. */
void xh_budget_leave(struct xh_shadow *s);

/* evict.c ---------------------------------------------------------------------------------- */

/* Charges one page to the budget, evicting when need be. Returns 1, or 0 when nothing can be freed. */
int xh_evict_charge(struct xh_shadow *s, int meta, struct xh_counters *c);
/* Frees about |want_bytes|: shadows that nobody has open, then pages of |s|; metadata only for
 * metadata's sake (|meta|), or when it has most of the budget. Returns the bytes freed; 0 also
 * when the last attempt failed a moment ago or another thread is at it. */
uint64_t xh_evict_squeeze(struct xh_shadow *s, uint64_t want_bytes, int meta, struct xh_counters *c);

/* clock.c ---------------------------------------------------------------------------------- */

/* Frees about |want_bytes| of |s|, raw pages first; metadata only when no raw page was left and
 * at least |meta_room_bytes| of metadata are there. Returns the bytes freed. */
uint64_t xh_clock_sweep(struct xh_shadow *s, uint64_t want_bytes, uint64_t meta_room_bytes,
                        struct xh_counters *c);

/* hint.c ----------------------------------------------------------------------------------- */

/* 1 when the hint file |name| speaks of a shadow that is no longer there. */
int xh_hint_orphan(int dirfd, const char *name);

/* lack.c ----------------------------------------------------------------------------------- */

/* 1 when nobody believes the lack |name| any more. */
int xh_lack_is_old(int dirfd, const char *name);

#endif
