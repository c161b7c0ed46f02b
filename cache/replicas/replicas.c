/* Replicas: routes calls to one site or to many, and adds up the sites' facts. See replicas.h. */
#include "replicas.h"

#include "base/now.h"
#include "base/thread.h"
#include "keeper.h"
#include "routed.h"

/* Factor by which connections count where there are several sites. Long ranges are then cut finer, and each site can
 * get its share. */
#define FINER 2

/* ---- transfers */

/* Returns the origin of a file with one site; NULL where there are several. */
static struct xh_origin *only(const struct xh_replicas *r)
{
    return r->alone ? r->site[r->main].origin : NULL;
}

int xh_replicas_submit(struct xh_replicas *r, struct xh_transfer *const *ts, size_t n, struct xh_err *err)
{
    struct xh_err closed;
    if (r->offline)
        return xh_err_set(err, XH_E_NET, 0,
                          "%.300s: bytes %llu to %llu are not on this machine, and with offline=on no server is asked",
                          r->site[0].shown, (unsigned long long)ts[0]->ranges[0].off,
                          (unsigned long long)(ts[0]->ranges[0].off + ts[0]->ranges[0].len - 1));
    if (only(r))
        return xh_origin_submit(only(r), ts, n, err);
    struct xh_routed_queue fresh = TAILQ_HEAD_INITIALIZER(fresh);
    struct xh_routed *g;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        if ((g = xh_routed_new(r, ts[i])))
            TAILQ_INSERT_TAIL(&fresh, g, link);
        else
            rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a transfer");
    pthread_mutex_lock(&r->lock);
    int lacks = rc == 0 && !r->closing ? xh_keeper_start(r) : 0;
    if (lacks)
        rc = xh_thread_lacks(lacks, "several servers", err);
    xh_err_set(&closed, XH_E_CANCELLED, 0, "%.200s: the file was closed", r->site[r->main].shown);
    while ((g = TAILQ_FIRST(&fresh))) {
        TAILQ_REMOVE(&fresh, g, link);
        if (rc) {
            xh_routed_free(g);
            continue;
        }
        g->asked->origin_private = g;
        xh_routed_queue(g);
        if (r->closing) /* a done() submits while the rest is being cancelled */
            xh_routed_tell(g, &closed);
    }
    if (rc == 0)
        xh_routed_dispatch(r);
    if (r->rests)
        pthread_cond_signal(&r->news); /* a transfer is on its way: the keeper measures its speed */
    r->rests = 0;
    pthread_mutex_unlock(&r->lock);
    return rc;
}

static void cancelled(const struct xh_replicas *r, struct xh_err *err)
{
    xh_err_set(err, XH_E_CANCELLED, 0, "%.200s: the transfer was cancelled", r->site[r->main].shown);
}

void xh_replicas_cancel(struct xh_replicas *r, struct xh_transfer *t)
{
    struct xh_err err;
    if (only(r)) {
        xh_origin_cancel(only(r), t);
        return;
    }
    pthread_mutex_lock(&r->lock);
    struct xh_routed *g = t->origin_private;
    g->cancelled = 1;
    cancelled(r, &err);
    if (g->state == XH_ROUTED_QUEUED)
        xh_routed_tell(g, &err);
    else if (g->state == XH_ROUTED_BOUND)
        xh_origin_cancel(g->site->origin, &g->t);
    pthread_mutex_unlock(&r->lock);
}

int xh_replicas_withdraw(struct xh_replicas *r, struct xh_transfer *t)
{
    struct xh_err err;
    int gone = 0;
    if (only(r))
        return xh_origin_withdraw(only(r), t);
    pthread_mutex_lock(&r->lock);
    struct xh_routed *g = t->origin_private;
    cancelled(r, &err);
    if (g->state == XH_ROUTED_QUEUED && !g->demand && g->came == 0) {
        xh_routed_tell(g, &err);
        gone = 1;
    } else if (g->state == XH_ROUTED_BOUND && !g->moving && g->came == 0) {
        gone = g->cancelled = xh_origin_withdraw(g->site->origin, &g->t);
    }
    pthread_mutex_unlock(&r->lock);
    return gone;
}

void xh_replicas_promote(struct xh_replicas *r, struct xh_transfer *t)
{
    if (only(r)) {
        xh_origin_promote(only(r), t);
        return;
    }
    pthread_mutex_lock(&r->lock);
    struct xh_routed *g = t->origin_private;
    if (g && !g->demand && g->state == XH_ROUTED_QUEUED) {
        xh_routed_unlist(g);
        g->demand = 1;
        xh_routed_queue(g);
        xh_routed_dispatch(r);
    } else if (g && !g->demand && g->state == XH_ROUTED_BOUND) {
        g->demand = 1;
        xh_origin_promote(g->site->origin, &g->t);
    }
    pthread_mutex_unlock(&r->lock);
}

