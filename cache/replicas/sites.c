/* The states of sites: see sites.h. */
#include "sites.h"

#include <stdio.h>
#include <unistd.h>

#include "base/now.h"
#include "watch/trace.h"
#include "health.h"

/* How often each site is looked at while none is live. */
#define ALL_DEAD_NS 500000000u

unsigned xh_sites_live(const struct xh_replicas *r)
{
    unsigned n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += r->site[i].state == XH_SITE_LIVE;
    return n;
}

enum xh_fate xh_site_fate(const struct xh_replicas *r, const struct xh_site *s, const struct xh_err *err)
{
    switch (err->code) {
    case XH_E_NET: case XH_E_TIMEOUT: case XH_E_TLS:
        return XH_FATE_ELSEWHERE;
    case XH_E_STATUS:
        if (err->status >= 500 || err->status == 429 || err->status == 408)
            return XH_FATE_ELSEWHERE;
        break;
    case XH_E_CHANGED: case XH_E_NOENT: case XH_E_ACCES: case XH_E_PROTO:
        break;
    default: /* errors of our own */
        return XH_FATE_UP;
    }
    return s == &r->site[r->main] ? XH_FATE_UP : XH_FATE_REFUSED;
}

int xh_site_has_others(const struct xh_replicas *r, const struct xh_site *s)
{
    return xh_sites_live(r) > (s->state == XH_SITE_LIVE);
}

/* Sites came or went. A transfer is given up sooner when there are other sites, and later when there are none. */
static void weigh_haste(struct xh_replicas *r)
{
    struct xh_routed *g;
    TAILQ_FOREACH(g, &r->bound, link)
        atomic_store_explicit(&g->t.hasty, xh_site_has_others(r, g->site), memory_order_relaxed);
}

/* Moves the transfers of |s| to other sites. */
static void clear(struct xh_replicas *r, struct xh_site *s)
{
    struct xh_routed *g;
    s->rate = s->lasting_rate = 0;
    if (xh_sites_live(r) == 0)
        return; /* no other site is better */
    TAILQ_FOREACH(g, &r->bound, link)
        if (g->site == s && !g->moving && !g->cancelled) {
            g->moving = 1;
            xh_origin_cancel(s->origin, &g->t);
        }
}

/* If no site is live, the keeper looks at all of them often, and at once at those not looked at just now: they may
 * only have been slow. */
static void look_soon(struct xh_replicas *r, const struct xh_site *s)
{
    uint64_t now = xh_now_ns();
    for (size_t i = 0; i < r->n; i++) {
        struct xh_site *other = &r->site[i];
        uint64_t soon = other == s || other->looked_ns + ALL_DEAD_NS > now ? now + ALL_DEAD_NS : now;
        if (other->state == XH_SITE_DEAD && other->due_ns > soon)
            other->due_ns = soon;
    }
    pthread_cond_signal(&r->news);
}

void xh_site_failed(struct xh_replicas *r, struct xh_site *s, const char *why)
{
    if (s->state == XH_SITE_REFUSED)
        return;
    int was = s->state == XH_SITE_LIVE;
    s->state = XH_SITE_DEAD;
    s->due_ns = xh_health_failed(s->server);
    s->looked_ns = xh_now_ns();
    if (was)
        clear(r, s);
    if (xh_sites_live(r) == 0)
        look_soon(r, s);
    weigh_haste(r);
    xh_trace(XH_T_ORIGIN, "site-failed", "url=%s why=\"%s\" again_ms=%llu", s->shown, why,
             (unsigned long long)((s->due_ns - xh_now_ns()) / 1000000u));
}

void xh_site_refuse(struct xh_replicas *r, struct xh_site *s, const struct xh_err *err)
{
    if (s->state == XH_SITE_REFUSED)
        return;
    int was = s->state == XH_SITE_LIVE;
    s->state = XH_SITE_REFUSED;
    if (was)
        clear(r, s);
    weigh_haste(r);
    xh_trace(XH_T_ORIGIN, "site-refused", "url=%s code=%s", s->shown, xh_err_name(err->code));
    xh_say("an endpoint is not used for this file: %s", err->text);
}

void xh_site_lives(struct xh_replicas *r, struct xh_site *s)
{
    s->state = XH_SITE_LIVE;
    s->proved = 1;
    s->rate = s->lasting_rate = 0;
    s->used_ns = xh_now_ns();
    xh_health_well(s->server);
    xh_trace(XH_T_ORIGIN, "site-live", "url=%s", s->shown);
    for (size_t i = 0; i < r->n; i++)
        if (r->site[i].state == XH_SITE_DEAD)
            clear(r, &r->site[i]);
    weigh_haste(r);
}
