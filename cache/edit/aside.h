/* What a second client does on a thread of its own, beside the first. */
#ifndef XH_ASIDE_H
#define XH_ASIDE_H

#include <pthread.h>

#include "impl.h"

/* Something that is done on a thread of its own. */
struct xh_aside {
    struct xh_edit *e;
    /* Returns 0 or a negative code with |err| set. May use the second client, never the first. */
    int (*run)(struct xh_aside *s);
    void *ctx;
    pthread_t thread;
    int began, rc;
    struct xh_err err;
};

/* Opens the second client and begins it. Without a client or a thread it is done in end. */
void xh_aside_begin(struct xh_aside *s);

/* Waits for its end. Returns what |run| returned, and its |err|. */
int xh_aside_end(struct xh_aside *s, struct xh_err *err);

/* Opens the second client, unless it is open, and tells it what the first has learned. */
int xh_edit_side(struct xh_edit *e, struct xh_err *err);

#endif
