/* Files that the processes of a communicator have open together: see parallel.h.
 *
 * Opening costs the origin as much as for one process: rank 0 opens the file and tells the others what it learned. Each
 * process reads for itself, through the node's shadow. If the program asks for it (H5Pset_all_coll_metadata_ops), HDF5
 * reads metadata on rank 0 alone and broadcasts it.
 *
 * HDF5 passes a process's share of a collective read to read_vector, with one exception: unfiltered chunks that its
 * chunk cache could hold, and all reads if selection I/O is off. Then it calls read with a count of a datatype; it has
 * stored this type and the file's view for its own MPI driver, in its API context. The shared libhdf5 exports functions
 * for both, but no header declares them. If a libhdf5 does not have them, such a read is refused: as a read of bytes it
 * would bring the wrong ones.
 *
 * Rule: between two collective calls no process returns early, or the others would wait for ever. */
#include "../parallel.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/cache.h"
#include "../../cache/watch/trace.h"
#include "../h5err.h"
#include "../sources.h"
#include "spans.h"

struct xh_parallel { /* constant while open */
    struct xh_h5 *h5;
    MPI_Comm comm;
    MPI_Info info;
    int rank, size;
    herr_t (*dxpl_mode)(hid_t dxpl, H5FD_mpio_xfer_t *mode); /* the mode that the program asked for */
    herr_t (*mode)(H5FD_mpio_xfer_t *mode);                  /* the mode that HDF5 uses; NULL: cannot be known */
    herr_t (*types)(MPI_Datatype *memory, MPI_Datatype *file);
};

static int mpi_runs(void)
{
    int initialised = 0, finalised = 0;
    MPI_Initialized(&initialised);
    MPI_Finalized(&finalised);
    return initialised && !finalised;
}

int xh_parallel_of(struct xh_h5 *h5, hid_t fapl, struct xh_parallel **out)
{
    __typeof__(H5Pget_mpi_params) *get_params = xh_h5_find(h5, "H5Pget_mpi_params");
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Info info = MPI_INFO_NULL;
    *out = NULL;
    if (!get_params || !mpi_runs())
        return 0;
    struct xh_parallel *p = calloc(1, sizeof *p);
    if (!p)
        return xh_fail(h5, XH_E_NOMEM, "out of memory");
    if (get_params(fapl, &comm, &info) < 0 || comm == MPI_COMM_NULL) {
        free(p);
        return 0;
    }
    if (info == MPI_INFO_NULL)
        MPI_Info_create(&info); /* HDF5 takes MPI_INFO_NULL for a failure */
    *p = (struct xh_parallel){.h5 = h5, .comm = comm, .info = info};
    MPI_Comm_rank(comm, &p->rank);
    MPI_Comm_size(comm, &p->size);
    p->dxpl_mode = xh_h5_find(h5, "H5Pget_dxpl_mpio");
    p->mode = xh_h5_find(h5, "H5CX_get_io_xfer_mode");
    p->types = xh_h5_find(h5, "H5CX_get_mpi_coll_datatypes");
    *out = p;
    return 0;
}

void xh_parallel_close(struct xh_parallel *p)
{
    if (p && mpi_runs()) {
        MPI_Comm_free(&p->comm);
        MPI_Info_free(&p->info);
    }
    free(p);
}

int xh_parallel_first(const struct xh_parallel *p)
{
    return p->rank == 0;
}

int xh_parallel_agree(struct xh_parallel *p, int good)
{
    int all = 0;
    return MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_LAND, p->comm) == MPI_SUCCESS && all;
}

/* Tells all processes why the first one of those that cannot open the file |shown| cannot. |good|: this one can; else
 * |*err| says why not. Returns 0 when all can; else the code that is in |*err|. Collective. */
