/* Routed transfers: see routed.h. */
#include "routed.h"

#include <assert.h>
#include <stdlib.h>

#include "base/now.h"
#include "watch/trace.h"
#include "rate.h"

/* A transfer that sites fail or are too slow for goes to each site this often. */
#define TRIES_A_SITE 2u

/* ---- lists */

static struct xh_routed_queue *list_of(struct xh_routed *g)
{
    struct xh_replicas *r = g->r;
    return g->state == XH_ROUTED_QUEUED  ? &r->queue[!g->demand && !g->urgent]
           : g->state == XH_ROUTED_BOUND ? &r->bound
                                         : &r->told;
}

static void count_queued(struct xh_replicas *r, int n)
{
    atomic_fetch_add_explicit(&r->queued, n, memory_order_relaxed);
}

void xh_routed_unlist(struct xh_routed *g)
{
    TAILQ_REMOVE(list_of(g), g, link);
    if (g->state == XH_ROUTED_QUEUED)
        count_queued(g->r, -1);
}

/* |again|: the transfer was on its way before, and goes to the front of its queue. */
static void queue(struct xh_routed *g, int again)
{
    g->state = XH_ROUTED_QUEUED;
    if (again)
        TAILQ_INSERT_HEAD(list_of(g), g, link);
    else
        TAILQ_INSERT_TAIL(list_of(g), g, link);
    count_queued(g->r, 1);
}

void xh_routed_queue(struct xh_routed *g)
{
    queue(g, 0);
}

void xh_routed_tell(struct xh_routed *g, const struct xh_err *err)
{
    if (g->state == XH_ROUTED_QUEUED)
        xh_routed_unlist(g);
    g->state = XH_ROUTED_TOLD;
    g->err = *err;
    TAILQ_INSERT_TAIL(&g->r->told, g, link);
    pthread_cond_signal(&g->r->news);
}

/* Notifies the owner, without the lock. The routed transfer is freed last: until done() has returned, other threads
 * may still call with it. */
static void tell(struct xh_routed *g, const struct xh_err *err)
{
    g->asked->done(g->asked, err);
    xh_routed_free(g);
}

void xh_routed_tell_all(struct xh_replicas *r)
{
    struct xh_routed *g;
    while ((g = TAILQ_FIRST(&r->told))) {
        xh_routed_unlist(g);
        g->state = XH_ROUTED_OVER;
        pthread_mutex_unlock(&r->lock);
        tell(g, g->err.code ? &g->err : NULL);
        pthread_mutex_lock(&r->lock);
    }
}

/* ---- what a site's origin brings */

static uint64_t left_of(const struct xh_routed *g)
{
    return g->total - atomic_load_explicit(&g->came, memory_order_relaxed);
}

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    struct xh_routed *g = t->ctx;
    struct xh_site *s = g->site; /* constant while BOUND */
    struct xh_replicas *r = g->r;
    uint64_t now = xh_now_ns();
    size_t i = xh_range_at(g->asked->ranges, g->asked->nranges, off);
    assert(g->asked->ranges[i].off + g->got[i] == off);
    g->got[i] += len;
    atomic_fetch_add_explicit(&g->came, len, memory_order_relaxed);
    atomic_store_explicit(&g->last_ns, now, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->arrived, len, memory_order_relaxed);
    atomic_store_explicit(&s->heard_ns, now, memory_order_relaxed);
    atomic_fetch_sub_explicit(&s->owed, len, memory_order_relaxed);
    g->asked->bytes(g->asked, off, data, len);
    if (atomic_load_explicit(&r->queued, memory_order_relaxed)) {
        pthread_mutex_lock(&r->lock);
        xh_routed_dispatch(r);
        pthread_mutex_unlock(&r->lock);
    }
}

static int on_full(struct xh_transfer *t)
{
    struct xh_routed *g = t->ctx;
    int full = g->asked->full(g->asked);
    atomic_store_explicit(&g->stands, full, memory_order_relaxed);
    atomic_store_explicit(&g->last_ns, xh_now_ns(), memory_order_relaxed);
    return full;
}

