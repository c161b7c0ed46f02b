/* Who is alive: an owner is a slot of the shadow, proved by a lock that the kernel drops at any death. */
#ifndef XH_SHADOW_OWNER_H
#define XH_SHADOW_OWNER_H

#include "impl.h"

/* This process's owner number in |s|, taken at the first call; 0 when none can be had. */
uint32_t xh_owner_get(struct xh_shadow *s);
/* 1 when |owner| is proved dead; 0 when it is alive, or that cannot be told. */
int xh_owner_dead(struct xh_shadow *s, uint32_t owner);

#endif
