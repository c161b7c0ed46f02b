/* The clock: see now.h. In its own file, so that a test can replace it. */
#include "now.h"

#include <time.h>

uint64_t xh_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
