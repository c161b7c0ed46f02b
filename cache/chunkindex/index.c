/* One chunk index: its segments, and the trees that find chunks and nodes by address. See index.h. */
#include "index.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

/* What a tree's node costs besides the thing in it. */
#define TREE_BYTES 48
/* Chunks of one node: half of what memory holds. */
#define CHUNKS_MAX (XH_CHUNKINDEX_BYTES / 2 / (sizeof(struct xh_chunk) + TREE_BYTES))

/* ---- by address --------------------------------------------------------------------------- */

/* Chunks and nodes both begin with their address. */
static int by_addr(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Length of |c| as far as it is known: as stored, else the smallest distance to another. */
static uint64_t reach_of(const struct xh_chunk *c)
{
    uint64_t gap = c->seg->ix->gap;
    return c->size ? c->size : gap == XH_UNDEF ? 1 : gap;
}

static int around(const void *key, const void *chunk)
{
    uint64_t addr = *(const uint64_t *)key;
    const struct xh_chunk *c = chunk;
    if (addr < c->addr)
        return -1;
    return addr - c->addr >= reach_of(c);
}

struct xh_chunk *xh_chunk_at(const struct xh_chunkindex *ci, uint64_t addr)
{
    /* Where sizes are not stored a chunk's reach may be taken too far: its beginning decides. */
    void *const *at = tfind(&addr, &ci->chunks, by_addr);
    if (!at)
        at = tfind(&addr, &ci->chunks, around);
    return at ? *at : NULL;
}

struct xh_node *xh_node_at(const struct xh_chunkindex *ci, uint64_t addr)
{
    void *const *at = tfind(&addr, &ci->nodes, by_addr);
    return at ? *at : NULL;
}

/* ---- segments ------------------------------------------------------------------------------- */

static size_t seg_bytes(uint64_t chunks)
{
    return sizeof(struct xh_seg) + 16 + chunks * sizeof(struct xh_chunk);
}

static void chunks_leave(struct xh_seg *s)
{
    struct xh_chunkindex *ci = s->ix->ci;
    for (uint64_t i = 0; s->chunks && i < s->count; i++) {
        struct xh_chunk *c = &s->chunks[i];
        void *const *at = c->addr == XH_UNDEF ? NULL : tfind(c, &ci->chunks, by_addr);
        if (at && *at == c) {
            tdelete(c, &ci->chunks, by_addr);
            ci->bytes -= TREE_BYTES;
            ci->nchunks--;
        }
        if (ci->at == c)
            ci->at = NULL;
    }
}

static void seg_free(struct xh_seg *s)
{
    chunks_leave(s);
    s->ix->ci->bytes -= seg_bytes(s->chunks ? s->count : 0);
    free(s->chunks);
    free(s);
}

/* Puts the chunks of a new segment into the tree. Those outside the object become holes. */
static void chunks_join(struct xh_seg *s)
{
    struct xh_chunkindex *ci = s->ix->ci;
    uint64_t last = XH_UNDEF;
    for (uint64_t i = 0; s->chunks && i < s->count; i++) {
        struct xh_chunk *c = &s->chunks[i];
        c->seg = s;
        if (c->addr >= ci->size || c->size > ci->size - c->addr)
            c->addr = XH_UNDEF;
        if (c->addr == XH_UNDEF)
            continue;
        void *const *at = tsearch(c, &ci->chunks, by_addr);
        if (!at || *at != c)
            continue;
        ci->bytes += TREE_BYTES;
        ci->nchunks++;
        /* Chunks are mostly written in order, so neighbours by rank are neighbours in the file. */
        uint64_t gap = last == XH_UNDEF ? XH_UNDEF : c->addr > last ? c->addr - last : last - c->addr;
        if (gap < s->ix->gap)
            s->ix->gap = gap;
        last = c->addr;
    }
}

static struct xh_seg *seg_new(struct xh_index *ix, uint64_t count, int with_chunks)
{
    struct xh_seg *s = calloc(1, sizeof *s);
    if (s && with_chunks && !(s->chunks = calloc(count, sizeof *s->chunks))) {
        free(s);
        return NULL;
    }
    if (!s)
        return NULL;
    s->ix = ix;
    s->count = count;
    ix->ci->bytes += seg_bytes(with_chunks ? count : 0);
    return s;
}

/* ---- parts ---------------------------------------------------------------------------------- */

static struct xh_seg *append(struct xh_parts *ps, uint64_t n, int with_chunks)
{
    if (n == 0 || n > (uint64_t)XH_RANK_MAX || ps->n >= XH_SEGS_MAX)
        return NULL;
    if (with_chunks && n > CHUNKS_MAX)
        return NULL;
    if (ps->n == ps->room) {
        size_t room = ps->room ? 2 * ps->room : 16;
        struct xh_seg **seg = realloc(ps->seg, room * sizeof *seg);
        if (!seg)
            return NULL;
        ps->seg = seg;
        ps->room = room;
    }
    struct xh_seg *s = seg_new(ps->ix, n, with_chunks);
    if (s)
        ps->seg[ps->n++] = s;
    return s;
}

struct xh_chunk *xh_parts_chunks(struct xh_parts *ps, uint64_t n)
{
    struct xh_seg *s = append(ps, n, 1);
    for (uint64_t i = 0; s && i < n; i++)
        s->chunks[i].addr = XH_UNDEF;
    return s ? s->chunks : NULL;
}

int xh_parts_elements(struct xh_parts *ps, const uint8_t *p, uint64_t n)
{
    const struct xh_format *f = &ps->ix->fmt;
    struct xh_chunk *c = xh_parts_chunks(ps, n);
    if (!c)
        return -1;
    for (; n--; c++, p += f->elem) {
        c->addr = xh_addr(f, p);
        c->size = xh_le(p + f->O, f->size_bytes);
    }
    return 0;
}

int xh_parts_hole(struct xh_parts *ps, uint64_t n)
{
    struct xh_seg *last = ps->n ? ps->seg[ps->n - 1] : NULL;
    if (last && !last->chunks && !last->node && n <= (uint64_t)XH_RANK_MAX - last->count) {
        last->count += n;
        return 0;
    }
    return append(ps, n, 0) ? 0 : -1;
}

/* A node in the tree and in its index's list, or NULL: known already, or no memory. */
static struct xh_node *node_new(struct xh_index *ix, struct xh_node node)
{
    struct xh_chunkindex *ci = ix->ci;
    struct xh_node *nd = malloc(sizeof *nd);
    if (!nd)
        return NULL;
    *nd = node;
    nd->ix = ix;
    void *const *at = tsearch(nd, &ci->nodes, by_addr);
    if (!at || *at != nd) {
        free(nd);
        return NULL;
    }
    nd->next = ix->nodes;
    ix->nodes = nd;
    ci->bytes += sizeof *nd + TREE_BYTES;
    return nd;
}

int xh_parts_node(struct xh_parts *ps, struct xh_node node, uint64_t n)
{
    uint64_t size = ps->ix->ci->size;
    if (node.len == 0 || node.len > XH_NODE_MAX || node.addr >= size || node.len > size - node.addr ||
        xh_node_at(ps->ix->ci, node.addr))
        return xh_parts_hole(ps, n);
    struct xh_seg *s = append(ps, n, 0);
    if (!s)
        return -1;
    s->node = node_new(ps->ix, node);
    if (s->node) {
        s->node->seg = s;
        s->unseen = 1;
    }
    return 0;
}

static void parts_free(struct xh_parts *ps)
{
    for (size_t i = 0; i < ps->n; i++) {
        if (ps->seg[i]->node)
            ps->seg[i]->node->seg = NULL;
        seg_free(ps->seg[i]);
    }
    free(ps->seg);
}

/* ---- the index --------------------------------------------------------------------------------- */

size_t xh_index_seg(const struct xh_index *ix, uint64_t rank)
{
    size_t lo = 0, hi = ix->nsegs;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (ix->seg[mid]->first <= rank)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
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

/* Sum of the parts' ranks; 0 when they are too many. */
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

/* One known run of chunks in place of the node's segment: it stays a node that can be read again. */
static void settle(struct xh_seg *s, struct xh_parts *ps)
{
    struct xh_seg *part = ps->seg[0];
    s->chunks = part->chunks; /* and their bytes in ci->bytes */
    s->count = part->count;
    part->chunks = NULL;
    chunks_join(s);
}

/* The parts in place of segment |at|. 0, or -1 when there is no room. */
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
    ix->ci->bytes += (ps->n - 1) * sizeof *seg;
    ix->seg = seg;
    ix->nsegs = n;
    old->node->seg = NULL;
    seg_free(old);
    for (size_t i = 0; i < ps->n; i++)
        chunks_join(ps->seg[i]);
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
    case XH_NODE_FA_BLOCK:
    case XH_NODE_FA_PAGE: rc = xh_farray_node(node, p, len, &ps); break;
    default: rc = xh_earray_node(node, p, len, &ps);
    }
    uint64_t ranks = ranks_of(&ps);
    s->unseen = 0; /* what is not understood is a hole from now on */
    if (rc == 0 && ranks && ps.n == 1 && ps.seg[0]->chunks)
        settle(s, &ps);
    else if (rc == 0 && ranks && ix->seg[ix->nsegs - 1]->first < (uint64_t)XH_RANK_MAX)
        rc = splice(ix, at, &ps);
    parts_free(&ps);
    number(ix, at);
    if (rc == 0 && ranks && ranks != old)
        xh_order_shift(&ix->order, (int64_t)end, (int64_t)ranks - (int64_t)old);
}

