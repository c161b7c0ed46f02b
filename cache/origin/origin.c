/* The origin: transfers in, jobs through, and their end. See origin.h and object.h.
 *
 * Invariants: a job is in its origin's ring from queueing until its owner was told; a job
 * without requests is in some thread's finished ring, or is just being told. */
#include "origin.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "watch/timeline.h"
#include "watch/trace.h"
#include "endpoint.h"
#include "link.h"
#include "object.h"
#include "request.h"

/* One for what is fetched ahead and one for demand, however many share them. */
#define SHARE_LEAST 2u
#define SCATTERED_BYTES (256u << 10) /* about what a request for many small ranges brings */

/* ---- jobs */

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

void xh_request_retire(struct xh_request *r, struct xh_thread *t)
{
    struct xh_job *j = r->job;
    xh_request_enter(r, XH_REQ_OVER);
    xh_ring_take(&r->in_job);
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
    for (struct xh_ring *p = j->requests.next, *next; p != &j->requests; p = next) {
        struct xh_request *r = xh_ring_of(p, struct xh_request, in_job);
        next = p->next;
        switch (r->state) {
        case XH_REQ_QUEUED: case XH_REQ_BOUND:
            if (!r->twin)
                j->lost = 1;
            freed = r->endpoint;
            xh_endpoint_take(r);
            xh_request_retire(r, NULL);
            break;
        case XH_REQ_DELAYED:
            j->lost = 1;
            xh_ring_take(&r->link);
            xh_request_retire(r, NULL);
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

/* ---- credentials */

int xh_object_trusts(const struct xh_origin *o, const struct xh_url *u)
{
    const struct xh_url *named = o->named ? o->named : o->url;
    return xh_auth_trusts(&o->options, named, u);
}

int xh_object_renew_token(struct xh_origin *o, const struct xh_token *old)
{
    struct xh_token *found = NULL;
    if (!xh_token_again(old, &found))
        return 0;
    int differs = found->value && (!old->value || strcmp(found->value, old->value) != 0);
    struct xh_token *drop = found;
    xh_engine_lock();
    o->token_ns = xh_now_ns();
    if (found->value) { /* else it is just being written, or gone: the old one may be good for a while */
        drop = o->token;
        o->token = found;
    }
    xh_engine_unlock();
    xh_token_unref(drop);
    return differs;
}

/* ---- whole files */

void xh_object_comes_whole(struct xh_origin *o)
{
    xh_engine_lock();
    struct xh_endpoint *e = xh_endpoint_find(o->url->server);
    int first = e && !e->told_whole && !o->options.may_lack;
    if (first)
        e->told_whole = 1;
    o->dialect.whole = 1;
    xh_engine_unlock();
    if (first)
        dprintf(STDERR_FILENO, "xhdf5: %.500s: the server sends all of a file where a part is asked for, so this one and "
                "others of up to %" PRIu64 " bytes are read whole (the option whole_file_bytes). Its operator can switch "
                "range requests on\n", o->url->shown, o->options.whole_file_bytes);
}

/* ---- offers */

/* 1 when |u| is worth a try: over TLS, and none that is known. Lock held. */
static int is_news(const struct xh_origin *o, const struct xh_url *u)
{
    int known = strcmp(u->text, o->url->text) == 0;
    for (unsigned i = 0; i < o->offers; i++)
        known |= strcmp(u->text, o->offer[i]->text) == 0;
    return u->https && !known;
}

void xh_object_hear(struct xh_origin *o, const struct xh_url *from, const char *links)
{
    struct xh_link l[XH_OFFERS_MOST];
    size_t n = xh_link_duplicates(links, l, XH_OFFERS_MOST);
    xh_engine_lock();
    for (size_t i = 0, had = o->offers; i < n && had == 0; i++) {
        char *uri = strndup(l[i].uri, l[i].len);
        struct xh_url *u = NULL;
        if (uri && xh_url_resolve(from, uri, &u, NULL) == 0 && is_news(o, u)) {
            xh_trace(XH_T_ORIGIN, "offer", "url=%s by=%s", u->shown, from->shown);
            o->offer[o->offers++] = xh_url_ref(u);
        }
        xh_url_unref(u);
        free(uri);
    }
    xh_engine_unlock();
}

size_t xh_origin_offers(struct xh_origin *o, char *out[XH_OFFERS_MOST])
{
    size_t n = 0;
    xh_engine_lock();
    for (unsigned i = 0; i < o->offers; i++)
        if ((out[n] = strdup(o->offer[i]->text)))
            n++;
    xh_engine_unlock();
    return n;
}

/* ---- the object */

int xh_origin_ready(const struct xh_options *o, struct xh_err *err)
{
    int rc = xh_engine_enter(o, err);
    if (rc == 0)
        xh_engine_unlock();
    return rc;
}

void xh_object_adopt(struct xh_origin *o)
{
    if (o->era == xh_engine_era())
        return;
    o->era = xh_engine_era();
    xh_ring_init(&o->jobs); /* the parent's: leaked */
    o->checking = 0;
}

void xh_object_poison(struct xh_origin *o, const struct xh_err *err)
{
    if (o->poison.code == 0)
        o->poison = *err;
    for (struct xh_ring *p = o->jobs.next, *next; p != &o->jobs; p = next) {
        struct xh_job *j = xh_ring_of(p, struct xh_job, in_origin);
        next = p->next;
        if (j->transfer)
            xh_job_fail(j, &o->poison);
    }
}

int xh_origin_submit(struct xh_origin *o, struct xh_transfer *const *ts, size_t n, struct xh_err *err)
{
    struct xh_ring jobs, *p;
    struct xh_err cancelled;
    xh_err_set(&cancelled, XH_E_CANCELLED, 0, "%.200s: the file was closed", o->url->shown);
    xh_ring_init(&jobs);
    for (size_t i = 0; i < n; i++) {
        struct xh_job *j = calloc(1, sizeof *j);
        assert(ts[i]->nranges > 0);
        if (!j || xh_job_init(j, o, XH_ASK_RANGES, ts[i], NULL) != 0) {
            free(j);
            goto no_memory;
        }
        xh_ring_put_last(&jobs, &j->in_origin);
    }
    int rc = xh_engine_enter(&o->options, err);
    if (rc != 0)
        goto fail;
    xh_object_adopt(o);
    struct xh_endpoint *e = NULL;
    while ((p = xh_ring_take_first(&jobs)) != NULL) {
        struct xh_job *j = xh_ring_of(p, struct xh_job, in_origin);
        j->transfer->origin_private = j;
        /* All go to one endpoint, so only the first can lack memory for it. */
        if (xh_job_queue(j) != 0) {
            xh_ring_put_first(&jobs, p);
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
    xh_probe_revalidate(o);
    xh_engine_unlock();
    return 0;
no_memory:
    rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a transfer");
fail:
    while ((p = xh_ring_take_first(&jobs)) != NULL) {
        struct xh_job *j = xh_ring_of(p, struct xh_job, in_origin);
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
    for (struct xh_ring *p = j->requests.next; p != &j->requests; p = p->next)
        queued &= xh_ring_of(p, struct xh_request, in_job)->state == XH_REQ_QUEUED;
    if (queued)
        xh_job_fail(j, &err);
    xh_engine_unlock();
    return queued;
}

void xh_origin_resume(struct xh_origin *o, struct xh_transfer *t)
{
    xh_engine_lock();
    struct xh_job *j = t->origin_private;
    for (struct xh_ring *p = j->requests.next; p != &j->requests; p = p->next) {
        struct xh_request *r = xh_ring_of(p, struct xh_request, in_job);
        if (r->state != XH_REQ_RUNNING)
            continue; /* it asks again when it runs */
        r->resume = 1;
        r->thread->resumes = 1;
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
        for (struct xh_ring *p = j->requests.next; p != &j->requests; p = p->next)
            xh_endpoint_promote(xh_ring_of(p, struct xh_request, in_job));
        /* What was kept back as speculation may go now. */
        for (struct xh_ring *p = j->requests.next; p != &j->requests; p = p->next) {
            struct xh_request *r = xh_ring_of(p, struct xh_request, in_job);
            if (r->state == XH_REQ_QUEUED)
                xh_endpoint_dispatch(r->endpoint);
        }
    }
    xh_engine_unlock();
}

int xh_origin_weigh(struct xh_origin *o, unsigned loads, int few, uint64_t bytes)
{
    int more = 0;
    xh_engine_lock();
    struct xh_endpoint *e = xh_endpoint_find((o->target ? o->target : o->url)->server);
    if (e && loads == 0) {
        xh_gain_pause(&e->gain);
    } else if (e) {
        unsigned half = xh_object_connections(o) / 2, pay = xh_endpoint_paying(e), most = pay < half ? pay : half;
        more = xh_gain_weigh(&e->gain, loads, few, most, bytes, xh_now_ns(), e->rtt_ns);
        if (more)
            xh_trace(XH_T_ORIGIN, "gain", "loads=%u lasting=%u rate_mb=%.1f many_mb=%.1f", loads, e->gain.lasting,
                     e->gain.few_rate * 1e3, e->gain.many_rate * 1e3);
    }
    xh_engine_unlock();
    return more;
}

void xh_origin_get_info(struct xh_origin *o, struct xh_origin_info *out)
{
    out->size = o->dialect.size;
    out->validator = o->validator;
    out->fleeting = xh_dialect_is_fleeting(&o->dialect);
    out->url_shown = o->url->shown;
    xh_engine_lock();
    struct xh_endpoint *e = xh_endpoint_find((o->target ? o->target : o->url)->server);
    struct xh_limits lim;
    xh_limits_init(&lim);
    if (e) {
        xh_limits_look(&e->limits, xh_now_ns());
        lim = e->limits;
    }
    out->max_ranges = o->options.multirange && !o->dialect.whole ? lim.max_ranges : 1;
    out->whole = o->dialect.whole;
    out->max_range_header = lim.max_range_header;
    unsigned pay = e ? xh_endpoint_paying(e) : 1;
    unsigned most = xh_object_connections(o);
    out->connections = most < pay ? most : pay;
    out->paying = e ? e->paying : 0;
    out->lasting = e ? xh_endpoint_lasting(e) : 1;
    out->rtt_ns = e ? (uint64_t)e->rtt_ns : 0;
    out->trip_bytes = e ? (uint64_t)(e->connection_rate * e->rtt_ns) : 0;
    out->scattered = xh_endpoint_most(e, o, SCATTERED_BYTES, 1);
    xh_endpoint_open(e, out);
    /* Streams may stand still for long: half of the connections are for what cannot wait; one, while they are young. */
    unsigned streams = out->young ? most - 1 : most / 2, busy = e ? e->streams : 0;
    out->streams = streams > busy && !out->whole ? streams - busy : 0;
    if (out->whole) /* each of several requests would bring all of it */
        out->connections = out->scattered = out->lasting = 1;
    xh_engine_unlock();
}

size_t xh_origin_hint(struct xh_origin *o, char *buf, size_t size)
{
    xh_engine_lock();
    struct xh_dialect d = o->dialect;
    const struct xh_endpoint *e = xh_endpoint_find(o->url->server);
    double rtt_ns = e ? e->rtt_ns : 0;
    xh_engine_unlock();
    int n = snprintf(buf, size, XH_ROUND_TRIP "%.0f ", rtt_ns / 1e3);
    size_t rest = n > 0 && (size_t)n < size ? xh_dialect_hint(&d, buf + n, size - (size_t)n) : 0;
    return rest ? rest + (size_t)n : 0;
}

void xh_origin_crowd(unsigned (*count)(const struct xh_options *o))
{
    xh_engine_lock();
    xh_endpoint_crowd(count);
    xh_engine_unlock();
}

void xh_origin_share(struct xh_origin *o, unsigned processes, int yields)
{
    unsigned all = (unsigned)o->options.connections, share = (all + processes - 1) / processes;
    xh_engine_lock();
    o->connections = share > SHARE_LEAST ? share : all < SHARE_LEAST ? all : SHARE_LEAST;
    struct xh_endpoint *e = xh_endpoint_find((o->target ? o->target : o->url)->server);
    int goes_on = o->yields && !yields;
    o->yields = yields;
    if (e && goes_on)
        xh_endpoint_dispatch(e);
    xh_engine_unlock();
}

void xh_origin_get_rates(struct xh_origin *o, struct xh_origin_rates *out)
{
    memset(out, 0, sizeof *out);
    xh_engine_lock();
    const struct xh_url *u = o->target ? o->target : o->url;
    const struct xh_endpoint *e = xh_endpoint_find(u->server);
    if (e) {
        out->rtt_ms = e->rtt_ns / 1e6;
        out->bytes_per_second = e->rate * 1e9;
        out->connections = xh_endpoint_sockets_open(e);
    }
    xh_engine_unlock();
}

void xh_origin_stop(struct xh_origin *o)
{
    struct xh_err err;
    xh_err_set(&err, XH_E_CANCELLED, 0, "%.200s: the file was closed", o->url ? o->url->shown : "");
    xh_engine_lock();
    xh_object_adopt(o);
    o->closing = 1;
    for (struct xh_ring *p = o->jobs.next, *next; p != &o->jobs; p = next) {
        next = p->next;
        xh_job_fail(xh_ring_of(p, struct xh_job, in_origin), &err);
    }
    while (!xh_ring_empty(&o->jobs))
        xh_engine_wait();
    xh_engine_unlock();
}

void xh_origin_close(struct xh_origin *o)
{
    if (!o)
        return;
    xh_origin_stop(o);
    for (unsigned i = 0; i < o->offers; i++)
        xh_url_unref(o->offer[i]);
    xh_url_unref(o->url);
    xh_url_unref(o->named);
    xh_url_unref(o->target);
    xh_url_unref(o->served);
    xh_token_unref(o->token);
    xh_proxies_free(&o->proxies);
    xh_env_release(&o->options);
    free(o);
}
