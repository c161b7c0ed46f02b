/* How a file is packed: see pack_way.h. Samples of the file are packed in each way, and unpacked. */
#include "pack_way.h"

#include <stdlib.h>

#include <lz4frame.h>
#include <zstd.h>

#include "../../cache/base/bytes.h"
#include "../../cache/base/files.h"
#include "../../cache/base/now.h"
#include "../../cache/source/packed.h"

/* A higher level or larger frames are chosen when they save this much more. */
#define WORTH_MORE 1.02
/* lz4 instead of zstd, if nothing was asked for. A reader's time for a byte of the file is 1 / (ratio * link) for the
 * transfer and 1 / (threads * unpacking) for the rest, or 1 / link where it reads the original. lz4 is chosen if zstd
 * takes so many times as long over |links| (their geometric mean): the speeds are measured, and a few per cent are
 * chance. */
#define LZ4_WINS 1.1
#define READER_THREADS 2.0
/* Each sample is unpacked this often, and the fastest time counts: the first one also fills the caches. */
#define UNPACKS 3
/* The trial takes one sample for each SAMPLE_EVERY bytes of the file, at most SAMPLES_MOST. A sample is a frame of the
 * larger size. */
#define SAMPLES_MOST 16u
#define SAMPLE_EVERY (UINT64_C(8) << 20)
/* A reader fetches the table before it uses the copy. So the table stays below 1 MiB if frames can be larger. */
#define TABLE_FRAMES (1u << 17)
#define SMALL_FRAME (128u << 10)
#define LARGER_BY 4u

static const int levels[][3] = {[XH_PACKED_ZSTD] = {1, 3, 7}, [XH_PACKED_LZ4] = {1, 9, 12}};
static const double links[] = {0.125, 1.25}; /* bytes per ns: 1 and 10 Gbit/s */

const char *xh_pack_codec(uint32_t codec)
{
    return codec == XH_PACKED_LZ4 ? "lz4" : "zstd";
}

/* ---- the two libraries -------------------------------------------------------------------------- */

int xh_packer_begin(struct xh_packer *z, const struct xh_pack_way *w)
{
    *z = (struct xh_packer){.way = *w};
    if (w->codec == XH_PACKED_LZ4)
        return 0;
    z->zstd = ZSTD_createCCtx();
    return z->zstd && !ZSTD_isError(ZSTD_CCtx_setParameter(z->zstd, ZSTD_c_compressionLevel, w->level)) &&
                   !ZSTD_isError(ZSTD_CCtx_setParameter(z->zstd, ZSTD_c_checksumFlag, 1))
               ? 0
               : -1;
}

void xh_packer_end(struct xh_packer *z)
{
    ZSTD_freeCCtx(z->zstd);
}

/* lz4 unpacks a block straight to its place if that has room for a block of the largest size, so a frame is some whole
 * blocks. */
static LZ4F_preferences_t lz4_preferences(const struct xh_pack_way *w, size_t len)
{
    LZ4F_blockSizeID_t block = w->frame_bytes >= 4u << 20   ? LZ4F_max4MB
                               : w->frame_bytes >= 1u << 20 ? LZ4F_max1MB
                               : w->frame_bytes >= 256u << 10 ? LZ4F_max256KB
                                                              : LZ4F_max64KB;
    return (LZ4F_preferences_t){.frameInfo = {.blockSizeID = block,
                                              .contentChecksumFlag = LZ4F_contentChecksumEnabled,
                                              .contentSize = len},
                                .compressionLevel = w->level};
}

size_t xh_packer_pack(struct xh_packer *z, const uint8_t *raw, size_t len, uint8_t *out, size_t room)
{
    if (z->zstd) {
        size_t n = ZSTD_compress2(z->zstd, out, room, raw, len);
        return ZSTD_isError(n) ? 0 : n;
    }
    LZ4F_preferences_t how = lz4_preferences(&z->way, len);
    size_t n = LZ4F_compressFrame(out, room, raw, len, &how);
    return LZ4F_isError(n) ? 0 : n;
}

size_t xh_packer_room(uint32_t frame_bytes)
{
    size_t zstd = ZSTD_compressBound(frame_bytes), lz4 = LZ4F_compressFrameBound(frame_bytes, NULL);
    return zstd > lz4 ? zstd : lz4;
}

/* ---- the trial ---------------------------------------------------------------------------------- */

struct samples {
    uint8_t *bytes, *packed;
    uint32_t len[SAMPLES_MOST]; /* sample i begins at i * |larger| */
    size_t n, room, all;
    uint32_t larger;
};

static int take_samples(int fd, uint64_t size, uint32_t larger, struct samples *s)
{
    uint64_t n = size / SAMPLE_EVERY;
    *s = (struct samples){.larger = larger, .n = n < 1 ? 1 : n > SAMPLES_MOST ? SAMPLES_MOST : (size_t)n};
    s->room = xh_packer_room(larger);
    s->bytes = malloc(s->n * larger);
    s->packed = malloc(s->room);
    if (!s->bytes || !s->packed)
        return -1;
    /* in the middle of each part of the file: the file's beginning is no raw data */
    for (size_t i = 0; i < s->n; i++) {
        uint64_t part = size / s->n, off = part * i + (part > larger ? (part - larger) / 2 : 0);
        s->len[i] = size - off < larger ? (uint32_t)(size - off) : larger;
        s->all += s->len[i];
        if (xh_read_full(fd, s->bytes + i * larger, s->len[i], off) != 0)
            return -1;
    }
    return 0;
}

