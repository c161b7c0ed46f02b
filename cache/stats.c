/* Counters of one open file: see stats.h. */
#include "stats.h"

#include <stdio.h>

void xh_counters_snapshot(struct xh_counters *from, struct xh_stats *to)
{
#define X(name, unit, help) to->name = atomic_load_explicit(&from->name, memory_order_relaxed);
#include "stats.def"
#undef X
}

void xh_stats_print(const struct xh_stats *s, const char *url_shown, int fd)
{
#define X(name, unit, help) \
    if (s->name)            \
        dprintf(fd, "xhdf5: %s: %s=%llu %s\n", url_shown, #name, (unsigned long long)s->name, unit);
#include "stats.def"
#undef X
}
