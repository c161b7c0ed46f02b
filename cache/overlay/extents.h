/* Sets of extents: which bytes of a file have a property, and of which kind each byte is. Pure: no I/O.
 *
 * Invariants: stretches are sorted by offset; no two overlap; none is empty; two that touch differ in kind.
 * Threads: the caller serialises. */
#ifndef XH_EXTENTS_H
#define XH_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

struct xh_stretch {
    uint64_t off, end; /* [off, end) */
    int kind;          /* the user's; touching stretches of equal kind are joined */
};

struct xh_extents {
    struct xh_stretch *at;
    size_t n, room;
    uint64_t bytes; /* of all stretches */
    uint64_t moved; /* number of stretches that changes have moved or copied so far */
};

/* Adds [off, end) as |kind|; it replaces what was there. Returns 0, or -1 without memory: then nothing has changed. */
int xh_extents_put(struct xh_extents *s, uint64_t off, uint64_t end, int kind);

/* Adds |n| stretches, which ascend and do not overlap. It does what |n| puts do, but moves the stretches behind them
 * only once. Returns as xh_extents_put. */
int xh_extents_put_all(struct xh_extents *s, const struct xh_stretch *with, size_t n);

/* Removes [off, end). Returns as xh_extents_put. */
int xh_extents_cut(struct xh_extents *s, uint64_t off, uint64_t end);

/* Tells whether |off| is in the set, and sets |*to| to the end of that part of [off, end). Returns 1 in a stretch,
 * whose kind goes to |*kind| if that is not NULL; 0 between two stretches. off < end. */
int xh_extents_next(const struct xh_extents *s, uint64_t off, uint64_t end, uint64_t *to, int *kind);

/* Returns 1 when all of [off, end) is in the set. */
int xh_extents_covers(const struct xh_extents *s, uint64_t off, uint64_t end);

/* Frees the memory; the set is empty then. The empty set |{0}| needs no freeing. */
void xh_extents_free(struct xh_extents *s);

#endif
