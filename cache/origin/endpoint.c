/* Endpoints: queues, dispatch and the facts of a server. What follows from them control.c decides. See endpoint.h. All
 * of it runs under the engine's lock, but for xh_endpoint_sockets. */
#include "endpoint.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "watch/trace.h"
#include "way.h"

/* Endpoints live as long as the process, as connections refer to them. A server that redirects to another one each time
 * makes us know no more than so many: what is sent on to further ones fails as without memory. */
#define ENDPOINTS_MAX 4096u

static struct xh_endpoint *endpoints; /* under the engine's lock */
static unsigned endpoints_known;

struct xh_endpoint *xh_endpoint_find(const char *server)
{
    struct xh_endpoint *e = endpoints;
    while (e && strcmp(e->server, server) != 0)
        e = e->next;
    return e;
}

static struct xh_endpoint *find_or_make(const char *server)
{
    struct xh_endpoint *e = xh_endpoint_find(server);
    if (e)
        return e;
    e = endpoints_known < ENDPOINTS_MAX ? calloc(1, sizeof *e) : NULL;
    if (!e || !(e->server = strdup(server))) {
        free(e);
        return NULL;
    }
    xh_limits_init(&e->limits);
    xh_ring_init(&e->again);
    xh_ring_init(&e->demand);
    xh_ring_init(&e->speculative);
    e->next = endpoints;
    endpoints = e;
    endpoints_known++;
    return e;
}

void xh_endpoint_tell(const char *server, double rtt_ns)
{
    struct xh_endpoint *e = rtt_ns > 0 ? find_or_make(server) : NULL;
    if (!e || e->link.rtt_ns > 0)
        return;
    e->link.rtt_ns = rtt_ns;
    xh_control_begin(&e->trial, rtt_ns);
}

void xh_endpoint_tell_apart(const char *server)
{
    struct xh_endpoint *e = find_or_make(server);
    if (e && e->dates == XH_DATES_UNKNOWN)
        e->dates = XH_DATES_APART;
}

void xh_endpoint_forget(void)
{
    endpoints_known = 0;
    endpoints = NULL; /* leaked: the parent's threads' state cannot be told from sound */
}

/* Of |n| connections those that the server takes at once, as far as it is known. */
static unsigned borne(const struct xh_endpoint *e, unsigned n)
{
    unsigned most = e ? e->limits.connections : 0;
    return most && most < n ? most : n;
}

unsigned xh_endpoint_share(const struct xh_endpoint *e, const struct xh_origin *o)
{
    return borne(e, xh_origin_object_connections(o));
}

unsigned xh_endpoint_allowed(const struct xh_endpoint *e, const struct xh_origin *o)
{
    return borne(e, xh_origin_object_allowed(o));
}

static int is_stream(const struct xh_request *r)
{
    return r->job->transfer && r->job->transfer->full;
}

/* A stream that waits for a connection that is there, as long as no reader waits for it, and it was not given up on
 * one. */
static int is_patient(const struct xh_request *r)
{
    return is_stream(r) && r->job->transfer->patient && r->job->speculative && r->stuck == XH_STUCK_NEVER;
}

/* Any other stream: it is opened for at once. */
static int is_impatient(const struct xh_request *r)
{
    return is_stream(r) && !r->job->transfer->patient;
}

static int is_guess(const struct xh_request *r)
{
    return r->job->speculative && !is_stream(r);
}

/* From |from| to |now|, but for the time in which the server was left alone. */
static uint64_t waited(const struct xh_endpoint *e, uint64_t from, uint64_t now)
{
    from = from > e->left_ns ? from : e->left_ns;
    return now > from ? now - from : 0;
}

/* To be called before what waits changes, or its time counts. */
static void count_waiting(struct xh_endpoint *e)
{
    uint64_t now = xh_now_ns();
    e->waited_ns += e->waiting * waited(e, e->waited_at_ns, now);
    e->waited_at_ns = now;
}

