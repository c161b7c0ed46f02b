/* Inside the compressed copy: compressed.c (opening, judging, closing), frames.c (reading) and compressed_ahead.c
 * (mapping) share this header. */
#ifndef XH_COMPRESSED_IMPL_H
#define XH_COMPRESSED_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "object.h"
#include "judge.h"
#include "other_files.h"
#include "packed.h"
#include "unpack.h"

struct xh_compressed {
    /* Constant. */
    char *url, *known; /* the copy's URL; the name by which its directory is remembered */
    struct xh_options opt;
    const struct xh_other_files *files;
    int forced; /* option sidecar=body: the copy is used wherever there is one */

    pthread_mutex_t lock; /* guards the fields up to |waited_ns|. Within it the locks of the copy's stage, of known.c
                           * and of the original's stores may be taken */
    pthread_cond_t news; /* the look is over */
    int state;           /* compressed.c's */
    int holders; /* the file, and the look while it runs; the last one frees */
    struct xh_judge judge;
    uint64_t got_bytes, waited_ns; /* what reads got so far, and how long they waited */

    /* Of the version that is open; set before the look begins. */
    uint64_t size;
    int64_t mtime_s;
    int dated;
    uint8_t start[XH_PACKED_START_BYTES];
    size_t start_len;

    /* Until THERE only the look uses them; from then on they are constant. */
    struct xh_err err;
    struct xh_file *file;
    struct xh_packed table;

    _Atomic int watched; /* 1: nothing is decided yet; a hint, relaxed */
    _Atomic int used; /* 1: raw data is read through the copy. Release pairs with the readers' acquire */
    struct xh_unpacker unpacker;
};

/* Gives up the copy, which cannot be fetched or is not trusted: readers go to the original. */
void xh_compressed_give_up(struct xh_compressed *b, const char *why);

/* Returns the number of packed bytes of the frames [first, end). */
static inline uint64_t xh_frames_len(const struct xh_compressed *b, uint32_t first, uint32_t end)
{
    return b->table.at[end] - b->table.at[first];
}

/* Sets [*first, *behind) to the frames of [off, end), which is not empty. */
static inline void xh_frames_of(const struct xh_compressed *b, uint64_t off, uint64_t end, uint32_t *first,
                                uint32_t *behind)
{
    *first = (uint32_t)(off / b->table.head.frame_bytes);
    *behind = (uint32_t)((end - 1) / b->table.head.frame_bytes + 1);
}

#endif
