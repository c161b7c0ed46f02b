/* Ranges and extents: half-open, in bytes of the origin. */
#ifndef XH_EXTENT_H
#define XH_EXTENT_H

#include <stddef.h>
#include <stdint.h>

struct xh_range { /* [off, off+len) */
    uint64_t off, len;
};

struct xh_extent { /* a range that the caller asked for, and where it shall land */
    uint64_t off, len;
    void *buf;
};

/* Index of the one of |n| > 0 ranges, sorted and disjoint, that holds |off|, if one does. */
size_t xh_range_at(const struct xh_range *r, size_t n, uint64_t off);

/* For qsort: by offset. */
int xh_range_order(const void *a, const void *b);

/* Sorts |n| ranges and joins what overlaps, touches or is at most |gap| apart. Returns how many are left. */
size_t xh_ranges_join(struct xh_range *r, size_t n, uint64_t gap);

#endif
