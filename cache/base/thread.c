/* See thread.h. */
#include "thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "crypto.h"

struct alone {
    void *(*run)(void *);
    void *arg;
};

static void *run_alone(void *ctx)
{
    struct alone a = *(struct alone *)ctx;
    free(ctx);
    a.run(a.arg);
    xh_crypto_end_thread();
    return NULL;
}

static int start(pthread_t *out, void *(*run)(void *), void *arg)
{
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* a thread begins with the mask of its parent */
    int rc = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

int xh_thread_start(pthread_t *out, void *(*run)(void *), void *arg)
{
    if (out)
        return start(out, run, arg);
    pthread_t thread;
    struct alone *a = malloc(sizeof *a);
    if (!a)
        return ENOMEM;
    *a = (struct alone){run, arg};
    int rc = start(&thread, run_alone, a);
    if (rc == 0)
        pthread_detach(thread);
    else
        free(a);
    return rc;
}

uint64_t xh_thread_number(void)
{
    return (uint64_t)pthread_self();
}

int xh_thread_lacks(int why, const char *what, struct xh_err *err)
{
    return xh_err_set(err, XH_E_SYS, 0, "no thread for %s can be started: %s", what,
                      why == EAGAIN ? "the process, or its user, has as many as it may, or no memory for another one: "
                                      "raise that limit (ulimit -u, ulimit -v, pids.max of the cgroup)"
                                    : strerror(why));
}
