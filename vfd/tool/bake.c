/* One file's metadata image: see bake.h.
 *
 * HDF5 tells where raw data lies (survey.h). All the rest is metadata and goes into the image, which is built in
 * memory. */
#include "bake.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zstd.h>

#include "../../cache/base/extent.h"
#include "../../cache/base/files.h"
#include "../../cache/base/hdf5.h"
#include "../../cache/base/sha256.h"
#include "../../cache/source/metaimage.h"
#include "place.h"
#include "survey.h"

#define BLOCK_BYTES (256u << 10)
#define LEVEL 9
#define NODE2_BYTES 2048u /* H5D_BT2_NODE_SIZE */
#define NODES_MOST 256u   /* most nodes of a run that are checked */
/* Differences to at most this many words before are tried: enough for chunks of up to seven dimensions in a version 1
 * B-tree. */
#define BACK_TRIED 9u
#define TRIAL_LEVEL 1
/* An image larger than 1/WORTH_PART of the file is not made: it saves readers little. */
#define WORTH_PART 2

/* ---- what is metadata --------------------------------------------------------------------------- */

/* Returns the end of the chunk index node that begins at |at|, if one begins there and another node, or |end|, follows
 * it; else 0. The keys determine the size of a version 1 B-tree's node (for K = 32, the usual value). For version 2 it
 * is HDF5's default. */
static uint64_t node_end(int fd, uint64_t at, uint64_t end)
{
    uint8_t sign[6], next[4];
    if (end - at < NODE2_BYTES || xh_read_full(fd, sign, sizeof sign, at) != 0)
        return 0;
    if ((memcmp(sign, "BTLF", 4) == 0 || memcmp(sign, "BTIN", 4) == 0) && (sign[5] == 10 || sign[5] == 11))
        return at + NODE2_BYTES;
    if (memcmp(sign, "TREE", 4) != 0 || sign[4] != 1)
        return 0;
    for (uint64_t rank = 1; rank <= XH_HDF5_RANK_MOST + 1; rank++) {
        uint64_t size = 24 + 64 * 8 + 65 * (8 + 8 * (rank + 1));
        if (size > end - at)
            break;
        if (size == end - at ||
            (end - at - size >= 4 && xh_read_full(fd, next, 4, at + size) == 0 && memcmp(next, "TREE", 4) == 0))
            return at + size;
    }
    return 0;
}

/* 1 when [at, end) holds only nodes of chunk indexes. HDF5 knows their length and reads nothing behind them. */
static int are_nodes(int fd, uint64_t at, uint64_t end)
{
    for (unsigned i = 0; i < NODES_MOST && at && at < end; i++)
        at = node_end(fd, at, end);
    return at == end;
}

/* Returns the ranges that are not raw data in |s|, and sets |*n| to their number; NULL when out of memory. */
static struct xh_range *metadata_of(const struct xh_survey *s, int fd, uint64_t size, size_t *n)
{
    struct xh_range *out = malloc((s->raw.n + 1) * sizeof *out);
    uint64_t at = 0;
    *n = 0;
    for (size_t i = 0; out && i <= s->raw.n && at < size; i++) {
        uint64_t from = i < s->raw.n && s->raw.at[i].off < size ? s->raw.at[i].off : size;
        if (from > at) {
            uint64_t more = are_nodes(fd, at, from) ? 0 : XH_HDF5_SPECULATION_BYTES,
                     end = more < size - from ? from + more : size;
            out[(*n)++] = (struct xh_range){at, end - at};
        }
        at = i < s->raw.n && s->raw.at[i].len <= size - from ? from + s->raw.at[i].len : size;
    }
    if (out)
        *n = xh_ranges_join(out, *n, 0);
    return out;
}

/* ---- the image ---------------------------------------------------------------------------------- */

struct image {
    int fd; /* the original */
    struct xh_range *extent;
    size_t n;
    struct xh_metaimage_head head;
    uint8_t *index, *packed; /* the index as it lies in the file; the blocks one behind the other */
    size_t packed_len;
};

