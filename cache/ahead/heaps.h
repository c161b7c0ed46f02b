/* Values of variable length: the collections that hold them are fetched ahead. */
#ifndef XH_HEAPS_H
#define XH_HEAPS_H

#include <pthread.h>
#include <stdatomic.h>

#include "format/metaparse.h"
#include "observer.h"

struct xh_globalheap;

/* What is about to be read, and what was read. */
extern const struct xh_observer xh_heaps_observer, xh_descriptors_observer;

/* Of an open file; changed by heaps.c alone. */
struct xh_heaps {
    pthread_mutex_t lock;              /* guards what |collections| points to; a leaf, held for computing alone */
    struct xh_globalheap *collections; /* NULL: nothing is fetched ahead */
    struct xh_meta_format format;      /* of addresses; under the lock as well */
    _Atomic int known;                 /* 1: |format| is set. Relaxed, as the next one: what is missed is a guess */
    _Atomic int named;                 /* 1: a descriptor was seen */
};

/* init: the file is about to be opened. begin: it is open. free: nobody reads it any more. after_fork: in a child. */
void xh_heaps_init(struct xh_heaps *h);
void xh_heaps_begin(struct xh_file *f);
void xh_heaps_free(struct xh_heaps *h);
void xh_heaps_after_fork(struct xh_heaps *h);

#endif
