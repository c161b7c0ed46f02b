/* The rest of a file's head, beyond what opening brought. */
#ifndef XH_HEAD_H
#define XH_HEAD_H

#include "observer.h"

/* |n| ranges of metadata are missing and asked for. Fetches the rest of the head, once, if one of them is in it.
 * Threads: any. Does not block. */
void xh_head_missed(struct xh_file *f, const struct xh_range *r, size_t n);

extern const struct xh_observer xh_head_observer;

#endif