/* Handles the failure of |g| at |s|. Returns 1 when it continues at another site, 0 when its owner gets the error. */
static int goes_on(struct xh_replicas *r, struct xh_routed *g, struct xh_site *s, const struct xh_err *err)
{
    if (g->cancelled || r->closing)
        return 0;
    enum xh_fate fate = xh_site_fate(r, s, err);
    /* What the site said before it heard of the move counts: that it has another version, above all. */
    if (g->moving && (err->code == XH_E_CANCELLED || fate == XH_FATE_ELSEWHERE))
        return 1;
    if (fate == XH_FATE_UP) {
        r->changed |= err->code == XH_E_CHANGED;
        return 0;
    }
    if (atomic_load_explicit(&g->came, memory_order_relaxed) - g->bound_came >= XH_PROGRESS_BYTES)
        g->tries = g->lasts = 0;
    g->lasts += !atomic_load_explicit(&g->t.hasty, memory_order_relaxed);
    if (fate == XH_FATE_REFUSED)
        xh_site_refuse(r, s, err);
    else
        xh_site_failed(r, s, err->text);
    return g->lasts < r->n && g->tries++ < TRIES_A_SITE * r->n;
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct xh_routed *g = t->ctx;
    struct xh_replicas *r = g->r;
    pthread_mutex_lock(&r->lock);
    struct xh_site *s = g->site;
    xh_routed_unlist(g);
    g->state = XH_ROUTED_OVER;
    s->legs--;
    atomic_fetch_sub_explicit(&s->owed, left_of(g), memory_order_relaxed);
    int again = err && goes_on(r, g, s, err);
    if (again) {
        g->moving = 0;
        xh_count(r->counters, moved, 1);
        queue(g, 1);
    }
    if (!r->closing)
        xh_routed_dispatch(r);
    pthread_mutex_unlock(&r->lock);
    if (!again)
        tell(g, err);
}

/* ---- to the sites */

/* Returns the site for |g| when no site is live. It takes turns among the sites that were proved, the main site
 * first; one at least was. */
static struct xh_site *last_resort(struct xh_replicas *r, const struct xh_routed *g)
{
    assert(r->n > 0);
    for (size_t k = 0, turn = g->lasts;; k++) {
        struct xh_site *s = &r->site[(r->main + k) % r->n];
        if (s->proved && s->state != XH_SITE_REFUSED && turn-- == 0)
            return s;
    }
}

static struct xh_site *site_for(struct xh_replicas *r, const struct xh_routed *g)
{
    struct xh_choice c[XH_SITES_MAX];
    if (r->changed) /* that origin returns the right error */
        return &r->site[r->main];
    xh_rate_choices(r, c);
    if (g->leaves && xh_sites_live(r) > 1)
        c[g->leaves - r->site].usable = 0;
    int i = xh_choose(c, r->n, left_of(g), !g->demand && !g->urgent);
    return i >= 0 ? &r->site[i] : i == XH_CHOICE_WAIT ? NULL : last_resort(r, g);
}

/* Sets the ranges of |g| to those that are left. Returns 0 without memory. */
static int ask_for_rest(struct xh_routed *g)
{
    const struct xh_transfer *a = g->asked;
    size_t n = 0;
    if (atomic_load_explicit(&g->came, memory_order_relaxed) == 0)
        return 1;
    if (!g->rest && !(g->rest = malloc(a->nranges * sizeof *g->rest)))
        return 0;
    for (size_t i = 0; i < a->nranges; i++)
        if (g->got[i] < a->ranges[i].len)
            g->rest[n++] = (struct xh_range){a->ranges[i].off + g->got[i], a->ranges[i].len - g->got[i]};
    g->t.ranges = g->rest;
    g->t.nranges = n;
    return 1;
}

