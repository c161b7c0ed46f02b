/* One chunk index: a list of segments in logical order (parts.h) that is walked the same way whatever its kind. Which
 * kind reads the bytes of a node is known here alone. */
#ifndef XH_INDEX_H
#define XH_INDEX_H

#include "parts.h"

/* A new index from the bytes that begin it, or NULL: none, or no memory. Of |fmt| O, L and base are set. The caller
 * links it. */
struct xh_index *xh_index_new(struct xh_chunkmap *map, struct xh_format fmt, uint64_t addr, const uint8_t *p,
                              size_t len);
void xh_index_free(struct xh_index *ix);
/* Replaces the segment of |node|, not seen so far, by what |p| tells. */
void xh_index_unfold(struct xh_node *node, const uint8_t *p, size_t len);
/* Makes segments that can be read again unseen, the farthest from the reader first, until the
 * object's memory is at most |bytes|. Returns 1 when that was reached. */
int xh_index_forget(struct xh_index *ix, size_t bytes);
/* Segment that holds |rank| < all; its number. */
size_t xh_index_seg(const struct xh_index *ix, uint64_t rank);
/* For xh_order: what is at a rank; |ctx| is the index. */
xh_order_look xh_index_look;
/* The chunk at |rank|, which xh_index_look called one. */
struct xh_chunk *xh_index_chunk(const struct xh_index *ix, uint64_t rank);

#endif
