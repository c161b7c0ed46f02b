/* Inside the chunk indexes: one index as a list of segments in logical order.
 *
 * A segment is a run of ranks: chunks that are known, chunks that are not there, or a node of the
 * index that was not seen yet and is known by address, length and (for B-tree 1: about) how many
 * chunks it leads to. Seeing a node replaces its segment by what the node holds; so every kind of
 * index is walked the same way, from left to right, and a kind is one function in one file.
 *
 * Invariants:
 *  1. seg[i]->first + seg[i]->count == seg[i+1]->first; the first begins at 0.
 *  2. Every chunk of a known segment is in the tree of chunks, unless another chunk there begins
 *     at the same address; every node with an address was put into the tree of nodes once, and
 *     stays there after it was replaced (seg NULL): a node is never unfolded twice, so no cycle of
 *     hostile addresses ends anywhere but in the memory's bound. */
#ifndef XH_INDEX_H
#define XH_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "chunkindex.h"
#include "order.h"

#define XH_UNDEF UINT64_MAX
#define XH_NODE_MAX (1u << 22) /* no longer node is believed in */
#define XH_SEGS_MAX 32768u     /* segments of one index */
#define XH_RANK_MAX (1ll << 60)

enum xh_node_kind {
    XH_NODE_NONE, /* known chunks or holes that were part of another node */
    XH_NODE_BT1,
    XH_NODE_BT2,
    XH_NODE_FA_BLOCK,
    XH_NODE_FA_PAGE,
    XH_NODE_EA_INDEX,
    XH_NODE_EA_SUPER,
    XH_NODE_EA_BLOCK,
    XH_NODE_EA_PAGE,
};

struct xh_chunk {
    uint64_t addr; /* in the object; XH_UNDEF: not there */
    uint64_t size; /* 0: not stored in the index */
    struct xh_seg *seg;
};

struct xh_seg {
    struct xh_index *ix;
    uint64_t first, count; /* ranks */
    struct xh_chunk *chunks; /* |count| of them; NULL: holes, or a node not seen */
    struct xh_node *node;  /* NULL: part of another node */
    int unseen;            /* the node is waited for */
};

/* A node of an index: what is needed to read it. */
struct xh_node {
    uint64_t addr;
    struct xh_index *ix;
    struct xh_seg *seg; /* NULL: replaced by its parts */
    struct xh_node *next; /* of the same index */
    uint32_t len;
    uint8_t kind;  /* enum xh_node_kind */
    uint8_t level; /* B-trees: 0 is a leaf; extensible arrays: the super block's number */
    uint8_t asked; /* was returned as wanted */
    uint64_t records; /* B-tree 2 and pages: how many records it holds */
};

/* What the header, or the root, told of an index. */
struct xh_format {
    uint8_t O, L; /* bytes of an address, of a length */
    uint64_t base; /* what addresses in nodes are relative to */
    uint32_t key;  /* B-tree 1: bytes of a key */
    uint32_t elem; /* bytes of a record or an element */
    uint8_t size_bytes; /* of them for the chunk's size; 0: not stored */
    /* B-tree 2 */
    uint32_t node_bytes;
    uint8_t count_bytes;     /* of a child's number of records */
    uint8_t total_bytes[16]; /* of the records below a child at this level; 0 for leaves */
    /* arrays */
    uint64_t elems;      /* in all */
    uint64_t page_elems; /* of a page */
    /* extensible array */
    uint8_t off_bytes, nsupers;
    uint32_t inline_elems, least_elems, least_blocks;
};

struct xh_index {
    struct xh_chunkindex *ci;
    struct xh_format fmt;
    struct xh_seg **seg;
    size_t nsegs;
    struct xh_node *nodes;
    uint64_t gap; /* smallest distance of two chunks: none is longer where sizes are not stored */
    uint64_t used; /* for the least recently used one to go first */
    struct xh_order order;
    uint64_t ahead_bytes;  /* proposed and not read yet */
    uint64_t risk_bytes;   /* of these, the last ones, behind a step of the order that did not come true yet */
    uint64_t run_bytes;    /* read since the last miss */
    uint64_t whole_bytes;  /* of reads that were a whole chunk */
    uint64_t each_bytes;   /* the length of all of these; UINT64_MAX: of several lengths */
    uint64_t streak_bytes; /* and in the streaks before it that ended with a turn, less what was wrong then */
    uint64_t retry_bytes;  /* a stretch is looked for when the streak has read so much */
    struct xh_index *next;
};

/* ---- what a node's function makes: the parts that replace it, in logical order ------------- */

