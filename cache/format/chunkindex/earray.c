/* Extensible array: the index of datasets with one unlimited dimension (HDF5 File Format Specification, VII.D). The
 * index block holds the first elements, the addresses of the first data blocks, and those of the super blocks. A super
 * block holds the addresses of more data blocks. Super block |u| has 2^(u/2) data blocks of 2^((u+1)/2) times the least
 * number of elements, with exponents rounded down. The first super blocks exist only as addresses in the index block.
 * Long data blocks are cut into pages without a signature; their super block tells which pages were written. */
#include "earray.h"

#include <string.h>

#include "base/hdf5.h"

static uint64_t blocks_of(unsigned super)
{
    return 1ull << super / 2;
}

static uint64_t block_elems(const struct xh_format *f, unsigned super)
{
    return (uint64_t)f->least_elems << (super + 1) / 2;
}

/* Bits of the page map for one data block; 0 when it has no pages. */
static uint64_t pages_of(const struct xh_format *f, unsigned super)
{
    uint64_t n = block_elems(f, super);
    return n > f->page_elems ? n / f->page_elems : 0;
}

/* Number of super blocks whose data blocks are addressed by the index block itself. */
static unsigned supers_in_index(const struct xh_format *f)
{
    return 2 * (unsigned)__builtin_ctz(f->least_blocks);
}

static uint64_t super_bytes(const struct xh_format *f, unsigned super)
{
    uint64_t map = (pages_of(f, super) + 7) / 8;
    return XH_HDF5_FRAME_BYTES + f->O + f->off_bytes + blocks_of(super) * (map + f->O);
}

/* Returns |bytes| as the length of a node; 0, which is no node, when there are too many. */
static uint32_t node_len(uint64_t bytes)
{
    return bytes > XH_NODE_MAX ? 0 : (uint32_t)bytes;
}

static int block(const struct xh_format *f, uint64_t addr, unsigned super, struct xh_parts *ps)
{
    uint64_t n = block_elems(f, super);
    uint64_t bytes = XH_HDF5_FRAME_BYTES + f->O + f->off_bytes + n * f->elem;
    return xh_parts_node(ps, (struct xh_node){.addr = addr, .len = node_len(bytes), .kind = XH_NODE_EA_BLOCK,
                                              .level = (uint8_t)super, .records = n}, n);
}

/* Appends the pages of data block |d| of a super block with the page map |map|. */
static int pages(const struct xh_format *f, uint64_t addr, unsigned super, uint64_t d, const uint8_t *map,
                 struct xh_parts *ps)
{
    if (addr == XH_UNDEF || addr > ps->ix->map->size)
        return xh_parts_hole(ps, block_elems(f, super));
    return xh_parts_pages(ps, addr + XH_HDF5_FRAME_BYTES + f->O + f->off_bytes, block_elems(f, super), map,
                          d * pages_of(f, super));
}

static int index_block(const struct xh_format *f, const uint8_t *p, struct xh_parts *ps)
{
    p += 6 + f->O;
    if (f->inline_elems && xh_parts_elements(ps, p, f->inline_elems))
        return -1;
    p += (uint64_t)f->inline_elems * f->elem;
    for (unsigned u = 0; u < supers_in_index(f); u++)
        for (uint64_t i = 0; i < blocks_of(u); i++, p += f->O)
            if (block(f, xh_addr(f, p), u, ps))
                return -1;
    for (unsigned u = supers_in_index(f); u < f->nsupers; u++, p += f->O) {
        struct xh_node super = {.addr = xh_addr(f, p), .len = node_len(super_bytes(f, u)),
                                .kind = XH_NODE_EA_SUPER, .level = (uint8_t)u};
        if (xh_parts_node(ps, super, blocks_of(u) * block_elems(f, u)))
            return -1;
    }
    return 0;
}

static int super_block(const struct xh_format *f, const uint8_t *p, unsigned super, struct xh_parts *ps)
{
    uint64_t map_bytes = blocks_of(super) * ((pages_of(f, super) + 7) / 8);
    const uint8_t *map = p + 6 + f->O + f->off_bytes, *addr = map + map_bytes;
    for (uint64_t d = 0; d < blocks_of(super); d++, addr += f->O)
        if (map_bytes ? pages(f, xh_addr(f, addr), super, d, map, ps) : block(f, xh_addr(f, addr), super, ps))
            return -1;
    return 0;
}

int xh_earray_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps)
{
    const struct xh_format *f = &ps->ix->fmt;
    if (len < node->len || p[4] != 0)
        return -1;
    if (node->kind == XH_NODE_EA_INDEX && memcmp(p, "EAIB", 4) == 0)
        return index_block(f, p, ps);
    if (node->kind == XH_NODE_EA_SUPER && memcmp(p, "EASB", 4) == 0)
        return super_block(f, p, node->level, ps);
    if (node->kind == XH_NODE_EA_BLOCK && memcmp(p, "EADB", 4) == 0)
        return xh_parts_elements(ps, p + 6 + f->O + f->off_bytes, node->records);
    return -1;
}

static int power_of_two(uint32_t n)
{
    return n && (n & (n - 1)) == 0;
}

int xh_earray_root(const uint8_t *p, size_t len, struct xh_parts *ps)
{
    struct xh_format *f = &ps->ix->fmt;
    if (len < 16u + 6u * f->L + f->O || xh_format_elements(f, p))
        return -1;
    unsigned bits = p[7];
    f->inline_elems = p[8];
    f->least_elems = p[9];
    f->least_blocks = p[10];
    if (bits > 56 || p[11] > 20 || !power_of_two(f->least_elems) || !power_of_two(f->least_blocks))
        return -1;
    unsigned least_bits = (unsigned)__builtin_ctz(f->least_elems);
    if (bits < least_bits || 1 + bits - least_bits < supers_in_index(f))
        return -1;
    f->nsupers = (uint8_t)(1 + bits - least_bits);
    f->off_bytes = (uint8_t)((bits + 7) / 8);
    f->page_elems = 1ull << p[11];
    uint64_t addresses = 2 * (f->least_blocks - 1) + f->nsupers - supers_in_index(f);
    uint64_t bytes = XH_HDF5_FRAME_BYTES + f->O + f->inline_elems * f->elem + addresses * f->O;
    uint64_t all = f->inline_elems + ((uint64_t)f->least_elems << f->nsupers) - f->least_elems;
    return xh_parts_node(ps, (struct xh_node){.addr = xh_addr(f, p + 12 + 6 * f->L), .len = node_len(bytes),
                                              .kind = XH_NODE_EA_INDEX}, all);
}
