/* Work of a second client on a thread of its own, beside the first client. */
#ifndef XH_ASIDE_H
#define XH_ASIDE_H

#include <pthread.h>

#include "impl.h"

/* One such piece of work. */
struct xh_aside {
    struct xh_edit *e;
    /* Returns 0 or a negative code with |err| set. May use the second client, never the first. */
    int (*run)(struct xh_aside *s);
    void *ctx;
    pthread_t thread;
    int began, rc;
    struct xh_err err;
};

/* Opens the second client and starts the work. Without a client or a thread, xh_aside_end does the work. */
void xh_aside_begin(struct xh_aside *s);

/* Waits for the end of the work. Returns |rc|, or where that is 0 what |run| returned, and on failure its |err|.
 * Blocks. */
int xh_aside_end(struct xh_aside *s, int rc, struct xh_err *err);

/* Opens the second client, unless it is open, and tells it what the first has learned. Returns 0 or a negative code. */
int xh_edit_side(struct xh_edit *e, struct xh_err *err);

#endif
