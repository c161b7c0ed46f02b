/* Where datasets' contiguous raw data lies, learned from the metadata that HDF5 reads.
 *
 * A dataset's object header says where its raw data begins and how long it is (HDF5 File Format Specification 3.0,
 * IV.A.2.i, class contiguous). HDF5 reads the header before the data. So prefetch for a sequential reader can stop at
 * the end of the dataset.
 *
 * All results are hints. The bytes are hostile; at worst they hide a dataset's end or invent one. Pure: no clock, no
 * locks, no I/O except the caller's |look|. Memory is bounded. Threads: one at a time per object; the caller locks. */
#ifndef XH_CONTIGUOUS_H
#define XH_CONTIGUOUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"
#include "metaparse.h"

/* Most datasets that are remembered, and the smallest one. Reading past the end of a smaller dataset costs little, and
 * usually brings its neighbour. */
#define XH_CONTIGUOUS_MAX 1024u
#define XH_CONTIGUOUS_LEAST_BYTES (1u << 20)

struct xh_contiguous;

/* Makes the table of an object of |size| bytes. Returns NULL when out of memory. Owns: xh_contiguous_free. */
struct xh_contiguous *xh_contiguous_new(uint64_t size);
void xh_contiguous_free(struct xh_contiguous *c);

/* Shows metadata that HDF5 has read: |len| bytes at |off|, within the object. If more is needed, such as a header's
 * continuation, asks |look| for it, now and when more is shown. */
void xh_contiguous_see(struct xh_contiguous *c, uint64_t off, const uint8_t *p, size_t len, xh_meta_look *look,
                       void *ctx);

/* Returns the raw data of the dataset that holds all of |r|; len 0: none is known. The result lies within the
 * object. */
struct xh_range xh_contiguous_at(const struct xh_contiguous *c, struct xh_range r);

/* Returns what the superblock says; offset_bytes 0: none was seen yet. */
struct xh_meta_format xh_contiguous_format(const struct xh_contiguous *c);

/* Returns the number of datasets that are remembered. For tests. */
size_t xh_contiguous_held(const struct xh_contiguous *c);

#endif