static void bind(struct xh_replicas *r, struct xh_routed *g, struct xh_site *s)
{
    struct xh_transfer *t = &g->t;
    struct xh_err err = {0};
    uint64_t now = xh_now_ns();
    if (left_of(g) == 0 || !ask_for_rest(g)) {
        if (left_of(g))
            xh_err_set(&err, XH_E_NOMEM, 0, "out of memory for a transfer");
        xh_routed_tell(g, &err);
        return;
    }
    xh_routed_unlist(g);
    g->state = XH_ROUTED_BOUND;
    TAILQ_INSERT_TAIL(&r->bound, g, link);
    g->site = s;
    g->leaves = NULL;
    t->speculative = !g->demand;
    atomic_store_explicit(&t->hasty, xh_site_has_others(r, s), memory_order_relaxed);
    g->seen = atomic_load_explicit(&g->came, memory_order_relaxed);
    g->seen_ns = now;
    g->speed = 0;
    g->bound_ns = now;
    g->bound_came = atomic_load_explicit(&g->came, memory_order_relaxed);
    atomic_store_explicit(&g->last_ns, now, memory_order_relaxed);
    atomic_store_explicit(&g->stands, 0, memory_order_relaxed);
    s->legs++;
    s->used_ns = now;
    atomic_fetch_add_explicit(&s->owed, left_of(g), memory_order_relaxed);
    if (xh_origin_submit(s->origin, &t, 1, &err) == 0)
        return;
    s->legs--;
    atomic_fetch_sub_explicit(&s->owed, left_of(g), memory_order_relaxed);
    xh_routed_unlist(g);
    g->state = XH_ROUTED_OVER; /* it is in no list */
    xh_routed_tell(g, &err);
}

void xh_routed_dispatch(struct xh_replicas *r)
{
    for (int k = 0; k < 2; k++) {
        struct xh_routed *g;
        struct xh_site *s;
        while ((g = TAILQ_FIRST(&r->queue[k])) && (s = site_for(r, g)))
            bind(r, g, s);
    }
}

/* Moves |g| to a site where it ends far sooner, if there is one. */
static void hurry(struct xh_replicas *r, struct xh_routed *g, const struct xh_choice *c, uint64_t now)
{
    struct xh_site *s = g->site;
    int i = xh_rate_better(r, g, c, now);
    if (i < 0)
        return;
    xh_trace(XH_T_ORIGIN, "move", "left=%llu from=%s to=%s", (unsigned long long)(g->total - g->seen), s->shown,
             r->site[i].shown);
    g->moves++;
    g->moving = 1;
    g->leaves = s;
    xh_origin_cancel(s->origin, &g->t);
    if (s->state == XH_SITE_LIVE && xh_rate_is_slow(s, &r->site[i]))
        xh_site_failed(r, s, "it is far slower than another");
}

void xh_routed_tick(struct xh_replicas *r)
{
    struct xh_choice c[XH_SITES_MAX];
    int silent[XH_SITES_MAX] = {0};
    struct xh_routed *g;
    uint64_t now = xh_now_ns(), ns = now - r->ticked_ns;
    if (ns < XH_TICK_NS)
        return;
    r->ticked_ns = now;
    xh_rate_measure(r, now, ns);
    if (xh_sites_live(r) < 2)
        return;
    size_t n = xh_rate_silent(r, now, silent);
    for (size_t i = 0; i < r->n && n; i++)
        if (silent[i])
            xh_site_failed(r, &r->site[i], "nothing is heard of it");
    xh_rate_choices(r, c);
    TAILQ_FOREACH(g, &r->bound, link)
        hurry(r, g, c, now);
    xh_routed_dispatch(r);
}

struct xh_routed *xh_routed_new(struct xh_replicas *r, struct xh_transfer *t)
{
    struct xh_routed *g = calloc(1, sizeof *g);
    if (!g || !(g->got = calloc(t->nranges, sizeof *g->got))) {
        free(g);
        return NULL;
    }
    g->t = (struct xh_transfer){.ranges = t->ranges,
                                .nranges = t->nranges,
                                .ctx = g,
                                .bytes = on_bytes,
                                .done = on_done,
                                .full = t->full ? on_full : NULL,
                                .goes_on = t->goes_on,
                                .patient = t->patient,
                                .last = t->last};
    g->asked = t;
    g->r = r;
    g->demand = !t->speculative;
    g->urgent = t->full && !t->patient;
    g->total = xh_ranges_bytes(t->ranges, t->nranges);
    return g;
}

void xh_routed_free(struct xh_routed *g)
{
    free(g->rest);
    free(g->got);
    free(g);
}
