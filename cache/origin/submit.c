/* The origin: transfers in, and what can be asked of them and of an open file; its end. See origin.h. */
#include "origin.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "control.h"
#include "endpoint.h"
#include "job.h"
#include "learn.h"
#include "loop.h"

int xh_origin_ready(const struct xh_options *o, struct xh_err *err)
{
    int rc = xh_loop_enter(o, err);
    if (rc == 0)
        xh_engine_unlock();
    return rc;
}

int xh_origin_submit(struct xh_origin *o, struct xh_transfer *const *ts, size_t n, struct xh_err *err)
{
    struct xh_ring jobs;
    struct xh_job *j;
    struct xh_err cancelled;
    xh_err_set(&cancelled, XH_E_CANCELLED, 0, "%.200s: the file was closed", o->url->shown);
    xh_ring_init(&jobs);
    for (size_t i = 0; i < n; i++) {
        j = calloc(1, sizeof *j);
        assert(ts[i]->nranges > 0);
        if (!j || xh_job_init(j, o, XH_ASK_RANGES, ts[i], NULL) != 0) {
            free(j);
            goto no_memory;
        }
        xh_ring_put_last(&jobs, &j->in_origin);
    }
    int rc = xh_loop_enter(&o->options, err);
    if (rc != 0)
        goto fail;
    xh_origin_object_adopt(o);
    struct xh_endpoint *e = NULL;
    while ((j = xh_ring_take_first(&jobs, struct xh_job, in_origin)) != NULL) {
        j->transfer->origin_private = j;
        /* All go to one endpoint, so only the first can lack memory for it. */
        if (xh_job_queue(j) != 0) {
            xh_ring_put_first(&jobs, &j->in_origin);
            xh_engine_unlock();
            goto no_memory;
        }
        e = j->first_request.endpoint;
        if (o->poison.code)
            xh_job_fail(j, &o->poison);
        else if (o->closing) /* from a done() while the rest is being cancelled */
            xh_job_fail(j, &cancelled);
    }
    if (e)
        xh_endpoint_dispatch(e);
    xh_learn_check(o);
    xh_engine_unlock();
    return 0;
no_memory:
    rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a transfer");
fail:
    while ((j = xh_ring_take_first(&jobs, struct xh_job, in_origin)) != NULL) {
        if (j->got != &j->got_one)
            free(j->got);
        free(j);
    }
    return rc;
}

void xh_origin_cancel(struct xh_origin *o, struct xh_transfer *t)
{
    struct xh_err err;
    xh_err_set(&err, XH_E_CANCELLED, 0, "%.200s: the transfer was cancelled", o->url->shown);
    xh_engine_lock();
    xh_job_fail(t->origin_private, &err);
    xh_engine_unlock();
}

int xh_origin_withdraw(struct xh_origin *o, struct xh_transfer *t)
{
    struct xh_err err;
    xh_err_set(&err, XH_E_CANCELLED, 0, "%.200s: the transfer was withdrawn", o->url->shown);
    xh_engine_lock();
    struct xh_job *j = t->origin_private;
    int queued = j->speculative;
    xh_ring_each (struct xh_request, r, in_job, &j->requests)
        queued &= r->state == XH_REQ_QUEUED;
    if (queued)
        xh_job_fail(j, &err);
    xh_engine_unlock();
    return queued;
}

void xh_origin_resume(struct xh_origin *o, struct xh_transfer *t)
{
    xh_engine_lock();
    struct xh_job *j = t->origin_private;
    xh_ring_each (struct xh_request, r, in_job, &j->requests) {
        if (r->state == XH_REQ_DELAYED && r->due_ns == XH_DUE_RESUMED) {
            r->due_ns = 0;
        } else if (r->state == XH_REQ_RUNNING) {
            r->resume = 1;
            r->thread->resumes = 1;
        } else {
            continue; /* it asks again when it runs */
        }
        xh_engine_wake(r->thread);
    }
    xh_engine_unlock();
}

void xh_origin_promote(struct xh_origin *o, struct xh_transfer *t)
{
    xh_engine_lock();
    struct xh_job *j = t->origin_private;
    if (j && j->speculative) {
        j->speculative = 0;
        xh_ring_each (struct xh_request, r, in_job, &j->requests)
            xh_endpoint_promote(r);
        /* What was kept back as speculation may go now. */
        xh_ring_each (struct xh_request, r, in_job, &j->requests) {
            if (r->state == XH_REQ_QUEUED)
                xh_endpoint_dispatch(r->endpoint);
            else if (r->state == XH_REQ_RUNNING)
                xh_engine_wake(r->thread); /* it may straggle already */
        }
    }
    xh_engine_unlock();
}

