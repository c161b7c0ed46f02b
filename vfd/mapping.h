/* The mapping of a virtual dataset: which files have its data. It lies in the global heap.
 *
 * Pure. The result is only a hint: the bytes are hostile, and what is not understood gives no names.
 * Source: HDF5 File Format Specification 3.0, "Global Heap", "Global Heap Block for Virtual Datasets", "Dataspace
 * Selection". */
#ifndef XH_MAPPING_H
#define XH_MAPPING_H

#include <stddef.h>
#include <stdint.h>

/* The names of source files in the order of a mapping. A name that equals the one before it is left out. Each is
 * NUL-terminated, one behind the other in |text|. */
struct xh_names {
    char *text;
    size_t bytes, n;
    int endless; /* 1: there was a pattern for any number of names (%b) */
};

/* Fills |out|, which is empty, with the names of the next mapping in the collection |p|, of |len| bytes. |*at| is 0 at
 * first; the call moves it behind the mapping. A mapping within the same file is left out, and so is a name that HDF5
 * makes from a pattern. A file whose lengths are not stored in eight bytes gives no names.
 * Returns the number of names, at least two. Returns 0, with |out| empty, when there is no further such mapping or no
 * memory. In either case sets out->endless when a mapping that it came by has such a pattern; else leaves that.
 * Owns: the caller frees out->text. */
size_t xh_mapping_next(const void *p, size_t len, size_t *at, struct xh_names *out);

/* Finds global heap collections among the bytes that are read of a file. HDF5 reads a collection in one piece, or in
 * two if it has more than 4 KiB. All zero at first. Threads: one at a time. */
struct xh_mapping_seen {
    uint8_t *p; /* the collection's first bytes; NULL: no second piece is expected */
    uint64_t at;
    size_t bytes, have;
};

/* The |len| bytes at |p| were read from |at|; of them, those behind the first |*from| are looked at. Returns the next
 * collection that is complete with them, sets |*bytes|, and moves |*from| behind it; NULL: there is none. |pages|: HDF5
 * reads whole pages, in which collections lie anywhere; else one lies at the beginning alone. Owns: the result belongs
 * to |p|'s caller or to |s|, until the next call. Free s->p in the end. */
const uint8_t *xh_mapping_saw(struct xh_mapping_seen *s, uint64_t at, const void *p, size_t len, int pages,
                              size_t *from, size_t *bytes);

#endif
