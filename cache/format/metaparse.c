/* Parsing metadata: see metaparse.h.
 *
 * Every field is read through a cursor that cannot leave its bytes. When a field does not fit, the cursor becomes |bad|
 * and returns zeros. The parser stops at its next check. */
#include "metaparse.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hdf5.h"
#include "base/table.h"
#include "chunkindex/btree2.h"

#define GLOBAL_HEAP_BYTES 4096u
#define ATTRIBUTE_ELEMENTS 16u /* most variable-length values of one attribute that are followed */
#define PAGE_BYTES_MAX (1u << 20)
/* of chunks' B-trees, unless the superblock says otherwise; the length is then a wrong hint */
#define CHUNK_K 32u

struct cursor {
    const uint8_t *p, *end;
    int bad;
};

struct parser {
    struct xh_meta_format *format;
    xh_meta_sink *sink;
    void *ctx;
    int stopped; /* the sink returned non-zero */
    int extension;
};

/* |detail| for blocks of a fractal heap, and for nodes of a version 2 B-tree. */
union detail {
    uint64_t word;
    struct {
        uint64_t links : 1, checksum : 1, width : 16, start_log2 : 8, direct_log2 : 8, offset_bits : 8, rows : 8;
    } heap;
    struct {
        uint64_t node_bytes : 24, record_bytes : 8, depth : 8, records : 16;
    } tree;
};

static uint64_t take(struct cursor *c, unsigned bytes)
{
    if (c->bad || (size_t)(c->end - c->p) < bytes) {
        c->bad = 1;
        return 0;
    }
    c->p += bytes;
    return xh_le(c->p - bytes, bytes);
}

static void skip(struct cursor *c, uint64_t bytes)
{
    if (c->bad || (uint64_t)(c->end - c->p) < bytes)
        c->bad = 1;
    else
        c->p += bytes;
}

static int signature(struct cursor *c, const char *text)
{
    if (c->bad || c->end - c->p < 4 || memcmp(c->p, text, 4) != 0) {
        c->bad = 1;
        return 0;
    }
    c->p += 4;
    return 1;
}

/* Reads an address. Returns UINT64_MAX when it is undefined, which is all ones in the file's width. */
static uint64_t address(const struct parser *s, struct cursor *c)
{
    unsigned n = s->format->offset_bytes;
    uint64_t v = take(c, n);
    return c->bad || (n < 8 && v == (1ull << 8 * n) - 1) ? UINT64_MAX : v;
}

/* Reports the structure at |addr|, unless it lies outside the object. |link|: stands for its link; NULL: it has
 * none. */
static void found_linked(struct parser *s, uint64_t addr, uint64_t len, enum xh_meta_kind kind, uint64_t detail,
                         const uint32_t *link)
{
    const struct xh_meta_format *f = s->format;
    if (s->stopped || len == 0 || addr >= f->size || f->base >= f->size - addr)
        return;
    uint64_t off = addr + f->base, left = f->size - off;
    if (len > left)
        len = left;
    if (len > UINT32_MAX)
        return;
    struct xh_meta_place place = {off, (uint32_t)len, kind, detail, link != NULL, link ? *link : 0};
    s->stopped = s->sink(s->ctx, &place);
}

static void found(struct parser *s, uint64_t addr, uint64_t len, enum xh_meta_kind kind, uint64_t detail)
{
    found_linked(s, addr, len, kind, detail, NULL);
}

static void found_header(struct parser *s, uint64_t addr, uint32_t link)
{
    found_linked(s, addr, XH_HDF5_SPECULATION_BYTES, XH_META_HEADER, 0, &link);
}

static uint64_t btree_bytes(const struct xh_meta_format *f)
{
    return 8 + 2 * f->offset_bytes + 2 * f->internal_k * (f->offset_bytes + f->length_bytes) + f->length_bytes;
}

static void found_symbol_table(struct parser *s, uint64_t btree, uint64_t heap, const uint32_t *link)
{
    /* Names first, then the objects that have them. */
    found_linked(s, heap, XH_HDF5_SPECULATION_BYTES, XH_META_LOCAL_HEAP, 0, link);
    found_linked(s, btree, btree_bytes(s->format), XH_META_BTREE, 0, link);
}

