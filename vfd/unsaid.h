/* What a read likely is whose program does not say it: one that reads a file as bytes, without HDF5.
 *
 * A short read is taken for one of metadata, unless it goes on where one of raw data ended: a long read may come in
 * pieces, of which the last is short. */
#ifndef XH_UNSAID_H
#define XH_UNSAID_H

#include <stdatomic.h>

#include "../cache/cache.h"

#define XH_UNSAID_ENDS 4u /* of so many reads: by several threads of a program */

/* Of one open file; of zeroes at first. Relaxed: nothing goes with these, and one that is lost costs a guess. */
struct xh_unsaid {
    _Atomic uint64_t raw_ends[XH_UNSAID_ENDS]; /* where the last reads of raw data ended; 0: none */
    _Atomic unsigned next;
};

/* Takes note of the read of |n| > 0 extents, and says what it is. Threads: any. Does not block. */
enum xh_kind xh_unsaid_kind(struct xh_unsaid *u, const struct xh_extent *ext, size_t n);

#endif
