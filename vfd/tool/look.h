/* A look: what HDF5 finds in a file at a URL, object by object, and the sums of it. Reads metadata alone.
 * The file is the world: every name, size and count in it may be anything. */
#ifndef XH_LOOK_H
#define XH_LOOK_H

#include "../../cache/base/extent.h"
#include "../../cache/base/options.h"

#define XH_RANK_MOST 32u

enum xh_object_kind { XH_OBJ_GROUP, XH_OBJ_DATASET, XH_OBJ_TYPE, XH_OBJ_SOFT, XH_OBJ_EXTERNAL, XH_OBJ_UNREAD };
enum xh_layout { XH_LAYOUT_COMPACT, XH_LAYOUT_CONTIGUOUS, XH_LAYOUT_CHUNKED, XH_LAYOUT_VIRTUAL, XH_LAYOUT_EXTERNAL };

struct xh_object {
    enum xh_object_kind kind;
    const char *path;   /* as the file has it: any bytes */
    const char *target; /* of a soft or external link: where it leads; likewise */

    /* Of a dataset: */
    char type[256], filters[256]; /* in words; filters that cannot be undone here are marked with '!' */
    int missing;                  /* there is such a filter */
    int indirect;                 /* its values lie elsewhere in the file: of variable length */
    unsigned rank;
    uint64_t dims[XH_RANK_MOST], most[XH_RANK_MOST], chunk[XH_RANK_MOST]; /* most: UINT64_MAX is unlimited */
    uint64_t bytes;                                                      /* of all its elements, as in memory */
    uint64_t chunk_bytes;                                                /* of a chunk, before filters */
    enum xh_layout layout;
    int filtered, gzip;
    uint64_t stored_bytes, chunks; /* with |storage| */
};

struct xh_look {
    /* Set by the caller. */
    const char *path;       /* what is looked at; NULL: all */
    int links;              /* every link is shown, also those that lead nowhere; else each object once */
    int storage;            /* chunk indexes are read too, and |raw| is filled */
    uint64_t objects_most;  /* 0: no bound */
    uint64_t until_ns;      /* likewise; of the clock of now.h */
    int (*each)(void *ctx, const struct xh_object *o); /* NULL, or called for each; other than 0 ends the look */
    void (*named)(void *ctx, const char *file); /* NULL, or called for each other file that a dataset or link names, often twice */
    void *ctx;

    /* Set by the look. */
    uint64_t opened_ns; /* when it had been opened */
    unsigned superblock;
    uint64_t size, user_block, page_bytes; /* page_bytes 0: not paged */
    uint64_t groups, datasets, types, attributes, unread;
    uint64_t metadata_bytes; /* object headers, indexes and heaps of groups, attributes and chunks; with !links */
    uint64_t data_bytes;     /* raw data as stored; with |storage| */
    int cut;                 /* a bound was met: the numbers are of what was seen until then */
    struct xh_range *raw;    /* where raw data lies: joined where it touches. NULL when there are too many to tell */
    size_t nraw, room;
    uint64_t requests, fetched_bytes, connections; /* what it took */
};

/* Returns 0 or a negative code with |err| set. Owns: xh_look_free, in any case. Blocks. */
int xh_look(struct xh_look *l, const char *url, const struct xh_options *o, struct xh_err *err);
void xh_look_free(struct xh_look *l);

/* "[10, 2048]", "scalar". Returns |out|. */
const char *xh_look_shape(const uint64_t *n, unsigned rank, char *out, size_t size);

const char *xh_layout_name(enum xh_layout l);

#endif
