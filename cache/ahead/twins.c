/* Datasets that are read at the same places: see twins.h. */
#include "twins.h"

/* So many places in a row show that a dataset follows; a place that does not fit takes all of that back. */
#define SURE 2u
/* So many places may be fetched in vain, before a dataset is not foretold any more. */
#define WAITS_MOST 4u
/* So many reads elsewhere end what was learned: the program does something else now. */
#define STRANGE_MOST 32u
#define WIDTH_MOST 16u /* of elements, bytes: both are whole multiples of the shorter one's 1, 2, 4, or 8 bytes */

/* The place in a dataset of |size| units in which |p| is read: at the same element. Returns 0 when there is none. */
static int mapped(struct xh_twin_place p, uint64_t set, uint64_t size, struct xh_twin_place *out)
{
    for (uint64_t b = 1; b <= WIDTH_MOST; b *= 2) {
        if (p.size == 0 || p.size % b || size % (p.size / b) || size / (p.size / b) > WIDTH_MOST)
            continue;
        uint64_t a = size / (p.size / b);
        if (a == 0 || p.at % b || p.len % b || p.at > p.size || p.len > p.size - p.at)
            return 0;
        *out = (struct xh_twin_place){set, p.at / b * a, p.len / b * a, size};
        return 1;
    }
    return 0;
}

/* Returns 1 when |p| is where the leading dataset was read lately. */
static int fits(const struct xh_twins *t, struct xh_twin_place p)
{
    struct xh_twin_place there;
    for (unsigned i = 0; i < t->nrecent && i < XH_TWINS_RECENT; i++)
        if (mapped(t->recent[i], p.set, p.size, &there) && there.at == p.at && there.len == p.len)
            return 1;
    return 0;
}

static void note(struct xh_twins *t, struct xh_twin_place p)
{
    t->recent[t->nrecent++ % XH_TWINS_RECENT] = p;
    if (t->nrecent == 2 * XH_TWINS_RECENT)
        t->nrecent = XH_TWINS_RECENT;
}

static void lead(struct xh_twins *t, struct xh_twin_place p)
{
    *t = (struct xh_twins){0};
    note(t, p);
}

/* Foretells what follows |p|, a place in the leading dataset. */
static unsigned foretell(struct xh_twins *t, struct xh_twin_place p, struct xh_twin_place *out)
{
    unsigned n = 0;
    t->strange = 0;
    note(t, p);
    for (unsigned i = 0; i < t->n; i++) {
        if (t->follows[i].score < SURE || !mapped(p, t->follows[i].set, t->follows[i].size, &out[n]))
            continue;
        if (++t->follows[i].waited > WAITS_MOST)
            t->follows[i].score = 0;
        else
            n++;
    }
    return n;
}

unsigned xh_twins_read(struct xh_twins *t, struct xh_twin_place p, struct xh_twin_place out[XH_TWINS_MOST])
{
    if (t->nrecent && p.set == t->recent[0].set)
        return foretell(t, p, out);
    int fit = fits(t, p);
    for (unsigned i = 0; i < t->n; i++)
        if (t->follows[i].set == p.set) {
            if (fit) {
                t->follows[i].score += t->follows[i].score < SURE;
                t->follows[i].waited = 0;
            } else if (t->follows[i].score >= SURE) {
                t->follows[i].score = 0; /* something of it between two rows */
            } else {
                t->follows[i] = t->follows[--t->n];
                break;
            }
            return 0;
        }
    if (fit && t->n < XH_TWINS_MOST) {
        t->follows[t->n].set = p.set;
        t->follows[t->n].size = p.size;
        t->follows[t->n].score = 1;
        t->follows[t->n++].waited = 0;
    } else if (t->n == 0 || ++t->strange > STRANGE_MOST) {
        lead(t, p);
    }
    return 0;
}
