/* The shadow: a sparse tmpfs image of one (origin, validator), shared by the user's processes. xh_shadow_on_disk has
 * those of the disk cache.
 *
 * One file holds the header, a state for each page, and the pages (layout.h). Pages are XH_PAGE_BYTES long; the last
 * one of an origin may be short. A page's bytes are always those of the origin at that place for this validator: they
 * may be absent, never other. Where there is no usable tmpfs, the same structure is in a memfd of this process (a
 * private shadow); callers see no difference.
 *
 * Life of a page: EMPTY -claim-> CLAIMED -publish-> READY -evict-> EVICTING -> EMPTY;
 * CLAIMED -abandon-> EMPTY; CLAIMED of a dead owner -> EMPTY (by any waiter).
 * A page whose bytes are yet to be fetched is claimed as LATER. Its owner begins it when its bytes come. Until then a
 * process that wants the page sooner may take the claim over.
 *
 * The shadow knows nothing of HTTP or HDF5. Threads: any. Processes: any of the same user. */
#ifndef XH_SHADOW_H
#define XH_SHADOW_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/extent.h"
#include "base/options.h"
#include "watch/stats.h"

#define XH_NAME_BYTES 96 /* of a shadow: "s-", 64 hex digits and a NUL; before them the place of another layout */

struct xh_shadow;

/* Opens or creates the shadow of (|url|, |validator|, |size|) below the options' shadow_dir. That directory is created
 * with mode 0700; it is refused when it belongs to another user, is a symlink, or is open to others. Where a shadow
 * cannot be shared (shadow=off, no tmpfs, no space, a foreign directory, a damaged file that cannot be set aside),
 * opens a private one; without any memory for that, one in which every claim is NONE. Opening the same shadow again in
 * a process returns the same object with one more reference. |url| is the full URL; only its SHA-256 and its shown form
 * are stored. |size| > 0, in bytes.
 * Returns 0, XH_E_NOMEM, or XH_E_SYS when the shadow cannot be named (|size| is 0 or too large). Owns: the caller
 * closes |*out|. Does not block on other processes. */
int xh_shadow_open(const char *url, const char *validator, uint64_t size, const struct xh_options *o,
                   struct xh_shadow **out, struct xh_err *err);

/* The disk cache is made of shadows that lie on a local disk and outlive a boot: fills |out| with |o| so that the
 * functions here that take options mean these. Returns 0 when there is to be none. Differences: such a shadow is never
 * private, but XH_E_NOSPACE, which is said once on standard error; it is believed whatever wrote it when, as each page
 * is proved by its sum, of which the shadow and the page's place are part. */
int xh_shadow_on_disk(const struct xh_options *o, struct xh_options *out);

/* The same, made: options are too large for the stack of some threads. NULL: there is to be none, or there is no
 * memory. Owns: free(). */
struct xh_options *xh_shadow_on_disk_new(const struct xh_options *o);

/* Returns 1 when all |n| pages from |first| on are READY. */
int xh_shadow_has(struct xh_shadow *s, uint64_t first, uint64_t n);
void xh_shadow_close(struct xh_shadow *s);

enum xh_private {
    XH_PRIVATE_NOT,     /* processes share it */
    XH_PRIVATE_WANTED,  /* the option shadow is off, or this file cannot be shared */
    XH_PRIVATE_NO_ROOM, /* there is no room, or no file could be made */
    XH_PRIVATE_NO_DIR,  /* the directory cannot be used */
};
/* Returns whether |s| is private, and why: an enum xh_private. */
int xh_shadow_private(const struct xh_shadow *s);

/* Returns how many private shadows of this process hold more than 1 MiB; at least 1. They share
 * private_budget_bytes. */
unsigned xh_shadow_privates(void);

/* Returns the most bytes that |s| may take together with all others of the user; if it is private, of the process. As
 * of the last measurement: less than it was opened with if memory has become short. */
uint64_t xh_shadow_budget(const struct xh_shadow *s);

/* The argument |c| of the functions below gets pages_published, pages_evicted and claims_taken_over. It is given
 * with each call, as several open files share one shadow. It may be NULL. */

enum xh_claim {
    XH_CLAIM_MINE,  /* it was EMPTY and is now claimed by this process: the caller must publish or abandon it */
    XH_CLAIM_READY, /* it is published: xh_shadow_read will most likely find it */
    XH_CLAIM_BUSY,  /* another claim is in flight: use xh_shadow_wait */
    XH_CLAIM_NONE   /* no claim can be had (budget and eviction exhausted, tmpfs full): bypass the shadow */
};

/* Adds |bytes|, which reads found in |s|, to the number that tools list. Not to be called for each hit: readers
 * share the cache line that it writes. */
