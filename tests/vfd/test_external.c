/* Hostile superblocks, and lists of external files that HDF5 finds where a careless look does not. */
#include "check.h"
#include "external.h"

static unsigned char bytes[4096];
static uint64_t looked; /* bytes that were asked for */

static int look(void *ctx, uint64_t off, void *buf, size_t len)
{
    looked += len;
    if (len > sizeof bytes || off > sizeof bytes - len)
        return -1;
    memcpy(buf, bytes + off, len);
    return 0;
}

/* A message of version 2 with one slot, whose heap is at |heap|. */
static void put_list(unsigned char *at, uint64_t heap)
{
    at[0] = 7; /* type */
    at[1] = 40; /* size */
    at[4] = at[8] = at[10] = 1; /* version, slots, slots used */
    memcpy(at + 12, &heap, sizeof heap);
}

/* Looks at an object header with two lists, in a file whose superblock names such widths. |high|: of the ninth byte
 * of an address. */
static int found(unsigned addr_bytes, unsigned length_bytes, uint64_t heap, unsigned high, int sure)
{
    unsigned char *header = bytes + 512;
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "\x89HDF\r\n\x1a\n\x02", 9);
    bytes[9] = (unsigned char)addr_bytes;
    bytes[10] = (unsigned char)length_bytes;
    memset(bytes + 2048, 'A', 1024);
    memcpy(bytes + 2048, "HEAP", 4);
    memcpy(header, "OHDR\x02\0\xc8", 7);
    for (int i = 0; i < 2; i++) {
        put_list(header + 7 + 60 * i, heap);
        header[7 + 60 * i + 20] = (unsigned char)high;
    }
    struct xh_external e = {.size = sizeof bytes, .look = look, .sure = sure};
    return xh_external_in_header(&e, 512, header, 512);
}

/* A header of version 1, of |len| bytes of messages by its own word, whose first message has such a type and size. */
static unsigned char *put_old(unsigned type, unsigned size, uint32_t len)
{
    unsigned char *p = bytes + 512;
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "\x89HDF\r\n\x1a\n", 8);
    bytes[13] = bytes[14] = 8;
    memcpy(bytes + 2048, "HEAP", 4);
    p[0] = 1;
    p[2] = p[4] = 1; /* messages, links */
    memcpy(p + 8, &len, sizeof len);
    p[16] = (unsigned char)type;
    p[18] = (unsigned char)size;
    return p + 24;
}

static int found_old(uint64_t size)
{
    struct xh_external e = {.size = size, .look = look, .sure = 1};
    looked = 0;
    int rc = xh_external_in_header(&e, 512, bytes + 512, 512);
    CHECK((rc == XH_EXTERNAL_UNTOLD) == (e.why != NULL));
    return rc;
}

/* Headers of version 1, and later parts of one that begin like a header. */
static void check_old(void)
{
    const uint64_t heap = 2048;
    unsigned char *body = put_old(7, 40, 48);
    body[0] = body[4] = body[6] = 1;
    memcpy(body + 8, &heap, sizeof heap);
    CHECK(found_old(sizeof bytes) == 1);
    /* a dataspace of two dimensions that may grow: by its word a header of 66 KB, or of 16 MB */
    for (unsigned version = 1; version <= 2; version++) {
        unsigned char *p = put_old(0, 0, version == 1 ? 0x10201 : 0x1010202) - 24;
        memset(p + 2, 0, 6);
        p[2] = 40;
        p[16] = 100; /* dimensions, and what they may become */
        p[24] = 50;
        memset(p + 32, 0xff, 16);
        p[48] = 3; /* a datatype */
        p[50] = 24;
        CHECK(found_old(1u << 30) == 0 && looked == 0);
    }
    put_old(0, 0, 100u << 20);
    CHECK(found_old(1u << 30) == XH_EXTERNAL_UNTOLD && looked == 0);
    /* a part of a header that is the next one, too: HDF5 reads on without an end */
    const uint64_t at = 528, len = 24;
    body = put_old(16, 16, 24);
    memcpy(body, &at, sizeof at);
    memcpy(body + 8, &len, sizeof len);
    CHECK(found_old(sizeof bytes) == XH_EXTERNAL_UNTOLD);
}

