/* See thread.h. */
#include "thread.h"

#include <signal.h>

int xh_thread_start(pthread_t *out, void *(*run)(void *), void *arg)
{
    pthread_t thread;
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* a thread begins with the mask of its parent */
    int rc = pthread_create(out ? out : &thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0 && !out)
        pthread_detach(thread);
    return rc;
}
