/* Hints, for those that make room. Loading and saving are in shadow.h. */
#ifndef XH_SHADOW_HINT_H
#define XH_SHADOW_HINT_H

/* 1 when the hint file |name| speaks of a shadow that is no longer there. */
int xh_hint_orphan(int dirfd, const char *name);

#endif
