/* Files that a program reads one after another, alike: a loop over files that opens each, reads a little that lies deep
 * in it, and closes it. What the last one was read for is asked for as soon as the next one is open, so that the chain
 * of structures, of which each names the next, is no chain of round trips any more.
 *
 * Files whose names differ in decimal or hexadecimal digits alone are taken for such, at most eight rows of them in a
 * process; two of a row must have been read alike first. At most as much is fetched in vain as the program read of the
 * last file, and no more than opening may waste; of files that come whole, all that are open. It is
 * remembered in this process alone.
 *
 * Small files of a row that are read through come whole, where they are opened ahead: with their openings, or each by
 * one request behind that.
 *
 * Locks: one for the process, and one for each file; both are leaves. A fork's child begins without rows. Threads:
 * any. */
#ifndef XH_ALIKE_H
#define XH_ALIKE_H

#include <pthread.h>
#include <stdatomic.h>

#include "counted.h"
#include "likeness.h"
#include "observer.h"

extern const struct xh_observer xh_alike_observer;

/* Of an open file; changed by alike.c alone. */
struct xh_alike {
    pthread_mutex_t lock; /* guards |own| and |reads| */
    unsigned reads;       /* that were taken down */
    _Atomic int full;     /* nothing more is taken down; relaxed */
    _Atomic int parted;   /* it is not read as was expected, or that did not come; relaxed */
    uint64_t row;         /* constant once it is open; 0: it is of none */
    uint64_t head;        /* so many bytes came with the opening; constant likewise */
    uint64_t most;        /* bytes that are taken down; constant likewise */
    struct xh_likeness before, own; /* |before|: of the last one of its row; constant likewise */
    struct xh_range expected[XH_LIKENESS_PLACES]; /* it was expected to be read there; constant likewise */
    size_t n;                                     /* so many; 0: it was not expected to be read as that one */
};

/* When the file is made, all zero, and in a fork's child. */
void xh_alike_init(struct xh_alike *a);

/* |f| is open, and nothing of it is here but its first |head| bytes. Fetches what the last one of its row was read for.
 * Returns 1 when that was done, and is about all: its reader needs nothing else until it misses something. */
int xh_alike_begin(struct xh_file *f, uint64_t head);

/* 1 when |f| was expected to be read as the last one of its row. */
static inline int xh_alike_expects(const struct xh_alike *a)
{
    return a->n > 0;
}

/* So many files of a row are opened ahead at most. Simulated, 40 ms, 300 Mbit/s, stock: 60 files of 440 KB, each read
 * at once (M5), take 2.3 s with 8, and 1.9 s with 16; 1.7 with 16 from the first ones on. */
#define XH_ALIKE_AHEAD 16u

/* The files of a row that the program will open next, most likely, in their order. */
struct xh_alike_next {
    char name[XH_ALIKE_AHEAD][XH_COUNTED_BYTES];
    unsigned n, asked; /* so many; of these, the first ones were told before */
};

/* The program has opened |f|; |ahead|: it was open already. |tells|: it says itself what it will open, so none is to be
 * opened for its name. */
void xh_alike_opened(const struct xh_file *f, int ahead, int tells, struct xh_alike_next *out);

/* 1 when |f| was opened ahead in a row of small files that are read through: it comes whole. */
int xh_alike_comes_whole(const struct xh_file *f);

/* How many bytes |f|, which is about to be opened before its program comes for it, most likely has, in a row of small
 * files that are read through: as many as the last one. 0: it is in no such row. |*room|: its part of what may lie
 * before its reader. */
uint64_t xh_alike_opening_bytes(const struct xh_file *f, uint64_t *room);

/* |f| is about to be closed. */
void xh_alike_end(struct xh_file *f);

#endif