struct xh_index *xh_index_new(struct xh_chunkindex *ci, uint64_t addr, const uint8_t *p, size_t len)
{
    struct xh_index *ix = calloc(1, sizeof *ix);
    struct xh_parts ps = {.ix = ix};
    if (!ix)
        return NULL;
    ix->ci = ci;
    ix->fmt = (struct xh_format){.O = ci->O, .L = ci->L, .base = ci->base};
    ix->gap = XH_UNDEF;
    ci->bytes += sizeof *ix;
    int rc = -1;
    /* Known from here on, so that it does not begin a second index, nor lead to itself. */
    if (!node_new(ix, (struct xh_node){.addr = addr}))
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
    ci->bytes += ps.n * sizeof *ps.seg;
    number(ix, 0);
    for (size_t i = 0; i < ix->nsegs; i++)
        chunks_join(ix->seg[i]);
    return ix;
err:
    parts_free(&ps);
    xh_index_free(ix);
    return NULL;
}

void xh_index_free(struct xh_index *ix)
{
    struct xh_chunkindex *ci = ix->ci;
    for (size_t i = 0; i < ix->nsegs; i++)
        seg_free(ix->seg[i]);
    for (struct xh_node *nd = ix->nodes, *next; nd; nd = next) {
        next = nd->next;
        tdelete(nd, &ci->nodes, by_addr);
        ci->bytes -= sizeof *nd + TREE_BYTES;
        free(nd);
    }
    ci->bytes -= sizeof *ix + ix->nsegs * sizeof *ix->seg;
    free(ix->seg);
    free(ix);
}

int xh_index_forget(struct xh_index *ix, size_t bytes)
{
    struct xh_chunkindex *ci = ix->ci;
    size_t lo = 0, hi = ix->nsegs;
    size_t at = ix->order.begun && ix->nsegs ? xh_index_seg(ix, (uint64_t)ix->order.now.rank) : 0;
    while (ci->bytes > bytes && lo < hi) {
        struct xh_seg *s = ix->seg[at - lo > hi - 1 - at ? lo++ : --hi];
        if (!s->chunks || !s->node || s == ix->seg[at])
            continue;
        chunks_leave(s);
        ci->bytes -= seg_bytes(s->count) - seg_bytes(0);
        free(s->chunks);
        s->chunks = NULL;
        s->unseen = 1;
    }
    return ci->bytes <= bytes;
}
