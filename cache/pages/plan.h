/* The plan: from wanted ranges to transfers. Pure: no I/O, no clock, no globals. */
#ifndef XH_PLAN_H
#define XH_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"

/* A request costs the server and us about as much as this many bytes on a fast link: smaller ones gain nothing from
 * more parallel transfers. */
#define XH_REQUEST_LEAST_BYTES 65536u

struct xh_plan_limits {
    uint64_t gap_bytes;      /* coalesce across gaps of at most this */
    uint64_t part_bytes;     /* split ranges longer than this; > 0, a multiple of align_bytes */
    uint64_t align_bytes;    /* cuts fall on multiples of this; > 0 */
    uint64_t group_bytes;    /* most that several ranges in one transfer carry together; >= 1 */
    uint64_t spread_bytes;   /* several ranges are spread over |connections| where each gets so much; >= 1 */
    unsigned max_ranges;     /* ranges per transfer; >= 1 */
    size_t max_range_header; /* bytes of "a-b,c-d" per transfer, for transfers of several ranges; >= 1 */
    unsigned connections;    /* transfers that run at once; >= 1 */
    /* Where |deal| > 1, and each gets |dealt_bytes| at least: all bytes are dealt to so many transfers in stripes, of
     * |stripe_bytes| at first, a multiple of align_bytes, then of twice as much each turn. Not where one would have too
     * many ranges. |even|: in the last turn all have as much, so that none waits for the others. The last |late| of
     * them begin |late_turns| turns after the first, with the first stripe: their connections are not there yet. */
    unsigned deal, late, late_turns;
    int even;
    uint64_t dealt_bytes, stripe_bytes;
};

struct xh_plan_transfer { /* ranges [first, first + count) of the plan */
    size_t first, count;
};

struct xh_plan {
    struct xh_range *ranges;
    size_t nranges;
    struct xh_plan_transfer *transfers;
    size_t ntransfers;
    int dealt; /* 1: in stripes */
};

/* Has |bytes|, behind which nothing is wanted, dealt so that young connections are done with them together: |there|
 * that are open, at least one, each of which brings |flight_bytes| in a round trip by now, and as many of |more| new
 * ones as are worth a request. The new ones get less, as they come later. */
void xh_plan_deal_at_once(struct xh_plan_limits *lim, uint64_t bytes, unsigned there, unsigned more,
                          uint64_t flight_bytes);

/* Plans |wanted|: |n| ranges, sorted, disjoint, not empty, ends below 2^63.
 *
 * The plan's ranges are sorted and disjoint and cover every wanted byte; what they
 * cover besides are gaps of at most gap_bytes each, between two wanted ranges. None is
 * longer than part_bytes. Transfers partition the ranges in order; only ranges that were
 * not split share a transfer, and no more of them than the limits allow; they are spread evenly, so
 * that |connections| transfers can run at once, or the least multiple of that where one round of
 * transfers does not hold them. Where bytes are dealt, the ranges are sorted within each transfer alone, and may be
 * longer than part_bytes.
 *
 * Returns 0 or XH_E_NOMEM (|out| untouched). Owns: xh_plan_free. Threads: any. */
int xh_plan_make(const struct xh_range *wanted, size_t n, const struct xh_plan_limits *lim,
                 struct xh_plan *out);
void xh_plan_free(struct xh_plan *p);

#endif
