/* The order of chunks, learned from the bytes of chunk indexes that HDF5 reads. Pure: no I/O, no clock, no locks.
 *
 * HDF5 reads filtered chunks one blocking call at a time, so latency can be hidden only if the next chunk is known.
 * Each metadata read of HDF5 is shown to xh_chunkindex_see. The nodes of a dataset's chunk index (B-tree versions 1 and
 * 2, fixed and extensible array; HDF5 File Format Specification 3.0, III.A, III.C, VII.C and VII.D) give the addresses
 * and sizes of its chunks in logical order. A raw read within one of these chunks tells the reader's position and how
 * it moves (order.h), and so what comes next.
 *
 * All results are hints. Bytes are used only as far as they are consistent; contradictory ones are dropped. The worst
 * result is a proposed range within the object. Memory is bounded (XH_CHUNKINDEX_BYTES), and so is the cost of wrong
 * guesses: see xh_chunkindex_next.
 *
 * Threads: one at a time per object; the caller locks. */
#ifndef XH_CHUNKINDEX_H
#define XH_CHUNKINDEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"

struct xh_chunkindex;

#define XH_CHUNKINDEX_BYTES (8u << 20) /* most memory for the indexes of one object */

/* |object_size| is in bytes; nothing outside is proposed. Returns NULL when out of memory. Owns: xh_chunkindex_free. */
struct xh_chunkindex *xh_chunkindex_new(uint64_t object_size);
void xh_chunkindex_free(struct xh_chunkindex *ci);

/* Returns 1 when the metadata bytes [off, off+len) may be useful: they begin like a chunk index or a superblock, or
 * some index waits for the node at |off|. Cheap. */
int xh_chunkindex_cares(const struct xh_chunkindex *ci, uint64_t off, const uint8_t *p, size_t len);

/* Shows metadata that HDF5 read, or that xh_chunkindex_wanted or _unwalked asked for. */
void xh_chunkindex_see(struct xh_chunkindex *ci, uint64_t off, const uint8_t *p, size_t len);

/* Returns 1 when |r| lies in a chunk of an index that was read before. */
int xh_chunkindex_begun(const struct xh_chunkindex *ci, struct xh_range r);

/* Tells whose reads come now: |thread|'s, any number that no other thread has, over a link that brings |flight_bytes|
 * in a round trip: so much may be passed by, as it costs no more than to ask for what is behind it. 0: not known. */
void xh_chunkindex_reader(struct xh_chunkindex *ci, uint64_t thread, uint64_t flight_bytes);

/* Notes a raw read; |alone|: of what nothing had foreseen. Returns the end of what its reader has come to, which lies
 * farther where that is several threads; 0 where it lies in no chunk of a known index. */
uint64_t xh_chunkindex_raw(struct xh_chunkindex *ci, struct xh_range r, int alone);

/* Returns 1 once after the reader left a proven order: it will not read next what was proposed last. */
int xh_chunkindex_strayed(struct xh_chunkindex *ci);

/* Returns 1 once after the reader, one thread alone, left a proven order of an index of which a stretch was taken
 * (xh_chunkindex_took), for what nothing had foreseen. */
int xh_chunkindex_moved(struct xh_chunkindex *ci);

/* Fills |out| with the chunks that will be read after the last raw read, in that order, except those proposed before.
 * Returns their number, <= |max|. What is proposed and not read yet stays within |window_bytes|. The window starts
 * small (8 chunks, at most 8 MiB), grows with each guess that came true, and is refilled when it is half used.
 * Three hits in a row, or an expected turn, prove the reader's order. Until then all guesses together may cost the
 * first window and a quarter of the bytes read. The same bound holds for guesses behind a kind of turn that was seen
 * only once. */
size_t xh_chunkindex_next(struct xh_chunkindex *ci, uint64_t window_bytes, struct xh_range *out, size_t max);

/* After the last raw read: if the order is proven and the next chunks lie one behind the other, upwards, returns the
 * stretch of the object from the first chunk that was not proposed to the last known one. Index nodes and other small
 * gaps lie within it. It has at least |least| and at most |most| bytes. Returns len 0 when there is no such stretch,
 * the window is smaller, enough is proposed already, or more of the index should be known first. The call proposes
 * nothing; xh_chunkindex_took tells how far the caller has fetched.
 * Sets |*window| to how far ahead of an upward reader the caller may fetch, at most |window_bytes|; 0 for another
 * order. */
struct xh_range xh_chunkindex_stretch(struct xh_chunkindex *ci, uint64_t window_bytes, uint64_t least, uint64_t most,
                                      uint64_t *window);
/* Counts the next chunks that lie in |r| as proposed. */
void xh_chunkindex_took(struct xh_chunkindex *ci, struct xh_range r);

/* The caller could not fetch all that xh_chunkindex_next last proposed. It will be proposed again. */
void xh_chunkindex_refused(struct xh_chunkindex *ci);

/* Fills |out| with nodes of the index of the last raw read that lie ahead of the reader and were not seen: the next
 * leaf, page or data block. The caller fetches them as metadata and shows them when they are there. They are returned
 * until then. Returns their number, <= |max|. */
size_t xh_chunkindex_wanted(struct xh_chunkindex *ci, struct xh_range *out, size_t max);

/* Notes that HDF5 read the metadata at |off|, which xh_chunkindex_see was shown. Returns 1 when it goes through the
 * nodes of an index, one after another, as it does to list chunks or to find those of a hint. */
int xh_chunkindex_walked(struct xh_chunkindex *ci, uint64_t off);

/* After xh_chunkindex_walked returned 1: fills |out| with the next nodes that were not seen, in their order. They lie
 * within four times the bytes of the nodes that HDF5 went through. A node that leads to others is returned again until
 * it was seen. Returns their number, <= |max|; 0 while half of those bytes lies ahead. */
size_t xh_chunkindex_unwalked(struct xh_chunkindex *ci, struct xh_range *out, size_t max);

/* Raw reads so far of whole chunks, in indexes where all chunks that were read whole had the same length. Chunks
 * without a filter are like this; compressed chunks hardly ever are. HDF5 could read parts of such chunks, and does so
 * if its chunk cache is smaller than a chunk. */
struct xh_chunkindex_plain {
    uint64_t bytes;       /* of all such reads */
    uint64_t chunk_bytes; /* of one chunk; with several indexes, in the one that was read most */
};
struct xh_chunkindex_plain xh_chunkindex_plain(const struct xh_chunkindex *ci);

/* Where a read lies in an index. While nodes of a version 1 B-tree before it were not seen, its rank is a guess. */
struct xh_chunkindex_spot {
    uint64_t index; /* the address that tells one index from another; 0: the read lies in no chunk that is known */
    uint64_t rank;
};
struct xh_chunkindex_spot xh_chunkindex_spot(const struct xh_chunkindex *ci, struct xh_range r);

/* Returns the chunk of the index and rank that |s| names; len 0 where it is not known, or is not there. */
struct xh_range xh_chunkindex_at(const struct xh_chunkindex *ci, struct xh_chunkindex_spot s);

/* Memory held: bytes, chunks with an address. For tests. */
struct xh_chunkindex_held {
    size_t bytes, chunks;
};
struct xh_chunkindex_held xh_chunkindex_held(const struct xh_chunkindex *ci);

/* Finds the chunk that begins at |addr|. Returns 1 and sets |size| (0: not stored in the index) and |rank| in its
 * index; else returns 0. */
int xh_chunkindex_find(const struct xh_chunkindex *ci, uint64_t addr, uint64_t *size, uint64_t *rank);

#endif
