/* The shadow objects of this process: one for each shadow. Opening and closing are in shadow.h. */
#ifndef XH_SHADOW_OBJECTS_H
#define XH_SHADOW_OBJECTS_H

#include <pthread.h>

#include "impl.h"

/* Guards the list of objects, their reference counts, and the taking of slots. It is the only lock of the room; page
 * states need none. It is held over file operations in the shadow's directory, never over a wait. fork() holds it. */
extern pthread_mutex_t xh_shadow_lock;

/* Opens the shadow |name| in the directory of |near| only to evict in it: does not create it, and leaves its time of
 * last use. Returns NULL when it is not sound. Owns: the caller closes it. */
struct xh_shadow *xh_shadow_visit(struct xh_shadow *near, const char *name);

/* Returns the largest of this process's private shadows except |but|, if it has more than |floor_bytes|; else NULL.
 * Owns: the caller closes it. */
struct xh_shadow *xh_shadow_largest_private(const struct xh_shadow *but, uint64_t floor_bytes);

#endif
