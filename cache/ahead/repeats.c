/* Repeats: see repeats.h. They go on with no order, so those that know orders are not told of them. */
#include "repeats.h"

#include "object.h"
#include "pages/keep.h"

void xh_repeats_init(struct xh_repeats *r)
{
    *r = (struct xh_repeats){0};
    pthread_mutex_init(&r->lock, NULL);
}

/* Returns how much of |r| one of the last reads had. The lock is held. */
static uint64_t had(const struct xh_repeats *l, struct xh_range r)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < XH_REPEATS_MOST; i++) {
        uint64_t from = xh_max64(r.off, l->at[i].off), to = xh_min64(r.off + r.len, l->at[i].off + l->at[i].len);
        most = to > from ? xh_max64(most, to - from) : most;
    }
    return most;
}

static int saw(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_repeats *l = f->repeats;
    struct xh_range r = xh_extents_in_a_row(s->ext, s->n);
    if (r.len == 0)
        return 0; /* scattered: what lies between was not read */
    pthread_mutex_lock(&l->lock);
    uint64_t again = had(l, r);
    if (again < r.len)
        l->at[l->n++ % XH_REPEATS_MOST] = r;
    pthread_mutex_unlock(&l->lock);
    if (again > r.len / 2)
        xh_keep_again(f, r.len);
    if (again == 0)
        xh_keep_fresh(f, r.len);
    return again == r.len;
}

const struct xh_observer xh_repeats_observer = {"repeats", {[XH_KIND_RAW] = XH_ASKED}, saw};
