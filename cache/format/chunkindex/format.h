/* The format of an index in the file: facts from its header or root, and functions that read its numbers. */
#ifndef XH_FORMAT_H
#define XH_FORMAT_H

#include <stdint.h>

#include "base/bytes.h"

#define XH_UNDEF UINT64_MAX /* an undefined address: nothing is there */

struct xh_format {
    uint8_t O, L; /* bytes of an address, and of a length */
    uint64_t base; /* added to addresses in nodes */
    uint32_t key;  /* version 1 B-tree: bytes of a key */
    uint32_t elem; /* bytes of a record or an element */
    uint8_t size_bytes; /* bytes of the chunk's size in it; 0: not stored */
    /* version 2 B-tree */
    uint32_t node_bytes;
    uint8_t count_bytes;     /* bytes of a child's number of records */
    uint8_t total_bytes[16]; /* bytes of the number of records below a child at this level; 0 for leaves */
    /* arrays */
    uint64_t elems;      /* number of elements in total */
    uint64_t page_elems; /* number of elements of a page */
    /* extensible array */
    uint8_t off_bytes, nsupers;
    uint32_t inline_elems, least_elems, least_blocks;
};

/* Takes from the header of a fixed or extensible array whether its chunks have filters, and an element's bytes. |p| has
 * 7 bytes. Returns 0, or -1 when it makes no sense. */
static inline int xh_format_elements(struct xh_format *f, const uint8_t *p)
{
    if (p[4] != 0 || p[5] > 1)
        return -1;
    f->elem = p[6];
    if (p[5] == 0)
        return f->elem == f->O ? 0 : -1;
    f->size_bytes = (uint8_t)(f->elem - f->O - 4);
    return f->elem > f->O + 4u && f->elem <= f->O + 12u ? 0 : -1;
}

/* Reads an address of |f|'s file and converts it into one of the object; XH_UNDEF for the undefined address. */
static inline uint64_t xh_addr(const struct xh_format *f, const uint8_t *p)
{
    uint64_t v = xh_le(p, f->O), undef = f->O < 8 ? (1ull << 8 * f->O) - 1 : XH_UNDEF;
    return v == undef || v > XH_UNDEF - f->base ? XH_UNDEF : v + f->base;
}

#endif
