/* The engine's threads at work: the one file that joins wire, exchange, verdict and the queues. See loop.h. */
#include "loop.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/now.h"
#include "watch/timeline.h"
#include "watch/trace.h"
#include "endpoint.h"
#include "job.h"
#include "learn.h"
#include "rest.h"
#include "send.h"

#define IDLE_POLL_MS 60000

static void exchange_free(struct xh_exchange *x)
{
    xh_url_unref(x->url);
    xh_token_unref(x->token);
    free(x);
}

/* Puts |r| into its queue, or fails its job. Lock held. */
static void requeue(struct xh_thread *t, struct xh_request *r, enum xh_place place)
{
    struct xh_err err;
    if (!r->cut && xh_endpoint_queue(r, place) == 0) {
        xh_endpoint_dispatch(r->endpoint);
        return;
    }
    xh_err_set(&err, XH_E_NOMEM, 0, "out of memory for a request");
    r->job->lost = 1;
    xh_job_fail(r->job, &err);
    xh_job_retire(r, t);
}

/* |r|'s twin has brought the slice: |r| ends without a word. Lock held. */
static void drop(struct xh_thread *t, struct xh_request *r)
{
    r->twin = NULL;
    r->surplus = 1;
    if (r->state == XH_REQ_BOUND) {
        xh_endpoint_take(r);
        xh_job_retire(r, t);
    } else {
        r->cut = 1;
        t->cuts = 1;
    }
}

/* |r| is sent elsewhere. If nothing has come of its twin yet, that ends, and |r| alone stands for the slice. Lock
 * held. */
static void go_elsewhere(struct xh_thread *t, struct xh_request *r)
{
    struct xh_request *silent = r->twin;
    if (silent->exchange && silent->exchange->first_ns)
        return;
    if (r->job->origin->seeks == silent)
        r->job->origin->seeks = r;
    r->twin = NULL;
    drop(t, silent);
}

/* Carries out |v| on |r|, which alone stands for its slice. Lock held. */
static void carry_out(struct xh_thread *t, struct xh_request *r, const struct xh_verdict *v)
{
    switch (v->next) {
    case XH_NEXT_DONE: xh_job_retire(r, t); break;
    case XH_NEXT_AGAIN: requeue(t, r, XH_PLACE_AGAIN); break;
    case XH_NEXT_LATER:
        xh_request_enter(r, XH_REQ_DELAYED);
        r->due_ns = xh_now_ns() + v->delay_ms * 1000000u;
        xh_ring_put_last(&t->delayed, &r->link);
        break;
    case XH_NEXT_STAND:
        xh_request_enter(r, XH_REQ_DELAYED);
        r->due_ns = r->resume ? 0 : XH_DUE_RESUMED; /* meanwhile its reader may have come */
        r->resume = 0;
        xh_ring_put_last(&t->delayed, &r->link);
        break;
    case XH_NEXT_FAIL:
        xh_trace(XH_T_ORIGIN, "fail", "id=%p code=%s status=%d", (void *)r, xh_err_name(v->err.code), v->err.status);
        r->job->lost = 1;
        xh_job_fail(r->job, &v->err);
        xh_job_retire(r, t);
        break;
    case XH_NEXT_LOOK: /* learn.c has looked */ break;
    }
}

