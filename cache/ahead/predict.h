/* Prediction: what will be wanted next. Pure: no I/O, no clock, no locks of its own.
 *
 * Runs of raw data: reads that go on where the last one ended, upwards or downwards, or that
 * keep the same distance, are fetched ahead in a window that follows what they have read.
 * Widening: a metadata miss near the last one fetches a larger piece around it, as HDF5 walks
 * its metadata in small reads that each cost a round trip. All are guesses: wrong ones cost
 * bytes, never correctness. */
#ifndef XH_PREDICT_H
#define XH_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"

#define XH_PREDICT_RANGES 64 /* most that one read proposes */

/* How the last reads follow each other. A read that fits none begins anew with NONE; any other
 * change, from SEQ to STRIDE when the distance was seen twice, keeps what the run has earned. */
enum xh_run_kind { XH_RUN_NONE, XH_RUN_UP, XH_RUN_DOWN, XH_RUN_STRIDE };

struct xh_predict_seq {
    enum xh_run_kind kind;
    struct xh_range last; /* len 0: none yet */
    uint64_t step;        /* from the start of the read before |last| to |last|'s; modulo 2^64 */
    unsigned same;        /* how often in a row |step| was the distance */
    uint64_t first;       /* where this run began */
    uint64_t bytes;       /* read in this run */
    uint64_t ahead;       /* UP: end, DOWN: start of what was proposed; STRIDE: reads proposed after |last| */
    uint64_t window;      /* how far ahead the last read let it look */
    uint64_t end;         /* nothing beyond is expected */
    unsigned doubt;       /* grows with runs that ended, shrinks with reads that were foreseen */
};

/* Takes note of a read of |r| (not empty, inside the object of |size| bytes) and says what to fetch
 * ahead of it now: up to XH_PREDICT_RANGES ranges in |out|, in the order in which they will be
 * wanted, inside the object, disjoint from each other and from |r|. Where |r| lies in |whole|, which is
 * known to be one thing (len 0: nothing known), a run that began in it goes no further; one that
 * came from outside goes on through whatever follows. They lie at most |max_window|
 * bytes ahead (0 switches guessing off), and at most twice what the run has read, sixteen times where
 * its reads are large, from its second on; less while runs keep ending soon, down to nothing. Returns
 * their number. */
size_t xh_predict_seq(struct xh_predict_seq *p, struct xh_range r, struct xh_range whole, uint64_t max_window,
                      uint64_t size, struct xh_range out[XH_PREDICT_RANGES]);

struct xh_predict_wide {
    struct xh_range last; /* what was fetched last: a miss, widened, or the piece behind it */
    struct xh_range next; /* the piece behind |last| that was proposed; len 0: none */
    uint64_t width;       /* bytes of |last| as planned; 0 before the first miss */
    uint64_t used;        /* bytes read in |last|, some perhaps twice */
};

/* Widens a metadata miss |miss|: wider than the last time where the reader is still near and
 * used what was fetched, narrower where it did not. Returns a range that holds |miss| and lies
 * in the object. */
struct xh_range xh_predict_widen(struct xh_predict_wide *p, struct xh_range miss, uint64_t size);

/* Takes note of a metadata read. Returns the piece behind the last one, to be fetched meanwhile,
 * once a walk is well under way in that one; else len 0. */
struct xh_range xh_predict_walk(struct xh_predict_wide *p, struct xh_range r, uint64_t size);

#endif
