/* Around: what lies around reads that come in no order, each of which waits for a round trip, or lies in small pieces
 * all over an array. The link stands idle meanwhile, and a plain download of all would be over sooner. So what lies
 * around them comes in the background, once their reader has waited for a good part of the time that it takes. */
#ifndef XH_AROUND_H
#define XH_AROUND_H

#include <pthread.h>

#include "base/extent.h"
#include "observer.h"

extern const struct xh_observer xh_around_large_observer, xh_around_observer;

/* Of an open file; changed by around.c alone. */
struct xh_around {
    pthread_mutex_t lock; /* guards the rest */
    struct xh_range in;   /* where the reads were; no longer than what may be kept */
    uint64_t last;        /* where the last one was */
    unsigned reads;       /* so many were there */
    uint64_t read_ns;     /* when the last one had come */
    uint64_t waited_ns;   /* for them, as long as it takes while nothing else comes */
    uint64_t slowed_ns;   /* what it took longer since something comes, but for the read that did so most: it may have
                           * waited for a connection to be opened */
    uint64_t slowest_ns;  /* what that one did */
    uint64_t came_before; /* bytes that had come before the first of them */
    uint64_t idle_ns;     /* how long reads waited before, in all */
    uint64_t idle_reads;  /* so many were these */
    struct xh_range all;  /* |in|, once all of it is here that is worth a request */
    _Atomic uint64_t since_ns; /* when the first of the reads there had come; 0: none has; relaxed */
    _Atomic int began;    /* something was asked for; relaxed */
    _Atomic unsigned hits; /* since then so many reads had all that they wanted; relaxed */
};

/* When the file is opened, and in a fork's child. */
void xh_around_init(struct xh_around *a);

/* |f| is about to be closed: the server's other files profit from what became of it. */
void xh_around_end(struct xh_file *f);

#endif
