/* One read, whole. */
#ifndef XH_READ_H
#define XH_READ_H

#include "cache.h"
#include "watch/account.h"

/* Reads |n| extents, not all empty, which lie in the object, past the unverified head: from the shadow, or as it comes;
 * |*served| says how. As xh_cache_read. */
int xh_read_pages(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, struct xh_served *served,
                  struct xh_err *err);

/* As xh_cache_read, for a file that is a source of another one and whose bytes that one proves by sums: past its
 * unverified head and its metadata image, and on no account. */
int xh_read_beside(struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n, struct xh_err *err);

#endif
