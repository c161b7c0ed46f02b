/* The superblock of a file that goes out while it is still open: see impl.h.
 *
 * From version 3 on it says that a writer has the file open, and readers refuse it then. What goes to the server is whole,
 * so it says nothing. Source: HDF5 File Format Specification 3.0, II.A; the checksum is Bob Jenkins' lookup3,
 * hashlittle, which is in the public domain. */
#include <string.h>

#include "impl.h"

#define FLAGS_AT 11
#define WRITERS 0x05u /* write access; SWMR write access */

static uint32_t rot(uint32_t x, unsigned k)
{
    return x << k | x >> (32 - k);
}

static uint32_t word(const unsigned char *p, size_t n)
{
    uint32_t x = 0;
    for (size_t i = 0; i < 4 && i < n; i++)
        x |= (uint32_t)p[i] << (8 * i);
    return x;
}

static uint32_t checksum(const unsigned char *p, size_t n)
{
    uint32_t a = 0xdeadbeefu + (uint32_t)n, b = a, c = a;
    for (; n > 12; n -= 12, p += 12) {
        a += word(p, 4);
        b += word(p + 4, 4);
        c += word(p + 8, 4);
        a -= c; a ^= rot(c, 4); c += b;
        b -= a; b ^= rot(a, 6); a += c;
        c -= b; c ^= rot(b, 8); b += a;
        a -= c; a ^= rot(c, 16); c += b;
        b -= a; b ^= rot(a, 19); a += c;
        c -= b; c ^= rot(b, 4); b += a;
    }
    if (n == 0)
        return c;
    a += word(p, n);
    b += n > 4 ? word(p + 4, n - 4) : 0;
    c += n > 8 ? word(p + 8, n - 8) : 0;
    c ^= b; c -= rot(b, 14);
    a ^= c; a -= rot(c, 11);
    b ^= a; b -= rot(a, 25);
    c ^= b; c -= rot(b, 16);
    a ^= c; a -= rot(c, 4);
    b ^= a; b -= rot(a, 14);
    c ^= b; c -= rot(b, 24);
    return c;
}

int xh_edit_super(struct xh_edit *e, struct xh_err *err)
{
    static const unsigned char signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    unsigned char *p = e->super;
    e->super_len = 0;
    for (uint64_t off = 0; off + 64 <= e->overlay->size; off = off ? 2 * off : 512) {
        uint64_t room = e->overlay->size - off;
        int rc = xh_edit_compose(e, off, (char *)p, room < sizeof e->super ? (size_t)room : sizeof e->super, err);
        if (rc)
            return rc;
        if (memcmp(p, signature, sizeof signature) != 0)
            continue;
        size_t len = 12 + 4 * (size_t)p[9]; /* four addresses behind the flags, then the checksum */
        if (p[8] != 3 || (p[FLAGS_AT] & WRITERS) == 0 || len + 4 > sizeof e->super)
            return 0;
        p[FLAGS_AT] &= (unsigned char)~WRITERS;
        uint32_t sum = checksum(p, len);
        for (unsigned i = 0; i < 4; i++)
            p[len + i] = (unsigned char)(sum >> (8 * i));
        e->super_off = off;
        e->super_len = len + 4;
        return 0;
    }
    return 0;
}
