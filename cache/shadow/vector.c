/* Many small extents of a shadow: a stride, columns, points. Each is read with the guarantees of page.c.
 *
 * Read one by one, each would take a system call and the sum of its whole page: a tenth of a dataset in single elements
 * took ten times as long as all of it. Extents that lie close together share both.
 *
 * Locks: none. Threads, processes: any. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "impl.h"
#include "page.h"

#define GROUP_PAGES 16u    /* pages read together: 64 KiB, which stay in a processor's own cache */
#define GROUP_GAP_PAGES 2u /* copying a page takes 0.2 us, another system call 0.3 to 0.6 us (docs/shadow.md) */
#define DIRECT_BYTES (2 * XH_PAGE_BYTES) /* an extent of at least this size is copied straight to its buffer */

/* Extents that are read together: whole pages into a bounce buffer, then pieces out of it. */
struct group {
    uint64_t first, n;          /* its pages; those between two pieces may be missing */
    uint32_t needed;            /* bit i: page first + i has bytes of a piece */
    struct xh_page_seen seen[GROUP_PAGES]; /* of the needed pages */
    size_t extents;
};
_Static_assert(GROUP_PAGES <= 32, "a bit a page");

/* Gathers extents from |ext| on that lie close together, ascending. A page that is not needed costs less than
 * another system call, where at most GROUP_GAP_PAGES of them lie between two that are. */
static void gather(const struct xh_shadow *s, const struct xh_extent *ext, size_t n, struct group *g)
{
    g->first = ext->off / XH_PAGE_BYTES;
    g->n = g->needed = 0;
    for (g->extents = 0; g->extents < n; g->extents++) {
        const struct xh_extent *e = &ext[g->extents];
        if (e->len == 0)
            continue;
        if (e->len > s->head.origin_bytes || e->off > s->head.origin_bytes - e->len)
            return;
        uint64_t from = e->off / XH_PAGE_BYTES, last = (e->off + e->len - 1) / XH_PAGE_BYTES;
        if (e->len >= DIRECT_BYTES || from < g->first || from > g->first + g->n + GROUP_GAP_PAGES ||
            last >= g->first + GROUP_PAGES)
            return;
        for (uint64_t i = from - g->first; i <= last - g->first; i++)
            g->needed |= 1u << i;
        g->n = last - g->first + 1 > g->n ? last - g->first + 1 : g->n;
    }
}

/* Copies the group's pages to |buf| and checks them. Returns the index of the first needed page that is not good,
 * else the number of pages. */
static uint64_t read_group(struct xh_shadow *s, struct group *g, uint8_t *buf)
{
    uint64_t good = 0;
    while (good < g->n &&
           (!(g->needed >> good & 1) || xh_page_begin_read(s, g->first + good, &g->seen[good])))
        good++;
    if (good == 0)
        return 0;
    size_t len = (size_t)((good - 1) * XH_PAGE_BYTES) + xh_page_bytes(s, g->first + good - 1);
    ssize_t got = xh_retry(pread(s->fd, buf, len, (off_t)(s->head.data_off + g->first * XH_PAGE_BYTES)));
    uint64_t had;
    if (!xh_page_had(s, got, g->first, good, &had))
        return 0;
    xh_page_fence();
    uint64_t bad = good;
    for (uint64_t i = 0; i < good; i++) {
        uint64_t end = i * XH_PAGE_BYTES + xh_page_bytes(s, g->first + i);
        const uint8_t *page = buf + i * XH_PAGE_BYTES;
        if (g->needed >> i & 1 && (end > had || !xh_page_end_read(s, g->first + i, &g->seen[i], page)))
            bad = i < bad ? i : bad;
    }
    return bad;
}

/* Copies out the extents that end before page |good| of the group. Returns how many, from the first on, do. */
static size_t hand_out(const struct group *g, const struct xh_extent *ext, uint64_t good, const uint8_t *buf)
{
    uint64_t at = g->first * XH_PAGE_BYTES, end = at + good * XH_PAGE_BYTES;
    size_t i = 0;
    for (; i < g->extents; i++) {
        if (ext[i].len == 0)
            continue; /* an empty one may lie anywhere */
        if (ext[i].off + ext[i].len > end)
            break;
        const uint8_t *from = buf + (ext[i].off - at);
        switch (ext[i].len) { /* single elements are copied without a call */
        case 2: memcpy(ext[i].buf, from, 2); break;
        case 4: memcpy(ext[i].buf, from, 4); break;
        case 8: memcpy(ext[i].buf, from, 8); break;
        default: memcpy(ext[i].buf, from, (size_t)ext[i].len);
        }
    }
    return i;
}

size_t xh_shadow_readv(struct xh_shadow *s, const struct xh_extent *ext, size_t n)
{
    uint8_t *buf = NULL;
    size_t done = 0;
    if (!xh_shadow_usable(s))
        return 0;
    while (done < n) {
        const struct xh_extent *e = &ext[done];
        struct group g;
        gather(s, e, n - done, &g);
        if (g.extents <= 1 || g.n == 0) { /* large, alone, empty, or not within the object */
            if (xh_shadow_read(s, e->off, e->buf, (size_t)e->len) != e->len)
                break;
            done++;
            continue;
        }
        if (!buf && !(buf = malloc(GROUP_PAGES * XH_PAGE_BYTES)))
            break;
        size_t had = hand_out(&g, e, read_group(s, &g, buf), buf);
        done += had;
        if (had < g.extents)
            break;
    }
    free(buf);
    return done;
}
