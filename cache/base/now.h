/* The node's monotonic clock: the same for all its processes, and for the trace. */
#ifndef XH_NOW_H
#define XH_NOW_H

#include <stdint.h>
#include <time.h>

uint64_t xh_now_ns(void);

/* This thread's processor time: what else runs on the machine is not in it. */
static inline uint64_t xh_cpu_ns(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Says whether two times, in one unit, lie less than |most| apart. A time that another process writes may be later than
 * one's own, which was read before: it is recent, not long ago. */
static inline int xh_is_near(uint64_t a, uint64_t b, uint64_t most)
{
    return a - b < most || b - a < most;
}

#endif
