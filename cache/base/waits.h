/* Condition variables on the clock of now.h. A wait must not depend on the wall clock, which may be set during the
 * wait. So every condition variable with a timed wait is made here, and every such wait goes through here.
 * tests/integration/rooms.py looks for others. */
#ifndef XH_WAITS_H
#define XH_WAITS_H

#include <pthread.h>
#include <stdint.h>

/* Initialises |c| for xh_cond_wait_until. Also in a fork's child, over the parent's. */
void xh_cond_init(pthread_cond_t *c);

/* Waits on |c|, made by xh_cond_init, until it is signalled or xh_now_ns() reaches |until_ns|. |lock| is held before
 * and after. Returns 0 when the time is over, else 1. A wait may end early without a reason, as with
 * pthread_cond_wait. */
int xh_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *lock, uint64_t until_ns);

/* Waits for |ns|, whatever signals come: a profiler's timer sends a thousand a second. */
void xh_pause_ns(uint64_t ns);

#endif
