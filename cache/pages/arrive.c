/* Bytes of pages that were claimed as LATER come, and go to the shadow: each page is begun with its first byte and
 * published
 * with its last. A page that somebody else took meanwhile is passed over: its bytes are the reader's alone. */
#include <stdlib.h>

#include "file.h"

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

/* The same for the pages [q, to) of one run. */
static int arrive_run(struct xh_file *f, struct xh_arrival *a, uint64_t q, uint64_t to, uint64_t off,
                      const uint8_t *data, size_t len)
{
    uint64_t end = off + len;
    while (q < to) {
        int lost, goes_on = a->begun && q == a->page;
        if (!goes_on && q * XH_PAGE_BYTES < off) { /* its beginning was another's */
            q++;
            continue;
        }
        uint64_t r = begin_more(f, q + (uint64_t)goes_on, to, &lost), next = r + (uint64_t)lost;
        a->page = next;
        a->begun = 0;
        if (r > q) {
            uint64_t from = q * XH_PAGE_BYTES > off ? q * XH_PAGE_BYTES : off;
            uint64_t till = r * XH_PAGE_BYTES < end ? r * XH_PAGE_BYTES : end;
            if (xh_shadow_fill(f->shadow, from, data + (from - off), (size_t)(till - from))) {
                xh_shadow_abandon(f->shadow, q, r - q);
                return XH_E_NOSPACE;
            }
            uint64_t whole = end == f->size || end / XH_PAGE_BYTES > r ? r : end / XH_PAGE_BYTES;
            if (whole > q)
                xh_shadow_publish(f->shadow, q, whole - q, &f->counters);
            if (whole < r) { /* the last one is not complete */
                a->page = whole;
                a->begun = 1;
            }
        }
        q = next;
    }
    return 0;
}

int xh_arrive(struct xh_file *f, const struct xh_runs *runs, struct xh_arrival *a, uint64_t off, const uint8_t *data,
              size_t len)
{
    uint64_t first = off / XH_PAGE_BYTES, behind = (off + len - 1) / XH_PAGE_BYTES + 1;
    int rc = 0;
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
    for (size_t i = xh_runs_at(runs, a->page); i < runs->n && runs->at[i].first < end; i++) {
        uint64_t from = runs->at[i].first > a->page ? runs->at[i].first : a->page;
        uint64_t to = runs->at[i].first + runs->at[i].count;
        xh_shadow_forgo(f->shadow, from, (to < end ? to : end) - from);
    }
    a->page = end > a->page ? end : a->page;
}

/* [m->seen, to) has come. */
static void mark_came(struct xh_read_op *op, struct xh_mark *m, uint64_t to)
{
    const struct xh_extent *e = op->asked; /* a read that holds something has one */
    if (m->seen >= to || m->come.page >= (m->end + XH_PAGE_BYTES - 1) / XH_PAGE_BYTES)
        return;
    const uint8_t *from = (const uint8_t *)e->buf + (m->seen - e->off);
    if (xh_arrive(op->f, &op->held, &m->come, m->seen, from, (size_t)(to - m->seen)))
        xh_arrive_end(op->f, &op->held, &m->come, (m->end + XH_PAGE_BYTES - 1) / XH_PAGE_BYTES);
    m->seen = to;
}

void xh_arrive_look(struct xh_read_op *op)
{
    for (size_t i = 0; op->held.n && i < op->nmarks; i++)
        mark_came(op, &op->marks[i], atomic_load_explicit(&op->marks[i].got, memory_order_acquire));
}

void xh_arrive_over(struct xh_read_op *op, int whole)
{
    const struct xh_extent *e = op->asked;
    struct xh_mark all = {.at = e->off, .end = e->off + e->len, .got = whole ? e->off + e->len : e->off, .seen = e->off,
                          .come.page = (e->off + XH_PAGE_BYTES - 1) / XH_PAGE_BYTES};
    struct xh_mark *m = op->nmarks ? op->marks : &all;
    for (size_t i = 0; op->held.n && i < (op->nmarks ? op->nmarks : 1); i++, m++) {
        /* A page that two marks have parts of is the first one's, which began it. */
        uint64_t end = (m->end + XH_PAGE_BYTES - 1) / XH_PAGE_BYTES;
        mark_came(op, m, atomic_load_explicit(&m->got, memory_order_acquire));
        if (whole && m->come.begun && end * XH_PAGE_BYTES <= e->off + e->len)
            mark_came(op, m, end * XH_PAGE_BYTES);
        xh_arrive_end(op->f, &op->held, &m->come, end);
    }
    free(op->held.at);
    free(op->marks);
    op->held = (struct xh_runs){0};
    op->marks = NULL;
    op->nmarks = 0;
}