void xh_shadow_tell_hits(struct xh_shadow *s, uint64_t bytes);

/* Returns 1 when other processes have the shadow open too. Makes one system call. */
int xh_shadow_shared(struct xh_shadow *s);

/* Returns how many processes, this one included, have the shadow open and have called this or claimed a page;
 * XH_READERS_MOST at most. Makes a system call for each. */
#define XH_READERS_MOST 64
unsigned xh_shadow_readers(struct xh_shadow *s);

/* Tells other processes whether this one is waiting for bytes of the origin. Cheap: called as bytes come. One
 * waiting process is remembered at a time, for 100 ms. */
void xh_shadow_waits(struct xh_shadow *s, int waits);

/* Returns 1 when another process is waiting. */
int xh_shadow_other_waits(struct xh_shadow *s);

/* Of the processes that have the shadow open, one walks ahead through the metadata for all. Returns 1 when it is
 * this one: it was it already, or no other has asked for 300 ms. |busy|: it has a transfer on its way, and remains
 * the walker. Else it remains it for 300 ms at most; then the first process that asks becomes it. Cheap: called
 * whenever there may be something to fetch ahead. */
int xh_shadow_walks(struct xh_shadow *s, int busy);

/* Returns 1 when another process walks ahead. */
int xh_shadow_other_walks(struct xh_shadow *s);

/* Returns how many processes with a shadow in the same directory, this one included, have fetched something within
 * the last two seconds, of whatever file. Called when something is fetched. Makes some system calls every 100 ms. */
unsigned xh_shadow_busy(struct xh_shadow *s);

/* Returns what it last was, at least 1. */
unsigned xh_shadow_were_busy(void);

/* A file is opened as |o| says, and has no shadow yet: others count this process from now on. */
void xh_shadow_join(const struct xh_options *o);

/* Marks the EMPTY ones of |n| pages from |first| as read once and not kept. Returns how many of them were marked
 * before: pages that are read again are worth keeping. |*empty| becomes the number of EMPTY pages. */
uint64_t xh_shadow_touch(struct xh_shadow *s, uint64_t first, uint64_t n, uint64_t *empty);

/* Returns the same, and marks none. */
uint64_t xh_shadow_touched(struct xh_shadow *s, uint64_t first, uint64_t n, uint64_t *empty);

/* Claims page |idx|, or returns its state. Never blocks; makes no system call in the common case. |meta| marks the
 * page as metadata, which outlives raw data in eviction. */
enum xh_claim xh_shadow_claim(struct xh_shadow *s, uint64_t idx, int meta, struct xh_counters *c);

/* Claims a page whose bytes are yet to be fetched. MINE: the caller must begin it before it fills it, or forgo it.
 * |take|: also claims a page that another claim, of this process or another, has not begun. */
enum xh_claim xh_shadow_claim_later(struct xh_shadow *s, uint64_t idx, int meta, int take, struct xh_counters *c);

/* The bytes of page |idx|, claimed as LATER, have come. Returns 1: the caller must fill it, and publish or abandon
 * it. Returns 0: another claim took it over, and the caller's has ended. */
int xh_shadow_begin(struct xh_shadow *s, uint64_t idx);

/* Gives up |n| pages from |first| that the caller has claimed as LATER and not begun. Leaves those that another
 * claim took over. */
void xh_shadow_forgo(struct xh_shadow *s, uint64_t first, uint64_t n);

/* Returns 1 when page |idx| is claimed, by any process, and not begun. */
int xh_shadow_is_later(struct xh_shadow *s, uint64_t idx);

/* Finds the pages around |idx| that are claimed and not begun. If |idx| is not such a page, |all| becomes 0. */
#define XH_LATER_LOOK_PAGES 65536u /* distance in each direction: 256 MiB; the search takes 0.1 ms */
struct xh_later {
    uint64_t first; /* from here to |idx| all are such pages */
    uint64_t all;   /* number of such pages within that distance */
};
void xh_shadow_look_later(struct xh_shadow *s, uint64_t idx, struct xh_later *out);

/* Returns what xh_shadow_claim would, without claiming: MINE means EMPTY here. */
enum xh_claim xh_shadow_peek(struct xh_shadow *s, uint64_t idx);

/* Returns the first READY page from |idx| on, and sets |*meta| to whether it is metadata; UINT64_MAX when there is
 * none. Skips what nobody ever claimed. */
uint64_t xh_shadow_next(struct xh_shadow *s, uint64_t idx, int *meta);

/* Returns 1 when another process has claimed page |idx|. */
int xh_shadow_elsewhere(struct xh_shadow *s, uint64_t idx);

/* Stores whole pages that the caller has claimed; the origin's last page may be shorter. Returns 0 or XH_E_NOSPACE
 * (tmpfs full): the caller then abandons those pages. */
