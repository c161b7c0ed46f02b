/* Siblings: files that one file names, as the sources of a virtual dataset, and that are read alike.
 *
 * HDF5 opens the sources that a read needs, and then reads them one after another, so each first read would wait for a
 * round trip. Once two of them were first read in the same places, these places of the others are fetched, of files
 * that are open and of files that are opened ahead. All files of a family share one account of what streams by: many
 * small files are read as one large one is. The sources of a dataset whose columns lie side by side are read in turns.
 * Then each looks ahead only as far as its part of the room goes, so that no file's later data stands before what the
 * reader wants of the others next.
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
    int ahead;      /* it was opened ahead, and the program has not asked for it yet */
    unsigned era;   /* kin.era when it was listed; another value: listed by a fork's parent */
    struct xh_weave_thread turn;
    uint64_t asked; /* bytes that were fetched ahead for its first read */
    unsigned opened_for; /* as xh_siblings_opened_for found it before its first read; 0: it was not asked */
};

/* join: |f| is about to be opened. enter: it is open; |ahead|: before the program asked for it. asked: now the program
 * has. leave: it is about to be closed. part: nothing of it is on its way any more. forget: this is a fork's child, and
 * |f| its parent's. */
void xh_siblings_join(struct xh_file *f);
void xh_siblings_enter(struct xh_file *f, int ahead);
void xh_siblings_asked(struct xh_file *f);
void xh_siblings_leave(struct xh_file *f);
void xh_siblings_part(struct xh_file *f);
void xh_siblings_forget(struct xh_file *f);

/* Returns how many open files of |family| the program asked for, and read nothing of yet. */
unsigned xh_siblings_awaited(uint64_t family);

/* 1 when |f| has a family. */
int xh_siblings_has(const struct xh_file *f);

/* How a run goes on behind the file that it is in. */
struct xh_row {
    struct xh_range at; /* where the run reads in each file */
    uint64_t window;    /* how far ahead it may look */
    uint64_t bytes;     /* it has read so far */
    uint64_t before;    /* the reader has before it in its own file */
    uint64_t rest;      /* that may come of the files that follow */
    unsigned turns;     /* above 1: the files lie side by side, and so many are read in turns */
    /* Fetches |len| bytes of |g|, which was not read yet; the reader has |after| bytes of other files before them. Does
     * not block on the network. */
    void (*begin)(struct xh_file *g, const struct xh_row *row, uint64_t after, uint64_t len);
};

/* The files that follow |f|, and are as long, are expected to be read as |row| says: begins with those that are open,
 * and goes on with others as they are opened. Replaces what was said of the family before. */
void xh_siblings_follow(struct xh_file *f, const struct xh_row *row);

/* 1 when |f| has siblings, and no raw data of it was read yet: a hint. */
int xh_siblings_unread(const struct xh_file *f);

/* The first read of |f| is about to begin. Returns how many files were opened for it, |f| and those behind it that were
 * not read yet, if it is the first of all these; else 1. They lie side by side. */
unsigned xh_siblings_opened_for(struct xh_file *f);

/* The files that were opened for the same read as |f|, which has just been read first, by its stream: begins with
 * |len| bytes of each as |row| says, and sets |row|'s turns. */
void xh_siblings_begin(struct xh_file *f, struct xh_row *row, uint64_t len);

/* How many files of its family are read in turns with |f|, at least 1: they share what may be fetched ahead. */
unsigned xh_siblings_width(const struct xh_file *f);

#endif
