/* Runs of pages, of which it is made what a read lacks and what a fetch brings. */
#ifndef XH_RUNS_H
#define XH_RUNS_H

#include <stddef.h>
#include <stdint.h>

/* A run of pages: [first, first + count). */
struct xh_run {
    uint64_t first, count;
};

struct xh_runs { /* a growing array of runs */
    struct xh_run *at;
    size_t n, room;
};

/* Appends a page or a run, joined to the last run where it touches or overlaps that one's
 * end; no other order is made. 0 or XH_E_NOMEM. */
int xh_runs_add(struct xh_runs *r, uint64_t idx);
int xh_runs_add_run(struct xh_runs *r, struct xh_run run);

/* Sorts the runs by their first page. */
void xh_runs_sort(struct xh_runs *r);

/* Index of the first of |r|, sorted and disjoint, that ends after page |idx|. */
size_t xh_runs_at(const struct xh_runs *r, uint64_t idx);

#endif
