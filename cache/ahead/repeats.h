/* Repeats: raw data that is read again soon after it was read, as by `d[i].mean(), d[i].std()`, by rows of what is
 * read whole each time, by windows that overlap, or by several threads. */
#ifndef XH_REPEATS_H
#define XH_REPEATS_H

#include <pthread.h>

#include "base/extent.h"
#include "observer.h"

extern const struct xh_observer xh_repeats_observer;

/* Reads of which the next ones may be repeats: of so many threads that read the same in one order, each is behind the
 * first by less. */
#define XH_REPEATS_MOST 16

/* Of an open file; changed by repeats.c alone. */
struct xh_repeats {
    pthread_mutex_t lock; /* guards the rest; a leaf */
    struct xh_range at[XH_REPEATS_MOST]; /* a ring of the last reads; len 0: none yet */
    unsigned n;                          /* so many were noted */
    uint64_t left; /* until so much was read that nobody had read, what is read again ends the streams, and what is kept
                    * because of it still is; 0: one repeat shows no habit */
};

/* When the file is opened, all zero, and in a fork's child. */
void xh_repeats_init(struct xh_repeats *r);

#endif
