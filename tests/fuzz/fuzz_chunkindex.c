/* Hostile bytes for the chunk indexes. Real files are read as metadata, mutated, in a random
 * order, between random raw reads; every answer must lie in the object and every bound must hold. */
#include <string.h>

#include "format/chunkindex/chunkindex.h"
#include "fuzz.h"

/* 1 where a node or a superblock may begin. Asked for every byte of an input, so it looks at one first. */
static int begins(const uint8_t *p)
{
    switch (p[0]) {
    case 'T': return memcmp(p, "TREE\1", 5) == 0;
    case 'B': return memcmp(p, "BTHD", 4) == 0 || memcmp(p, "BTIN", 4) == 0 || memcmp(p, "BTLF", 4) == 0;
    case 'F': return memcmp(p, "FAHD", 4) == 0 || memcmp(p, "FADB", 4) == 0;
    case 'E': return p[1] == 'A'; /* EAHD, EAIB, EASB, EADB */
    case 0x89: return memcmp(p, "\x89HDF\r\n", 6) == 0;
    default: return 0;
    }
}

static void see(struct xh_chunkindex *ci, const uint8_t *p, size_t size, uint64_t off, uint64_t len)
{
    hold(len <= size && off <= size - len, "a node outside the object is wanted");
    /* A copy of just these bytes, so that a sanitizer sees every step beyond them. */
    uint8_t *copy = malloc(len ? len : 1);
    memcpy(copy, p + off, len);
    if (xh_chunkindex_cares(ci, off, copy, len))
        xh_chunkindex_see(ci, off, copy, len);
    free(copy);
}

/* What may stream, and what a caller says that he has seen to, be it as it may. */
static void stretches(struct xh_chunkindex *ci, size_t size, uint64_t window)
{
    uint64_t least = 1u << (unsigned)rand() % 20, most = least << (unsigned)rand() % 8, had;
    struct xh_range s = xh_chunkindex_stretch(ci, window, least, most, &had);
    hold(had <= window, "more than the window");
    hold(s.len == 0 || (s.len >= least && s.len <= most && had >= least), "a stretch that was not asked for");
    hold(s.len <= size && s.off <= size - s.len, "a stretch outside the object");
    if (rand() % 4 == 0)
        s = (struct xh_range){(uint64_t)rand() % size, (uint64_t)rand() << (unsigned)rand() % 34};
    if (rand() % 4)
        xh_chunkindex_took(ci, s);
}

/* A place in an index leads back to it, and lies in the object. */
static void spots(struct xh_chunkindex *ci, size_t size)
{
    struct xh_range r = {(uint64_t)rand() % size, 1};
    struct xh_chunkindex_spot s = xh_chunkindex_spot(ci, r);
    struct xh_range there = xh_chunkindex_at(ci, s);
    hold(there.len == 0 || (there.off <= r.off && there.len <= size && there.off <= size - there.len),
         "a chunk outside the object, or another one");
    s.rank = (uint64_t)rand() << (unsigned)rand() % 34;
    there = xh_chunkindex_at(ci, s);
    hold(there.len <= size && there.off <= size - there.len, "a chunk outside the object");
}

/* A walk through the nodes as they come, which now and then reads one twice. */
static void walk(struct xh_chunkindex *ci, const uint8_t *p, size_t size)
{
    struct xh_range r[16], todo[64];
    size_t n = 0, k = 0;
    for (size_t off = 0; off + 16 < size && n < 64; off++)
        if (begins(p + off))
            todo[n++] = (struct xh_range){off, size - off < 2048 ? size - off : 2048};
    for (unsigned steps = 0; k < n && steps < 200; steps++, k += (unsigned)rand() % 8 != 0) {
        see(ci, p, size, todo[k].off, todo[k].len);
        if (!xh_chunkindex_walked(ci, todo[k].off))
            continue;
        size_t more = xh_chunkindex_unwalked(ci, r, 16);
        hold(more <= 16, "too many nodes");
        for (size_t i = 0; i < more; i++) {
            hold(r[i].len && r[i].len <= size && r[i].off <= size - r[i].len, "a node outside the object");
            if (n < 64)
                todo[n++] = r[i];
        }
    }
}

/* What was proposed and not read yet. */
struct proposals {
    struct xh_range at[32];
    size_t next, n;
};

static void answers(struct xh_chunkindex *ci, const uint8_t *p, size_t size, uint64_t window, struct proposals *todo)
{
    struct xh_range r[16];
    size_t n = xh_chunkindex_wanted(ci, r, 16);
    hold(n <= 16, "too many nodes");
    spots(ci, size);
    for (size_t i = 0; i < n; i++)
        see(ci, p, size, r[i].off, r[i].len);
    stretches(ci, size, window);
    if (todo->next == todo->n) {
        todo->next = 0;
        todo->n = xh_chunkindex_next(ci, window, todo->at, 32);
        hold(todo->n <= 32, "too many chunks");
    }
    uint64_t sum = 0;
    for (size_t i = todo->next; i < todo->n; i++) {
        r[0] = todo->at[i];
        hold(r[0].len && r[0].len <= size && r[0].off <= size - r[0].len, "a chunk outside the object");
        sum += r[0].len;
    }
    hold(todo->next || sum <= window, "more than the window");
    hold(xh_chunkindex_held(ci).bytes <= XH_CHUNKINDEX_BYTES, "more memory than allowed");
}

/* Shows every node that begins in the object, with the length that is most of interest, then reads. */
static void drive(const uint8_t *p, size_t size, unsigned seed)
{
    struct xh_chunkindex *ci = xh_chunkindex_new(size);
    srand(seed);
    for (size_t off = 0; off + 16 < size; off++)
        if (begins(p + off)) {
            static const uint64_t lens[] = {16, 28, 48, 72, 512, 1192, 2048, 2616, 3136, 4096, 18454};
            uint64_t len = lens[(unsigned)rand() % (sizeof lens / sizeof *lens)];
            see(ci, p, size, off, len < size - off ? len : size - off);
        }
    walk(ci, p, size);
    struct proposals todo = {.n = 0};
    unsigned steady = 2u << (unsigned)rand() % 6; /* mostly the chunk that was proposed, as a reader would */
    for (int i = 0; i < 200; i++) {
        uint64_t off = (uint64_t)rand() % size, len = 1 + (uint64_t)rand() % 5000;
        if (todo.next < todo.n && (unsigned)rand() % steady) {
            off = todo.at[todo.next].off;
            len = todo.at[todo.next++].len;
        } else {
            todo.next = todo.n;
        }
        if (len > size - off)
            len = size - off;
        xh_chunkindex_raw(ci, (struct xh_range){off, len}, 0);
        answers(ci, p, size, 1u << (unsigned)rand() % 24, &todo);
        if (rand() % 16 == 0) {
            xh_chunkindex_refused(ci);
            todo.next = todo.n;
        }
    }
    xh_chunkindex_free(ci);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    if (size)
        drive(p, size, (unsigned)size + p[size / 2]);
    return 0;
}
