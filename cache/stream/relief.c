/* See relief.h. How much is given, and when, policy.c decides. */
#include "relief.h"

#include "policy.h"
#include "segment.h"
#include "watch/trace.h"

/* The parcels of |slow| in [cut, end), its last ones of which nothing has come, come by a load of their own; |patient|:
 * over a connection that is there. Lets go of the lock. */
static void relieve(struct xh_file *f, struct xh_prefetch *slow, size_t cut, size_t end, int patient)
{
    struct xh_stage *s = f->stage;
    struct xh_prefetch *l = xh_prefetch_divide(slow, cut, end);
    if (!l)
        return;
    xh_trace(XH_T_READ, "relieve", "pos=%llu from=%llu", (unsigned long long)slow->pos, (unsigned long long)l->pos);
    l->then = slow->then;
    l->course.loads = slow->course.loads;
    l->course.last = slow->course.last;
    l->t.patient = patient;
    struct xh_transfer *t = &l->t;
    s->stream[xh_stage_loads(s)] = l;
    xh_prefetch_hand_over(f, &t, 1);
}

static int has_begun(const struct xh_prefetch *l)
{
    return !l->submitting && l->pos > l->parcels[0].off;
}

/* 1 when |l| has brought nothing of its parcel |p|, and is not there yet. */
static int is_ahead(const struct xh_prefetch *l, const struct xh_segment *p)
{
    return p->off > l->pos && p->got == p->off && !p->copying;
}

static uint64_t wanted_of(const struct xh_segment *p)
{
    return xh_segment_is_wanted(p) ? p->end - p->off : 0;
}

/* The load that the reader waits for, up to |end|, while all others of the stream, which were faster, stand still;
 * NULL: there is none, or its speed is not known yet. */
static struct xh_prefetch *straggler(const struct xh_stage *s, uint64_t end)
{
    struct xh_prefetch *slow = NULL;
    uint64_t others = 0;
    size_t n = 0, known = 0;
    for (; n < XH_STREAMS_MAX && s->stream[n]; n++) {
        struct xh_prefetch *l = s->stream[n];
        if (l->cut || l->in_parts || (!l->stands && slow))
            return NULL;
        slow = l->stands ? slow : l;
        others += l->stands ? l->course.pace.rate : 0;
        known += l->stands && l->course.pace.rate;
    }
    int is_slow = slow && known && has_begun(slow) && slow->course.pace.steady &&
                  xh_policy_holds_up(slow->course.pace.rate, others / known);
    return is_slow && n < XH_STREAMS_MAX && slow->pos < end ? slow : NULL;
}

void xh_relief_straggler(struct xh_file *f, uint64_t end)
{
    struct xh_stage *s = f->stage;
    struct xh_prefetch *slow = straggler(s, end);
    struct xh_origin_info info;
    size_t first, last;
    if (!slow)
        return;
    for (first = slow->nparcels; first > 1 && is_ahead(slow, &slow->parcels[first - 1]);) /* parts come in any order */
        first--;
    for (last = first; last < slow->nparcels && slow->parcels[last].off < s->reach;)
        last++;
    if (first == last)
        return;
    xh_replicas_get_info(f->origin, &info);
    const struct xh_segment *next = &slow->parcels[first];
    uint64_t most = xh_policy_keeps(next->end - next->off, slow->course.pace.rate, (double)info.rtt_ns);
    uint64_t keeps = slow->parcels[first - 1].end - slow->pos, all = keeps;
    size_t cut = first;
    for (size_t i = first; i < last; i++) {
        uint64_t bytes = wanted_of(&slow->parcels[i]);
        all += bytes;
        if (cut == i && keeps + bytes <= most) {
            keeps += bytes;
            cut++;
        }
    }
    int taken = info.open - info.idle > info.streaming; /* also the connection that is left for what cannot wait */
    if (cut < last && xh_policy_is_relieved(all, most) && !taken && !xh_replicas_are_several(f->origin))
        relieve(f, slow, cut, slow->nparcels, 0);
}

/* What |l| is still to bring. */
static uint64_t lacks(const struct xh_prefetch *l)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->nparcels; i++)
        if (xh_segment_is_wanted(&l->parcels[i]) && l->parcels[i].end > l->pos)
            bytes += l->parcels[i].end - xh_max64(l->parcels[i].off, l->pos);
    return bytes;
}

/* Which of the first |n| loads would end last. NULL: that is not known. */
static struct xh_prefetch *last_of(const struct xh_stage *s, size_t n)
{
    struct xh_prefetch *slow = NULL;
    double longest = 0;
    for (size_t i = 0; i < n; i++) {
        struct xh_prefetch *l = s->stream[i];
        double takes = has_begun(l) && l->course.pace.rate ? (double)lacks(l) / (double)l->course.pace.rate : 0;
        if (l->in_parts || l->ended || l->stands || takes <= longest)
            continue;
        longest = takes;
        slow = l;
    }
    return slow;
}

void xh_relief_last(struct xh_file *f, const struct xh_course *course)
{
    struct xh_stage *s = f->stage;
    struct xh_origin_info info;
    size_t n = xh_stage_loads(s), asked = 0;
    if (n == 0 || s->stream[0]->in_parts || n >= s->stream[0]->course.loads)
        return;
    if (xh_followed_by(f) || xh_replicas_are_several(f->origin)) /* those that are done have other work */
        return;
    struct xh_prefetch *slow = last_of(s, n);
    if (!slow)
        return;
    xh_replicas_get_info(f->origin, &info);
    struct xh_giving g = {.lacks = lacks(slow), .rate = slow->course.pace.rate, .rtt_ns = (double)info.rtt_ns,
                          .taker_rate = course->pace.rate ? course->pace.rate : s->rate / slow->course.loads};
    uint64_t most = xh_policy_gives(&g), bytes = 0;
    size_t end = slow->nparcels;
    for (size_t i = 0; i < n; i++)
        asked += !has_begun(s->stream[i]);
    while (end > 0 && slow->cut && slow->parcels[end - 1].off >= slow->cut)
        end--;
    size_t cut = end;
    for (; cut > 0 && is_ahead(slow, &slow->parcels[cut - 1]); cut--) {
        bytes += wanted_of(&slow->parcels[cut - 1]);
        if (bytes > most)
            break;
    }
    if (cut < end && info.idle > asked)
        relieve(f, slow, cut, end, 1);
}
