/* Around: see around.h. When it comes, policy.c decides. */
#include "around.h"

#include "base/now.h"
#include "layouts.h"
#include "object.h"
#include "pages/background.h"
#include "pages/limits.h"
#include "policy.h"
#include "schedule.h"
#include "source/compressed.h"

void xh_around_init(struct xh_around *a)
{
    *a = (struct xh_around){0};
    pthread_mutex_init(&a->lock, NULL);
}

/* |a| with |b|; where one is empty, the other. */
static struct xh_range both(struct xh_range a, struct xh_range b)
{
    uint64_t from = xh_min64(a.off, b.off), to = xh_max64(a.off + a.len, b.off + b.len);
    return a.len == 0 ? b : b.len == 0 ? a : (struct xh_range){from, to - from};
}

/* A read has waited for |waits_ns| up to |now|; others may have at the same time. |alone|: for nothing that had been
 * foreseen. */
static void note_wait(struct xh_around *a, uint64_t now, uint64_t waits_ns, int alone)
{
    int began = atomic_load_explicit(&a->began, memory_order_relaxed);
    uint64_t step = xh_min64(waits_ns, now - a->read_ns), slowed = 0;
    uint64_t usual = a->idle_reads ? a->idle_ns / a->idle_reads : 0;
    if (alone && began && waits_ns > usual)
        slowed = (uint64_t)((double)step * (double)(waits_ns - usual) / (double)waits_ns);
    if (alone && !began) {
        a->idle_ns += waits_ns;
        a->idle_reads++;
    }
    a->read_ns = now;
    a->waited_ns += step - slowed;
    a->slowed_ns += xh_min64(slowed, a->slowest_ns);
    a->slowest_ns = xh_max64(slowed, a->slowest_ns);
}

/* The reads so far tell nothing of those to come, which are in |in|. */
static void begin_anew(struct xh_file *f, struct xh_range in)
{
    struct xh_around *a = f->around;
    struct xh_background_state b;
    xh_background_look(f, &b);
    a->in = in;
    a->came_before = b.came;
    atomic_store_explicit(&a->since_ns, 0, memory_order_relaxed);
    a->reads = 0;
    a->waited_ns = a->slowed_ns = a->slowest_ns = 0;
}

/* It is of |r|, in the dataset |whole|, and nothing had foreseen it. Where it would make |a->in| longer than |most|,
 * the reader is elsewhere. */
static void note_place(struct xh_file *f, struct xh_range r, struct xh_range whole, uint64_t most)
{
    struct xh_around *a = f->around;
    struct xh_range in = both(a->in, both(r, whole));
    in = in.len > most ? both(a->in, r) : in;
    if (in.len > most)
        begin_anew(f, r);
    else
        a->in = in;
    a->last = r.off;
    a->reads++;
}

/* Where further reads are expected, after |reads| in |in|: if they are spread evenly, so much farther at either end. */
static struct xh_range expected(const struct xh_file *f, struct xh_range in, unsigned reads)
{
    uint64_t more = in.len / reads, from = in.off - xh_min64(in.off, more);
    return (struct xh_range){from, xh_min64(in.off + in.len + more, f->size) - from};
}

/* Lets come what lies around the reads, or not. |most|: so many bytes may be kept; |alone|: the last read was of what
 * nothing had foreseen. Once all is here that is worth a request of its own, such a read brings what is left around
 * it: else each read of what is left would wait for a round trip. The lock is held. */
static void go_on(struct xh_file *f, uint64_t most, int alone)
{
    struct xh_around *a = f->around;
    struct xh_origin_info info;
    struct xh_background_state b;
    xh_replicas_get_info(f->origin, &info);
    xh_background_look(f, &b);
    struct xh_paid paid = {.reads = a->reads, .waited_ns = a->waited_ns, .slowed_ns = a->slowed_ns,
                           .runs = b.runs, .bytes = a->in.len, .came = b.came - a->came_before,
                           .second_bytes = b.second_bytes ? b.second_bytes : info.young ? 0 : info.second_bytes,
                           .far = info.far, .in_vain = info.in_vain};
    int may = a->in.len <= most && xh_policy_pays_for_all(&paid); /* there may be less room than there was */
    if (b.runs && !may)
        xh_background_end(f);
    if (b.runs || b.failed || !may || info.streams == 0)
        return;
    struct xh_range in = expected(f, a->in, a->reads);
    in = in.len <= most ? in : a->in;
    int all = in.off == a->all.off && in.len == a->all.len;
    if (all || !xh_schedule_around(f, in, a->last)) {
        a->all = in;
        if (alone && b.began)
            xh_schedule_near(f, a->last);
        return;
    }
    a->all.len = 0;
    xh_background_look(f, &b);
    if (b.began)
        atomic_store_explicit(&a->began, 1, memory_order_relaxed);
}

/* There was a read. The reader is waited for as long as he has read so far: he may come back. */
static void wait_for_reader(struct xh_file *f, uint64_t now)
{
    uint64_t since = atomic_load_explicit(&f->around->since_ns, memory_order_relaxed);
    if (since == 0)
        atomic_store_explicit(&f->around->since_ns, since = now, memory_order_relaxed);
    xh_background_wanted(f, now + (now - since));
}

static int saw(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_around *a = f->around;
    if (!s->missed && atomic_load_explicit(&a->began, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&a->hits, 1, memory_order_relaxed);
        wait_for_reader(f, xh_now_ns());
    }
    struct xh_range span = xh_extents_span(s->ext, s->n);
    if (!s->missed || s->staged || !f->shadow || xh_schedule_is_whole(f) || xh_compressed_used(f->compressed) ||
        !xh_policy_waits_for_trips(s->ext, s->n, xh_limits_flight(f)))
        return 0;
    struct xh_range whole = s->alone ? xh_layouts_dataset(f, span) : (struct xh_range){0};
    uint64_t most = xh_ahead_most(f, 1), now = xh_now_ns();
    if (pthread_mutex_trylock(&a->lock))
        return 0;
    wait_for_reader(f, now);
    note_wait(a, now, now - s->begun_ns, s->alone);
    if (s->alone && span.len <= most)
        note_place(f, span, whole, most);
    if (a->in.len)
        go_on(f, most, s->alone && span.len <= most);
    pthread_mutex_unlock(&a->lock);
    return 0;
}

/* A read that is about to bring much of it itself, most likely as the first of others like it: it would come twice. */
static int saw_large(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_around *a = f->around;
    uint64_t bytes = xh_extents_bytes(s->ext, s->n);
    if (bytes < XH_BULK_BYTES || !atomic_load_explicit(&a->began, memory_order_relaxed) ||
        pthread_mutex_trylock(&a->lock))
        return 0;
    if (xh_policy_comes_by_itself(bytes, a->in.len) && xh_background_leave(f, xh_extents_span(s->ext, s->n)))
        begin_anew(f, (struct xh_range){0, 0});
    pthread_mutex_unlock(&a->lock);
    return 0;
}

void xh_around_end(struct xh_file *f)
{
    unsigned hits = atomic_load_explicit(&f->around->hits, memory_order_relaxed);
    if (f->origin && atomic_load_explicit(&f->around->began, memory_order_relaxed))
        xh_replicas_came_in_vain(f->origin, xh_policy_paid_in_vain(hits));
}

const struct xh_observer xh_around_large_observer = {{[XH_KIND_RAW] = XH_MISSED}, saw_large};
const struct xh_observer xh_around_observer = {{[XH_KIND_RAW] = XH_ANSWERED}, saw};
