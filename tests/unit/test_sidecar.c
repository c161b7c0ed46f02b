/* What is pure of sidecars: times out of validators, extents in an image, frames of a compressed copy. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lz4frame.h>
#include <openssl/evp.h>
#include <zstd.h>

#include "source/known.h"
#include "source/metaimage.h"
#include "source/packed.h"
#include "source/version.h"

static int64_t time_of(const char *validator, uint64_t size)
{
    int64_t t = -1;
    return xh_version_mtime(validator, size, &t) ? t : -1;
}

/* https://h.org.xhmeta is another server, which is sent the query and, if the program named the URL, the token. */
Test(known, beside_a_url_without_a_path_nothing_is_looked_for)
{
    static const char *const none[] = {"https://h.org", "https://h.org?f=/a.h5", "http://[::1]#x", "https://u:p@h:1?f"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        char *url = xh_known_url(none[i], ".xhmeta");
        cr_expect_null(url, "%s", url);
        free(url);
    }
    char *url = xh_known_url("https://h.org/?f=/a.h5", ".xhmeta");
    cr_expect_str_eq(url, "https://h.org/.xhmeta?f=/a.h5");
    free(url);
}

Test(version, a_date_is_read_whatever_the_year)
{
    cr_assert_eq(time_of("mtime:Sun, 06 Nov 1994 08:49:37 GMT;size:5", 5), 784111777);
    cr_assert_eq(time_of("mtime:Thu, 01 Jan 1970 00:00:00 GMT;size:5", 5), 0);
    cr_assert_eq(time_of("mtime:Thu, 29 Feb 2024 23:59:59 GMT;size:5", 5), 1709251199);
    cr_assert_eq(time_of("mtime:Mon, 01 Mar 2100 00:00:00 GMT;size:5", 5), 4107542400);
}

Test(version, etags_of_nginx_and_apache_tell_the_time_and_others_do_not)
{
    cr_assert_eq(time_of("etag:\"67c1a2b3-1f4\";size:500", 500), 0x67c1a2b3);
    cr_assert_eq(time_of("etag:W/\"67c1a2b3-1f4\";size:500", 500), 0x67c1a2b3);
    cr_assert_eq(time_of("etag:\"1f4-62f3e6b5a9c40\";size:500", 500), 0x62f3e6b5a9c40 / 1000000);
    cr_assert_eq(time_of("etag:\"67c1a2b3-1f5\";size:500", 500), -1, "of another size, so something else");
    cr_assert_eq(time_of("etag:\"d41d8cd98f00b204e9800998ecf8427e\";size:500", 500), -1);
    cr_assert_eq(time_of("size:500", 500), -1);
    cr_assert_eq(time_of("mtime:Sun, 06 Xyz 1994 08:49:37 GMT;size:5", 5), -1);
    cr_assert_eq(time_of("mtime:Sun, 06 Nov 1994 08:49;size:5", 5), -1);
}

enum { FILE_BYTES = 100000, EXTENTS = 200 };

/* An image of random extents of |file|, as a publisher makes it. */
static struct xh_metaimage image_of(const uint8_t *file, uint8_t *covered, uint8_t *image)
{
    static uint8_t raw[1 << 16], packed[1 << 17], sum[32];
    struct xh_metaimage_head h = {.file_bytes = FILE_BYTES, .mtime_s = 1, .block_bytes = 4096,
                                  .sidecar_bytes = XH_METAIMAGE_HEADER};
    struct xh_metaimage m;
    uint64_t at = 0;
    size_t n = 0;
    for (; h.extents < EXTENTS; h.extents++) {
        uint64_t gap = (h.extents > 0) + (uint64_t)rand() % 300, len = 1 + (uint64_t)rand() % 190;
        n += xh_metaimage_put_number(raw + n, gap);
        n += xh_metaimage_put_number(raw + n, len);
        memcpy(image + h.image_bytes, file + at + gap, len);
        memset(covered + at + gap, 1, len);
        at += gap + len;
        h.image_bytes += len;
    }
    h.blocks = (uint32_t)((h.image_bytes + 4095) / 4096);
    for (uint32_t i = 0; i < h.blocks; i++, n += 20) {
        size_t len = i + 1 < h.blocks ? 4096 : h.image_bytes - 4096 * i;
        uint8_t differences[4096], back = (uint8_t)(i % 3 ? rand() : 0);
        xh_metaimage_differ(image + 4096 * i, len, back, differences);
        uint32_t size = (uint32_t)ZSTD_compress(packed, sizeof packed, differences, len, 1);
        EVP_Digest(image + 4096 * i, len, sum, NULL, EVP_sha256(), NULL);
        xh_metaimage_put_block(raw + n, size, back, sum);
        h.sidecar_bytes += size;
    }
    h.index_raw_bytes = (uint32_t)n;
    h.index_bytes = (uint32_t)ZSTD_compress(packed, sizeof packed, raw, n, 1);
    h.sidecar_bytes += h.index_bytes;
    EVP_Digest(raw, n, h.index_sha256, NULL, EVP_sha256(), NULL);
    uint8_t head[XH_METAIMAGE_HEADER];
    struct xh_metaimage_head again;
    xh_metaimage_put_head(&h, head);
    cr_assert_null(xh_metaimage_head(head, sizeof head, &again));
    cr_assert_eq(memcmp(&h, &again, sizeof h), 0, "a header is not read as it was written");
    cr_assert_null(xh_metaimage_read(&again, packed, &m));
    return m;
}

