/* Planes: calls whose pieces lie scattered over an array, each call one step farther than the last, as `d[:, k]` for
 * k = 0, 1, 2. The next ones come ahead. */
#ifndef XH_PLANES_H
#define XH_PLANES_H

#include <pthread.h>

#include "observer.h"
#include "shifts.h"

extern const struct xh_observer xh_planes_observer;

/* Of an open file; changed by planes.c alone. */
struct xh_planes {
    pthread_mutex_t lock; /* guards the rest. Readers only try it. Held while what is expected is submitted */
    struct xh_shifts shifts;
};

/* When the file is opened, all zero. */
void xh_planes_init(struct xh_planes *p);

/* In a fork's child: what the parent knew is leaked. */
void xh_planes_forget(struct xh_planes *p);

void xh_planes_free(struct xh_planes *p);

#endif
