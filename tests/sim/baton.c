/* The token, the clock and the dice: see baton.h.
 *
 * Invariants: exactly one task is |me| of a thread that runs, all others sit in sem_wait; |ready| holds each task that
 * could run, once; time stands still while |ready| is not empty. */
#include "baton.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TASKS_MOST 256
#define BEGIN_NS (1000 * SIM_S)           /* the clock at the beginning: 0 has a meaning in many places */
#define WALL_BEGIN_S INT64_C(1767225600) /* 2026-01-01 */

struct task {
    sem_t go;
    pthread_t thread;
    void *(*run)(void *);
    void *arg;
    unsigned id;
    int done;
    const void *on;      /* what it waits for; NULL: nothing but the time, or it does not wait */
    int waits;
    uint64_t until_ns;   /* SIM_NEVER: no time */
    uint64_t since;      /* the first to wait is the first to be woken */
    int woken;
};

struct event {
    uint64_t at_ns, order;
    void (*run)(void *ctx, uint64_t arg);
    void *ctx;
    uint64_t arg;
};

static struct {
    int on;
    uint64_t now_ns, limit_ns, order, digest;
    uint64_t world, threads, driver; /* states of the three dice */
    unsigned switches, reads_as;
    void (*hung)(const char *why);
    struct task *task[TASKS_MOST];
    unsigned tasks;
    struct task *ready[TASKS_MOST];
    unsigned readies;
    struct event *heap;
    size_t events, room;
} w = {.now_ns = BEGIN_NS};

static _Thread_local struct task *me;

int sim_tracing;

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);
int __real_pthread_join(pthread_t t, void **out);
int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __real_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __real_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until);
int __real_pthread_cond_signal(pthread_cond_t *c);
int __real_pthread_cond_broadcast(pthread_cond_t *c);
int __real_nanosleep(const struct timespec *t, struct timespec *left);
int __real_sched_yield(void);
int __real_clock_gettime(clockid_t id, struct timespec *out);
time_t __real_time(time_t *out);
ssize_t __real_getrandom(void *buf, size_t len, unsigned flags);
long __real_syscall(long n, long a, long b, long c, long d, long e, long f);
uint64_t __real_xh_memory_part(uint64_t has, uint64_t most);

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t t, void **out);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *c);
int __wrap_pthread_cond_broadcast(pthread_cond_t *c);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_sched_yield(void);
int __wrap_clock_gettime(clockid_t id, struct timespec *out);
time_t __wrap_time(time_t *out);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f);
uint64_t __wrap_xh_memory_part(uint64_t has, uint64_t most);
uint64_t __real_xh_thread_number(void);
uint64_t __wrap_xh_thread_number(void);

/* ---- dice */

uint64_t sim_roll(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t sim_dice(void)
{
    return sim_roll(&w.world);
}

uint64_t sim_below(uint64_t n)
{
    return sim_dice() % n;
}

uint64_t sim_between(uint64_t least, uint64_t most)
{
    return least + sim_below(most - least + 1);
}

int sim_chance(double p)
{
    return (double)(sim_dice() >> 11) * 0x1p-53 < p;
}

/* ---- events */

uint64_t sim_now(void)
{
    return w.now_ns;
}

static int before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void sim_at(uint64_t at_ns, void (*run)(void *ctx, uint64_t arg), void *ctx, uint64_t arg)
{
    if (w.events == w.room) {
        w.room = w.room ? 2 * w.room : 1024;
        w.heap = realloc(w.heap, w.room * sizeof *w.heap);
        if (!w.heap)
            abort();
    }
    struct event e = {at_ns > w.now_ns ? at_ns : w.now_ns, w.order++, run, ctx, arg};
    size_t i = w.events++;
    for (; i && before(&e, &w.heap[(i - 1) / 2]); i = (i - 1) / 2)
        w.heap[i] = w.heap[(i - 1) / 2];
    w.heap[i] = e;
}

static struct event take_event(void)
{
    struct event first = w.heap[0], last = w.heap[--w.events];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w.events; i = child) {
        if (child + 1 < w.events && before(&w.heap[child + 1], &w.heap[child]))
            child++;
        if (!before(&w.heap[child], &last))
            break;
        w.heap[i] = w.heap[child];
    }
    w.heap[i] = last;
    return first;
}

