/* Lacks, for those that make room. Noting and asking are in shadow.h. */
#ifndef XH_SHADOW_LACK_H
#define XH_SHADOW_LACK_H

/* 1 when nobody believes the lack |name| any more. */
int xh_negative_is_old(int dirfd, const char *name);

#endif
