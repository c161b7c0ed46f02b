/* For programs that contain the driver: what lies behind a file that HDF5 has open. */
#ifndef XH_INSIDE_H
#define XH_INSIDE_H

#include "h5bind.h"

struct xh_file;

/* Returns the cache's part of the file that holds |id|; NULL for a local file, one that is written, and another
 * driver's. Owns: the file keeps it. Threads: any that may call HDF5. */
struct xh_file *xh_inside_cache(hid_t id);

#endif