void xh_replicas_resume(struct xh_replicas *r, struct xh_transfer *t)
{
    if (only(r)) {
        xh_origin_resume(only(r), t);
        return;
    }
    pthread_mutex_lock(&r->lock);
    struct xh_routed *g = t->origin_private;
    atomic_store_explicit(&g->stands, 0, memory_order_relaxed);
    atomic_store_explicit(&g->last_ns, xh_now_ns(), memory_order_relaxed);
    if (g->state == XH_ROUTED_BOUND)
        xh_origin_resume(g->site->origin, &g->t);
    pthread_mutex_unlock(&r->lock);
}

/* ---- facts */

/* Returns the origin of the live site, if only one is live, else of the main site. The lock is held. */
static struct xh_origin *lone(const struct xh_replicas *r)
{
    size_t i = 0;
    if (xh_sites_live(r) != 1)
        return r->site[r->main].origin;
    while (r->site[i].state != XH_SITE_LIVE)
        i++;
    return r->site[i].origin;
}

/* Adds the facts |more| of a site to |sum|. */
static void add_info(struct xh_origin_info *sum, const struct xh_origin_info *more)
{
    sum->max_ranges = more->max_ranges < sum->max_ranges ? more->max_ranges : sum->max_ranges;
    sum->max_range_header =
        more->max_range_header < sum->max_range_header ? more->max_range_header : sum->max_range_header;
    sum->whole |= more->whole;
    sum->connections += FINER * more->connections;
    sum->scattered += more->scattered;
    sum->rtt_ns = more->rtt_ns > sum->rtt_ns ? more->rtt_ns : sum->rtt_ns;
    sum->trip_bytes = more->trip_bytes > sum->trip_bytes ? more->trip_bytes : sum->trip_bytes;
    sum->second_bytes += more->second_bytes;
    sum->flight_bytes = more->flight_bytes < sum->flight_bytes ? more->flight_bytes : sum->flight_bytes;
    sum->young |= more->young;
    sum->changed |= more->changed;
    sum->open += FINER * more->open;
    sum->idle += more->idle;
    sum->streaming += more->streaming;
    sum->warm += more->warm;
}

/* Returns 1 while a site is being opened for the first time: a stream that began now would bypass that site. The
 * lock is held. */
static int hopes(const struct xh_replicas *r)
{
    int n = 0;
    for (size_t i = 0; i < r->n; i++)
        n |= r->site[i].state == XH_SITE_NEW;
    return n;
}

void xh_replicas_get_info(struct xh_replicas *r, struct xh_origin_info *out)
{
    struct xh_origin_info sum = {.max_ranges = ~0u, .max_range_header = SIZE_MAX, .flight_bytes = UINT64_MAX}, one;
    if (r->offline) {
        *out = (struct xh_origin_info){.size = r->offline_size, .validator = r->offline,
                                       .changed_s = r->offline_changed_s, .url_shown = r->site[0].shown,
                                       .max_ranges = 1, .max_range_header = 64,
                                       .connections = 1, .allowed = 1, .scattered = 1, .flight_bytes = UINT64_MAX};
        return;
    }
    xh_origin_get_info(r->site[r->main].origin, out);
    if (only(r))
        return;
    pthread_mutex_lock(&r->lock);
    unsigned live = xh_sites_live(r);
    for (size_t i = 0; i < r->n && live > 1; i++)
        if (r->site[i].state == XH_SITE_LIVE) {
            xh_origin_get_info(r->site[i].origin, &one);
            add_info(&sum, &one);
        }
    if (live <= 1)
        xh_origin_get_info(lone(r), &sum);
    sum.size = out->size; /* the version is the one that the main site tells */
    sum.validator = out->validator;
    sum.changed_s = out->changed_s;
    sum.fleeting = out->fleeting;
    sum.unsettled = out->unsettled;
    sum.in_vain = out->in_vain;
    sum.changed |= out->changed;
    sum.url_shown = out->url_shown;
    *out = sum;
    if (hopes(r))
        out->streams = 0;
    pthread_mutex_unlock(&r->lock);
}

int xh_replicas_are_several(struct xh_replicas *r)
{
    if (only(r))
        return 0;
    pthread_mutex_lock(&r->lock);
    int several = xh_sites_live(r) > 1;
    pthread_mutex_unlock(&r->lock);
    return several;
}

void xh_replicas_share(struct xh_replicas *r, unsigned processes, int yields)
{
    if (only(r)) {
        xh_origin_share(only(r), processes, yields);
        return;
    }
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n && !r->closing; i++) /* when the file is being closed there is nothing to share */
        if (r->site[i].origin)
            xh_origin_share(r->site[i].origin, processes, yields);
    pthread_mutex_unlock(&r->lock);
}

void xh_replicas_came_in_vain(struct xh_replicas *r, int vain)
{
    if (!r->offline)
        xh_origin_came_in_vain(r->site[r->main].origin, vain);
}

void xh_replicas_beside(struct xh_replicas *r, unsigned files)
{
    if (only(r)) /* several have more connections in all anyway */
        xh_origin_beside(only(r), files);
}
