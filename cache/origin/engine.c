/* The engine: threads, their loop, start, fork and exit. See engine.h.
 *
 * Invariants: threads exist only in the process that started them; after a fork the child
 * starts its own, and leaks what it inherited (closing a parent's TLS session would end it
 * for the parent); after the exit handler no thread runs and nothing starts again.
 *
 * Life: NONE -enter-> RUNS -exit handler-> EXITED; RUNS -fork, in the child-> NONE. */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/now.h"
#include "base/process.h"
#include "base/thread.h"
#include "watch/timeline.h"
#include "watch/trace.h"
#include "base/waits.h"
#include "endpoint.h"
#include "request.h"

#define IDLE_POLL_MS 60000
#define AUTO_THREADS_MAX 2

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t announced; /* made by start(): nobody has anything to wait for before */

static struct { /* under the lock */
    enum { NONE, RUNS, EXITED } life;
    uint64_t process; /* whose threads these are */
    unsigned era;
    unsigned nthreads;
    struct xh_thread *thread[XH_THREADS_MAX];
} engine;

static _Thread_local struct xh_thread *self; /* NULL outside the engine's threads */

void xh_engine_lock(void)
{
    pthread_mutex_lock(&lock);
}

void xh_engine_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void xh_engine_wait(void)
{
    pthread_cond_wait(&announced, &lock);
}

void xh_engine_wait_for(unsigned ms)
{
    xh_cond_wait_until(&announced, &lock, xh_now_ns() + ms * UINT64_C(1000000));
}

void xh_engine_announce(void)
{
    pthread_cond_broadcast(&announced);
}

unsigned xh_engine_era(void)
{
    return engine.era;
}

int xh_engine_runs(void)
{
    return engine.life == RUNS;
}

unsigned xh_engine_threads(void)
{
    return engine.nthreads;
}

struct xh_thread *xh_engine_thread(unsigned i)
{
    return engine.thread[i];
}

void xh_engine_wake(struct xh_thread *t)
{
    if (t != self)
        xh_wire_wake(t->wire);
}

/* ---- a thread's work */

static struct xh_exchange *exchange_new(struct xh_thread *t)
{
    struct xh_ring *first = xh_ring_take_first(&t->free_exchanges);
    if (first)
        return xh_ring_of(first, struct xh_exchange, free_link);
    struct xh_exchange *x = calloc(1, sizeof *x);
    if (x)
        xh_ring_init(&x->free_link);
    return x;
}

static void exchange_free(struct xh_exchange *x)
{
    xh_url_unref(x->url);
    xh_token_unref(x->token);
    x->url = NULL;
    x->token = NULL;
    xh_ring_put_first(&self->free_exchanges, &x->free_link);
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
    xh_request_retire(r, t);
}

/* |r|'s twin has brought the slice: |r| ends without a word. Lock held. */
static void drop(struct xh_thread *t, struct xh_request *r)
{
    r->twin = NULL;
    r->surplus = 1;
    if (r->state == XH_REQ_BOUND) {
        xh_endpoint_take(r);
        xh_request_retire(r, t);
    } else {
        r->cut = 1;
        t->cuts = 1;
    }
}

/* Carries out |v| on |r|, which alone stands for its slice. Lock held. */
static void carry_out(struct xh_thread *t, struct xh_request *r, enum xh_verdict v, uint64_t delay_ms,
                      const struct xh_err *err)
{
    switch (v) {
    case XH_VERDICT_DONE:
        xh_request_retire(r, t);
        break;
    case XH_VERDICT_AGAIN:
        requeue(t, r, XH_PLACE_AGAIN);
        break;
    case XH_VERDICT_LATER:
        xh_request_enter(r, XH_REQ_DELAYED);
        r->due_ns = xh_now_ns() + delay_ms * 1000000u;
        xh_ring_put_last(&t->delayed, &r->link);
        break;
    case XH_VERDICT_FAIL:
        xh_trace(XH_T_ORIGIN, "fail", "id=%p code=%s status=%d", (void *)r, xh_err_name(err->code), err->status);
        r->job->lost = 1;
        xh_job_fail(r->job, err);
        xh_request_retire(r, t);
        break;
    }
}

/* An exchange is over: it is judged. */
static void on_over(struct xh_exchange *x, const struct xh_outcome *out)
{
    struct xh_request *r = x->request;
    struct xh_origin *o = x->job->origin;
    struct xh_endpoint *e = r->endpoint;
    struct xh_thread *t = self;
    struct xh_err err;
    uint64_t delay_ms = 0;
    xh_exchange_over(x, out);
    if (xh_timeline_on())
        xh_exchange_draw(x, out);
    enum xh_verdict v = xh_exchange_judge(x, out, &delay_ms, &err);
    xh_count(o->counters, connections, x->opened);
    xh_engine_lock();
    xh_endpoint_release(r, x);
    r->exchange = NULL;
    if (engine.life != RUNS && v != XH_VERDICT_DONE)
        r->cut = 1;
    if (r->cut && v != XH_VERDICT_DONE && v != XH_VERDICT_FAIL) {
        xh_err_set(&err, XH_E_CANCELLED, 0, "cancelled");
        v = XH_VERDICT_FAIL;
    }
    if (r->twin && v == XH_VERDICT_DONE)
        drop(t, r->twin);
    if (r->twin || r->surplus) /* the other may still bring the slice, or has: what became of this one is no news */
        xh_request_retire(r, t);
    else
        carry_out(t, r, v, delay_ms, &err);
    xh_endpoint_dispatch(e);
    xh_engine_unlock();
    exchange_free(x);
}

