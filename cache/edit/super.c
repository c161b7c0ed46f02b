/* The superblock of a file that is sent while it is still open: see super.h.
 *
 * It says that a writer has the file open; readers then refuse a superblock of version 3. HDF5 sets the flag in every
 * version when it flushes, and clears it when it closes the file. The file that is sent is whole, so the flag is
 * cleared in it. The flag does not count as a change in a merge.
 * Source: HDF5 File Format Specification 3.0, II.A. The checksum is Bob Jenkins' lookup3, hashlittle, which is in
 * the public domain. */
#include "super.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hdf5.h"
#include "compose.h"

#define FLAGS_AT 11    /* versions 2 and 3 */
#define OLD_FLAGS_AT 20 /* versions 0 and 1: the first of four bytes, without a checksum */
/* Length of a superblock of version 2 or 3 with addresses of 8 bytes; of an older one, all that matters. */
#define LEAST_BYTES 48u

static uint32_t rot(uint32_t x, unsigned k)
{
    return x << k | x >> (32 - k);
}

static uint32_t word(const unsigned char *p, size_t n)
{
    return (uint32_t)xh_le(p, n < 4 ? (unsigned)n : 4);
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

static int is_super(const unsigned char *p, size_t n)
{
    return n >= OLD_FLAGS_AT + 4 && xh_hdf5_is_signed(p);
}

/* If |p| begins with a superblock, clears the flags that a writer has it open. Returns the superblock's length, or
 * how much of it matters; 0 when it is none that is known. Pure. */
static size_t plain(unsigned char *p, size_t n)
{
    if (!is_super(p, n) || p[8] > 3)
        return 0;
    if (p[8] < 2) {
        p[OLD_FLAGS_AT] &= (unsigned char)~(XH_HDF5_WRITER | XH_HDF5_SWMR);
        return OLD_FLAGS_AT + 4;
    }
    size_t len = 12 + 4 * (size_t)p[9]; /* four addresses follow the flags, then the checksum */
    if (len + 4 > n || (p[FLAGS_AT] & (XH_HDF5_WRITER | XH_HDF5_SWMR)) == 0)
        return len + 4 > n ? 0 : len + 4;
    p[FLAGS_AT] &= (unsigned char)~(XH_HDF5_WRITER | XH_HDF5_SWMR);
    uint32_t sum = checksum(p, len);
    for (unsigned i = 0; i < 4; i++)
        p[len + i] = (unsigned char)(sum >> (8 * i));
    return len + 4;
}

/* Returns the file's end according to the superblock |p|; 0 when it does not say. */
static uint64_t end_of(const unsigned char *p, size_t n)
{
    size_t width = p[8] < 2 ? p[13] : p[9]; /* bytes of an address */
    size_t at = 2 * width + (p[8] == 0 ? OLD_FLAGS_AT + 4u : p[8] == 1 ? OLD_FLAGS_AT + 8u : 12u);
    return width > 8 || at + width > n ? 0 : xh_le(p + at, (unsigned)width);
}

int xh_edit_is_whole(struct xh_edit *e)
{
    xh_edit_super(e);
    int whole = e->super_len && end_of(e->super, sizeof e->super) <= e->overlay->size;
    e->super_len = 0;
    return whole;
}

void xh_edit_super(struct xh_edit *e)
{
    unsigned char *p = e->super;
    e->super_len = 0;
    memset(e->super, 0, sizeof e->super);
    for (uint64_t off = 0; off + 64 <= e->overlay->size; off = off ? 2 * off : 512) {
        uint64_t room = e->overlay->size - off;
        size_t n = room < sizeof e->super ? (size_t)room : sizeof e->super;
        if (xh_edit_compose(e, off, (char *)p, n, XH_IGNORED)) {
            /* without the version below, only a superblock that was written can be read, and no bytes behind it */
            n = LEAST_BYTES;
            if (e->file || xh_edit_compose(e, off, (char *)p, n, XH_IGNORED))
                return; /* the superblock is that of the version below, and is not sent */
        }
        if (!is_super(p, n))
            continue;
        e->super_off = off;
        e->super_len = plain(p, n);
        return;
    }
}

void xh_edit_plain(const struct xh_edit *e, uint64_t off, void *buf, uint64_t len)
{
    if (e->super_len && e->super_off >= off && e->super_off - off < len)
        plain((unsigned char *)buf + (e->super_off - off), (size_t)(len - (e->super_off - off)));
}