Test(metaimage, what_is_found_is_what_a_map_of_the_bytes_says)
{
    static uint8_t file[FILE_BYTES + 1], covered[FILE_BYTES + 1], image[FILE_BYTES];
    srand(7);
    for (int i = 0; i < FILE_BYTES; i++)
        file[i] = (uint8_t)rand();
    struct xh_metaimage m = image_of(file, covered, image);
    for (int i = 0; i < 200000; i++) {
        uint64_t off = (uint64_t)rand() % FILE_BYTES, len = 1 + (uint64_t)rand() % 200, at = 0;
        len = len < FILE_BYTES - off ? len : FILE_BYTES - off;
        int has = !memchr(covered + off, 0, len);
        cr_assert_eq(xh_metaimage_find(&m, off, len, &at), has, "%" PRIu64 " bytes at %" PRIu64, len, off);
        cr_assert(!has || memcmp(image + at, file + off, len) == 0);
    }
    xh_metaimage_free(&m);
}

/* A header is believed before the file is open. What it makes a reader fetch and allocate has a bound all the same. */
Test(metaimage, a_header_claims_no_more_than_the_file_has)
{
    const struct xh_metaimage_head good = {.file_bytes = 1 << 20, .mtime_s = 1, .block_bytes = 4096,
                                           .image_bytes = 1 << 19, .extents = 1 << 16, .blocks = 128,
                                           .index_bytes = 1000, .index_raw_bytes = 1 << 20, .sidecar_bytes = 1 << 20};
    static const struct {
        uint64_t extents, sidecar_bytes;
        const char *why;
    } cases[] = {
        {1 << 16, 1 << 20, NULL},
        {(1 << 16) + 1, 1 << 20, "number of extents"}, /* 16 bytes each would be more than the file */
        {1 << 16, (1 << 20) + 1, "size"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_metaimage_head h = good, out;
        uint8_t raw[XH_METAIMAGE_HEADER];
        h.extents = (uint32_t)cases[i].extents;
        h.sidecar_bytes = cases[i].sidecar_bytes;
        xh_metaimage_put_head(&h, raw);
        const char *why = xh_metaimage_head(raw, sizeof raw, &out);
        cr_expect(cases[i].why ? why && strstr(why, cases[i].why) : !why, "%zu: %s", i, why ? why : "accepted");
    }
    cr_assert_eq(sizeof(struct xh_metaimage_piece), XH_METAIMAGE_EXTENT_LEAST);
}

Test(metaimage, differences_of_any_reach_unpack_to_the_bytes)
{
    enum { BLOCK = 4099 }; /* no whole words */
    static uint8_t raw[BLOCK], differences[BLOCK], packed[2 * BLOCK], out[BLOCK], sum[32];
    srand(8);
    for (unsigned i = 0; i < BLOCK; i++)
        raw[i] = (uint8_t)(rand() % 3 * (int)(i / 40)); /* records of 5 words */
    EVP_Digest(raw, BLOCK, sum, NULL, EVP_sha256(), NULL);
    for (unsigned back = 0; back <= UINT8_MAX; back++) {
        struct xh_metaimage_block b = {.raw_len = BLOCK, .back = (uint8_t)back};
        struct xh_metaimage m = {.head = {.blocks = 1}, .block = &b};
        memcpy(b.sum, sum, XH_METAIMAGE_SUM);
        xh_metaimage_differ(raw, BLOCK, back, differences);
        b.len = (uint32_t)ZSTD_compress(packed, sizeof packed, differences, BLOCK, 1);
        memset(out, 0, BLOCK);
        cr_assert_eq(xh_metaimage_unpack(&m, 0, packed, out), 0, "back %u", back);
        cr_assert_eq(memcmp(raw, out, BLOCK), 0, "back %u", back);
        b.back++; /* others make other bytes, which the sum tells */
        cr_assert(xh_metaimage_unpack(&m, 0, packed, out) != 0 || 8 * back >= BLOCK, "back %u taken for %u", back,
                  back + 1);
    }
}

enum { FRAME_BYTES = 16384, PACKED_BYTES = 2 * FRAME_BYTES };

/* Packs |raw|, FRAME_BYTES, as one frame to |out|. Returns its bytes. */
static size_t frame_of(uint32_t codec, const uint8_t *raw, uint8_t *out)
{
    if (codec == XH_PACKED_LZ4) {
        LZ4F_preferences_t how = {
            .frameInfo = {.contentChecksumFlag = LZ4F_contentChecksumEnabled, .contentSize = FRAME_BYTES}};
        return LZ4F_compressFrame(out, PACKED_BYTES, raw, FRAME_BYTES, &how);
    }
    ZSTD_CCtx *z = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    size_t n = ZSTD_compress2(z, out, PACKED_BYTES, raw, FRAME_BYTES);
    ZSTD_freeCCtx(z);
    return n;
}

static struct xh_packed body_of(uint32_t codec, const uint8_t *frame, size_t len)
{
    struct xh_packed_head again, h = {.file_bytes = FRAME_BYTES, .frame_bytes = FRAME_BYTES, .frames = 1,
                                      .codec = codec,
                                      .sidecar_bytes = xh_packed_before(1) + len};
    uint8_t row[XH_PACKED_ROW], head[XH_PACKED_SKIPPABLE + XH_PACKED_HEADER];
    uint32_t sum;
    struct xh_packed k;
    memcpy(&sum, frame + len - 4, 4);
    xh_packed_put_row(row, (uint32_t)len, sum);
    EVP_Digest(row, sizeof row, h.table_sha256, NULL, EVP_sha256(), NULL);
    xh_packed_put_head(&h, head);
    cr_assert_null(xh_packed_head(head, sizeof head, &again));
    cr_assert_eq(memcmp(&h, &again, sizeof h), 0, "a header is not read as it was written");
    cr_assert_eq(head[XH_PACKED_SKIPPABLE + 8], codec + 1, "readers of version 1 know zstd alone");
    cr_assert_null(xh_packed_read(&again, row, &k));
    return k;
}

Test(packed, a_flipped_bit_never_gives_other_bytes)
{
    static uint8_t raw[FRAME_BYTES], frame[PACKED_BYTES], out[FRAME_BYTES];
    srand(9);
    for (unsigned i = 0; i < FRAME_BYTES; i++)
        raw[i] = (uint8_t)(i < 4096 ? rand() : rand() % 8 ? 0 : rand() % 3);
    for (uint32_t codec = XH_PACKED_ZSTD; codec <= XH_PACKED_LZ4; codec++) {
        size_t len = frame_of(codec, raw, frame);
        cr_assert(len > 4096 && len < FRAME_BYTES);
        struct xh_packed k = body_of(codec, frame, len);
        struct xh_packed_tool *z = xh_packed_tool(&k);
        for (size_t bit = 0; bit < 8 * len; bit++) {
            frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
            int rc = xh_packed_unpack(&k, 0, frame, z, out);
            cr_assert(rc != 0 || memcmp(raw, out, FRAME_BYTES) == 0, "codec %u, bit %zu", codec, bit);
            frame[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        cr_assert_eq(xh_packed_unpack(&k, 0, frame, z, out), 0, "a good frame behind damaged ones");
        cr_assert_eq(memcmp(raw, out, FRAME_BYTES), 0);
        xh_packed_tool_free(z);
        xh_packed_free(&k);
    }
}
