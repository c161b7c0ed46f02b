/* Layouts: where raw data lies, as the metadata that is read shows it: chunk indexes, and contiguous datasets. */
#ifndef XH_LAYOUTS_H
#define XH_LAYOUTS_H

#include <pthread.h>

#include "format/chunkindex/chunkindex.h"
#include "format/metaparse.h"
#include "observer.h"
#include "twins.h"

extern const struct xh_observer xh_layouts_observer;

/* Of an open file; changed by layouts.c alone. */
struct xh_layouts {
    /* Guards what the others point to. Readers wait for it, as a node that is missed could cost a whole index: it is
     * held for computing and for looks at what is here (xh_here_look), never over the network. */
    pthread_mutex_t lock;
    struct xh_chunkindex *chunks; /* NULL: no reading ahead */
    struct xh_contiguous *contiguous; /* likewise */
    struct xh_twins twins;
};

/* init: the file is about to be opened. begin: it is open. free: nobody reads it any more. after_fork: in a child. */
void xh_layouts_init(struct xh_layouts *l);
void xh_layouts_begin(struct xh_file *f);
void xh_layouts_free(struct xh_layouts *l);
void xh_layouts_after_fork(struct xh_layouts *l);

/* Returns the contiguous dataset that holds |r|; len 0: none is known. */
struct xh_range xh_layouts_dataset(struct xh_file *f, struct xh_range r);

/* Returns the widths of the file's addresses; offset_bytes 0: they are not known yet. */
struct xh_meta_format xh_layouts_format(struct xh_file *f);

/* As xh_chunkindex_plain. */
struct xh_chunkindex_plain xh_layouts_plain(struct xh_file *f);

#endif
