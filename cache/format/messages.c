/* Looks for messages: see messages.h. Object headers of version 1 have no signature, and continuations none of their
 * own. So each place is tried, and a message counts if what is looked at of it makes sense. */
#include "messages.h"

#include <string.h>

#include "base/bytes.h"

#define SHARED 2 /* of a message's flags: its data says where the message is */

/* What may be a message. */
struct message {
    const uint8_t *at, *data;
    size_t n, seen; /* bytes of the data; how many there are from |data| on, of whatever it is */
    unsigned flags;
    int old; /* 1: in a header of version 1 */
};

/* Calls |is| with each place in |p| that may be a message of |type|, in each form, until it returns 1. Returns 1 if it
 * did. */
static int any(const uint8_t *p, size_t len, uint8_t type, int (*is)(void *ctx, const struct message *m), void *ctx)
{
    /* the message's data follows its type (2 bytes in version 1, else 1), its size (2), flags (1), and 3 bytes of
     * padding in version 1, or in version 2 the order of creation (2) where that is kept */
    static const struct {
        unsigned size_at, flags_at, data_at;
    } forms[] = {{2, 4, 8}, {1, 3, 4}, {1, 3, 6}};
    const uint8_t *at = p, *end = p + len;
    for (; at < end && (at = memchr(at, type, (size_t)(end - at))) != NULL; at++)
        for (size_t i = 0, room = (size_t)(end - at); i < sizeof forms / sizeof *forms; i++) {
            if (room <= forms[i].data_at)
                continue;
            struct message m = {at, at + forms[i].data_at, xh_le(at + forms[i].size_at, 2), room - forms[i].data_at,
                                at[forms[i].flags_at], i == 0};
            if (is(ctx, &m))
                return 1;
        }
    return 0;
}

/* Returns 1 when the |n| bytes at |p| say that a message stands in the heap of an index of shared messages
 * (H5Pset_shared_mesg_index). Lists of filters are shared in no other way; a committed datatype has a header of its
 * own. Source: HDF5 File Format Specification 3.0, IV.A.2 (shared message, version 3): version, type, and the 8 bytes
 * that the heap knows it by. */
static int is_in_heap(const uint8_t *p, size_t n)
{
    return n >= 10 && n <= 16 && p[0] == 3 && p[1] == 1;
}

/* ---- filters */

#define PIPELINE 0x0b   /* the message's type */
#define FILTERS_MOST 32 /* in a message */
#define NAMED_FROM 256  /* filters of smaller numbers have no name in version 2 */

/* Returns 1 when the |n| bytes at |p| are a list of filters, with less than 8 bytes of padding. */
static int is_list(const uint8_t *p, size_t n)
{
    static const uint8_t zeros[6];
    if (n < 8 || p[0] < 1 || p[0] > 2 || p[1] < 1 || p[1] > FILTERS_MOST)
        return 0;
    int old = p[0] == 1;
    size_t at = old ? 8 : 2;
    if (old && memcmp(p + 2, zeros, sizeof zeros) != 0)
        return 0;
    for (unsigned left = p[1]; left; left--) {
        if (at + 6 > n)
            return 0;
        int has_name = old || xh_le(p + at, 2) >= NAMED_FROM;
        size_t name = has_name ? xh_le(p + at + 2, 2) : 0, prefix = has_name ? 8 : 6;
        if (at + prefix > n)
            return 0;
        const uint8_t *rest = p + at + prefix - 4; /* flags, number of parameters */
        size_t parameters = xh_le(rest + 2, 2);
        if (xh_le(rest, 2) > 0xff)
            return 0;
        at += prefix + name + 4 * (parameters + (old && parameters % 2));
        if (at > n)
            return 0;
    }
    return n - at < 8;
}

static int is_filters(void *ctx, const struct message *m)
{
    return m->n && m->n <= m->seen && (m->flags & SHARED ? is_in_heap(m->data, m->n) : is_list(m->data, m->n));
}

