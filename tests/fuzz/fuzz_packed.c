/* A compressed body: header, table and frames of hostile bytes. Once as they are, once with all sums put right, so
 * that what lies behind the sums is reached. */
#include <string.h>

#include <openssl/evp.h>

#include "fuzz.h"
#include "source/packed.h"

enum { FRAMES = 4 };

/* What was accepted keeps the bounds that its header promises. */
static void use(const struct xh_packed *k, const uint8_t *p, size_t size)
{
    const struct xh_packed_head *h = &k->head;
    uint64_t sum = 0;
    hold(k->at[0] == xh_packed_before(h->frames), "the first frame lies in the table, or behind a gap");
    for (uint32_t i = 0; i < h->frames; i++) {
        hold(k->at[i + 1] > k->at[i] && k->at[i + 1] <= h->sidecar_bytes, "a frame outside the sidecar");
        hold(xh_packed_raw_len(h, i) > 0 && xh_packed_raw_len(h, i) <= h->frame_bytes, "a frame of a strange size");
        sum += xh_packed_raw_len(h, i);
    }
    hold(sum == h->file_bytes, "the frames are not the file");
    struct xh_packed_tool *z = xh_packed_tool(k);
    for (uint32_t i = 0; i < h->frames && i < FRAMES; i++) {
        if (k->at[i + 1] > size)
            continue;
        uint8_t *out = malloc(xh_packed_raw_len(h, i));
        hold(out != NULL && z != NULL, "out of memory");
        xh_packed_unpack(k, i, p + k->at[i], z, out);
        free(out);
    }
    xh_packed_tool_free(z);
}

static void try(const uint8_t *p, size_t size)
{
    struct xh_packed_head h;
    struct xh_packed k;
    if (xh_packed_head(p, size, &h) || xh_packed_before(h.frames) > size)
        return;
    xh_packed_is_start(&h, p, size);
    if (xh_packed_read(&h, p + XH_PACKED_SKIPPABLE + XH_PACKED_HEADER, &k))
        return;
    use(&k, p, size);
    xh_packed_free(&k);
}

/* The same with right sums, with a codec that is known, and with a table that is as long as the header says. */
static void try_signed(const uint8_t *p, size_t size)
{
    uint8_t *copy = malloc(size), sum[32], *head;
    hold(copy != NULL, "out of memory");
    memcpy(copy, p, size);
    head = copy + XH_PACKED_SKIPPABLE;
    memcpy(copy, "\x50\x2a\x4d\x18", 4);
    memcpy(head, "\x89XHB\r\n\x1a\n\1\0\0\0\x80\0\0\0", 16);
    uint32_t codec = head[44] & 1u, version = codec + 1;
    memcpy(head + 8, &version, 4);
    memcpy(head + 44, &codec, 4);
    uint32_t frames;
    memcpy(&frames, head + 40, 4); /* little-endian machines alone are fuzzed */
    uint64_t content = xh_packed_before(frames) - XH_PACKED_SKIPPABLE;
    memcpy(copy + 4, &content, 4);
    if (frames <= (size - XH_PACKED_SKIPPABLE - XH_PACKED_HEADER) / XH_PACKED_ROW)
        EVP_Digest(head + XH_PACKED_HEADER, (size_t)frames * XH_PACKED_ROW, head + 64, NULL, EVP_sha256(), NULL);
    EVP_Digest(head, 120, sum, NULL, EVP_sha256(), NULL);
    memcpy(head + 120, sum, 8);
    try(copy, size);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    try(p, size);
    if (size >= XH_PACKED_SKIPPABLE + XH_PACKED_HEADER)
        try_signed(p, size);
    return 0;
}
