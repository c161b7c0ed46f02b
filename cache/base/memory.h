/* Memory that this process may still take: of the machine, and of the control groups above it (version 2 or 1), their
 * limits less what their members use and cannot be reclaimed. Threads: any. */
#ifndef XH_MEMORY_H
#define XH_MEMORY_H

#include <stdint.h>

#define XH_MEMORY_PART 4 /* what is kept is at most such a part of what is left */

/* Returns the bytes that are left; UINT64_MAX: that cannot be told. Reads some files of the kernel's; while no
 * descriptor is free for that, it is as it was last. */
uint64_t xh_memory_left(void);

/* Returns how many bytes something that has |has| may take now of the |most| that it was allowed: a program may have
 * taken much since then. At least 4 MiB, or |most|. */
uint64_t xh_memory_part(uint64_t has, uint64_t most);

#endif
