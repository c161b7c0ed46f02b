/* Which metadata a walk through an HDF5 file will want next.
 *
 * Keeps the structures that are known and not yet parsed. What is there is parsed, and what
 * it names is known from then on; what is not there is asked for, many at once, so that a
 * tree comes level by level and not object by object. How much may be asked for grows with
 * how much of it the reader then uses: who opens one dataset wastes little, who walks gets
 * all. Where a reader has just been is followed first. The small datasets' own data comes along for a reader
 * who reads it.
 *
 * Pure: no clock, no locks, no I/O but the caller's |look|. Memory is bounded: a file with
 * more structures than fit is forgotten and learnt again from where the reader is. */
#ifndef XH_METAINDEX_H
#define XH_METAINDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"
#include "metaparse.h"

struct xh_metaindex;

/* An index of an object of |size| bytes. NULL: no memory. Owns: free it. */
struct xh_metaindex *xh_metaindex_new(uint64_t size);
void xh_metaindex_free(struct xh_metaindex *m);

/* Notes that HDF5 has read |r|, whose bytes are there, as metadata or (|meta| 0) as raw data,
 * which global heaps are to it. Cheap. */
void xh_metaindex_note(struct xh_metaindex *m, struct xh_range r, int meta, xh_meta_look *look, void *ctx);

/* What may be asked for in one call. */
struct xh_meta_limits {
    uint64_t gap_bytes;   /* neighbours at most so far apart are one range */
    uint64_t spare_bytes; /* what may be fetched in vain; a little is in any case */
    uint64_t most_bytes;  /* about, in all ranges together: as much as there are connections free for */
};

/* Parses what has arrived (|arrived|: since the last call bytes may have come), and fills |out|
 * with at most |room| ranges to fetch now, sorted, disjoint, none empty. Returns their number;
 * when it is not 0 there may be more. */
size_t xh_metaindex_next(struct xh_metaindex *m, int arrived, const struct xh_meta_limits *lim, xh_meta_look *look,
                         void *ctx, struct xh_range *out, size_t room);

#endif
