/* Siblings: files that one file names, as the sources of a virtual dataset, and that are read alike.
 *
 * HDF5 opens the sources that a read needs, and then reads them one after another: each first read would wait for a
 * round trip. Where two of them were first read in the same places, those of the others that are open already, or are
 * opened ahead, are fetched. What streams by is reckoned for all of a family together: many small files are read as one
 * large one is. Where they are read in turns, as the sources of a dataset whose columns lie side by side, each looks
 * ahead as far as its part of the room goes: else the first one's future would stand before the others' present.
 *
 * Lock: one for the process; the locks of a file are taken in it. A fork's child begins without siblings. Threads:
 * any. */
#ifndef XH_SIBLINGS_H
#define XH_SIBLINGS_H

#include <stdatomic.h>

#include "observer.h"
#include "weave.h"

#define XH_SIBLING_RANGES 16 /* places of a first read that are remembered */

struct xh_kin;

extern const struct xh_observer xh_siblings_observer;

/* Of an open file. */
struct xh_sibling {
    struct xh_kin *kin; /* constant while it is open; NULL: it has none */
    _Atomic int waits; /* 1: it is in the list. Changed under the lock, read without it as a hint */
    /* Under the lock: */
    struct xh_file *next, **link; /* in the order of |number| */
    uint64_t number;
    int ahead;      /* nobody has asked for it yet */
    unsigned era;   /* the list's when it came there: another one is a fork's parent's */
    struct xh_weave_thread turn;
    uint64_t asked; /* bytes that were fetched ahead for its first read */
};

/* join: |f| is about to be opened. enter: it is open; |ahead|: nobody has asked for it yet. asked: somebody has. leave:
 * it is about to be closed. part: nothing of it is on its way any more. forget: it is a fork's parent's. */
void xh_siblings_join(struct xh_file *f);
void xh_siblings_enter(struct xh_file *f, int ahead);
void xh_siblings_asked(struct xh_file *f);
void xh_siblings_leave(struct xh_file *f);
void xh_siblings_part(struct xh_file *f);
void xh_siblings_forget(struct xh_file *f);

/* Which of the files that are read in turns |f| is, for xh_predict_seq.turn; 0: they are not. */
unsigned xh_siblings_turn(const struct xh_file *f);

/* 1 when |f| has a family. */
int xh_siblings_has(const struct xh_file *f);

/* How a run goes on behind the file that it is in. */
struct xh_row {
    struct xh_range at; /* where the run reads in each file */
    uint64_t window;    /* how far ahead it may look */
    uint64_t bytes;     /* it has read so far */
    uint64_t rest;      /* that may come of the files that follow */
    /* Lets |len| bytes come of |g|, which nobody has read yet. Does not block on the network. */
    void (*begin)(struct xh_file *g, const struct xh_row *row, uint64_t len);
};

/* The files that follow |f|, and are as long, are read as |row| says: begins with those that are open, and with others
 * as they are opened. What was said of the family before is no longer so. */
void xh_siblings_follow(struct xh_file *f, const struct xh_row *row);

/* How many files of its family are read in turns with |f|, at least 1: they share what may be fetched ahead. */
unsigned xh_siblings_width(const struct xh_file *f);

#endif
