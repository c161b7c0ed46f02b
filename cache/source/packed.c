/* Compressed bodies: see packed.h. Needs of zstd but what unpacks. */
#include "packed.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <zstd.h>

#include "bytes.h"

#define SKIPPABLE_MAGIC 0x184D2A50u

static const uint8_t magic[8] = {0x89, 'X', 'H', 'B', '\r', '\n', 0x1a, '\n'};

static int sha256(const uint8_t *p, size_t len, uint8_t out[32])
{
    return EVP_Digest(p, len, out, NULL, EVP_sha256(), NULL) == 1;
}

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
    uint32_t frame = xh_get32(p), content = xh_get32(p + 4);
    p += XH_PACKED_SKIPPABLE;
    if (frame != SKIPPABLE_MAGIC || memcmp(p, magic, sizeof magic) != 0)
        return "it is no compressed copy";
    if (!sha256(p, 120, sum) || memcmp(sum, p + 120, 8) != 0)
        return "its header is damaged";
    if (xh_get32(p + 8) != XH_PACKED_VERSION || xh_get32(p + 12) != XH_PACKED_HEADER)
        return "its format is of another version";
    h = (struct xh_packed_head){.file_bytes = xh_get64(p + 16), .mtime_s = (int64_t)xh_get64(p + 24),
                                .mtime_ns = xh_get32(p + 32), .frame_bytes = xh_get32(p + 36),
                                .frames = xh_get32(p + 40), .sidecar_bytes = xh_get64(p + 48)};
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
    xh_put32(p + 8, XH_PACKED_VERSION);
    xh_put32(p + 12, XH_PACKED_HEADER);
    xh_put64(p + 16, h->file_bytes);
    xh_put64(p + 24, (uint64_t)h->mtime_s);
    xh_put32(p + 32, h->mtime_ns);
    xh_put32(p + 36, h->frame_bytes);
    xh_put32(p + 40, h->frames);
    xh_put64(p + 48, h->sidecar_bytes);
    memcpy(p + 64, h->table_sha256, sizeof h->table_sha256);
    memcpy(p + 96, h->start_sha256, sizeof h->start_sha256);
    sha256(p, 120, sum);
    memcpy(p + 120, sum, 8);
}

/* ---- the table ---------------------------------------------------------------------------------- */

static uint32_t raw_len(const struct xh_packed_head *h, uint32_t i)
{
    uint64_t left = h->file_bytes - (uint64_t)i * h->frame_bytes;
    return left < h->frame_bytes ? (uint32_t)left : h->frame_bytes;
}

uint32_t xh_packed_raw_len(const struct xh_packed *k, uint32_t i)
{
    return raw_len(&k->head, i);
}

void xh_packed_put_row(uint8_t out[XH_PACKED_ROW], uint32_t bytes, uint32_t sum)
{
    xh_put32(out, bytes);
    xh_put32(out + 4, sum);
}

/* Frames lie one behind the other, so none overlaps another. Behind the last one other frames may lie, which hold nothing. */
static const char *read_rows(struct xh_packed *k, const uint8_t *p)
{
    const struct xh_packed_head *h = &k->head;
    uint64_t at = xh_packed_before(h->frames);
    for (uint32_t i = 0; i < h->frames; i++, p += XH_PACKED_ROW) {
        uint32_t len = xh_get32(p);
        if (len <= 4 || len > ZSTD_COMPRESSBOUND((uint64_t)raw_len(h, i)) + 4 || len > h->sidecar_bytes - at)
            return "its frames make no sense";
        k->at[i] = at;
        k->sum[i] = xh_get32(p + 4);
        at += len;
    }
    k->at[h->frames] = at;
    return NULL;
}

const char *xh_packed_read(const struct xh_packed_head *h, const uint8_t *p, struct xh_packed *out)
{
    struct xh_packed k = {.head = *h};
    uint8_t sum[32];
    if (!sha256(p, (size_t)XH_PACKED_ROW * h->frames, sum) || memcmp(sum, h->table_sha256, 32) != 0)
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
    return n < want || (sha256(start, want, sum) && memcmp(sum, h->start_sha256, sizeof h->start_sha256) == 0);
}

/* ---- frames ------------------------------------------------------------------------------------- */

/* The frame's own checksum is of what it unpacks to, and zstd compares it; the table has it too, so a good frame of
 * something else is not taken for it. */
int xh_packed_unpack(const struct xh_packed *k, uint32_t i, const uint8_t *p, void *z, uint8_t *out)
{
    size_t len = (size_t)(k->at[i + 1] - k->at[i]), raw = xh_packed_raw_len(k, i);
    /* Bit 2 of the byte behind the magic number: it has a checksum. One frame, no less and no more. */
    if (len < 9 || xh_get32(p) != ZSTD_MAGICNUMBER || !(p[4] & 4) || xh_get32(p + len - 4) != k->sum[i] || ZSTD_findFrameCompressedSize(p, len) != len)
        return -1;
    return ZSTD_decompressDCtx(z, out, raw, p, len) == raw ? 0 : -1;
}

void *xh_packed_tool(void)
{
    return ZSTD_createDCtx();
}

void xh_packed_tool_free(void *z)
{
    ZSTD_freeDCtx(z);
}
