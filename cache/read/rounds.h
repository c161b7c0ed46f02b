/* The rounds of a read, over the pages that it still has to have. */
#ifndef XH_ROUNDS_H
#define XH_ROUNDS_H

#include "pages/op.h"

/* Has |op| read what it still lacks: claims, fetches, waits for others. Returns 0 or the first error. */
int xh_read_rounds(struct xh_read_op *op, struct xh_err *err);

#endif
