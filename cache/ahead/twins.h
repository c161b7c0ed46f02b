/* Datasets that are read at the same places: of a sparse matrix, data[a:b] and then indices[a:b]; of a table whose
 * columns are datasets, a row of each. The rows may come in no order: a read of the first dataset, which leads,
 * foretells those of the others, which follow. So a row costs a round trip, and not one for each dataset. Pure. All
 * zero at first. */
#ifndef XH_TWINS_H
#define XH_TWINS_H

#include <stdint.h>

#define XH_TWINS_MOST 4u /* datasets that follow one */
#define XH_TWINS_RECENT 8u

/* Where something is read: units |at| to |at| + |len| of a dataset of |size| units, bytes or chunks. */
struct xh_twin_place {
    uint64_t set; /* which dataset; not 0 */
    uint64_t at, len, size;
};

struct xh_twins {
    struct xh_twin_place recent[XH_TWINS_RECENT]; /* a ring: what was read last of the dataset that leads */
    unsigned nrecent;                             /* so many were noted */
    struct {
        uint64_t set, size;
        unsigned score;  /* of the last places that were read of it, so many had been read of the leading one */
        unsigned waited; /* places that were foretold since one was read */
    } follows[XH_TWINS_MOST];
    unsigned n;       /* how many follow */
    unsigned strange; /* reads of other datasets, since one of the leading one */
};

/* Notes that |p| is read. Fills |out| with what will be read next of the datasets that follow, in their order. Returns
 * how many places that are. A dataset whose foretold places are not read is not foretold any more, until it follows
 * again. */
unsigned xh_twins_read(struct xh_twins *t, struct xh_twin_place p, struct xh_twin_place out[XH_TWINS_MOST]);

#endif
