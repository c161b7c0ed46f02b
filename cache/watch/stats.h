/* Counters of one open file: structs and functions. See stats.def. */
#ifndef XH_STATS_H
#define XH_STATS_H

#include <stdatomic.h>
#include <stdint.h>

struct xh_stats { /* a snapshot */
#define X(name, unit, help) uint64_t name;
#include "stats.def"
#undef X
};

struct xh_counters { /* live; relaxed atomics: counters order nothing */
#define X(name, unit, help) _Atomic uint64_t name;
#include "stats.def"
#undef X
};

#define xh_count(counters, name, n) \
    atomic_fetch_add_explicit(&(counters)->name, (uint64_t)(n), memory_order_relaxed)

void xh_counters_snapshot(struct xh_counters *from, struct xh_stats *to);

/* Adds |more| to |to|. */
void xh_stats_add(struct xh_stats *to, const struct xh_stats *more);

/* Adds to |to| the requests of |of|, a sidecar's counters, and what they brought. They were made for the file. */
void xh_stats_add_requests(struct xh_stats *to, const struct xh_stats *of);

/* Prints one trace line of the component stats: "counters name=value … url=…", without counters that are 0. */
void xh_stats_trace(const struct xh_stats *s, const char *url_shown);

#endif
