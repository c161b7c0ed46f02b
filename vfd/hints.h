/* How the public hints find the driver's part of a file: see hints.c. */
#ifndef XH_VFD_HINTS_H
#define XH_VFD_HINTS_H

struct xh_remote;

/* For the driver's get_handle, which is the one callback that a file's ID leads to. When it is this
 * thread's own hint that asks, takes |remote| (NULL: the file is local) as the answer and returns 1. */
int xh_hints_answer(struct xh_remote *remote);

#endif