int xh_endpoint_queue(struct xh_request *r, enum xh_place place)
{
    struct xh_endpoint *e = find_or_make(xh_request_url(r)->server);
    if (!e)
        return -1;
    r->endpoint = e;
    xh_request_weigh(r, &e->limits);
    if (is_stream(r)) /* what comes of it, and when, is its reader's affair */
        r->queued_bytes = 0;
    e->queued_bytes += r->queued_bytes;
    e->queued_requests += r->queued_requests;
    e->queued_streams += (unsigned)is_stream(r);
    count_waiting(e);
    e->waiting += !is_stream(r);
    int waits = is_guess(r) || is_patient(r);
    struct xh_ring *fresh = waits ? &e->speculative : &e->demand;
    /* One that waits for a connection that is there has to do so behind all others: it may wait for long. */
    r->again = place == XH_PLACE_AGAIN && !is_patient(r);
    r->waits_ns = waits && !r->again ? 0 : xh_now_ns(); /* demand waits behind what is sent again, guess or not */
    if (r->again)
        xh_ring_put_last(&e->again, &r->link);
    else if (place == XH_PLACE_LAST)
        xh_ring_put_last(fresh, &r->link);
    else
        xh_ring_put_first(fresh, &r->link);
    xh_request_enter(r, XH_REQ_QUEUED);
    return 0;
}

static void unqueue(struct xh_endpoint *e, struct xh_request *r)
{
    xh_ring_take(&r->link);
    e->queued_bytes -= r->queued_bytes;
    e->queued_requests -= r->queued_requests;
    e->queued_streams -= (unsigned)is_stream(r);
    count_waiting(e);
    e->waiting -= !is_stream(r);
}

/* Something may be sent again from then on. */
static uint64_t open_ns(const struct xh_endpoint *e)
{
    return xh_max64(e->held_ns, e->paced_ns);
}

/* Returns when the next request may be sent, and gives that place away. */
static uint64_t take_place(struct xh_endpoint *e)
{
    uint64_t place = xh_max64(xh_now_ns(), open_ns(e));
    count_waiting(e);
    e->paced_ns = e->limits.gap_ns ? place + e->limits.gap_ns : 0;
    e->left_ns = xh_max64(e->left_ns, e->paced_ns);
    return place;
}

/* |r|, which has a place, is not sent: the next one may go at once, unless the place behind is taken already. */
static void give_back_place(struct xh_endpoint *e, const struct xh_request *r)
{
    if (!r->behind_ns || e->paced_ns != r->behind_ns)
        return;
    count_waiting(e);
    e->paced_ns = xh_now_ns(); /* not 0: what waits is looked at */
    e->left_ns = xh_max64(e->paced_ns, e->held_ns);
}

/* |r|, in no ring, is |t|'s next. */
static void bind(struct xh_endpoint *e, struct xh_request *r, struct xh_thread *t)
{
    xh_request_enter(r, XH_REQ_BOUND);
    r->thread = t;
    xh_ring_put_last(&t->inbox, &r->link);
    e->active++;
    e->active_bytes += r->queued_bytes;
    e->active_guesses += (unsigned)is_guess(r);
    e->streams += (unsigned)is_stream(r);
    e->opening += r->opens;
    e->thread[t->index].active++;
    take_place(e);
    r->behind_ns = e->paced_ns;
    xh_engine_wake(t);
}

static void unbind(struct xh_endpoint *e, struct xh_request *r)
{
    e->peers.hedges -= (unsigned)r->hedge;
    r->hedge = 0;
    e->active--;
    e->active_bytes -= r->queued_bytes;
    e->active_guesses -= (unsigned)is_guess(r);
    e->streams -= (unsigned)is_stream(r);
    e->opening -= r->opens;
    r->opens = 0;
    e->thread[r->thread->index].active--;
}

