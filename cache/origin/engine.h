/* The engine: threads that move data, one for the whole process, and its one lock.
 *
 * The lock guards: the endpoints with their queues, the state and the links of every job
 * and request, and the changing facts of every origin (dialect, target, token, poison).
 * It is never held across the network, a callback or a wait, but for the wait of
 * xh_engine_wait. What a running request holds beside that belongs to its thread. */
#ifndef XH_ENGINE_H
#define XH_ENGINE_H

#include <pthread.h>

#include "base/err.h"
#include "base/options.h"
#include "ring.h"

#define XH_THREADS_MAX 16

struct xh_wait;
struct xh_wire;
struct xh_wire_events;

struct xh_thread {
    unsigned index;       /* constant */
    pthread_t pthread;    /* constant */
    struct xh_wire *wire; /* constant; used by its thread alone, but for xh_wire_wake */
    /* Under the lock: */
    struct xh_ring inbox;    /* BOUND requests, to be started */
    struct xh_ring running;  /* RUNNING requests */
    struct xh_ring delayed;  /* DELAYED requests */
    struct xh_ring finished; /* jobs whose owner is to be told here */
    int cuts;                /* some running request has cut set */
    int resumes;             /* some running request has resume set */
};

/* What the threads do: handed down by loop.c. */
struct xh_engine_work {
    const struct xh_wire_events *events;
    void (*run)(struct xh_thread *t); /* until the process exits */
    /* At exit, after the threads: fails what none will come to any more. Lock held before and after. */
    void (*leave)(void);
    void (*forget)(void); /* in a fork's child: what an engine of the parent's owned is not ours. Lock held */
};

/* Makes sure that this process's engine runs, and takes the lock: see xh_loop_enter. */
int xh_engine_enter(const struct xh_engine_work *work, const struct xh_options *o, struct xh_err *err);

/* The thread that calls, or NULL: it is none of the engine's. */
struct xh_thread *xh_engine_self(void);

/* The lock alone, for those who know that the engine was entered before. */
void xh_engine_lock(void);
void xh_engine_unlock(void);

/* Waits until someone calls xh_engine_announce; lock held before and after. */
void xh_engine_wait(void);
int xh_engine_wait_with(struct xh_wait *w, uint64_t until_ns); /* as xh_interrupt_wait */
void xh_engine_announce(void);

/* Number that changes in a fork's child: what an older engine owned is not ours. 0: no engine. */
unsigned xh_engine_era(void);

/* 0 when the process is exiting: what is queued now is never over. Lock held. */
int xh_engine_runs(void);

/* The threads; lock held, engine entered. */
unsigned xh_engine_threads(void);
struct xh_thread *xh_engine_thread(unsigned i);

/* Makes |t| look at its rings; lock held or not. Free when it is the caller itself. */
void xh_engine_wake(struct xh_thread *t);

#endif
