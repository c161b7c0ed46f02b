/* One chunk index: see index.h. */
#include "index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "btree1.h"
#include "btree2.h"
#include "earray.h"
#include "farray.h"

size_t xh_index_seg(const struct xh_index *ix, uint64_t rank)
{
    size_t n = xh_count_before(i, ix->nsegs, ix->seg[i]->first <= rank);
    return n ? n - 1 : 0;
}

struct xh_chunk *xh_index_chunk(const struct xh_index *ix, uint64_t rank)
{
    const struct xh_seg *s = ix->seg[xh_index_seg(ix, rank)];
    assert(s->chunks && rank - s->first < s->count);
    return &s->chunks[rank - s->first];
}

enum xh_order_place xh_index_look(const void *ctx, int64_t rank)
{
    const struct xh_index *ix = ctx;
    const struct xh_seg *last = ix->nsegs ? ix->seg[ix->nsegs - 1] : NULL;
    if (!last || rank < 0 || (uint64_t)rank >= last->first + last->count)
        return XH_PLACE_OUTSIDE;
    const struct xh_seg *s = ix->seg[xh_index_seg(ix, (uint64_t)rank)];
    if (s->unseen)
        return XH_PLACE_UNKNOWN;
    return s->chunks && s->chunks[(uint64_t)rank - s->first].addr != XH_UNDEF ? XH_PLACE_CHUNK
                                                                                : XH_PLACE_HOLE;
}

static void number(struct xh_index *ix, size_t from)
{
    uint64_t first = from ? ix->seg[from - 1]->first + ix->seg[from - 1]->count : 0;
    for (size_t i = from; i < ix->nsegs; i++) {
        ix->seg[i]->first = first;
        first += ix->seg[i]->count;
    }
}

/* Returns the sum of the parts' ranks; 0 when there are too many. */
static uint64_t ranks_of(const struct xh_parts *ps)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < ps->n; i++) {
        if (ps->seg[i]->count > (uint64_t)XH_RANK_MAX - sum)
            return 0;
        sum += ps->seg[i]->count;
    }
    return sum;
}

/* Puts one known run of chunks into the node's segment. The segment can still be forgotten and read again. */
static void settle(struct xh_seg *s, struct xh_parts *ps)
{
    struct xh_seg *part = ps->seg[0];
    s->chunks = part->chunks; /* map->bytes counts them already */
    s->count = part->count;
    part->chunks = NULL;
    xh_seg_join(s);
}

/* Puts the parts in place of segment |at|. Returns 0, or -1 when there is no room. */
static int splice(struct xh_index *ix, size_t at, struct xh_parts *ps)
{
    size_t n = ix->nsegs + ps->n - 1;
    if (n > XH_SEGS_MAX)
        return -1;
    struct xh_seg *old = ix->seg[at], **seg = realloc(ix->seg, n * sizeof *seg);
    if (!seg)
        return -1;
    memmove(seg + at + ps->n, seg + at + 1, (ix->nsegs - at - 1) * sizeof *seg);
    memcpy(seg + at, ps->seg, ps->n * sizeof *seg);
    ix->map->bytes += (ps->n - 1) * sizeof *seg;
    ix->seg = seg;
    ix->nsegs = n;
    old->node->seg = NULL;
    xh_seg_free(old);
    for (size_t i = 0; i < ps->n; i++)
        xh_seg_join(ps->seg[i]);
    ps->n = 0;
    return 0;
}

void xh_index_unfold(struct xh_node *node, const uint8_t *p, size_t len)
{
    struct xh_index *ix = node->ix;
    struct xh_parts ps = {.ix = ix};
    size_t at = xh_index_seg(ix, node->seg->first);
    struct xh_seg *s = node->seg;
    uint64_t old = s->count, end = s->first + old;
    int rc = -1;
    assert(ix->seg[at] == s && s->unseen);
    switch (node->kind) {
    case XH_NODE_BT1: rc = xh_btree1_node(node, p, len, &ps); break;
    case XH_NODE_BT2: rc = xh_btree2_node(node, p, len, &ps); break;
    case XH_NODE_FA_BLOCK: rc = xh_farray_node(node, p, len, &ps); break;
    case XH_NODE_PAGE: rc = len < node->len ? -1 : xh_parts_elements(&ps, p, node->records); break;
    default: rc = xh_earray_node(node, p, len, &ps);
    }
    uint64_t ranks = ranks_of(&ps);
    s->unseen = 0; /* bytes that are not understood are a hole from now on */
    if (rc == 0 && ranks && ps.n == 1 && ps.seg[0]->chunks)
        settle(s, &ps);
    else if (rc == 0 && ranks && ix->seg[ix->nsegs - 1]->first < (uint64_t)XH_RANK_MAX)
        rc = splice(ix, at, &ps);
    xh_parts_free(&ps);
    number(ix, at);
    if (rc == 0 && ranks && ranks != old)
        xh_order_shift(&ix->order, (int64_t)end, (int64_t)ranks - (int64_t)old);
}

struct xh_index *xh_index_new(struct xh_chunkmap *map, struct xh_format fmt, uint64_t addr, const uint8_t *p,
                              size_t len)
{
    struct xh_index *ix = calloc(1, sizeof *ix);
    struct xh_parts ps = {.ix = ix};
    if (!ix)
        return NULL;
    ix->map = map;
    ix->fmt = fmt;
    ix->addr = addr;
    ix->gap = XH_UNDEF;
    map->bytes += sizeof *ix;
    int rc = -1;
    /* Known from here on, so that it neither begins a second index nor leads to itself. */
    if (!xh_node_new(ix, (struct xh_node){.addr = addr}))
        goto err;
    switch (p[0]) {
    case 'T': rc = xh_btree1_root(p, len, &ps); break;
    case 'B': rc = xh_btree2_root(p, len, &ps); break;
    case 'F': rc = xh_farray_root(p, len, &ps); break;
    case 'E': rc = xh_earray_root(p, len, &ps); break;
    default: break;
    }
    if (rc || !ranks_of(&ps))
        goto err;
    ix->seg = ps.seg;
    ix->nsegs = ps.n;
    map->bytes += ps.n * sizeof *ps.seg;
    number(ix, 0);
    for (size_t i = 0; i < ix->nsegs; i++)
        xh_seg_join(ix->seg[i]);
    return ix;
err:
    xh_parts_free(&ps);
    xh_index_free(ix);
    return NULL;
}

void xh_index_free(struct xh_index *ix)
{
    for (size_t i = 0; i < ix->nsegs; i++)
        xh_seg_free(ix->seg[i]);
    xh_nodes_free(ix);
    ix->map->bytes -= sizeof *ix + ix->nsegs * sizeof *ix->seg;
    free(ix->seg);
    free(ix);
}

int xh_index_forget(struct xh_index *ix, size_t bytes)
{
    const struct xh_chunkmap *map = ix->map;
    size_t lo = 0, hi = ix->nsegs;
    uint64_t rank = ix->walked && ix->walked->seg ? ix->walked->seg->first
                    : ix->order.begun             ? (uint64_t)ix->order.now.rank
                                                  : 0;
    size_t at = ix->nsegs ? xh_index_seg(ix, rank) : 0;
    while (map->bytes > bytes && lo < hi) {
        struct xh_seg *s = ix->seg[at - lo > hi - 1 - at ? lo++ : --hi];
        if (!s->chunks || !s->node || s == ix->seg[at])
            continue;
        xh_seg_forget(s);
    }
    return map->bytes <= bytes;
}
