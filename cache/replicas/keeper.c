/* The keeper: see keeper.h. */
#include "keeper.h"


#include "base/now.h"
#include "base/thread.h"
#include "base/waits.h"
#include "routed.h"
#include "look.h"

/* The keeper rests when no transfer was on its way for this long. */
#define REST_NS 1000000000u

/* Returns the site that is to be looked at now, or NULL. |*next_ns| becomes the time of the next look, if that is
 * sooner. */
static struct xh_site *due_site(struct xh_replicas *r, uint64_t now, uint64_t *next_ns)
{
    struct xh_site *first = NULL;
    for (size_t i = 0; i < r->n; i++) {
        struct xh_site *s = &r->site[i];
        if ((s->state == XH_SITE_NEW || s->state == XH_SITE_DEAD) && (!first || s->due_ns < first->due_ns))
            first = s;
    }
    if (first && first->due_ns > now) {
        *next_ns = first->due_ns < *next_ns ? first->due_ns : *next_ns;
        first = NULL;
    }
    return first;
}

static void wait_until(struct xh_replicas *r, uint64_t ns)
{
    if (ns == UINT64_MAX)
        pthread_cond_wait(&r->news, &r->lock);
    else
        xh_cond_wait_until(&r->news, &r->lock, ns);
}

static void *keep(void *ctx)
{
    struct xh_replicas *r = ctx;
    pthread_mutex_lock(&r->lock);
    while (!r->closing) {
        uint64_t now = xh_now_ns();
        r->busy_ns = TAILQ_EMPTY(&r->bound) ? r->busy_ns : now;
        r->rests = now - r->busy_ns > REST_NS;
        uint64_t next = r->rests ? UINT64_MAX : now + XH_TICK_NS;
        struct xh_site *s = due_site(r, now, &next);
        xh_routed_tick(r);
        xh_routed_tell_all(r);
        if (s) {
            pthread_mutex_unlock(&r->lock);
            xh_look_at(r, s);
            pthread_mutex_lock(&r->lock);
            xh_routed_dispatch(r);
        } else if (TAILQ_EMPTY(&r->told) && !r->closing) {
            wait_until(r, next);
        }
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

int xh_keeper_start(struct xh_replicas *r)
{
    int rc = r->kept ? 0 : xh_thread_start(&r->keeper, keep, r);
    r->kept = rc == 0;
    return rc;
}