/* An exchange is over: it is judged. */
static void on_over(struct xh_exchange *x, const struct xh_outcome *out)
{
    struct xh_request *r = x->request;
    if (xh_rest_over(x, out)) {
        exchange_free(x);
        return;
    }
    struct xh_origin *o = x->job->origin;
    struct xh_endpoint *e = r->endpoint;
    struct xh_thread *t = xh_engine_self();
    struct xh_verdict v;
    xh_exchange_over(x, out);
    if (xh_timeline_on())
        xh_exchange_draw(x, out, xh_request_kind(r));
    xh_learn_verdict(x, out, &v);
    xh_count(o->counters, connections, x->opened);
    xh_engine_lock();
    if ((out->net >= XH_NET_NAME && out->net <= XH_NET_HANDSHAKE) || out->net == XH_NET_UNTRUSTED)
        e->lost_ns = xh_now_ns();
    xh_endpoint_release(r, x);
    r->exchange = NULL;
    if (!xh_engine_runs() && v.next != XH_NEXT_DONE)
        r->cut = 1;
    if (r->cut && v.next != XH_NEXT_DONE && v.next != XH_NEXT_FAIL) {
        xh_err_set(&v.err, XH_E_CANCELLED, 0, "cancelled");
        v.next = XH_NEXT_FAIL;
    }
    if (r->twin && v.next == XH_NEXT_DONE)
        drop(t, r->twin);
    else if (r->twin && v.next == XH_NEXT_AGAIN && v.to)
        go_elsewhere(t, r);
    if (r->twin || r->surplus) /* the other may still bring the slice, or has: what became of this one is no news */
        xh_job_retire(r, t);
    else
        carry_out(t, r, &v);
    xh_endpoint_dispatch(e);
    xh_engine_unlock();
    exchange_free(x);
}

/* Starts the requests of the inbox. */
static void start_bound(struct xh_thread *t)
{
    xh_engine_lock();
    struct xh_request *r;
    while ((r = xh_ring_in(&t->inbox, t->inbox.next, struct xh_request, link)) != NULL) {
        struct xh_request *rest = NULL;
        struct xh_exchange *x = calloc(1, sizeof *x);
        if (!x) {
            struct xh_err err;
            struct xh_job *j = r->twin ? NULL : r->job; /* a twin stands for the slice alone from now on */
            xh_err_set(&err, XH_E_NOMEM, 0, "out of memory for a request");
            xh_endpoint_take(r);
            xh_job_retire(r, t);
            if (j) {
                j->lost = 1;
                xh_job_fail(j, &err);
            }
            continue;
        }
        xh_ring_take(&r->link);
        xh_request_enter(r, XH_REQ_RUNNING);
        r->resume = 0;
        r->leaves = XH_LEAVES_NOT;
        r->stay = XH_STAYS;
        xh_ring_put_last(&t->running, &r->link);
        r->exchange = x;
        xh_request_prepare(r, x, &r->endpoint->limits, &rest);
        x->arrived = &r->endpoint->arrived;
        x->heard_ns = &r->endpoint->heard_ns;
        x->doubt_ns = r->endpoint->doubt_ns;
        x->lost_ns = r->endpoint->lost_ns;
        atomic_uint *sockets = xh_endpoint_sockets(r->endpoint, t->index);
        x->queued_ns = r->queued_ns;
        if (rest)
            requeue(t, rest, XH_PLACE_FIRST);
        xh_engine_unlock();
        struct xh_outcome unsent = {.net = xh_request_send(x, t->wire, sockets),
                                    .proxy_status = 407,
                                    .text = "no request could be made"};
        if (x->turn == XH_PROXY_FORBIDDEN)
            unsent.proxy_status = 403;
        if (unsent.net != XH_NET_OK)
            on_over(x, &unsent);
        xh_engine_lock();
    }
    xh_engine_unlock();
}

/* 1 when |r| leaves its connection to others. The reader may have come meanwhile. */
static int leaves(struct xh_request *r)
{
    int stands = !r->resume && xh_exchange_stands(r->exchange);
    int does = r->leaves == XH_LEAVES_FLOWING || (r->leaves && stands);
    if (does && !stands)
        r->resume = 1; /* its reader wants more */
    r->leaves = XH_LEAVES_NOT;
    return does;
}

/* 1 when |r| is stuck on its connection: what it lacks is asked for anew. */
static int begins_anew(struct xh_request *r)
{
    if (r->stay == XH_STAYS_NO_LONGER && xh_exchange_stands(r->exchange))
        r->stay = XH_STAYS; /* it is not stuck: its reader takes no more */
    return r->stay == XH_STAYS_NO_LONGER; /* until it is sent again */
}

