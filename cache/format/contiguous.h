/* Where datasets' contiguous raw data lies, from the metadata that passes by.
 *
 * A dataset's object header says where its raw data begins and how long it is (HDF5 File Format
 * Specification 3.0, IV.A.2.i, class contiguous), and HDF5 reads the header before it reads the data. So
 * who reads such data in order need not be fetched what lies behind it.
 *
 * All of it is a hint: bytes are hostile, and the worst that they do is to hide a dataset's end or to
 * invent one. Pure: no clock, no locks, no I/O but the caller's |look|. Memory is bounded.
 * Threads: one at a time per object; the caller locks. */
#ifndef XH_CONTIGUOUS_H
#define XH_CONTIGUOUS_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"
#include "metaparse.h"

/* Datasets that are remembered, and the least that is: what reads past the end of a smaller one costs
 * little, and mostly brings its neighbour. */
#define XH_CONTIGUOUS_MAX 1024u
#define XH_CONTIGUOUS_LEAST_BYTES (1u << 20)

struct xh_contiguous;

/* Of an object of |size| bytes. NULL: no memory. Owns: free it. */
struct xh_contiguous *xh_contiguous_new(uint64_t size);
void xh_contiguous_free(struct xh_contiguous *c);

/* Shows metadata that HDF5 has read: |len| bytes at |off|, in the object. What is more than was read,
 * as where a header goes on elsewhere, |look| is asked for, now and when more is shown. */
void xh_contiguous_see(struct xh_contiguous *c, uint64_t off, const uint8_t *p, size_t len, xh_meta_look *look,
                       void *ctx);

/* The raw data of the dataset that holds all of |r|; len 0: none is known. Lies in the object. */
struct xh_range xh_contiguous_at(const struct xh_contiguous *c, struct xh_range r);

/* How many are remembered, for tests. */
size_t xh_contiguous_held(const struct xh_contiguous *c);

#endif