void sim_note(uint64_t what)
{
    w.digest = (w.digest ^ what ^ w.now_ns) * 0x100000001b3u;
    w.digest ^= w.digest >> 29;
}

uint64_t sim_digest(void)
{
    return w.digest;
}

void sim_trace(const char *fmt, ...)
{
    if (!sim_tracing)
        return;
    va_list a;
    fprintf(stderr, "%12.3f  ", (double)(w.now_ns - BEGIN_NS) / 1e6);
    va_start(a, fmt);
    vfprintf(stderr, fmt, a);
    va_end(a);
    fputc('\n', stderr);
}

/* ---- the token */

static void make_ready(struct task *t, int woken)
{
    t->waits = 0;
    t->on = NULL;
    t->woken = woken;
    w.ready[w.readies++] = t;
}

static struct task *next_due(void)
{
    struct task *due = NULL;
    for (unsigned i = 0; i < w.tasks; i++)
        if (w.task[i]->waits && w.task[i]->until_ns != SIM_NEVER && (!due || w.task[i]->until_ns < due->until_ns))
            due = w.task[i];
    return due;
}

/* The task that runs next; the clock goes on until there is one. */
static struct task *choose(void)
{
    while (w.readies == 0) {
        struct task *due = next_due();
        if (!due && w.events == 0)
            w.hung("all threads wait, and nothing is under way");
        uint64_t at = due ? due->until_ns : SIM_NEVER;
        if (w.events && w.heap[0].at_ns <= at) {
            struct event e = take_event();
            w.now_ns = e.at_ns;
            e.run(e.ctx, e.arg);
        } else {
            w.now_ns = at > w.now_ns ? at : w.now_ns;
            make_ready(due, 0);
        }
        if (w.now_ns - BEGIN_NS > w.limit_ns)
            w.hung("it takes too long");
    }
    unsigned i = w.switches && w.readies > 1 ? (unsigned)(sim_roll(&w.threads) % w.readies) : 0;
    struct task *t = w.ready[i];
    memmove(w.ready + i, w.ready + i + 1, (--w.readies - i) * sizeof *w.ready);
    return t;
}

/* Hands the token over; returns when it is back. */
static void hand_over(void)
{
    struct task *mine = me, *next = choose();
    if (next == mine)
        return;
    sem_post(&next->go);
    while (sem_wait(&mine->go) != 0) { /* a signal */
    }
}

int sim_wait(const void *on, uint64_t until_ns)
{
    me->waits = 1;
    me->on = on;
    me->until_ns = until_ns;
    me->since = w.order++;
    hand_over();
    return me->woken;
}

void sim_sleep(uint64_t ns)
{
    if (ns)
        sim_wait(NULL, w.now_ns + ns);
}

static struct task *first_of(const void *on)
{
    struct task *first = NULL;
    for (unsigned i = 0; i < w.tasks; i++)
        if (w.task[i]->waits && w.task[i]->on == on && (!first || w.task[i]->since < first->since))
            first = w.task[i];
    return first;
}

void sim_wake(const void *on)
{
    for (struct task *t; (t = first_of(on)) != NULL;)
        make_ready(t, 1);
}

static void maybe_switch(void)
{
    if (w.switches && sim_roll(&w.threads) % w.switches == 0) {
        make_ready(me, 1);
        hand_over();
    }
}

static struct task *task_new(void)
{
    struct task *t = calloc(1, sizeof *t);
    if (!t || w.tasks == TASKS_MOST || sem_init(&t->go, 0, 0) != 0)
        abort();
    t->id = w.tasks;
    w.task[w.tasks++] = t;
    return t;
}

void sim_begin(uint64_t seed, uint64_t limit_ns, unsigned switches, void (*hung)(const char *why))
{
    w.on = 1;
    w.world = seed;
    w.threads = seed ^ 0x5bd1e995u;
    w.driver = seed ^ 0xc2b2ae35u;
    w.limit_ns = limit_ns;
    w.switches = switches;
    w.hung = hung;
    me = task_new();
    me->thread = pthread_self();
}

/* ---- what the linker puts in the system's place. Before sim_begin, the system's own. */

