/* Runs of pages: see runs.h. */
#include "runs.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/extent.h"
#include "base/table.h"

int xh_runs_add_run(struct xh_runs *r, struct xh_run run)
{
    struct xh_run *last = r->n ? &r->at[r->n - 1] : NULL;
    if (last && run.first >= last->first && run.first <= last->first + last->count) {
        uint64_t end = run.first + run.count;
        if (end > last->first + last->count)
            last->count = end - last->first;
        return 0;
    }
    return xh_append(r, run) ? XH_E_NOMEM : 0;
}

int xh_runs_add(struct xh_runs *r, uint64_t idx)
{
    return xh_runs_add_run(r, (struct xh_run){idx, 1});
}

size_t xh_runs_at(const struct xh_runs *r, uint64_t idx)
{
    return xh_count_before(i, r->n, r->at[i].first + r->at[i].count <= idx);
}

void xh_runs_sort(struct xh_runs *r)
{
    if (r->n > 1)
        qsort(r->at, r->n, sizeof *r->at, xh_range_order);
}
