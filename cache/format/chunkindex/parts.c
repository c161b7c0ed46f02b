/* Segments, chunks and nodes, and the trees that find them by address: see parts.h. */
#include "parts.h"

#include <search.h>
#include <stdlib.h>

#include "base/extent.h"
#include "base/table.h"

/* Bytes of a tree's node besides its content. */
#define TREE_BYTES 48

/* ---- by address: chunks and nodes both begin with theirs ------------------------------------ */

/* Returns the length of |c| as far as it is known: as stored, else the smallest distance to another chunk. */
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

struct xh_chunk *xh_chunk_at(const struct xh_chunkmap *map, uint64_t addr)
{
    /* Where sizes are not stored, a chunk's length may be taken too large. So a chunk that begins at |addr| comes
     * first. */
    void *const *at = tfind(&addr, &map->chunks, xh_range_order);
    if (!at)
        at = tfind(&addr, &map->chunks, around);
    return at ? *at : NULL;
}

struct xh_node *xh_node_at(const struct xh_chunkmap *map, uint64_t addr)
{
    void *const *at = tfind(&addr, &map->nodes, xh_range_order);
    return at ? *at : NULL;
}

/* ---- segments ------------------------------------------------------------------------------- */

static size_t seg_bytes(uint64_t chunks)
{
    return sizeof(struct xh_seg) + 16 + chunks * sizeof(struct xh_chunk);
}

static void chunks_leave(struct xh_seg *s)
{
    struct xh_chunkmap *map = s->ix->map;
    for (uint64_t i = 0; s->chunks && i < s->count; i++) {
        struct xh_chunk *c = &s->chunks[i];
        void *const *at = c->addr == XH_UNDEF ? NULL : tfind(c, &map->chunks, xh_range_order);
        if (at && *at == c) {
            tdelete(c, &map->chunks, xh_range_order);
            map->bytes -= TREE_BYTES;
            map->nchunks--;
        }
        if (map->at == c)
            map->at = NULL;
    }
}

void xh_seg_free(struct xh_seg *s)
{
    chunks_leave(s);
    s->ix->map->bytes -= seg_bytes(s->chunks ? s->count : 0);
    free(s->chunks);
    free(s);
}

void xh_seg_forget(struct xh_seg *s)
{
    chunks_leave(s);
    s->ix->map->bytes -= seg_bytes(s->count) - seg_bytes(0);
    free(s->chunks);
    s->chunks = NULL;
    s->unseen = 1;
}

void xh_seg_join(struct xh_seg *s)
{
    struct xh_chunkmap *map = s->ix->map;
    uint64_t last = XH_UNDEF;
    for (uint64_t i = 0; s->chunks && i < s->count; i++) {
        struct xh_chunk *c = &s->chunks[i];
        c->seg = s;
        if (c->addr >= map->size || c->size > map->size - c->addr)
            c->addr = XH_UNDEF;
        if (c->addr == XH_UNDEF)
            continue;
        void *const *at = tsearch(c, &map->chunks, xh_range_order);
        if (!at || *at != c)
            continue;
        map->bytes += TREE_BYTES;
        map->nchunks++;
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
    ix->map->bytes += seg_bytes(with_chunks ? count : 0);
    return s;
}

/* ---- parts ---------------------------------------------------------------------------------- */

static struct xh_seg *append(struct xh_parts *ps, uint64_t n, int with_chunks)
{
    if (n == 0 || n > (uint64_t)XH_RANK_MAX || ps->n >= XH_SEGS_MAX)
        return NULL;
    /* The chunks of one node may take half of the memory bound. */
    if (with_chunks && n > ps->ix->map->most_bytes / 2 / (sizeof(struct xh_chunk) + TREE_BYTES))
        return NULL;
    if (xh_grow(ps->seg, ps->room, ps->n + 1))
        return NULL;
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

struct xh_node *xh_node_new(struct xh_index *ix, struct xh_node node)
{
    struct xh_chunkmap *map = ix->map;
    struct xh_node *nd = malloc(sizeof *nd);
    if (!nd)
        return NULL;
    *nd = node;
    nd->ix = ix;
    void *const *at = tsearch(nd, &map->nodes, xh_range_order);
    if (!at || *at != nd) {
        free(nd);
        return NULL;
    }
    nd->next = ix->nodes;
    ix->nodes = nd;
    map->bytes += sizeof *nd + TREE_BYTES;
    return nd;
}

void xh_nodes_free(struct xh_index *ix)
{
    struct xh_chunkmap *map = ix->map;
    for (struct xh_node *nd = ix->nodes, *next; nd; nd = next) {
        next = nd->next;
        tdelete(nd, &map->nodes, xh_range_order);
        map->bytes -= sizeof *nd + TREE_BYTES;
        free(nd);
    }
}

int xh_parts_node(struct xh_parts *ps, struct xh_node node, uint64_t n)
{
    uint64_t size = ps->ix->map->size;
    if (node.len == 0 || node.len > XH_NODE_MAX || node.addr >= size || node.len > size - node.addr ||
        xh_node_at(ps->ix->map, node.addr))
        return xh_parts_hole(ps, n);
    struct xh_seg *s = append(ps, n, 0);
    if (!s)
        return -1;
    s->node = xh_node_new(ps->ix, node);
    if (s->node) {
        s->node->seg = s;
        s->unseen = 1;
    }
    return 0;
}

int xh_parts_pages(struct xh_parts *ps, uint64_t addr, uint64_t n, const uint8_t *map, uint64_t bit)
{
    const struct xh_format *f = &ps->ix->fmt;
    for (uint64_t now, bytes; n; n -= now, addr += bytes, bit++) {
        now = n < f->page_elems ? n : f->page_elems;
        bytes = now * f->elem + 4; /* and a checksum */
        struct xh_node page = {.addr = addr, .len = (uint32_t)bytes, .kind = XH_NODE_PAGE, .records = now};
        int written = map[bit / 8] & (0x80 >> bit % 8);
        if (written ? xh_parts_node(ps, page, now) : xh_parts_hole(ps, now))
            return -1;
    }
    return 0;
}

void xh_parts_free(struct xh_parts *ps)
{
    for (size_t i = 0; i < ps->n; i++) {
        if (ps->seg[i]->node)
            ps->seg[i]->node->seg = NULL;
        xh_seg_free(ps->seg[i]);
    }
    free(ps->seg);
}