static int agree_why(struct xh_parallel *p, int good, const char *shown, struct xh_err *err)
{
    int first = p->size, mine = good ? p->size : p->rank;
    struct xh_err why = *err;
    if (MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, p->comm) == MPI_SUCCESS && first == p->size)
        return 0;
    if (first < p->size)
        MPI_Bcast(&why, sizeof why, MPI_BYTE, first, p->comm);
    if (good)
        xh_err_set(err, why.code ? why.code : XH_E_SYS, why.status,
                   "%.200s: another process of the communicator cannot open it: rank %d: %.480s", shown, first,
                   why.text);
    return err->code;
}

/* ---- opening */

/* The message of rank 0: an error, or the length of what follows. */
struct news {
    struct xh_err err;
    uint64_t len;
};

/* For rank 0: opens the file, and gets what the others need. */
static void ask(struct xh_h5 *h5, const char *url, hid_t fapl, const struct xh_namer *by, struct xh_remote **r,
                struct news *news, void **told)
{
    size_t len = 0;
    if (xh_remote_open(h5, url, fapl, NULL, r, &news->err) == 0 &&
        ((by && xh_source_never_ends(h5, url, fapl, by, &news->err)) ||
         xh_cache_tell(xh_remote_cache(*r), told, &len, &news->err))) {
        xh_remote_close(*r);
        *r = NULL;
    }
    news->len = len;
}

/* 1 when HDF5 reads metadata on rank 0 alone. */
static int metadata_by_one(struct xh_h5 *h5, hid_t fapl)
{
    __typeof__(H5Pget_all_coll_metadata_ops) *get = xh_h5_find(h5, "H5Pget_all_coll_metadata_ops");
    hbool_t collective = 0;
    return get && get(fapl, &collective) >= 0 && collective;
}

int xh_parallel_open_url(struct xh_parallel *p, struct xh_h5 *h5, const char *url, hid_t fapl,
                         const struct xh_namer *by, struct xh_remote **out, struct xh_err *err)
{
    struct news news = {0};
    struct xh_remote *r = NULL;
    void *told = NULL;
    if (p->rank == 0)
        ask(h5, url, fapl, by, &r, &news, &told);
    MPI_Bcast(&news, sizeof news, MPI_BYTE, 0, p->comm);
    if (news.err.code) {
        *err = news.err;
        return err->code;
    }
    if (p->rank)
        told = malloc(news.len);
    char shown[512];
    xh_url_shown(url, shown, sizeof shown);
    int rc = told ? 0 : xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
    if ((rc = agree_why(p, rc == 0, shown, err)))
        goto end;
    MPI_Bcast(told, (int)news.len, MPI_BYTE, 0, p->comm);
    struct xh_told heard = {.bytes = told, .len = news.len, .data_only = metadata_by_one(h5, fapl)};
    if (p->rank)
        xh_remote_open(h5, url, fapl, &heard, &r, err);
    rc = agree_why(p, r != NULL, shown, err);
    xh_trace(XH_T_VFD, "together", "rank=%d size=%d told=%llu rc=%d", p->rank, p->size, (unsigned long long)news.len,
             rc);
end:
    free(told);
    if (rc == 0) {
        memset(err, 0, sizeof *err);
        *out = r;
    } else if (r) {
        xh_remote_close(r);
    }
    return rc;
}

/* ---- reading */

/* Pairs the spans of |memory| and |file| piece by piece. |file| is at least as long as |memory|. Returns the number of
 * pieces, or -1. */
static ptrdiff_t pair(const struct xh_spans *memory, const struct xh_spans *file, haddr_t addr, char *buf,
                      struct xh_extent **out)
{
    struct xh_extent *p = malloc((memory->n + file->n + 1) * sizeof *p);
    size_t n = 0, i = 0, k = 0;
    uint64_t in_i = 0, in_k = 0;
    while (p && i < memory->n && k < file->n) {
        uint64_t a = memory->at[i].len - in_i, b = file->at[k].len - in_k, len = a < b ? a : b;
        p[n++] = (struct xh_extent){.off = addr + (uint64_t)file->at[k].at + in_k, .len = len,
                                    .buf = buf + memory->at[i].at + (int64_t)in_i};
        in_i = a == len ? (i++, 0u) : in_i + len;
        in_k = b == len ? (k++, 0u) : in_k + len;
    }
    *out = p;
    return p ? (ptrdiff_t)n : -1;
}

