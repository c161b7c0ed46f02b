/* Holes: what a reader has passed by of an order, and has not read yet. Several threads that take the next piece each
 * are not quite in order, and come back for it. Units are the caller's: bytes, or chunks by their rank.
 * Pure: no I/O, no clock, no locks.
 *
 * Threads: one at a time per object; the caller locks. */
#ifndef XH_HOLES_H
#define XH_HOLES_H

#include "extent.h"

/* Most holes that are known: of threads, mostly as many as processors, each has one piece at a time. */
#define XH_HOLES_MOST 32

struct xh_holes {
    struct xh_range at[XH_HOLES_MOST]; /* disjoint, in no order */
    unsigned n;
};

/* Returns which hole holds all of |r|; XH_HOLES_MOST: none does. */
unsigned xh_holes_find(const struct xh_holes *h, struct xh_range r);

/* Notes that |r|, which lies in no other one, is one, unless there is no room. Returns 1 when it is noted, or empty. */
int xh_holes_add(struct xh_holes *h, struct xh_range r);

/* The same, but where there is no room |r| takes the place of the lowest one. */
void xh_holes_push(struct xh_holes *h, struct xh_range r);

/* |r| is read, of the |i|th hole, which holds it. What is left of that is a hole, if it has |least| or more. */
void xh_holes_fill(struct xh_holes *h, unsigned i, struct xh_range r, uint64_t least);

/* What was read lately of one place: all of [from, to), but for the holes. */
struct xh_cover {
    uint64_t from, to; /* the same: nothing yet */
    uint64_t first;    /* where the first read of it began */
    uint64_t bytes, missing, reads;
    uint64_t ups;      /* reads behind all others */
    uint64_t late;     /* reads of what had been passed by */
    struct xh_holes holes;
};

/* Takes note of a read of |r|, a part of what a thread takes at a time: |piece| or more. Where it lies elsewhere, is
 * read anew, or misses far more than |passes| times what was read, another place begins: then it returns 0, else 1. */
int xh_cover_note(struct xh_cover *c, struct xh_range r, uint64_t piece, unsigned passes);

/* Returns 1 when it is read upwards, and no more is missing than |passes| times what was read: by several threads, each
 * of which takes the next piece, so that what had been passed by is read afterwards; or with some left out. */
int xh_cover_is_upwards(const struct xh_cover *c, unsigned passes);

#endif