/* Ends running requests that are to be cut, that leave, or begin anew; all, as the process exits, when |all|. */
static void cut_running(struct xh_thread *t, int all)
{
    for (;;) {
        struct xh_exchange *x = NULL;
        enum xh_net net = all ? XH_NET_EXITING : XH_NET_CANCELLED;
        xh_engine_lock();
        xh_ring_each_leaving (struct xh_request, r, link, &t->running) {
            int ends = all || r->cut, left = !ends && leaves(r);
            if ((!ends && !left && !begins_anew(r)) || (ends && xh_rest_begin(t, r)))
                continue;
            x = r->exchange;
            net = ends ? net : left ? XH_NET_LEFT : XH_NET_STUCK;
            if (x)
                break;
        }
        if (!x)
            t->cuts = 0;
        xh_engine_unlock();
        if (!x)
            return;
        xh_wire_cut(x->lane, net);
    }
}

/* Lets running requests go on that stood still. */
static void resume_running(struct xh_thread *t)
{
    for (;;) {
        struct xh_exchange *x = NULL;
        xh_engine_lock();
        xh_ring_each (struct xh_request, r, link, &t->running) {
            if (r->resume)
                x = r->exchange;
            r->resume = 0;
            if (x)
                break;
        }
        if (!x)
            t->resumes = 0;
        xh_engine_unlock();
        if (!x)
            return;
        xh_exchange_resume(x);
    }
}

/* Tells a finished job's owner, and forgets the job. No lock. */
static void tell(struct xh_job *j)
{
    struct xh_transfer *t = j->transfer;
    if (t) {
        xh_trace(XH_T_ORIGIN, "done", "transfer=%p code=%s", (void *)t, j->lost ? xh_err_name(j->err.code) : "OK");
        t->done(t, j->lost ? &j->err : NULL);
    } else {
        j->over(j);
    }
    xh_engine_lock();
    xh_ring_take(&j->in_origin);
    xh_engine_announce();
    xh_engine_unlock();
    xh_url_unref(j->first_request.url);
    if (j->got != &j->got_one)
        free(j->got);
    free(j);
}

static void tell_all(struct xh_ring *finished)
{
    struct xh_job *first;
    while ((first = xh_ring_take_first(finished, struct xh_job, in_finished)) != NULL)
        tell(first);
}

/* Puts delayed requests whose time has come into their queues. Lock held.
 * Returns how long the thread may sleep. */
static int wake_delayed(struct xh_thread *t)
{
    uint64_t now = xh_now_ns(), nearest = (uint64_t)IDLE_POLL_MS * 1000000u;
    struct xh_err gone;
    for (struct xh_ring *p = t->delayed.next, *next; p != &t->delayed; p = next) {
        struct xh_request *r = xh_ring_of(p, struct xh_request, link);
        next = p->next;
        if (r->due_ns == 0 && !xh_endpoint_has_room(r)) {
            xh_err_set(&gone, XH_E_CANCELLED, 0, "the stream left its connection to others");
            xh_job_fail(r->job, &gone); /* its reader fetches what it wants, and may begin another stream */
            next = t->delayed.next;
        } else if (r->due_ns <= now) {
            xh_ring_take(&r->link);
            requeue(t, r, XH_PLACE_AGAIN);
        } else if (r->due_ns - now < nearest) {
            nearest = r->due_ns - now;
        }
    }
    return (int)(nearest / 1000000u) + 1;
}

/* 1 when |r| may be given up where it is, and asked for anew: once, and again where that brought something, so that a
 * server whose replies all stop ends the read. Not while the first of a pair goes on, the server wants to be left
 * alone, or all would come from the beginning again. */
static int may_begin_anew(const struct xh_request *r, uint64_t now)
{
    const struct xh_exchange *x = r->exchange, *first = r->twin ? r->twin->exchange : NULL;
    int first_lives = first && xh_hedge_quiet_ns(first, now) < xh_hedge_stuck_ns(r->endpoint->link.rtt_ns);
    int from_begin = x->body_bytes && x->reply.status == 200;
    return (r->stuck == XH_STUCK_NEVER || x->fresh >= XH_PACE_BYTES) && !first_lives && !from_begin &&
           !xh_endpoint_is_held(r->endpoint);
}

