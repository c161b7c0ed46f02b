/* Which bytes an MPI datatype stands for, in its order. Knows nothing of files and HDF5. */
#ifndef XH_SPANS_H
#define XH_SPANS_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

struct xh_span { /* [at, at + len), relative to where the type begins */
    int64_t at;
    uint64_t len;
};

struct xh_spans { /* none empty, none that begins where the one before it ends */
    struct xh_span *at;
    size_t n, room;
};

/* Appends the bytes of |count| elements of |type|, the first of which begins at |at|. Returns 0, XH_E_NOMEM, or
 * XH_E_INVAL for a type that HDF5 does not make (then |spans| holds some of it).
 * Owns: the caller frees spans->at, in any case. Does not block. */
int xh_spans_add(struct xh_spans *spans, MPI_Datatype type, int64_t at, uint64_t count);

#endif
