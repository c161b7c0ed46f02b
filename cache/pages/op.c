/* One read in progress: see op.h. */
#include "op.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "object.h"
#include "base/interrupt.h"
#include "base/now.h"
#include "base/table.h"
#include "base/waits.h"
#include "disk/disk.h"
#include "watch/trace.h"

#define LOOK_EVERY_NS 20000000u
#define PARTS_AT_ONCE 256 /* extents that are copied out of the shadow together: 6 KiB of stack */

/* Copies, checks and sorts the caller's extents. */
static int take_extents(struct xh_read_op *op)
{
    struct xh_extent *e = op->ext = malloc(op->nasked * sizeof *e);
    uint64_t reach = 0;
    size_t n = 0;
    int sorted = 1, overlaps = 0;
    for (size_t i = 0; e && i < op->nasked; i++) {
        if (op->asked[i].len == 0)
            continue;
        sorted &= n == 0 || e[n - 1].off <= op->asked[i].off;
        e[n++] = op->asked[i];
        op->bytes += op->asked[i].len;
    }
    if (!sorted)
        qsort(e, n, sizeof *e, xh_range_order);
    for (size_t i = 1; i < n; i++)
        overlaps |= e[i].off < e[i - 1].off + e[i - 1].len;
    if (!e || (overlaps && !(op->reach = malloc(n * sizeof *op->reach))))
        return XH_E_NOMEM;
    for (size_t i = 0; overlaps && i < n; i++) {
        uint64_t end = e[i].off + e[i].len;
        op->reach[i] = reach = reach > end ? reach : end;
    }
    assert(n == 0 || e[n - 1].off < op->f->size);
    op->n = n;
    return 0;
}

int xh_op_begin(struct xh_read_op *op, struct xh_file *f, enum xh_kind kind, const struct xh_extent *ext, size_t n,
                struct xh_err *err)
{
    *op = (struct xh_read_op){.f = f, .kind = kind, .asked = ext, .nasked = n};
    pthread_mutex_init(&op->lock, NULL);
    xh_cond_init(&op->idle);
    if (take_extents(op) == 0)
        return 0;
    xh_op_end(op);
    return xh_op_nomem(op, err);
}

void xh_op_end(struct xh_read_op *op)
{
    assert(op->pending == 0);
    struct xh_waiter *k, *next;
    LL_FOREACH_SAFE (op->lost, k, next)
        free(k);
    struct xh_runs *list[] = {&op->todo,   &op->ready,  &op->busy,      &op->on_disk,   &op->mine,
                              &op->bypass, &op->again, &op->packed[0], &op->packed[1]};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        free(list[i]->at);
    free(op->ext);
    free(op->reach);
    pthread_mutex_destroy(&op->lock);
    pthread_cond_destroy(&op->idle);
}

int xh_op_nomem(const struct xh_read_op *op, struct xh_err *err)
{
    return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a read of %zu extents of %s", op->nasked,
                      op->f->url_shown);
}

/* First extent that may reach past |off|. */
static size_t first_extent(const struct xh_read_op *op, uint64_t off)
{
    return xh_count_before(i, op->n, (op->reach ? op->reach[i] : op->ext[i].off + op->ext[i].len) <= off);
}

/* The part of |e| that lies in [off, end). Returns 0 when there is none. */
static int cut(const struct xh_extent *e, uint64_t off, uint64_t end, struct xh_extent *out)
{
    uint64_t a = e->off > off ? e->off : off;
    uint64_t b = e->off + e->len < end ? e->off + e->len : end;
    if (a >= b)
        return 0;
    *out = (struct xh_extent){a, b - a, (uint8_t *)e->buf + (a - e->off)};
    return 1;
}

void xh_op_copy_out(struct xh_read_op *op, uint64_t off, uint64_t len, const uint8_t *data)
{
    uint64_t end = off + len;
    struct xh_extent part;
    for (size_t i = first_extent(op, off); i < op->n && op->ext[i].off < end; i++)
        if (cut(&op->ext[i], off, end, &part))
            memcpy(part.buf, data + (part.off - off), part.len);
}

int xh_op_copy_ready(struct xh_read_op *op, uint64_t off, uint64_t len, int from_disk)
{
    struct xh_file *f = op->f;
    uint64_t end = off + len;
    struct xh_extent part[PARTS_AT_ONCE];
    size_t i = first_extent(op, off), n;
    do {
        for (n = 0; n < PARTS_AT_ONCE && i < op->n && op->ext[i].off < end; i++)
            n += (size_t)cut(&op->ext[i], off, end, &part[n]);
        if (from_disk ? !xh_disk_read(f->disk, part, n) : xh_shadow_readv(f->shadow, part, n) != n)
            return 0;
    } while (n == PARTS_AT_ONCE);
    return 1;
}

int xh_op_pages(const struct xh_read_op *op, struct xh_runs *out)
{
    for (size_t i = 0; i < op->n; i++) {
        uint64_t first = op->ext[i].off / XH_PAGE_BYTES;
        uint64_t last = (op->ext[i].off + op->ext[i].len - 1) / XH_PAGE_BYTES;
        if (xh_runs_add_run(out, (struct xh_run){first, last - first + 1}))
            return XH_E_NOMEM;
    }
    return 0;
}

uint64_t xh_op_asked_in(const struct xh_read_op *op, const struct xh_runs *runs)
{
    struct xh_extent part;
    uint64_t sum = 0;
    for (size_t k = 0; k < runs->n; k++) {
        uint64_t off = runs->at[k].first * XH_PAGE_BYTES, end = off + runs->at[k].count * XH_PAGE_BYTES;
        for (size_t i = first_extent(op, off); i < op->n && op->ext[i].off < end; i++)
            sum += cut(&op->ext[i], off, end, &part) ? part.len : 0;
    }
    return sum;
}

