/* Counters of one open file: see stats.h. */
#include "stats.h"

#include <stdio.h>

#include "trace.h"

void xh_counters_snapshot(struct xh_counters *from, struct xh_stats *to)
{
#define X(name, unit, help) to->name = atomic_load_explicit(&from->name, memory_order_relaxed);
#include "stats.def"
#undef X
}

void xh_stats_add(struct xh_stats *to, const struct xh_stats *more)
{
#define X(name, unit, help) to->name += more->name;
#include "stats.def"
#undef X
}

void xh_stats_add_requests(struct xh_stats *to, const struct xh_stats *of)
{
    to->bytes_fetched += of->bytes_fetched;
    to->bytes_speculative += of->bytes_speculative;
    to->bytes_unused += of->bytes_unused;
    to->requests += of->requests;
    to->ranges += of->ranges;
    to->multirange_requests += of->multirange_requests;
    to->retries += of->retries;
    to->hedged += of->hedged;
    to->connections += of->connections;
}

void xh_stats_trace(const struct xh_stats *s, const char *url_shown)
{
    char words[1400] = "";
    size_t n = 0;
#define X(name, unit, help)                                                                              \
    if (s->name && n < sizeof words)                                                                     \
        n += (size_t)snprintf(words + n, sizeof words - n, "%s=%llu ", #name, (unsigned long long)s->name);
#include "stats.def"
#undef X
    xh_trace(XH_T_STATS, "counters", "%surl=%s", words, url_shown);
}