/* Where |r|, RUNNING on |t|, is stuck, it is to be asked for anew. Returns in how many ns to come again.
 * Lock held. */
static uint64_t begin_anew(struct xh_thread *t, struct xh_request *r, uint64_t now)
{
    struct xh_endpoint *e = r->endpoint;
    uint64_t since_ns = xh_hedge_since_ns(r->exchange), least = xh_hedge_stuck_ns(e->link.rtt_ns);
    if (r->stuck == XH_STUCK_ONCE && now > since_ns + least) {
        r->stuck = XH_STUCK_AGAIN;
        xh_hedge_judge(&e->peers, e->link.rtt_ns, r->exchange, now);
    }
    if (!may_begin_anew(r, now))
        return least;
    uint64_t heard = atomic_load_explicit(&e->heard_ns, memory_order_relaxed);
    uint64_t wait = xh_hedge_stuck(&e->peers, e->link.rtt_ns, r->exchange, heard, now);
    if (wait)
        return wait;
    xh_trace(XH_T_ORIGIN, "stuck", "id=%p quiet_ms=%" PRIu64, (void *)r, (now - since_ns) / 1000000u);
    struct xh_request *first = r->twin;
    r->twin = NULL;
    if (first)
        drop(t, first);
    r->stay = XH_STAYS_NO_LONGER;
    r->stuck = XH_STUCK_ONCE;
    t->cuts = 1;
    xh_endpoint_doubt(e, r->exchange->last_ns);
    return XH_HEDGE_LOOK_NS;
}

/* |r|, a question's, is to be asked for anew once its answer is stuck. The same. */
static uint64_t see_to_question(struct xh_thread *t, struct xh_request *r, uint64_t now)
{
    struct xh_endpoint *e = r->endpoint;
    uint64_t last_ns = r->exchange->last_ns, least = xh_hedge_stuck_ns(e->link.rtt_ns);
    if (!last_ns || now < last_ns + least)
        return last_ns ? last_ns + least - now : least;
    xh_trace(XH_T_ORIGIN, "stuck", "id=%p quiet_ms=%" PRIu64, (void *)r, (now - last_ns) / 1000000u);
    r->stay = XH_STAYS_NO_LONGER;
    t->cuts = 1;
    xh_endpoint_doubt(e, last_ns);
    return UINT64_MAX;
}

/* Sees to |r|, RUNNING on |t|: hedges it where it straggles. Returns in how many ns to come again; UINT64_MAX: not for
 * its sake. Lock held. */
static uint64_t see_to(struct xh_thread *t, struct xh_request *r, uint64_t now)
{
    const struct xh_transfer *of = r->job->transfer;
    const struct xh_exchange *x = r->exchange;
    if (r->cut || r->leads || r->stay == XH_STAYS_NO_LONGER || xh_exchange_stands(x))
        return UINT64_MAX;
    if (!of) /* a question: its opener asks it again, but for one that has the only connection */
        return r->stay == XH_STAYS_UNTIL_STUCK ? see_to_question(t, r, now) : UINT64_MAX;
    if (of->full && !of->goes_on) /* wanted, as it does not stand still */
        return begin_anew(t, r, now);
    if (r->hedged) /* of a pair the second one is seen to */
        return r->twin && !r->hedge ? UINT64_MAX : begin_anew(t, r, now);
    struct xh_endpoint *e = r->endpoint;
    unsigned here = atomic_load_explicit(&e->thread[t->index].sockets, memory_order_relaxed);
    int idle = here > e->thread[t->index].active && e->queued_requests == 0 && !r->job->speculative;
    uint64_t wait = xh_hedge_wait(&e->peers, e->link.rtt_ns, x, now);
    if (wait && idle && xh_hedge_lags(&e->peers, e->link.rtt_ns, x, now) && xh_endpoint_hedge(r) == 0)
        return XH_HEDGE_LOOK_NS;
    if (wait)
        return wait;
    /* A guess may yet be waited for; a hedge may be allowed when others are over. */
    uint64_t quiet = xh_hedge_quiet_ns(x, now);
    wait = xh_max64(quiet / 2, XH_HEDGE_LOOK_NS);
    if (quiet >= xh_hedge_stuck_ns(e->link.rtt_ns))
        xh_endpoint_doubt(e, x->last_ns);
    if (!r->job->speculative && xh_endpoint_hedge(r) == 0)
        return XH_HEDGE_LOOK_NS;
    uint64_t anew = begin_anew(t, r, now);
    return anew < wait ? anew : wait;
}

