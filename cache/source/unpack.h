/* Inside compressed copies: threads that unpack frames. Only files that include compressed_impl.h include this. */
#ifndef XH_UNPACK_H
#define XH_UNPACK_H

#include <pthread.h>

#include "pages/op.h"
#include "packed.h"

#define XH_UNPACK_THREADS_MOST 4

/* Packed frames that came together. They are freed with the last of them. */
struct xh_batch {
    uint8_t *bytes;
    _Atomic size_t left;
};

/* The unpacking for one read; on its caller's stack. */
struct xh_unpacking {
    struct xh_read_op *op;
    const struct xh_runs *runs; /* what the read wants, sorted */
    int claimed;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t news;
    size_t pending;
    uint64_t bytes, ns; /* unpacked, and the threads' time for it */
    struct xh_runs rest; /* what was wanted of damaged frames */
    int failed;          /* XH_E_NOMEM: |rest| is not complete */
};

struct xh_unpack_task {
    struct xh_unpack_task *next;
    struct xh_unpacking *of;
    struct xh_batch *batch;
    const uint8_t *packed;
    uint32_t frame;
};

/* An unpacked frame that is kept, as a reader that took a part of it mostly wants the rest next. */
struct xh_frame_kept {
    uint8_t *bytes; /* NULL: a free place */
    uint32_t frame;
    uint64_t used;
    unsigned readers;
};

struct xh_unpacker {
    const struct xh_packed *table; /* constant from the first task on */
    pthread_mutex_t lock;          /* guards the rest; never held over unpacking or copying */
    pthread_cond_t work;
    struct xh_unpack_task *first, **last;
    pthread_t thread[XH_UNPACK_THREADS_MOST];
    unsigned threads;
    int ends;
    struct xh_frame_kept *kept;
    size_t nkept;
    uint64_t clock;
    unsigned bad; /* frames that were damaged */
};

void xh_unpacker_init(struct xh_unpacker *u);

/* Returns how many threads unpack at most. */
unsigned xh_unpacker_threads(void);

/* Has |frame|, which is at |packed| in |batch|, unpacked for |of|, and what |of| wants of it handed on. Returns 0, or
 * XH_E_NOMEM: nothing was begun. Takes a reference to |batch|. */
int xh_unpack_start(struct xh_unpacker *u, struct xh_unpacking *of, struct xh_batch *batch, const uint8_t *packed,
                    uint32_t frame);

/* Hands on what |of| wants of |frame|, if that is kept. Returns 1 or 0. */
int xh_unpack_kept(struct xh_unpacker *u, struct xh_unpacking *of, uint32_t frame);
/* Returns 1 when |frame| is kept now. */
int xh_unpack_keeps(struct xh_unpacker *u, uint32_t frame);

void xh_unpacking_begin(struct xh_unpacking *of, struct xh_read_op *op, const struct xh_runs *runs, int claimed);
/* Waits until at most |most| tasks of it are left. */
void xh_unpacking_wait(struct xh_unpacking *of, size_t most);
/* Moves what |of| wants of |frame| to |out|, to be brought in another way. Returns 0 or XH_E_NOMEM: what did not fit
 * was given up. */
int xh_unpacking_leave(const struct xh_unpacking *of, const struct xh_packed *table, uint32_t frame,
                       struct xh_runs *out);

void xh_batch_leave(struct xh_batch *b);

/* Called in a fork's child: forgets the parent's threads and their tasks. */
void xh_unpacker_after_fork(struct xh_unpacker *u);
/* Call when nothing is being unpacked. */
void xh_unpacker_free(struct xh_unpacker *u);

#endif
