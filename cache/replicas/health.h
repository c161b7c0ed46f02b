/* Which servers have failed, for all files of this process, and when each may be tried again. The last 64 that
 * failed are remembered. Threads: any. Does not block. */
#ifndef XH_HEALTH_H
#define XH_HEALTH_H

#include <stdint.h>

/* Returns when |server| ("https://host:port") may be tried again, in ns of the monotonic clock; 0: now. */
uint64_t xh_health_due_ns(const char *server);

/* Notes that |server| has failed. Returns when it may be tried again: 2 s from now, twice as long after each further
 * failure, 60 s at most. A failure before that time changes nothing. */
uint64_t xh_health_failed(const char *server);

/* Notes that |server| works. */
void xh_health_well(const char *server);

#endif
