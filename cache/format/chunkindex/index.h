/* One chunk index: a list of segments in logical order (parts.h), which is walked the same way for every kind of index.
 * Only index.c knows which kind reads a node's bytes. */
#ifndef XH_INDEX_H
#define XH_INDEX_H

#include "parts.h"

/* Makes a new index from its first bytes. |fmt| has O, L and base. Returns NULL when the bytes begin no index, or when
 * out of memory. Owns: the caller links it; xh_index_free. */
struct xh_index *xh_index_new(struct xh_chunkmap *map, struct xh_format fmt, uint64_t addr, const uint8_t *p,
                              size_t len);
void xh_index_free(struct xh_index *ix);
/* Replaces the segment of |node|, not seen so far, by what |p| contains. */
void xh_index_unfold(struct xh_node *node, const uint8_t *p, size_t len);
/* Makes segments that can be read again unseen, the farthest from the reader first, until the object's memory is at
 * most |bytes|. Returns 1 when that was reached. */
int xh_index_forget(struct xh_index *ix, size_t bytes);
/* Returns the number of the segment that holds |rank|, which is below the index's number of ranks. */
size_t xh_index_seg(const struct xh_index *ix, uint64_t rank);
/* For xh_order: what is at a rank; |ctx| is the index. */
xh_order_look xh_index_look;
/* Returns the chunk at |rank|, for which xh_index_look returned XH_PLACE_CHUNK. */
struct xh_chunk *xh_index_chunk(const struct xh_index *ix, uint64_t rank);

#endif
