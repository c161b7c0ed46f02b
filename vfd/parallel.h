/* Functions that only a driver for MPI programs needs. The plain plugin contains alone.c, which does none of them. The
 * plugin for collective access contains mpi/parallel.c, the only file that knows MPI.
 *
 * A file that was opened with a communicator is parallel. HDF5 takes its driver for an MPI driver. So collective
 * transfers and collective metadata reads work, and HDF5 asks ctl for rank, size and communicator. */
#ifndef XH_PARALLEL_H
#define XH_PARALLEL_H

#include <stddef.h>

#include "fapl.h"
#include "h5bind.h"
#include "local.h"
#include "remote.h"

struct xh_parallel;

/* Duplicates the communicator of |fapl|. Returns 0 and sets |*out|, to NULL when the list has none; or -1, error
 * pushed.
 * Owns: the caller closes |*out|. Collective if there is a communicator. */
int xh_parallel_of(struct xh_h5 *h5, hid_t fapl, struct xh_parallel **out);
void xh_parallel_close(struct xh_parallel *p);

/* Opens a URL in all processes of |p|: rank 0 asks the origin and tells the others. All succeed or all fail. |by|: the
 * file that names it; NULL: the program does. Returns and owns as xh_remote_open, or as xh_source_never_ends.
 * Collective; blocks. */
int xh_parallel_open_url(struct xh_parallel *p, struct xh_h5 *h5, const char *url, hid_t fapl,
                         const struct xh_namer *by, struct xh_remote **out, struct xh_err *err);

/* Returns 1 in one process of |p|, which prints messages that are printed once. */
int xh_parallel_first(const struct xh_parallel *p);

/* Returns 1 when |good| is 1 in every process of |p|. Collective. */
int xh_parallel_agree(struct xh_parallel *p, int good);

/* Converts HDF5's read of raw data as one process's share of a collective read: |count| elements of a type in memory at
 * |buf|, from a view of the file at |addr|. Returns the number of pieces in |*out|, which the caller frees; PLAIN when
 * it is a read of |count| bytes; or -1, error pushed. Does not block. */
#define XH_PARALLEL_PLAIN (-2)
ptrdiff_t xh_parallel_view(struct xh_parallel *p, hid_t dxpl, haddr_t addr, size_t count, void *buf,
                           struct xh_extent **out);

/* Answers HDF5's question |op_code|. Returns 1, or 0 when the question is not about MPI. */
int xh_parallel_ctl(struct xh_parallel *p, uint64_t op_code, void **output);

#endif
