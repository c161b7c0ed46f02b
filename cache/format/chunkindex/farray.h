/* Fixed array: see farray.c. Both functions return 0, or -1 when the bytes are invalid. */
#ifndef XH_FARRAY_H
#define XH_FARRAY_H

#include "parts.h"

/* Takes the first bytes of an index, a header. Completes ps->ix->fmt, whose O, L and base are set. Appends the
 * parts. */
int xh_farray_root(const uint8_t *p, size_t len, struct xh_parts *ps);

/* Takes a node's bytes and appends its parts. */
int xh_farray_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps);

#endif
