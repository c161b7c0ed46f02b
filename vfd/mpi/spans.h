/* The bytes that an MPI datatype stands for, in its order. Knows nothing of files and HDF5. */
#ifndef XH_SPANS_H
#define XH_SPANS_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

struct xh_span { /* [at, at + len), relative to the beginning of the type */
    int64_t at;
    uint64_t len;
};

struct xh_spans { /* no span is empty; no span begins where the one before it ends */
    struct xh_span *at;
    size_t n, room;
};

/* Appends the bytes of |count| elements of |type|; the first begins at |at|. Returns 0, XH_E_NOMEM, or XH_E_INVAL for a
 * type that HDF5 does not make; |spans| may then hold a part of it. Owns: the caller frees spans->at in any case. Does
 * not block. */
int xh_spans_add(struct xh_spans *spans, MPI_Datatype type, int64_t at, uint64_t count);

#endif