/* Starts the requests of the inbox. */
static void start_bound(struct xh_thread *t)
{
    xh_engine_lock();
    struct xh_ring *first;
    while ((first = t->inbox.next) != &t->inbox) {
        struct xh_request *r = xh_ring_of(first, struct xh_request, link), *rest = NULL;
        struct xh_exchange *x = exchange_new(t);
        if (!x) {
            struct xh_err err;
            struct xh_job *j = r->twin ? NULL : r->job; /* a twin stands for the slice alone from now on */
            xh_err_set(&err, XH_E_NOMEM, 0, "out of memory for a request");
            xh_endpoint_take(r);
            xh_request_retire(r, t);
            if (j) {
                j->lost = 1;
                xh_job_fail(j, &err);
            }
            continue;
        }
        xh_ring_take(&r->link);
        xh_request_enter(r, XH_REQ_RUNNING);
        xh_ring_put_last(&t->running, &r->link);
        r->exchange = x;
        xh_request_prepare(r, x, &rest);
        x->queued_ns = r->queued_ns;
        if (rest)
            requeue(t, rest, XH_PLACE_FIRST);
        xh_engine_unlock();
        struct xh_outcome unsent = {.net = xh_request_send(x, t->wire), .proxy_status = 407, .text = "no request could be made"};
        if (unsent.net != XH_NET_OK)
            on_over(x, &unsent);
        xh_engine_lock();
    }
    xh_engine_unlock();
}

