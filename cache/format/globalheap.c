/* Which collections of the global heap come next: see globalheap.h.
 *
 * The collections that the last read's descriptors name, each once, are the |named|. HDF5 reads them in their order,
 * but for those that it still has, if it wants all elements. Of a chunk it may want one: then its first collection is
 * any of them.
 *
 * Invariants: |ahead| counts the bytes that were proposed and not read; also those of collections that are forgotten,
 * or were passed by. So it bounds what is fetched in vain in the life of an open file. */
#include "globalheap.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/table.h"

/* What HDF5 reads first of a collection, and its shortest (H5HG_MINSIZE); the longest that it makes for more than one
 * value (H5HG_MAXSIZE). */
#define FIRST_BYTES 4096u
#define LONGEST_BYTES 65536u
/* Descriptors of one read that are looked at: as many as HDF5 converts at a time, by its buffer of 1 MiB. It bounds the
 * time that a look takes: 0.2 ms, or 0.8 where they name 4,096 collections (29 November, machine loaded). */
#define DESCRIPTORS_MOST 65536u
#define NONE_MOST 4096u /* elements without a value before the first one that has one: most data of zeros is none */
#define NAMED_MOST 4096u  /* collections of one read: 256 MiB of the usual ones */
#define HELD_MOST 16384u  /* collections that are remembered; then all are forgotten. 2 MB */
/* A block of descriptors is as long as the collection that its reader waits for: it takes as long to come. A read of
 * as many is no pick. */
#define BLOCK_BYTES 65536u
#define PICK_BYTES 1024u
#define APART_LOOKS 64u  /* so many distances between collections are looked at */

struct collection {
    uint64_t off;
    uint64_t asked; /* bytes that were proposed of it and not read */
    uint64_t batch; /* the last batch that named it */
    size_t place;   /* in that batch */
    int is_read;
    UT_hash_handle hh; /* by |off| */
};

struct xh_globalheap {
    uint64_t size;
    struct collection *held;
    struct collection *named[NAMED_MOST]; /* by the last read that held descriptors: the current batch */
    size_t n, at;   /* at: behind the last one of them that was read */
    uint64_t batch; /* its number, from 1 on */
    int in_order;   /* the last one that was read passed none by */
    int from_first; /* the first one of the last batch that was read passed none by */
    int is_heap;    /* the read that is to be shown is of a collection */
    int is_new;     /* and it is the first one of it */
    struct collection *last; /* the last one that was read; NULL: none, or forgotten */
    uint64_t last_end;       /* how far */
    int lacks_rest;          /* nothing of it was proposed */
    uint64_t bytes, before;  /* lengths: the longer one of the last two collections, the last one; 0: none was read */
    uint64_t used, ahead;
    struct xh_range picked; /* a small read of descriptors, since the last call; len 0: none */
    uint64_t blocks;        /* bytes of descriptors that were proposed */
    int trusted; /* HDF5 has read as a collection what a descriptor named */
};

struct xh_globalheap *xh_globalheap_new(uint64_t size)
{
    struct xh_globalheap *g = calloc(1, sizeof *g);
    if (g) {
        g->size = size;
        g->from_first = 1;
    }
    return g;
}

static void forget(struct xh_globalheap *g)
{
    struct collection *c = g->held, *next;
    HASH_CLEAR(hh, g->held);
    for (; c; c = next) {
        next = c->hh.next;
        free(c);
    }
    g->n = g->at = 0;
    g->last = NULL;
}

void xh_globalheap_free(struct xh_globalheap *g)
{
    if (!g)
        return;
    forget(g);
    free(g);
}

static struct collection *find(const struct xh_globalheap *g, uint64_t off)
{
    struct collection *c;
    HASH_FIND(hh, g->held, &off, sizeof off, c);
    return c;
}

/* ---- what is read */

/* |bytes| of |c| are read. What was proposed beyond its end stays in |ahead|. */
static void settle(struct xh_globalheap *g, struct collection *c, uint64_t bytes)
{
    bytes = xh_min64(bytes, c->asked);
    g->ahead -= xh_min64(g->ahead, bytes);
    c->asked -= bytes;
}

