/* The shadow: a sparse tmpfs image of one (origin, validator), shared by processes.
 *
 * One file holds header, a word per page and the pages (layout.h). Pages are
 * XH_PAGE_BYTES long; the last one of an origin may be short. A page's bytes are
 * always those of the origin at that place for this validator: they may be absent,
 * never other. Where there is no usable tmpfs the same structure lives in a memfd of
 * the process ("private"): callers see no difference.
 *
 * Life of a page: EMPTY -claim-> CLAIMED -publish-> READY -evict-> EVICTING -> EMPTY;
 * CLAIMED -abandon-> EMPTY; CLAIMED of a dead owner -> EMPTY (by any waiter).
 * A page that is fetched later than at once is claimed as LATER; its owner begins it when its bytes come. Until then
 * whoever
 * wants it sooner may take the claim.
 *
 * Knows nothing of HTTP or HDF5. Threads: any. Processes: any of the same user. */
#ifndef XH_SHADOW_H
#define XH_SHADOW_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/extent.h"
#include "base/options.h"
#include "watch/stats.h"

#define XH_PAGE_BYTES 4096u

struct xh_shadow;

/* Opens or creates the shadow of (|url|, |validator|, |size|) below the options'
 * shadow_dir (created 0700; refused when not ours, a symlink or too open), or makes a
 * private one (shadow=off, no tmpfs, no space, foreign directory, damaged file that
 * cannot be set aside). One object per shadow and process: opening again returns the
 * same object with one more reference. |url| is the full URL; only its SHA-256 and its
 * shown form are stored. |size| > 0.
 * Returns 0 or XH_E_NOMEM / XH_E_SYS when not even a private one can be had.
 * Owns: the caller closes it. Does not block on other processes. */
int xh_shadow_open(const char *url, const char *validator, uint64_t size, const struct xh_options *o,
                   struct xh_shadow **out, struct xh_err *err);
void xh_shadow_close(struct xh_shadow *s);

/* 0: processes share it. Else why it is private to this process. */
int xh_shadow_private(const struct xh_shadow *s);
#define XH_PRIVATE_WANTED 1  /* the option shadow is off, or nothing can be shared of this file */
#define XH_PRIVATE_NO_ROOM 2 /* no room, or no file could be made */
#define XH_PRIVATE_NO_DIR 3  /* the directory cannot be used */

/* How many private shadows of this process hold more than a little; at least 1. They share private_budget_bytes. */
unsigned xh_shadow_privates(void);

/* Counters to add pages_published, pages_evicted, claims_taken_over to: given with each
 * call that may do so, as several open files share one shadow. May be NULL. */

enum xh_claim {
    XH_CLAIM_MINE,  /* EMPTY before: now claimed by this process; caller must publish or abandon */
    XH_CLAIM_READY, /* published: xh_shadow_read will most likely find it */
    XH_CLAIM_BUSY,  /* in flight elsewhere: xh_shadow_wait */
    XH_CLAIM_NONE   /* no claim can be had (budget and eviction exhausted, tmpfs full): bypass */
};

/* Tells those who list shadows that |bytes| of reads were found in |s|. Not for each hit: readers share
 * the line that it writes. */
void xh_shadow_tell_hits(struct xh_shadow *s, uint64_t bytes);

/* 1 when other processes have the shadow open too. One system call. */
int xh_shadow_shared(struct xh_shadow *s);

/* How many processes have it open, this one included, and ever asked for that or fetched something; no more than so
 * many are counted. A system call each. */
#define XH_READERS_MOST 64
unsigned xh_shadow_readers(struct xh_shadow *s);

/* This process waits for what the origin sends it, or no longer does. Cheap: to be said as bytes come. One of those who
 * wait at a time is remembered, for 100 ms. */
void xh_shadow_waits(struct xh_shadow *s, int waits);

/* 1 when another process does. */
int xh_shadow_other_waits(struct xh_shadow *s);

/* Of the processes that have it open one walks ahead through the metadata, for all: 1 when it is this one, as no other
 * has asked for 300 ms. |busy|: it has something on its way, and stays the one; else it is that for 300 ms more at most, and then
 * whoever asks first. Cheap: to be asked whenever there may be something to fetch ahead. */
int xh_shadow_walks(struct xh_shadow *s, int busy);

/* 1 when another process is the one. */
int xh_shadow_other_walks(struct xh_shadow *s);

/* How many processes with a shadow in the same directory, this one included, fetched something within the last two
 * seconds, of whatever file. To be called when something is fetched. Some system calls every 100 ms. */
unsigned xh_shadow_busy(struct xh_shadow *s);

/* The same where a file is to be opened as |o| says, and has no shadow yet. */
unsigned xh_shadow_crowd(const struct xh_options *o);

/* Marks the EMPTY ones of |n| pages from |first| as read once without being kept. Returns how many of
 * them were marked before: reading those again is worth keeping them. |*empty|: how many are EMPTY. */
uint64_t xh_shadow_touch(struct xh_shadow *s, uint64_t first, uint64_t n, uint64_t *empty);

/* Claims page |idx|, or says who has it. Never blocks, no system call in the common
 * case. |meta| marks the page as metadata, which outlives raw data in eviction. */
enum xh_claim xh_shadow_claim(struct xh_shadow *s, uint64_t idx, int meta, struct xh_counters *c);

/* The same for a page whose bytes are yet to be fetched. MINE: the caller must begin it before it fills it, or forgo
 * it.
 * |take|: also a page that another claim, of this process or another, has not begun. */
