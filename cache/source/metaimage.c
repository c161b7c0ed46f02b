/* Metadata images: see metaimage.h. Needs of zstd but what unpacks. */
#include "metaimage.h"

#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/bytes.h"
#include "base/sha256.h"
#include "base/table.h"

static const uint8_t magic[8] = {0x89, 'X', 'H', 'M', '\r', '\n', 0x1a, '\n'};

/* ---- numbers ------------------------------------------------------------------------------------ */

/* Seven bits a byte, the lowest first; the last byte has no high bit. */
size_t xh_metaimage_put_number(uint8_t *out, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

/* Reads one at |*p|, before |end|, and moves behind it. Returns 1, or 0: it does not end, or wraps. */
static int get_number(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *p < end && shift < 63; shift += 7) {
        uint8_t byte = *(*p)++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = v;
            return 1;
        }
    }
    return 0;
}

void xh_metaimage_put_block(uint8_t out[4 + XH_METAIMAGE_SUM], uint32_t len, uint8_t back, const uint8_t *sum)
{
    xh_put32(out, len | (uint32_t)back << 24);
    memcpy(out + 4, sum, XH_METAIMAGE_SUM);
}

/* ---- the header --------------------------------------------------------------------------------- */

static void read_head(const uint8_t *p, struct xh_metaimage_head *h)
{
    h->file_bytes = xh_le(p + 16, 8);
    h->mtime_s = (int64_t)xh_le(p + 24, 8);
    h->mtime_ns = (uint32_t)xh_le(p + 32, 4);
    h->block_bytes = (uint32_t)xh_le(p + 36, 4);
    h->image_bytes = xh_le(p + 40, 8);
    h->extents = (uint32_t)xh_le(p + 48, 4);
    h->blocks = (uint32_t)xh_le(p + 52, 4);
    h->index_bytes = (uint32_t)xh_le(p + 56, 4);
    h->index_raw_bytes = (uint32_t)xh_le(p + 60, 4);
    memcpy(h->index_sha256, p + 64, 32);
    h->sidecar_bytes = xh_le(p + 96, 8);
}

/* Each bound holds for all that is reckoned with the numbers later. */
static const char *check_head(const struct xh_metaimage_head *h)
{
    if (h->block_bytes < 4096 || h->block_bytes > XH_METAIMAGE_BLOCK_MOST || (h->block_bytes & (h->block_bytes - 1)))
        return "its block size makes no sense";
    if (h->image_bytes == 0 || h->image_bytes > XH_METAIMAGE_MOST || h->image_bytes > h->file_bytes ||
        h->file_bytes > INT64_MAX)
        return "its sizes make no sense";
    if (h->blocks != (h->image_bytes + h->block_bytes - 1) / h->block_bytes)
        return "it has another number of blocks than its size says";
    if (h->extents == 0 || h->extents > h->image_bytes || h->extents > h->file_bytes / XH_METAIMAGE_EXTENT_LEAST)
        return "its number of extents makes no sense";
    /* An extent takes two bytes of the index at least, a block always as many. */
    uint64_t blocks_bytes = (4 + XH_METAIMAGE_SUM) * (uint64_t)h->blocks;
    if (h->index_raw_bytes > XH_METAIMAGE_INDEX_MOST || 2 * (uint64_t)h->extents + blocks_bytes > h->index_raw_bytes ||
        XH_METAIMAGE_NOTE_MOST * (uint64_t)h->extents + blocks_bytes < h->index_raw_bytes)
        return "the size of its index makes no sense";
    if (h->index_bytes == 0 || h->index_bytes > ZSTD_COMPRESSBOUND(h->index_raw_bytes) ||
        h->sidecar_bytes < XH_METAIMAGE_HEADER || h->index_bytes > h->sidecar_bytes - XH_METAIMAGE_HEADER)
        return "the size of its index makes no sense";
    if (h->sidecar_bytes > h->file_bytes)
        return "its size makes no sense: it is larger than the file";
    return NULL;
}

const char *xh_metaimage_head(const uint8_t *p, size_t len, struct xh_metaimage_head *out)
{
    struct xh_metaimage_head h;
    uint8_t sum[32];
    if (len < XH_METAIMAGE_HEADER)
        return "it is shorter than a header";
    if (memcmp(p, magic, sizeof magic) != 0)
        return "it is no metadata image";
    if (!xh_sha256(p, 120, sum) || memcmp(sum, p + 120, 8) != 0)
        return "its header is damaged";
    if (xh_le(p + 8, 4) != XH_METAIMAGE_VERSION || xh_le(p + 12, 4) != XH_METAIMAGE_HEADER)
        return "its format is of another version";
    read_head(p, &h);
    const char *why = check_head(&h);
    if (!why)
        *out = h;
    return why;
}

void xh_metaimage_put_head(const struct xh_metaimage_head *h, uint8_t p[XH_METAIMAGE_HEADER])
{
    uint8_t sum[32] = {0};
    memset(p, 0, XH_METAIMAGE_HEADER);
    memcpy(p, magic, sizeof magic);
    xh_put32(p + 8, XH_METAIMAGE_VERSION);
    xh_put32(p + 12, XH_METAIMAGE_HEADER);
    xh_put64(p + 16, h->file_bytes);
    xh_put64(p + 24, (uint64_t)h->mtime_s);
    xh_put32(p + 32, h->mtime_ns);
    xh_put32(p + 36, h->block_bytes);
    xh_put64(p + 40, h->image_bytes);
    xh_put32(p + 48, h->extents);
    xh_put32(p + 52, h->blocks);
    xh_put32(p + 56, h->index_bytes);
    xh_put32(p + 60, h->index_raw_bytes);
    memcpy(p + 64, h->index_sha256, 32);
    xh_put64(p + 96, h->sidecar_bytes);
    xh_sha256(p, 120, sum);
    memcpy(p + 120, sum, 8);
}

