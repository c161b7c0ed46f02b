/* The clock: see now.h. A file of its own, so that a test can put another one in its place. */
#include "now.h"

#include <time.h>

uint64_t xh_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
