/* Health: which servers have failed, for all files of this process, and when each is worth another try.
 * Threads: any. Never blocks. Remembers the last so many. */
#ifndef XH_HEALTH_H
#define XH_HEALTH_H

#include <stdint.h>

/* When |server| ("https://host:port") may be tried again, by the monotonic clock; 0: now. */
uint64_t xh_health_due_ns(const char *server);

/* It has failed. Returns when it may be tried again: some seconds from now, more each time. A failure before it
 * was due is one that is known. */
uint64_t xh_health_failed(const char *server);

/* It has done well. */
void xh_health_well(const char *server);

#endif
