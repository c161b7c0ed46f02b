/* What a failure may have cost of a file that is written, where HDF5 goes on and closes it all the same.
 *
 * HDF5 keeps chunks and metadata in memory. If it cannot write a chunk, as what it has to read for that does not come,
 * it drops the chunk. If it fails amid a change of an index, half of that stays. A local file then is as it is. One at
 * a URL must not replace the good one that is there. */
#ifndef XH_LOST_H
#define XH_LOST_H

#include "h5bind.h"

/* A read of metadata has failed in the callback that is under way. Returns 1 when HDF5 may have lost something by that,
 * as it may in all calls but those that only look. |call| gets the name of HDF5's function, or "". */
int xh_lost_by_read(const struct xh_h5 *h5, char *call, size_t size);

/* Closing a file has come to its driver. Returns 1 when HDF5's error stack tells that flushing it has failed before, in
 * the same call. Calls H5Ewalk2, which keeps the stack. */
int xh_lost_in_close(struct xh_h5 *h5);

#endif
