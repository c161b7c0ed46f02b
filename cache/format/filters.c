/* Looks for filter pipeline messages: see filters.h. Object headers of version 1 have no signature, and continuations
 * none of their own. So each place is tried, and a message counts if all of it makes sense. */
#include "filters.h"

#include <string.h>

#include "base/bytes.h"

#define PIPELINE 0x0b   /* the message's type */
#define FILTERS_MOST 32 /* in a message */
#define NAMED_FROM 256  /* filters of smaller numbers have no name in version 2 */

#define SHARED 2        /* of a message's flags: its data says where the message is */

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

/* Returns 1 when the |n| bytes at |p| say that a list stands in the heap of an index of shared messages
 * (H5Pset_shared_mesg_index). Lists are shared in no other way. Source: HDF5 File Format Specification 3.0, IV.A.2
 * (shared message, version 3): version, type, and the 8 bytes that the heap knows it by. */
static int is_in_heap(const uint8_t *p, size_t n)
{
    return n >= 10 && n <= 16 && p[0] == 3 && p[1] == 1;
}

int xh_filters_named(const uint8_t *p, size_t len)
{
    /* the message's data follows its type (2 bytes in version 1, else 1), its size (2), flags (1), and 3 bytes of
     * padding in version 1, or in version 2 the order of creation (2) where that is kept */
    static const struct {
        unsigned size_at, flags_at, data_at;
    } forms[] = {{2, 4, 8}, {1, 3, 4}, {1, 3, 6}};
    const uint8_t *at = p, *end = p + len;
    while (at < end && (at = memchr(at, PIPELINE, (size_t)(end - at))) != NULL) {
        size_t room = (size_t)(end - at);
        for (unsigned i = 0; i < sizeof forms / sizeof *forms; i++) {
            size_t n = room > forms[i].data_at ? xh_le(at + forms[i].size_at, 2) : 0;
            const uint8_t *data = at + forms[i].data_at;
            if (n && n <= room - forms[i].data_at &&
                (at[forms[i].flags_at] & SHARED ? is_in_heap(data, n) : is_list(data, n)))
                return 1;
        }
        at++;
    }
    return 0;
}
