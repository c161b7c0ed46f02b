/* Looks at a file at a URL with HDF5: each object, and the totals. Reads only metadata. Hostile input: every name, size
 * and count in the file may have any value. */
#ifndef XH_LOOK_H
#define XH_LOOK_H

#include "../../cache/base/extent.h"
#include "../../cache/base/hdf5.h"
#include "../../cache/base/options.h"

enum xh_object_kind { XH_OBJ_GROUP, XH_OBJ_DATASET, XH_OBJ_TYPE, XH_OBJ_SOFT, XH_OBJ_EXTERNAL, XH_OBJ_UNREAD };
enum xh_layout { XH_LAYOUT_COMPACT, XH_LAYOUT_CONTIGUOUS, XH_LAYOUT_CHUNKED, XH_LAYOUT_VIRTUAL, XH_LAYOUT_EXTERNAL };

struct xh_object {
    enum xh_object_kind kind;
    const char *path;   /* as the file has it: any bytes */
    const char *target; /* where a soft or external link leads: any bytes */

    char type[256]; /* as text; of what cannot be read: that it cannot, and why */

    /* Datasets only. */
    char filters[256]; /* as text; '!' marks filters that are not available here */
    int missing;                  /* 1: such a filter is used */
    int indirect;                 /* 1: its values lie elsewhere in the file (variable length) */
    unsigned rank;
    /* most: UINT64_MAX is unlimited */
    uint64_t dims[XH_HDF5_RANK_MOST], most[XH_HDF5_RANK_MOST], chunk[XH_HDF5_RANK_MOST];
    uint64_t bytes;                                                      /* of all its elements, as in memory */
    uint64_t chunk_bytes;                                                /* of a chunk, before filters */
    enum xh_layout layout;
    int filtered, gzip;
    uint64_t stored_bytes, chunks; /* only with |storage| */
};

/* What a look saw in all. */
struct xh_seen {
    unsigned superblock;
    uint64_t user_block, page_bytes; /* page_bytes 0: not paged */
    uint64_t groups, datasets, types, attributes, unread;
    uint64_t metadata_bytes; /* object headers, indexes and heaps of groups, attributes and chunks; only with !links */
    uint64_t data_bytes;     /* raw data as stored; only with |storage| */
    int cut;                 /* 1: a bound was reached; the numbers count what was seen before */
    uint64_t requests, fetched_bytes, connections; /* what the look cost */
};

struct xh_look {
    /* Set by the caller. */
    const char *path;       /* where to begin; NULL: the whole file */
    int links;              /* 1: each link is shown, also one without a target; 0: each object once */
    int storage;            /* 1: chunk indexes are read too, and |raw| is filled */
    uint64_t objects_most;  /* 0: no bound */
    uint64_t until_ns;      /* 0: no bound; on the clock of now.h */
    /* NULL, or called for each object; a result other than 0 ends the look */
    int (*each)(void *ctx, const struct xh_object *o);
    /* NULL, or called for each other file that a dataset or link names, often twice */
    void (*named)(void *ctx, const char *file);
    void *ctx;

    /* Set by xh_look. */
    uint64_t opened_ns; /* when the file was open */
    uint64_t size;
    struct xh_seen seen;
    struct xh_range_list raw; /* where raw data lies; adjacent ranges are joined. None: too many ranges */
};

/* Looks at the objects of |url|. Returns 0, or a negative code with |err| set. Owns: xh_look_free, in any case.
 * Blocks. */
int xh_look(struct xh_look *l, const char *url, const struct xh_options *o, struct xh_err *err);
void xh_look_free(struct xh_look *l);

/* Writes "[10, 2048]" or "scalar". Returns |out|. */
const char *xh_look_shape(const uint64_t *n, unsigned rank, char *out, size_t size);

const char *xh_layout_name(enum xh_layout l);

#endif