/* Notes that |c| is read, from its beginning to |end|. */
static void begin(struct xh_globalheap *g, struct collection *c, uint64_t end)
{
    if (c->batch == g->batch && c->place >= g->at) {
        size_t passed = 0;
        for (size_t i = g->at; i < c->place; i++)
            passed += !g->named[i]->is_read;
        g->in_order = passed == 0;
        g->from_first = g->at == 0 ? g->in_order : g->from_first;
        g->at = c->place + 1;
        while (g->at < g->n && g->named[g->at]->is_read) /* else each read of what is read again would pass them all */
            g->at++;
    }
    g->lacks_rest = c->asked == 0 && !c->is_read;
    settle(g, c, end - c->off);
    c->is_read = 1;
    g->last = c;
    g->last_end = end;
    g->trusted = 1;
}

/* Returns the next one that is named and was not read; NULL: there is none. */
static const struct collection *next_named(const struct xh_globalheap *g)
{
    size_t i = g->at;
    while (i < g->n && g->named[i]->is_read)
        i++;
    return i < g->n ? g->named[i] : NULL;
}

int xh_globalheap_reads(struct xh_globalheap *g, struct xh_range r)
{
    struct collection *c = r.len >= FIRST_BYTES ? find(g, r.off) : NULL;
    g->is_heap = 1;
    g->is_new = c && !c->is_read;
    if (c) {
        begin(g, c, r.off + r.len);
    } else if (g->last && r.len && r.off == g->last_end) {
        settle(g, g->last, r.len);
        g->last_end += r.len;
    } else {
        g->is_heap = 0;
    }
    g->used += g->is_heap ? r.len : 0;
    const struct collection *next = g->is_heap ? next_named(g) : NULL;
    return g->is_heap + (next && next->off < r.off);
}

/* A collection's first bytes say how long it is. Most are of one length; the last one of a dataset is shorter. */
static void learn(struct xh_globalheap *g, const struct xh_meta_format *f, const uint8_t *p, uint64_t len)
{
    if (len < 8 + f->length_bytes || memcmp(p, "GCOL", 4) != 0)
        return;
    uint64_t bytes = xh_min64(xh_max64(xh_le(p + 8, f->length_bytes), FIRST_BYTES), LONGEST_BYTES);
    g->bytes = xh_max64(bytes, g->before);
    g->before = bytes;
}

/* ---- what is named */

/* Notes the collection at |off|. Returns -1 when there is no room for it. */
static int name(struct xh_globalheap *g, uint64_t off)
{
    struct collection *c = find(g, off);
    if (c && c->batch == g->batch)
        return 0;
    if (g->n == NAMED_MOST)
        return -1;
    if (!c) {
        if (!(c = calloc(1, sizeof *c)))
            return -1;
        c->off = off;
        HASH_ADD(hh, g->held, off, sizeof c->off, c);
        if (!xh_in_table(c)) {
            free(c);
            return -1;
        }
    }
    c->batch = g->batch;
    c->place = g->n;
    g->named[g->n++] = c;
    return 0;
}

/* Returns 1 and sets |*off|, 0: to no value, when there may be a descriptor at |p|. */
static int descriptor(const struct xh_globalheap *g, const struct xh_meta_format *f, const uint8_t *p, uint64_t *off)
{
    uint64_t at = xh_le(p + 4, f->offset_bytes), index = xh_le(p + 4 + f->offset_bytes, 4);
    *off = 0;
    if (at == 0)
        return index == 0;
    if (index == 0 || index > UINT16_MAX || at >= g->size || f->base >= g->size - at ||
        g->size - at - f->base < FIRST_BYTES)
        return 0;
    *off = at + f->base;
    return 1;
}

