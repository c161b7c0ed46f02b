/* Jobs: see job.h. */
#include "job.h"

#include <stdlib.h>

#include "watch/timeline.h"
#include "endpoint.h"

int xh_job_init(struct xh_job *j, struct xh_origin *o, enum xh_ask ask, struct xh_transfer *t, struct xh_probe *p)
{
    size_t n = t ? t->nranges : 0;
    j->origin = o;
    j->ask = ask;
    j->transfer = t;
    j->probe = p;
    j->speculative = t ? t->speculative : 0;
    j->hint = xh_timeline_hints;
    j->got = &j->got_one;
    if (n > 1 && !(j->got = calloc(n, sizeof *j->got)))
        return -1;
    xh_ring_init(&j->requests);
    xh_ring_init(&j->in_origin);
    xh_ring_init(&j->in_finished);
    struct xh_request *r = &j->first_request;
    r->job = j;
    r->end = n;
    xh_ring_init(&r->link);
    xh_ring_init(&r->in_job);
    return 0;
}

int xh_job_queue(struct xh_job *j)
{
    if (xh_endpoint_queue(&j->first_request, XH_PLACE_LAST) != 0)
        return -1;
    xh_ring_put_last(&j->requests, &j->first_request.in_job);
    xh_ring_put_last(&j->origin->jobs, &j->in_origin);
    return 0;
}

void xh_job_retire(struct xh_request *r, struct xh_thread *t)
{
    struct xh_job *j = r->job;
    if (r->stuck != XH_STUCK_NEVER)
        xh_endpoint_stuck_is_over(r);
    xh_request_enter(r, XH_REQ_OVER);
    xh_ring_take(&r->in_job);
    if (r->leads) /* another one logs in */
        xh_session_over(j->origin->caller.session, j->origin->url->server, r->leads->server, XH_LOGIN_NONE, NULL);
    xh_url_unref(r->leads);
    r->leads = NULL;
    if (j->origin->seeks == r) /* another one asks where the file is */
        j->origin->seeks = NULL;
    xh_jar_free(&r->chain);
    if (r->twin)
        r->twin->twin = NULL; /* it stands for the slice alone now */
    if (r != &j->first_request) {
        xh_url_unref(r->url);
        free(r);
    }
    if (!xh_ring_empty(&j->requests) || !xh_ring_empty(&j->in_finished))
        return;
    if (!t)
        t = xh_engine_thread(0);
    xh_ring_put_last(&t->finished, &j->in_finished);
    xh_engine_wake(t);
}

void xh_job_fail(struct xh_job *j, const struct xh_err *err)
{
    struct xh_endpoint *freed = NULL;
    if (j->err.code == 0)
        j->err = *err;
    xh_ring_each_leaving (struct xh_request, r, in_job, &j->requests) {
        switch (r->state) {
        case XH_REQ_QUEUED: case XH_REQ_BOUND:
            if (!r->twin)
                j->lost = 1;
            freed = r->endpoint;
            xh_endpoint_take(r);
            xh_job_retire(r, NULL);
            break;
        case XH_REQ_DELAYED:
            j->lost = 1;
            xh_ring_take(&r->link);
            xh_job_retire(r, NULL);
            break;
        case XH_REQ_RUNNING:
            if (r->exchange && !r->cut) {
                r->cut = 1;
                r->thread->cuts = 1;
                xh_engine_wake(r->thread);
            }
            break;
        default:
            break; /* the one that fails just now */
        }
    }
    if (freed)
        xh_endpoint_dispatch(freed);
}

void xh_job_poison(struct xh_origin *o, const struct xh_err *err)
{
    if (o->poison.code == 0)
        o->poison = *err;
    xh_ring_each_leaving (struct xh_job, j, in_origin, &o->jobs)
        if (j->transfer)
            xh_job_fail(j, &o->poison);
}

struct xh_job *xh_job_probe(struct xh_origin *o, enum xh_ask ask, struct xh_probe *p, void (*over)(struct xh_job *))
{
    struct xh_job *j = calloc(1, sizeof *j);
    if (!j || xh_job_init(j, o, ask, NULL, p) != 0 || xh_job_queue(j) != 0) {
        free(j);
        return NULL;
    }
    j->over = over;
    xh_endpoint_dispatch(j->first_request.endpoint);
    return j;
}
