/* Rests of replies that nobody wants any more: see rest.h. */
#include "rest.h"

#include <stdlib.h>

#include "base/now.h"
#include "watch/timeline.h"
#include "watch/trace.h"
#include "control.h"
#include "endpoint.h"
#include "job.h"

/* 1 when |r| asks for pieces, which come as a whole or not at all: streams, questions and pairs are cut off. */
static int is_plain(const struct xh_request *r)
{
    const struct xh_transfer *t = r->job->transfer;
    return t && !t->full && !r->twin && !r->surplus && !r->leads && r->exchange->sent_ns &&
           r->exchange->turn == XH_PROXY_FREE;
}

int xh_rest_begin(struct xh_thread *t, struct xh_request *r)
{
    struct xh_exchange *x = r->exchange;
    struct xh_job *of = r->job;
    if (!x || !xh_engine_runs() || !is_plain(r))
        return 0;
    uint64_t left = xh_exchange_left(x);
    if (!xh_control_may_run_out(&r->endpoint->link, left))
        return 0;
    struct xh_job *j = calloc(1, sizeof *j);
    if (!j)
        return 0;
    xh_job_init(j, NULL, XH_ASK_RANGES, NULL, NULL); /* without ranges there is nothing that it could lack memory for */
    j->speculative = of->speculative;                /* it counts where it did */
    struct xh_request *rest = &j->first_request;
    rest->state = XH_REQ_RUNNING;
    rest->endpoint = r->endpoint;
    rest->thread = t;
    rest->exchange = x;
    rest->opens = r->opens;
    rest->hedge = r->hedge; /* where its twin is over */
    rest->behind_ns = r->behind_ns;
    rest->queued_bytes = r->queued_bytes;
    rest->surplus = 1;
    xh_ring_put_last(&j->requests, &rest->in_job);
    xh_ring_take(&r->link);
    xh_ring_put_last(&t->running, &rest->link);
    x->request = rest;
    x->job = j;
    x->speculative = &j->speculative;
    xh_exchange_run_out(x, left, xh_now_ns() + (uint64_t)xh_link_opening_ns(&r->endpoint->link));
    xh_count(of->origin->counters, connections, r->opens); /* how many libcurl opened is told at the end, to nobody */
    xh_trace(XH_T_ORIGIN, "rest", "id=%p of=%p", (void *)rest, (void *)r);
    of->lost |= xh_job_lacks(of, r->first, r->end);
    r->exchange = NULL;
    r->endpoint = NULL;
    xh_job_retire(r, t);
    return 1;
}

int xh_rest_over(struct xh_exchange *x, const struct xh_outcome *out)
{
    struct xh_request *r = x->request;
    struct xh_job *j = r->job;
    struct xh_endpoint *e = r->endpoint;
    if (j->origin)
        return 0;
    xh_exchange_over(x, out);
    if (xh_timeline_on())
        xh_exchange_draw(x, out, "rest");
    xh_engine_lock();
    xh_endpoint_release(r, x);
    r->exchange = NULL;
    xh_request_enter(r, XH_REQ_OVER);
    xh_endpoint_dispatch(e);
    xh_engine_unlock();
    free(j);
    return 1;
}
