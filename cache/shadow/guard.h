/* Guards: if a shadow's file shrinks under its mapping, the process loses the shadow and lives on. */
#ifndef XH_SHADOW_GUARD_H
#define XH_SHADOW_GUARD_H

#include <stddef.h>

struct xh_guard;

/* Installs the SIGBUS handler. Called once in a process. */
void xh_guard_install(void);
/* Guards [map, map + bytes): from now on a fault there breaks the guard and does not end the process. Returns NULL
 * without memory. |fd|: the file that is mapped, of which a page behind |fixed_bytes| that its disk cannot read is
 * written over with zeros, |unit_bytes| at once, before the guard breaks; -1: none. */
struct xh_guard *xh_guard_add(void *map, size_t bytes, int fd, size_t fixed_bytes, size_t unit_bytes);
void xh_guard_drop(struct xh_guard *g); /* called before the mapping is removed; NULL is allowed */
/* Returns 1 when the file shrank, or its disk failed. Then the mapping holds zeros of this process alone. Also 1 for
 * NULL. */
int xh_guard_broken(const struct xh_guard *g);

#endif
