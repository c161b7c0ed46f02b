/* Planes: see planes.h. */
#include "planes.h"

#include <stdlib.h>

#include "hints.h"
#include "layouts.h"
#include "object.h"
#include "schedule.h"

void xh_planes_init(struct xh_planes *p)
{
    pthread_mutex_init(&p->lock, NULL);
}

void xh_planes_forget(struct xh_planes *p)
{
    *p = (struct xh_planes){0};
    xh_planes_init(p);
}

void xh_planes_free(struct xh_planes *p)
{
    xh_shifts_free(&p->shifts);
    pthread_mutex_destroy(&p->lock);
}

/* Proposes the next calls. The lock is held. */
static void propose(struct xh_file *f, struct xh_range span)
{
    struct xh_shifts *s = &f->planes->shifts;
    struct xh_range whole = xh_layouts_dataset(f, span), all = {0, f->size};
    size_t n;
    uint64_t calls;
    struct xh_range *r = xh_shifts_next(s, xh_guess_window(f), whole.len ? whole : all, &n, &calls);
    if (!r)
        return;
    xh_schedule_trace("plane", r, n < 4 ? n : 4);
    s->ahead += xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_RAW, .r = r, .n = n}) == n ? calls : 0;
    free(r);
}

static int saw(struct xh_file *f, const struct xh_seen *s)
{
    struct xh_range span = xh_extents_span(s->ext, s->n);
    if (s->n < 2 || !xh_extents_are_scattered(s->ext, s->n) || pthread_mutex_trylock(&f->planes->lock))
        return 0;
    xh_shifts_saw(&f->planes->shifts, s->ext, s->n);
    propose(f, span);
    pthread_mutex_unlock(&f->planes->lock);
    return 0;
}

const struct xh_observer xh_planes_observer = {{[XH_KIND_RAW] = XH_ASKED}, saw};
