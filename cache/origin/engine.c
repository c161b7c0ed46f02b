/* The engine: the lock, the threads, their start, fork and exit. See engine.h; what the threads do is loop.c's.
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
#include <unistd.h>

#include "base/interrupt.h"
#include "base/process.h"
#include "base/thread.h"
#include "base/waits.h"
#include "proxy.h"
#include "session.h"
#include "wire.h"

#define AUTO_THREADS_MAX 2

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int watched; /* forks are; constant behind |once| */
static pthread_cond_t announced; /* made by start(): nobody has anything to wait for before */

static struct { /* under the lock */
    enum { NONE, RUNS, EXITED } life;
    const struct xh_engine_work *work; /* constant while threads run, which read it without the lock */
    uint64_t process;                  /* whose threads these are */
    unsigned era;
    unsigned nthreads;
    struct xh_thread *thread[XH_THREADS_MAX];
} engine;

static _Thread_local struct xh_thread *self; /* NULL outside the engine's threads */

struct xh_thread *xh_engine_self(void)
{
    return self;
}

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

int xh_engine_wait_with(struct xh_wait *w, uint64_t until_ns)
{
    return xh_interrupt_wait(w, &announced, &lock, until_ns);
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

/* ---- life */

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
        engine.work->leave();
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
    if (engine.work)
        engine.work->forget();
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
    xh_session_after_fork();
    become_child();
}

/* Before the lock is first taken: a fork while the engine begins would leave it locked in the child. */
static void watch_forks(void)
{
    watched = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

static void *run(void *t)
{
    self = t;
    engine.work->run(t);
    return NULL;
}

/* Sets |*out|. Returns 0 or an errno. */
static int thread_new(unsigned index, struct xh_thread **out)
{
    char name[16];
    struct xh_thread *t = calloc(1, sizeof *t);
    if (!t)
        return ENOMEM;
    t->index = index;
    xh_ring_init(&t->inbox);
    xh_ring_init(&t->running);
    xh_ring_init(&t->delayed);
    xh_ring_init(&t->finished);
    t->wire = xh_wire_new(engine.work->events);
    int rc = t->wire ? xh_thread_start(&t->pthread, run, t) : ENOMEM;
    if (rc != 0) {
        free(t); /* the wire is leaked: this happens once, in a process that is dying anyway */
        return rc;
    }
    snprintf(name, sizeof name, "xhdf5-io%u", index % 100);
    pthread_setname_np(t->pthread, name);
    *out = t;
    return 0;
}

static int start(const struct xh_engine_work *work, unsigned want, struct xh_err *err)
{
    static int handlers; /* a child inherits it */
    engine.work = work;
    if (xh_wire_global_init() != 0)
        return xh_err_set(err, XH_E_SYS, 0, "libcurl cannot be initialised");
    if (!handlers) {
        if (atexit(at_exit) != 0 || !watched)
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
    int rc = 0;
    while (engine.nthreads < want && (rc = thread_new(engine.nthreads, &engine.thread[engine.nthreads])) == 0)
        engine.nthreads++;
    if (engine.nthreads > 0)
        return 0;
    engine.life = NONE;
    return xh_thread_lacks(rc, "transfers", err);
}

int xh_engine_enter(const struct xh_engine_work *work, const struct xh_options *o, struct xh_err *err)
{
    int rc = 0;
    pthread_once(&once, watch_forks);
    xh_engine_lock();
    if (engine.life == RUNS && engine.process != xh_process()) /* a fork that ran no handlers */
        become_child();
    if (engine.life == EXITED)
        rc = xh_err_set(err, XH_E_SYS, 0, "the process is exiting: nothing can be read any more");
    else if (engine.life == NONE)
        rc = start(work, (unsigned)o->engine_threads, err);
    if (rc != 0)
        xh_engine_unlock();
    return rc;
}
