/* Ranges that may be read again. The oldest are forgotten when there are too many: perhaps they are never read, as
 * HDF5's chunk cache has them. Threads: the caller serialises. */
#ifndef XH_AGAIN_H
#define XH_AGAIN_H

#include <stdlib.h>

#include "base/extent.h"

#define XH_AGAIN_MOST 4096u /* 64 KiB, where there are any */

struct xh_again {
    struct xh_range *at; /* a ring of XH_AGAIN_MOST; NULL: none yet */
    size_t n;            /* so many were added */
};

static inline void xh_again_free(struct xh_again *a)
{
    free(a->at);
}

/* Without memory |r| is not noted. */
static inline void xh_again_add(struct xh_again *a, struct xh_range r)
{
    if (!a->at && !(a->at = calloc(XH_AGAIN_MOST, sizeof *a->at)))
        return;
    a->at[a->n++ % XH_AGAIN_MOST] = r;
}

/* The first that was added and has some of [from, to), or NULL. */
static inline struct xh_range *xh_again_find(struct xh_again *a, uint64_t from, uint64_t to)
{
    size_t n = a->n < XH_AGAIN_MOST ? a->n : XH_AGAIN_MOST;
    for (size_t i = 0; i < n; i++)
        if (a->at[i].len && a->at[i].off < to && a->at[i].off + a->at[i].len > from)
            return &a->at[i];
    return NULL;
}

/* Returns 1 when a read of [from, to) is one that was added, and takes it off. */
static inline int xh_again_take(struct xh_again *a, uint64_t from, uint64_t to)
{
    struct xh_range *r = xh_again_find(a, from, to);
    if (r)
        *r = r->off + r->len > to ? (struct xh_range){to, r->off + r->len - to} : (struct xh_range){0};
    return r != NULL;
}

#endif
