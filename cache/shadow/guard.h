/* Guards: a shadow's file that shrinks under its mapping costs the shadow, not the process. */
#ifndef XH_SHADOW_GUARD_H
#define XH_SHADOW_GUARD_H

#include <stddef.h>

struct xh_guard;

/* Installs the handler; once a process. */
void xh_guard_install(void);
/* From here on a fault in [map, map + bytes) breaks the guard instead of ending the process. NULL: no memory. */
struct xh_guard *xh_guard_add(void *map, size_t bytes);
void xh_guard_drop(struct xh_guard *g); /* before the mapping goes; NULL is harmless */
/* 1 when the file shrank: what is mapped are zeros of this process alone from then on. */
int xh_guard_broken(const struct xh_guard *g);

#endif
