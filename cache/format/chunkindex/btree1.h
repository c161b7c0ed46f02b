/* B-tree version 1: see btree1.c. Both functions return 0, or -1 when the bytes are invalid. */
#ifndef XH_BTREE1_H
#define XH_BTREE1_H

#include "parts.h"

/* Takes the first bytes of an index, a root. Completes ps->ix->fmt, whose O, L and base are set. Appends the parts. */
int xh_btree1_root(const uint8_t *p, size_t len, struct xh_parts *ps);

/* Takes a node's bytes and appends its parts. */
int xh_btree1_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps);

#endif
