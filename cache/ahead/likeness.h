/* What a program read first of a file, and whether it read another one alike. Pure.
 *
 * Files that one program writes are laid out alike: what is read of one lies in the next one at about the same place,
 * counted from its beginning, or, behind data that was packed, from its end. */
#ifndef XH_LIKENESS_H
#define XH_LIKENESS_H

#include "base/extent.h"

/* So many places are remembered of a file: what a program reads behind them was foreseen by other means, or never. */
#define XH_LIKENESS_PLACES 64

struct xh_likeness {
    uint64_t size;  /* of the file */
    uint64_t bytes; /* of all places */
    unsigned n;
    int more;       /* something was read that is not among them */
    int full;       /* so much that no more could be taken down */
    struct xh_range at[XH_LIKENESS_PLACES];          /* whole pages, none twice, in the order in which they were read */
    unsigned char from_end[XH_LIKENESS_PLACES];      /* 1: its place is counted from the file's end */
    unsigned char raw[XH_LIKENESS_PLACES];           /* 1: raw data */
};

/* [off, off + len) was read, not empty; |raw|: as raw data. Nothing more is taken down once |most| bytes, or all
 * places, are; what is longer than |most| never. Returns 1 when no more can be. */
int xh_likeness_note(struct xh_likeness *l, uint64_t off, uint64_t len, int raw, uint64_t most);

/* Returns 1 when |now| was read as |before| was: at least half of either lies in the other. Sets where |now|'s places
 * are counted from. */
int xh_likeness_find(const struct xh_likeness *before, struct xh_likeness *now);

/* Sets |out| to where |l|'s places lie in a file of |size| bytes. If |l| is full, raw data is left out: it is read on,
 * and comes sooner by its order, over many connections, than over those that are there when the file is opened. Returns
 * how many there are. */
size_t xh_likeness_expect(const struct xh_likeness *l, uint64_t size, struct xh_range out[XH_LIKENESS_PLACES]);

/* Returns 1 when [off, off + len) lies in the |n| ranges |r|. */
int xh_likeness_covers(const struct xh_range *r, size_t n, uint64_t off, uint64_t len);

#endif