void xh_endpoint_take(struct xh_request *r)
{
    if (r->state == XH_REQ_QUEUED) {
        unqueue(r->endpoint, r);
    } else {
        assert(r->state == XH_REQ_BOUND);
        xh_ring_take(&r->link);
        give_back_place(r->endpoint, r);
        unbind(r->endpoint, r);
    }
    r->endpoint = NULL;
}

/* What is queued ahead of |o|'s reader goes before what is queued of other files, as |o| is read now. */
static void prefer(struct xh_endpoint *e, const struct xh_origin *o)
{
    struct xh_ring first;
    xh_ring_init(&first);
    xh_ring_each_leaving (struct xh_request, r, link, &e->speculative) {
        if (r->job->origin != o)
            continue;
        xh_ring_take(&r->link);
        xh_ring_put_last(&first, &r->link);
    }
    xh_ring_move_all(&first, &e->speculative);
    xh_ring_move_all(&e->speculative, &first);
}

void xh_endpoint_promote(struct xh_request *r)
{
    struct xh_endpoint *e = r->endpoint;
    if (is_stream(r) && r->state != XH_REQ_QUEUED)
        return; /* it was none of the guesses */
    switch (r->state) {
    case XH_REQ_QUEUED:
        if (r->again || is_impatient(r))
            break; /* it goes before all demand already, or has its place among it */
        xh_ring_take(&r->link);
        xh_ring_put_last(&e->demand, &r->link);
        r->waits_ns = xh_now_ns();
        if (is_stream(r)) /* by parts that are none, too, 16 sources of 8 MiB took 1.12 of the time */
            prefer(e, r->job->origin);
        break;
    case XH_REQ_BOUND: case XH_REQ_RUNNING:
        e->active_guesses--;
        break;
    default:
        break;
    }
}

void xh_endpoint_drain(struct xh_ring *ring)
{
    for (struct xh_endpoint *e = endpoints; e; e = e->next) {
        xh_ring_move_all(ring, &e->again);
        xh_ring_move_all(ring, &e->demand);
        xh_ring_move_all(ring, &e->speculative);
        e->queued_bytes = e->queued_requests = e->queued_streams = e->waiting = 0;
    }
}

unsigned xh_endpoint_sockets_open(const struct xh_endpoint *e)
{
    unsigned n = 0;
    for (unsigned i = 0; i < xh_engine_threads(); i++)
        n += atomic_load_explicit(&e->thread[i].sockets, memory_order_relaxed);
    return n;
}

/* The facts that control.c decides by. */
static struct xh_load load_of(const struct xh_endpoint *e)
{
    return (struct xh_load){.sockets = xh_endpoint_sockets_open(e), .active = e->active, .streams = e->streams,
                            .opening = e->opening, .guesses = e->active_guesses, .active_bytes = e->active_bytes,
                            .queued_requests = e->queued_requests, .queued_bytes = e->queued_bytes,
                            .waiting = e->waiting, .waited_ns = e->waited_ns,
                            .arrived = atomic_load_explicit(&e->arrived, memory_order_relaxed)};
}

/* 1 when somebody waits for |r|, and a connection may be opened for that: for a stream none but those that its file may
 * have. */
static int is_waited_for(const struct xh_request *r)
{
    return r->waits_ns && (!is_stream(r) ||
                           xh_endpoint_sockets_open(r->endpoint) < xh_endpoint_share(r->endpoint, r->job->origin));
}

/* 1 while |r| rather waits for a connection that is there, and has found its speed: while nobody waits for it, and then
 * for as long as opening one takes. A young one would take longer for it than a grown one takes until it is free. */
static int waits_for_grown(const struct xh_endpoint *e, const struct xh_request *r)
{
    if (!is_stream(r) || !r->job->transfer->patient)
        return 0;
    return is_patient(r) || (!r->job->transfer->goes_on && !r->again &&
                             xh_control_patience_left(&e->link, waited(e, r->waits_ns, xh_now_ns())) > 0);
}

