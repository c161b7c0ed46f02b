/* Inside the cache: one open file, and what its reads go through. Not for vfd/. */
#ifndef XH_FILE_H
#define XH_FILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "watch/account.h"
#include "cache.h"
#include "format/chunkindex/chunkindex.h"
#include "format/contiguous.h"
#include "source/unverified_head.h"
#include "format/metaindex.h"
#include "read/op.h"
#include "ahead/hints.h"
#include "replicas/replicas.h"
#include "pages/plan.h"
#include "ahead/predict.h"
#include "shadow/shadow.h"
#include "source/metadata_image.h"
#include "source/compressed.h"
#include "ahead/siblings.h"
#include "stream/stage.h"

/* Requests for metadata ahead that are on their way at once: as many as connections mostly pay, but one
 * that stays free for demand. What gets known meanwhile waits for one to end, so that each carries much. */
#define XH_META_AT_ONCE 7u

/* Metadata fetched ahead of a walk; see walk.c. */
struct xh_walk {
    pthread_mutex_t lock;       /* guards what |index| points to; held for parsing, and for looks at what is here (xh_walk_look) */
    struct xh_metaindex *index; /* constant, but for a fork's child, which begins anew; NULL: no walk */
    _Atomic int on;             /* the walk has begun: release, as what opening still set up then (|spare_bytes|) is there for
                                   an engine thread that finds it so, acquire */
    _Atomic int arrived;        /* bytes have come since the index last looked; the lock orders the rest */
    _Atomic unsigned lonely;    /* rises with each read that nobody had foreseen, falls with the others */
};

struct fetch;

struct xh_file {
    /* Constant after open. */
    struct xh_options opt;
    char *url, *url_shown, *validator;
    int fleeting; /* the validator may be another version's as well: what is kept goes with the process */
    uint64_t size;
    struct xh_replicas *origin; /* at one server or at several */
    struct xh_shadow *shadow; /* NULL for an empty object */
    uint64_t spare_bytes;     /* what may be fetched in vain: the farther the origin, the more */
    int whole;                /* all of it was asked for at once */
    int opened_jointly;              /* one of several processes that opened it together: each may read its share */
    int others_wait;              /* others were about to open it */

    struct xh_counters counters;
    struct xh_account *account; /* constant: |own|, or that of what the file is part of */
    struct xh_account own;
    uint64_t hits_before; /* of counters.bytes_hit, another process's to tell the shadow of */

    /* |guess_lock| guards the predictors. Readers only try it: a missed note costs a guess. It is held while what they expect
     * is submitted, so the locks of stage, shadow and origin are taken in it; no engine thread takes it. */
    pthread_mutex_t guess_lock;
    struct xh_predict_seq seq;
    struct xh_predict_wide wide;
    /* The process whose engine and locks these are (process.h); one less: one of its threads is about to make them so. Release
     * in xh_file_after_fork, acquire by all that come there. */
    _Atomic uint64_t process;

    /* |chunk_lock| guards the chunk indexes and |contiguous|. Readers wait for it, as a node that is missed could cost a whole
     * index: it is held for computing and for looks at what is here (xh_walk_look), never over the network. */
    pthread_mutex_t chunk_lock;
    struct xh_chunkindex *chunks; /* NULL: no reading ahead */
    struct xh_contiguous *contiguous; /* likewise */

    struct xh_unverified_head unverified; /* by its own rules */
    struct xh_metadata_image *image; /* likewise; its metadata image, NULL: none */
    struct xh_compressed *compressed;     /* likewise; its compressed body, NULL: none is wanted */
    struct xh_walk walk;
    struct xh_hints hints;        /* what the program said that it will read */
    struct xh_stage stage;        /* what was fetched ahead of a stream */
    struct xh_sibling sibling;

    pthread_mutex_t flying_lock; /* guards |flying|; held while the origin's lock is taken */
    struct fetch *flying;        /* what fetches ahead to the shadow: see fetch.c */
    _Atomic uint64_t ahead_bytes; /* in flight to the shadow for nobody yet; bounded by readahead_bytes */
    _Atomic unsigned meta_ahead;  /* transfers of metadata ahead that are on their way */
    _Atomic uint64_t meta_asked;  /* their bytes, and those of all before them */
    _Atomic uint64_t shared_ns;   /* when its readers were counted */
    _Atomic uint64_t streamed;    /* raw bytes asked for that the shadow did not have: xh_siblings_stream */
    _Atomic int is_reread;            /* what streams by was read before: it is kept. See read.c's keeps() */
};

/* Fetches |runs| (claimed as LATER by the caller, unless |claimed| is 0: then the pages stay out of
 * the shadow). Bytes go to the shadow, published page by page, and to |op|'s extents; with
 * |op| NULL the fetch is speculative and frees itself. Counts itself into op->pending.
 * Returns 0 or an error; on an error the claims have been abandoned, except those of fetches
 * already on their way, which complete. Does not block. */
int xh_fetch_start(struct xh_file *f, struct xh_read_op *op, const struct xh_runs *runs, int claimed,
                   struct xh_err *err);

/* The bytes [off, off + len) are here, the next ones of |a|: what of them lies in |runs| goes to the shadow, page by
 * page.
 * Returns 0, or XH_E_NOSPACE: then the rest is to be ended. */
int xh_arrive(struct xh_file *f, const struct xh_runs *runs, struct xh_arrival *a, uint64_t off, const uint8_t *data,
              size_t len);

