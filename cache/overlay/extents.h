/* Sets of extents: which bytes of a file have a property, and of which kind each is. Pure: no I/O.
 *
 * Invariants: sorted by offset, no two overlap, none is empty, and two that touch differ in kind. */
#ifndef XH_EXTENTS_H
#define XH_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

struct xh_stretch {
    uint64_t off, end; /* [off, end) */
    int kind;          /* the user's: equal ones that touch are joined */
};

struct xh_extents {
    struct xh_stretch *at;
    size_t n, room;
    uint64_t bytes; /* in all */
};

/* Adds [off, end) as |kind|, instead of what was there. Returns 0, or -1 without memory: then nothing has changed. */
int xh_extents_put(struct xh_extents *s, uint64_t off, uint64_t end, int kind);

/* Takes [off, end) out. Returns as put. */
int xh_extents_cut(struct xh_extents *s, uint64_t off, uint64_t end);

/* The first stretch that ends behind |off|; its index is s->n when there is none. */
size_t xh_extents_find(const struct xh_extents *s, uint64_t off);

/* What of [off, end) comes first: a stretch of the set, clipped (returns 1), or what lies between two (returns 0).
 * Either way |*to| is where it ends. off < end. */
int xh_extents_next(const struct xh_extents *s, uint64_t off, uint64_t end, uint64_t *to, int *kind);

/* 1 when all of [off, end) is in the set. */
int xh_extents_covers(const struct xh_extents *s, uint64_t off, uint64_t end);

/* The empty set |{0}| needs no freeing; after it the set is empty. */
void xh_extents_free(struct xh_extents *s);

#endif
