/* Where the chunks of a dataset are: see chunkmap.h. */
#include "chunkmap.h"

#include <stdlib.h>
#include <string.h>

#include "../cache/base/extent.h"
#include "../cache/base/table.h"

static int same(const struct xh_chunkmap_of *a, const struct xh_chunkmap_of *b)
{
    size_t size = (size_t)a->rank * sizeof *a->dims;
    return a->rank == b->rank && memcmp(&a->token, &b->token, sizeof a->token) == 0 &&
           memcmp(a->dims, b->dims, size) == 0 && memcmp(a->chunk, b->chunk, size) == 0;
}

struct xh_chunkmap *xh_chunkmap_begin(struct xh_chunkmap *old, const struct xh_chunkmap_of *of)
{
    struct xh_chunkmap *m = old ? old : calloc(1, sizeof *m);
    if (m) {
        m->least = same(&m->of, of) ? 2 * m->list.n : 0;
        m->of = *of;
        m->whole = m->full = 0;
        m->list.n = 0;
    }
    return m;
}

void xh_chunkmap_add(struct xh_chunkmap *m, const struct xh_chunk *c)
{
    if (!m || m->full)
        return;
    m->full = m->list.n == XH_CHUNKMAP_MOST || xh_append(&m->list, *c);
}

int xh_chunkmap_enough(const struct xh_chunkmap *m)
{
    return !m || m->full || m->list.n >= m->least;
}

void xh_chunkmap_done(struct xh_chunkmap *m, int whole)
{
    if (!m)
        return;
    if (m->full)
        m->list.n = 0;
    else
        m->whole = whole;
    if (m->list.n)
        qsort(m->list.at, m->list.n, sizeof *m->list.at, xh_range_order);
}

int xh_chunkmap_find(const struct xh_chunkmap *m, const struct xh_chunkmap_of *of, const uint64_t *keys, size_t n,
                     struct xh_chunk_list *found)
{
    size_t before = found->n;
    if (!m || !same(&m->of, of))
        return 0;
    for (size_t i = 0; i < n; i++) {
        const struct xh_chunk *c =
            m->list.n ? bsearch(&keys[i], m->list.at, m->list.n, sizeof *c, xh_range_order) : NULL;
        if (c ? xh_append(found, *c) : !m->whole) {
            found->n = before;
            return 0;
        }
    }
    return 1;
}

void xh_chunkmap_free(struct xh_chunkmap *m)
{
    if (m)
        free(m->list.at);
    free(m);
}
