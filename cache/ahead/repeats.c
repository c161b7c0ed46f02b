/* Repeats: see repeats.h. They go on with no order, so those that know orders are not told of them. */
#include "repeats.h"

#include "object.h"
#include "policy.h"
#include "schedule.h"

void xh_repeats_init(struct xh_repeats *r)
{
    *r = (struct xh_repeats){.left = r->left}; /* the child keeps on, too */
    pthread_mutex_init(&r->lock, NULL);
}

/* Returns how much of |r| one of the last reads had. One that is not here, |alone|, is no repeat of a longer one: what
 * was read whole and not kept may be read in an order of its own now. The lock is held. */
static uint64_t had(const struct xh_repeats *l, struct xh_range r, int alone)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < XH_REPEATS_MOST; i++) {
        if (alone && l->at[i].len > r.len)
            continue;
        uint64_t from = xh_max64(r.off, l->at[i].off), to = xh_min64(r.off + r.len, l->at[i].off + l->at[i].len);
        most = to > from ? xh_max64(most, to - from) : most;
    }
    return most;
}

/* Of a scattered read, of which what lies between was not read, only the first piece is looked for. */
static int saw(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_repeats *l = f->repeats;
    struct xh_range row = xh_extents_in_a_row(s->ext, s->n);
    struct xh_range r = row.len ? row : (struct xh_range){s->ext->off, s->ext->len};
    pthread_mutex_lock(&l->lock);
    uint64_t bytes = xh_extents_bytes(s->ext, s->n), again = had(l, r, s->alone), left = l->left;
    int reread = s->reread || again > r.len / 2;
    if (row.len && again < r.len)
        l->at[l->n++ % XH_REPEATS_MOST] = r;
    if (reread)
        l->left = xh_max64(left, xh_policy_stays_reread(bytes));
    else
        l->left -= xh_min64(left, bytes - xh_min64(again, bytes));
    int over = l->left == 0;
    pthread_mutex_unlock(&l->lock);
    if (reread ? left || xh_schedule_is_empty(f) : over)
        xh_schedule_again(f, reread);
    return row.len && again == row.len;
}

const struct xh_observer xh_repeats_observer = {{[XH_KIND_RAW] = XH_ASKED}, saw};
