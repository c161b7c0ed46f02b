/* See mapping.h. */
#include "mapping.h"

#include <stdlib.h>
#include <string.h>

#include "../cache/base/bytes.h"
#include "../cache/base/hdf5.h"

#define SIGNATURE  "GCOL\1" /* and the version */
#define HEAD_BYTES 16u      /* of a collection, and of an object in it */
#define BLOCK_HEAD 9u       /* of a mapping: version, number of entries */
#define COLLECTION_MOST (16u << 20)
#define NAMES_MOST 65536u
#define NAMES_BYTES (4u << 20)

/* The rest of a block of bytes. |p| NULL: the block was too short. */
struct cursor {
    const uint8_t *p;
    size_t left;
};

static const uint8_t *take(struct cursor *c, uint64_t n)
{
    const uint8_t *p = c->p;
    if (!p || n > c->left) {
        c->p = NULL;
        return NULL;
    }
    c->p += n;
    c->left -= n;
    return p;
}

static uint64_t number(struct cursor *c, unsigned bytes)
{
    const uint8_t *p = take(c, bytes);
    return p ? xh_le(p, bytes) : 0;
}

static const char *text(struct cursor *c)
{
    const uint8_t *end = c->p ? memchr(c->p, 0, c->left) : NULL;
    return end ? (const char *)take(c, (uint64_t)(end - c->p) + 1) : (const char *)take(c, (uint64_t)c->left + 1);
}

/* Skips |times| arrays of |count| numbers for each of |rank| dimensions. A number has |bytes| bytes. */
static void skip(struct cursor *c, unsigned bytes, uint64_t rank, uint64_t count, unsigned times)
{
    if (rank > XH_HDF5_RANK_MOST || count > c->left)
        c->p = NULL;
    else
        take(c, bytes * rank * count * times);
}

enum { SEL_NONE, SEL_POINTS, SEL_HYPER, SEL_ALL };

static void skip_selection(struct cursor *c)
{
    uint64_t type = number(c, 4), version = number(c, 4);
    if (version == 1 && type <= SEL_ALL) {
        number(c, 4);
        take(c, number(c, 4));
    } else if (version == 2 && type == SEL_HYPER) {
        number(c, 1);
        take(c, number(c, 4));
    } else if ((version == 3 && type == SEL_HYPER) || (version == 2 && type == SEL_POINTS)) {
        int regular = type == SEL_HYPER && (number(c, 1) & 1);
        unsigned bytes = (unsigned)number(c, 1);
        uint64_t rank = number(c, 4);
        if (bytes != 2 && bytes != 4 && bytes != 8)
            c->p = NULL;
        else
            skip(c, bytes, rank, regular ? 1 : number(c, bytes), regular ? 4 : type == SEL_HYPER ? 2 : 1);
    } else {
        c->p = NULL;
    }
}

/* Returns 1 when HDF5 makes names of the pattern |p| with the number of a block. Source: H5Pset_virtual. */
static int counts(const char *p)
{
    for (; (p = strchr(p, '%')); p += 2)
        if (p[1] != '%')
            return p[1] == 'b';
    return 0;
}

static int add(struct xh_names *out, const char *name, const char **last)
{
    size_t n = strlen(name) + 1;
    out->endless |= counts(name);
    if ((*last && strcmp(*last, name) == 0) || strcmp(name, ".") == 0 || !*name || strchr(name, '%'))
        return 1;
    if (out->n == NAMES_MOST || n > NAMES_BYTES - out->bytes)
        return 0;
    char *to = realloc(out->text, out->bytes + n);
    if (!to)
        return 0;
    memcpy(to + out->bytes, name, n);
    out->text = to;
    out->bytes += n;
    out->n++;
    *last = name;
    return 1;
}

/* Appends the names in one object of the heap. Returns 1 when the whole object is a mapping. */
static int names_of(struct cursor c, struct xh_names *out)
{
    const char *last = NULL;
    if (c.left < BLOCK_HEAD || number(&c, 1) != 0)
        return 0;
    uint64_t entries = number(&c, 8);
    if (entries > c.left)
        return 0;
    for (uint64_t i = 0; c.p && i < entries; i++) {
        const char *name = text(&c);
        text(&c); /* the dataset's name */
        skip_selection(&c);
        skip_selection(&c);
        if (c.p && !add(out, name, &last))
            return 0;
    }
    return c.p && c.left == 4; /* a checksum */
}

/* Returns the length of the global heap collection that begins with the |len| bytes at |p|, or 0 when none begins
 * there. */
static uint64_t collection(const void *p, size_t len)
{
    struct cursor c = {p, len};
    if (len < HEAD_BYTES || memcmp(p, SIGNATURE, strlen(SIGNATURE)) != 0)
        return 0;
    take(&c, 8);
    return number(&c, 8);
}

static void forget(struct xh_names *out)
{
    free(out->text);
    *out = (struct xh_names){.endless = out->endless};
}

size_t xh_mapping_next(const void *p, size_t len, size_t *at, struct xh_names *out)
{
    if (len < HEAD_BYTES || collection(p, len) != len || *at > len)
        return 0;
    size_t from = *at ? *at : HEAD_BYTES;
    struct cursor c = {(const uint8_t *)p + from, len - from};
    while (c.p && c.left >= HEAD_BYTES) {
        uint64_t index = number(&c, 2);
        take(&c, 6);
        uint64_t bytes = number(&c, 8);
        if (index == 0 || bytes > c.left) /* index 0 is free space */
            return 0;
        struct cursor object = {c.p, (size_t)bytes};
        take(&c, bytes + (8 - bytes % 8) % 8);
        *at = c.p ? len - c.left : len;
        if (names_of(object, out) && out->n > 1)
            return out->n;
        forget(out);
    }
    return 0;
}

/* As xh_mapping_saw for what begins at |p|. Sets |*taken| to how many bytes there are a collection's, at least 1. */
static const uint8_t *saw(struct xh_mapping_seen *s, uint64_t at, const void *p, size_t len, size_t *taken,
                          size_t *bytes)
{
    uint64_t whole = collection(p, len);
    size_t rest = s->p ? s->bytes - s->have : 0;
    *taken = 1;
    if (whole && whole <= len) {
        *taken = *bytes = (size_t)whole;
        return p;
    }
    if (whole > len && whole <= COLLECTION_MOST) {
        /* The first one of a read counts, and hides no whole one behind it: it may be none, but what looks like it. */
        if (rest && s->at + s->have == at + len)
            return NULL;
        free(s->p);
        *s = (struct xh_mapping_seen){.p = malloc(whole), .at = at, .bytes = (size_t)whole, .have = len};
        if (s->p)
            memcpy(s->p, p, len);
        return NULL;
    }
    if (!rest || at != s->at + s->have || len < rest)
        return NULL;
    memcpy(s->p + s->have, p, rest);
    *taken = rest;
    *bytes = s->have = s->bytes;
    return s->p;
}

const uint8_t *xh_mapping_saw(struct xh_mapping_seen *s, uint64_t at, const void *p, size_t len, int pages,
                              size_t *from, size_t *bytes)
{
    const uint8_t *begin = p, *heap = NULL;
    while (!heap && *from < len) {
        size_t taken;
        heap = saw(s, at + *from, begin + *from, len - *from, &taken, bytes);
        *from += taken;
        const uint8_t *next = pages ? memmem(begin + *from, len - *from, SIGNATURE, strlen(SIGNATURE)) : NULL;
        *from = next ? (size_t)(next - begin) : len;
    }
    return heap;
}
