/* The node's monotonic clock: the same for all its processes, and for the trace. */
#ifndef XH_NOW_H
#define XH_NOW_H

#include <stdint.h>

uint64_t xh_now_ns(void);

#endif