/* ---- groups, old style */

static void symbol_entry(struct parser *s, struct cursor *c)
{
    uint32_t link = take(c, s->format->offset_bytes) & UINT32_MAX; /* offset of the name in the local heap */
    uint64_t header = address(s, c);
    uint64_t cached = take(c, 4);
    skip(c, 4);
    struct cursor pad = *c;
    skip(c, 16);
    if (c->bad)
        return;
    found_header(s, header, link);
    if (cached == 1) {
        uint64_t btree = address(s, &pad), heap = address(s, &pad);
        found_symbol_table(s, btree, heap, &link);
    }
}

static void symbols(struct parser *s, struct cursor *c)
{
    if (!signature(c, "SNOD"))
        return;
    skip(c, 2);
    for (uint64_t n = take(c, 2); n > 0 && !c->bad && !s->stopped; n--)
        symbol_entry(s, c);
}

static void btree(struct parser *s, struct cursor *c)
{
    if (!signature(c, "TREE") || take(c, 1) != 0) /* type 1 is for chunks */
        return;
    uint64_t level = take(c, 1), n = take(c, 2);
    skip(c, 2 * s->format->offset_bytes);
    for (; n > 0 && !c->bad && !s->stopped; n--) {
        skip(c, s->format->length_bytes);
        uint64_t child = address(s, c);
        if (level > 0)
            found(s, child, btree_bytes(s->format), XH_META_BTREE, 0);
        else
            found(s, child, 8 + 2 * s->format->leaf_k * (2 * s->format->offset_bytes + 24), XH_META_SYMBOLS, 0);
    }
}

static void local_heap(struct parser *s, struct cursor *c)
{
    if (!signature(c, "HEAP"))
        return;
    skip(c, 4);
    uint64_t bytes = take(c, s->format->length_bytes);
    skip(c, s->format->length_bytes);
    uint64_t data = address(s, c);
    if (!c->bad)
        found(s, data, bytes, XH_META_BYTES, 0);
}

/* ---- messages */

/* Parses a link. Returns 0 when it is not one; |c| may then be anywhere. */
static int link_message(struct parser *s, struct cursor *c, int hard_only_check)
{
    uint64_t version = take(c, 1), flags = take(c, 1), type = 0;
    if (version != 1 || flags & ~0x1full)
        return 0;
    if (flags & 8)
        type = take(c, 1);
    if (flags & 4)
        skip(c, 8);
    if (flags & 16 && take(c, 1) > 1)
        return 0;
    uint64_t name = take(c, 1u << (flags & 3));
    const uint8_t *text = c->p;
    skip(c, name);
    if (c->bad || name == 0)
        return 0;
    if (type == 0) {
        uint32_t link;
        HASH_VALUE(text, name, link);
        uint64_t header = address(s, c);
        if (c->bad || (hard_only_check && header >= s->format->size))
            return 0;
        found_header(s, header, link);
    } else {
        if (type != 1 && type < 64)
            return 0;
        skip(c, take(c, 2));
    }
    return !c->bad;
}

/* Link info and attribute info: a heap and up to two B-trees. */
static void dense_info(struct parser *s, struct cursor *c, int links)
{
    uint64_t version = take(c, 1), flags = take(c, 1);
    if (version != 0)
        return;
    if (flags & 1)
        skip(c, links ? 8 : 2);
    uint64_t heap = address(s, c), names = address(s, c);
    uint64_t order = flags & 2 ? address(s, c) : UINT64_MAX;
    if (c->bad)
        return;
    unsigned o = s->format->offset_bytes, l = s->format->length_bytes;
    found(s, names, 22 + o + l, XH_META_BTREE2, 0); /* names first, then the objects that have them */
    found(s, order, 22 + o + l, XH_META_BTREE2, 0);
    found(s, heap, 22 + 12 * l + 3 * o + 4, XH_META_FRACTAL_HEAP, (uint64_t)links);
}

