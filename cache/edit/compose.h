/* The new file's bytes: the overlay over the version below. */
#ifndef XH_COMPOSE_H
#define XH_COMPOSE_H

#include "impl.h"

/* Sets |buf| to the new file's bytes at |off|, as they are sent. Returns 0 or a negative code. Blocks. */
int xh_edit_compose(struct xh_edit *e, uint64_t off, char *buf, size_t len, struct xh_err *err);

/* Returns 1 when |buf|, which HDF5 passes as raw data, is a global heap, or a page that has one. */
int xh_edit_is_heap(const struct xh_edit *e, const void *buf, uint64_t len);

/* Mark the time spent in this room, which the account counts as copying; it excludes calls of cache.h and requests.
 * xh_copying_begin returns the value for xh_copying_end. */
uint64_t xh_copying_begin(struct xh_edit *e);
void xh_copying_end(struct xh_edit *e, uint64_t begun);

#endif
