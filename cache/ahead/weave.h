/* How many files are read in turns: each is one thread of a weave. Pure. */
#ifndef XH_WEAVE_H
#define XH_WEAVE_H

#include <stdint.h>

/* So many reads in a row of one file: it is read alone. */
#define XH_WEAVE_ALONE 64u

/* All zero at first. */
struct xh_weave {
    const void *reader; /* what was read last; for comparing alone */
    uint64_t switches;  /* how often another one was read than before */
    unsigned width;     /* files that are read in turns; 0: none has been read again after another one */
};

/* Of one of the files, likewise. */
struct xh_weave_thread {
    uint64_t at;   /* |switches| when its last turn began */
    unsigned reads; /* in this turn */
};

/* The file |reader|, one of |files|, is read; |t| is its own. Sets |w|'s width: when a file is read again after others,
 * the number of turns since it was read last. */
void xh_weave_read(struct xh_weave *w, struct xh_weave_thread *t, const void *reader, unsigned files);

#endif
