/* Owners: an owner is a slot of the shadow. A lock proves it alive; the kernel releases that lock at any death. */
#ifndef XH_SHADOW_OWNER_H
#define XH_SHADOW_OWNER_H

#include "impl.h"

/* Returns this process's owner number in |s|. The first call takes a slot. Returns 0 when none can be had. */
uint32_t xh_owner_get(struct xh_shadow *s);
/* Returns 1 when |owner| is proved dead; 0 when it is alive, or that is not known. */
int xh_owner_dead(struct xh_shadow *s, uint32_t owner);

#endif
