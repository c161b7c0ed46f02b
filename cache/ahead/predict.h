/* Prediction: what will be wanted next. Pure: no I/O, no clock, no locks of its own.
 *
 * Reads of raw data that go on where the last one ended, or that keep the same distance, upwards or downwards, are a
 * run; so are those of several threads that take the next piece each, and are not quite in order. It is fetched ahead
 * in a window that follows what the run has read. All are guesses: wrong ones cost bytes, never correctness. */
#ifndef XH_PREDICT_H
#define XH_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#include "base/holes.h"

#define XH_PREDICT_RANGES 64 /* most that one read proposes */

/* How the last reads follow each other. A read that fits none begins anew with NONE; any other
 * change, from SEQ to STRIDE when the distance was seen twice, keeps what the run has earned. */
enum xh_run_kind { XH_RUN_NONE, XH_RUN_UP, XH_RUN_STRIDE };

/* What is known of other runs of the file: bytes. */
struct xh_predict_past {
    uint64_t shortest; /* of those that ended; 0 also where too few did, or one by far longer reads */
    uint64_t longest;  /* of those that ended and had several reads; 0: none did */
    uint64_t all;      /* together; of those that are read in turns, the longest */
    int large;         /* the last read was so large that a stream may begin with it */
    unsigned doubt;    /* grows with those that ended soon, shrinks with reads that went on with one */
};

struct xh_predict_seq {
    enum xh_run_kind kind;
    struct xh_range last; /* len 0: none yet */
    uint64_t step;        /* from the start of the read before |last| to |last|'s; modulo 2^64 */
    unsigned same;        /* how often in a row |step| was the distance */
    uint64_t first;       /* where this run began */
    uint64_t bytes;       /* read in this run, less a part of what it has passed by */
    uint64_t ahead;       /* UP: end of what was proposed; STRIDE: reads proposed after |last| */
    uint64_t window;      /* how far ahead the last read let it look */
    uint64_t end;         /* nothing beyond is expected */
    struct xh_predict_past past; /* the caller's */
    int takes_turns;      /* the caller's: it is one of several runs that are read in turns */
    struct xh_holes holes; /* UP: what was passed by */
    unsigned amiss;       /* for so many reads more it counts as read by several threads, which keep no distance */
};

/* Takes note of a read of |r| (not empty, inside the object of |size| bytes) and says what to fetch
 * ahead of it now: up to XH_PREDICT_RANGES ranges in |out|, in the order in which they will be
 * wanted, inside the object, disjoint from each other and from |r|. Where |r| lies in |whole|, which is
 * known to be one thing (len 0: nothing known), a run that began in it goes no further; one that
 * came from outside goes on through whatever follows. They lie at most |max_window|
 * bytes ahead (0 switches guessing off), and at most twice what the run has read, sixteen times once that is 1 MiB and
 * more than one read. Where other runs ended (p->past), it is no more than what it lacks to be as long as the longest
 * of them, but at once what it lacks to be as long as the shortest; behind that twice what it has read there, until it
 * has read half as much as all of them. A run that takes turns, whose |max_window| is less than two reads, asks for one
 * whole read ahead. Returns their number. */
size_t xh_predict_seq(struct xh_predict_seq *p, struct xh_range r, struct xh_range whole, uint64_t max_window,
                      uint64_t size, struct xh_range out[XH_PREDICT_RANGES]);

/* Returns how a read of |r| goes on with the run of |p|; NONE: it does not. */
enum xh_run_kind xh_predict_goes_on(const struct xh_predict_seq *p, struct xh_range r);

/* Returns 1 when it has not gone on for long enough to be trusted, or at all. */
int xh_predict_is_young(const struct xh_predict_seq *p);

/* Returns 1 when it is just where the run of |p| was to go on, or what that has passed by. */
int xh_predict_is_met(const struct xh_predict_seq *p, struct xh_range r);

/* |p| becomes the run that has read |c|, |r| as the last of it: that is to be noted next. */
void xh_predict_join(struct xh_predict_seq *p, const struct xh_cover *c, struct xh_range r);

/* A run that has read |bytes| elsewhere is expected to go on at |off|, where |p| has seen no read yet. */
void xh_predict_expect(struct xh_predict_seq *p, uint64_t off, uint64_t bytes);

#endif