static uint64_t padded(uint64_t bytes, uint64_t version)
{
    return version == 1 ? (bytes + 7) & ~7ull : bytes;
}

/* An attribute with values of variable length names the global heaps that hold them. */
static void attribute(struct parser *s, struct cursor *c)
{
    uint64_t version = take(c, 1), flags = take(c, 1);
    uint64_t name = take(c, 2), type = take(c, 2), space = take(c, 2);
    if (version < 1 || version > 3 || (version > 1 && flags))
        return;
    if (version == 3)
        skip(c, 1);
    skip(c, padded(name, version));
    struct cursor t = *c;
    skip(c, padded(type, version) + padded(space, version));
    if ((take(&t, 1) & 15) != 9)
        return;
    uint64_t last = UINT64_MAX;
    for (unsigned i = 0; i < ATTRIBUTE_ELEMENTS; i++) {
        skip(c, 4);
        uint64_t heap = address(s, c);
        skip(c, 4);
        if (c->bad)
            return;
        if (heap != last && heap != 0)
            found(s, heap, GLOBAL_HEAP_BYTES, XH_META_BYTES, 0);
        last = heap;
    }
}

/* File space info: the page size of a file in paged aggregation. */
static void file_space(struct parser *s, struct cursor *c)
{
    uint64_t version = take(c, 1), strategy = take(c, 1);
    skip(c, 1 + s->format->length_bytes);
    uint64_t page = take(c, s->format->length_bytes);
    if (!c->bad && version == 1 && strategy == 1 && page >= 512 && page <= PAGE_BYTES_MAX && (page & (page - 1)) == 0)
        s->format->page_bytes = page;
}

/* Reports a node of a dataset's chunk index. |key|: bytes of a key. */
static void found_index(struct parser *s, uint64_t addr, uint64_t key)
{
    unsigned o = s->format->offset_bytes;
    found(s, addr, 8 + 2 * o + (2 * CHUNK_K + 1) * key + 2 * CHUNK_K * o, XH_META_INDEX, key);
}

/* Layout message, as every library since 1.6.3 writes it. Class 1 is contiguous, 2 is chunked (in version 3 with a
 * version 1 B-tree). */
static void layout(struct parser *s, struct cursor *c)
{
    uint64_t version = take(c, 1), class = take(c, 1);
    if (version == 3 && class == 2) {
        uint64_t dimensions = take(c, 1), index = address(s, c); /* one more than the dataset has: the element */
        if (!c->bad && dimensions >= 2 && dimensions <= 33)
            found_index(s, index, 8 + 8 * dimensions);
        return;
    }
    uint64_t addr = address(s, c), bytes = take(c, s->format->length_bytes);
    if (!c->bad && version >= 3 && version <= 5 && class == 1)
        found(s, addr, 1, XH_META_DATA, bytes);
}

static void message(struct parser *s, uint64_t type, struct cursor c, int version, uint64_t flags)
{
    uint64_t a, b;
    switch (type) {
    case 0x02: dense_info(s, &c, 1); break;
    case 0x15: dense_info(s, &c, 0); break;
    case 0x06: link_message(s, &c, 0); break;
    case 0x08: layout(s, &c); break;
    case 0x0c: attribute(s, &c); break;
    case 0x10:
        a = address(s, &c);
        b = take(&c, s->format->length_bytes);
        if (!c.bad)
            found(s, a, b, version == 1 ? XH_META_CHUNK : XH_META_CHUNK2, flags);
        break;
    case 0x11:
        a = address(s, &c);
        b = address(s, &c);
        if (!c.bad)
            found_symbol_table(s, a, b, NULL);
        break;
    case 0x17:
        if (s->extension)
            file_space(s, &c);
        break;
    default: break;
    }
}

static void messages(struct parser *s, struct cursor *c, int version, uint64_t flags)
{
    while (!s->stopped) {
        uint64_t type = take(c, version == 1 ? 2 : 1), bytes = take(c, 2), shared = take(c, 1) & 2;
        skip(c, version == 1 ? 3 : flags & 4 ? 2 : 0);
        struct cursor body = *c;
        skip(c, bytes);
        if (c->bad)
            return;
        body.end = c->p;
        if (!shared)
            message(s, type, body, version, flags);
    }
}

