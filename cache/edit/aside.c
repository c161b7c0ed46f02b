/* Work of a second client on a thread of its own: see aside.h. It saves round trips, which count on long links. */
#include "aside.h"

#include <pthread.h>

#include "base/thread.h"

int xh_edit_side(struct xh_edit *e, struct xh_err *err)
{
    int rc = e->side ? 0 : xh_dav_open(e->url, &e->opt, &e->side, err);
    if (rc == 0) {
        xh_dav_learn(e->side, e->dav);
        xh_dav_count(e->side, &e->counters, &e->account);
    }
    return rc;
}

static void *run_aside(void *ctx)
{
    struct xh_aside *s = ctx;
    s->rc = s->run(s);
    return NULL;
}

void xh_aside_begin(struct xh_aside *s)
{
    if (xh_edit_side(s->e, XH_IGNORED)) /* not in the thread: the first client learns while that runs */
        return;
    s->began = xh_thread_start(&s->thread, run_aside, s) == 0;
}

int xh_aside_end(struct xh_aside *s, int rc, struct xh_err *err)
{
    if (s->began)
        pthread_join(s->thread, NULL);
    else if ((s->rc = xh_edit_side(s->e, &s->err)) == 0)
        s->rc = s->run(s);
    if (rc == 0 && s->rc)
        *err = s->err;
    return rc ? rc : s->rc;
}
