/* Rates: see rate.h. */
#include "rate.h"

/* Weight of the old value when a rate is measured again. */
#define MEMORY 0.7
/* The same for the rate by which a site is left. A lost packet, or a queue that fills, delays all connections of a
 * crowd for some tenths of a second, and says nothing of the server. */
#define LONG_MEMORY 0.97
/* A rate that was not measured for this long is forgotten, so that the site is tried again. */
#define RATE_KEPT_NS 5000000000u
/* A site that was asked and is not heard of for this time counts as dead, if there is another. */
#define SILENT_NS 1500000000u
#define SILENT_ROUND_TRIPS 8
/* A transfer that a reader waits for is not judged before its slow start is over. */
#define YOUNG_NS 150000000u
#define YOUNG_ROUND_TRIPS 10
/* It is moved where the other site takes half as long, and saves at least 200 ms. */
#define MOVE_RATIO 2
#define MOVE_NS 200e6
#define MOVES_MOST 3u
/* The site that it leaves is paused when it is slower by this factor. */
#define SLOW_RATIO 4
/* Most bytes that a stream counts when other transfers are assigned. A stream lasts as long as the reading does.
 * Counted whole it would make its site seem busy for ever, while the other parts are wanted before most of it. */
#define STREAM_SOON_BYTES (2u << 20)

/* Returns the bytes that |s| has to bring. A stream counts |most| at most, and 0 while it stands still. */
static uint64_t owed_by(const struct xh_replicas *r, const struct xh_site *s, uint64_t most)
{
    uint64_t owed = atomic_load_explicit(&s->owed, memory_order_relaxed), later = 0;
    const struct xh_routed *g;
    TAILQ_FOREACH(g, &r->bound, link)
        if (g->site == s && g->t.full) {
            uint64_t left = g->total - atomic_load_explicit(&g->came, memory_order_relaxed);
            uint64_t now = atomic_load_explicit(&g->stands, memory_order_relaxed) ? 0 : left < most ? left : most;
            later += left - now;
        }
    return owed > later ? owed - later : 0;
}

void xh_rate_choices(const struct xh_replicas *r, struct xh_choice c[XH_SITES_MAX])
{
    for (size_t i = 0; i < r->n; i++) {
        const struct xh_site *s = &r->site[i];
        c[i] = (struct xh_choice){s->state == XH_SITE_LIVE, s->rate, owed_by(r, s, STREAM_SOON_BYTES), s->rtt_ns};
    }
}

static void smooth(double *rate, double sample, double memory)
{
    *rate = *rate > 0 ? memory * *rate + (1 - memory) * sample : sample;
}

/* Measures the rate of |s|. The last interval counts if |s| had more to bring all the time than it brought; else it
 * only shows the least that |s| can bring. */
static void measure(struct xh_replicas *r, struct xh_site *s, uint64_t now, uint64_t ns)
{
    struct xh_origin_info facts;
    uint64_t arrived = atomic_load_explicit(&s->arrived, memory_order_relaxed), came = arrived - s->seen;
    if (s->legs) {
        s->used_ns = now;
        xh_origin_get_info(s->origin, &facts);
        s->rtt_ns = facts.rtt_ns;
    } else if (now - s->used_ns > RATE_KEPT_NS) {
        s->rate = s->lasting_rate = 0;
    }
    double rate = (double)came / (double)ns;
    int busy = s->seen_owed > came && s->rtt_ns && (came || s->rate > 0);
    if (busy || rate > s->rate)
        smooth(&s->rate, rate, MEMORY);
    if (busy || rate > s->lasting_rate)
        smooth(&s->lasting_rate, rate, LONG_MEMORY);
    s->seen = arrived;
    s->seen_owed = owed_by(r, s, UINT64_MAX);
}

/* Returns 1 when |s| was silent for long, though it was asked for something that does not stand still. */
static int is_silent(const struct xh_replicas *r, const struct xh_site *s, uint64_t now)
{
    const struct xh_routed *g;
    uint64_t oldest = now, heard = atomic_load_explicit(&s->heard_ns, memory_order_relaxed);
    TAILQ_FOREACH(g, &r->bound, link)
        if (g->site == s && !atomic_load_explicit(&g->stands, memory_order_relaxed)) {
            uint64_t last = atomic_load_explicit(&g->last_ns, memory_order_relaxed);
            oldest = last < oldest ? last : oldest;
        }
    uint64_t since = heard > oldest ? heard : oldest;
    return now > since && now - since > SILENT_NS + SILENT_ROUND_TRIPS * s->rtt_ns;
}

size_t xh_rate_silent(const struct xh_replicas *r, uint64_t now, int silent[XH_SITES_MAX])
{
    size_t n = 0, others = 0;
    for (size_t i = 0; i < r->n; i++) {
        silent[i] = r->site[i].state == XH_SITE_LIVE && r->site[i].legs && is_silent(r, &r->site[i], now);
        n += (size_t)silent[i];
        others += r->site[i].state == XH_SITE_LIVE && !silent[i];
    }
    return others ? n : 0;
}

static void measure_leg(struct xh_routed *g, uint64_t now)
{
    uint64_t came = atomic_load_explicit(&g->came, memory_order_relaxed);
    double speed = now > g->seen_ns ? (double)(came - g->seen) / (double)(now - g->seen_ns) : 0;
    smooth(&g->speed, speed, MEMORY);
    g->seen = came;
    g->seen_ns = now;
}

void xh_rate_measure(struct xh_replicas *r, uint64_t now, uint64_t ns)
{
    struct xh_routed *g;
    for (size_t i = 0; i < r->n; i++)
        if (r->site[i].origin)
            measure(r, &r->site[i], now, ns);
    TAILQ_FOREACH(g, &r->bound, link)
        measure_leg(g, now);
}

int xh_rate_better(const struct xh_replicas *r, const struct xh_routed *g, const struct xh_choice *all, uint64_t now)
{
    struct xh_choice c[XH_SITES_MAX];
    const struct xh_site *s = g->site;
    uint64_t left = g->total - g->seen;
    if (!g->demand || g->t.full || g->moving || g->cancelled || g->moves >= MOVES_MOST || left == 0 ||
        now - g->bound_ns < YOUNG_NS + YOUNG_ROUND_TRIPS * s->rtt_ns)
        return XH_CHOICE_NONE;
    for (size_t i = 0; i < r->n; i++) {
        c[i] = all[i];
        c[i].rate = xh_choice_rate(all, r->n, i); /* a new site is taken to bring as much as the others */
    }
    c[s - r->site].usable = 0;
    int i = xh_choose(c, r->n, left, 0);
    if (i < 0)
        return XH_CHOICE_NONE;
    double there = xh_choice_finish_ns(c, r->n, (size_t)i, left) + 2 * (double)c[i].rtt_ns;
    /* If it brought nothing lately, it is expected to take at least as long again. */
    double stays = g->speed > 0 ? (double)left / g->speed : (double)(now - g->bound_ns);
    return stays < MOVE_RATIO * there + MOVE_NS ? XH_CHOICE_NONE : i;
}

int xh_rate_is_slow(const struct xh_site *s, const struct xh_site *than)
{
    double lately = s->rate > s->lasting_rate ? s->rate : s->lasting_rate;
    return than->lasting_rate > SLOW_RATIO * lately; /* |lasting_rate| is 0 while it is unknown */
}
