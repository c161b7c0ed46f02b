/* One read in progress: its extents, and the fetches that bring their bytes. */
#ifndef XH_OP_H
#define XH_OP_H

#include <pthread.h>
#include <stdatomic.h>

#include "arrive.h"
#include "cache.h"
#include "runs.h"
#include "watch/account.h"

struct xh_file;
struct xh_prefetch;

/* How far a part of a read has come that a stream brings straight into the reader's buffer. */
struct xh_mark {
    uint64_t end;         /* constant */
    _Atomic uint64_t got; /* release by the thread that brings it, acquire by the reader: the bytes before it are
                           * there */
    uint64_t seen;        /* the reader's own: before it the shadow has been seen to */
    struct xh_arrival come;
};

/* Bytes that a fetch ahead has promised to a read. Made and freed by malloc; belongs to that fetch until it leaves
 * |op|. */
struct xh_waiter {
    struct xh_waiter *next;
    struct xh_waiter *before, *behind; /* in the stage's list */
    struct xh_prefetch *load;          /* that brings them */
    struct xh_read_op *op;
    uint64_t a, b; /* [a, b), into |to| */
    uint8_t *to;
    struct xh_mark *mark; /* of |op|; NULL: none */
};

/* One read in progress, on its caller's stack. Engine threads reach it through its
 * fetches until |pending| is 0, and never afterwards. */
struct xh_read_op {
    struct xh_file *f;
    enum xh_kind kind;
    const struct xh_extent *asked; /* as the caller gave them */
    size_t nasked;
    uint64_t bytes;
    int keep; /* 0: what is fetched does not go to the shadow */
    int all_of_dataset;    /* it reads a large contiguous dataset from its first byte to its last, and others may
                            * follow: it opens connections for these, too */
    int strays;            /* so it is for one that jumps to and fro: see xh_sequence_strays */
    unsigned leaving;      /* so many connections of streams that were left for it are about to be free */
    int served_by_stream;  /* its stream brings what is read: see xh_sequence_lead */
    int take; /* what is claimed for later, and comes too late for it, it takes */
    uint64_t staged;                  /* bytes that the stage had, or promised */
    uint64_t hit_bytes, waited_bytes; /* of its rounds, to be counted at their end: some may have to be fetched after
                                       * all */
    /* Its list, in pages; all ascending. */
    struct xh_runs todo;         /* of this round */
    struct xh_runs ready, busy;  /* that the shadow has; that another claim brings */
    struct xh_runs on_disk;      /* that the disk cache has, and the shadow has not */
    struct xh_runs mine, bypass; /* that nobody brings: claimed by it; not to stay in the shadow */
    struct xh_runs packed[2];    /* that the compressed copy brings: likewise */
    struct xh_runs again;        /* of the next round */
    unsigned rounds;             /* before this one, since the list was made */
    int unreadable; /* the shadow has pages, by their states, that it cannot give: its file was closed, for example */
    struct xh_runs held;   /* whole pages that its stream brings, claimed as LATER */
    struct xh_mark *marks; /* where these have come to, ascending; NULL: it holds nothing, or there was no memory */
    size_t nmarks;
    struct xh_served served;
    uint64_t noted_ns; /* its body was told up to here that it waits */
    int is_retry; /* 1: it fetches what was lost of it. What it shows of the reads to come has been told */
    int defer_prefetch; /* 1: what is expected after it is fetched when it is done: by then the others have claimed
                         * their shares */
    struct xh_extent *ext; /* its own: sorted by offset, none empty; what the stage had is taken off */
    size_t n;
    uint64_t *reach; /* reach[i]: largest end of ext[0..i]; NULL when they are disjoint */

    pthread_mutex_t lock; /* guards the rest; |idle| is signalled under it when pending is 0 */
    pthread_cond_t idle;
    size_t pending;
    struct xh_waiter *lost; /* promises that were broken: the read fetches these bytes itself */
    struct xh_err err; /* the first error of a fetch */
    int interrupted;   /* its own thread's */
};

/* begin: |op| is to read |n| extents, not all empty, which lie in |f|; 0 or XH_E_NOMEM. end: nothing of it is
 * pending. */
int xh_op_begin(struct xh_read_op *op, struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n,
                struct xh_err *err);
void xh_op_end(struct xh_read_op *op);

/* Hands the bytes [off, off+len), which are at |data|, to every extent of |op| that overlaps them. */
void xh_op_copy_out(struct xh_read_op *op, uint64_t off, uint64_t len, const uint8_t *data);

/* The same from the shadow, or |from_disk|. Returns 0 when some page was gone, else 1. */
int xh_op_copy_ready(struct xh_read_op *op, uint64_t off, uint64_t len, int from_disk);

/* Appends the pages of op->ext to |out|. 0 or XH_E_NOMEM. */
int xh_op_pages(const struct xh_read_op *op, struct xh_runs *out);

/* How many of the bytes of op->ext lie in |runs|. */
uint64_t xh_op_asked_in(const struct xh_read_op *op, const struct xh_runs *runs);

/* Something that is on its way for |op| begins (|n| of them), and ends, with |err| when it failed. */
void xh_op_enter(struct xh_read_op *op, size_t n);
void xh_op_leave(struct xh_read_op *op, const struct xh_err *err);

/* What is pending will not save |op|: |err| is its error, unless it has one. */
void xh_op_fail(struct xh_read_op *op, const struct xh_err *err);

/* As xh_op_leave: the promise |k| ends unkept, as the fetch ahead that made it has failed. That is no error of the
 * read.
 * Owns: takes |k|. */
void xh_op_lose(struct xh_read_op *op, struct xh_waiter *k);

/* Makes what was lost all that |op| still has to read, and nothing lost. Nothing is pending. Sets |*bytes| to how much
 * that is. Returns 0 or XH_E_NOMEM. */
int xh_op_take_lost(struct xh_read_op *op, uint64_t *bytes);

/* Waits until nothing is pending. Returns |rc|, or where that is 0 the first error of what was. */
int xh_op_wait(struct xh_read_op *op, int rc, struct xh_err *err);
/* The same for the last time; |whole|: all has come. The rest of what |op| holds is given up; then it holds nothing. */
void xh_op_over(struct xh_read_op *op, int whole);

int xh_op_nomem(const struct xh_read_op *op, struct xh_err *err); /* XH_E_NOMEM */

#endif
