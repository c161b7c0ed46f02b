/* Looks for datatype messages: see elements.h. As in filters.c each place is tried, and a message counts if what is
 * looked at of it makes sense. */
#include "elements.h"

#include <string.h>

#include "base/bytes.h"

#define DATATYPE 0x03 /* the message's type */
#define SHARED 2      /* of a message's flags: its data says where the message is */
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

void xh_elements_named(const uint8_t *p, size_t len, struct xh_elements *out)
{
    /* where a message has its size, flags and data: see filters.c */
    static const struct {
        unsigned size_at, flags_at, data_at;
    } forms[] = {{2, 4, 8}, {1, 3, 4}, {1, 3, 6}};
    const uint8_t *at = p, *end = p + len;
    for (; at < end && (at = memchr(at, DATATYPE, (size_t)(end - at))) != NULL; at++) {
        size_t room = (size_t)(end - at);
        for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
            if (room < forms[i].data_at + 8 || (i == 0 && at[1] != 0))
                continue;
            size_t n = xh_le(at + forms[i].size_at, 2), seen = room - forms[i].data_at;
            const uint8_t *data = at + forms[i].data_at;
            unsigned flags = at[forms[i].flags_at];
            if (flags & ~(unsigned)(ORDINARY | SHARED) || (i == 0 && xh_le(at + 5, 3)))
                continue;
            uint32_t bytes = flags & SHARED ? 0 : length_of(data, n, seen);
            if (bytes)
                add(out, bytes);
            /* in the heap of an index of shared messages; a committed datatype has a header of its own */
            if (flags & SHARED)
                out->unknown |= n >= 10 && n <= 16 && data[0] == 3 && data[1] == 1;
        }
    }
}