/* ---- what it holds of what comes straight into its buffer */

/* [m->seen, to) has come. */
static void mark_came(struct xh_read_op *op, struct xh_mark *m, uint64_t to)
{
    const struct xh_extent *e = op->asked; /* a read that holds something has one */
    if (m->seen >= to || m->come.page >= xh_page_up(m->end))
        return;
    const uint8_t *from = (const uint8_t *)e->buf + (m->seen - e->off);
    if (xh_arrive(op->f, &op->held, &m->come, m->seen, from, (size_t)(to - m->seen)))
        xh_arrive_end(op->f, &op->held, &m->come, xh_page_up(m->end));
    m->seen = to;
}

/* What has come of |op|'s marks since the last look goes to the shadow, as far as |op| holds it. */
static void look(struct xh_read_op *op)
{
    for (size_t i = 0; op->held.n && i < op->nmarks; i++)
        mark_came(op, &op->marks[i], atomic_load_explicit(&op->marks[i].got, memory_order_acquire));
}

void xh_op_over(struct xh_read_op *op, int whole)
{
    const struct xh_extent *e = op->asked;
    struct xh_mark all = {.end = e->off + e->len, .got = whole ? e->off + e->len : e->off, .seen = e->off,
                          .come.page = xh_page_up(e->off)};
    struct xh_mark *m = op->nmarks ? op->marks : &all;
    for (size_t i = 0; op->held.n && i < (op->nmarks ? op->nmarks : 1); i++, m++) {
        /* A page that two marks have parts of is the first one's, which began it. */
        uint64_t end = xh_page_up(m->end);
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

/* ---- waiting */

/* While it is not known how fast the link is, or something is held, looks now and then how much has come. Returns 1
 * when |w| is to end. Lock held; lets go of it meanwhile. */
static int wait_a_while(struct xh_read_op *op, struct xh_wait *w)
{
    int watches = op->f->above->watches(op);
    uint64_t look_ns = watches || op->held.n ? xh_now_ns() + LOOK_EVERY_NS : XH_NO_END;
    int ends = xh_interrupt_wait(w, &op->idle, &op->lock, look_ns);
    if (look_ns == XH_NO_END || xh_now_ns() < look_ns)
        return ends;
    pthread_mutex_unlock(&op->lock);
    if (watches)
        op->f->above->waits(op);
    look(op);
    pthread_mutex_lock(&op->lock);
    return ends;
}

/* What is on its way for a read that is interrupted is cancelled; the buffers are the engine's until that is done. What
 * was about to be submitted then is cancelled the next time. Lock held; lets go of it meanwhile. */
static void interrupt(struct xh_read_op *op)
{
    struct xh_err err;
    pthread_mutex_unlock(&op->lock);
    if (!op->interrupted) {
        op->interrupted = 1;
        xh_interrupt_error(&err, op->f->url_shown);
        xh_op_fail(op, &err);
        xh_trace(XH_T_READ, "interrupted", "off=%llu", (unsigned long long)op->asked->off);
    }
    op->f->above->interrupt(op);
    pthread_mutex_lock(&op->lock);
}

int xh_op_wait(struct xh_read_op *op, int rc, struct xh_err *err)
{
    struct xh_wait w = {0};
    pthread_mutex_lock(&op->lock);
    if (op->pending) {
        uint64_t entered = xh_account_enter(op->f->account, XH_NETWORK);
        while (op->pending)
            if (wait_a_while(op, &w) || op->interrupted)
                interrupt(op);
        op->served.waited_ns += xh_account_leave(op->f->account, XH_NETWORK, entered);
    }
    pthread_mutex_unlock(&op->lock);
    look(op); /* the read may wait for others next */
    if (rc == 0 && op->err.code && err)
        *err = op->err;
    return rc ? rc : op->err.code;
}

void xh_op_enter(struct xh_read_op *op, size_t n)
{
    pthread_mutex_lock(&op->lock);
    op->pending += n;
    pthread_mutex_unlock(&op->lock);
}

void xh_op_fail(struct xh_read_op *op, const struct xh_err *err)
{
    pthread_mutex_lock(&op->lock);
    if (op->err.code == 0)
        op->err = *err;
    pthread_mutex_unlock(&op->lock);
}

void xh_op_leave(struct xh_read_op *op, const struct xh_err *err)
{
    pthread_mutex_lock(&op->lock);
    if (err && op->err.code == 0)
        op->err = *err;
    if (--op->pending == 0)
        pthread_cond_signal(&op->idle);
    pthread_mutex_unlock(&op->lock);
}

void xh_op_lose(struct xh_read_op *op, struct xh_waiter *k)
{
    pthread_mutex_lock(&op->lock);
    LL_PREPEND(op->lost, k);
    if (--op->pending == 0)
        pthread_cond_signal(&op->idle);
    pthread_mutex_unlock(&op->lock);
}

int xh_op_take_lost(struct xh_read_op *op, uint64_t *bytes)
{
    size_t n = 0;
    struct xh_waiter *k;
    LL_COUNT(op->lost, k, n);
    struct xh_extent *ext = n ? malloc(n * sizeof *ext) : NULL;
    *bytes = 0;
    if (n && !ext)
        return XH_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        k = op->lost;
        ext[i] = (struct xh_extent){k->a, k->b - k->a, k->to};
        *bytes += k->b - k->a;
        LL_DELETE(op->lost, k);
        free(k);
    }
    if (n)
        qsort(ext, n, sizeof *ext, xh_range_order);
    free(op->ext);
    op->ext = ext;
    op->n = n;
    return 0;
}
