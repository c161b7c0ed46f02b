/* The reach of a read: see read_around.h. */
#include "read_around.h"

#define QUICK_ENOUGH 4 /* quick reads; after so many, the next is expected to be quick too */
/* highest count of quick reads. One slow read may be the processor's fault: half of 8 is still enough. Two are not. */
#define QUICK_MOST 8
#define VAIN_MOST 3 /* reads without a hit before the reach shrinks */

void xh_read_around_begin(struct xh_read_around *r, uint64_t file_bytes)
{
    *r =
        (struct xh_read_around){.bytes = file_bytes <= XH_READ_AROUND_MOST ? XH_READ_AROUND_MOST : XH_READ_AROUND_FIRST,
                                .least_ns = UINT64_MAX};
}

void xh_read_around_hit(struct xh_read_around *r)
{
    r->hits++;
}

void xh_read_around_around(const struct xh_read_around *r, uint64_t off, uint64_t len, uint64_t end, uint64_t *lo,
                           uint64_t *hi)
{
    uint64_t last = off < end && len <= end - off ? off + len : end;
    *lo = off < end ? off - off % r->bytes : end;
    *hi = *lo + r->bytes;
    *hi = *hi < last ? last : *hi;
    *hi = *hi > end ? end : *hi;
}

static void shrink(struct xh_read_around *r)
{
    if (r->bytes > XH_READ_AROUND_LEAST)
        r->bytes /= 2;
}

/* 30 us for a system call, and a copy at 4 GB/s. A slow file system needs more than this for its first byte. */
static int is_quick(uint64_t bytes, uint64_t ns)
{
    return ns < 30000 + bytes / 4;
}

static void note_quick(struct xh_read_around *r, uint64_t bytes, uint64_t ns)
{
    if (!is_quick(bytes, ns))
        r->quick /= 2;
    else if (r->quick < QUICK_MOST)
        r->quick++;
}

/* A read that takes more than four times the shortest shrinks the reach: the bytes cost more than the latency. A
 * read that takes up to twice the shortest may double it: the extra bytes cost nothing yet. */
void xh_read_around_learn(struct xh_read_around *r, uint64_t bytes, uint64_t ns)
{
    note_quick(r, bytes, ns);
    r->least_ns = ns < r->least_ns ? ns : r->least_ns;
    r->vain = r->hits ? 0 : r->vain + 1;
    if (ns / 4 > r->least_ns) {
        shrink(r);
    } else if (r->vain > VAIN_MOST) {
        shrink(r);
        r->vain = 0;
    } else if (r->hits && ns / 2 <= r->least_ns && r->bytes < XH_READ_AROUND_MOST) {
        r->bytes *= 2;
    }
    r->hits = 0;
}

int xh_read_around_needless(const struct xh_read_around *r)
{
    return r->quick >= QUICK_ENOUGH;
}

void xh_read_around_plain(struct xh_read_around *r, uint64_t bytes, uint64_t ns)
{
    note_quick(r, bytes, ns);
}
