/* Bytes of pages that were claimed as LATER come, and go to the shadow. A page is begun with its first byte, and filled
 * and published with its last: until then its bytes are in private memory. So its sum is that of what the server sent,
 * whatever befalls the file in tmpfs meanwhile. A page that another claim took meanwhile is passed over: its bytes are
 * the reader's alone. */
#include "arrive.h"

#include <stdlib.h>
#include <string.h>

#include "object.h"

/* The first page behind those from |q| on, before |to|, that are begun now; |*lost|: it is one that was taken. */
static uint64_t begin_more(struct xh_file *f, uint64_t q, uint64_t to, int *lost)
{
    *lost = 0;
    while (q < to && !*lost) {
        *lost = !xh_shadow_begin(f->shadow, q);
        q += !*lost;
    }
    return q;
}

static uint64_t end_of_page(const struct xh_file *f, uint64_t page)
{
    uint64_t end = (page + 1) * XH_PAGE_BYTES;
    return end < f->size ? end : f->size;
}

int xh_arrive_pages(struct xh_file *f, uint64_t page, uint64_t n, const uint8_t *data)
{
    uint64_t off = page * XH_PAGE_BYTES;
    if (xh_shadow_fill(f->shadow, off, data, (size_t)(end_of_page(f, page + n - 1) - off))) {
        xh_shadow_abandon(f->shadow, page, n);
        return XH_E_NOSPACE;
    }
    xh_shadow_publish(f->shadow, page, n, &f->counters);
    return 0;
}

/* The first |len| bytes of a->page, which was begun, are here. Without memory the page is given up. */
static void keep_part(struct xh_file *f, struct xh_arrival *a, const uint8_t *data, size_t len)
{
    if (!a->part)
        a->part = malloc(XH_PAGE_BYTES);
    if (a->part) {
        memcpy(a->part, data, len);
        a->begun = 1;
    } else {
        xh_shadow_abandon(f->shadow, a->page++, 1);
    }
}

/* [off, off + len) goes on with a->page, which was begun. Returns 0 or XH_E_NOSPACE; |*used|: the bytes that are
 * its. */
static int complete_part(struct xh_file *f, struct xh_arrival *a, uint64_t off, const uint8_t *data, size_t len,
                         size_t *used)
{
    uint64_t end = end_of_page(f, a->page), from = off - a->page * XH_PAGE_BYTES;
    *used = end - off < len ? (size_t)(end - off) : len;
    memcpy(a->part + from, data, *used);
    if (off + *used < end)
        return 0;
    a->begun = 0;
    return xh_arrive_pages(f, a->page++, 1, a->part);
}

/* The pages [q, to) of one run, of which no earlier byte is kept. */
static int arrive_run(struct xh_file *f, struct xh_arrival *a, uint64_t q, uint64_t to, uint64_t off,
                      const uint8_t *data, size_t len)
{
    uint64_t end = off + len;
    if (q < to && q * XH_PAGE_BYTES < off) /* its beginning was another's */
        q++;
    while (q < to) {
        int lost;
        uint64_t r = begin_more(f, q, to, &lost);
        uint64_t whole = r > q && end_of_page(f, r - 1) > end ? r - 1 : r;
        a->page = r + (uint64_t)lost;
        if (whole > q && xh_arrive_pages(f, q, whole - q, data + (q * XH_PAGE_BYTES - off))) {
            xh_shadow_abandon(f->shadow, whole, r - whole);
            return XH_E_NOSPACE;
        }
        if (whole < r) { /* the last of all that came */
            a->page = whole;
            keep_part(f, a, data + (whole * XH_PAGE_BYTES - off), (size_t)(end - whole * XH_PAGE_BYTES));
        }
        q = r + (uint64_t)lost;
    }
    return 0;
}

int xh_arrive(struct xh_file *f, const struct xh_runs *runs, struct xh_arrival *a, uint64_t off, const uint8_t *data,
              size_t len)
{
    int rc = 0;
    if (a->begun && len) {
        size_t used;
        rc = complete_part(f, a, off, data, len, &used);
        off += used, data += used, len -= used;
    }
    if (rc || len == 0)
        return rc;
    uint64_t first = off / XH_PAGE_BYTES, behind = (off + len - 1) / XH_PAGE_BYTES + 1;
    for (size_t i = xh_runs_at(runs, first); rc == 0 && i < runs->n && runs->at[i].first < behind; i++) {
        struct xh_run run = runs->at[i];
        uint64_t to = run.first + run.count < behind ? run.first + run.count : behind;
        rc = arrive_run(f, a, run.first > first ? run.first : first, to, off, data, len);
    }
    return rc;
}

void xh_arrive_end(struct xh_file *f, const struct xh_runs *runs, struct xh_arrival *a, uint64_t end)
{
    if (a->begun)
        xh_shadow_abandon(f->shadow, a->page++, 1);
    a->begun = 0;
    free(a->part);
    a->part = NULL;
    for (size_t i = xh_runs_at(runs, a->page); i < runs->n && runs->at[i].first < end; i++) {
        uint64_t from = runs->at[i].first > a->page ? runs->at[i].first : a->page;
        uint64_t to = runs->at[i].first + runs->at[i].count;
        xh_shadow_forgo(f->shadow, from, (to < end ? to : end) - from);
    }
    a->page = end > a->page ? end : a->page;
}