int xh_filters_named(const uint8_t *p, size_t len)
{
    return any(p, len, PIPELINE, is_filters, NULL);
}

/* ---- elements */

#define DATATYPE 0x03 /* the message's type */
#define ORDINARY 5    /* flags that a datatype's message may have: constant; not to be shared */
#define VERSION_MOST 5
#define ELEMENT_MOST 0x100000u /* bytes; of longer elements no two share a chunk */

enum { FIXED_POINT, FLOATING_POINT, TIME, STRING, BITS, OPAQUE, COMPOUND, REFERENCE, ENUMERATION, SEQUENCE, ARRAY };

static void add(struct xh_elements *out, uint32_t bytes)
{
    unsigned i = 0;
    while (i < out->n && out->bytes[i] != bytes)
        i++;
    if (i == XH_ELEMENTS_MOST)
        out->unknown = 1;
    else if (i == out->n)
        out->bytes[out->n++] = bytes;
}

/* 1 when the |n| bytes at |p|, of which |seen| are there, go on as a number of |bytes| does. */
static int is_number(const uint8_t *p, size_t n, size_t seen, unsigned class, uint32_t bytes)
{
    size_t all = class == FLOATING_POINT ? 20 : 12;
    if (n < all || seen < all)
        return 0;
    uint64_t from = xh_le(p + 8, 2), bits = xh_le(p + 10, 2); /* those of its bits that count */
    if (bits == 0 || from + bits > 8 * (uint64_t)bytes)
        return 0;
    return class != FLOATING_POINT || (p[13] && p[15] && (unsigned)p[13] + p[15] < bits + 1);
}

/* Returns the length of an element if the |n| bytes at |p|, of which |seen| are there, may be a datatype, else 0. */
static uint32_t length_of(const uint8_t *p, size_t n, size_t seen)
{
    unsigned version = p[0] >> 4, class = p[0] & 0xf;
    uint32_t bytes = (uint32_t)xh_le(p + 4, 4), members = (uint32_t)xh_le(p + 1, 2);
    if (version < 1 || version > VERSION_MOST || bytes == 0 || bytes > ELEMENT_MOST || p[3] || n < 8)
        return 0;
    switch (class) {
    case FIXED_POINT:
    case BITS: return p[1] < 0x10 && !p[2] && is_number(p, n, seen, class, bytes) ? bytes : 0;
    case FLOATING_POINT: return p[1] < 0x80 && is_number(p, n, seen, class, bytes) ? bytes : 0;
    case STRING: return (p[1] & 0xf) < 3 && p[1] >> 4 < 2 && !p[2] && n == 8 ? bytes : 0;
    case COMPOUND:
    case ENUMERATION: return members && n > 8 ? bytes : 0;
    case REFERENCE: return (p[1] & 0xf) < 5 && !p[2] ? bytes : 0;
    case SEQUENCE: return (p[1] & 0xf) < 2 && n > 8 ? bytes : 0;
    case OPAQUE: return !p[2] && n > 8 ? bytes : 0;
    case ARRAY: return !p[1] && !p[2] && n > 8 && version > 1 ? bytes : 0;
    default: return 0;
    }
}

/* Adds what |m| tells to |ctx|, a struct xh_elements. Returns 0, so that all are looked at. */
static int note(void *ctx, const struct message *m)
{
    struct xh_elements *out = ctx;
    if (m->seen < 8 || m->flags & ~(unsigned)(ORDINARY | SHARED) || (m->old && (m->at[1] || xh_le(m->at + 5, 3))))
        return 0;
    uint32_t bytes = m->flags & SHARED ? 0 : length_of(m->data, m->n, m->seen);
    if (bytes)
        add(out, bytes);
    else if (m->flags & SHARED)
        out->unknown |= is_in_heap(m->data, m->n);
    return 0;
}

void xh_elements_named(const uint8_t *p, size_t len, struct xh_elements *out)
{
    any(p, len, DATATYPE, note, out);
}
