/* The background: one long request brings a stretch of a file to the shadow for nobody yet. A page is claimed once all
 * of it is here. So nobody waits for the background: whoever wants a page sooner fetches it, and it is passed over
 * here. Threads: any. Nothing blocks on the network. */
#ifndef XH_BACKGROUND_H
#define XH_BACKGROUND_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/pace.h"
#include "replicas/replicas.h"

/* Of an open file; changed by background.c alone. */
struct xh_background {
    pthread_mutex_t lock; /* guards the rest; held while pages are claimed and filled. The locks of shadow and origin
                           * are taken in it */
    struct xh_file *f;
    _Atomic uint64_t until_ns; /* see xh_background_wanted; relaxed, without the lock */
    struct xh_transfer t;
    struct xh_range r; /* which |t| brings */
    uint64_t pos;      /* where its next byte goes */
    uint8_t part[XH_PAGE_BYTES]; /* of a page that has not come as a whole: its bytes so far */
    struct xh_pace pace; /* of all that came */
    uint64_t fastest; /* bytes a second, by the fastest measurement; 0: there was none */
    uint64_t here; /* bytes that were here already, or another's, one behind the other, up to the last one */
    int runs;      /* something is under way */
    int submitting; /* the origin may not have it yet */
    int ends;      /* it is to end all the same, as soon as the origin has it */
    int began;     /* something was under way */
    int failed;    /* and is not begun again */
};

/* When the file is opened, all zero, and in a fork's child. */
void xh_background_init(struct xh_file *f);

/* So many bytes that are here are not worth another request: they come again. Where more of them lie one behind the
 * other, as another process brings the same, it ends. */
uint64_t xh_background_gap(const struct xh_file *f);

/* Asks for |r|, which begins with a page, if nothing is under way, and there is a connection for it. */
void xh_background_begin(struct xh_file *f, struct xh_range r);

/* What is under way, or begins, ends when it is |until_ns|: to be called again as long as somebody reads. */
void xh_background_wanted(struct xh_file *f, uint64_t until_ns);

/* What is under way ends soon, with its connection. */
void xh_background_end(struct xh_file *f);

/* The same where it has yet to bring some of |r|, which comes another way. Returns 1 when it ends for that. */
int xh_background_leave(struct xh_file *f, struct xh_range r);

struct xh_background_state {
    int runs;              /* something is under way */
    int began;             /* something was, or is */
    int failed;            /* and nothing will be any more */
    uint64_t came;         /* bytes, of all that was begun */
    uint64_t second_bytes; /* that came a second, where it came fastest; 0: it is not known yet */
};

void xh_background_look(struct xh_file *f, struct xh_background_state *out);

#endif
