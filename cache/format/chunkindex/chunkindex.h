/* Chunk order from the index bytes that pass by. Pure: no I/O, no clock, no locks.
 *
 * HDF5 reads filtered chunks one blocking call at a time, so only who knows the next chunk
 * can hide the latency. Each metadata read that HDF5 makes is shown to xh_chunkindex_see;
 * from the nodes of a dataset's chunk index (B-tree 1 and 2, fixed and extensible array; HDF5
 * File Format Specification 3.0, III.A, III.C, VII.C and VII.D) come the addresses and sizes of
 * its chunks in logical order. A raw read that lies in one of them tells where the reader is and
 * how it moves (order.h), and so what comes next.
 *
 * All of it is a hint. Bytes are believed only as far as they are consistent; what is
 * contradictory is dropped; nothing here can do more than propose ranges inside the object. Memory
 * is bounded (XH_CHUNKINDEX_BYTES), and so is what wrong guesses may cost: see xh_chunkindex_next.
 *
 * Threads: one at a time per object; the caller locks. */
#ifndef XH_CHUNKINDEX_H
#define XH_CHUNKINDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"

struct xh_chunkindex;

#define XH_CHUNKINDEX_BYTES (8u << 20) /* most memory of one object's indexes */

/* |object_size| in bytes: nothing outside is ever proposed. NULL when out of memory. */
struct xh_chunkindex *xh_chunkindex_new(uint64_t object_size);
void xh_chunkindex_free(struct xh_chunkindex *ci);

/* 1 when the metadata bytes [off, off+len) may tell something: they begin like a node of a
 * chunk index or a superblock, or some index waits for the node there. Cheap. */
int xh_chunkindex_cares(const struct xh_chunkindex *ci, uint64_t off, const uint8_t *p, size_t len);

/* Shows metadata that HDF5 read, or that xh_chunkindex_wanted asked for. */
void xh_chunkindex_see(struct xh_chunkindex *ci, uint64_t off, const uint8_t *p, size_t len);

/* 1 when |r| lies in a chunk of an index that was read before. */
int xh_chunkindex_begun(const struct xh_chunkindex *ci, struct xh_range r);

/* Takes note of a raw read. Returns 1 when it lies in a chunk that some index knows. */
int xh_chunkindex_raw(struct xh_chunkindex *ci, struct xh_range r);

/* 1 once after the reader left a proven order: what was proposed last will not be read next. */
int xh_chunkindex_strayed(struct xh_chunkindex *ci);

/* After the last raw read: the chunks that will be read next, in that order, as far as they were
 * not proposed before. What was proposed and not read yet stays within |window_bytes|, starts small
 * (8 chunks, at most 8 MiB), grows with each guess that came true, and is refilled when half used.
 * While the reader's order is not proven by three hits in a row, or by a turn that was foretold, all guesses
 * together may cost that first window and a quarter of the bytes read; so may those that lie behind a turn of a
 * kind that was seen but once. Returns how many of |out| were written, <= |max|. */
size_t xh_chunkindex_next(struct xh_chunkindex *ci, uint64_t window_bytes, struct xh_range *out, size_t max);

/* After the last raw read, where the order is proven and the chunks that come next lie one behind the other,
 * upwards: the stretch of the object from the first that was not proposed to the last that is known, index
 * nodes and other small gaps in between, at least |least| bytes and at most |most|. len 0: there is none, the
 * window is smaller, what was proposed is enough, or more of the index had better be known first. Nothing is
 * proposed by that: xh_chunkindex_took says how far the caller has seen to it. |*window|: how far ahead of an
 * upward reader that read lets it look, at most |window_bytes|; 0 for any other order. */
struct xh_range xh_chunkindex_stretch(struct xh_chunkindex *ci, uint64_t window_bytes, uint64_t least, uint64_t most,
                                      uint64_t *window);
/* The chunks that come next and lie in |r| count as proposed. */
void xh_chunkindex_took(struct xh_chunkindex *ci, struct xh_range r);

/* The caller could not fetch all of what xh_chunkindex_next last proposed: it will be proposed again. */
void xh_chunkindex_refused(struct xh_chunkindex *ci);

/* Nodes of the index of the last raw read that lie before the reader and were not seen: the next
 * leaf, page or data block. The caller fetches them as metadata and shows them when they are there;
 * they are returned until then. Returns how many of |out| were written. */
size_t xh_chunkindex_wanted(struct xh_chunkindex *ci, struct xh_range *out, size_t max);

/* Raw reads so far that were whole chunks, in indexes whose chunks were all of one length when they were read whole. Chunks without a
 * filter are so, compressed ones hardly ever. Of such chunks HDF5 could read less: it does where its chunk cache is
 * smaller than a chunk. */
struct xh_chunkindex_plain {
    uint64_t bytes;       /* of all such reads */
    uint64_t chunk_bytes; /* of one chunk; of several indexes the one that was read most */
};
struct xh_chunkindex_plain xh_chunkindex_plain(const struct xh_chunkindex *ci);

/* What is held, for tests: bytes of memory, indexes, chunks with an address. */
struct xh_chunkindex_held {
    size_t bytes, indexes, chunks;
};
struct xh_chunkindex_held xh_chunkindex_held(const struct xh_chunkindex *ci);

/* The chunk that begins at |addr|: 1 and its |size| (0: not stored in the index) and |rank| in its
 * index, else 0. */
int xh_chunkindex_find(const struct xh_chunkindex *ci, uint64_t addr, uint64_t *size, uint64_t *rank);

#endif
