/* Sequences: raw reads that follow each other by address. */
#ifndef XH_SEQUENCE_H
#define XH_SEQUENCE_H

#include <pthread.h>

#include "observer.h"
#include "predict.h"

extern const struct xh_observer xh_sequence_observer;

/* Of an open file; changed by sequence.c alone. */
struct xh_sequence {
    /* Guards the rest. Readers only try it: a missed note costs a guess. Held while what is expected is submitted, so
     * the locks of stage, shadow and origin are taken in it. No engine thread takes it. */
    pthread_mutex_t lock;
    struct xh_predict_seq seq;
};

/* When the file is opened, and in a fork's child. */
void xh_sequence_init(struct xh_sequence *s);

/* A raw read of |n| > 0 extents is about to begin. Where it most likely begins a long run, and connections are in slow
 * start, the run's stream begins with the read itself. Returns 1 then: the stage has what is read. */
int xh_sequence_lead(struct xh_file *f, const struct xh_extent *ext, size_t n);

/* A run that has read |bytes| elsewhere, and may look |window| bytes ahead, is expected to go through |at| of |f|,
 * which nobody has read yet: the first |len| bytes of that may come. */
void xh_sequence_begin(struct xh_file *f, struct xh_range at, uint64_t len, uint64_t window, uint64_t bytes);

/* Copies what is known of the run. Returns 0 where that cannot be had now. */
int xh_sequence_look(struct xh_file *f, struct xh_predict_seq *out);

/* Raw data is to come another way from now on: what is expected of a run is asked for there, where it is not on its
 * way. */
void xh_sequence_again(struct xh_file *f);

#endif