static struct xh_asked asked_of(const struct xh_request *r)
{
    return (struct xh_asked){.bytes = r->queued_bytes, .stream = is_stream(r), .question = r->job->probe != NULL,
                             .files = xh_origin_object_opened_with(r->job->origin),
                             .waited_ns = is_waited_for(r) ? waited(r->endpoint, r->waits_ns, xh_now_ns()) : 0};
}

/* |together|: what all have waited for, and will, counts, too. */
static int is_worth_opening(const struct xh_endpoint *e, const struct xh_request *r, int together)
{
    struct xh_load load = load_of(e);
    if (!together)
        load.waiting = load.waited_ns = 0;
    struct xh_asked asked = asked_of(r);
    return xh_control_is_worth_opening(&e->link, &load, &asked);
}

/* Streams of one object share a thread, which one of them alone does not fill; those of another go to
 * the next thread. A connection is found there, or opened. */
static struct xh_thread *thread_for_stream(struct xh_origin *o)
{
    static unsigned last;
    if (!o->stream_thread)
        o->stream_thread = ++last;
    return xh_engine_thread(o->stream_thread % xh_engine_threads());
}

static struct xh_choice choice_of(const struct xh_endpoint *e, unsigned thread)
{
    unsigned sockets = atomic_load_explicit(&e->thread[thread].sockets, memory_order_relaxed);
    return (struct xh_choice){xh_link_grown(e->thread[thread].brought, sockets), e->thread[thread].active};
}

static unsigned idle_of(const struct xh_endpoint *e, unsigned thread)
{
    unsigned sockets = atomic_load_explicit(&e->thread[thread].sockets, memory_order_relaxed);
    return sockets > e->thread[thread].active ? sockets - e->thread[thread].active : 0;
}

/* The thread for |r|: one with an idle connection, else, if |open|, any. NULL: none. */
static struct xh_thread *choose_thread(const struct xh_endpoint *e, const struct xh_request *r, int open)
{
    struct xh_asked asked = asked_of(r);
    struct xh_choice choice[XH_THREADS_MAX], grown = {0};
    unsigned n = xh_engine_threads();
    struct xh_thread *best = NULL;
    int waits = waits_for_grown(e, r);
    for (unsigned i = 0; i < n; i++) {
        choice[i] = choice_of(e, i);
        grown = waits && choice[i].grown > grown.grown ? choice[i] : grown;
    }
    for (int idle = 1; idle >= 0 && !best; idle--)
        for (unsigned i = 0; i < n; i++) {
            unsigned sockets = atomic_load_explicit(&e->thread[i].sockets, memory_order_relaxed);
            if ((idle ? sockets <= e->thread[i].active : !open) || xh_control_is_too_young(&choice[i], &grown))
                continue;
            /* What a thread's connections have brought says nothing of a new one. */
            int streams = e->streams + e->queued_streams > 0, by_speed = idle || streams;
            if (!best || (by_speed ? xh_control_suits(&choice[i], &choice[best->index], &asked, streams)
                                   : choice[i].active < choice[best->index].active))
                best = xh_engine_thread(i);
        }
    return best;
}

/* The thread for one that has a new connection anyway. */
static struct xh_thread *least_busy(const struct xh_endpoint *e)
{
    unsigned best = 0;
    for (unsigned i = 1; i < xh_engine_threads(); i++)
        best = e->thread[i].active < e->thread[best].active ? i : best;
    return xh_engine_thread(best);
}

static struct xh_request *first_of(struct xh_ring *ring)
{
    return xh_ring_in(ring, ring->next, struct xh_request, link);
}

unsigned xh_endpoint_most(const struct xh_endpoint *e, const struct xh_origin *o, uint64_t bytes)
{
    unsigned share = xh_endpoint_share(e, o);
    if (!e)
        return xh_control_unknown(share);
    struct xh_load load = load_of(e);
    struct xh_asked asked = {.bytes = bytes, .files = xh_origin_object_opened_with(o)};
    return xh_control_most(&e->trial, &e->link, &load, &asked, share);
}

