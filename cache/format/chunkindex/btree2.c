/* B-tree version 2 with records of type 10 (chunks without filters) and 11 (chunks with filters): the index of datasets
 * with several unlimited dimensions (HDF5 File Format Specification, III.A.2). Inner nodes hold records too: record i
 * lies between child i and child i + 1. Every pointer gives the number of records below it, so ranks are exact from the
 * header on. */
#include "btree2.h"

#include <string.h>

#include "base/hdf5.h"

static uint8_t bytes_for(uint64_t n)
{
    uint8_t b = 1;
    while (n >>= 8)
        b++;
    return b;
}

int xh_btree2_widths(struct xh_format *f, unsigned depth)
{
    if (f->node_bytes <= XH_HDF5_FRAME_BYTES + f->elem)
        return -1;
    uint64_t most = (f->node_bytes - XH_HDF5_FRAME_BYTES) / f->elem, below = most;
    f->count_bytes = bytes_for(most);
    for (unsigned u = 1; u <= depth; u++) {
        uint32_t pointer = 0u + f->O + f->count_bytes + f->total_bytes[u - 1];
        if (f->node_bytes < XH_HDF5_FRAME_BYTES + pointer)
            return -1;
        most = (f->node_bytes - XH_HDF5_FRAME_BYTES - pointer) / (f->elem + pointer);
        if (most == 0 || below > (uint64_t)XH_RANK_MAX / (most + 2))
            return -1;
        below = (most + 1) * below + most;
        f->total_bytes[u] = bytes_for(below);
    }
    return 0;
}

/* Takes the pointer |p| to a node at |level|: its address, the number of its records in |count_bytes|, and where
 * |total_bytes| is not 0 that of all below it. */
static int child(const struct xh_format *f, const uint8_t *p, unsigned level, unsigned count_bytes,
                 unsigned total_bytes, struct xh_parts *ps)
{
    uint64_t n = xh_le(p + f->O, count_bytes), all = total_bytes ? xh_le(p + f->O + count_bytes, total_bytes) : n;
    if (n == 0 || all < n)
        return -1;
    return xh_parts_node(ps, (struct xh_node){.addr = xh_addr(f, p), .len = f->node_bytes, .kind = XH_NODE_BT2,
                                              .level = (uint8_t)level, .records = n}, all);
}

int xh_btree2_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps)
{
    const struct xh_format *f = &ps->ix->fmt;
    uint64_t n = node->records, records = n * f->elem;
    uint32_t pointer = node->level ? 0u + f->O + f->count_bytes + f->total_bytes[node->level - 1] : 0;
    if (len > node->len)
        len = node->len;
    if (len < XH_HDF5_FRAME_BYTES || memcmp(p, node->level ? "BTIN" : "BTLF", 4) != 0 || p[4] != 0)
        return -1;
    if (n > len || records + (node->level ? (n + 1) * pointer : 0) > len - XH_HDF5_FRAME_BYTES)
        return -1;
    p += 6;
    if (node->level == 0)
        return xh_parts_elements(ps, p, n);
    const uint8_t *to = p + records;
    for (uint64_t i = 0; i <= n; i++, to += pointer) {
        if (child(f, to, node->level - 1u, f->count_bytes, f->total_bytes[node->level - 1], ps))
            return -1;
        if (i < n && xh_parts_elements(ps, p + i * f->elem, 1))
            return -1;
    }
    return 0;
}

int xh_btree2_root(const uint8_t *p, size_t len, struct xh_parts *ps)
{
    struct xh_format *f = &ps->ix->fmt;
    if (len < 16u + f->O + 2u + f->L || p[4] != 0 || (p[5] != 10 && p[5] != 11))
        return -1;
    f->node_bytes = (uint32_t)xh_le(p + 6, 4);
    f->elem = (uint32_t)xh_le(p + 10, 2);
    unsigned depth = (unsigned)xh_le(p + 12, 2);
    /* Address; with filters, size (1 to 8) and mask (4); then 8 bytes for each dimension. */
    uint32_t least = 0u + f->O + (p[5] == 11 ? 5 : 0) + 8;
    if (f->elem < least || depth >= sizeof f->total_bytes || f->node_bytes > XH_NODE_MAX)
        return -1;
    if (p[5] == 11)
        f->size_bytes = (uint8_t)((f->elem - f->O - 5) % 8 + 1);
    if (xh_btree2_widths(f, depth))
        return -1;
    return child(f, p + 16, depth, 2, f->L, ps);
}
