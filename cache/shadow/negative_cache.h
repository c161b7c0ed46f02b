/* The negative cache, for the code that makes room. Noting and asking are in shadow.h. */
#ifndef XH_SHADOW_LACK_H
#define XH_SHADOW_LACK_H

/* Returns 1 when the entry |name| has expired for every reader. */
int xh_negative_is_old(int dirfd, const char *name);

#endif
