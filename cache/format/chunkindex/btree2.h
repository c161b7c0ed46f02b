/* B-tree version 2: see btree2.c. All functions return 0, or -1 when the bytes are invalid. */
#ifndef XH_BTREE2_H
#define XH_BTREE2_H

#include "parts.h"

/* Takes the first bytes of an index, a header. Completes ps->ix->fmt, whose O, L and base are set. Appends the
 * parts. */
int xh_btree2_root(const uint8_t *p, size_t len, struct xh_parts *ps);

/* Takes a node's bytes and appends its parts. */
int xh_btree2_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps);

/* Sets |f|'s widths of the counts in pointers, at each level up to |depth|, which is less than 16. They follow from O,
 * node_bytes and elem, the bytes of a record. */
int xh_btree2_widths(struct xh_format *f, unsigned depth);

#endif
