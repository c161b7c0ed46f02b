/* Sequences: raw reads that follow each other by address. */
#ifndef XH_SEQUENCE_H
#define XH_SEQUENCE_H

#include <pthread.h>

#include "observer.h"
#include "predict.h"

extern const struct xh_observer xh_sequence_observer;

struct xh_row;

/* So many runs are told apart: a program reads several datasets in turns, or several threads each a part of one. */
#define XH_RUNS_MOST 8

/* Of an open file; changed by sequence.c alone. */
struct xh_sequence {
    /* Guards the rest. Readers only try it: a missed note costs a guess. Held while what is expected is submitted, so
     * the locks of stage, shadow and origin are taken in it. No engine thread takes it. */
    pthread_mutex_t lock;
    struct xh_run_read {
        struct xh_predict_seq seq;
        uint64_t at;   /* |reads| when it was read last */
        uint64_t back; /* |reads| when its reader last came back to it from another one like it; 0: never */
    } run[XH_RUNS_MOST]; /* the one that was read last comes first */
    uint64_t reads;
    unsigned turns; /* to so many of them he came back lately; 0 also where it was to one, and some reads ago */
};

/* When the file is opened, and in a fork's child. */
void xh_sequence_init(struct xh_sequence *s);

/* A raw read of |n| > 0 extents is about to begin. Where they touch, it most likely begins a long run, in this file
 * or in this and others in turns, and connections are in slow start, the run's stream begins with the read itself.
 * Returns 1 then: the stage has what is read. */
int xh_sequence_lead(struct xh_file *f, const struct xh_extent *ext, size_t n);

/* A run is expected to go through row->at of |f|, which nobody has read yet, after |after| bytes of other files: the
 * first |len| bytes of that may come. */
void xh_sequence_begin(struct xh_file *f, const struct xh_row *row, uint64_t after, uint64_t len);

/* Copies what is known of the run. Returns 0 where that cannot be had now. */
int xh_sequence_look(struct xh_file *f, struct xh_predict_seq *out);

/* Raw data is to come another way from now on: what is expected of a run is asked for there, where it is not on its
 * way. */
void xh_sequence_again(struct xh_file *f);

#endif