/* Reads the next bytes of the image. |*i| and |*skip| hold the position. */
static int gather(const struct image *m, size_t *i, uint64_t *skip, uint8_t *buf, size_t len)
{
    while (len) {
        uint64_t left = m->extent[*i].len - *skip, n = left < len ? left : len;
        if (xh_read_full(m->fd, buf, n, m->extent[*i].off + *skip) != 0)
            return -1;
        buf += n;
        len -= n;
        *skip += n;
        if (*skip == m->extent[*i].len) {
            ++*i;
            *skip = 0;
        }
    }
    return 0;
}

static size_t put_extents(const struct image *m, uint8_t *out)
{
    uint64_t at = 0;
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) {
        n += xh_metaimage_put_number(out + n, m->extent[i].off - at);
        n += xh_metaimage_put_number(out + n, m->extent[i].len);
        at = m->extent[i].off + m->extent[i].len;
    }
    return n;
}

/* Returns how many words back the differences reach that compress best; 0 also where a trial fails. */
static uint8_t choose_back(ZSTD_CCtx *z, const uint8_t *raw, size_t len, uint8_t *differences, uint8_t *packed,
                           size_t room)
{
    uint8_t best = 0;
    size_t least = SIZE_MAX;
    for (uint8_t back = 0; back <= BACK_TRIED; back++) {
        xh_metaimage_differ(raw, len, back, differences);
        size_t n = ZSTD_compressCCtx(z, packed, room, differences, len, TRIAL_LEVEL);
        if (ZSTD_isError(n) || n >= least)
            continue;
        least = n;
        best = back;
    }
    return best;
}

/* Compresses one block. Returns its size, or a zstd error, and sets |*back|. */
static size_t pack_block(ZSTD_CCtx *z, const uint8_t *raw, size_t len, uint8_t *differences, uint8_t *packed,
                         size_t room, uint8_t *back)
{
    *back = choose_back(z, raw, len, differences, packed, room);
    xh_metaimage_differ(raw, len, *back, differences);
    return ZSTD_compressCCtx(z, packed, room, differences, len, LEVEL);
}

/* Compresses the blocks and writes each one's entry in the index at |note|. Returns 0, or -1 with |out| set. */
static int pack_blocks(struct image *m, uint8_t *note, struct xh_baked *out)
{
    uint64_t left = m->head.image_bytes, skip = 0;
    size_t room = ZSTD_compressBound(BLOCK_BYTES), at = 0, packed;
    uint8_t *raw = malloc(BLOCK_BYTES), *differences = malloc(BLOCK_BYTES), sum[32], *more, back;
    ZSTD_CCtx *z = ZSTD_createCCtx();
    int rc = raw && differences && z ? 0 : xh_baked_say(out, XH_BAKED_FAILED, "out of memory");
    for (uint32_t i = 0; rc == 0 && i < m->head.blocks; i++, note += 4 + XH_METAIMAGE_SUM) {
        size_t len = left < BLOCK_BYTES ? left : BLOCK_BYTES;
        if (!(more = realloc(m->packed, m->packed_len + room)))
            rc = xh_baked_say(out, XH_BAKED_FAILED, "out of memory");
        else if (m->packed = more, gather(m, &at, &skip, raw, len) != 0)
            rc = xh_baked_say(out, XH_BAKED_FAILED, "it cannot be read: %s", strerror(errno));
        else if (ZSTD_isError(packed = pack_block(z, raw, len, differences, m->packed + m->packed_len, room, &back)) ||
                 !xh_sha256(raw, len, sum))
            rc = xh_baked_say(out, XH_BAKED_FAILED, "its metadata cannot be compressed");
        if (rc)
            break;
        xh_metaimage_put_block(note, (uint32_t)packed, back, sum);
        m->packed_len += packed;
        left -= len;
    }
    ZSTD_freeCCtx(z);
    free(differences);
    free(raw);
    return rc;
}

