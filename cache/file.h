/* Inside the cache: one open file, and what its reads go through. Not for vfd/. */
#ifndef XH_FILE_H
#define XH_FILE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "cache.h"
#include "replicas/replicas.h"
#include "shadow/shadow.h"
#include "watch/account.h"

struct xh_chunkindex;
struct xh_compressed;
struct xh_contiguous;
struct xh_fetch;
struct xh_hints;
struct xh_metadata_image;
struct xh_other_files;
struct xh_predict_seq;
struct xh_predict_wide;
struct xh_read_op;
struct xh_sibling;
struct xh_stage;
struct xh_unverified_head;
struct xh_walk;

/* What several open files have together, where one file names them: siblings (ahead/siblings.h). */
struct xh_flow {
    _Atomic uint64_t streamed; /* raw bytes that were asked for and that the shadow did not have */
    _Atomic uint64_t flying;   /* bytes that are on their way to the shadow for nobody yet; bounded by readahead_bytes */
};

/* What the rooms below call: functions of rooms above them, handed down when the file is opened. None blocks on the
 * network but |read|. */
struct xh_above {
    /* Metadata that was fetched ahead has come. Called on engine threads. */
    void (*arrived)(struct xh_file *f);
    /* 1: metadata is on its way, and it is this process that walks for all. */
    int (*walks)(struct xh_file *f);
    /* Raw data comes another way from now on: what is expected is asked for there. */
    void (*again)(struct xh_file *f);
    /* The read waits. watches: 1 when |waits| is to be called now and then meanwhile. */
    int (*watches)(const struct xh_read_op *op);
    void (*waits)(struct xh_read_op *op);
    /* As xh_read_pages. */
    int (*read)(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, struct xh_served *served,
                struct xh_err *err);
    /* This process is a fork's child: makes its own what the parent's threads had in hand. */
    void (*become_child)(struct xh_file *f);
    const struct xh_other_files *files; /* how other files are opened and read */
};

struct xh_file {
    /* Constant after open. What is a pointer here to a struct of a room is made, and freed, by open/. */
    const struct xh_above *above;
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
    struct xh_predict_seq *seq;
    struct xh_predict_wide *wide;
    /* The process whose engine and locks these are (process.h); one less: one of its threads is about to make them so. Release
     * in xh_file_after_fork, acquire by all that come there. */
    _Atomic uint64_t process;

    /* |chunk_lock| guards the chunk indexes and |contiguous|. Readers wait for it, as a node that is missed could cost a whole
     * index: it is held for computing and for looks at what is here (xh_here_look), never over the network. */
    pthread_mutex_t chunk_lock;
    struct xh_chunkindex *chunks; /* NULL: no reading ahead */
    struct xh_contiguous *contiguous; /* likewise */

    /* Each by its own rules: */
    struct xh_unverified_head *unverified;
    struct xh_metadata_image *image;   /* its metadata image, NULL: none */
    struct xh_compressed *compressed;  /* its compressed copy, NULL: none is wanted */
    struct xh_walk *walk;
    struct xh_hints *hints;            /* what the program said that it will read */
    struct xh_stage *stage;            /* what was fetched ahead of a stream */
    struct xh_sibling *sibling;

    struct xh_flow flow;    /* its own */
    struct xh_flow *family; /* that of all files of its family, constant while it is open; NULL: it has no siblings */

    pthread_mutex_t flying_lock; /* guards |flying|; held while the origin's lock is taken */
    struct xh_fetch *flying;      /* what fetches ahead to the shadow: see fetch.c */
    _Atomic unsigned meta_ahead;  /* transfers of metadata ahead that are on their way */
    _Atomic uint64_t meta_asked;  /* their bytes, and those of all before them */
    _Atomic uint64_t shared_ns;   /* when its readers were counted */
    _Atomic int is_reread;            /* what streams by was read before: it is kept. See read.c's keeps() */
};

/* After a fork: gives the child its own locks and forgets the parent's guesses. Cheap when
 * nothing happened. */
void xh_file_after_fork(struct xh_file *f);

/* 1 when others read the file too, or are about to: what is fetched is kept for them. One system call. */
static inline int xh_file_shared(struct xh_file *f)
{
    return f->others_wait || xh_shadow_shared(f->shadow);
}

/* |f->flow| of the file, and of its siblings. */
static inline uint64_t xh_flow_streamed(const struct xh_file *f)
{
    return atomic_load_explicit(&(f->family ? f->family : &f->flow)->streamed, memory_order_relaxed);
}

static inline uint64_t xh_flow_flying(const struct xh_file *f)
{
    return atomic_load_explicit(&(f->family ? f->family : &f->flow)->flying, memory_order_relaxed);
}

/* |bytes| more of it, or fewer. */
static inline void xh_flow_stream(struct xh_file *f, int64_t bytes)
{
    atomic_fetch_add_explicit(&f->flow.streamed, (uint64_t)bytes, memory_order_relaxed);
    if (f->family)
        atomic_fetch_add_explicit(&f->family->streamed, (uint64_t)bytes, memory_order_relaxed);
}

static inline void xh_flow_fly(struct xh_file *f, int64_t bytes)
{
    atomic_fetch_add_explicit(&f->flow.flying, (uint64_t)bytes, memory_order_relaxed);
    if (f->family)
        atomic_fetch_add_explicit(&f->family->flying, (uint64_t)bytes, memory_order_relaxed);
}

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