/* Returns the packed size of the samples, packed in the way |w|; 0 on an error. */
static size_t try_way(const struct samples *s, const struct xh_pack_way *w)
{
    struct xh_packer z;
    size_t sum = 0, n = xh_packer_begin(&z, w) == 0;
    for (size_t i = 0; n && i < s->n; i++)
        for (uint32_t at = 0; n && at < s->len[i]; at += w->frame_bytes) {
            uint32_t len = s->len[i] - at < w->frame_bytes ? s->len[i] - at : w->frame_bytes;
            n = xh_packer_pack(&z, s->bytes + i * s->larger + at, len, s->packed, s->room);
            sum += n + XH_PACKED_ROW + (w->codec == XH_PACKED_ZSTD ? XH_PACK_SEEK_ROW : 0);
        }
    xh_packer_end(&z);
    return n ? sum : 0;
}

/* Chooses the lowest level of |codec| and the smallest frame that are not much worse than the best. */
static int choose_way(const struct samples *s, uint32_t codec, const uint32_t frame[2], struct xh_pack_way *out)
{
    *out = (struct xh_pack_way){0};
    for (size_t k = 0; k < 2; k++)
        for (size_t l = 0; l < sizeof *levels / sizeof **levels; l++) {
            struct xh_pack_way w = {codec, frame[k], levels[codec][l], 0};
            size_t packed = try_way(s, &w);
            w.ratio = packed ? (double)s->all / (double)packed : 0;
            if (!packed)
                return -1;
            if (w.ratio > WORTH_MORE * out->ratio)
                *out = w;
        }
    return 0;
}

/* Unpacks the first frame of each sample, packed in the way |w|. Returns bytes per ns of one thread; 0 on an error. */
static double unpack_rate(const struct samples *s, const struct xh_pack_way *w)
{
    struct xh_packer z;
    uint64_t at[2] = {0};
    uint32_t sum;
    struct xh_packed k = {.head = {.frames = 1, .frame_bytes = w->frame_bytes, .codec = w->codec}, .at = at,
                          .sum = &sum};
    struct xh_packed_tool *tool = xh_packed_tool(&k);
    uint8_t *out = malloc(w->frame_bytes);
    int ok = xh_packer_begin(&z, w) == 0 && tool && out;
    double bytes = 0, ns = 0;
    for (size_t i = 0; ok && i < s->n; i++) {
        k.head.file_bytes = s->len[i] < w->frame_bytes ? s->len[i] : w->frame_bytes;
        at[1] = xh_packer_pack(&z, s->bytes + i * s->larger, (size_t)k.head.file_bytes, s->packed, s->room);
        ok = at[1] != 0;
        sum = ok ? (uint32_t)xh_le(s->packed + at[1] - 4, 4) : 0;
        uint64_t least = UINT64_MAX;
        for (int n = 0; ok && n < UNPACKS; n++) {
            uint64_t began = xh_cpu_ns();
            ok = xh_packed_unpack(&k, 0, s->packed, tool, out) == 0;
            uint64_t took = xh_cpu_ns() - began;
            least = took < least ? took : least;
        }
        bytes += (double)k.head.file_bytes;
        ns += (double)least;
    }
    xh_packer_end(&z);
    xh_packed_tool_free(tool);
    free(out);
    return ok && ns > 0 ? bytes / ns : 0;
}

/* A reader's time for a byte of the file over |link|, by a copy of |ratio| that one thread unpacks at |rate|, or by the
 * original. */
static double ns_a_byte(double link, double ratio, double rate)
{
    double copy = 1 / (ratio * link) + 1 / (READER_THREADS * rate);
    return copy < 1 / link ? copy : 1 / link;
}

int xh_pack_choose(int fd, uint64_t size, int codec, struct xh_pack_way *out)
{
    struct samples s;
    struct xh_pack_way lz4;
    uint32_t small = SMALL_FRAME;
    while (size / small > TABLE_FRAMES && small < XH_PACKED_FRAME_MOST)
        small *= 2;
    uint32_t frame[2] = {small, small * LARGER_BY < XH_PACKED_FRAME_MOST ? small * LARGER_BY : XH_PACKED_FRAME_MOST};
    int rc = take_samples(fd, size, frame[1], &s);
    if (rc == 0)
        rc = choose_way(&s, codec == XH_PACK_AUTO ? XH_PACKED_ZSTD : (uint32_t)codec, frame, out);
    if (rc == 0 && codec == XH_PACK_AUTO && (rc = choose_way(&s, XH_PACKED_LZ4, frame, &lz4)) == 0 &&
        lz4.ratio >= XH_PACK_WORTH_RATIO) {
        double zstd_rate = unpack_rate(&s, out), lz4_rate = unpack_rate(&s, &lz4), product = 1, least = 1;
        for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
            product *= ns_a_byte(links[i], out->ratio, zstd_rate) / ns_a_byte(links[i], lz4.ratio, lz4_rate);
            least *= LZ4_WINS; /* the geometric mean, without pow(): that is newer than the oldest C library served */
        }
        if (zstd_rate > 0 && lz4_rate > 0 && product > least)
            *out = lz4;
    }
    free(s.bytes);
    free(s.packed);
    return rc;
}
