/* Inside the compressed copy: shared by compressed.c (life, look, verdict), frames.c (reading) and compressed_ahead.c
 * alone. */
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
    char *url, *known; /* the sidecar's; what its directory is remembered by */
    struct xh_options opt;
    const struct xh_other_files *files;
    int forced; /* option sidecar=body: it is used where it is there */

    pthread_mutex_t lock; /* guards the next ones. The locks of the copy's stage, of known.c and of the original's
                           * stores may be taken in it */
    pthread_cond_t news; /* the look is over */
    int state;           /* compressed.c's */
    int holders; /* the file and the look; the last one frees */
    struct xh_judge judge;
    uint64_t got_bytes, waited_ns; /* by reads, so far */

    /* Of what is open, set before the look begins. */
    uint64_t size;
    int64_t mtime_s;
    int dated;
    uint8_t start[XH_PACKED_START_BYTES];
    size_t start_len;

    /* The look's until THERE. */
    struct xh_err err;
    struct xh_file *file;
    struct xh_packed table;

    _Atomic int watched; /* a hint: nothing is decided yet */
    _Atomic int used; /* release pairs with the readers' acquire */
    struct xh_unpacker unpacker;
};

/* It cannot be fetched, or is not trusted: readers go to the original. */
void xh_compressed_give_up(struct xh_compressed *b, const char *why);

/* The packed bytes of the frames [first, end). */
static inline uint64_t xh_frames_len(const struct xh_compressed *b, uint32_t first, uint32_t end)
{
    return b->table.at[end] - b->table.at[first];
}

/* The frames of [off, end), end > off. */
static inline void xh_frames_of(const struct xh_compressed *b, uint64_t off, uint64_t end, uint32_t *first,
                                uint32_t *behind)
{
    *first = (uint32_t)(off / b->table.head.frame_bytes);
    *behind = (uint32_t)((end - 1) / b->table.head.frame_bytes + 1);
}

#endif