/* Ends running requests that are to be cut; all of them with |net| when |all|. */
static void cut_running(struct xh_thread *t, int all, enum xh_net net)
{
    for (;;) {
        struct xh_exchange *x = NULL;
        xh_engine_lock();
        for (struct xh_ring *p = t->running.next; p != &t->running && !x; p = p->next) {
            struct xh_request *r = xh_ring_of(p, struct xh_request, link);
            if (all || r->cut)
                x = r->exchange;
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
        for (struct xh_ring *p = t->running.next; p != &t->running && !x; p = p->next) {
            struct xh_request *r = xh_ring_of(p, struct xh_request, link);
            if (r->resume)
                x = r->exchange;
            r->resume = 0;
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
    struct xh_ring *first;
    while ((first = xh_ring_take_first(finished)) != NULL)
        tell(xh_ring_of(first, struct xh_job, in_finished));
}

/* Puts delayed requests whose time has come into their queues. Lock held.
 * Returns how long the thread may sleep. */
static int wake_delayed(struct xh_thread *t)
{
    uint64_t now = xh_now_ns(), nearest = (uint64_t)IDLE_POLL_MS * 1000000u;
    for (struct xh_ring *p = t->delayed.next, *next; p != &t->delayed; p = next) {
        struct xh_request *r = xh_ring_of(p, struct xh_request, link);
        next = p->next;
        if (r->due_ns <= now) {
            xh_ring_take(&r->link);
            requeue(t, r, XH_PLACE_AGAIN);
        } else if (r->due_ns - now < nearest) {
            nearest = r->due_ns - now;
        }
    }
    return (int)(nearest / 1000000u) + 1;
}

static void *run(void *ctx)
{
    struct xh_thread *t = ctx;
    int exiting = 0;
    self = t;
    while (!exiting) {
        struct xh_ring finished;
        xh_ring_init(&finished);
        start_bound(t);
        xh_wire_perform(t->wire);
        xh_engine_lock();
        int sleep_ms = wake_delayed(t), cuts = t->cuts, resumes = t->resumes;
        uint64_t hedge_ns = xh_hedge_running(t), look_ns = xh_endpoints_look(xh_now_ns());
        uint64_t due_ms = (hedge_ns < look_ns ? hedge_ns : look_ns) / 1000000u + 1;
        if (due_ms < (uint64_t)sleep_ms)
            sleep_ms = (int)due_ms;
        xh_ring_move_all(&finished, &t->finished);
        exiting = engine.life != RUNS;
        if (!xh_ring_empty(&t->inbox) || !xh_ring_empty(&finished) || cuts || resumes)
            sleep_ms = 0;
        xh_engine_unlock();
        if (cuts)
            cut_running(t, 0, XH_NET_CANCELLED);
        if (resumes)
            resume_running(t);
        tell_all(&finished);
        if (sleep_ms > 0 && !exiting)
            xh_wire_poll(t->wire, sleep_ms);
    }
    cut_running(t, 1, XH_NET_EXITING);
    return NULL;
}

/* ---- life */

/* Fails what no thread will come to any more. Lock held on entry and on return. */
static void fail_leftovers(void)
{
    struct xh_ring left, finished, *first;
    struct xh_err err;
    xh_ring_init(&left);
    xh_ring_init(&finished);
    xh_endpoint_drain(&left);
    for (unsigned i = 0; i < engine.nthreads; i++) {
        xh_ring_move_all(&left, &engine.thread[i]->inbox);
        xh_ring_move_all(&left, &engine.thread[i]->delayed);
    }
    xh_err_set(&err, XH_E_SYS, 0, "the process is exiting");
    while ((first = xh_ring_take_first(&left)) != NULL) {
        struct xh_request *r = xh_ring_of(first, struct xh_request, link);
        r->job->lost = 1;
        if (r->job->err.code == 0)
            r->job->err = err;
        xh_request_retire(r, engine.thread[0]);
    }
    for (unsigned i = 0; i < engine.nthreads; i++)
        xh_ring_move_all(&finished, &engine.thread[i]->finished);
    xh_engine_unlock();
    tell_all(&finished);
    xh_engine_lock();
}

/* Registered right after curl's own initialisation, so it runs before OpenSSL's exit
 * handler takes away what the threads use. */
static void at_exit(void)
{
    xh_engine_lock();
    int ours = engine.life == RUNS && engine.process == xh_process();
    engine.life = EXITED;
    if (ours) {
        for (unsigned i = 0; i < engine.nthreads; i++)
            xh_wire_wake(engine.thread[i]->wire);
        xh_engine_unlock();
        for (unsigned i = 0; i < engine.nthreads; i++)
            pthread_join(engine.thread[i]->pthread, NULL);
        xh_engine_lock();
        fail_leftovers();
    }
    xh_engine_announce();
    xh_engine_unlock();
}

/* The child of a fork: threads, connections and jobs stayed with the parent. */
static void become_child(void)
{
    if (engine.life == RUNS)
        engine.life = NONE;
    engine.nthreads = 0;
    engine.era++;
    xh_endpoint_forget();
}

static void before_fork(void)
{
    xh_engine_lock();
}

static void after_fork_in_parent(void)
{
    xh_engine_unlock();
}

static void after_fork_in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    xh_cond_init(&announced);
    self = NULL;
    xh_proxy_after_fork();
    become_child();
}

static const struct xh_wire_events events = {
    .sent = xh_exchange_sent,
    .line = xh_exchange_line,
    .body = xh_exchange_body,
    .deadline = xh_exchange_deadline,
    .over = on_over,
};

static struct xh_thread *thread_new(unsigned index)
{
    char name[16];
    struct xh_thread *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->index = index;
    xh_ring_init(&t->free_exchanges);
    xh_ring_init(&t->inbox);
    xh_ring_init(&t->running);
    xh_ring_init(&t->delayed);
    xh_ring_init(&t->finished);
    t->wire = xh_wire_new(&events);
    if (!t->wire || xh_thread_start(&t->pthread, run, t) != 0) {
        free(t); /* the wire is leaked: this happens once, in a process that is dying anyway */
        return NULL;
    }
    snprintf(name, sizeof name, "xhdf5-io%u", index % 100);
    pthread_setname_np(t->pthread, name);
    return t;
}

static int start(unsigned want, struct xh_err *err)
{
    static int handlers; /* a child inherits them */
    if (xh_wire_global_init() != 0)
        return xh_err_set(err, XH_E_SYS, 0, "libcurl cannot be initialised");
    if (!handlers) {
        if (atexit(at_exit) != 0 || pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
            return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for an exit handler");
        handlers = 1;
    }
    xh_cond_init(&announced); /* no engine, no job, so nobody waits on it */
    if (want == 0) {
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        want = cpus >= AUTO_THREADS_MAX ? AUTO_THREADS_MAX : 1;
    }
    engine.life = RUNS; /* the threads look at it as soon as they can take the lock */
    engine.process = xh_process();
    if (engine.era == 0)
        engine.era = 1;
    while (engine.nthreads < want && (engine.thread[engine.nthreads] = thread_new(engine.nthreads)) != NULL)
        engine.nthreads++;
    if (engine.nthreads > 0)
        return 0;
    engine.life = NONE;
    return xh_err_set(err, XH_E_SYS, 0, "no thread for transfers can be started: %s", strerror(errno));
}

int xh_engine_enter(const struct xh_options *o, struct xh_err *err)
{
    int rc = 0;
    xh_engine_lock();
    if (engine.life == RUNS && engine.process != xh_process()) /* a fork that ran no handlers */
        become_child();
    if (engine.life == EXITED)
        rc = xh_err_set(err, XH_E_SYS, 0, "the process is exiting: nothing can be read any more");
    else if (engine.life == NONE)
        rc = start((unsigned)o->engine_threads, err);
    if (rc != 0)
        xh_engine_unlock();
    return rc;
}