static unsigned most_for(const struct xh_endpoint *e, const struct xh_request *r)
{
    return xh_endpoint_most(e, r->job->origin, r->queued_bytes);
}

static int may_stream(const struct xh_endpoint *e, const struct xh_request *r)
{
    const struct xh_origin *o = r->job->origin;
    struct xh_load load = load_of(e);
    return xh_control_may_stream(&load, xh_endpoint_share(e, o), r->job->transfer->last);
}

/* A stream that waits for a grown connection holds up no demand behind it. */
static struct xh_request *first_demand(struct xh_endpoint *e)
{
    xh_ring_each (struct xh_request, r, link, &e->demand)
        if (!waits_for_grown(e, r) || choose_thread(e, r, 0))
            return r;
    return first_of(&e->demand);
}

/* 1 when |r| is what somebody waits for, and no stream. */
static int cannot_wait(const struct xh_request *r)
{
    return !is_stream(r) && !is_guess(r);
}

/* 1 where streams leave no connection for |r|, which cannot wait: the server serves no more at once. */
static int is_limited(const struct xh_endpoint *e, const struct xh_request *r)
{
    return e->limits.connections && e->active >= e->limits.connections && cannot_wait(r);
}

/* The first in |ring| that cannot wait; NULL: there is none. */
static struct xh_request *first_urgent(struct xh_ring *ring)
{
    xh_ring_each (struct xh_request, r, link, ring)
        if (cannot_wait(r))
            return r;
    return NULL;
}

static struct xh_request *next_request(struct xh_endpoint *e)
{
    struct xh_request *r;
    /* Streams that take turns would have the reader of anything else wait for all of them; so would what is refused and
     * sent again, guesses mostly, where requests go out one by one. */
    if ((e->limits.connections || e->limits.gap_ns) &&
        ((r = first_urgent(&e->again)) != NULL || (r = first_urgent(&e->demand)) != NULL))
        return r;
    if ((r = first_of(&e->again)) != NULL || (r = first_demand(e)) != NULL)
        return r;
    r = first_of(&e->speculative);
    if (!r)
        return NULL;
    if (is_stream(r))
        return may_stream(e, r) ? r : NULL;
    unsigned cap = r->job->origin->yields ? 1 : most_for(e, r);
    return e->active_guesses < xh_control_guesses(cap) ? r : NULL;
}

/* 1 when |r| was given up on its connection, and is sent again: those that are there, idle ones too, may be as dead. */
static int is_given_up(const struct xh_request *r)
{
    return r->again && r->stuck != XH_STUCK_NEVER;
}

static int has_to_wait(const struct xh_endpoint *e, const struct xh_request *r)
{
    if (e->limits.connections && e->active >= e->limits.connections) /* it would be refused */
        return 1;
    struct xh_load load = load_of(e);
    struct xh_asked asked = asked_of(r);
    unsigned share = xh_endpoint_share(e, r->job->origin);
    /* It had its place, and what has the others may end by its time-out alone. */
    unsigned most = is_given_up(r) ? share : most_for(e, r);
    return xh_control_has_to_wait(&load, &asked, most, share);
}

/* Where |r| has to wait for nothing but the connections of streams, one that stands still makes way, if that is sooner.
 * Returns how long (ns) until it is worth looking again; UINT64_MAX: something else will have happened before. */
static uint64_t make_way(struct xh_endpoint *e, const struct xh_request *r)
{
    unsigned most = xh_endpoint_share(e, r->job->origin), others = e->active - e->streams;
    if (e->streams == 0 || e->active < most || others >= most_for(e, r) || !is_worth_opening(e, r, 0))
        return UINT64_MAX;
    if (is_limited(e, r)) {
        xh_way_force(e);
        return UINT64_MAX;
    }
    uint64_t wait = xh_way_make(e, xh_link_opening_ns(&e->link), most, 1);
    return wait ? wait : UINT64_MAX;
}

