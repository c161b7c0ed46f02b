/* Where the chunks of a dataset are, as HDF5 has listed them for a hint. HDF5 goes through an index from its start each
 * time, so this is kept for the file's next hint. Hints of a dataset's pieces, one by one, then cost one walk. */
#ifndef XH_CHUNKMAP_H
#define XH_CHUNKMAP_H

#include <stddef.h>
#include <stdint.h>

#include "h5bind.h"

/* Most chunks that are kept: 6 MiB a file, as the indexes of the cache have (chunkindex/). */
#define XH_CHUNKMAP_MOST (1u << 18)

struct xh_chunk {
    uint64_t key; /* first: see xh_range_order */
    uint64_t addr, size;
};

struct xh_chunk_list {
    struct xh_chunk *at;
    size_t n, room;
};

/* All that the keys depend on. */
struct xh_chunkmap_of {
    H5O_token_t token;
    int rank;
    hsize_t dims[H5S_MAX_RANK], chunk[H5S_MAX_RANK];
};

struct xh_chunkmap {
    struct xh_chunkmap_of of;
    int whole;                 /* 1: there are no chunks but these */
    int full;                  /* 1: there were more than are kept; nothing is */
    size_t least;              /* see xh_chunkmap_enough */
    struct xh_chunk_list list; /* sorted by xh_chunkmap_done */
};

/* Makes |old| (NULL: a new one) an empty map of |of|. Returns NULL when out of memory, which |old| rules out. */
struct xh_chunkmap *xh_chunkmap_begin(struct xh_chunkmap *old, const struct xh_chunkmap_of *of);

/* Adds what HDF5 has listed. */
void xh_chunkmap_add(struct xh_chunkmap *m, const struct xh_chunk *c);

/* Returns 1 when a listing may end where it has all that is wanted: of a dataset of which some are known, twice as many
 * are listed. Hints of chunk after chunk then take a few walks, not one each. |m| may be NULL. */
int xh_chunkmap_enough(const struct xh_chunkmap *m);

/* The listing is over. |whole|: it came to the index's end. */
void xh_chunkmap_done(struct xh_chunkmap *m, int whole);

/* Adds to |found| those of the |n| chunks |keys| that are there. Returns 1 when this is all that the index has of them;
 * 0, with |found| as it was: the index has to be asked. |m| may be NULL. */
int xh_chunkmap_find(const struct xh_chunkmap *m, const struct xh_chunkmap_of *of, const uint64_t *keys, size_t n,
                     struct xh_chunk_list *found);

void xh_chunkmap_free(struct xh_chunkmap *m);

#endif
