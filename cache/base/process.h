/* Which process this is. */
#ifndef XH_PROCESS_H
#define XH_PROCESS_H

#include <stdint.h>

/* A number that no other process of this machine has, living or not: neither the parent of a fork nor its child. A
 * pid is no
 * such thing: the first process of a pid namespace and that of a namespace inside are both 1, though one forked the
 * other.
 * Odd, and more than 1. Costs a load. Threads: any. In a child of vfork it is the parent's. */
uint64_t xh_process(void);

#endif