static void header(struct parser *s, const struct xh_meta_place *at, struct cursor *c)
{
    const uint8_t *start = c->p;
    uint64_t flags = 0, bytes;
    int version = 2;
    if (c->end - c->p >= 4 && memcmp(c->p, "OHDR", 4) == 0) {
        skip(c, 4);
        if (take(c, 1) != 2)
            return;
        flags = take(c, 1);
        skip(c, (flags & 32 ? 16 : 0) + (flags & 16 ? 4 : 0));
        bytes = take(c, 1u << (flags & 3));
    } else {
        version = 1;
        if (take(c, 1) != 1 || take(c, 1) != 0)
            return;
        skip(c, 6);
        bytes = take(c, 4);
        skip(c, 4);
    }
    if (c->bad)
        return;
    if (bytes > (uint64_t)(c->end - c->p)) { /* longer than the bytes that were read first */
        uint64_t off = at->off + (uint64_t)(c->p - start) - s->format->base;
        found(s, off, bytes, version == 1 ? XH_META_CHUNK : XH_META_CHUNK2, flags | 256);
        return;
    }
    c->end = c->p + bytes;
    messages(s, c, version, flags);
}

/* |detail| bit 8: the rest of a version 2 header's first chunk, which has no signature. */
static void chunk2(struct parser *s, struct cursor *c, uint64_t detail)
{
    if (!(detail & 256)) {
        if (!signature(c, "OCHK") || c->end - c->p < 4)
            return;
        c->end -= 4; /* checksum */
    }
    messages(s, c, 2, detail & 255);
}

/* ---- groups and attributes, new style */

static unsigned log2_of(uint64_t v)
{
    unsigned n = 0;
    while (v >>= 1)
        n++;
    return n;
}

static uint64_t block_head_bytes(const struct xh_meta_format *f, union detail d)
{
    return 5 + f->offset_bytes + (d.heap.offset_bits + 7u) / 8;
}

/* Reports the entries of |rows| rows: first direct blocks, whose sizes double from the third row on, then indirect
 * blocks. */
static void found_rows(struct parser *s, struct cursor *c, union detail d, unsigned rows)
{
    for (unsigned row = 0; row < rows; row++) {
        unsigned bytes_log2 = d.heap.start_log2 + (row ? row - 1 : 0);
        union detail child = d;
        int direct = bytes_log2 <= d.heap.direct_log2;
        /* An indirect block's size determines its number of rows. */
        unsigned below = bytes_log2 + 1u - d.heap.start_log2 - log2_of(d.heap.width);
        child.heap.rows = direct || below > 255 ? 0 : below & 255;
        uint64_t bytes =
            direct ? 1ull << bytes_log2
                   : block_head_bytes(s->format, d) + (uint64_t)below * d.heap.width * s->format->offset_bytes + 4;
        for (unsigned i = 0; i < d.heap.width; i++) {
            uint64_t addr = address(s, c);
            if (c->bad || s->stopped)
                return;
            if (direct || child.heap.rows)
                found(s, addr, bytes, direct ? XH_META_DIRECT : XH_META_INDIRECT, child.word);
        }
    }
}

static void fractal_heap(struct parser *s, struct cursor *c, int links)
{
    unsigned o = s->format->offset_bytes, l = s->format->length_bytes;
    union detail d = {0};
    if (!signature(c, "FRHP"))
        return;
    skip(c, 1 + 2);
    uint64_t filters = take(c, 2), flags = take(c, 1);
    skip(c, 4 + 2 * l + 2 * o + 8 * l);
    uint64_t width = take(c, 2), start = take(c, l), direct = take(c, l), bits = take(c, 2);
    skip(c, 2);
    uint64_t root = address(s, c), rows = take(c, 2);
    if (c->bad || filters || width == 0 || width > 1024 || start < 64 || direct < start || direct > 1u << 24 ||
        bits > 64 || rows > 255)
        return;
    d.heap.links = (uint64_t)links & 1;
    d.heap.checksum = flags >> 1 & 1;
    d.heap.width = width & 0xffff;
    d.heap.start_log2 = log2_of(start) & 255;
    d.heap.direct_log2 = log2_of(direct) & 255;
    d.heap.offset_bits = bits & 255;
    d.heap.rows = rows & 255;
    if (rows == 0)
        found(s, root, start, XH_META_DIRECT, d.word);
    else
        found(s, root, block_head_bytes(s->format, d) + rows * width * o + 4, XH_META_INDIRECT, d.word);
}

