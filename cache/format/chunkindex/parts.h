/* The parts of an index: segments in logical order, and chunks and nodes that are found by address.
 *
 * A segment is a run of ranks. It holds known chunks, or ranks without chunks, or a node of the index that was not seen
 * yet. Such a node is known by its address, its length and the number of chunks that it leads to (for a version 1
 * B-tree approximately). Seeing a node replaces its segment by what the node holds. So every kind of index is walked
 * the same way, from left to right, and each kind is one function in one file.
 *
 * Invariants 1. seg[i]->first + seg[i]->count == seg[i+1]->first; the first segment begins at 0.
 * 2. Every chunk of a known segment is in the tree of chunks, unless another chunk there begins at the same address.
 * 3. Every node with an address was put into the tree of nodes once, and stays there after it was replaced (seg NULL).
 * So a node is never unfolded twice, and a cycle of hostile addresses ends at the latest at the memory bound. */
#ifndef XH_PARTS_H
#define XH_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "format.h"
#include "order.h"

#define XH_NODE_MAX (1u << 22) /* longest node that is accepted */
#define XH_SEGS_MAX 32768u     /* segments of one index */
#define XH_RANK_MAX (1ll << 60)
#define XH_CHUNKS_LEFT 16u /* that are remembered: of as many threads each reads a chunk of its own, piece by piece */

enum xh_node_kind {
    XH_NODE_NONE, /* known chunks or holes that were part of another node */
    XH_NODE_BT1,
    XH_NODE_BT2,
    XH_NODE_FA_BLOCK,
    XH_NODE_EA_INDEX,
    XH_NODE_EA_SUPER,
    XH_NODE_EA_BLOCK,
    XH_NODE_PAGE, /* of a long data block of an array */
};

struct xh_chunk {
    uint64_t addr; /* in the object; XH_UNDEF: no chunk */
    uint64_t size; /* 0: not stored in the index */
    struct xh_seg *seg;
};

struct xh_seg {
    struct xh_index *ix;
    uint64_t first, count; /* ranks */
    struct xh_chunk *chunks; /* |count| chunks; NULL: holes, or a node that was not seen */
    struct xh_node *node;  /* NULL: the segment is part of another node */
    int unseen;            /* 1: the node's bytes are awaited */
};

/* A node of an index: what is needed to read it. */
struct xh_node {
    uint64_t addr;
    struct xh_index *ix;
    struct xh_seg *seg; /* NULL: replaced by its parts */
    struct xh_node *next; /* next node of the same index */
    uint32_t len;
    uint8_t kind;  /* enum xh_node_kind */
    uint8_t level; /* B-trees: 0 is a leaf; extensible arrays: the number of the super block */
    uint8_t asked; /* 1: it was returned as wanted */
    uint64_t records; /* version 2 B-tree and pages: number of records in it */
};

/* All chunks and nodes of an object, of all its indexes. */
struct xh_chunkmap {
    uint64_t size;        /* of the object; nothing outside is accepted */
    void *chunks;         /* tsearch: struct xh_chunk by address */
    void *nodes;          /* tsearch: struct xh_node by address */
    struct xh_chunk *at;  /* the chunk of the last raw read that hit; NULL when it was forgotten since */
    size_t bytes, most_bytes, nchunks; /* bytes: memory of all indexes; most_bytes: the bound that the owner keeps */
};

struct xh_index {
    struct xh_chunkmap *map;
    struct xh_format fmt;
    uint64_t addr; /* of the bytes that began it */
    struct xh_seg **seg;
    size_t nsegs;
    struct xh_node *nodes;
    uint64_t gap; /* smallest distance of two chunks; where sizes are not stored, no chunk is longer */
    /* State of its reader, for chunkindex.c: */
    uint64_t used; /* time of the last use; the least recently used index goes first */
    struct xh_order order;
    uint64_t ahead_bytes;  /* proposed and not read yet */
    uint64_t risk_bytes;   /* the last of these: behind a step of the order that has not come true yet */
    uint64_t run_bytes;    /* read since the last miss */
    /* So many chunks one after another were left of which less than half was read; below 0 for a while where the reader
     * came back to one of those that it |left| last. */
    int parts;
    uint64_t left[XH_CHUNKS_LEFT]; /* their addresses, in a ring */
    unsigned nleft;
    uint64_t whole_bytes;  /* of reads of a whole chunk */
    uint64_t each_bytes;   /* the length of all of these; UINT64_MAX: of several lengths */
    /* read since the last miss, and in earlier streaks that ended with a turn, less what was wrong then */
    uint64_t streak_bytes;
    int took;              /* 1: a stretch of it was taken since its reader was seen to move on elsewhere */
    uint64_t retry_bytes;  /* a stretch is looked for again when the streak has read this much */
    const struct xh_node *walked; /* the node that HDF5 read last, of those that are no others' parents; or NULL */
    uint64_t walk_bytes;   /* of the nodes that it read one after another up to this one, without it */
    struct xh_index *next;
};

/* ---- what a node's function makes: the parts that replace it, in logical order ------------- */

struct xh_parts {
    struct xh_index *ix;
    struct xh_seg **seg;
    size_t n, room;
};

/* Appends |n| > 0 chunks, at first without addresses, for the caller to fill. Returns NULL when out of memory, or when
 * there are too many. */
struct xh_chunk *xh_parts_chunks(struct xh_parts *ps, uint64_t n);
/* Appends |n| > 0 chunks from elements of an array or records of a version 2 B-tree. Each has ps->ix->fmt.elem bytes
 * and begins with the address and, if it is stored, the size. Returns 0 or -1. */
int xh_parts_elements(struct xh_parts *ps, const uint8_t *p, uint64_t n);
/* Appends |n| ranks without chunks. Returns 0 or -1. */
int xh_parts_hole(struct xh_parts *ps, uint64_t n);
/* Appends a node that leads to |n| ranks; a hole when its address is undefined, outside the object or already known.
 * Returns 0 or -1. */
int xh_parts_node(struct xh_parts *ps, struct xh_node node, uint64_t n);
/* Appends the pages of an array's data block: |n| elements, the first page at |addr|. A bit for each page in |map|,
 * from |bit| on, tells whether it was written. Returns 0 or -1. */
int xh_parts_pages(struct xh_parts *ps, uint64_t addr, uint64_t n, const uint8_t *map, uint64_t bit);

void xh_parts_free(struct xh_parts *ps);

/* ---- chunks and nodes by address ----------------------------------------------------------- */

struct xh_node *xh_node_at(const struct xh_chunkmap *map, uint64_t addr);
/* Returns the chunk that holds |addr|, or NULL. */
struct xh_chunk *xh_chunk_at(const struct xh_chunkmap *map, uint64_t addr);

/* Makes a node and adds it to the map and to its index's list. Returns NULL when it is already known, or when out of
 * memory. */
struct xh_node *xh_node_new(struct xh_index *ix, struct xh_node node);
void xh_nodes_free(struct xh_index *ix);

/* Adds the chunks of a segment to the map. Chunks outside the object become holes. */
void xh_seg_join(struct xh_seg *s);
/* Drops the chunks of a segment whose node can be read again; the segment then waits for the node. */
void xh_seg_forget(struct xh_seg *s);
void xh_seg_free(struct xh_seg *s);

#endif