static void *run_task(void *arg)
{
    struct task *t = arg;
    while (sem_wait(&t->go) != 0) {
    }
    me = t;
    void *out = t->run(t->arg);
    t->done = 1;
    sim_wake(t);
    struct task *next = choose();
    sem_post(&next->go);
    return out;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
    if (!w.on)
        return __real_pthread_create(thread, a, run, arg);
    struct task *t = task_new();
    t->run = run;
    t->arg = arg;
    int rc = __real_pthread_create(thread, a, run_task, t);
    if (rc != 0)
        abort(); /* a simulation of that machine is not what this is for */
    t->thread = *thread;
    make_ready(t, 1);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **out)
{
    for (unsigned i = 0; i < w.tasks; i++)
        while (pthread_equal(w.task[i]->thread, thread) && !w.task[i]->done)
            sim_wait(w.task[i], SIM_NEVER);
    return __real_pthread_join(thread, out);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    int rc;
    if (!me)
        return __real_pthread_mutex_lock(m);
    maybe_switch();
    while ((rc = pthread_mutex_trylock(m)) == EBUSY)
        sim_wait(m, SIM_NEVER);
    return rc;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    int rc = __real_pthread_mutex_unlock(m);
    if (me)
        sim_wake(m);
    return rc;
}

static int cond_wait(pthread_cond_t *c, pthread_mutex_t *m, uint64_t until_ns)
{
    __wrap_pthread_mutex_unlock(m);
    int woken = sim_wait(c, until_ns);
    __wrap_pthread_mutex_lock(m);
    return woken ? 0 : ETIMEDOUT;
}

int __wrap_pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m)
{
    return me ? cond_wait(c, m, SIM_NEVER) : __real_pthread_cond_wait(c, m);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
    return me ? cond_wait(c, m, (uint64_t)until->tv_sec * SIM_S + (uint64_t)until->tv_nsec)
              : __real_pthread_cond_timedwait(c, m, until);
}

int __wrap_pthread_cond_signal(pthread_cond_t *c)
{
    struct task *t = me ? first_of(c) : NULL;
    if (t)
        make_ready(t, 1);
    return me ? 0 : __real_pthread_cond_signal(c);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *c)
{
    if (!me)
        return __real_pthread_cond_broadcast(c);
    sim_wake(c);
    return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    if (!me)
        return __real_nanosleep(t, left);
    sim_sleep((uint64_t)t->tv_sec * SIM_S + (uint64_t)t->tv_nsec);
    return 0;
}

int __wrap_sched_yield(void)
{
    if (!me)
        return __real_sched_yield();
    make_ready(me, 1);
    hand_over();
    return 0;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *out)
{
    if (!w.on)
        return __real_clock_gettime(id, out);
    out->tv_sec = (time_t)(w.now_ns / SIM_S) + (id == CLOCK_REALTIME ? (time_t)WALL_BEGIN_S : 0);
    out->tv_nsec = (long)(w.now_ns % SIM_S);
    return 0;
}

time_t __wrap_time(time_t *out)
{
    if (!w.on)
        return __real_time(out);
    time_t now = (time_t)WALL_BEGIN_S + (time_t)(w.now_ns / SIM_S);
    if (out)
        *out = now;
    return now;
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags)
{
    if (!w.on)
        return __real_getrandom(buf, len, flags);
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)buf)[i] = (uint8_t)sim_roll(&w.driver);
    return (ssize_t)len;
}

void sim_read_as(unsigned thread)
{
    w.reads_as = thread;
}

uint64_t __wrap_xh_thread_number(void)
{
    return __real_xh_thread_number() + (w.on ? w.reads_as : 0); /* a thread's number is an address */
}

/* What memory the machine has that simulates is no part of the world. */
uint64_t __wrap_xh_memory_part(uint64_t has, uint64_t most)
{
    return w.on ? most : __real_xh_memory_part(has, most);
}

/* Futexes alone; the time of a wait counts from now. */
long __wrap_syscall(long n, long a, long b, long c, long d, long e, long f)
{
    if (!me || n != SYS_futex)
        return __real_syscall(n, a, b, c, d, e, f);
    const uint32_t *word = (const uint32_t *)a;
    const struct timespec *t = (const struct timespec *)d;
    if ((b & FUTEX_CMD_MASK) == FUTEX_WAKE) {
        sim_wake(word);
        return 0;
    }
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != (uint32_t)c) {
        errno = EAGAIN;
        return -1;
    }
    if (sim_wait(word, t ? w.now_ns + (uint64_t)t->tv_sec * SIM_S + (uint64_t)t->tv_nsec : SIM_NEVER))
        return 0;
    errno = ETIMEDOUT;
    return -1;
}