static int build(struct image *m, const struct stat *st, struct xh_baked *out)
{
    struct xh_metaimage_head *h = &m->head;
    struct xh_metaimage check;
    *h = (struct xh_metaimage_head){.file_bytes = (uint64_t)st->st_size, .mtime_s = st->st_mtim.tv_sec,
                                    .mtime_ns = (uint32_t)st->st_mtim.tv_nsec, .block_bytes = BLOCK_BYTES};
    for (size_t i = 0; i < m->n; i++)
        h->image_bytes += m->extent[i].len;
    out->image_bytes = h->image_bytes;
    out->extents = m->n;
    if (h->image_bytes > XH_METAIMAGE_MOST || h->image_bytes == 0)
        return xh_baked_say(out, XH_BAKED_SKIPPED,
                            "what is not raw data of a dataset is %llu MiB, an image holds 1024 at most",
                            (unsigned long long)(h->image_bytes >> 20));
    h->blocks = (uint32_t)((h->image_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
    size_t notes = (4 + XH_METAIMAGE_SUM) * (size_t)h->blocks, room = XH_METAIMAGE_NOTE_MOST * m->n + notes;
    uint8_t *raw = malloc(room);
    int rc = raw ? 0 : xh_baked_say(out, XH_BAKED_FAILED, "out of memory");
    size_t used = rc ? 0 : put_extents(m, raw);
    if (rc == 0 && (used + notes > XH_METAIMAGE_INDEX_MOST || m->n > h->file_bytes / XH_METAIMAGE_EXTENT_LEAST))
        rc = xh_baked_say(out, XH_BAKED_SKIPPED, "its metadata lies in %zu pieces, too many for an image", m->n);
    assert(rc || raw);
    if (rc == 0)
        rc = pack_blocks(m, raw + used, out);
    size_t bound = ZSTD_compressBound(used + notes), packed = 0;
    if (rc == 0 && (!(m->index = malloc(bound)) ||
                    ZSTD_isError(packed = ZSTD_compress(m->index, bound, raw, used + notes, LEVEL)) ||
                    !xh_sha256(raw, used + notes, h->index_sha256)))
        rc = xh_baked_say(out, XH_BAKED_FAILED, "out of memory");
    free(raw);
    if (rc)
        return rc;
    h->extents = (uint32_t)m->n;
    h->index_raw_bytes = (uint32_t)(used + notes);
    h->index_bytes = (uint32_t)packed;
    h->sidecar_bytes = XH_METAIMAGE_HEADER + packed + m->packed_len;
    out->sidecar_bytes = h->sidecar_bytes;
    const char *why = xh_metaimage_read(h, m->index, &check);
    if (why)
        return xh_baked_say(out, XH_BAKED_FAILED, "the image that was made cannot be read: %s", why);
    xh_metaimage_free(&check);
    if (h->sidecar_bytes > h->file_bytes / WORTH_PART)
        return xh_baked_say(out, XH_BAKED_SKIPPED,
                            "an image of its metadata would be half as large as the file, or larger");
    return 0;
}

/* ---- beside the file ---------------------------------------------------------------------------- */

static int place(const struct xh_place *n, const struct image *m, const struct stat *st, struct xh_baked *out)
{
    uint8_t head[XH_METAIMAGE_HEADER];
    int fd = xh_place_part(n, out);
    if (fd < 0)
        return -1;
    xh_metaimage_put_head(&m->head, head);
    int wrote = xh_write(fd, head, sizeof head) == 0 && xh_write(fd, m->index, m->head.index_bytes) == 0 &&
                xh_write(fd, m->packed, m->packed_len) == 0;
    return xh_place_done(n, fd, m->fd, st, wrote, out);
}

/* ---- is it there? ------------------------------------------------------------------------------- */

/* The sidecar of a file, read as a reader would read it. */
struct beside {
    int fd; /* -1: not open */
    struct xh_metaimage image; /* empty: it could not be read */
};

static void beside_close(struct beside *b)
{
    xh_metaimage_free(&b->image);
    if (b->fd >= 0)
        close(b->fd);
}

/* Opens the sidecar and compares it with |st|. Sets |out| to FRESH, or to what is wrong. */
static void beside_open(const struct xh_place *n, const struct stat *st, struct beside *b, struct xh_baked *out)
{
    uint8_t head[XH_METAIMAGE_HEADER], *index;
    struct xh_metaimage_head h = {0};
    uint64_t bytes;
    *b = (struct beside){.fd = xh_place_sidecar(n, head, sizeof head, &bytes, out)};
    if (b->fd < 0)
        return;
    const char *why = xh_metaimage_head(head, sizeof head, &h);
    if (!why && h.sidecar_bytes != bytes)
        why = "it is cut, or has grown";
    if (!why && !(index = malloc(h.index_bytes)))
        why = "there is no memory for it";
    else if (!why) {
        why = xh_read_full(b->fd, index, h.index_bytes, sizeof head) ? "it cannot be read"
                                                                      : xh_metaimage_read(&h, index, &b->image);
        free(index);
    }
    if (!why) {
        out->image_bytes = h.image_bytes;
        out->sidecar_bytes = h.sidecar_bytes;
        out->extents = h.extents;
    }
    xh_place_judge(why, h.file_bytes, h.mtime_s, h.mtime_ns, st, out);
}

/* Compares each block with the original's bytes, and with what readers would unpack. */
static void compare(int fd, const struct beside *b, struct xh_baked *out)
{
    const struct xh_metaimage *m = &b->image;
    struct image gathers = {.fd = fd, .n = m->head.extents};
    uint8_t *raw = malloc(m->head.block_bytes), *packed = malloc(ZSTD_compressBound(m->head.block_bytes));
    size_t at = 0;
    uint64_t skip = 0;
    gathers.extent = calloc(gathers.n, sizeof *gathers.extent);
    if (!raw || !packed || !gathers.extent)
        xh_baked_tell(out, XH_BAKED_FAILED, "out of memory");
    int ready = raw && packed && gathers.extent;
    for (size_t i = 0; ready && i < gathers.n; i++)
        gathers.extent[i] = (struct xh_range){m->piece[i].off, m->piece[i + 1].at - m->piece[i].at};
    for (size_t i = 0; ready && out->as == XH_BAKED_FRESH && i < m->head.blocks; i++) {
        const struct xh_metaimage_block *k = &m->block[i];
        if (gather(&gathers, &at, &skip, raw, k->raw_len) != 0)
            xh_baked_tell(out, XH_BAKED_FAILED, "the file cannot be read: %s", strerror(errno));
        else if (!xh_metaimage_is_block(m, i, raw))
            xh_baked_tell(out, XH_BAKED_STALE,
                          "the file's metadata is different now, though its size and time are not");
        else if (xh_read_full(b->fd, packed, k->len, k->off) != 0 || xh_metaimage_unpack(m, i, packed, raw) != 0)
            xh_baked_tell(out, XH_BAKED_STALE, "its block %zu is damaged", i);
    }
    free(gathers.extent);
    free(packed);
    free(raw);
}

/* ---- making and checking ------------------------------------------------------------------------- */

void xh_bake(const char *path, const struct xh_options *o, int dry, struct xh_baked *out)
{
    struct xh_place n;
    struct stat st = {0};
    struct beside b = {.fd = -1};
    struct xh_survey s = {.all = 1, .exact = 1};
    struct xh_err err = {0};
    struct image m = {.fd = xh_place_of(path, XH_METAIMAGE_SUFFIX, &n, &st, out)};
    if (m.fd < 0)
        goto out;
    beside_open(&n, &st, &b, out);
    if ((out->as == XH_BAKED_FRESH && !dry) || (!dry && xh_place_settle(&n, m.fd, &st, out) != 0))
        goto out;
    if (xh_survey_walk(&s, path, o, &err) != 0) {
        xh_baked_tell(out, XH_BAKED_FAILED, "%s", err.text);
        goto out;
    }
    if (!(m.extent = metadata_of(&s, m.fd, (uint64_t)st.st_size, &m.n)))
        xh_baked_tell(out, XH_BAKED_FAILED, "out of memory");
    else if (build(&m, &st, out) == 0) {
        if (xh_place_is_changed(path, &st))
            xh_baked_tell(out, XH_BAKED_FAILED, "it was changed while it was read");
        else if (dry || place(&n, &m, &st, out) == 0)
            out->as = XH_BAKED_MADE;
    }
out:
    xh_survey_free(&s);
    beside_close(&b);
    free(m.extent);
    free(m.index);
    free(m.packed);
    xh_place_free(&n);
    if (m.fd >= 0)
        close(m.fd);
}

void xh_bake_check(const char *path, struct xh_baked *out)
{
    struct xh_place n;
    struct stat st = {0};
    struct beside b = {.fd = -1};
    int fd = xh_place_of(path, XH_METAIMAGE_SUFFIX, &n, &st, out);
    if (fd >= 0) {
        beside_open(&n, &st, &b, out);
        if (out->as == XH_BAKED_FRESH)
            compare(fd, &b, out);
        beside_close(&b);
        close(fd);
    }
    xh_place_free(&n);
}
