/* A compressed body: what a publisher puts beside a file, so that a reader fetches fewer bytes of it.
 * docs/sidecar.md is the format: independent frames of zstd or lz4 behind a header in a skippable frame.
 *
 * Pure: no I/O, no locks. Bytes in, places out. All input is hostile: nothing outside the bytes given is read, and what
 * was accepted names no place outside sidecar and file. */
#ifndef XH_PACKED_H
#define XH_PACKED_H

#include <stddef.h>
#include <stdint.h>

#define XH_PACKED_SUFFIX ".xhbody" /* behind the original's name */
#define XH_PACKED_HEADER 128u                /* bytes, behind those of the skippable frame */
#define XH_PACKED_SKIPPABLE 8u               /* bytes of a skippable frame before its content */
#define XH_PACKED_ROW 8u                     /* bytes of the table a frame */
#define XH_PACKED_FRAMES_MOST (1u << 24)     /* so many in one copy */
#define XH_PACKED_FRAME_LEAST (16u << 10)    /* bytes of a frame, unpacked */
#define XH_PACKED_FRAME_MOST (4u << 20)
#define XH_PACKED_START_BYTES 4096u          /* of the original, whose digest is kept */

/* What its frames are packed with. The numbers stand in the header. */
enum xh_packed_codec { XH_PACKED_ZSTD, XH_PACKED_LZ4 };

struct xh_packed_head {
    uint64_t file_bytes; /* the original's size and time */
    int64_t mtime_s;
    uint32_t mtime_ns;
    uint32_t frame_bytes;   /* unpacked, of each frame but the last */
    uint32_t frames;
    uint32_t codec;         /* enum xh_packed_codec */
    uint64_t sidecar_bytes; /* of all of it */
    uint8_t table_sha256[32];
    uint8_t start_sha256[16]; /* of the original's first bytes, XH_PACKED_START_BYTES or all; the first half of the
                               * sum */
};

/* Constant once read. */
struct xh_packed {
    struct xh_packed_head head;
    uint64_t *at;  /* head.frames + 1: where each frame begins in the sidecar, and the end of the last */
    uint32_t *sum; /* head.frames: the last four bytes of each frame, its checksum */
};

/* How much lies before the first frame: the skippable frame's head, the header and the table. */
uint64_t xh_packed_before(uint32_t frames);

/* The header in the |len| bytes at |p|, the sidecar's first. Returns NULL and sets |*out|, or says what is wrong with
 * it. */
const char *xh_packed_head(const uint8_t *p, size_t len, struct xh_packed_head *out);

/* Writes a skippable frame's head and the header: XH_PACKED_SKIPPABLE + XH_PACKED_HEADER bytes. */
void xh_packed_put_head(const struct xh_packed_head *h, uint8_t *out);

/* Reads the table of |h| at |p|, head.frames rows. Returns NULL and sets |*out|, or says what is wrong.
 * Owns: xh_packed_free; nothing when it failed. */
const char *xh_packed_read(const struct xh_packed_head *h, const uint8_t *p, struct xh_packed *out);
void xh_packed_free(struct xh_packed *k);

/* A row of the table. */
void xh_packed_put_row(uint8_t out[XH_PACKED_ROW], uint32_t bytes, uint32_t sum);

/* How many bytes frame |i| unpacks to. */
uint32_t xh_packed_raw_len(const struct xh_packed_head *h, uint32_t i);

/* What unpacks frames of |k|. NULL: no memory. Threads: any, each with its own. Owns: xh_packed_tool_free. */
struct xh_packed_tool;
struct xh_packed_tool *xh_packed_tool(const struct xh_packed *k);
void xh_packed_tool_free(struct xh_packed_tool *z); /* NULL allowed */

/* Unpacks frame |i|, whose bytes are at |p|, into |out|, which has room for its raw_len. |z|: made for |k|.
 * Returns 0, or -1: its bytes are not those that were published, or there was no memory. */
int xh_packed_unpack(const struct xh_packed *k, uint32_t i, const uint8_t *p, struct xh_packed_tool *z, uint8_t *out);

/* 1 when the |n| bytes at |start|, the first of a file of head.file_bytes, are those of the original, or too few to
 * tell. */
int xh_packed_is_start(const struct xh_packed_head *h, const uint8_t *start, size_t n);

#endif
