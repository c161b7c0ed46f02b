/* The mapping of a virtual dataset: which files have its data. It lies in the global heap.
 *
 * Pure, and a hint: bytes are hostile, and what is not understood names nothing.
 * Source: HDF5 File Format Specification 3.0, "Global Heap", "Global Heap Block for Virtual Datasets", "Dataspace Selection". */
#ifndef XH_MAPPING_H
#define XH_MAPPING_H

#include <stddef.h>
#include <stdint.h>

/* The names of source files, distinct neighbours, in the order of a mapping: NUL-terminated, one behind the other in |text|. */
struct xh_names {
    char *text;
    size_t bytes, n;
};

/* |len| bytes at |p| begin a collection of the global heap: its bytes, else 0. */
uint64_t xh_mapping_collection(const void *p, size_t len);

/* Gives |out|, empty at first, the names of the next mapping in the collection |p|, of |len| bytes, from |*at| on, which is 0 at first
 * and then behind it. A mapping within the same file, and a name that HDF5 makes of a pattern, are left out; so is a file whose
 * lengths are not stored in eight bytes.
 * Returns how many names there are, two at least; 0: there is no more such mapping, or no memory; then |out| is empty.
 * Owns: the caller frees out->text. */
size_t xh_mapping_next(const void *p, size_t len, size_t *at, struct xh_names *out);

/* Collections of the global heap among what is read of a file, in one piece or in two, as HDF5 reads those of more than 4 KiB. All
 * zero at first; of one thread at a time. */
struct xh_mapping_seen {
    uint8_t *p; /* the collection's first bytes; NULL: none is awaited */
    uint64_t at;
    size_t bytes, have;
};

/* [at, at + len) was read: |p|. Returns the collection that is whole with it and sets |*bytes|, else NULL. Owns: |p|'s caller, or
 * |s|, until the next call. Free s->p in the end. */
const uint8_t *xh_mapping_saw(struct xh_mapping_seen *s, uint64_t at, const void *p, size_t len, size_t *bytes);

#endif
