/* What a fetch may take of the link: the sizes of its parts, and its share among processes. */
#ifndef XH_LIMITS_H
#define XH_LIMITS_H

#include <stdatomic.h>
#include <stdint.h>

#include "plan.h"

struct xh_file;
struct xh_origin_info;

/* Across how long gaps metadata is joined that comes ahead. Where a request has one range, what a connection brings in
 * a round trip: so long it would stand idle before a request of its own. */
uint64_t xh_limits_meta_gap(const struct xh_file *f);

/* What the link brings in a round trip, bytes, at the rate that is known; where none is, at that of a fast one. */
uint64_t xh_limits_flight(const struct xh_file *f);

/* Of an open file; changed by limits.c alone. All zero at first. */
struct xh_sharing {
    _Atomic uint64_t counted_ns; /* when its readers were counted */
};

/* The plan's limits, as options and the origin have them now, where so many bytes are fetched together, in
 * ranges of |mean| bytes, for a demand or ahead of one. Returns 0 when the server sends no parts of files, else 1. */
int xh_limits_get(struct xh_file *f, uint64_t bytes, uint64_t mean, int ahead, struct xh_plan_limits *lim);

/* 1 where a request has one range. */
int xh_limits_are_single(const struct xh_file *f);

/* Has all |bytes| dealt to |n| transfers, as much to each; 0: as |lim| is. */
void xh_limits_deal(struct xh_plan_limits *lim, unsigned n, uint64_t bytes);

/* Has a file of which |bytes| are to come, all there is of it, dealt so that all connections are done together: those
 * that are there, and as many new ones as are worth a request, which begin later and with less. Returns how many of the
 * transfers, the first ones, are for those that are there; 0: it is not dealt like that. */
unsigned xh_limits_deal_whole(const struct xh_file *f, uint64_t bytes, struct xh_plan_limits *lim);

/* Returns over how many connections a long run that comes ahead is dealt: as many as streams use; 0: it is not, as
 * these are few, or have found their speed. Those that are not there may be opened for |opens| bytes. Sets |*there|,
 * unless it is NULL, to how many of its requests wait for a connection that is there: the first ones, as a new one
 * comes later. */
unsigned xh_limits_wide(const struct xh_file *f, uint64_t opens, unsigned *there);

/* The same for |bytes| that a reader waits for: 0 also where all are open, as those that are idle share it, and where
 * streams have some, as it would have its own besides, but for |leaving| ones that are about to be free. |strays|: its
 * reader takes no order; so also where connections are not young, by what they bring. */
unsigned xh_limits_wide_now(const struct xh_file *f, uint64_t bytes, int strays, unsigned leaving, unsigned *there);

/* The longest part that is fetched ahead where parts come side by side, as |info| has it. UINT64_MAX: nothing is
 * known. */
uint64_t xh_limits_most_part(const struct xh_origin_info *info);

/* The processes that read the file, and those that fetch some of it now, share one link: each has its part of the
 * connections, and a process that only guesses makes way for one whose reader waits. To be called before something is
 * asked for, and when a guess has come. */
void xh_limits_share_link(struct xh_file *f);

#endif
