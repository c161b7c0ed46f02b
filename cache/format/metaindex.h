/* Which metadata a walk through an HDF5 file will need next.
 *
 * Keeps the structures that are known and not yet parsed. A structure whose bytes are there is parsed, and what it
 * names becomes known. Missing structures are requested, many at once, so that a tree arrives level by level and not
 * object by object. The window for requests grows with how much of the requested metadata the reader then uses: a
 * reader that opens one dataset wastes little, a walk gets everything. Structures near the reader's latest position
 * come first. When a reader reads small datasets, their data is requested too.
 *
 * Pure: no clock, no locks, no I/O except the caller's |look|. Memory is bounded: if a file has more structures than
 * fit, all are forgotten and learned again from the reader's position. */
#ifndef XH_METAINDEX_H
#define XH_METAINDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"
#include "metaparse.h"

struct xh_metaindex;

/* Makes an index of an object of |size| bytes. Returns NULL when out of memory. Owns: xh_metaindex_free. */
struct xh_metaindex *xh_metaindex_new(uint64_t size);
void xh_metaindex_free(struct xh_metaindex *m);

/* Notes that HDF5 has read |r|, whose bytes are there, as metadata or as raw data (|meta| 0). HDF5 reads global heaps
 * as raw data. Cheap. */
void xh_metaindex_note(struct xh_metaindex *m, struct xh_range r, int meta, xh_meta_look *look, void *ctx);

/* Limits of one call. */
struct xh_meta_limits {
    uint64_t gap_bytes;   /* ranges at most this far apart are joined */
    uint64_t spare_bytes; /* bytes that may be fetched and not used; WINDOW_FIRST pages are allowed in any case */
    uint64_t most_bytes;  /* approximate bound of all ranges together, from the free connections */
};

/* Parses what is there; |arrived|: bytes may have come since the last call. Fills |out| with at most |room| ranges to
 * fetch now, sorted, disjoint, none empty. Returns their number. If it is not 0, there may be more. */
size_t xh_metaindex_next(struct xh_metaindex *m, int arrived, const struct xh_meta_limits *lim, xh_meta_look *look,
                         void *ctx, struct xh_range *out, size_t room);

#endif
