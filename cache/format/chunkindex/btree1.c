/* B-tree version 1, type 1: the index of chunked datasets in files of the earliest format (HDF5 File Format
 * Specification, III.A.1). A node gives neither the dataset's rank nor K. Both are guessed from the node's length; if
 * the keys then do not ascend, the guess was wrong. */
#include "btree1.h"

#include <string.h>

/* Bytes of a key: size (4), filter mask (4), and 8 for the offset in each dimension. The last dimension is the element;
 * its offset is always 0. */
#define KEY_BYTES(dims) (8 + 8 * (dims))

/* 1 when the offsets of key |a| come before those of |b|. */
static int before(const uint8_t *a, const uint8_t *b, uint32_t key)
{
    for (uint32_t i = 8; i < key; i += 8) {
        uint64_t x = xh_le(a + i, 8), y = xh_le(b + i, 8);
        if (x != y)
            return x < y;
    }
    return 0;
}

static int keys_are_sound(const uint8_t *p, unsigned used, uint32_t step, uint32_t key)
{
    for (unsigned i = 0; i <= used; i++, p += step) {
        if (i < used && xh_le(p + key - 8, 8) != 0)
            return 0;
        if (i && !before(p - step, p, key))
            return 0;
    }
    return 1;
}

/* Returns the bytes of a key in this node, or 0. */
static uint32_t key_of(const struct xh_format *f, const uint8_t *p, size_t len, unsigned used)
{
    size_t head = 8 + 2 * (size_t)f->O;
    for (unsigned dims = 2; dims <= 33; dims++) {
        uint32_t key = KEY_BYTES(dims), step = key + f->O;
        if (len < head + key || (len - head - key) % (2 * (size_t)step))
            continue;
        if (used <= (len - head - key) / step && keys_are_sound(p + head, used, step, key))
            return key;
    }
    return 0;
}

static uint64_t chunks_below(unsigned level)
{
    /* The number is not stored. Nodes with K = 32 hold 32 to 64 children; reading them corrects it. */
    uint64_t n = 57;
    while (level-- && n < (1ull << 40))
        n *= 57;
    return n;
}

static int node_parts(const uint8_t *p, size_t len, unsigned level, struct xh_parts *ps)
{
    struct xh_format *f = &ps->ix->fmt;
    size_t head = 8 + 2 * (size_t)f->O;
    if (len < head || memcmp(p, "TREE", 4) != 0 || p[4] != 1 || p[5] != level)
        return -1;
    unsigned used = (unsigned)xh_le(p + 6, 2);
    uint32_t key = key_of(f, p, len, used);
    if (used == 0 || key == 0 || (f->key && key != f->key))
        return -1;
    f->key = key;
    struct xh_chunk *c = level == 0 ? xh_parts_chunks(ps, used) : NULL;
    if (level == 0 && !c)
        return -1;
    for (p += head; used--; p += key + f->O) {
        uint64_t addr = xh_addr(f, p + key);
        if (level == 0) {
            c->addr = addr;
            c++->size = xh_le(p, 4);
        } else if (xh_parts_node(ps, (struct xh_node){.addr = addr, .len = (uint32_t)len, .kind = XH_NODE_BT1,
                                                      .level = (uint8_t)(level - 1)},
                                 chunks_below(level - 1))) {
            return -1;
        }
    }
    return 0;
}

int xh_btree1_node(const struct xh_node *node, const uint8_t *p, size_t len, struct xh_parts *ps)
{
    return len < node->len ? -1 : node_parts(p, node->len, node->level, ps);
}

int xh_btree1_root(const uint8_t *p, size_t len, struct xh_parts *ps)
{
    return len < 8 || len > XH_NODE_MAX ? -1 : node_parts(p, len, p[5], ps);
}
