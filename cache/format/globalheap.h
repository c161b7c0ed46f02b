/* Which collections of the global heap a reader of values of variable length needs next.
 *
 * HDF5 keeps such values (strings above all) apart from their dataset. An element is a descriptor: a length, the
 * address of a collection, an index in it. For each collection HDF5 waits three times: for the descriptor, for the
 * collection's first 4096 bytes, which say how long it is, and for the rest. The descriptors of one read name many
 * collections, so these can be asked for together, each as long as those before it were.
 *
 * Which raw data holds descriptors is not known beforehand. Whatever is read is looked at as if it did. Nothing is
 * proposed before HDF5 has read as a collection what such a descriptor named, so that other data costs a look.
 *
 * A reader that picks elements in no order waits for each one's descriptor as well. With what it reads of a collection
 * comes a block of descriptors around the last one, so that the next one may be there.
 *
 * All input is hostile. No more collections are proposed, and not read, than HDF5 has read, and the caller can spare;
 * no more blocks than collections were read. No place outside the object is proposed. Pure: no clock, no locks, no I/O.
 * Memory is bounded. Threads: one at a time per object; the caller locks. Source: HDF5 File Format Specification 3.0,
 * III.E (global heap) and IV.B (data of variable length). */
#ifndef XH_GLOBALHEAP_H
#define XH_GLOBALHEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"
#include "metaparse.h"

struct xh_globalheap;

/* Makes the table of an object of |size| bytes. Returns NULL when out of memory. Owns: xh_globalheap_free. */
struct xh_globalheap *xh_globalheap_new(uint64_t size);
void xh_globalheap_free(struct xh_globalheap *g);

/* Notes that HDF5 reads |r|, as raw data; its bytes need not be there. Returns 0 when |r| is of no collection that a
 * descriptor has named; else 1, or 2 when the next one that is named lies before it. */
int xh_globalheap_reads(struct xh_globalheap *g, struct xh_range r);

/* Shows what HDF5 has read as raw data in one call: |n| extents with their bytes. Returns 1 when there may be something
 * to fetch by that. */
int xh_globalheap_saw(struct xh_globalheap *g, const struct xh_meta_format *format, const struct xh_extent *ext,
                       size_t n);

/* Limits of one call. */
struct xh_heap_limits {
    uint64_t spare_bytes; /* of collections that may be fetched and not used, besides as many as were used */
    uint64_t block_bytes; /* most of a block of descriptors; all together have no more than the collections read */
};

/* Fills |out| with at most |room| ranges to fetch now, in the order in which they will be read; they lie in the object.
 * Returns their number. */
size_t xh_globalheap_next(struct xh_globalheap *g, const struct xh_heap_limits *lim, struct xh_range *out, size_t room);

/* Returns the number of collections that are remembered. For tests. */
size_t xh_globalheap_held(const struct xh_globalheap *g);

#endif
