/* The shadow objects of this process, one for each shadow. Opening and closing are in shadow.h. */
#ifndef XH_SHADOW_OBJECTS_H
#define XH_SHADOW_OBJECTS_H

#include <pthread.h>

#include "impl.h"

/* Guards the list of objects, their reference counts, and the taking of slots. The only lock of the room; words take
 * none. Held over file operations on the shadow's directory, never over a wait, and fork() holds it. */
extern pthread_mutex_t xh_shadow_lock;

/* Opens the shadow |name| of the directory of |near| only to evict in it: not made when it is
 * not there, its last use not touched. Returns NULL when it is not sound. Owns: close it. */
struct xh_shadow *xh_shadow_visit(struct xh_shadow *near, const char *name);

/* Of this process's other private shadows the one that has most, if that is more than |floor_bytes|; NULL: there is none.
 * Owns: close it. */
struct xh_shadow *xh_shadow_largest_private(const struct xh_shadow *but, uint64_t floor_bytes);

#endif
