/* Ranges and extents: half-open, in bytes of the origin. */
#ifndef XH_EXTENT_H
#define XH_EXTENT_H

#include <stddef.h>
#include <stdint.h>

/* A page: an aligned unit of the origin, in which it is cached and counted. */
#define XH_PAGE_BYTES 4096u

/* Returns the index of the first page that begins at |off| or behind it. */
static inline uint64_t xh_page_up(uint64_t off)
{
    return off / XH_PAGE_BYTES + (off % XH_PAGE_BYTES != 0);
}

static inline uint64_t xh_min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t xh_max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

struct xh_range { /* [off, off+len) */
    uint64_t off, len;
};

/* Ranges that are collected, in the order in which they come. Owns: the caller frees |at|. */
struct xh_range_list {
    struct xh_range *at;
    size_t n, room;
};

struct xh_extent { /* a range that the caller asked for, and the buffer for it */
    uint64_t off, len;
    void *buf;
};

/* Returns how many bytes |n| extents have together. */
static inline uint64_t xh_extents_bytes(const struct xh_extent *ext, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ext[i].len;
    return sum;
}

/* Returns how many bytes |n| ranges have together. */
static inline uint64_t xh_ranges_bytes(const struct xh_range *r, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += r[i].len;
    return sum;
}

/* Returns the range that |n| > 0 extents make up, each of which begins where the one before it ends; len 0: they do
 * not. */
static inline struct xh_range xh_extents_in_a_row(const struct xh_extent *ext, size_t n)
{
    struct xh_range r = {ext->off, ext->len};
    for (size_t i = 1; i < n; i++) {
        if (ext[i].off != r.off + r.len)
            return (struct xh_range){ext->off, 0};
        r.len += ext[i].len;
    }
    return r;
}

/* Returns the range from the first to the last byte of |n| extents, those of len 0 aside; len 0: they have none. */
static inline struct xh_range xh_extents_span(const struct xh_extent *ext, size_t n)
{
    uint64_t off = UINT64_MAX, end = 0;
    for (size_t i = 0; i < n; i++)
        if (ext[i].len) {
            off = xh_min64(off, ext[i].off);
            end = xh_max64(end, ext[i].off + ext[i].len);
        }
    return end ? (struct xh_range){off, end - off} : (struct xh_range){0, 0};
}

/* Returns 1 when |n| extents are less than half of what lies from the first to the last byte of them. */
static inline int xh_extents_are_scattered(const struct xh_extent *ext, size_t n)
{
    return xh_extents_span(ext, n).len > 2 * xh_extents_bytes(ext, n);
}

/* Length of |r|, not empty, in a Range header: "first-last" and a comma. */
size_t xh_range_header_bytes(struct xh_range r);

/* Returns the index of the range that holds |off|, if one does. |r| has |n| > 0 ranges, sorted and disjoint. */
size_t xh_range_at(const struct xh_range *r, size_t n, uint64_t off);

/* For qsort and its like: orders ranges, extents, runs of pages and whatever else begins with a uint64_t by that. */
int xh_range_order(const void *a, const void *b);

/* Adds [off, off + len), joined to the last range where it begins in that or at its end. What is empty, or can lie in
 * no file, is left out. Returns 0, or -1 when there are |most|, or no memory. */
int xh_range_add(struct xh_range_list *l, uint64_t off, uint64_t len, size_t most);

/* Sorts |n| ranges and joins those that overlap, touch or lie at most |gap| apart. Returns how many are left. */
size_t xh_ranges_join(struct xh_range *r, size_t n, uint64_t gap);

#endif
