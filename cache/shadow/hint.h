/* Hints, for the code that makes room. Loading and saving are in shadow.h. */
#ifndef XH_SHADOW_HINT_H
#define XH_SHADOW_HINT_H

/* Returns 1 when the hint file |name| is unsound, or belongs to a shadow that is gone. */
int xh_hint_orphan(int dirfd, const char *name);

#endif
