/* Inside the cache: one open file, which is one version of one remote object. Not for vfd/.
 *
 * The object itself is constant once it is open. A mechanism's state is in the mechanism's own struct, of which this
 * one has a pointer: its own file alone changes it. tests/integration/rooms.py checks both (WRITERS, owners). */
#ifndef XH_OBJECT_H
#define XH_OBJECT_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "cache.h"
#include "policy.h"
#include "replicas/replicas.h"
#include "shadow/shadow.h"
#include "watch/account.h"

struct xh_alike;
struct xh_around;
struct xh_background;
struct xh_compressed;
struct xh_disk;
struct xh_flights;
struct xh_flows;
struct xh_heaps;
struct xh_hints;
struct xh_keep;
struct xh_layouts;
struct xh_metadata_image;
struct xh_other_files;
struct xh_read_op;
struct xh_planes;
struct xh_repeats;
struct xh_sequence;
struct xh_sharing;
struct xh_sibling;
struct xh_stage;
struct xh_unverified_head;
struct xh_walk;
struct xh_whole;

/* What the rooms below call: functions of rooms above them, handed down when the file is opened. None blocks on the
 * network but |read|. */
struct xh_above {
    /* Metadata that was fetched ahead has come. Called on engine threads. */
    void (*arrived)(struct xh_file *f);
    /* Some of it did not come. The same. */
    void (*lost)(struct xh_file *f);
    /* 1: metadata is on its way, and it is this process that walks for all. */
    int (*walks)(struct xh_file *f);
    /* 1: all of it has been asked for. */
    int (*is_whole)(const struct xh_file *f);
    /* Raw data comes another way from now on: what is expected is asked for there. */
    void (*again)(struct xh_file *f);
    /* The read waits. watches: 1 when |waits| is to be called now and then meanwhile. */
    int (*watches)(const struct xh_read_op *op);
    void (*waits)(struct xh_read_op *op);
    /* Cancels what is on its way for the read. */
    void (*interrupt)(struct xh_read_op *op);
    /* As xh_read_pages. */
    int (*read)(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, struct xh_served *served,
                struct xh_err *err);
    /* This process is a fork's child: makes its own what the parent's threads had in hand. */
    void (*become_child)(struct xh_file *f);
    const struct xh_other_files *files; /* how other files are opened and read */
};

struct xh_file {
    /* The object; constant after open. */
    const struct xh_above *above;
    struct xh_options opt;
    char *url, *url_shown, *validator;
    int fleeting;  /* the validator may be another version's as well: what is kept goes with the process */
    int unsettled; /* the same, to who opens it to write: what is kept is not for them */
    uint64_t size;
    long long changed_s;        /* by the server; -1: not told */
    struct xh_replicas *origin; /* at one server or at several */
    struct xh_shadow *shadow;   /* NULL for an empty object */
    struct xh_disk *disk;       /* NULL: what is read does not stay on a disk */
    _Atomic uint64_t head_rest; /* the head from here on comes once some of it is missing (ahead/head.c); 0: not so */
    uint64_t spare_bytes;       /* what may be fetched in vain: the farther the origin, the more */
    int no_parts;               /* the server sends all of it, whatever is asked for */
    int opened_jointly;         /* one of several processes that opened it together: each may read its share */
    int others_wait;            /* others were about to open it */

    struct xh_counters counters; /* changed by xh_count, anywhere */
    struct xh_account *account;  /* constant: |own|, or that of what the file is part of */
    struct xh_account own;
    uint64_t asked_ns, answered_ns; /* when the origin was last asked for its version, and had answered */
    char reader[XH_READER_BYTES];   /* as whom it was opened, where another file names it: see xh_origin_reader */
    _Atomic int failed;             /* a read has; relaxed */
    uint64_t hits_before; /* of counters.bytes_hit, another process's to tell the shadow of */

    /* The process whose engine and locks these are (process.h); one less: one of its threads is about to make them so.
     * Release in xh_file_after_fork, acquire by all that come there. */
    _Atomic uint64_t process;

    /* Mechanisms; made and freed by open/. */
    struct xh_unverified_head *unverified;
    struct xh_metadata_image *image;  /* its metadata image, NULL: none */
    struct xh_compressed *compressed; /* its compressed copy, NULL: none is wanted */
    struct xh_layouts *layouts;       /* where raw data lies */
    struct xh_heaps *heaps;           /* where values of variable length lie */
    struct xh_repeats *repeats;
    struct xh_planes *planes;
    struct xh_around *around; /* of reads in no order */
    struct xh_alike *alike; /* read as the file before it */
    struct xh_sequence *sequence;
    struct xh_walk *walk;
    struct xh_whole *whole; /* all of it at once */
    struct xh_hints *hints; /* what the program said that it will read */
    struct xh_stage *stage; /* what was fetched ahead of a stream */
    struct xh_sibling *sibling;
    struct xh_background *background; /* what comes to the shadow for nobody yet, in one request */
    struct xh_flows *flows;     /* what streams by, and what is on its way to the shadow */
    struct xh_flights *flights; /* what fetches ahead to the shadow */
    struct xh_sharing *sharing; /* of the link, with other readers */
    struct xh_keep *keep;       /* what stays in the shadow */
};

/* After a fork: gives the child its own locks and forgets the parent's guesses. Cheap when
 * nothing happened. */
void xh_file_after_fork(struct xh_file *f);

/* 1 when the program, not a file, has said that it will open this one, probably among others. */
int xh_file_is_announced(const struct xh_file *f);

/* As xh_cache_kept_as. */
char *xh_file_kept_as(const struct xh_file *f);

/* 1 when others read the file too, or are about to: what is fetched is kept for them. One system call. */
static inline int xh_file_shared(const struct xh_file *f)
{
    return f->others_wait || xh_shadow_shared(f->shadow);
}

/* Bytes of the files that follow it, and are likely read as it is; about. */
static inline uint64_t xh_followed_by(const struct xh_file *f)
{
    const uint64_t most = UINT64_MAX / 4; /* sums of it and a file's bytes do not overflow */
    return f->size && f->opt.followers > most / f->size ? most : f->opt.followers * f->size;
}

/* Most bytes of the shadow that what is fetched ahead may take, however far ahead it is. */
static inline uint64_t xh_most_kept(const struct xh_file *f)
{
    if (xh_shadow_private(f->shadow))
        return xh_policy_most_ahead(UINT64_MAX, f->opt.private_budget_bytes, xh_shadow_privates());
    return xh_policy_most_ahead(UINT64_MAX, xh_shadow_budget(f->shadow), xh_shadow_were_busy());
}

/* Most bytes that may be ahead of the reader. |kept|: in the shadow; else in private memory, if others do not read the
 * file too. */
static inline uint64_t xh_ahead_most(const struct xh_file *f, int kept)
{
    if (xh_shadow_private(f->shadow))
        return xh_policy_most_ahead(f->opt.readahead_bytes, f->opt.private_budget_bytes, xh_shadow_privates());
    uint64_t budget = xh_shadow_budget(f->shadow);
    if (!kept && budget / 2 < f->opt.readahead_bytes) /* one system call less, mostly */
        kept = xh_file_shared(f);
    return xh_policy_most_ahead(f->opt.readahead_bytes, budget, kept ? xh_shadow_were_busy() : 0);
}

/* Pages that end at |end|, which is in the file, or before. The file's last one may be shorter. */
static inline uint64_t xh_pages_before(const struct xh_file *f, uint64_t end)
{
    return end == f->size ? xh_page_up(end) : end / XH_PAGE_BYTES;
}

#endif