/* Notes the collections that |ext| names, up to the bounds. Returns 0 when it has no descriptors. */
static int look(struct xh_globalheap *g, const struct xh_meta_format *f, const struct xh_extent *ext, size_t n)
{
    const unsigned each = 4 + f->offset_bytes + 4;
    uint64_t last = 0, off;
    unsigned looks = 0;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = ext[i].buf;
        if (ext[i].len % each)
            return 0;
        for (uint64_t at = 0; at < ext[i].len && looks++ < DESCRIPTORS_MOST; at += each) {
            if (!descriptor(g, f, p + at, &off) || (g->n == 0 && looks > NONE_MOST))
                return 0;
            if (off && off != last && name(g, off))
                return 1;
            last = off;
        }
    }
    return 1;
}

int xh_globalheap_saw(struct xh_globalheap *g, const struct xh_meta_format *f, const struct xh_extent *ext, size_t n)
{
    if (g->is_new && n && g->last && ext->off == g->last->off)
        learn(g, f, ext->buf, ext->len);
    if (g->is_heap || n == 0 || f->offset_bytes == 0)
        return g->is_heap;
    if (HASH_COUNT(g->held) + NAMED_MOST > HELD_MOST)
        forget(g);
    g->n = g->at = 0;
    g->batch++;
    if (!look(g, f, ext, n))
        g->n = 0;
    int picks = n == 1 && ext->len <= PICK_BYTES && g->n;
    g->picked = (struct xh_range){ext->off, picks ? ext->len : 0};
    return g->trusted && g->n;
}

/* ---- what to fetch */

/* How long a collection of the current batch may be: as the last ones, or as those that are named one after another lie
 * apart. The first one may be shorter than all others. */
static uint64_t likely_bytes(const struct xh_globalheap *g)
{
    uint64_t most = xh_max64(g->bytes, FIRST_BYTES);
    for (size_t i = 1; i < g->n && i < APART_LOOKS; i++) {
        uint64_t a = g->named[i - 1]->off, b = g->named[i]->off;
        uint64_t apart = a > b ? a - b : b - a;
        most = apart <= LONGEST_BYTES ? xh_max64(most, apart) : most;
    }
    return most;
}

static void propose(struct xh_globalheap *g, struct collection *c, uint64_t from, uint64_t bytes, struct xh_range *out)
{
    uint64_t to = xh_min64(bytes, g->size - c->off);
    *out = (struct xh_range){c->off + from, to - from};
    c->asked = out->len;
    g->ahead += out->len;
}

/* The block of descriptors that the last pick is in, once. */
static size_t block(struct xh_globalheap *g, const struct xh_heap_limits *lim, struct xh_range *out)
{
    uint64_t from = g->picked.off - g->picked.off % BLOCK_BYTES, bytes = xh_min64(BLOCK_BYTES, g->size - from);
    if (g->picked.len == 0 || lim->block_bytes < BLOCK_BYTES || g->blocks + bytes > g->used)
        return 0;
    g->picked.len = 0;
    g->blocks += bytes;
    *out = (struct xh_range){from, bytes};
    return 1;
}

size_t xh_globalheap_next(struct xh_globalheap *g, const struct xh_heap_limits *lim, struct xh_range *out, size_t room)
{
    size_t n = 0;
    uint64_t bytes = likely_bytes(g);
    if (!g->trusted || room == 0)
        return 0;
    uint64_t window = lim->spare_bytes + g->used;
    if (g->last && g->lacks_rest && g->last_end < g->size && g->last_end - g->last->off < bytes &&
        g->ahead + bytes <= window)
        propose(g, g->last, g->last_end - g->last->off, bytes, &out[n++]);
    g->lacks_rest = 0;
    int may = (g->at ? g->in_order : g->from_first) && g->ahead <= window / 2; /* many come with one request */
    for (size_t i = g->at; may && i < g->n && n < room; i++) {
        struct collection *c = g->named[i];
        if (c->is_read || c->asked)
            continue;
        if (g->ahead + bytes > window)
            break;
        propose(g, c, 0, bytes, &out[n++]);
    }
    return n < room ? n + block(g, lim, out + n) : n;
}

size_t xh_globalheap_held(const struct xh_globalheap *g)
{
    return HASH_COUNT(g->held);
}
