/* A metadata image: what a publisher puts beside an HDF5 file, so that a reader has all its metadata at once.
 * docs/sidecar.md is the format.
 *
 * Pure: no I/O, no locks. Bytes in, places out. All input is hostile: nothing outside the bytes given is read, no more
 * is allocated than the bounds below say, and what was accepted names no place outside the file that it is of. */
#ifndef XH_METAIMAGE_H
#define XH_METAIMAGE_H

#include <stddef.h>
#include <stdint.h>

#define XH_METAIMAGE_SUFFIX ".xhmeta" /* behind the original's name */
#define XH_METAIMAGE_VERSION 1u
#define XH_METAIMAGE_HEADER 128u                 /* bytes */
#define XH_METAIMAGE_MOST (UINT64_C(1) << 30)    /* bytes of metadata in one */
#define XH_METAIMAGE_INDEX_MOST (8u << 20)       /* bytes of an index, unpacked */
#define XH_METAIMAGE_BLOCK_MOST (1u << 20)       /* bytes of a block, unpacked */
/* Bytes of the file for each extent, at least: sizeof(struct xh_metaimage_piece), so that the table of extents takes no
 * more memory than the file has bytes. HDF5 keeps 16 bytes and more of each piece of metadata. */
#define XH_METAIMAGE_EXTENT_LEAST 16u
#define XH_METAIMAGE_NOTE_MOST 20u /* bytes of the index that an extent takes at most: two numbers of ten */
#define XH_METAIMAGE_SUM 16u                     /* bytes of a block's SHA-256 that are kept */

struct xh_metaimage_head {
    uint64_t file_bytes; /* the original's size and time */
    int64_t mtime_s;
    uint32_t mtime_ns;
    uint32_t block_bytes;
    uint64_t image_bytes; /* of metadata */
    uint32_t extents, blocks;
    uint32_t index_bytes, index_raw_bytes; /* of the index, as it lies behind the header, and unpacked */
    uint8_t index_sha256[32];              /* of the unpacked index, which holds the blocks' sums */
    uint64_t sidecar_bytes;                /* of all of it */
};

struct xh_metaimage_piece { /* an extent of the original */
    uint64_t off, at;       /* where it begins there, and in the image */
};
_Static_assert(sizeof(struct xh_metaimage_piece) == XH_METAIMAGE_EXTENT_LEAST, "the table is no larger than the file");

struct xh_metaimage_block {
    uint64_t off; /* in the sidecar */
    uint32_t len, raw_len;
    uint8_t back; /* packed are the differences to so many words before; 0: the bytes themselves */
    uint8_t sum[XH_METAIMAGE_SUM];
};

/* Constant once read. */
struct xh_metaimage {
    struct xh_metaimage_head head;
    struct xh_metaimage_piece *piece; /* head.extents, ascending, and one behind the last whose |at| is image_bytes */
    struct xh_metaimage_block *block; /* head.blocks */
};

/* The header in the |len| bytes at |p|. Returns NULL and sets |*out|, or says what is wrong with it. */
const char *xh_metaimage_head(const uint8_t *p, size_t len, struct xh_metaimage_head *out);

/* Writes a header. */
void xh_metaimage_put_head(const struct xh_metaimage_head *h, uint8_t out[XH_METAIMAGE_HEADER]);

/* Reads the index of |h|, whose h->index_bytes are at |p|. Returns NULL and sets |*out|, or says what is wrong.
 * Owns: xh_metaimage_free; nothing when it failed. */
const char *xh_metaimage_read(const struct xh_metaimage_head *h, const uint8_t *p, struct xh_metaimage *out);
void xh_metaimage_free(struct xh_metaimage *m);

/* Where [off, off + len) of the original lies in the image. Returns 1 and sets |*at|, or 0: not all of it is in one
 * extent. */
int xh_metaimage_find(const struct xh_metaimage *m, uint64_t off, uint64_t len, uint64_t *at);

/* Unpacks block |i|, whose bytes are at |p|, into |out|, which has room for its raw_len. Returns 0, or -1: its bytes
 * are not those that were published. */
int xh_metaimage_unpack(const struct xh_metaimage *m, size_t i, const uint8_t *p, uint8_t *out);

/* Checks that the |raw_len| bytes at |raw| are block |i|'s. Returns 1 or 0. */
int xh_metaimage_is_block(const struct xh_metaimage *m, size_t i, const uint8_t *raw);

/* What is packed of a block in place of the |len| bytes at |in|: of each word (8 bytes, little-endian, counted from the
 * block's beginning) its difference, modulo 2^64, to the one |back| words before, which is 0 before the beginning; what
 * is left at the end as it is. Records of a chunk index that lie one behind the other pack several times smaller so.
 * |out| has room for |len| bytes and is not |in|. */
void xh_metaimage_differ(const uint8_t *in, size_t len, unsigned back, uint8_t *out);

/* Writes a block's row into an index. |len| is its packed size; |sum| has XH_METAIMAGE_SUM bytes at least. */
void xh_metaimage_put_block(uint8_t out[4 + XH_METAIMAGE_SUM], uint32_t len, uint8_t back, const uint8_t *sum);

/* Appends a number to an index. Returns how many bytes it took, at most 10. */
size_t xh_metaimage_put_number(uint8_t *out, uint64_t v);

#endif