/* A stream has begun that has no connection yet: those that stand still make way for what is too much. */
static void make_way_for_stream(struct xh_endpoint *e, const struct xh_request *r)
{
    unsigned most = xh_endpoint_share(e, r->job->origin);
    if (e->active > most)
        xh_way_make(e, xh_link_opening_ns(&e->link), most, e->active - most);
}

void xh_endpoint_hold(struct xh_endpoint *e, uint64_t ms)
{
    count_waiting(e);
    e->held_ns = xh_max64(e->held_ns, xh_now_ns() + ms * 1000000u);
    e->left_ns = xh_max64(e->left_ns, e->held_ns);
    xh_trace(XH_T_ORIGIN, "hold", "server=%s ms=%" PRIu64, e->server, ms);
}

int xh_endpoint_is_held(const struct xh_endpoint *e)
{
    return e->held_ns && xh_now_ns() < e->held_ns;
}

int xh_endpoint_is_closed(const struct xh_endpoint *e)
{
    return xh_now_ns() < open_ns(e);
}

void xh_endpoint_hold_server(const char *server, uint64_t ms)
{
    struct xh_endpoint *e = find_or_make(server);
    if (e)
        xh_endpoint_hold(e, ms);
}

uint64_t xh_endpoint_turn_ns(const char *server, uint64_t *turn_ns)
{
    struct xh_endpoint *e = xh_endpoint_find(server);
    uint64_t now = xh_now_ns();
    if (e && (!*turn_ns || e->held_ns > *turn_ns)) {
        *turn_ns = take_place(e);
        if (e->limits.gap_ns && xh_engine_threads()) /* what is queued behind it would be seen by nobody */
            xh_engine_wake(xh_engine_thread(0));
    }
    return e && *turn_ns > now ? *turn_ns - now : 0;
}

static unsigned wants_fresh(const struct xh_endpoint *e, const struct xh_request *r)
{
    struct xh_load load = load_of(e);
    struct xh_asked asked = asked_of(r);
    unsigned most = xh_endpoint_share(e, r->job->origin); /* idle ones count too */
    int given_up = is_given_up(r) || (r->job->probe && r->job->probe->again);
    return load.sockets < most && (given_up || xh_control_opens_own(&e->link, &load, &asked));
}

void xh_endpoint_dispatch(struct xh_endpoint *e)
{
    struct xh_request *r;
    if (xh_endpoint_is_closed(e))
        return;
    count_waiting(e);
    xh_limits_look(&e->limits, xh_now_ns()); /* what waits may do so for long, and nothing else be queued meanwhile */
    while ((r = next_request(e)) != NULL && !has_to_wait(e, r)) {
        r->fresh = wants_fresh(e, r);
        struct xh_thread *t = r->fresh ? least_busy(e) : NULL;
        /* Where there may be no more, an idle one is used, whichever thread has it. */
        if (!t && (!is_impatient(r) || e->limits.connections))
            t = choose_thread(e, r, 0);
        if (!t && is_impatient(r))
            t = thread_for_stream(r->job->origin);
        if (!t) {
            if (waits_for_grown(e, r) ? e->active > 0 : !is_worth_opening(e, r, 1)) {
                /* It will be worth that, even if nothing else happens meanwhile. Its own threads look anyway. */
                if (r->waits_ns && !xh_engine_self())
                    xh_engine_wake(xh_engine_thread(0));
                return;
            }
            t = choose_thread(e, r, 1);
            r->opens = !is_stream(r);
        }
        r->opens |= r->fresh;
        if (r->opens)
            e->waited_ns = 0;
        unqueue(e, r);
        bind(e, r, t);
        if (is_stream(r))
            make_way_for_stream(e, r);
        if (e->limits.gap_ns)
            return;
    }
    if (r && make_way(e, r) < UINT64_MAX)
        xh_engine_wake(xh_engine_thread(0)); /* it looks again when that time has come */
}

