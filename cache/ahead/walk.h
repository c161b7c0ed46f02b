/* The walk: metadata is fetched ahead of a reader that goes from object to object. */
#ifndef XH_WALK_H
#define XH_WALK_H

#include <pthread.h>
#include <stdatomic.h>

#include "observer.h"

struct xh_metaindex;

extern const struct xh_observer xh_walk_observer;

/* Metadata fetched ahead of a walk; see walk.c. */
struct xh_walk {
    pthread_mutex_t lock;       /* guards what |index| points to; held for parsing, and for looks at what is here
                                 * (xh_here_look) */
    struct xh_metaindex *index; /* constant, but for a fork's child, which begins anew; NULL: no walk */
    _Atomic int on;             /* the walk has begun: release, as what opening still set up then (|spare_bytes|) is
                                 * there for an engine thread that finds it so, acquire */
    _Atomic int arrived;        /* bytes have come since the index last looked; the lock orders the rest */
    _Atomic unsigned lonely;    /* rises with each read that nobody had foreseen, falls with the others */
};

/* init and end: with the file, once it has its shadow; |walks| 0: there is to be none. begin: the first look at a file
 * that was not known. arrived: a speculative fetch has ended (called on engine threads). None blocks on the network,
 * none fails. */
void xh_walk_init(struct xh_file *f, int walks);
void xh_walk_end(struct xh_file *f);
void xh_walk_begin(struct xh_file *f);
void xh_walk_arrived(struct xh_file *f);
int xh_walk_is_ours(struct xh_file *f); /* 1: metadata is on its way, and it is this process that walks for all */

#endif
