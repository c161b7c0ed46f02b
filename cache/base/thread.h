/* Threads of the driver's own, in a program that is not ours. */
#ifndef XH_THREAD_H
#define XH_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "err.h"

/* Starts a thread that runs |run| with |arg|. It takes no signals, which are the program's own affair, but SIGBUS: a
 * fault in a shadow's mapping is answered on the thread that has it (shadow/guard.c).
 * Sets |*out|, for the caller to join; with |out| NULL the thread is detached, and may run on while the process exits:
 * see crypto.h.
 * Returns 0, ENOMEM, or the error of pthread_create: then there is no thread. Threads: any. Does not block. */
int xh_thread_start(pthread_t *out, void *(*run)(void *), void *arg);

/* Returns a number that no other thread has while this one runs. */
uint64_t xh_thread_number(void);

/* Sets |err|: no thread for |what| can be started, for |why|, which is what xh_thread_start() returned. Returns the
 * code. */
int xh_thread_lacks(int why, const char *what, struct xh_err *err);

#endif
