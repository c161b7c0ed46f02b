/* The plan: from wanted ranges to transfers. Pure: no I/O, no clock, no globals. */
#ifndef XH_PLAN_H
#define XH_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "extent.h"

struct xh_plan_limits {
    uint64_t gap_bytes;      /* coalesce across gaps of at most this */
    uint64_t part_bytes;     /* split ranges longer than this; > 0, a multiple of align_bytes */
    uint64_t align_bytes;    /* cuts fall on multiples of this; > 0 */
    unsigned max_ranges;     /* ranges per transfer; >= 1 */
    size_t max_range_header; /* bytes of "a-b,c-d" per transfer, for transfers of several ranges */
    unsigned connections;    /* transfers worth having at once; >= 1 */
};

struct xh_plan_transfer { /* ranges [first, first + count) of the plan */
    size_t first, count;
};

struct xh_plan {
    struct xh_range *ranges;
    size_t nranges;
    struct xh_plan_transfer *transfers;
    size_t ntransfers;
};

/* Plans |wanted|: |n| ranges, sorted, disjoint, not empty, ends below 2^63.
 *
 * The plan's ranges are sorted and disjoint and cover every wanted byte; what they
 * cover besides are gaps of at most gap_bytes each, between two wanted ranges. None is
 * longer than part_bytes. Transfers partition the ranges in order; only ranges that were
 * not split share a transfer, at most part_bytes together, and no more of them than the
 * limits allow; small ones are spread so that |connections| transfers can run at once.
 *
 * Returns 0 or XH_E_NOMEM (|out| untouched). Owns: xh_plan_free. Threads: any. */
int xh_plan_make(const struct xh_range *wanted, size_t n, const struct xh_plan_limits *lim,
                 struct xh_plan *out);
void xh_plan_free(struct xh_plan *p);

#endif
