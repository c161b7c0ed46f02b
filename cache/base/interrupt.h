/* Ends of waits that the user asks for (Ctrl-C). Nothing here happens unless somebody has said how to ask: see
 * vfd/python.c.
 *
 * Only the process's main thread is interrupted: signals are that one's affair. A wait that may last begins with a
 * struct xh_wait of zeros, wakes up every XH_INTERRUPT_LOOK_NS, and asks then. A wait that ends so returns XH_E_INTR,
 * and leaves everything as any other failure does. */
#ifndef XH_INTERRUPT_H
#define XH_INTERRUPT_H

#include <pthread.h>
#include <stdint.h>

#include "err.h"

#define XH_INTERRUPT_LOOK_NS 100000000u /* a tenth of a second: at once, for a person at a keyboard */

/* |asks| returns 1 when the wait of this thread, the main one, is to end. |first|: it is asked for the first time in
 * this wait. It is called without any lock of the driver's, but perhaps with HDF5's. It blocks for some hundredths of
 * a second at most. */
void xh_interrupt_by(int (*asks)(int first));

struct xh_wait {
    uint64_t next_ns;
    int asked;
};

/* 1 when |w| is to end. Asks no more often than every XH_INTERRUPT_LOOK_NS. No lock is held. */
int xh_interrupted(struct xh_wait *w);

/* Waits on |c|, made by xh_cond_init, until it is signalled or xh_now_ns() reaches |until_ns| (XH_NO_END: never), but
 * no longer than until |w| is to be asked again. |lock| is held before and after, and not while it asks. Returns 1 when
 * |w| is to end. A wait may end early without a reason. */
#define XH_NO_END UINT64_MAX
int xh_interrupt_wait(struct xh_wait *w, pthread_cond_t *c, pthread_mutex_t *lock, uint64_t until_ns);

/* Sets |err|. Returns XH_E_INTR. */
int xh_interrupt_error(struct xh_err *err, const char *shown);

#endif
