/* Shifts: calls that read the same pieces, each moved on by one distance from the last call's, as planes across an
 * array are read one after another. Pure: no I/O, no clock, no locks.
 *
 * Threads: one at a time per object; the caller locks. */
#ifndef XH_SHIFTS_H
#define XH_SHIFTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"

/* A call of more pieces is not followed; as many ranges are proposed at most. */
#define XH_SHIFTS_PIECES 16384u

/* All zero at first. */
struct xh_shifts {
    struct xh_range *at; /* the pieces of the last call, in its order; owned */
    size_t n, room;
    uint64_t bytes; /* of one call */
    uint64_t step;  /* from the call before to the last one, modulo 2^64 */
    unsigned same;  /* so often in a row it was that */
    uint64_t read;  /* bytes of all calls of the run */
    uint64_t ahead; /* so many calls behind the last one were proposed, and are seen to */
};

void xh_shifts_free(struct xh_shifts *s);

/* Takes note of a call of |n| > 0 pieces. One that repeats the last one changes nothing. */
void xh_shifts_saw(struct xh_shifts *s, const struct xh_extent *ext, size_t n);

/* Returns the ranges of the next calls, which are not proposed yet, once three calls kept one distance: ahead of the
 * last one lie at most |window| bytes, and no more than the run has read. Nothing is proposed while half of that lies
 * ahead. None lies outside |in|. Sets |*n| to how many ranges there are, and |*calls| to how many calls they are of.
 * NULL: none, or no memory. Owns: the caller frees. */
struct xh_range *xh_shifts_next(const struct xh_shifts *s, uint64_t window, struct xh_range in, size_t *n,
                                uint64_t *calls);

#endif
