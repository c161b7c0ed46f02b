/* Threads that pthread_cancel ends. The cache waits and reads under locks, with claims and with requests that write to
 * the caller's memory: a thread that ended there would leave all of it as it is, and the next read would wait for ever.
 * So no thread is cancelled in the driver. The request stays, and is heeded once the call has returned. HDF5 does the
 * same, where it is built for threads. */
#ifndef XH_UNCANCELLED_H
#define XH_UNCANCELLED_H

#include <pthread.h>

static inline int xh_cancel_never(void)
{
    int was;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    return was;
}

static inline void xh_cancel_as_before(const int *was)
{
    pthread_setcancelstate(*was, NULL);
}

/* At the beginning of each function that HDF5 or a program calls and that may wait: holds to its end. */
#define XH_UNCANCELLED __attribute__((cleanup(xh_cancel_as_before), unused)) const int xh_cancel_was = xh_cancel_never()

#endif