/* Gives up what has not come of the pages before |end|. Harmless when all has. */
void xh_arrive_end(struct xh_file *f, const struct xh_runs *runs, struct xh_arrival *a, uint64_t end);

/* What has come of |op|'s marks since the last look goes to the shadow, as far as |op| holds it. */
void xh_arrive_look(struct xh_read_op *op);
/* The same for the last time; |whole|: all has come. The rest of what |op| holds is given up; then it holds nothing. */
void xh_arrive_over(struct xh_read_op *op, int whole);

/* A reader waits for the page: what fetches it ahead, if this process does, goes before all that nobody
 * waits for. Returns the first page behind those that the same is now true of. */
uint64_t xh_fetch_promote(struct xh_file *f, uint64_t page);

/* The reader has left the order in which raw data was fetched ahead: takes back what was not asked for yet. */
void xh_fetch_recall(struct xh_file *f);

/* The plan's limits, as options and the origin have them now, where so many bytes are fetched together, in
 * ranges of |mean| bytes, for a demand or ahead of one. Returns 0 when the server sends no parts of files, else 1. */
int xh_fetch_limits(struct xh_file *f, uint64_t bytes, uint64_t mean, int ahead, struct xh_plan_limits *lim);

/* Reads |n| extents, not all empty, which lie in the object, past the early head: from the shadow, or as it comes;
 * |*served| says how. As xh_cache_read. */
int xh_read_pages(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, struct xh_served *served,
                  struct xh_err *err);

/* 1 when others read the file too, or are about to: what is fetched is kept for them. One system call. */
int xh_fetch_shared(struct xh_file *f);

/* Has |op| read what it still lacks: claims, fetches, waits for others. Returns 0 or the first error. */
int xh_read_rounds(struct xh_read_op *op, struct xh_err *err);

/* The processes that read the file, and those that fetch any just now, share one link: each has its part of the
 * connections, and who only guesses makes way for another who waits for the file. To be called before something is
 * asked for, and when what was guessed has come. */
void xh_fetch_share_link(struct xh_file *f);

/* Claims the EMPTY pages of the |n| ranges of |r|, which lie in the object, and fetches them for
 * nobody yet: as many as there is room for, from the first on. Returns how many ranges were seen
 * to, fetched now or there already; fewer than |n| when there is no more room. Never fails. */
size_t xh_fetch_ahead(struct xh_file *f, const struct xh_range *r, size_t n, enum xh_kind kind);

/* The same for one long stretch of raw data, whose bytes are wanted in order. Where it need not stay
 * in the shadow, a stream up to |stream_end| (0: none) takes it over. Returns the end of what is seen to. */
uint64_t xh_fetch_stretch(struct xh_file *f, struct xh_range r, uint64_t stream_end);

/* Begins a stream of [off, end) whose first bytes a read is about to take, where xh_fetch_stretch would begin one
 * behind it. Returns the end of what is seen to, |off| when there is none. */
uint64_t xh_fetch_lead(struct xh_file *f, uint64_t off, uint64_t end);

/* The walk through metadata. init and end: with the file, once it has its shadow; |walks| 0: there is to be none. begin: the
 * first look at a file that was not known. note: a read of |n| > 0 extents is done; |missed| when
 * it had to wait, |alone| when it had to fetch what nobody had foreseen. arrived: a speculative fetch has ended (called on engine threads). None blocks
 * on the network, none fails. */
int xh_walk_look(void *ctx, uint64_t off, void *buf, size_t len); /* xh_meta_look: what is there of the file |ctx| */
void xh_walk_init(struct xh_file *f, int walks);
void xh_walk_end(struct xh_file *f);
void xh_walk_begin(struct xh_file *f);
void xh_walk_note(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, int missed, int alone);
void xh_walk_arrived(struct xh_file *f);
int xh_walk_is_ours(struct xh_file *f); /* 1: metadata is on its way, and it is this process that walks for all */

/* Reading ahead (ahead.c). raw: a raw read of |n| extents begins; what is expected after it is fetched,
 * behind what the read itself needs. meta: a metadata read is done, its bytes are in the extents;
 * |missed| when it had to fetch. Neither blocks on the network, neither fails. */
void xh_ahead_raw(struct xh_file *f, const struct xh_extent *ext, size_t n);
/* lead: a raw read of |n| > 0 extents is about to begin. Where it most likely begins a long run, and connections are
 * young, the run's stream begins with the read itself: a connection that is young earns its speed by never
 * standing still. Returns 1 when so: the stage has what is read, and xh_ahead_raw is not to be called for it. */
int xh_ahead_lead(struct xh_file *f, const struct xh_extent *ext, size_t n);
/* again: raw data is to come another way from now on: what is expected of a run is asked for there, where it is not on its way. */
void xh_ahead_again(struct xh_file *f);
void xh_ahead_meta(struct xh_file *f, const struct xh_extent *ext, size_t n, int missed, int alone);

/* After a fork: gives the child its own locks and forgets the parent's guesses. Cheap when
 * nothing happened. */
void xh_file_after_fork(struct xh_file *f);

/* Most bytes that may be ahead of the reader. */
static inline uint64_t xh_ahead_most(const struct xh_file *f)
{
    uint64_t most = f->opt.readahead_bytes, kept = f->opt.private_budget_bytes / 2 / xh_shadow_privates();
    return xh_shadow_private(f->shadow) && most > kept ? kept : most;
}

static inline uint64_t xh_pages_end(const struct xh_file *f)
{
    return f->size / XH_PAGE_BYTES + (f->size % XH_PAGE_BYTES != 0);
}

#endif
