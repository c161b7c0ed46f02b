/* What lies behind a file that HDF5 has open, also for programs that contain the driver. */
#ifndef XH_INSIDE_H
#define XH_INSIDE_H

#include "h5bind.h"

struct xh_file;

/* Returns the cache's part of the file that holds |id|; NULL for a local file, one that is written, and another
 * driver's. Owns: the file keeps it. Threads: any that may call HDF5. */
struct xh_file *xh_inside_cache(hid_t id);

/* Returns what is to be added to the addresses of chunks of the file that holds |id|: the size of its user block in
 * HDF5 1.14 before 1.14.4, else 0. |h5| NULL: the libhdf5 that the caller uses. */
uint64_t xh_inside_chunk_base(struct xh_h5 *h5, hid_t id);

#endif
