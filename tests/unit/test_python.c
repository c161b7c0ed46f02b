/* Ctrl-C in Python programs: a wait's looks, over a Python of this file's own. Each test is a process, whose main thread
 * waits. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "../../cache/base/interrupt.h"
#include "../../vfd/python.h"

static int state, standard, module_, error;
static void *attached, *set;         /* the main thread's state, or NULL; the exception that is set */
static _Atomic int noted, told;      /* a SIGINT is; how often Python's handler ran */
static _Atomic int waited, guarded;  /* for the lock: by the main thread, by others */

/* To be found by their names. */
#pragma GCC visibility push(default)
int Py_IsInitialized(void);
void *PyThreadState_GetUnchecked(void);
void *PyGILState_GetThisThreadState(void);
int PyGILState_Ensure(void);
void PyGILState_Release(int s);
int PyOS_InterruptOccurred(void);
void PyErr_SetInterrupt(void);
void *PyImport_AddModule(const char *name);
void *PyObject_GetAttrString(void *o, const char *name);
void *PyObject_CallMethod(void *o, const char *name, const char *format, ...);
void Py_DecRef(void *o);
void *PyErr_Occurred(void);
void PyErr_Clear(void);
#pragma GCC visibility pop

int Py_IsInitialized(void)
{
    return 1;
}

void *PyThreadState_GetUnchecked(void)
{
    return attached;
}

void *PyGILState_GetThisThreadState(void)
{
    return &state;
}

int PyGILState_Ensure(void)
{
    (*(gettid() == getpid() ? &waited : &guarded))++;
    return 0;
}

void PyGILState_Release(int s)
{
    (void)s;
}

int PyOS_InterruptOccurred(void)
{
    return atomic_exchange(&noted, 0);
}

void PyErr_SetInterrupt(void)
{
    noted = 1;
}

void *PyImport_AddModule(const char *name)
{
    (void)name;
    return &module_;
}

void *PyObject_GetAttrString(void *o, const char *name)
{
    (void)o, (void)name;
    return &standard;
}

void *PyObject_CallMethod(void *o, const char *name, const char *format, ...)
{
    (void)o, (void)name, (void)format;
    if (set) /* as Python does where a call returns with an exception */
        set = &error;
    return &standard;
}

void Py_DecRef(void *o)
{
    (void)o;
}

void *PyErr_Occurred(void)
{
    return set;
}

void PyErr_Clear(void)
{
    set = NULL;
}

static void pythons(int n)
{
    (void)n;
    noted = 1;
    told++;
}

static void (*before)(int, siginfo_t *, void *);

static void passes_on(int n, siginfo_t *info, void *context)
{
    before(n, info, context);
}

static void set_up(void)
{
    const struct sigaction python = {.sa_handler = pythons};
    sigaction(SIGINT, &python, NULL);
    xh_python_begin();
}

/* 1 when a wait of |looks| looks is interrupted. */
static int waits(int looks)
{
    static const struct timespec while_ = {.tv_nsec = XH_INTERRUPT_LOOK_NS + 1000000};
    struct xh_wait w = {0};
    int over = xh_interrupted(&w);
    for (int i = 0; i < looks && !over; i++) {
        nanosleep(&while_, NULL);
        over = xh_interrupted(&w);
    }
    return over;
}

Test(python, a_wait_ends_when_a_signal_is_noted, .init = set_up)
{
    attached = &state;
    cr_expect_not(waits(2));
    raise(SIGINT);
    cr_expect(waits(2));
    cr_expect(noted, "the note stays");
    cr_expect_eq(waited, 0);
}

Test(python, without_the_lock_it_is_waited_for_after_a_signal_alone, .init = set_up)
{
    waits(2); /* the first look of all: a signal may have come before */
    int first = waited;
    waits(3);
    waits(1);
    waits(3);
    cr_expect_eq(waited, first, "%d times more", waited - first);
    raise(SIGINT);
    cr_expect(waits(5));
    cr_expect_eq(waited, first + 1);
}

Test(python, another_handler_that_passes_signals_on_ends, .init = set_up)
{
    struct sigaction other = {.sa_sigaction = passes_on, .sa_flags = SA_SIGINFO}, old;
    attached = &state;
    waits(1);
    sigaction(SIGINT, NULL, &old);
    before = old.sa_sigaction;
    sigaction(SIGINT, &other, NULL);
    waits(1);
    raise(SIGINT);
    cr_expect_eq(told, 1);
    cr_expect(waits(2));
}

Test(python, an_exception_that_is_set_stays, .init = set_up)
{
    int mine;
    attached = &state;
    set = &mine;
    raise(SIGINT);
    cr_expect_not(waits(2));
    cr_expect_eq(set, &mine);
    set = NULL;
    cr_expect(waits(2));
}