/* Later parts of headers that have a list, though none was there when their beginning was read. */
static void check_later(void)
{
    static const unsigned char super[] = "\x89HDF\r\n\x1a\n\x02\x08\x08";
    struct xh_external e = {.size = sizeof bytes, .look = look, .sure = 1};
    for (unsigned old = 0; old < 3; old++) {
        unsigned char *part = bytes + 512;
        memset(bytes, 0, sizeof bytes);
        memcpy(bytes, super, sizeof super);
        bytes[13] = bytes[14] = 8;
        bytes[8] = old ? 0 : 2;
        memcpy(bytes + 2048, "HEAP", 4);
        if (old == 0) {
            memcpy(part, "OCHK", 4);
            put_list(part + 4, 2048);
        } else { /* the second one begins as a header does, with a dataspace */
            part[0] = old == 2;
            part[2] = 8;
            part[16] = 7;
            part[18] = 40;
            part[24] = part[28] = part[30] = 1;
            part[33] = 2048 >> 8;
        }
        CHECK(xh_external_in_header(&e, 512, part, 64) == 1);
    }
}

/* Returns what is found of a list at |at| in a file of |size| bytes that is a part of another driver's: |end| is where
 * its superblock says that it ends, 0: it has none. */
static int found_in_part(uint64_t end, uint64_t size, uint64_t at, uint64_t heap)
{
    static const unsigned char super[] = "\x89HDF\r\n\x1a\n\x02\x08\x08";
    memset(bytes, 0, sizeof bytes);
    if (end)
        memcpy(bytes, super, sizeof super);
    memset(bytes + 20, 0xff, 8); /* no extension */
    memcpy(bytes + 28, &end, sizeof end);
    put_list(bytes + at, heap);
    struct xh_external e = {.size = size, .look = look};
    e.part = xh_external_is_part(&e);
    e.sure = !e.part;
    return e.part * 10 + xh_external_anywhere(&e, 512, bytes + 512, size - 512);
}

/* Whether a file with a superblock of |version|, which ends where the file does, counts as a part: |info| tells whether
 * it has driver information, and |at| where. */
static int is_part_with(unsigned version, int info, uint64_t at)
{
    const uint64_t end = sizeof bytes;
    uint64_t addr = info ? at : UINT64_MAX;
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "\x89HDF\r\n\x1a\n", 8);
    bytes[8] = (unsigned char)version;
    memset(bytes + (version < 2 ? 13 : 9), 8, 2);
    if (version < 2) {
        memcpy(bytes + 40, &end, 8);
        memcpy(bytes + 48, &addr, 8);
    } else {
        addr = info >= 0 ? at : UINT64_MAX;
        memcpy(bytes + 20, &addr, 8);
        memcpy(bytes + 28, &end, 8);
        memcpy(bytes + 1024, "OHDR\x02\0\x80", 7);
        bytes[1031] = 20;
        bytes[1032] = 100;
        memcpy(bytes + 1036, info ? "NCSAmult" : "NCSAxxxx", 8);
    }
    struct xh_external e = {.size = sizeof bytes, .look = look};
    return xh_external_is_part(&e);
}

/* What a header names lies in another part, and so may the rest of a list. */
static void check_parts(void)
{
    CHECK(is_part_with(0, 1, 1024) && !is_part_with(0, 0, 1024));
    for (unsigned version = 2; version <= 3; version++) {
        CHECK(is_part_with(version, 1, 1024) && is_part_with(version, 1, 1u << 20));
        CHECK(!is_part_with(version, 0, 1024) && !is_part_with(version, -1, 0));
    }
    CHECK(found_in_part(4096, 4000, 600, 1u << 20) == 11);
    CHECK(found_in_part(0, 4000, 600, 1u << 20) == 11);
    CHECK(found_in_part(4000, 4000, 600, 1u << 20) == 0);
    for (uint64_t size = 601; size < 612; size++)
        CHECK(found_in_part(0, size, 600, 2048) == 10 + XH_EXTERNAL_UNTOLD);
    CHECK(found_in_part(0, 600, 600, 2048) == 10);
    struct xh_external e = {.size = 2 * sizeof bytes, .look = look};
    memset(bytes, 0, sizeof bytes);
    CHECK(xh_external_is_part(&e) == XH_EXTERNAL_UNTOLD); /* what may be a superblock cannot be read */
}

/* Puts the multi driver's data at |p|, as of a file with one part |template|. Returns how long it is. */
static size_t put_parts(unsigned char *p, const char *template)
{
    memset(p, 1, 6);
    strcpy((char *)p + 24, template);
    return 24 + (strlen(template) + 8) / 8 * 8;
}

