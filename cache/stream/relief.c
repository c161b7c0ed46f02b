/* See relief.h. How much is given, and when, policy.c decides. */
#include "relief.h"

#include <stdlib.h>

#include "base/table.h"
#include "pages/limits.h"
#include "policy.h"
#include "segment.h"
#include "watch/trace.h"

/* The parcels of |slow| in [cut, end), its last ones, come by a load of their own, as nobody waits for them; |patient|:
 * over a connection that is there. Lets go of the lock. */
static void relieve(struct xh_file *f, struct xh_prefetch *slow, size_t cut, size_t end, int patient)
{
    struct xh_stage *s = f->stage;
    struct xh_range_list mine = {0};
    if (xh_grow(mine.at, mine.room, end - cut))
        return;
    for (size_t i = cut; i < end; i++) {
        struct xh_segment *p = &slow->parcels[i];
        mine.at[mine.n++] = (struct xh_range){p->off, p->end - p->off};
        xh_segment_unlist(s, p);
    }
    xh_prefetch_cut(slow, &slow->parcels[cut]);
    struct xh_prefetch *l = xh_prefetch_add(f, mine.at, mine.n, slow->turns, slow->t.full);
    free(mine.at);
    if (!l) {
        s->lost = 1;
        return;
    }
    xh_trace(XH_T_READ, "relieve", "pos=%llu from=%llu", (unsigned long long)slow->pos, (unsigned long long)l->pos);
    l->behind = 1;
    l->then = slow->then;
    l->course.loads = slow->course.loads;
    l->course.last = slow->course.last;
    l->t.patient = patient;
    struct xh_transfer *t = &l->t;
    s->stream[xh_stage_loads(s)] = l;
    xh_prefetch_hand_over(f, &t, 1);
}

/* The load that the reader waits for, up to |end|, while all others of the stream stand still; NULL: there is none. A
 * load that relieves another one counts only once its speed is known. */
static struct xh_prefetch *straggler(const struct xh_stage *s, uint64_t end)
{
    struct xh_prefetch *slow = NULL;
    size_t n = 0;
    for (; n < XH_STREAMS_MAX && s->stream[n]; n++) {
        struct xh_prefetch *l = s->stream[n];
        if (l->cut || l->in_parts || (!l->stands && slow))
            return NULL;
        slow = l->stands ? slow : l;
    }
    int has_begun = slow && !slow->submitting && slow->pos > slow->parcels[0].off;
    int is_steady = has_begun && (!slow->behind || slow->course.pace.steady);
    return is_steady && n > 1 && n < XH_STREAMS_MAX && slow->pos < end ? slow : NULL;
}

void xh_relief_straggler(struct xh_file *f, uint64_t end)
{
    struct xh_stage *s = f->stage;
    struct xh_prefetch *slow = straggler(s, end);
    struct xh_origin_info info;
    size_t first = 0, last;
    if (!slow)
        return;
    while (first < slow->nparcels && slow->parcels[first].off <= slow->pos)
        first++;
    for (last = first; last < slow->nparcels && slow->parcels[last].off < s->reach;)
        last++;
    size_t cut = (first + last) / 2;
    uint64_t keeps = slow->parcels[first - 1].end - slow->pos;
    for (size_t i = first; i < cut; i++)
        keeps += slow->parcels[i].end - slow->parcels[i].off;
    for (size_t i = cut; i < slow->nparcels; i++)
        if (slow->parcels[i].takers || !slow->parcels[i].listed)
            return;
    xh_replicas_get_info(f->origin, &info);
    int taken = info.open - info.idle > info.streaming; /* also the connection that is left for what cannot wait */
    if (cut > first && !taken && !info.young && !xh_replicas_are_several(f->origin) &&
        xh_policy_is_relieved(keeps, slow->course.pace.rate, (double)info.rtt_ns))
        relieve(f, slow, cut, slow->nparcels, 0);
}

/* What |l| is still to bring. */
static uint64_t lacks(const struct xh_prefetch *l)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < l->nparcels; i++)
        if (l->parcels[i].listed && l->parcels[i].end > l->pos)
            bytes += l->parcels[i].end - xh_max64(l->parcels[i].off, l->pos);
    return bytes;
}

/* Which of the first |n| loads would end last; |g|: what it lacks, and its speed. |*asked|: how many wait for their
 * first byte. NULL: that is not known. */
static struct xh_prefetch *last_of(const struct xh_stage *s, size_t n, struct xh_giving *g, size_t *asked)
{
    struct xh_prefetch *slow = NULL;
    double longest = 0;
    *asked = 0;
    for (size_t i = 0; i < n; i++) {
        struct xh_prefetch *l = s->stream[i];
        int has_begun = !l->submitting && l->pos > l->parcels[0].off;
        uint64_t bytes = lacks(l);
        *asked += !has_begun;
        double takes = has_begun && l->course.pace.rate ? (double)bytes / (double)l->course.pace.rate : 0;
        if (l->in_parts || l->ended || l->stands || takes <= longest)
            continue;
        longest = takes;
        slow = l;
        g->lacks = bytes;
        g->rate = l->course.pace.rate;
    }
    return slow;
}

void xh_relief_last(struct xh_file *f, const struct xh_course *course)
{
    struct xh_stage *s = f->stage;
    struct xh_origin_info info;
    struct xh_giving g = {0};
    size_t n = xh_stage_loads(s), asked;
    if (n == 0 || s->stream[0]->in_parts || n >= s->stream[0]->course.loads)
        return;
    if (xh_followed_by(f) || xh_replicas_are_several(f->origin)) /* those that are done have other work */
        return;
    struct xh_prefetch *slow = last_of(s, n, &g, &asked);
    if (!slow)
        return;
    xh_replicas_get_info(f->origin, &info);
    g.rtt_ns = (double)info.rtt_ns;
    g.taker_rate = course->pace.rate ? course->pace.rate : s->rate / slow->course.loads;
    uint64_t most = xh_policy_gives(&g), bytes = 0;
    size_t end = slow->nparcels;
    while (end > 0 && slow->cut && slow->parcels[end - 1].off >= slow->cut)
        end--;
    size_t cut = end;
    for (; cut > 0 && slow->parcels[cut - 1].listed && !slow->parcels[cut - 1].takers; cut--) {
        bytes += slow->parcels[cut - 1].end - slow->parcels[cut - 1].off;
        if (bytes > most)
            break;
    }
    if (cut < end && info.idle > asked)
        relieve(f, slow, cut, end, 1);
}
