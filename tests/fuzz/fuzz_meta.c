/* An HDF5 file's metadata: followed from its superblock as a walk would, and guessed at from each signature. */
#include <string.h>

#include "format/contiguous.h"
#include "format/messages.h"
#include "fuzz.h"
#include "format/metaindex.h"
#include "format/metaparse.h"

enum { PLACES = 400, SIGNATURES = 200, ROUNDS = 40 };

struct object {
    const uint8_t *p;
    size_t size;
    struct xh_meta_place place[PLACES];
    size_t n;
};

static int look(void *ctx, uint64_t off, void *buf, size_t len)
{
    const struct object *o = ctx;
    hold(len <= o->size && off <= o->size - len, "a look outside the object");
    memcpy(buf, o->p + off, len);
    return 1;
}

static int found(void *ctx, const struct xh_meta_place *place)
{
    struct object *o = ctx;
    hold(place->off < o->size, "a structure that begins outside the object");
    hold(place->kind == XH_META_DATA || place->len <= o->size - place->off, "a structure that ends outside the object");
    if (o->n < PLACES)
        o->place[o->n++] = *place;
    return o->n == PLACES;
}

static void follow(struct object *o)
{
    struct xh_meta_format format;
    if (!xh_meta_superblock(o->p, o->size < 96 ? o->size : 96, 0, o->size, &format, found, o))
        return;
    for (size_t at = 0, tried = 0; at + 4 < o->size && tried < SIGNATURES && o->n < PLACES; at++) {
        struct xh_meta_place guess;
        size_t len = o->size - at < 512 ? o->size - at : 512;
        if (o->p[at] < 'A' || o->p[at] > 'Z' || o->p[at + 1] < 'A' || o->p[at + 1] > 'Z')
            continue;
        tried++;
        if (xh_meta_recognise(&format, at, o->p + at, len, &guess))
            found(o, &guess);
    }
    for (size_t i = 0; i < o->n; i++) {
        const struct xh_meta_place place = o->place[i];
        if (place.kind == XH_META_DATA || place.len > XH_META_PARSE_MAX)
            continue;
        uint8_t *copy = malloc(place.len ? place.len : 1); /* just these bytes */
        hold(copy != NULL, "out of memory");
        memcpy(copy, o->p + place.off, place.len);
        xh_meta_parse(&format, &place, copy, place.len, found, o);
        free(copy);
    }
}

/* What is wanted ahead lies in the object, and does not go on for ever. */
static void walk(struct object *o)
{
    struct xh_metaindex *m = xh_metaindex_new(o->size);
    struct xh_contiguous *c = xh_contiguous_new(o->size);
    struct xh_meta_limits lim = {.gap_bytes = 4096, .spare_bytes = 1 << 20, .most_bytes = 1 << 20};
    struct xh_range r[32];
    hold(m && c, "out of memory");
    xh_metaindex_note(m, (struct xh_range){0, o->size < 96 ? o->size : 96}, 1, look, o);
    for (int round = 0; round < ROUNDS; round++) {
        size_t n = xh_metaindex_next(m, 1, &lim, look, o, r, 32);
        hold(n <= 32, "more ranges than there is room for");
        for (size_t i = 0; i < n; i++) {
            hold(r[i].len && r[i].len <= o->size && r[i].off <= o->size - r[i].len,
                 "a range outside the object is wanted");
            hold(i == 0 || r[i].off >= r[i - 1].off + r[i - 1].len, "ranges that overlap");
        }
        if (round < (int)o->n) {
            const struct xh_meta_place *place = &o->place[round];
            uint64_t len = place->kind == XH_META_DATA ? 0 : place->len;
            if (len) {
                xh_metaindex_note(m, (struct xh_range){place->off, len}, round % 5 != 4, look, o);
                xh_contiguous_see(c, place->off, o->p + place->off, len, look, o);
            }
        }
    }
    for (uint64_t off = 0; off < o->size; off += o->size / 16 + 1) {
        struct xh_range whole = xh_contiguous_at(c, (struct xh_range){off, 1});
        hold(whole.len == 0 || (whole.off <= off && whole.len <= o->size && whole.off <= o->size - whole.len),
             "a dataset outside the object");
    }
    hold(xh_contiguous_held(c) <= XH_CONTIGUOUS_MAX, "too many datasets are remembered");
    xh_contiguous_free(c);
    xh_metaindex_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    struct object *o = calloc(1, sizeof *o);
    hold(o != NULL, "out of memory");
    o->p = p;
    o->size = size;
    if (size) {
        follow(o);
        walk(o);
        xh_filters_named(p, size);
        xh_elements_named(p, size, &(struct xh_elements){.n = 0});
    }
    free(o);
    return 0;
}
