/* What of a file stays in the shadow: see keep.h. */
#include "keep.h"

#include "object.h"
#include "flow.h"
#include "op.h"
#include "policy.h"

/* Marks the pages of |op| as read. Returns how many of them were marked before; |*empty|: how many are empty. */
static uint64_t touch(struct xh_read_op *op, uint64_t *empty)
{
    uint64_t again = 0, from = 0, n;
    *empty = 0;
    for (size_t i = 0; i < op->n; i++) {
        const struct xh_extent *e = &op->ext[i];
        uint64_t first = e->off / XH_PAGE_BYTES, end = (e->off + e->len - 1) / XH_PAGE_BYTES + 1;
        first = first < from ? from : first; /* not twice where extents share one */
        if (first >= end)
            continue;
        again += xh_shadow_touch(op->f->shadow, first, end - first, &n);
        *empty += n;
        from = end;
    }
    return again;
}

void xh_keep_again(struct xh_file *f, int is)
{
    atomic_store_explicit(&f->keep->again, is, memory_order_relaxed);
}

int xh_keep_is_again(const struct xh_file *f)
{
    return atomic_load_explicit(&f->keep->again, memory_order_relaxed);
}

int xh_keep_begin(struct xh_read_op *op, int shared, int told)
{
    struct xh_file *f = op->f;
    struct xh_keeping k = {.meta = op->kind == XH_KIND_META, .shared = shared, .streamed = xh_flow_streamed(f),
                           .stream_bytes = f->opt.stream_bytes};
    uint64_t empty;
    if (!k.meta)
        xh_flow_stream(f, (int64_t)op->bytes);
    int keeps = xh_policy_keeps_read(&k);
    if (keeps && !(told && !k.meta))
        return 1;
    uint64_t again = touch(op, &empty);
    if (keeps)
        return 1;
    /* Its neighbours share the pages at either end of each extent. */
    op->served.reread = again > 2 * op->n && xh_policy_is_reread(empty, again);
    return xh_policy_keeps_pages(op->bytes, empty, again);
}

void xh_keep_told(struct xh_file *f, struct xh_announced *t)
{
    uint64_t empty;
    for (size_t i = 0; i < t->n; i++) {
        uint64_t first = t->r[i].off / XH_PAGE_BYTES, end = xh_page_up(t->r[i].off + t->r[i].len);
        uint64_t again = xh_shadow_touched(f->shadow, first, end - first, &empty);
        t->empty += empty;
        t->again += t->r[i].len >= XH_BULK_BYTES || again == empty ? again : 0; /* else its neighbours were read */
    }
}

void xh_keep_ahead(struct xh_file *f, struct xh_keeping *k)
{
    *k = (struct xh_keeping){.shared = xh_keep_is_again(f) || xh_file_shared(f), /* one system call less */
                             .streamed = xh_flow_streamed(f) + xh_flow_flying(f),
                             .stream_bytes = f->opt.stream_bytes};
}