void xh_origin_get_info(struct xh_origin *o, struct xh_origin_info *out)
{
    out->size = o->dialect.size;
    out->validator = o->validator;
    out->fleeting = xh_dialect_is_fleeting(&o->dialect, o->options.is_written);
    out->unsettled = xh_dialect_is_fleeting(&o->dialect, 1);
    out->changed_s = (long long)o->dialect.changed;
    out->apart = o->dialect.proof == XH_BY_PROPFIND;
    out->url_shown = o->url->shown;
    xh_engine_lock();
    struct xh_endpoint *e = xh_endpoint_find((o->target ? o->target : o->url)->server);
    struct xh_limits lim;
    out->changed = o->poison.code != 0;
    xh_limits_init(&lim);
    if (e) {
        xh_limits_look(&e->limits, xh_now_ns());
        lim = e->limits;
    }
    int several = o->options.multirange && !o->dialect.whole && !o->url->region;
    out->max_ranges = several ? lim.max_ranges : 1;
    out->whole = o->dialect.whole;
    out->max_range_header = lim.max_range_header;
    unsigned pay = e ? xh_control_paying(&e->trial) : 1;
    unsigned most = xh_endpoint_share(e, o);
    out->allowed = xh_origin_object_allowed(o);
    out->far = xh_control_is_far((double)(e ? e->link.rtt_ns : 0));
    out->connections = most < pay ? most : pay;
    out->paying = e ? e->trial.paying : 0;
    out->rtt_ns = e ? (uint64_t)e->link.rtt_ns : 0;
    out->in_vain = e && e->in_vain;
    out->trip_bytes = e ? (uint64_t)(e->link.connection_rate * e->link.rtt_ns) : 0;
    out->scattered = xh_endpoint_most(e, o, 0);
    xh_endpoint_open(e, out);
    unsigned busy = xh_endpoint_streams(e, most);
    out->streaming = xh_control_streams(most);
    out->streams = out->streaming > busy && !out->whole ? out->streaming - busy : 0;
    if (out->whole) /* each of several requests would bring all of it */
        out->connections = out->scattered = out->streaming = 1;
    xh_engine_unlock();
}

size_t xh_origin_hint(struct xh_origin *o, char *buf, size_t size)
{
    xh_engine_lock();
    struct xh_dialect d = o->dialect;
    const struct xh_endpoint *e = xh_endpoint_find(o->url->server);
    double rtt_ns = e ? e->link.rtt_ns : 0;
    xh_engine_unlock();
    int n = snprintf(buf, size, XH_ROUND_TRIP "%.0f ", rtt_ns / 1e3);
    size_t rest = n > 0 && (size_t)n < size ? xh_dialect_hint(&d, buf + n, size - (size_t)n) : 0;
    return rest ? rest + (size_t)n : 0;
}

void xh_origin_share(struct xh_origin *o, unsigned processes, int yields)
{
    xh_engine_lock();
    o->processes = processes;
    struct xh_endpoint *e = xh_endpoint_find((o->target ? o->target : o->url)->server);
    int goes_on = o->yields && !yields;
    o->yields = yields;
    if (e && goes_on)
        xh_endpoint_dispatch(e);
    xh_engine_unlock();
}

void xh_origin_came_in_vain(struct xh_origin *o, int vain)
{
    xh_engine_lock();
    struct xh_endpoint *e = xh_endpoint_find((o->target ? o->target : o->url)->server);
    if (e)
        e->in_vain = vain;
    xh_engine_unlock();
}

void xh_origin_beside(struct xh_origin *o, unsigned files)
{
    xh_engine_lock();
    o->files = files;
    xh_engine_unlock();
}

void xh_origin_stop(struct xh_origin *o)
{
    struct xh_err err;
    xh_err_set(&err, XH_E_CANCELLED, 0, "%.200s: the file was closed", o->url ? o->url->shown : "");
    xh_engine_lock();
    xh_origin_object_adopt(o);
    o->closing = 1;
    xh_ring_each_leaving (struct xh_job, j, in_origin, &o->jobs)
        xh_job_fail(j, &err);
    while (!xh_ring_empty(&o->jobs))
        xh_engine_wait();
    xh_engine_unlock();
}

void xh_origin_close(struct xh_origin *o)
{
    if (!o)
        return;
    xh_origin_stop(o);
    xh_engine_lock();
    xh_ring_take(&o->among_dated);
    xh_engine_unlock();
    xh_url_unref(o->url);
    xh_url_unref(o->target);
    xh_url_unref(o->served);
    xh_caller_free(&o->caller);
    xh_env_release(&o->options);
    free(o);
}