enum xh_claim xh_shadow_claim_later(struct xh_shadow *s, uint64_t idx, int meta, int take, struct xh_counters *c);

/* The bytes of page |idx|, claimed as LATER, have come. Returns 1: the caller must fill, and publish or abandon it;
 * or 0: the
 * claim was taken by somebody else, and is no more the caller's affair. */
int xh_shadow_begin(struct xh_shadow *s, uint64_t idx);

/* Gives up |n| pages from |first| that the caller has claimed as LATER and not begun, in so far as nobody took them. */
void xh_shadow_forgo(struct xh_shadow *s, uint64_t first, uint64_t n);

/* 1 when page |idx| is claimed, by whomever, and not begun. */
int xh_shadow_is_later(struct xh_shadow *s, uint64_t idx);

/* What is claimed and not begun around page |idx|, which is so too; else |all| is 0. */
#define XH_LATER_LOOK_PAGES 65536u /* so far either way: 256 MiB; the look takes 0.1 ms */
struct xh_later {
    uint64_t first; /* without a gap from here to |idx| */
    uint64_t all;   /* pages */
};
void xh_shadow_look_later(struct xh_shadow *s, uint64_t idx, struct xh_later *out);

/* Says what xh_shadow_claim would, without claiming: MINE means EMPTY here. */
enum xh_claim xh_shadow_peek(struct xh_shadow *s, uint64_t idx);

/* 1 when another process has claimed page |idx|. */
int xh_shadow_elsewhere(struct xh_shadow *s, uint64_t idx);

/* Stores whole pages that the caller has claimed (the object's last one may be shorter).
 * Returns 0 or XH_E_NOSPACE (tmpfs full): the caller then abandons those pages. */
int xh_shadow_fill(struct xh_shadow *s, uint64_t off, const void *data, size_t len);

/* Publishes / gives up |n| pages from |first| that the caller has claimed and filled.
 * Wakes waiters. */
void xh_shadow_publish(struct xh_shadow *s, uint64_t first, uint64_t n, struct xh_counters *c);
void xh_shadow_abandon(struct xh_shadow *s, uint64_t first, uint64_t n);

/* Copies [off, off+len) into |buf| as far as the pages from the start on are READY, and
 * stayed so while copying. Returns the number of good bytes copied: |len| when all were
 * there; less, down to 0, when a page was not. (Bytes of |buf| after that are undefined.)
 * Takes no lock; a hit on 4 KiB costs under a microsecond. */
size_t xh_shadow_read(struct xh_shadow *s, uint64_t off, void *buf, size_t len);

/* The same for |n| extents, each whole or not at all: returns how many, from the first on, were copied. Of the
 * buffers of the
 * others some may have been written to. Small ones that lie close together, upwards, share system calls and sums. */
size_t xh_shadow_readv(struct xh_shadow *s, const struct xh_extent *ext, size_t n);

/* Waits until page |idx| is no longer CLAIMED as it is now, at most |timeout_ms|.
 * Proves the owner alive from time to time; a dead owner's claim is set EMPTY.
 * An owner that was waited for in vain is not waited for again until it has moved.
 * Returns 0 (look again) or XH_E_TIMEOUT (still claimed by an owner that is alive or
 * cannot be proved dead: fetch for yourself, privately). */
int xh_shadow_wait(struct xh_shadow *s, uint64_t idx, int timeout_ms, struct xh_counters *c);
/* The same, but the time that is over proves nothing of the owner: there is more to come. */
int xh_shadow_doze(struct xh_shadow *s, uint64_t idx, int timeout_ms, struct xh_counters *c);

/* Hints: what this user last knew of a URL, one small file per URL beside the shadows:
 * opaque text of at most XH_HINT_BYTES that the origin's room writes and checks. */
#define XH_HINT_BYTES 2048
/* Returns the length (NUL-terminated text in |buf|), 0 when there is none, or when a
 * shadow for it is no longer there. */
size_t xh_shadow_hint_load(const char *url, const struct xh_options *o, char buf[XH_HINT_BYTES]);
/* Replaces the hint of |s|'s URL atomically; failure is silent (it costs a request next time).
 * A private shadow leaves none. */
void xh_shadow_hint_save(struct xh_shadow *s, const char *text);

/* Remembers for the user's other processes that something, |name| of any text, was looked for in vain; |lacks| 0: that it is
 * there after all. lacks: 1 when that was noted in the last |lasts_s| seconds, at most XH_NEGATIVE_MOST_S. Costs a few system calls; never fails. */
#define XH_NEGATIVE_MOST_S 3600
void xh_shadow_note_lack(const char *name, const struct xh_options *o, int lacks);
int xh_shadow_lacks(const char *name, const struct xh_options *o, unsigned lasts_s);

/* A turn to do what others may want to do at the same time, see turn.c. */
struct xh_turn {
    int fd; /* -1: none */
    uint64_t at;
};
/* Waits for the turn to do |name|, at most |most_ms|. Returns 1 when it had to wait. Threads, processes: any. */
int xh_shadow_turn(const char *name, const struct xh_options *o, unsigned most_ms, struct xh_turn *t);
/* 1 when others wait for it. */
int xh_shadow_turn_awaited(const struct xh_turn *t);
/* Lets the next one have it; harmless when it is over. */
void xh_shadow_turn_over(struct xh_turn *t);

#endif