/* Returns 1 when HDF5 is in a collective read, 0 when not, -1 when that cannot be told. */
static int is_collective(struct xh_parallel *p, hid_t dxpl)
{
    H5FD_mpio_xfer_t mode = H5FD_MPIO_INDEPENDENT;
    if (p->mode && p->types)
        return p->mode(&mode) >= 0 && mode == H5FD_MPIO_COLLECTIVE;
    return p->dxpl_mode && p->dxpl_mode(dxpl, &mode) >= 0 && mode == H5FD_MPIO_COLLECTIVE ? -1 : 0;
}

ptrdiff_t xh_parallel_view(struct xh_parallel *p, hid_t dxpl, haddr_t addr, size_t count, void *buf,
                           struct xh_extent **out)
{
    MPI_Datatype memory_type, file_type;
    MPI_Count memory_bytes = 0, file_bytes = 0;
    struct xh_spans memory = {0}, file = {0};
    int collective = is_collective(p, dxpl), rc = 0;
    if (collective == 0)
        return XH_PARALLEL_PLAIN;
    if (collective < 0 || p->types(&memory_type, &file_type) < 0)
        return xh_fail(p->h5, XH_E_INVAL,
                       "this libhdf5 does not tell what a collective read of small chunks wants: give "
                       "the data set an empty chunk cache (H5Pset_chunk_cache), or read independently");
    MPI_Type_size_x(memory_type, &memory_bytes);
    MPI_Type_size_x(file_type, &file_bytes);
    uint64_t wanted = (uint64_t)memory_bytes * count;
    if (wanted == 0)
        return 0;
    if (file_bytes <= 0)
        return xh_fail(p->h5, XH_E_INVAL, "a collective read of %llu bytes from a view that has none",
                       (unsigned long long)wanted);
    rc = xh_spans_add(&memory, memory_type, 0, count);
    if (rc == 0) /* a view repeats the file's type */
        rc = xh_spans_add(&file, file_type, 0, (wanted + (uint64_t)file_bytes - 1) / (uint64_t)file_bytes);
    ptrdiff_t n = rc ? -1 : pair(&memory, &file, addr, buf, out);
    xh_trace(XH_T_VFD, "view", "addr=%llu bytes=%llu pieces=%td", (unsigned long long)addr,
             (unsigned long long)wanted, n);
    free(memory.at);
    free(file.at);
    if (n < 0)
        return xh_fail(p->h5, rc == XH_E_INVAL ? rc : XH_E_NOMEM, rc == XH_E_INVAL
                       ? "a collective read with an MPI datatype of an unknown kind"
                       : "out of memory for a collective read");
    return n;
}

/* ---- what HDF5 asks */

int xh_parallel_ctl(struct xh_parallel *p, uint64_t op_code, void **output)
{
    if (!output || !*output)
        return 0;
    switch (op_code) {
    case H5FD_CTL_GET_MPI_COMMUNICATOR_OPCODE:
        *(MPI_Comm *)*output = p->comm;
        return 1;
    case H5FD_CTL_GET_MPI_INFO_OPCODE:
        *(MPI_Info *)*output = p->info;
        return 1;
    case H5FD_CTL_GET_MPI_RANK_OPCODE:
        *(int *)*output = p->rank;
        return 1;
    case H5FD_CTL_GET_MPI_SIZE_OPCODE:
        *(int *)*output = p->size;
        return 1;
    case H5FD_CTL_GET_MPI_FILE_SYNC_OPCODE:
        *(bool *)*output = false; /* nothing is written */
        return 1;
    default:
        return 0;
    }
}
