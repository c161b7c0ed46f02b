/* Sequences: raw reads that follow each other by address. */
#ifndef XH_SEQUENCE_H
#define XH_SEQUENCE_H

#include <pthread.h>

#include "observer.h"
#include "turns.h"

extern const struct xh_observer xh_sequence_observer;

struct xh_row;

/* Of an open file; changed by sequence.c alone. */
struct xh_sequence {
    /* Guards the rest. Readers only try it: a missed note costs a guess. Held while what is expected is submitted, so
     * the locks of stage, shadow and origin are taken in it. No engine thread takes it. */
    pthread_mutex_t lock;
    struct xh_turns turns;
    uint64_t began;  /* where the last run began that streams were told of */
    uint64_t thread; /* the one that made the first long read; 0: none has */
    int threads;     /* others made such, too */
    unsigned strays; /* the last long reads, one after another, that went on with no run */
    int astray;      /* xh_policy_is_astray, of the last one */
};

/* When the file is opened, and in a fork's child. */
void xh_sequence_init(struct xh_sequence *s);

/* A raw read of |n| > 0 extents is about to begin. Where they touch, it most likely begins a long run, in this file
 * or in this and others in turns, and connections are in slow start, or the reader jumps from a long run, the run's
 * stream begins with the read itself. Returns 1 then: the stage has what is read. */
int xh_sequence_lead(struct xh_file *f, const struct xh_extent *ext, size_t n);

/* 1 when the reader takes no order, and as much at a time as is worth all connections: xh_policy_is_astray. To be asked
 * behind xh_sequence_lead. */
int xh_sequence_strays(struct xh_file *f);

/* A run is expected to go through row->at of |f|, which nobody has read yet, after |after| bytes of other files: the
 * first |len| bytes of that may come. */
void xh_sequence_begin(struct xh_file *f, const struct xh_row *row, uint64_t after, uint64_t len);

/* Copies what is known of the run. Returns 0 where that cannot be had now. */
int xh_sequence_look(struct xh_file *f, struct xh_predict_seq *out);

/* Raw data is to come another way from now on: what is expected of a run is asked for there, where it is not on its
 * way. */
void xh_sequence_again(struct xh_file *f);

#endif
