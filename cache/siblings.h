/* Siblings: files that one file names, as the sources of a virtual dataset, and that are read alike.
 *
 * HDF5 opens the sources that a read needs, and then reads them one after another: each first read would wait for a round trip.
 * Where two of them were first read in the same places, those of the others that are open already are fetched ahead.
 *
 * Lock: one for the process; the locks of a file are taken in it. A fork's child begins without siblings. Threads: any. */
#ifndef XH_SIBLINGS_H
#define XH_SIBLINGS_H

#include <stdatomic.h>

#include "extent.h"

#define XH_SIBLING_RANGES 16 /* places of a first read that are remembered */

struct xh_file;

/* Of an open file. */
struct xh_sibling {
    _Atomic int waits; /* 1: it is in the list. Changed under the lock, read without it as a hint */
    /* Under the lock: */
    struct xh_file *next, **link;
    unsigned era;   /* the list's when it came there: another one is a fork's parent's */
    uint64_t asked; /* bytes that were fetched ahead for its first read */
};

/* enter: |f| is open. leave: it is about to be closed. */
void xh_siblings_enter(struct xh_file *f);
void xh_siblings_leave(struct xh_file *f);

/* A raw read of |n| extents of |f| begins, behind what it needs itself. Does not block on the network, never fails. */
void xh_siblings_raw(struct xh_file *f, const struct xh_extent *ext, size_t n);

#endif
