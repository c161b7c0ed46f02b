/* Whole files: see whole.h. Nothing is fetched before the first miss: a program that opens many files and reads an
 * attribute of each finds that in the head, and what it would cancel by closing would take connections with it. */
#include "whole.h"

#include "object.h"
#include "pages/flow.h"
#include "schedule.h"
#include "source/metadata_image.h"
#include "stream/stage.h"
#include "watch/trace.h"

void xh_whole_facts(struct xh_file *f, struct xh_opened *out)
{
    struct xh_origin_info info;
    xh_replicas_get_info(f->origin, &info);
    *out = (struct xh_opened){.size = f->size,
                              .most_ahead = f->shadow ? xh_ahead_most(f, 1) : 0,
                              .whole_file_bytes = f->opt.whole_file_bytes,
                              .rtt_ms = (double)info.rtt_ns / 1e6,
                              .second_bytes = info.second_bytes,
                              .connections = info.scattered,
                              .misses = atomic_load_explicit(&f->whole->misses, memory_order_relaxed),
                              .readahead = f->opt.readahead != 0,
                              .in_vain = info.in_vain,
                              .imaged = xh_metadata_image_is_used(f->image, 0)};
}

static int may_come(const struct xh_file *f)
{
    return f->size <= f->opt.whole_file_bytes && !xh_schedule_is_whole(f);
}

static void come(struct xh_file *f, int opens)
{
    struct xh_opened o;
    xh_whole_facts(f, &o);
    if (xh_policy_is_whole(&o) && xh_schedule_whole(f, opens))
        xh_trace(XH_T_PREDICT, "whole", "size=%llu misses=%u rtt_ms=%.1f connections=%u", (unsigned long long)f->size,
                 o.misses, o.rtt_ms, o.connections);
}

/* A read of much of the file, or of its beginning, comes with the rest: no connection stands idle between the two. Any
 * other one comes first. What the stage brings was foreseen, and is not fetched once more. */
static int saw_bulk(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_range span = xh_extents_span(s->ext, s->n);
    uint64_t bytes = xh_extents_bytes(s->ext, s->n), end = span.off + span.len;
    if (may_come(f) && !xh_policy_leaves_rest(bytes, f->size, xh_flow_has_family(f)) && !xh_stage_has(f, end - 1) &&
        xh_policy_comes_with_rest(bytes, end, f->size))
        come(f, 1);
    return 0;
}

static int saw(struct xh_file *f, const struct xh_seen *s)
{
    uint64_t bytes = s->kind == XH_KIND_RAW ? xh_extents_bytes(s->ext, s->n) : 0;
    if (!s->missed || s->staged || !may_come(f) || xh_policy_leaves_rest(bytes, f->size, xh_flow_has_family(f)))
        return 0;
    atomic_fetch_add_explicit(&f->whole->misses, 1, memory_order_relaxed);
    come(f, bytes >= XH_BULK_BYTES);
    return 0;
}

void xh_whole_end(struct xh_file *f)
{
    uint64_t bytes = atomic_load_explicit(&f->counters.bytes_asked, memory_order_relaxed);
    int vain = xh_policy_came_in_vain(bytes, f->size);
    if (f->size <= f->opt.whole_file_bytes && f->origin && (!vain || xh_schedule_is_whole(f)))
        xh_replicas_came_in_vain(f->origin, vain);
}

const struct xh_observer xh_whole_bulk_observer = {{[XH_KIND_RAW] = XH_MISSED}, saw_bulk};
const struct xh_observer xh_whole_observer = {{[XH_KIND_RAW] = XH_ASKED, [XH_KIND_META] = XH_ASKED}, saw};