/* 1 when one more request of |o| may run on |t| without more connections than its option allows. This process's
 * share of them does not count: what is stuck on one of two would wait for as long as TCP backs off. */
static int has_room(const struct xh_endpoint *e, const struct xh_origin *o, const struct xh_thread *t)
{
    unsigned here = atomic_load_explicit(&e->thread[t->index].sockets, memory_order_relaxed);
    unsigned most = xh_endpoint_allowed(e, o);
    if (e->active >= most)
        return 0;
    return here > e->thread[t->index].active || xh_endpoint_sockets_open(e) < most;
}

int xh_endpoint_hedge(struct xh_request *r)
{
    struct xh_endpoint *e = r->endpoint;
    const struct xh_origin *o = r->job->origin;
    uint64_t now = xh_now_ns(), quiet = xh_hedge_quiet_ns(r->exchange, now);
    uint64_t heard_ns = atomic_load_explicit(&e->heard_ns, memory_order_relaxed);
    int asks_proxy = r->exchange->proxy && r->exchange->turn == XH_PROXY_GO; /* and others wait for what it says */
    if (xh_endpoint_is_closed(e) || !xh_hedge_allowed(&e->peers, r->exchange, now) ||
        !has_room(e, o, r->thread) || asks_proxy || r->chain.n || /* that one would go without these cookies */
        strcmp(xh_request_url(r)->server, e->server) != 0) /* a redirect leads elsewhere by now */
        return -1;
    struct xh_request *h = calloc(1, sizeof *h);
    if (!h)
        return -1;
    *h = (struct xh_request){.job = r->job, .first = r->first, .end = r->end, .endpoint = e, .tries = r->tries,
                             .targets = r->targets, .twin = r, .hedge = 1, .hedged = 1};
    h->url = r->url ? xh_url_ref(r->url) : NULL;
    /* Unless the server is heard since, what idles may be as dead as what is stuck. */
    h->fresh = quiet >= xh_hedge_stuck_ns(e->link.rtt_ns) && xh_endpoint_sockets_open(e) < xh_endpoint_allowed(e, o) &&
               !xh_hedge_is_heard(e->link.rtt_ns, r->exchange, heard_ns);
    h->opens = h->fresh;
    r->twin = h;
    r->hedged = r->exchange->doubled = 1;
    xh_ring_init(&h->link);
    xh_ring_put_last(&r->job->requests, &h->in_job);
    xh_hedge_spend(&e->peers);
    xh_request_weigh(h, &e->limits);
    xh_trace(XH_T_ORIGIN, "hedge", "id=%p twin=%p quiet_ms=%" PRIu64, (void *)r, (void *)h, quiet / 1000000u);
    xh_count(o->counters, hedged, 1);
    bind(e, h, r->thread);
    return 0;
}

void xh_endpoint_doubt(struct xh_endpoint *e, uint64_t since_ns)
{
    e->doubt_ns = since_ns > e->doubt_ns ? since_ns : e->doubt_ns;
    e->lost_ns = since_ns > e->lost_ns ? since_ns : e->lost_ns;
}

void xh_endpoint_stuck_is_over(const struct xh_request *r)
{
    struct xh_endpoint *e = xh_endpoint_find(xh_request_url(r)->server);
    if (e)
        e->peers.anew_ns = 0;
}