static void indirect(struct parser *s, struct cursor *c, union detail d)
{
    if (!signature(c, "FHIB") || d.heap.width == 0)
        return;
    skip(c, block_head_bytes(s->format, d) - 4);
    found_rows(s, c, d, d.heap.rows);
}

/* Links lie one behind the other. Deleted links leave arbitrary bytes between them. */
static void direct(struct parser *s, struct cursor *c, union detail d)
{
    if (!signature(c, "FHDB") || !d.heap.links)
        return;
    skip(c, block_head_bytes(s->format, d) - 4 + (d.heap.checksum ? 4 : 0));
    while (!c->bad && !s->stopped && c->p < c->end) {
        struct cursor link = *c;
        if (link_message(s, &link, 1))
            *c = link;
        else
            c->p++;
    }
}

static void btree2(struct parser *s, struct cursor *c)
{
    union detail d = {0};
    if (!signature(c, "BTHD"))
        return;
    skip(c, 1);
    uint64_t type = take(c, 1), node = take(c, 4), record = take(c, 2), depth = take(c, 2);
    skip(c, 2);
    uint64_t root = address(s, c), n = take(c, 2);
    if (c->bad || type < 5 || type > 9 || node < 64 || node > XH_META_PARSE_MAX || record == 0 || record > 64 ||
        depth > 8)
        return;
    d.tree.node_bytes = node & 0xffffff;
    d.tree.record_bytes = record & 255;
    d.tree.depth = depth & 255;
    d.tree.records = n & 0xffff;
    found(s, root, node, XH_META_BTREE2_NODE, d.word);
}

static void btree2_node(struct parser *s, struct cursor *c, union detail d)
{
    unsigned depth = (unsigned)d.tree.depth, o = s->format->offset_bytes;
    if (depth == 0 || !signature(c, "BTIN"))
        return;
    struct xh_format f = {.O = (uint8_t)o, .elem = d.tree.record_bytes, .node_bytes = d.tree.node_bytes};
    if (xh_btree2_widths(&f, depth - 1))
        return;
    skip(c, 2 + (uint64_t)d.tree.records * d.tree.record_bytes);
    union detail child = d;
    child.tree.depth = (depth - 1) & 255;
    for (uint64_t i = 0; i <= d.tree.records && !s->stopped; i++) {
        uint64_t addr = address(s, c), n = take(c, f.count_bytes);
        skip(c, f.total_bytes[depth - 1]);
        if (c->bad)
            return;
        child.tree.records = n & 0xffff;
        found(s, addr, d.tree.node_bytes, XH_META_BTREE2_NODE, child.word);
    }
}

static void chunk_index(struct parser *s, struct cursor *c, uint64_t key)
{
    if (!signature(c, "TREE") || take(c, 1) != 1 || take(c, 1) == 0)
        return; /* a leaf names only chunks */
    uint64_t used = take(c, 2);
    skip(c, 2ull * s->format->offset_bytes);
    for (uint64_t i = 0; i < used && i < 2 * CHUNK_K && !s->stopped; i++) {
        skip(c, key);
        uint64_t addr = address(s, c);
        if (c->bad)
            return;
        found_index(s, addr, key);
    }
}

/* ---- public functions */

