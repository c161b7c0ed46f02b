/* Questions: see question.h. */
#include "question.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/interrupt.h"
#include "base/now.h"
#include "watch/trace.h"
#include "endpoint.h"
#include "job.h"
#include "loop.h"

/* How often an opener that has other ways is asked whether it still waits. */
#define PATIENCE_LOOK_MS 10

/* A probe under way. Its opener waits for it or leaves it; if left, it frees itself when it is over. */
struct xh_beside {
    struct xh_probe p;
    struct xh_job *job; /* until |p| is over */
    struct xh_err err;  /* under the lock, as the rest */
    int left;
    char if_none_match[XH_HEADER_BYTES]; /* what |p|'s points to, as the opener may be gone */
};

static void beside_free(struct xh_beside *b)
{
    free(b->p.bytes);
    free(b);
}

static void beside_over(struct xh_job *j)
{
    struct xh_beside *b = (struct xh_beside *)j->probe; /* its first member */
    xh_engine_lock();
    if (j->lost)
        b->err = j->err;
    b->p.over = 1;
    int left = b->left;
    xh_engine_announce();
    xh_engine_unlock();
    if (left)
        beside_free(b);
}

/* Asks for what the prober set in |like|. Lock held. Returns NULL without memory. */
static struct xh_beside *beside_queue(struct xh_origin *o, enum xh_ask what, const struct xh_probe *like)
{
    struct xh_beside *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->p.want_bytes = like->want_bytes;
    b->p.usual_bytes = like->usual_bytes;
    b->p.whole_bytes = like->whole_bytes;
    b->p.insists = like->insists;
    b->p.again = like->again;
    if (like->if_none_match) {
        snprintf(b->if_none_match, sizeof b->if_none_match, "%s", like->if_none_match);
        b->p.if_none_match = b->if_none_match;
    }
    b->p.hasty = o->patience != NULL;
    b->job = xh_job_probe(o, what, &b->p, beside_over);
    if (b->job)
        return b;
    free(b);
    return NULL;
}

/* Lock held. |cut|: what it asks for is not to come any more. */
static void beside_leave(struct xh_origin *o, struct xh_beside *b, int cut)
{
    if (!b)
        return;
    if (b->p.over) {
        beside_free(b);
        return;
    }
    b->left = 1;
    if (!cut)
        return;
    struct xh_err err;
    xh_err_set(&err, XH_E_CANCELLED, 0, "%.200s: it is no longer waited for", o->url->shown);
    xh_job_fail(b->job, &err);
}

int xh_question_ask(struct xh_origin *o, struct xh_question *q, enum xh_ask what, const struct xh_probe *like)
{
    *q = (struct xh_question){.what = what, .tries = {beside_queue(o, what, like)}, .asked_ns = xh_now_ns()};
    return q->tries[0] ? 0 : XH_E_NOMEM;
}

/* The try that has an answer, or NULL. A failure is none while the other lives. Lock held. */
static struct xh_beside *question_answer(const struct xh_question *q)
{
    struct xh_beside *a = q->tries[0], *b = q->tries[1];
    if (b && b->p.over && (b->err.code == 0 || a->p.over))
        return a->p.over && a->err.code == 0 ? a : b;
    return a->p.over && (a->err.code == 0 || !b) ? a : NULL;
}

void xh_question_leave(struct xh_origin *o, struct xh_question *q)
{
    int asked_twice = q->tries[1] != NULL;
    for (int i = 0; i < 2; i++) {
        beside_leave(o, q->tries[i], asked_twice);
        q->tries[i] = NULL;
    }
}

/* The request of |b|; NULL: it is over. Lock held. */
static struct xh_request *request_of(const struct xh_beside *b)
{
    return b->p.over ? NULL : &b->job->first_request;
}

/* 1 while |b| waits for its time to be sent, or sent again: a pause that the server asked for is no answer that is
 * stuck. Lock held. */
static int is_paused(const struct xh_beside *b)
{
    const struct xh_request *r = request_of(b);
    return r && (r->state == XH_REQ_DELAYED || (r->state == XH_REQ_QUEUED && xh_endpoint_is_closed(r->endpoint)));
}

