/* Compressed copies: see packed.h. Uses only what unpacks of zstd and lz4. */
#include "packed.h"

#include <stdlib.h>
#include <string.h>

#include <lz4frame.h>
#include <zstd.h>

#include "base/bytes.h"
#include "base/sha256.h"

#define SKIPPABLE_MAGIC 0x184D2A50u /* of zstd's and of lz4's format */

/* A reader that knows version 1 takes every frame for one of zstd, and ignores other versions. */
static uint32_t version_of(uint32_t codec)
{
    return codec == XH_PACKED_ZSTD ? 1 : 2;
}

static const uint8_t magic[8] = {0x89, 'X', 'H', 'B', '\r', '\n', 0x1a, '\n'};

uint64_t xh_packed_before(uint32_t frames)
{
    return XH_PACKED_SKIPPABLE + XH_PACKED_HEADER + (uint64_t)XH_PACKED_ROW * frames;
}

/* ---- the header --------------------------------------------------------------------------------- */

/* Each bound holds for all that is reckoned with the numbers later. */
static const char *check_head(const struct xh_packed_head *h)
{
    if (h->frame_bytes < XH_PACKED_FRAME_LEAST || h->frame_bytes > XH_PACKED_FRAME_MOST ||
        (h->frame_bytes & (h->frame_bytes - 1)))
        return "the size of its frames makes no sense";
    if (h->file_bytes == 0 || h->file_bytes > INT64_MAX || h->sidecar_bytes > INT64_MAX)
        return "its sizes make no sense";
    if (h->frames > XH_PACKED_FRAMES_MOST || h->frames != (h->file_bytes - 1) / h->frame_bytes + 1)
        return "it has another number of frames than its size says";
    if (h->sidecar_bytes < xh_packed_before(h->frames))
        return "it is shorter than its table";
    return NULL;
}

const char *xh_packed_head(const uint8_t *p, size_t len, struct xh_packed_head *out)
{
    struct xh_packed_head h;
    uint8_t sum[32];
    if (len < XH_PACKED_SKIPPABLE + XH_PACKED_HEADER)
        return "it is shorter than a header";
    uint32_t frame = (uint32_t)xh_le(p, 4), content = (uint32_t)xh_le(p + 4, 4);
    p += XH_PACKED_SKIPPABLE;
    if (frame != SKIPPABLE_MAGIC || memcmp(p, magic, sizeof magic) != 0)
        return "it is no compressed copy";
    if (!xh_sha256(p, 120, sum) || memcmp(sum, p + 120, 8) != 0)
        return "its header is damaged";
    if (xh_le(p + 44, 4) > XH_PACKED_LZ4 || xh_le(p + 8, 4) != version_of((uint32_t)xh_le(p + 44, 4)) ||
        xh_le(p + 12, 4) != XH_PACKED_HEADER)
        return "its format is of another version";
    h = (struct xh_packed_head){.file_bytes = xh_le(p + 16, 8), .mtime_s = (int64_t)xh_le(p + 24, 8),
                                .mtime_ns = (uint32_t)xh_le(p + 32, 4), .frame_bytes = (uint32_t)xh_le(p + 36, 4),
                                .frames = (uint32_t)xh_le(p + 40, 4), .codec = (uint32_t)xh_le(p + 44, 4),
                                .sidecar_bytes = xh_le(p + 48, 8)};
    memcpy(h.table_sha256, p + 64, sizeof h.table_sha256);
    memcpy(h.start_sha256, p + 96, sizeof h.start_sha256);
    const char *why = check_head(&h);
    if (!why && content != xh_packed_before(h.frames) - XH_PACKED_SKIPPABLE)
        why = "its header is damaged";
    if (!why)
        *out = h;
    return why;
}

void xh_packed_put_head(const struct xh_packed_head *h, uint8_t *p)
{
    uint8_t sum[32] = {0};
    memset(p, 0, XH_PACKED_SKIPPABLE + XH_PACKED_HEADER);
    xh_put32(p, SKIPPABLE_MAGIC);
    xh_put32(p + 4, (uint32_t)(xh_packed_before(h->frames) - XH_PACKED_SKIPPABLE));
    p += XH_PACKED_SKIPPABLE;
    memcpy(p, magic, sizeof magic);
    xh_put32(p + 8, version_of(h->codec));
    xh_put32(p + 12, XH_PACKED_HEADER);
    xh_put64(p + 16, h->file_bytes);
    xh_put64(p + 24, (uint64_t)h->mtime_s);
    xh_put32(p + 32, h->mtime_ns);
    xh_put32(p + 36, h->frame_bytes);
    xh_put32(p + 40, h->frames);
    xh_put32(p + 44, h->codec);
    xh_put64(p + 48, h->sidecar_bytes);
    memcpy(p + 64, h->table_sha256, sizeof h->table_sha256);
    memcpy(p + 96, h->start_sha256, sizeof h->start_sha256);
    xh_sha256(p, 120, sum);
    memcpy(p + 120, sum, 8);
}

/* ---- the table ---------------------------------------------------------------------------------- */

uint32_t xh_packed_raw_len(const struct xh_packed_head *h, uint32_t i)
{
    uint64_t left = h->file_bytes - (uint64_t)i * h->frame_bytes;
    return left < h->frame_bytes ? (uint32_t)left : h->frame_bytes;
}

void xh_packed_put_row(uint8_t out[XH_PACKED_ROW], uint32_t bytes, uint32_t sum)
{
    xh_put32(out, bytes);
    xh_put32(out + 4, sum);
}

