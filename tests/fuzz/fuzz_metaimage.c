/* A metadata image: header, index and blocks of hostile bytes. Once as they are, once with all sums put right, so
 * that what lies behind the sums is reached. */
#include <string.h>

#include <openssl/evp.h>
#include <zstd.h>

#include "fuzz.h"
#include "source/metaimage.h"
#include "source/version.h"

enum { BLOCKS = 4, LOOKS = 64 };

/* What was accepted keeps the bounds that its header promises. */
static void use(const struct xh_metaimage *m, const uint8_t *p, size_t size)
{
    const struct xh_metaimage_head *h = &m->head;
    uint64_t at, end = 0;
    for (uint32_t i = 0; i < h->extents; i++) {
        uint64_t off = m->piece[i].off, len = m->piece[i + 1].at - m->piece[i].at;
        hold(len && (i == 0 || off > end) && off <= h->file_bytes && len <= h->file_bytes - off,
             "an extent outside the file, or twice");
        end = off + len;
        if (i >= LOOKS)
            continue;
        hold(xh_metaimage_find(m, off, len, &at) && at == m->piece[i].at, "an extent is not found");
        hold(xh_metaimage_find(m, end - 1, 1, &at) && at < h->image_bytes, "its last byte is not found");
        hold(!xh_metaimage_find(m, off, len + 1, &at) && !xh_metaimage_find(m, end, 1, &at),
             "more is found than there is");
    }
    hold(!xh_metaimage_find(m, UINT64_MAX, 1, &at) && !xh_metaimage_find(m, 0, UINT64_MAX, &at), "all is found");
    for (uint32_t i = 0; i < h->blocks && i < BLOCKS; i++) {
        const struct xh_metaimage_block *b = &m->block[i];
        hold(b->raw_len && b->raw_len <= h->block_bytes && b->off <= h->sidecar_bytes &&
                 b->len <= h->sidecar_bytes - b->off,
             "a block outside the sidecar");
        if (b->off > size || b->len > size - b->off)
            continue;
        uint8_t *out = malloc(b->raw_len);
        hold(out != NULL, "out of memory");
        xh_metaimage_unpack(m, i, p + b->off, out);
        free(out);
    }
}

static void try(const uint8_t *p, size_t size)
{
    struct xh_metaimage_head h;
    struct xh_metaimage m;
    if (xh_metaimage_head(p, size, &h) || h.index_bytes > size - XH_METAIMAGE_HEADER ||
        xh_metaimage_read(&h, p + XH_METAIMAGE_HEADER, &m))
        return;
    use(&m, p, size);
    xh_metaimage_free(&m);
}

/* The same with right sums: the header's, and the index's where it unpacks. */
static void try_signed(const uint8_t *p, size_t size)
{
    static uint8_t index[1 << 16];
    uint8_t *copy = malloc(size), sum[32];
    struct xh_metaimage_head h;
    hold(copy != NULL, "out of memory");
    memcpy(copy, p, size);
    memcpy(copy, "\x89XHM\r\n\x1a\n\1\0\0\0\x80\0\0\0", 16);
    for (int round = 0; round < 2; round++) {
        EVP_Digest(copy, 120, sum, NULL, EVP_sha256(), NULL);
        memcpy(copy + 120, sum, 8);
        if (xh_metaimage_head(copy, size, &h) || h.index_bytes > size - XH_METAIMAGE_HEADER)
            break;
        size_t n = ZSTD_decompress(index, sizeof index, copy + XH_METAIMAGE_HEADER, h.index_bytes);
        if (round || ZSTD_isError(n))
            break;
        EVP_Digest(index, n, copy + 64, NULL, EVP_sha256(), NULL);
    }
    try(copy, size);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    char text[128];
    int64_t when;
    size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
    if (size)
        memcpy(text, p, n);
    text[n] = '\0';
    xh_version_mtime(text, size, &when);
    try(p, size);
    if (size >= XH_METAIMAGE_HEADER)
        try_signed(p, size);
    return 0;
}
