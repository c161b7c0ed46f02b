/* The places of datasets' contiguous raw data: see contiguous.h.
 *
 * Invariants: |at| is sorted by offset. No two ranges begin at the same place. Each lies within the object. In a
 * damaged or hostile file they may overlap. */
#include "contiguous.h"

#include <stdlib.h>
#include <string.h>

#include "base/hdf5.h"
#include "base/table.h"

/* Most pieces of headers that were named before their bytes were there, and that are parsed in one call: a piece may
 * name itself. */
#define PENDING_MAX 8u

struct xh_contiguous {
    struct xh_meta_format format; /* offset_bytes 0: no superblock was seen yet */
    struct xh_range at[XH_CONTIGUOUS_MAX];
    size_t n, turn; /* |turn|: counts the ranges dropped to make room */
    struct xh_meta_place pending[PENDING_MAX]; /* oldest first */
    size_t npending;
    uint8_t buf[XH_META_PARSE_MAX];
};

struct xh_contiguous *xh_contiguous_new(uint64_t size)
{
    struct xh_contiguous *c = calloc(1, sizeof *c);
    if (c)
        c->format.size = size;
    return c;
}

void xh_contiguous_free(struct xh_contiguous *c)
{
    free(c);
}

/* Returns how many ranges begin at or before |off|. */
static size_t up_to(const struct xh_contiguous *c, uint64_t off)
{
    return xh_count_before(i, c->n, c->at[i].off <= off);
}

static void add(struct xh_contiguous *c, struct xh_range r)
{
    if (r.len < XH_CONTIGUOUS_LEAST_BYTES || r.len > c->format.size || r.off > c->format.size - r.len)
        return;
    size_t i = up_to(c, r.off);
    if (i && c->at[i - 1].off == r.off) {
        c->at[i - 1] = r;
        return;
    }
    if (c->n == XH_CONTIGUOUS_MAX) {
        i = c->turn++ % XH_CONTIGUOUS_MAX;
        xh_array_drop(c->at, c->n, i);
        i = up_to(c, r.off);
    }
    memmove(c->at + i + 1, c->at + i, (c->n - i) * sizeof *c->at);
    c->at[i] = r;
    c->n++;
}

static int on_found(void *ctx, const struct xh_meta_place *p)
{
    struct xh_contiguous *c = ctx;
    if (p->kind == XH_META_DATA)
        add(c, (struct xh_range){p->off, p->detail});
    if ((p->kind != XH_META_CHUNK && p->kind != XH_META_CHUNK2) || p->len > sizeof c->buf)
        return 0;
    if (c->npending == PENDING_MAX)
        xh_array_drop(c->pending, c->npending, 0);
    c->pending[c->npending++] = *p;
    return 0;
}

static void follow(struct xh_contiguous *c, xh_meta_look *look, void *ctx)
{
    for (size_t i = 0, parses = 0; i < c->npending && parses < PENDING_MAX;) {
        struct xh_meta_place p = c->pending[i];
        if (!look(ctx, p.off, c->buf, p.len)) {
            i++;
            continue;
        }
        xh_array_drop(c->pending, c->npending, i);
        parses++;
        xh_meta_parse(&c->format, &p, c->buf, p.len, on_found, c);
    }
}

/* HDF5 reads a superblock piece by piece, so this asks for all of it. */
static void begin(struct xh_contiguous *c, uint64_t off, xh_meta_look *look, void *ctx)
{
    uint64_t left = c->format.size - off;
    size_t len = left < XH_HDF5_SUPERBLOCK_BYTES ? (size_t)left : XH_HDF5_SUPERBLOCK_BYTES;
    if (look(ctx, off, c->buf, len))
        xh_meta_superblock(c->buf, len, off, c->format.size, &c->format, on_found, c);
}

void xh_contiguous_see(struct xh_contiguous *c, uint64_t off, const uint8_t *p, size_t len, xh_meta_look *look,
                       void *ctx)
{
    struct xh_meta_place place;
    if (c->format.offset_bytes == 0) {
        begin(c, off, look, ctx);
        return;
    }
    if (xh_meta_recognise(&c->format, off, p, len, &place) && place.kind == XH_META_HEADER)
        xh_meta_parse(&c->format, &place, p, len, on_found, c);
    follow(c, look, ctx);
}

struct xh_range xh_contiguous_at(const struct xh_contiguous *c, struct xh_range r)
{
    size_t i = up_to(c, r.off);
    if (i) {
        struct xh_range d = c->at[i - 1];
        if (r.len <= d.len && r.off - d.off <= d.len - r.len)
            return d;
    }
    return (struct xh_range){0, 0};
}

size_t xh_contiguous_held(const struct xh_contiguous *c)
{
    return c->n;
}

struct xh_meta_format xh_contiguous_format(const struct xh_contiguous *c)
{
    return c->format;
}