/* How driver information in a message behind |before| bytes of an object header is taken, or in a block, |old|. */
static int named(const char *template, enum xh_external_parts parts, int old, size_t before)
{
    unsigned char *p = bytes + 512;
    memset(bytes, 0, sizeof bytes);
    struct xh_external e = {.size = sizeof bytes, .look = look, .sure = 1, .parts = parts};
    if (old) {
        memcpy(p + 8, "NCSAmult", 8);
        put_parts(p + 16, template);
        int rc = xh_external_in_block(&e, 512, p, 16);
        CHECK(xh_external_is_block(p, 16) && rc == xh_external_in_block(&e, 512, p, 1000));
        CHECK(rc == xh_external_in_names(&e, p + 16, 512));
        return rc;
    }
    memcpy(p, "OHDR\x02\x01", 6);
    p[6] = 0xff;
    p[7] = 3;
    p += 8;
    if (before) {
        p[1] = (unsigned char)before; /* a message that is none */
        p[2] = (unsigned char)(before >> 8);
        p += 4 + before;
    }
    p[0] = 20;
    p[1] = 255;
    memcpy(p + 5, "NCSAmult", 8);
    put_parts(p + 15, template);
    int rc = xh_external_in_header(&e, 512, bytes + 512, 512), found = 0;
    for (size_t from = 0; from < 1024; from += 16)
        found |= xh_external_anywhere(&e, 512 + from, bytes + 512 + from, 16);
    CHECK(found == rc);
    return rc;
}

/* Driver information: which parts a file may name. */
static void check_names(void)
{
    char longer[300];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    for (int old = 0; old < 2; old++) {
        CHECK(named("%s-r.h5", XH_PARTS_BESIDE, old, 0) == 0 && named("%s-r.h5", XH_PARTS_LOCAL, old, 0) == 0);
        CHECK(named("%s-r.h5", XH_PARTS_NONE, old, 0) == XH_EXTERNAL_PARTS);
        CHECK(named("/etc/passwd", XH_PARTS_BESIDE, old, 0) == XH_EXTERNAL_PARTS);
        CHECK(named("/etc/passwd", XH_PARTS_LOCAL, old, 0) == 0 && named("/etc/passwd", XH_PARTS_ANY, old, 0) == 0);
        CHECK(named("near-r.h5", XH_PARTS_BESIDE, old, 0) == XH_EXTERNAL_PARTS);
        for (int parts = XH_PARTS_BESIDE; parts <= XH_PARTS_LOCAL; parts++) {
            CHECK(named("https://h/x", (enum xh_external_parts)parts, old, 0) == XH_EXTERNAL_PARTS);
            CHECK(named("%.0shttps://h/x", (enum xh_external_parts)parts, old, 0) == XH_EXTERNAL_PARTS);
            CHECK(named("%s%n", (enum xh_external_parts)parts, old, 0) == XH_EXTERNAL_PARTS);
            CHECK(named("%s/../x", (enum xh_external_parts)parts, old, 0) == XH_EXTERNAL_PARTS);
            CHECK(named(longer, (enum xh_external_parts)parts, old, 0) == XH_EXTERNAL_PARTS);
        }
    }
    for (size_t before = 480; before < 504; before++) /* beyond what HDF5 reads of a header first */
        CHECK(named("/etc/passwd", XH_PARTS_BESIDE, 0, before) == XH_EXTERNAL_PARTS);
    /* an attribute that only mentions the driver */
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes + 512, "OHDR\x02\0\xc8\x0c\x80", 9);
    memcpy(bytes + 600, "NCSAmulti", 9);
    struct xh_external e = {.size = sizeof bytes, .look = look, .sure = 1, .parts = XH_PARTS_BESIDE};
    CHECK(xh_external_in_header(&e, 512, bytes + 512, 512) == 0);
}

int main(void)
{
    check_names();
    CHECK(found(8, 8, 2048, 0, 1));
    CHECK(!found(8, 8, 100, 0, 1));
    CHECK(found(16, 8, 2048, 1, 1)); /* HDF5 passes over the ninth byte */
    CHECK(found(32, 8, 2048, 0, 1));
    CHECK(found(8, 16, 2048, 0, 1) == XH_EXTERNAL_UNTOLD);
    CHECK(found(8, 32, 2048, 0, 1) == XH_EXTERNAL_UNTOLD);
    CHECK(found(8, 255, 2048, 0, 1) == XH_EXTERNAL_UNTOLD);
    CHECK(found(255, 8, 2048, 0, 1) == XH_EXTERNAL_UNTOLD);
    CHECK(!found(8, 8, 1u << 20, 0, 1));
    CHECK(found(8, 8, 1u << 20, 0, 0)); /* an image brings a heap from behind the end */
    CHECK(!found(8, 8, UINT64_MAX, 0, 0));
    check_old();
    check_parts();
    check_later();
    return 0;
}
