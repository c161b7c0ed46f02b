/* Prediction: what will be wanted next. Pure: no I/O, no clock, no locks of its own.
 *
 * Two predictors so far. Sequential: raw data read in ascending order is fetched ahead
 * in a window that doubles while the guess holds. Widening: a metadata miss near the last
 * one fetches a larger piece around it, as HDF5 walks its metadata in small reads that
 * each cost a round trip. Both are guesses: wrong ones cost bytes, never correctness. */
#ifndef XH_PREDICT_H
#define XH_PREDICT_H

#include <stdint.h>

#include "extent.h"

struct xh_predict_seq {
    uint64_t next;   /* first byte after the last read; 0 before the first read */
    uint64_t ahead;  /* first byte not yet asked for ahead; >= next while a run lasts */
    uint64_t window; /* how far ahead to be now, bytes; 0 outside a run */
};

/* Takes note of a read of |r| and says what to fetch ahead of it now.
 * |max_window| bytes bounds how far ahead; 0 switches prediction off. |size| is the object's.
 * Returns the range to fetch (len 0: nothing), always after r and inside the object. */
struct xh_range xh_predict_seq(struct xh_predict_seq *p, struct xh_range r, uint64_t max_window,
                               uint64_t size);

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
