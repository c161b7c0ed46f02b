/* Ctrl-C in Python programs: a read that waits for the network ends when it comes.
 *
 * Python's handler of SIGINT only notes the signal: what it leads to, mostly KeyboardInterrupt, happens once the
 * interpreter runs again, so behind the read. Here the wait looks whether a SIGINT is noted, and whether it will become
 * a KeyboardInterrupt: where the program has a handler of its own, the read goes on as ever. The note stays, and the
 * interpreter raises when the read has failed.
 *
 * To look, the thread must have the interpreter's lock. Some callers of HDF5 have let go of it (h5py's reads), and must
 * not wait for it: another thread may have it that waits for HDF5's lock, which this one has, and nothing would go on
 * any more. So a thread of its own finds out first whether it can be had, and the answer counts at once or not at all;
 * and it is asked only when a SIGINT came, as somebody may take it in between all the same.
 *
 * Python's functions are found by their names: a program without Python has none, and nothing of this happens there. */
#include "python.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "../cache/base/interrupt.h"
#include "../cache/base/process.h"
#include "../cache/base/thread.h"
#include "../cache/base/waits.h"

/* Of Python's C interface: what stays the same in all its versions 3. */
static struct {
    int (*is_initialized)(void);
    void *(*attached)(void); /* the state of the thread that has the lock; from 3.12 on this thread's, or NULL */
    void *(*of_this_thread)(void);
    int (*ensure)(void);
    void (*release)(int);
    int (*interrupt_occurred)(void); /* 1 when a SIGINT is noted, and notes it no more */
    void (*set_interrupt)(void);     /* notes it */
    void *(*add_module)(const char *name);
    void *(*attribute)(void *object, const char *name);
    void *(*call)(void *object, const char *name, const char *format, ...);
    void (*let_go)(void *object);
    void *(*occurred)(void); /* the exception that is set; borrowed */
    void (*clear)(void);
} py;

/* Signals that came since the handler is ours. Relaxed: a late look is one 0.1 s later. */
static _Atomic unsigned came;
static unsigned seen;            /* the main thread's */
static int owed;                 /* a look that could not be had yet; the main thread's */
static struct sigaction previous; /* written once, while |ours| is not the handler */
static int chained;               /* it is written; the main thread's */
/* The thread that finds out whether the lock can be had: release there, acquire by the main thread. */
enum { NOBODY, ASKING, FREE };
/* Looks for its answer, together longer than a thread of Python's keeps the lock. As long as one lasts, somebody may
 * take the lock behind the answer. */
#define FREE_LOOKS   200
#define FREE_LOOK_NS 100000
static _Atomic int guard;
static uint64_t guarded; /* the process that |guard| is of */

static void ours(int n, siginfo_t *info, void *context)
{
    atomic_fetch_add_explicit(&came, 1, memory_order_relaxed);
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(n, info, context);
    else
        previous.sa_handler(n);
}

static int same_handler(const struct sigaction *a, const struct sigaction *b)
{
    if ((a->sa_flags ^ b->sa_flags) & SA_SIGINFO)
        return 0;
    return a->sa_flags & SA_SIGINFO ? a->sa_sigaction == b->sa_sigaction : a->sa_handler == b->sa_handler;
}

/* From now on signals are counted, and passed on. Where SIGINT ends the process, or does nothing, that is left so, and
 * 0 is returned. Ours goes before one handler alone, the first (Python has one for all of a program's): another that
 * came since may pass signals on to ours, and if ours passed them on to that one, they would go round for ever. */
static int count_signals(void)
{
    struct sigaction now;
    if (sigaction(SIGINT, NULL, &now) != 0)
        return 0;
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == ours)
        return 1;
    if (!(now.sa_flags & SA_SIGINFO) && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN))
        return 0;
    if (chained && !same_handler(&now, &previous))
        return 1;
    if (!chained)
        previous = now;
    chained = 1;
    owed = 1; /* those until now were not counted */
    now.sa_sigaction = ours;
    now.sa_flags |= SA_SIGINFO;
    return sigaction(SIGINT, &now, NULL) == 0;
}