/* Asks |q| once more, as its answer is stuck: beside the first time, or where there is no connection for that, in its
 * place. Lock held. */
static void ask_again(struct xh_origin *o, struct xh_question *q)
{
    struct xh_request *r = request_of(q->tries[0]);
    int runs = r && r->state == XH_REQ_RUNNING;
    q->again = 1;
    xh_trace(XH_T_ORIGIN, "ask-again", "url=%s", o->url->shown);
    if (runs && r->endpoint->active >= xh_endpoint_allowed(r->endpoint, o)) {
        r->stay = XH_STAYS_UNTIL_STUCK;
        xh_engine_wake(r->thread);
        return;
    }
    if (runs && xh_now_ns() - q->asked_ns >= xh_hedge_stuck_ns(r->endpoint->link.rtt_ns))
        xh_endpoint_doubt(r->endpoint, q->asked_ns);
    struct xh_probe less = {.want_bytes = q->tries[0]->p.usual_bytes, .usual_bytes = q->tries[0]->p.usual_bytes,
                            .whole_bytes = q->tries[0]->p.whole_bytes, .insists = q->tries[0]->p.insists,
                            .if_none_match = q->tries[0]->p.if_none_match, .again = 1};
    q->tries[1] = beside_queue(o, q->what, &less);
}

/* Waits for news, no longer than |ms| if that is not 0. Ends all that |o| asks for when its opener has lost patience,
 * or is interrupted. Lock held; lets go of it meanwhile. */
static void wait_patiently(struct xh_origin *o, struct xh_wait *w, unsigned ms)
{
    struct xh_err err;
    unsigned most = o->patience && (ms == 0 || ms > PATIENCE_LOOK_MS) ? PATIENCE_LOOK_MS : ms;
    int interrupted = xh_engine_wait_with(w, most ? xh_now_ns() + most * UINT64_C(1000000) : XH_NO_END), over = 0;
    if (o->patience) {
        xh_engine_unlock();
        over = o->patience->ends(o->patience->ctx);
        xh_engine_lock();
    }
    if (interrupted)
        xh_interrupt_error(&err, o->url->shown);
    else if (over)
        xh_err_set(&err, XH_E_CANCELLED, 0, "%.200s: it was not waited for any longer", o->url->shown);
    else
        return;
    xh_ring_each_leaving (struct xh_job, j, in_origin, &o->jobs)
        xh_job_fail(j, &err);
}

int xh_question_wait(struct xh_origin *o, struct xh_question *q, struct xh_probe *p, struct xh_err *err)
{
    struct xh_beside *b;
    struct xh_wait w = {0};
    const uint64_t stuck_ns = xh_hedge_stuck_ns(0); /* of a question no round trip is known yet */
    while (!(b = question_answer(q))) {
        if (!q->again && is_paused(q->tries[0]))
            q->asked_ns = xh_now_ns();
        q->asked_ns = xh_max64(q->asked_ns, atomic_load_explicit(&q->tries[0]->p.heard_ns, memory_order_relaxed));
        uint64_t waited = xh_now_ns() - q->asked_ns;
        if (!q->again && waited >= stuck_ns)
            ask_again(o, q);
        wait_patiently(o, &w, q->again ? 0 : (unsigned)((stuck_ns - waited) / 1000000u) + 1);
    }
    struct xh_err own = b->err;
    *p = b->p;
    p->if_none_match = NULL;
    b->p.bytes = NULL;
    xh_question_leave(o, q);
    if (own.code && err)
        *err = own;
    return own.code;
}

int xh_question_put(struct xh_origin *o, enum xh_ask what, struct xh_probe *p, struct xh_err *err)
{
    struct xh_question q;
    int rc = xh_loop_enter(&o->options, err);
    if (rc != 0)
        return rc;
    xh_origin_object_adopt(o);
    free(p->bytes); /* an earlier answer's */
    p->bytes = NULL;
    if (xh_question_ask(o, &q, what, p) == 0)
        rc = xh_question_wait(o, &q, p, err);
    else
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a request");
    xh_engine_unlock();
    return rc;
}