struct xh_parts {
    struct xh_index *ix;
    struct xh_seg **seg;
    size_t n, room;
};

/* Appends |n| > 0 chunks, to be filled by the caller (all not there yet); NULL: no memory, or too much. */
struct xh_chunk *xh_parts_chunks(struct xh_parts *ps, uint64_t n);
/* Appends |n| > 0 chunks from elements of an array or records of a B-tree 2: each ps->ix->fmt.elem
 * bytes, which begin with the address and, where it is stored, the size. 0 or -1. */
int xh_parts_elements(struct xh_parts *ps, const uint8_t *p, uint64_t n);
/* Appends |n| ranks without chunks. 0 or -1. */
int xh_parts_hole(struct xh_parts *ps, uint64_t n);
/* Appends a node that leads to |n| ranks; a hole when its address is undefined, outside the object
 * or already known. 0 or -1. */
int xh_parts_node(struct xh_parts *ps, struct xh_node node, uint64_t n);

/* Each takes a node's bytes and appends its parts; 0, or -1 when it is not what it should be. */
int xh_btree1_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps);
int xh_btree2_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps);
int xh_farray_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps);
int xh_earray_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps);

/* Each takes the bytes that begin an index (a root of B-tree 1, a header of the others), sets
 * ix->fmt (O, L and base are set) and appends the parts; 0, or -1 when it is none. */
int xh_btree1_root(const uint8_t *p, size_t len, struct xh_parts *ps);
int xh_btree2_root(const uint8_t *p, size_t len, struct xh_parts *ps);
int xh_farray_root(const uint8_t *p, size_t len, struct xh_parts *ps);
int xh_earray_root(const uint8_t *p, size_t len, struct xh_parts *ps);

/* ---- bytes ------------------------------------------------------------------------------- */

static inline uint64_t xh_le(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    while (n--)
        v = v << 8 | p[n];
    return v;
}

/* An address of |f|'s file as one of the object; XH_UNDEF for the undefined one. */
static inline uint64_t xh_addr(const struct xh_format *f, const uint8_t *p)
{
    uint64_t v = xh_le(p, f->O), undef = f->O < 8 ? (1ull << 8 * f->O) - 1 : XH_UNDEF;
    return v == undef || v > XH_UNDEF - f->base ? XH_UNDEF : v + f->base;
}

/* ---- the indexes of an object (chunkindex.c) ------------------------------------------------ */

struct xh_chunkindex {
    uint64_t size;
    uint8_t O, L;
    uint64_t base;
    struct xh_index *indexes;
    size_t nindexes;
    struct xh_index *now; /* of the last raw read that hit; NULL */
    struct xh_chunk *at;  /* its chunk; NULL when it was forgotten meanwhile */
    int strayed;          /* see xh_chunkindex_strayed */
    uint64_t lo, hi;      /* what was read of it, relative to its address */
    void *chunks;         /* tsearch: struct xh_chunk by address */
    void *nodes;          /* tsearch: struct xh_node by address */
    size_t bytes, nchunks;
    uint64_t clock;
    uint64_t asked, wasted; /* bytes read from chunks; bytes proposed for nothing */
    uint64_t node_bytes;    /* of nodes that were wanted */
};

/* ---- index.c ------------------------------------------------------------------------------ */

/* A new index from the bytes that begin it, or NULL: none, or no memory. The caller links it. */
struct xh_index *xh_index_new(struct xh_chunkindex *ci, uint64_t addr, const uint8_t *p, size_t len);
void xh_index_free(struct xh_index *ix);
/* Replaces the segment of |node|, not seen so far, by what |p| tells. */
void xh_index_unfold(struct xh_node *node, const uint8_t *p, size_t len);
/* Makes segments that can be read again unseen, the farthest from the reader first, until the
 * object's memory is at most |bytes|. Returns 1 when that was reached. */
int xh_index_forget(struct xh_index *ix, size_t bytes);
/* Segment that holds |rank| < all; its number. */
size_t xh_index_seg(const struct xh_index *ix, uint64_t rank);
/* For xh_order: what is at a rank; |ctx| is the index. */
xh_order_look xh_index_look;
/* The chunk at |rank|, which xh_index_look called one. */
struct xh_chunk *xh_index_chunk(const struct xh_index *ix, uint64_t rank);

struct xh_node *xh_node_at(const struct xh_chunkindex *ci, uint64_t addr);
/* The chunk that holds |addr|, or NULL. */
struct xh_chunk *xh_chunk_at(const struct xh_chunkindex *ci, uint64_t addr);

#endif