int xh_shadow_fill(struct xh_shadow *s, uint64_t off, const void *data, size_t len);

/* Publish, or give up, |n| pages from |first| that the caller has claimed and filled. Wake waiters. */
void xh_shadow_publish(struct xh_shadow *s, uint64_t first, uint64_t n, struct xh_counters *c);
void xh_shadow_abandon(struct xh_shadow *s, uint64_t first, uint64_t n);

/* Copies [off, off+len) into |buf|, as far as the pages from the start on are READY and stay so during the copy.
 * Returns the number of good bytes: |len| when all pages were there, less, down to 0, when one was not. Bytes of
 * |buf| behind that number are undefined. Takes no lock; a hit on 4 KiB costs less than a microsecond. */
size_t xh_shadow_read(struct xh_shadow *s, uint64_t off, void *buf, size_t len);

/* Copies |n| extents, each whole or not at all. Returns how many, from the first on, were copied; the buffers of the
 * others may have been written to in part. Small extents that lie close together, ascending, share system calls and
 * sums. */
size_t xh_shadow_readv(struct xh_shadow *s, const struct xh_extent *ext, size_t n);

/* Waits until page |idx| is no longer CLAIMED or EVICTING as it is now, |timeout_ms| at most. Checks from time to
 * time whether the owner is alive; a dead owner's claim becomes EMPTY. An owner that was waited for in vain is not
 * waited for again until it has moved. Returns 0 (look again) or XH_E_TIMEOUT: the owner still holds the page, and
 * is alive or cannot be proved dead. The caller then fetches for itself. Blocks. */
int xh_shadow_wait(struct xh_shadow *s, uint64_t idx, int timeout_ms, struct xh_counters *c);
/* Does the same, but a timeout proves nothing about the owner: the caller will wait again. */
int xh_shadow_doze(struct xh_shadow *s, uint64_t idx, int timeout_ms, struct xh_counters *c);

/* Hints: what this user last knew of a URL. Each is a small file beside the shadows, with opaque text of less than
 * XH_HINT_BYTES that the origin's room writes and checks. */
#define XH_HINT_BYTES 2048
/* Loads the hint of |url| into |buf|, NUL-terminated. Returns its length; 0 when there is none, or its shadow is
 * gone. */
size_t xh_shadow_hint_load(const char *url, const struct xh_options *o, char buf[XH_HINT_BYTES]);
/* Finds the version of |url| that the options' directory has a hint of, which is the one that was opened last, and a
 * shadow. Returns 1 and sets |out|; else 0. */
#define XH_VALIDATOR_BYTES 1024
struct xh_shadow_version {
    char validator[XH_VALIDATOR_BYTES]; /* as the shadow has it. With the URL and |size| it is proved to be its key */
    uint64_t size;
    char hint[XH_HINT_BYTES]; /* that version's */
};
int xh_shadow_last(const char *url, const struct xh_options *o, struct xh_shadow_version *out);
/* Replaces the hint of |s|'s URL atomically. A failure is silent: there is no hint then, which costs a request next
 * time. A private shadow saves none. */
void xh_shadow_hint_save(struct xh_shadow *s, const char *text);
/* Removes the hint of |url|, if there is one. */
void xh_shadow_hint_forget(const char *url, const struct xh_options *o);

/* The negative cache, for the user's other processes. xh_shadow_note_lack notes that |name|, any text, does not
 * exist, as is known for |since_s| seconds; with |lacks| 0, that it exists after all. xh_shadow_lacks returns 1 when
 * its absence was noted in the last |lasts_s| seconds, XH_NEGATIVE_MOST_S at most. Both cost a few system calls and
 * never fail. */
#define XH_NEGATIVE_MOST_S 3600
void xh_shadow_note_lack(const char *name, const struct xh_options *o, int lacks, unsigned since_s);
int xh_shadow_lacks(const char *name, const struct xh_options *o, unsigned lasts_s);

/* A turn to do what other processes may want to do at the same time: see turn.c. */
struct xh_turn {
    int fd; /* -1: none */
    uint64_t at;
};
/* Waits for the turn to do |name|, |most_ms| at most; not at all after some process has waited for it in vain, as for a
 * suspended one, until the turn is free again. Returns 1 when it had to wait, with or without a turn in the end; else
 * 0. Owns: the caller ends the turn. Threads, processes: any. Blocks. */
int xh_shadow_turn(const char *name, const struct xh_options *o, unsigned most_ms, struct xh_turn *t);
/* Returns 1 when other processes wait for the turn. */
int xh_shadow_turn_awaited(const struct xh_turn *t);
/* Ends the turn; harmless when it has ended. */
void xh_shadow_turn_over(struct xh_turn *t);

#endif
