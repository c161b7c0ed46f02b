/* Selections of HDF5's as lists of extents, a part at a time.
 *
 * HDF5 can make the list itself, and hand it to read_vector: all of it at once, in three arrays that grow. Of a million
 * elements that takes more time than to read them out of the shadow. */
#ifndef XH_SELECTION_H
#define XH_SELECTION_H

#include <stddef.h>

#include "../cache/base/extent.h"
#include "h5bind.h"

/* How the parts of a selection are read; |p| has |n| extents. */
struct xh_selection_ways {
    void *ctx;
    /* 1: where pieces are small and lie close together, what covers them may be read, and they are copied out of it. */
    int covers;
    /* Returns 0 or -1, error pushed. |n| may be 0 at the end. */
    int (*read)(void *ctx, const struct xh_extent *p, size_t n);
    /* Reads the extents when that needs no waiting: 1, or 0. NULL: each part is read by |read| as it is. */
    int (*hit)(void *ctx, const struct xh_extent *p, size_t n);
};

/* Reads |count| pairs of selections, given as HDF5 hands them to read_selection, and in their own order: part by part
 * while these are hits; from the first part on that is none the rest is one vectored read, or one for each 64 MiB of
 * what covers dense pieces and for each million of others. Returns 0; or -1, error pushed: the read's, HDF5's, or the
 * selections of a pair are not of the same size. Blocks. */
int xh_selection_read(struct xh_h5 *h5, const struct xh_selection_ways *ways, size_t count, const hid_t memory[],
                      const hid_t file[], const haddr_t addrs[], const size_t element_bytes[], void *const bufs[]);

#endif
