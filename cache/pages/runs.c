/* Runs of pages: see runs.h. */
#include "runs.h"

#include <assert.h>
#include <stdlib.h>

#include "base/err.h"

int xh_runs_add_run(struct xh_runs *r, struct xh_run run)
{
    struct xh_run *last = r->n ? &r->at[r->n - 1] : NULL;
    if (last && run.first >= last->first && run.first <= last->first + last->count) {
        uint64_t end = run.first + run.count;
        if (end > last->first + last->count)
            last->count = end - last->first;
        return 0;
    }
    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 16;
        struct xh_run *at = realloc(r->at, room * sizeof *at);
        if (!at)
            return XH_E_NOMEM;
        r->at = at;
        r->room = room;
    }
    assert(r->at);
    r->at[r->n++] = run;
    return 0;
}

int xh_runs_add(struct xh_runs *r, uint64_t idx)
{
    return xh_runs_add_run(r, (struct xh_run){idx, 1});
}

size_t xh_runs_at(const struct xh_runs *r, uint64_t idx)
{
    size_t lo = 0, hi = r->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r->at[mid].first + r->at[mid].count <= idx)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int by_first(const void *a, const void *b)
{
    const struct xh_run *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

void xh_runs_sort(struct xh_runs *r)
{
    if (r->n > 1)
        qsort(r->at, r->n, sizeof *r->at, by_first);
}
