/* What a driver for MPI programs does beside reading: the plain plugin holds alone.c, which does none of it,
 * the plugin for collective access mpi/parallel.c, the only one that knows MPI.
 *
 * A file that was opened with a communicator is parallel: HDF5 takes its driver for one of MPI's, so that
 * collective transfers and collective metadata reads work, and asks ctl for rank, size and communicator. */
#ifndef XH_PARALLEL_H
#define XH_PARALLEL_H

#include <stddef.h>

#include "fapl.h"
#include "h5bind.h"
#include "local.h"
#include "remote.h"

struct xh_parallel;

/* The communicator of |fapl|, duplicated. Returns 0 and sets |*out|, NULL when the list has none;
 * or -1, error pushed. Owns: the caller closes it. Collective where there is a communicator. */
int xh_parallel_of(struct xh_h5 *h5, hid_t fapl, struct xh_parallel **out);
void xh_parallel_close(struct xh_parallel *p);

/* Opens a URL in all processes of |p|: rank 0 asks the origin, the others are told. Collective; all succeed or
 * all fail. As xh_remote_open. */
int xh_parallel_open_url(struct xh_parallel *p, struct xh_h5 *h5, const char *url, hid_t fapl,
                         struct xh_remote **out, struct xh_err *err);

/* 1 in one process of |p|: the one that says what is to be said once. */
int xh_parallel_first(const struct xh_parallel *p);

/* 1 when every process of |p| says |good|. Collective. */
int xh_parallel_agree(struct xh_parallel *p, int good);

/* HDF5's read of raw data as one process's share of a collective one: |count| elements of a type in memory at
 * |buf|, from a view of the file at |addr|. Returns how many pieces that is, in |*out|, which the caller
 * frees; or PLAIN when it is a read of |count| bytes; or -1, error pushed. Does not block. */
#define XH_PARALLEL_PLAIN (-2)
ptrdiff_t xh_parallel_view(struct xh_parallel *p, hid_t dxpl, haddr_t addr, size_t count, void *buf,
                           struct xh_extent **out);

/* Answers HDF5's question |op_code|. Returns 1, or 0 when it is none about MPI. */
int xh_parallel_ctl(struct xh_parallel *p, uint64_t op_code, void **output);

#endif
