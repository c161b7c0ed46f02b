/* Sharing: what the stage has goes to the shadow, once others read the file too. See share.h. */
#include "share.h"

#include <stdlib.h>

#include "pages/arrive.h"
#include "segment.h"
#include "shadow/shadow.h"
#include "watch/trace.h"

/* The whole pages in [off, end), which begins with one. */
static uint64_t pages_in(const struct xh_file *f, uint64_t off, uint64_t end)
{
    return xh_pages_before(f, end) - off / XH_PAGE_BYTES;
}

/* Copies whole pages that are there to |buf|: the first from *|page| on and those right behind it, of XH_BLOCK_BYTES at
 * most. Returns how many, and sets *|page| to the first. The lock is held. */
static uint64_t gather(const struct xh_file *f, uint64_t *page, uint8_t *buf)
{
    const struct xh_stage *s = f->stage;
    uint64_t off = *page * XH_PAGE_BYTES, end = off;
    for (size_t i = xh_segment_at(s, off); i < s->n && end < off + XH_BLOCK_BYTES; i++) {
        const struct xh_segment *p = s->at[i];
        if (p->from > end || p->got <= end) { /* they do not go on here */
            if (pages_in(f, off, end))
                break;
            off = end = xh_min64(xh_page_up(p->from > end ? p->from : end) * XH_PAGE_BYTES, f->size);
        }
        if (p->got <= end)
            continue;
        uint64_t to = xh_min64(p->got, off + XH_BLOCK_BYTES);
        xh_segment_copy(p, end, to - end, buf + (end - off));
        end = to;
    }
    *page = off / XH_PAGE_BYTES;
    return end > off ? pages_in(f, off, end) : 0;
}

/* Returns 1 when the |n| pages are in the shadow now, 0 when another claim brings some of them, -1 when it has no room
 * for them. */
static int store(struct xh_file *f, uint64_t page, uint64_t n, const uint8_t *data)
{
    int all = 1;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t mine = 0;
        enum xh_claim c = XH_CLAIM_MINE;
        while (i + mine < n && (c = xh_shadow_claim(f->shadow, page + i + mine, 0, &f->counters)) == XH_CLAIM_MINE)
            mine++;
        if (mine && xh_arrive_pages(f, page + i, mine, data + i * XH_PAGE_BYTES))
            return -1;
        i += mine;
        if (i < n && c == XH_CLAIM_NONE)
            return -1;
        all &= i == n || c == XH_CLAIM_READY;
    }
    return all;
}

/* The readers of [off, end) find it in the shadow: parcels that lie in it are needed no more. The lock is held. */
static void drop(struct xh_stage *s, uint64_t off, uint64_t end)
{
    for (size_t i = xh_segment_at(s, off); i < s->n && s->at[i]->off < end;) {
        struct xh_segment *p = s->at[i];
        if (p->from < off || p->end > end || p->got < p->end) {
            i++;
            continue;
        }
        p->taken = p->end - p->off; /* it is not unused */
        xh_segment_unlist(s, p);
        xh_prefetch_settle(p->load);
    }
}

/* Pages that had to make way in the shadow, for whatever reason: it is full of what is in use. */
static uint64_t evicted(struct xh_file *f)
{
    return atomic_load_explicit(&f->counters.pages_evicted, memory_order_relaxed);
}

void xh_stage_share(struct xh_file *f)
{
    struct xh_stage *s = f->stage;
    uint64_t bytes = 0, from = 0, to = 0, were = evicted(f); /* [from, to) is in the shadow */
    pthread_mutex_lock(&s->lock);
    uint8_t *buf = s->unshared && !s->no_room ? malloc(XH_BLOCK_BYTES) : NULL;
    s->unshared = 0;
    for (uint64_t page = 0, n; buf && !s->no_room && (n = gather(f, &page, buf)); page += n) {
        pthread_mutex_unlock(&s->lock);
        uint64_t off = page * XH_PAGE_BYTES, end = xh_min64(off + n * XH_PAGE_BYTES, f->size);
        int all = store(f, page, n, buf);
        pthread_mutex_lock(&s->lock);
        s->no_room |= all < 0 || evicted(f) != were; /* else what was shared would make way for what is being shared */
        from = off == to ? from : off;
        to = all > 0 && !s->no_room ? end : 0;
        drop(s, from, to);
        bytes += all >= 0 ? end - off : 0;
    }
    pthread_mutex_unlock(&s->lock);
    free(buf);
    if (bytes)
        xh_trace(XH_T_READ, "shared", "bytes=%llu", (unsigned long long)bytes);
}
