/* Inside compressed copies: threads that unpack frames. Only files that include compressed_impl.h include this. */
#ifndef XH_UNPACK_H
#define XH_UNPACK_H

#include <pthread.h>

#include "pages/op.h"
#include "packed.h"

#define XH_UNPACK_THREADS_MOST 4

/* Packed frames that came together; freed with the last of them. */
struct xh_batch {
    uint8_t *bytes;
    _Atomic size_t left;
};

/* What one read has unpacked, on its caller's stack. */
struct xh_unpacking {
    struct xh_read_op *op;
    const struct xh_runs *runs; /* sorted: what it wants */
    int claimed;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t news;
    size_t pending;
    uint64_t bytes, ns; /* unpacked, and the threads' time for it */
    struct xh_runs rest; /* of damaged frames */
    int failed;          /* XH_E_NOMEM: |rest| has not all of it */
};

struct xh_unpack_task {
    struct xh_unpack_task *next;
    struct xh_unpacking *of;
    struct xh_batch *batch;
    const uint8_t *packed;
    uint32_t frame;
};

/* Frames that were read in part: the rest of them is mostly wanted next. */
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

/* How many threads there are at most. */
unsigned xh_unpacker_threads(void);

/* Unpacks |frame|, which is at |packed| in |batch|, for |of|, and hands on what that wants of it. Returns 0, or
 * XH_E_NOMEM: nothing was begun, and |batch| is as before. Owns: a part of |batch|. */
int xh_unpack_start(struct xh_unpacker *u, struct xh_unpacking *of, struct xh_batch *batch, const uint8_t *packed,
                    uint32_t frame);

/* Hands on what |of| wants of |frame| if that is kept. Returns 1 or 0. */
int xh_unpack_kept(struct xh_unpacker *u, struct xh_unpacking *of, uint32_t frame);
/* 1 when |frame| is kept now. */
int xh_unpack_keeps(struct xh_unpacker *u, uint32_t frame);

void xh_unpacking_begin(struct xh_unpacking *of, struct xh_read_op *op, const struct xh_runs *runs, int claimed);
/* Waits until at most |most| tasks of it are left. */
void xh_unpacking_wait(struct xh_unpacking *of, size_t most);
/* What |of| wants of |frame| goes to |out|, and is |of|'s no more. Returns 0 or XH_E_NOMEM: then what is claimed of it
 * has been abandoned. */
int xh_unpacking_leave(const struct xh_unpacking *of, const struct xh_packed *table, uint32_t frame,
                       struct xh_runs *out);

void xh_batch_leave(struct xh_batch *b);

/* In a fork's child: forgets the parent's threads and what they were at. */
void xh_unpacker_after_fork(struct xh_unpacker *u);
/* Nothing is being unpacked. */
void xh_unpacker_free(struct xh_unpacker *u);

#endif