/* ---- the index ---------------------------------------------------------------------------------- */

/* Extents ascend and do not touch: so none overlaps another, and none can be named twice. */
static const char *read_extents(struct xh_metaimage *m, const uint8_t **p, const uint8_t *end)
{
    static const char bad[] = "its extents make no sense";
    const struct xh_metaimage_head *h = &m->head;
    uint64_t off = 0, at = 0, gap, len;
    for (uint32_t i = 0; i < h->extents; i++) {
        if (!get_number(p, end, &gap) || !get_number(p, end, &len) || (gap == 0 && i) || len == 0 ||
            gap > h->file_bytes - off || len > h->file_bytes - off - gap || len > h->image_bytes - at)
            return bad;
        off += gap;
        m->piece[i] = (struct xh_metaimage_piece){off, at};
        off += len;
        at += len;
    }
    m->piece[h->extents] = (struct xh_metaimage_piece){UINT64_MAX, at};
    return at == h->image_bytes ? NULL : bad;
}

static const char *read_blocks(struct xh_metaimage *m, const uint8_t *p, const uint8_t *end)
{
    static const char bad[] = "its blocks make no sense";
    const struct xh_metaimage_head *h = &m->head;
    uint64_t off = XH_METAIMAGE_HEADER + (uint64_t)h->index_bytes, left = h->image_bytes;
    if ((uint64_t)(end - p) != (4 + XH_METAIMAGE_SUM) * (uint64_t)h->blocks)
        return bad;
    for (uint32_t i = 0; i < h->blocks; i++, p += 4 + XH_METAIMAGE_SUM) {
        struct xh_metaimage_block *b = &m->block[i];
        b->off = off;
        b->len = xh_le(p, 4) & 0xffffff;
        b->back = p[3];
        b->raw_len = left < h->block_bytes ? (uint32_t)left : h->block_bytes;
        memcpy(b->sum, p + 4, XH_METAIMAGE_SUM);
        if (b->len == 0 || b->len > ZSTD_COMPRESSBOUND(b->raw_len) || b->len > h->sidecar_bytes - off)
            return bad;
        off += b->len;
        left -= b->raw_len;
    }
    return off == h->sidecar_bytes ? NULL : bad;
}

const char *xh_metaimage_read(const struct xh_metaimage_head *h, const uint8_t *p, struct xh_metaimage *out)
{
    struct xh_metaimage m = {.head = *h};
    uint8_t sum[32], *raw = malloc(h->index_raw_bytes);
    const char *why = "there is no memory for it";
    if (!raw)
        return why;
    if (ZSTD_decompress(raw, h->index_raw_bytes, p, h->index_bytes) != h->index_raw_bytes ||
        !xh_sha256(raw, h->index_raw_bytes, sum) || memcmp(sum, h->index_sha256, 32) != 0) {
        free(raw);
        return "its index is damaged";
    }
    m.piece = malloc(((size_t)h->extents + 1) * sizeof *m.piece);
    m.block = malloc((size_t)h->blocks * sizeof *m.block);
    if (m.piece && m.block) {
        const uint8_t *at = raw, *end = raw + h->index_raw_bytes;
        why = read_extents(&m, &at, end);
        why = why ? why : read_blocks(&m, at, end);
    }
    free(raw);
    if (why)
        xh_metaimage_free(&m);
    else
        *out = m;
    return why;
}

void xh_metaimage_free(struct xh_metaimage *m)
{
    free(m->piece);
    free(m->block);
    m->piece = NULL;
    m->block = NULL;
}

/* ---- what is in it ------------------------------------------------------------------------------ */

int xh_metaimage_find(const struct xh_metaimage *m, uint64_t off, uint64_t len, uint64_t *at)
{
    size_t n = xh_count_before(i, m->head.extents, m->piece[i].off <= off);
    if (n == 0)
        return 0;
    const struct xh_metaimage_piece *p = &m->piece[n - 1];
    uint64_t skip = off - p->off, piece_len = p[1].at - p->at;
    if (skip > piece_len || len > piece_len - skip)
        return 0;
    *at = p->at + skip;
    return 1;
}

int xh_metaimage_is_block(const struct xh_metaimage *m, size_t i, const uint8_t *raw)
{
    uint8_t sum[32];
    return xh_sha256(raw, m->block[i].raw_len, sum) && memcmp(sum, m->block[i].sum, XH_METAIMAGE_SUM) == 0;
}

void xh_metaimage_differ(const uint8_t *in, size_t len, unsigned back, uint8_t *out)
{
    memcpy(out, in, len);
    for (size_t i = 8 * (size_t)back; back && i + 8 <= len; i += 8)
        xh_put64(out + i, xh_le(in + i, 8) - xh_le(in + i - 8 * (size_t)back, 8));
}

/* The way back of xh_metaimage_differ. */
static void sum_up(uint8_t *p, size_t len, unsigned back)
{
    for (size_t i = 8 * (size_t)back; back && i + 8 <= len; i += 8)
        xh_put64(p + i, xh_le(p + i, 8) + xh_le(p + i - 8 * (size_t)back, 8));
}

int xh_metaimage_unpack(const struct xh_metaimage *m, size_t i, const uint8_t *p, uint8_t *out)
{
    const struct xh_metaimage_block *b = &m->block[i];
    if (ZSTD_decompress(out, b->raw_len, p, b->len) != b->raw_len)
        return -1;
    sum_up(out, b->raw_len, b->back);
    return xh_metaimage_is_block(m, i, out) ? 0 : -1;
}
