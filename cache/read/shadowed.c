/* The shadow as a source: sorts a read's pages into those that are there, those that the disk cache has, those that
 * another claim brings, and those that are left to the sources behind it; copies the first ones out. */

#include "disk/disk.h"
#include "object.h"
#include "pages/fetch.h"
#include "pages/flow.h"
#include "sources.h"

static int peek(struct xh_file *f, const struct xh_extent *ext, size_t n, struct xh_err *err)
{
    return n == 1 ? xh_shadow_read(f->shadow, ext->off, ext->buf, ext->len) == ext->len
                  : xh_shadow_readv(f->shadow, ext, n) == n;
}

static int sort_page(struct xh_read_op *op, uint64_t p)
{
    struct xh_shadow *shadow = op->f->shadow;
    int rc, meta = op->kind == XH_KIND_META;
    /* In later rounds not: then the disk had it, and could not give it. */
    if (op->rounds == 0 && xh_disk_has(op->f->disk, p) && xh_shadow_peek(shadow, p) != XH_CLAIM_READY)
        return xh_runs_add(&op->on_disk, p);
    enum xh_claim claim = op->keep ? xh_shadow_claim_later(shadow, p, meta, op->take, &op->f->counters)
                                   : xh_shadow_peek(shadow, p);
    /* EMPTY, and to stay so */
    if (!op->keep && (claim == XH_CLAIM_MINE || (op->take && xh_shadow_is_later(shadow, p))))
        claim = XH_CLAIM_NONE;
    switch (claim) {
    case XH_CLAIM_READY: return xh_runs_add(op->unreadable ? &op->bypass : &op->ready, p);
    case XH_CLAIM_BUSY: return xh_runs_add(&op->busy, p);
    case XH_CLAIM_MINE:
        rc = xh_runs_add(&op->mine, p);
        if (rc)
            xh_shadow_forgo(shadow, p, 1);
        return rc;
    default: return xh_runs_add(&op->bypass, p);
    }
}

static int sort_pages(struct xh_read_op *op)
{
    for (size_t i = 0; i < op->todo.n; i++)
        for (uint64_t k = 0; k < op->todo.at[i].count; k++)
            if (sort_page(op, op->todo.at[i].first + k))
                return XH_E_NOMEM;
    return 0;
}

/* Counts what nobody brings yet, and what is here or on its way. */
static void count(struct xh_read_op *op)
{
    uint64_t mine = xh_op_asked_in(op, &op->mine), bypass = xh_op_asked_in(op, &op->bypass);
    xh_count(&op->f->counters, bytes_demand, mine);
    xh_count(&op->f->counters, bytes_bypass, bypass);
    op->served.alone += mine + bypass;
    if (op->rounds) {
        xh_others_fetched_after_all(op, mine + bypass);
        return;
    }
    op->hit_bytes = xh_op_asked_in(op, &op->ready) + xh_op_asked_in(op, &op->on_disk);
    op->waited_bytes = xh_op_asked_in(op, &op->busy);
    op->served.elsewhere += op->waited_bytes;
    if (op->kind == XH_KIND_RAW && !op->is_retry) /* it does not stream by */
        xh_flow_stream(op->f, -(int64_t)op->hit_bytes);
}

static int serve(struct xh_read_op *op, struct xh_err *err)
{
    if (op->rounds == 0) {
        if (xh_op_pages(op, &op->todo))
            return xh_op_nomem(op, err);
        xh_others_leave_it(op);
    }
    int rc = sort_pages(op);
    op->take = 0;
    if (rc) {
        xh_fetch_forgo(op->f, &op->mine);
        return xh_op_nomem(op, err);
    }
    count(op);
    return 0;
}

/* Copies what is ready; what was evicted meanwhile is left for the next round. What could not be copied and is still
 * there would be so in all rounds to come. */
static int finish(struct xh_read_op *op, int rc, struct xh_err *err)
{
    for (size_t i = 0; rc == 0 && i < op->ready.n; i++) {
        const struct xh_run *run = &op->ready.at[i];
        if (xh_op_copy_ready(op, run->first * XH_PAGE_BYTES, run->count * XH_PAGE_BYTES, 0))
            continue;
        op->unreadable |= xh_shadow_has(op->f->shadow, run->first, run->count);
        if (xh_runs_add_run(&op->again, *run))
            rc = xh_op_nomem(op, err);
    }
    return rc;
}

const struct xh_source xh_shadow_source = {peek, serve, finish};