/* Frames lie one behind the other, so none overlaps another. Behind the last one other frames may lie, which hold
 * nothing. zstd's bound of a frame holds for lz4's too: that adds at most 31 bytes, and 4 for each 64 KiB. */
static const char *read_rows(struct xh_packed *k, const uint8_t *p)
{
    const struct xh_packed_head *h = &k->head;
    uint64_t at = xh_packed_before(h->frames);
    for (uint32_t i = 0; i < h->frames; i++, p += XH_PACKED_ROW) {
        uint32_t len = (uint32_t)xh_le(p, 4);
        if (len <= 4 || len > ZSTD_COMPRESSBOUND((uint64_t)xh_packed_raw_len(h, i)) + 4 || len > h->sidecar_bytes - at)
            return "its frames make no sense";
        k->at[i] = at;
        k->sum[i] = (uint32_t)xh_le(p + 4, 4);
        at += len;
    }
    k->at[h->frames] = at;
    return NULL;
}

const char *xh_packed_read(const struct xh_packed_head *h, const uint8_t *p, struct xh_packed *out)
{
    struct xh_packed k = {.head = *h};
    uint8_t sum[32];
    if (!xh_sha256(p, (size_t)XH_PACKED_ROW * h->frames, sum) || memcmp(sum, h->table_sha256, 32) != 0)
        return "its table is damaged";
    k.at = malloc(((size_t)h->frames + 1) * sizeof *k.at);
    k.sum = malloc((size_t)h->frames * sizeof *k.sum);
    const char *why = k.at && k.sum ? read_rows(&k, p) : "there is no memory for it";
    if (why)
        xh_packed_free(&k);
    else
        *out = k;
    return why;
}

void xh_packed_free(struct xh_packed *k)
{
    free(k->at);
    free(k->sum);
    k->at = NULL;
    k->sum = NULL;
}

int xh_packed_is_start(const struct xh_packed_head *h, const uint8_t *start, size_t n)
{
    uint8_t sum[32];
    size_t want = h->file_bytes < XH_PACKED_START_BYTES ? (size_t)h->file_bytes : XH_PACKED_START_BYTES;
    return n < want || (xh_sha256(start, want, sum) && memcmp(sum, h->start_sha256, sizeof h->start_sha256) == 0);
}

/* ---- frames ------------------------------------------------------------------------------------- */

struct xh_packed_tool {
    ZSTD_DCtx *zstd; /* one of them, by the codec */
    LZ4F_dctx *lz4;
};

struct xh_packed_tool *xh_packed_tool(const struct xh_packed *k)
{
    struct xh_packed_tool *z = calloc(1, sizeof *z);
    if (z && k->head.codec == XH_PACKED_ZSTD)
        z->zstd = ZSTD_createDCtx();
    else if (z && LZ4F_isError(LZ4F_createDecompressionContext(&z->lz4, LZ4F_VERSION)))
        z->lz4 = NULL;
    if (z && !z->zstd && !z->lz4) {
        free(z);
        z = NULL;
    }
    return z;
}

void xh_packed_tool_free(struct xh_packed_tool *z)
{
    if (!z)
        return;
    ZSTD_freeDCtx(z->zstd);
    LZ4F_freeDecompressionContext(z->lz4);
    free(z);
}

/* One frame with a checksum, no less and no more, that unpacks to |raw| bytes. */
static int unpack_zstd(ZSTD_DCtx *z, const uint8_t *p, size_t len, uint8_t *out, size_t raw)
{
    /* Bit 2 of the byte behind the magic number: it has a checksum. */
    if (xh_le(p, 4) != ZSTD_MAGICNUMBER || !(p[4] & 4) || ZSTD_findFrameCompressedSize(p, len) != len)
        return -1;
    return ZSTD_decompressDCtx(z, out, raw, p, len) == raw ? 0 : -1;
}

/* The byte behind the magic number: version 1 of the format, the content's size and checksum are there, no dictionary.
 * stable_out: what was unpacked stays where it is, so lz4 keeps no copy for the next block. */
#define LZ4_FLAGS 0x4Cu
#define LZ4_FLAGS_MASK 0xCFu
static int unpack_lz4(LZ4F_dctx *z, const uint8_t *p, size_t len, uint8_t *out, size_t raw)
{
    static const LZ4F_decompressOptions_t stable_out = {.stableDst = 1};
    size_t took = len, made = raw;
    if (xh_le(p, 4) != LZ4F_MAGICNUMBER || (p[4] & LZ4_FLAGS_MASK) != LZ4_FLAGS)
        return -1;
    LZ4F_resetDecompressionContext(z); /* the frame before may have ended in an error */
    return LZ4F_decompress(z, out, &made, p, &took, &stable_out) == 0 && took == len && made == raw ? 0 : -1;
}

/* A frame's last four bytes are a checksum of what it unpacks to, which the library compares. The table has it too, so
 * a good frame of something else is not taken for it. */
int xh_packed_unpack(const struct xh_packed *k, uint32_t i, const uint8_t *p, struct xh_packed_tool *z, uint8_t *out)
{
    size_t len = (size_t)(k->at[i + 1] - k->at[i]), raw = xh_packed_raw_len(&k->head, i);
    if (len < 9 || xh_le(p + len - 4, 4) != k->sum[i])
        return -1;
    return z->zstd ? unpack_zstd(z->zstd, p, len, out, raw) : unpack_lz4(z->lz4, p, len, out, raw);
}
