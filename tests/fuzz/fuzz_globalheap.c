/* Raw data that may hold descriptors of values of variable length, and the collections that these name. The input is a
 * file: its first bytes say which pieces of it are read. */
#include <string.h>

#include "format/globalheap.h"
#include "fuzz.h"

enum { READS = 64, ROOM = 16, SPARE = 100000 };

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    if (size < 4 * READS)
        return 0;
    const struct xh_heap_limits lim = {.spare_bytes = SPARE, .block_bytes = UINT64_MAX};
    const unsigned widths[] = {2, 4, 8, 0};
    struct xh_meta_format format = {.size = size, .offset_bytes = widths[p[0] & 3], .length_bytes = widths[p[1] % 3],
                                    .base = p[2] & 7};
    struct xh_globalheap *g = xh_globalheap_new(size);
    struct xh_range out[ROOM], last = {0, 0};
    uint64_t asked = 0, used = 0;
    hold(g != NULL, "out of memory");
    for (int i = 0; i < READS; i++) {
        uint64_t off = (uint64_t)(p[4 * i] | p[4 * i + 1] << 8 | p[4 * i + 2] << 16) % size, len = 16u * p[4 * i + 3];
        if (p[4 * i + 3] & 1 && last.len) /* as HDF5 does: what was named */
            off = last.off, len = 4096;
        len = xh_min64(len, size - off);
        uint8_t *copy = malloc(len ? len : 1); /* just these bytes */
        hold(copy != NULL, "out of memory");
        memcpy(copy, p + off, len);
        used += xh_globalheap_reads(g, (struct xh_range){off, len}) ? len : 0;
        xh_globalheap_saw(g, &format, &(struct xh_extent){off, len, copy}, 1);
        free(copy);
        size_t n = xh_globalheap_next(g, &lim, out, ROOM);
        hold(n <= ROOM, "more ranges than there is room for");
        for (size_t k = 0; k < n; k++)
            asked += out[k].len;
        hold(asked <= SPARE + 3 * used, "more than can be spared");
        for (size_t k = 0; k < n; k++)
            hold(out[k].len && out[k].len <= size && out[k].off <= size - out[k].len, "a range outside the object");
        last = n ? out[0] : last;
        for (uint64_t at = 0; len >= 16 && at + 16 <= len && !n; at += 16) { /* before anything is trusted */
            uint64_t named = p[off + at + 4] | (uint64_t)p[off + at + 5] << 8 | (uint64_t)p[off + at + 6] << 16;
            last = named < size ? (struct xh_range){named, 1} : last;
        }
    }
    xh_globalheap_free(g);
    return 0;
}
