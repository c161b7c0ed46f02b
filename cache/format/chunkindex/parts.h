/* What an index is made of: segments in logical order, with chunks and nodes that are found by their addresses.
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
#ifndef XH_PARTS_H
#define XH_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "order.h"

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

/* All chunks and nodes of an object, whatever their index. */
struct xh_chunkmap {
    uint64_t size;        /* of the object: nothing outside is believed */
    void *chunks;         /* tsearch: struct xh_chunk by address */
    void *nodes;          /* tsearch: struct xh_node by address */
    struct xh_chunk *at;  /* the chunk of the last raw read that hit; NULL when it was forgotten meanwhile */
    size_t bytes, most_bytes, nchunks; /* memory of all indexes; the bound that their owner keeps */
};

struct xh_index {
    struct xh_chunkmap *map;
    struct xh_format fmt;
    struct xh_seg **seg;
    size_t nsegs;
    struct xh_node *nodes;
    uint64_t gap; /* smallest distance of two chunks: none is longer where sizes are not stored */
    /* Of its reader, for chunkindex.c: */
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

void xh_parts_free(struct xh_parts *ps);

/* ---- chunks and nodes by address ----------------------------------------------------------- */

struct xh_node *xh_node_at(const struct xh_chunkmap *map, uint64_t addr);
/* The chunk that holds |addr|, or NULL. */
struct xh_chunk *xh_chunk_at(const struct xh_chunkmap *map, uint64_t addr);

/* A node in the map and in its index's list, or NULL: known already, or no memory. */
struct xh_node *xh_node_new(struct xh_index *ix, struct xh_node node);
void xh_nodes_free(struct xh_index *ix);

/* Puts the chunks of a segment that has got them into the map. Those outside the object become holes. */
void xh_seg_join(struct xh_seg *s);
/* Drops the chunks of a segment whose node can be read again: it waits for that. */
void xh_seg_forget(struct xh_seg *s);
void xh_seg_free(struct xh_seg *s);

#endif