void xh_meta_parse(struct xh_meta_format *format, const struct xh_meta_place *at, const uint8_t *p, size_t len,
                   xh_meta_sink *sink, void *ctx)
{
    struct parser s = {.format = format, .sink = sink, .ctx = ctx, .extension = at->kind == XH_META_EXTENSION};
    struct cursor c = {p, p + len, 0};
    union detail d = {.word = at->detail};
    switch (at->kind) {
    case XH_META_HEADER: case XH_META_EXTENSION: header(&s, at, &c); break;
    case XH_META_CHUNK: messages(&s, &c, 1, 0); break;
    case XH_META_CHUNK2: chunk2(&s, &c, at->detail); break;
    case XH_META_BTREE: btree(&s, &c); break;
    case XH_META_SYMBOLS: symbols(&s, &c); break;
    case XH_META_LOCAL_HEAP: local_heap(&s, &c); break;
    case XH_META_FRACTAL_HEAP: fractal_heap(&s, &c, at->detail & 1); break;
    case XH_META_INDIRECT: indirect(&s, &c, d); break;
    case XH_META_DIRECT: direct(&s, &c, d); break;
    case XH_META_BTREE2: btree2(&s, &c); break;
    case XH_META_BTREE2_NODE: btree2_node(&s, &c, d); break;
    case XH_META_INDEX: chunk_index(&s, &c, at->detail); break;
    case XH_META_BYTES: case XH_META_DATA: break;
    }
}

static int width_ok(unsigned bytes)
{
    return bytes == 2 || bytes == 4 || bytes == 8;
}

int xh_meta_superblock(const uint8_t *p, size_t len, uint64_t at, uint64_t size, struct xh_meta_format *out,
                       xh_meta_sink *sink, void *ctx)
{
    struct xh_meta_format f = {.base = at, .size = size, .leaf_k = 4, .internal_k = 16};
    struct parser s = {.format = &f, .sink = sink, .ctx = ctx};
    struct cursor c = {p, p + len, 0};
    if (len < 16 || !xh_hdf5_is_signed(p) || p[8] > 3)
        return 0;
    unsigned version = p[8];
    f.offset_bytes = version < 2 ? p[13] : p[9];
    f.length_bytes = version < 2 ? p[14] : p[10];
    if (!width_ok(f.offset_bytes) || !width_ok(f.length_bytes))
        return 0;
    skip(&c, version < 2 ? 16 : 12);
    if (version < 2) {
        f.leaf_k = (unsigned)take(&c, 2);
        f.internal_k = (unsigned)take(&c, 2);
        skip(&c, version == 1 ? 8 : 4);
    }
    skip(&c, f.offset_bytes); /* the base: 0 where a user block was added later, and means the superblock's place */
    uint64_t extension = address(&s, &c);
    skip(&c, f.offset_bytes);
    if (version < 2)
        skip(&c, f.offset_bytes); /* driver information */
    if (c.bad || f.leaf_k == 0 || f.internal_k == 0)
        return 0;
    if (version < 2) {
        symbol_entry(&s, &c);
    } else {
        uint64_t root = address(&s, &c);
        found(&s, extension, XH_HDF5_SPECULATION_BYTES, XH_META_EXTENSION, 0);
        found_header(&s, root, 0);
    }
    *out = f;
    return 1;
}

int xh_meta_recognise(const struct xh_meta_format *f, uint64_t off, const uint8_t *p, size_t len,
                      struct xh_meta_place *out)
{
    static const struct {
        char text[5];
        enum xh_meta_kind kind;
    } known[] = {
        {"OHDR", XH_META_HEADER}, {"TREE", XH_META_BTREE}, {"SNOD", XH_META_SYMBOLS}, {"HEAP", XH_META_LOCAL_HEAP}};
    if (len < 16 || off >= f->size || len > XH_META_PARSE_MAX)
        return 0;
    struct xh_meta_place place = {.off = off, .len = (uint32_t)len, .kind = XH_META_HEADER};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (memcmp(p, known[i].text, 4) == 0) {
            place.kind = known[i].kind;
            *out = place;
            return 1;
        }
    /* A version 1 header has no signature: version, zero, number of messages, number of references. */
    if (p[0] != 1 || p[1] != 0 || (p[2] == 0 && p[3] == 0) || len < XH_HDF5_SPECULATION_BYTES)
        return 0;
    *out = place;
    return 1;
}
