/* The new file's bytes: the overlay over the version below. */
#ifndef XH_COMPOSE_H
#define XH_COMPOSE_H

#include "impl.h"

/* The new file's bytes as they go out. Returns 0 or a negative code. */
int xh_edit_compose(struct xh_edit *e, uint64_t off, char *buf, size_t len, struct xh_err *err);

/* For the account: what is done here and not in cache.h, nor at the server, is copying. */
uint64_t xh_copying_begin(struct xh_edit *e);
void xh_copying_end(struct xh_edit *e, uint64_t begun);

#endif
