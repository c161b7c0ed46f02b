/* The stream and the origin as sources: what was fetched ahead in private memory, and what nobody brings. */
#include "ahead/layouts.h"
#include "ahead/sequence.h"
#include "base/now.h"
#include "object.h"
#include "pages/fetch.h"
#include "policy.h"
#include "source/unverified_head.h"
#include "sources.h"
#include "stream/stage.h"

/* Claims the whole pages of a read that its stream brings: behind what the stage left to fetch. They are published as
 * they come, from the reader's own buffer, while it waits. Without a claim, or memory, a page is not kept. */
static void hold(struct xh_read_op *op)
{
    const struct xh_extent *e = op->asked, *last = op->n ? &op->ext[op->n - 1] : NULL;
    uint64_t off = last ? last->off + last->len : e->off;
    uint64_t end = (e->off + e->len) / XH_PAGE_BYTES;
    for (uint64_t p = xh_page_up(off); op->keep && p < end; p++)
        xh_fetch_claim(op->f, p, 0, &op->held);
}

/* 1 when |op| reads a large contiguous dataset from its first byte to its last. */
static int is_all_of_dataset(const struct xh_read_op *op)
{
    if (!xh_policy_is_worth_all(op->bytes))
        return 0;
    struct xh_range r = xh_extents_in_a_row(op->asked, op->nasked), all = xh_layouts_dataset(op->f, r);
    return r.len && all.off == r.off && all.len == r.len;
}

/* Takes what the stage has, in private memory or on its way there, off the read's extents. */
static int serve_staged(struct xh_read_op *op, struct xh_err *err)
{
    uint64_t coming, here;
    if (op->kind != XH_KIND_RAW || op->rounds || op->is_retry)
        return 0;
    op->served_by_stream = xh_sequence_lead(op->f, op->asked, op->nasked);
    op->all_of_dataset = is_all_of_dataset(op);
    op->strays = xh_policy_is_worth_all(op->bytes) && xh_extents_in_a_row(op->asked, op->nasked).len &&
                 xh_sequence_strays(op->f);
    op->leaving = op->all_of_dataset || op->strays ? xh_stage_leaving(op->f) : 0;
    if (!op->reach) {
        here = xh_stage_take(op->f, op, &coming);
        op->served.ahead = op->staged = here + coming;
    }
    if (op->served_by_stream && op->nasked == 1) /* its pages lie in one buffer */
        hold(op);
    op->noted_ns = xh_now_ns();
    return 0;
}

const struct xh_source xh_stream_source = {.serve = serve_staged};

static int serve(struct xh_read_op *op, struct xh_err *err)
{
    xh_unverified_claim(op->f, &op->mine);
    int rc = xh_fetch_start(op->f, op, &op->mine, 1, err);
    return rc ? rc : xh_fetch_start(op->f, op, &op->bypass, 0, err);
}

/* In the end all that is on its way for the read is waited for, also what the stage promised. */
const struct xh_source xh_origin_source = {.serve = serve, .finish = xh_op_wait};
