/* Hostile superblocks, and lists of external files that HDF5 finds where a careless look does not. */
#include "check.h"
#include "external.h"

static unsigned char bytes[4096];

static int look(void *ctx, uint64_t off, void *buf, size_t len)
{
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

/* Looks at an object header with two lists, in a file whose superblock names such widths. |high|: of the ninth byte of an address. */
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

int main(void)
{
    CHECK(found(8, 8, 2048, 0, 1));
    CHECK(!found(8, 8, 100, 0, 1));
    CHECK(found(16, 8, 2048, 1, 1)); /* HDF5 passes over the ninth byte */
    CHECK(found(32, 8, 2048, 0, 1));
    CHECK(found(8, 16, 2048, 0, 1));
    CHECK(found(8, 32, 2048, 0, 1));
    CHECK(found(8, 255, 2048, 0, 1));
    CHECK(found(255, 8, 2048, 0, 1));
    CHECK(!found(8, 8, 1u << 20, 0, 1));
    CHECK(found(8, 8, 1u << 20, 0, 0)); /* an image brings a heap from behind the end */
    CHECK(!found(8, 8, UINT64_MAX, 0, 0));
    return 0;
}
