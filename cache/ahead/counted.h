/* Names that count: run_0041.h5, run_0042.h5; day_20240131.nc, day_20240201.nc. Which one comes next, by those before.
 * Pure. */
#ifndef XH_COUNTED_H
#define XH_COUNTED_H

#include <stddef.h>

#define XH_COUNTED_BYTES 1024 /* longer names are not followed */

/* All zero at first. */
struct xh_counted {
    char last[XH_COUNTED_BYTES]; /* the last name; "": none */
    size_t at, len; /* where in it the number stands that counts */
    long long step; /* by which it does: days in dates, months in those without a day */
    unsigned same;  /* so many times in a row it was this step */
};

/* |url| comes after the last one. */
void xh_counted_saw(struct xh_counted *c, const char *url);

/* Writes the |k|th name after the last one, k > 0. Returns 0 where it is not known: the last three names do not differ
 * by equal steps of one number, in the path. */
int xh_counted_next(const struct xh_counted *c, unsigned k, char out[XH_COUNTED_BYTES]);

#endif