uint64_t xh_endpoints_look(uint64_t now)
{
    uint64_t nearest = UINT64_MAX;
    for (struct xh_endpoint *e = endpoints; e; e = e->next) {
        if (open_ns(e) > now) { /* also where nothing waits yet: who queues something then wakes nobody */
            nearest = xh_min64(nearest, open_ns(e) - now);
            continue;
        }
        unsigned had = e->limits.connections;
        xh_limits_look(&e->limits, now);
        if (open_ns(e) || e->limits.connections != had) {
            e->held_ns = e->paced_ns = 0;
            xh_endpoint_dispatch(e);
        }
        struct xh_request *r = next_request(e);
        if (r && has_to_wait(e, r)) {
            uint64_t wait = make_way(e, r);
            nearest = wait < nearest ? wait : nearest;
            continue;
        }
        if (!r || !r->waits_ns)
            continue;
        uint64_t left = xh_control_patience_left(&e->link, waited(e, r->waits_ns, now));
        if (left == 0)
            xh_endpoint_dispatch(e);
        else if (left < nearest)
            nearest = left;
    }
    return nearest;
}

void xh_endpoint_release(struct xh_request *r, const struct xh_exchange *x)
{
    struct xh_endpoint *e = r->endpoint;
    const struct xh_origin *o = r->job->origin;
    xh_ring_take(&r->link);
    e->thread[r->thread->index].brought += (double)x->body_bytes;
    if (!x->begun_ns) /* it waits for a login, a token or a target, and comes back */
        give_back_place(e, r);
    unbind(e, r);
    r->endpoint = NULL;
    if (!r->surplus && r->stay != XH_STAYS_NO_LONGER) {
        xh_hedge_note(&e->peers, x);
        if (!r->cut && r->stuck == XH_STUCK_ONCE)
            xh_hedge_judge(&e->peers, e->link.rtt_ns, x, xh_now_ns());
    }
    xh_link_sample(&e->link, x->sent_ns, x->first_ns, x->last_ns, x->body_bytes);
    xh_control_begin(&e->trial, e->link.rtt_ns);
    struct xh_load load = load_of(e);
    if (o && xh_control_weigh(&e->trial, &e->link, &load, xh_endpoint_share(e, o), xh_now_ns()))
        xh_trace(XH_T_ORIGIN, "trial", "connections=%u fewer_mb=%.1f", e->trial.paying, e->trial.fewer_rate * 1e3);
}

void xh_endpoint_open(const struct xh_endpoint *e, struct xh_origin_info *out)
{
    out->open = out->idle = out->warm = 0;
    out->second_bytes = e ? (uint64_t)(xh_link_known_rate(&e->link) * 1e9) : 0;
    struct xh_load load = e ? load_of(e) : (struct xh_load){0};
    out->young = xh_link_is_young(load.arrived, load.sockets);
    out->flight_bytes = (uint64_t)xh_link_flight((double)load.arrived, load.sockets);
    struct xh_choice grown = {0};
    unsigned young = 0;
    for (unsigned i = 0; e && i < xh_engine_threads(); i++)
        if (idle_of(e, i) && choice_of(e, i).grown > grown.grown)
            grown = choice_of(e, i);
    for (unsigned i = 0; e && i < xh_engine_threads(); i++) {
        struct xh_choice c = choice_of(e, i);
        out->open += atomic_load_explicit(&e->thread[i].sockets, memory_order_relaxed);
        *(xh_control_is_too_young(&c, &grown) ? &young : &out->idle) += idle_of(e, i);
    }
    out->idle += young > out->idle ? young : 0; /* else few would do the work of many */
    unsigned taken = e ? e->streams + e->queued_streams + e->opening : 0;
    out->warm = out->open > taken ? out->open - taken : 0;
}

unsigned xh_endpoint_streams(const struct xh_endpoint *e, unsigned most)
{
    unsigned n = e ? e->streams + e->queued_streams : 0;
    return n ? n - xh_way_free(e, xh_link_opening_ns(&e->link), most) : 0;
}

int xh_endpoint_has_room(const struct xh_request *r)
{
    const struct xh_endpoint *e = xh_endpoint_find(xh_request_url(r)->server);
    return !e || e->active + e->queued_streams < xh_endpoint_share(e, r->job->origin);
}

atomic_uint *xh_endpoint_sockets(struct xh_endpoint *e, unsigned index)
{
    return &e->thread[index].sockets;
}