/* Hedges what straggles among |t|'s running requests, and sees to what is stuck. Lock held. Returns in how many ns to
 * come again; UINT64_MAX: nothing here can straggle. */
static uint64_t hedge_running(struct xh_thread *t)
{
    uint64_t now = xh_now_ns(), nearest = UINT64_MAX;
    xh_ring_each (struct xh_request, r, link, &t->running) {
        uint64_t wait = see_to(t, r, now);
        nearest = wait < nearest ? wait : nearest;
    }
    return nearest;
}

static void run(struct xh_thread *t)
{
    int exiting = 0;
    while (!exiting) {
        struct xh_ring finished;
        xh_ring_init(&finished);
        start_bound(t);
        xh_wire_perform(t->wire);
        xh_engine_lock();
        int sleep_ms = wake_delayed(t);
        uint64_t hedge_ns = hedge_running(t), look_ns = xh_endpoints_look(xh_now_ns());
        int cuts = t->cuts, resumes = t->resumes;
        uint64_t due_ms = (hedge_ns < look_ns ? hedge_ns : look_ns) / 1000000u + 1;
        if (due_ms < (uint64_t)sleep_ms)
            sleep_ms = (int)due_ms;
        xh_ring_move_all(&finished, &t->finished);
        exiting = !xh_engine_runs();
        if (!xh_ring_empty(&t->inbox) || !xh_ring_empty(&finished) || cuts || resumes)
            sleep_ms = 0;
        xh_engine_unlock();
        if (cuts)
            cut_running(t, 0);
        if (resumes)
            resume_running(t);
        tell_all(&finished);
        if (!exiting)
            xh_wire_poll(t->wire, sleep_ms);
    }
    cut_running(t, 1);
}

/* Fails what no thread will come to any more. Lock held on entry and on return. */
static void fail_leftovers(void)
{
    struct xh_ring left, finished;
    struct xh_request *r;
    struct xh_err err;
    xh_ring_init(&left);
    xh_ring_init(&finished);
    xh_endpoint_drain(&left);
    for (unsigned i = 0; i < xh_engine_threads(); i++) {
        xh_ring_move_all(&left, &xh_engine_thread(i)->inbox);
        xh_ring_move_all(&left, &xh_engine_thread(i)->delayed);
    }
    xh_err_set(&err, XH_E_SYS, 0, "the process is exiting");
    while ((r = xh_ring_take_first(&left, struct xh_request, link)) != NULL) {
        r->job->lost = 1;
        if (r->job->err.code == 0)
            r->job->err = err;
        xh_job_retire(r, xh_engine_thread(0));
    }
    for (unsigned i = 0; i < xh_engine_threads(); i++)
        xh_ring_move_all(&finished, &xh_engine_thread(i)->finished);
    xh_engine_unlock();
    tell_all(&finished);
    xh_engine_lock();
}

/* ---- the engine of this process */

static int on_body(struct xh_exchange *x, const uint8_t *data, size_t len)
{
    int rc = xh_exchange_body(x, data, len);
    /* Where it stands still, its reader may wait for one that waits for it. */
    if (x->finds && (x->fresh || xh_exchange_stands(x)))
        xh_learn_found(x);
    return rc;
}

static const struct xh_wire_events events = {
    .sent = xh_exchange_sent,
    .line = xh_exchange_line,
    .body = on_body,
    .deadline = xh_exchange_deadline,
    .over = on_over,
};

static const struct xh_engine_work work = {
    .events = &events,
    .run = run,
    .leave = fail_leftovers,
    .forget = xh_endpoint_forget,
};

int xh_loop_enter(const struct xh_options *o, struct xh_err *err)
{
    return xh_engine_enter(&work, o, err);
}
