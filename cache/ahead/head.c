/* The rest of a file's head: see head.h. Opening brings what a server sends at once. A program that opens a file for
 * one variable finds all it needs in there, and a request for the rest would bring nothing. If a read or the
 * walk misses a piece of the rest, all of the rest is fetched, as the pieces beside it are wanted next. */
#include "head.h"

#include "object.h"
#include "schedule.h"

void xh_head_missed(struct xh_file *f, const struct xh_range *r, size_t n)
{
    uint64_t from = atomic_load_explicit(&f->head_rest, memory_order_relaxed);
    uint64_t end = f->opt.head_bytes < f->size ? f->opt.head_bytes : f->size;
    if (!f->shadow || from == 0 || from >= end)
        return;
    for (size_t i = 0; i < n; i++) {
        if (r[i].off >= end || r[i].off + r[i].len <= from)
            continue;
        if (atomic_exchange_explicit(&f->head_rest, 0, memory_order_relaxed)) {
            struct xh_range rest = {from, end - from};
            xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_META, .r = &rest, .n = 1});
        }
        return;
    }
}

static int saw(struct xh_file *f, const struct xh_seen *s)
{
    for (size_t i = 0; i < s->n; i++)
        xh_head_missed(f, &(struct xh_range){s->ext[i].off, s->ext[i].len}, 1);
    return 0;
}

const struct xh_observer xh_head_observer = {{[XH_KIND_META] = XH_ASKED}, saw};
