/* Waits on a machine whose wall clock is set back while they last: they take as long as before. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/now.h"
#include "origin/loop.h"
#include "base/waits.h"

#define HOUR_S 3600

/* Whoever asks is told a wall clock that is an hour fast: by the kernel's, a wait that is reckoned with it ends in an
 * hour, as it would where the clock were set back by one. */
int clock_gettime(clockid_t id, struct timespec *t)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(id, t);
    t->tv_sec += id == CLOCK_REALTIME ? HOUR_S : 0;
    return rc;
}

static void engine_waits(void)
{
    struct xh_options o;
    struct xh_wait w = {0};
    xh_options_defaults(&o);
    cr_assert_eq(xh_loop_enter(&o, NULL), 0);
    xh_engine_wait_with(&w, xh_now_ns() + 20000000u);
    xh_engine_unlock();
}

Test(waits, the_engine_waits_by_the_monotonic_clock, .timeout = 20)
{
    engine_waits();
}

Test(waits, so_it_does_in_a_forks_child, .timeout = 20)
{
    int status;
    engine_waits();
    pid_t pid = fork();
    if (pid == 0) {
        engine_waits();
        _exit(0);
    }
    cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
}

Test(waits, a_wait_ends_at_its_time, .timeout = 20)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t c;
    xh_cond_init(&c);
    pthread_mutex_lock(&lock);
    uint64_t until = xh_now_ns() + 20000000u;
    while (xh_cond_wait_until(&c, &lock, until))
        ;
    cr_assert_geq(xh_now_ns(), until);
    pthread_mutex_unlock(&lock);
}

static void nothing(int sig)
{
    (void)sig;
}

/* A profiler's timer, or a program that gets many signals. */
Test(waits, a_pause_lasts_though_signals_come, .timeout = 20)
{
    struct sigaction act = {.sa_handler = nothing};
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    uint64_t begun = xh_now_ns();
    xh_pause_ns(30000000);
    uint64_t lasted = xh_now_ns() - begun;
    setitimer(ITIMER_REAL, &never, NULL);
    cr_expect_geq(lasted, 30000000u);
}