/* 1 when a SIGINT is noted that will be a KeyboardInterrupt. The thread has the lock. */
static int will_raise(void)
{
    if (py.occurred()) /* the caller is ending something already, and nothing of Python's may be called */
        return 0;
    void *module = py.add_module("_signal"); /* borrowed; it is there in any case */
    void *standard = module ? py.attribute(module, "default_int_handler") : NULL;
    void *handler = module ? py.call(module, "getsignal", "i", SIGINT) : NULL;
    int raises = standard && handler == standard;
    if (!standard || !handler)
        py.clear();
    if (standard)
        py.let_go(standard);
    if (handler)
        py.let_go(handler);
    if (!raises || !py.interrupt_occurred()) /* a handler of the program's own is told once, as ever */
        return 0;
    py.set_interrupt();
    return 1;
}

static void *find_out(void *arg)
{
    int state = py.ensure();
    atomic_store_explicit(&guard, FREE, memory_order_release);
    py.release(state);
    return NULL;
}

/* 1 when the lock could be had just now. An answer that comes later is of no use: who has the lock by then? */
static int lock_is_free(void)
{
    if (guarded != xh_process()) { /* a fork's child has not its parent's threads */
        guarded = xh_process();
        atomic_store_explicit(&guard, NOBODY, memory_order_relaxed);
    }
    if (atomic_load_explicit(&guard, memory_order_acquire) == ASKING)
        return 0;
    atomic_store_explicit(&guard, ASKING, memory_order_relaxed);
    if (xh_thread_start(NULL, find_out, NULL) != 0) {
        atomic_store_explicit(&guard, NOBODY, memory_order_relaxed);
        return 0;
    }
    for (int i = 0; i < FREE_LOOKS; i++) {
        xh_pause_ns(FREE_LOOK_NS);
        if (atomic_load_explicit(&guard, memory_order_acquire) == FREE)
            return 1;
    }
    return 0;
}

static int asks(int first)
{
    if (!py.is_initialized() || !count_signals())
        return 0;
    unsigned now = atomic_load_explicit(&came, memory_order_relaxed);
    owed |= now != seen;
    seen = now;
    if (!owed && !first)
        return 0;
    void *mine = py.of_this_thread();
    if (mine && py.attached() == mine) {
        owed = 0;
        return will_raise();
    }
    if (!owed || !mine || !lock_is_free())
        return 0;
    owed = 0;
    int state = py.ensure(), raises = will_raise();
    py.release(state);
    return raises;
}

/* Returns 0 when Python has none of that name. */
static int find(void *to, const char *name)
{
    void *f = dlsym(RTLD_DEFAULT, name);
    memcpy(to, &f, sizeof f);
    return f != NULL;
}

static void begin(void)
{
    const struct {
        void *to;
        const char *name;
    } all[] = {{&py.is_initialized, "Py_IsInitialized"}, {&py.of_this_thread, "PyGILState_GetThisThreadState"},
               {&py.ensure, "PyGILState_Ensure"}, {&py.release, "PyGILState_Release"},
               {&py.interrupt_occurred, "PyOS_InterruptOccurred"}, {&py.set_interrupt, "PyErr_SetInterrupt"},
               {&py.add_module, "PyImport_AddModule"}, {&py.attribute, "PyObject_GetAttrString"},
               {&py.call, "PyObject_CallMethod"}, {&py.let_go, "Py_DecRef"}, {&py.occurred, "PyErr_Occurred"},
               {&py.clear, "PyErr_Clear"}};
    if (!find(&py.attached, "PyThreadState_GetUnchecked") && !find(&py.attached, "_PyThreadState_UncheckedGet"))
        return;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!find(all[i].to, all[i].name))
            return;
    xh_interrupt_by(asks);
}

void xh_python_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
}
