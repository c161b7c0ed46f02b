/* Endpoints: queues, dispatch and measurements. See endpoint.h. All of it runs under the
 * engine's lock, but for xh_endpoint_sockets. */
#include "endpoint.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "watch/trace.h"
#include "way.h"

#define FIRST_FLIGHT_BYTES 65536 /* what a new connection brings in a round trip, about, while it is young */
#define YOUNG_BYTES 14600.0      /* what it brings in its first one */
#define OLD_BYTES 8e6            /* what has brought so much has found its speed */
#define YOUNG_ROUND_TRIPS 10     /* so many until it has brought its first megabyte, from its opening on */
#define OPENING_ROUND_TRIPS 3   /* so many until a new connection brings its first bytes: TCP, TLS, the request */
#define SOON_ROUND_TRIPS 4       /* a connection that is busy for longer is not waited for */
#define GROWN_BYTES 4e6          /* what one brings in a round trip at most, where systems are not tuned */
#define HANDSHAKE_NS 5e6         /* work of a full TLS handshake at both ends */
#define RATE_MEMORY_NS 1e9
#define RATE_MIN_BYTES 131072u   /* less than this says more about latency than about rate */
#define RATE_KNOWN_NS 1e9        /* bytes came in for so long: it is no longer the connections' beginning that was measured */
#define RATE_KNOWN_TRIPS 12      /* and for so many round trips: slow start takes nine to 4 MB in a round trip */

/* How many connections a bulk stream begins with: so many windows of one connection, as untuned
 * systems grant it, make up what a fast link holds. One more costs the processors at both ends
 * (their packets are smaller, their bytes come out of order), and so still more must pay. */
#define WINDOW_BYTES 8e6
#define LEAST_CONNECTIONS 2
#define MOST_AT_FIRST 16
/* Small requests wait for round trips rather than for bytes: for them so many are tried anyway. */
#define SMALL_CONNECTIONS 8
#define SMALL_BYTES (256u << 10)
/* Scattered reads are soon over: what they wait for is the slow start of young connections, and twice as
 * many of those save a round trip of it. Where that is longer than the handshakes take, it pays. */
#define SCATTERED_RANGES 16
#define SCATTERED_CONNECTIONS 16
#define LONG_RTT_NS 15e6
/* Requests that take so many times as long together as each would alone wait for the link, and not for round trips. */
#define CROWDED 2
#define CROWD_LEAST 2u
#define CONNECTIONS_MOST 64u    /* as the option has it */
#define STREAM_BYTES (1u << 20) /* what is soon wanted of a stream that a reader waits for */
#define TRIAL_NS 500e6
#define TRIAL_ROUND_TRIPS 16
#define GAIN_LEAST 1.15
#define SETTLED_NS 60000000000u

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

static unsigned connections_at_first(double rtt_ns);

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
    if (!e || e->rtt_ns > 0)
        return;
    e->rtt_ns = rtt_ns;
    e->paying = connections_at_first(rtt_ns);
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

static int is_stream(const struct xh_request *r)
{
    return r->job->transfer && r->job->transfer->full;
}

static int is_scattered(const struct xh_request *r)
{
    return r->job->transfer && r->job->transfer->nranges >= SCATTERED_RANGES;
}

/* A stream that waits for a connection, as long as no reader waits for it. */
static int is_patient(const struct xh_request *r)
{
    return is_stream(r) && r->job->transfer->patient && r->job->speculative;
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
    int waits = is_guess(r) || is_patient(r);
    r->waits_ns = waits ? 0 : xh_now_ns();
    struct xh_ring *fresh = waits ? &e->speculative : &e->demand;
    /* One that waits for a connection that is there has to do so behind all others: it may wait for long. */
    r->again = place == XH_PLACE_AGAIN && !is_patient(r);
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
        unbind(r->endpoint, r);
    }
    r->endpoint = NULL;
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
        e->queued_bytes = e->queued_requests = e->queued_streams = 0;
    }
}

/* What a connection brings in a round trip, as far as is known. */
static double window_of(const struct xh_endpoint *e)
{
    double window = e->connection_rate * e->rtt_ns;
    return window > FIRST_FLIGHT_BYTES ? window : FIRST_FLIGHT_BYTES;
}

/* How many round trips a connection takes for |bytes|, where it had |window| in the last one: while it is young it
 * doubles that each time, up to what an untuned system grants; later that is all it has. */
static double round_trips_for(double bytes, double window, int young)
{
    double grows = bytes < GROWN_BYTES ? bytes : GROWN_BYTES;
    if (!young || window >= GROWN_BYTES)
        return bytes / window;
    return (double)log2f((float)(1 + grows / window)) + (bytes - grows) / GROWN_BYTES;
}

unsigned xh_endpoint_sockets_open(const struct xh_endpoint *e)
{
    unsigned n = 0;
    for (unsigned i = 0; i < xh_engine_threads(); i++)
        n += atomic_load_explicit(&e->thread[i].sockets, memory_order_relaxed);
    return n;
}

/* 1 while the connections there are have not found their speed. */
static int are_young(const struct xh_endpoint *e)
{
    return (double)atomic_load_explicit(&e->arrived, memory_order_relaxed) < OLD_BYTES * xh_endpoint_sockets_open(e);
}

/* TCP's round trip and TLS's, and what both ends compute. */
static double opening_ns(const struct xh_endpoint *e)
{
    return 2 * e->rtt_ns + HANDSHAKE_NS;
}

/* How long |r| has still to wait before a connection of its own would have been there by now, had it been opened at
 * once. Whatever was expected of the busy ones then has not come: the link is not theirs alone. */
static uint64_t patience_left(const struct xh_endpoint *e, const struct xh_request *r, uint64_t now)
{
    uint64_t most = (uint64_t)opening_ns(e), waited = now - r->waits_ns;
    return waited < most ? most - waited : 0;
}

/* 1 when waiting for the busy connections takes longer than opening one more for |r|: until the first of
 * them is free, and until they have worked off the queue. */
static int worth_opening(const struct xh_endpoint *e, const struct xh_request *r)
{
    unsigned active = e->active - e->streams; /* a stream's connection is nothing to wait for */
    /* While nothing has come back yet, the connections under way are still being opened
     * themselves: a further one is ready as soon as they are. */
    if (active == 0 || e->rtt_ns <= 0)
        return 1;
    if (r->waits_ns && !is_stream(r) && patience_left(e, r, xh_now_ns()) == 0)
        return 1;
    double rtt = e->rtt_ns, opening = opening_ns(e);
    double rate = e->connection_rate > 0 ? e->connection_rate : FIRST_FLIGHT_BYTES / rtt;
    uint64_t bytes = is_stream(r) ? STREAM_BYTES : r->queued_bytes;
    if (bytes > SMALL_BYTES && (is_stream(r) || !is_scattered(r)))
        return rtt * round_trips_for((double)(e->active_bytes + e->queued_bytes) / active, window_of(e), are_young(e)) >
               opening + rtt * round_trips_for((double)bytes, YOUNG_BYTES, 1);
    double busy = (rtt + (double)e->active_bytes / active / rate) / (active + 1);
    double drain = ((double)e->queued_requests * rtt + (double)e->queued_bytes / rate) / active;
    return busy + drain > opening;
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

/* How far the connections of a thread have come in slow start: what each has brought. */
static double grown(const struct xh_endpoint *e, unsigned thread)
{
    unsigned sockets = atomic_load_explicit(&e->thread[thread].sockets, memory_order_relaxed);
    double each = sockets ? e->thread[thread].brought / sockets : 0;
    return each < GROWN_BYTES ? each : GROWN_BYTES;
}

/* 1 when thread |a| suits |r| better than |b|. Beside streams, connections that have found their speed are for streams,
 * and young ones for what is small. */
static int is_better(const struct xh_endpoint *e, const struct xh_request *r, unsigned a, unsigned b)
{
    double of_a = grown(e, a), of_b = grown(e, b);
    int differ = of_a > 2 * of_b || of_b > 2 * of_a, small = !is_stream(r) && r->queued_bytes <= SMALL_BYTES;
    if (differ && e->streams + e->queued_streams > 0)
        return small ? of_a < of_b : of_a > of_b;
    return e->thread[a].active < e->thread[b].active;
}

/* The thread for |r|: one with an idle connection, else, if |open|, the one with the least work. NULL: none, or a
 * stream that can wait would keep its reader waiting on a young connection, while the others will be free. */
static struct xh_thread *choose_thread(struct xh_endpoint *e, const struct xh_request *r, int open)
{
    struct xh_thread *best = NULL;
    unsigned n = xh_engine_threads();
    double least = 0;
    for (unsigned i = 0; i < n && is_patient(r); i++)
        least = grown(e, i) / 2 > least ? grown(e, i) / 2 : least;
    for (int idle = 1; idle >= 0 && !best; idle--)
        for (unsigned i = 0; i < n; i++) {
            unsigned sockets = atomic_load_explicit(&e->thread[i].sockets, memory_order_relaxed);
            if ((idle ? sockets <= e->thread[i].active : !open) || grown(e, i) < least)
                continue;
            if (!best || is_better(e, r, i, best->index))
                best = xh_engine_thread(i);
        }
    return best;
}

static struct xh_request *first_of(struct xh_ring *ring)
{
    return xh_ring_empty(ring) ? NULL : xh_ring_of(ring->next, struct xh_request, link);
}

unsigned xh_endpoint_paying(const struct xh_endpoint *e)
{
    return e->paying ? e->paying : SMALL_CONNECTIONS;
}

static unsigned windows_of(double window_bytes, double rtt_ns, unsigned least)
{
    double n = rtt_ns * XH_FAST_LINK_BYTES_PER_NS / window_bytes + 0.9;
    return n < least ? least : n > MOST_AT_FIRST ? MOST_AT_FIRST : (unsigned)n;
}

static unsigned connections_at_first(double rtt_ns)
{
    return windows_of(WINDOW_BYTES, rtt_ns, LEAST_CONNECTIONS);
}

static unsigned at_most(const struct xh_origin *o, unsigned n)
{
    unsigned most = xh_origin_object_connections(o);
    return most < n ? most : n;
}

static unsigned at_least(double n, unsigned least)
{
    return n > least ? n < CONNECTIONS_MOST ? (unsigned)n : CONNECTIONS_MOST : least;
}

/* Bytes per ns of all together; 0: not known yet. */
static double known_rate(const struct xh_endpoint *e)
{
    int is_beginning = e->received_ns < RATE_KNOWN_NS || e->received_ns < RATE_KNOWN_TRIPS * e->rtt_ns;
    return is_beginning ? 0 : e->rate;
}

/* How many connections a link that is as fast as this one has room for: with more, each has less than any has in its first
 * round trip, and they do nothing but make each other lose packets. */
static unsigned held(const struct xh_endpoint *e)
{
    double rate = known_rate(e);
    return rate > 0 ? at_least(rate * e->rtt_ns / YOUNG_BYTES, CROWD_LEAST) : CONNECTIONS_MOST;
}

/* How many requests for |bytes| each such a link brings before they wait for one another. What n connections brought, while
 * it was round trips that they waited for, makes it twice as many: so it is found whether more help. */
static unsigned uncrowded(const struct xh_endpoint *e, double bytes)
{
    double rate = known_rate(e), alone_ns = e->rtt_ns * (1 + round_trips_for(bytes, YOUNG_BYTES, 1));
    return rate > 0 ? at_least(CROWDED * rate * alone_ns / bytes, CROWD_LEAST) : CONNECTIONS_MOST;
}

static unsigned less_of(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned xh_endpoint_most(const struct xh_endpoint *e, const struct xh_origin *o, uint64_t bytes, int scattered)
{
    if (!e)
        return at_most(o, SMALL_CONNECTIONS);
    unsigned n = xh_endpoint_paying(e) + 1;
    unsigned many = scattered && e->rtt_ns > LONG_RTT_NS ? SCATTERED_CONNECTIONS : SMALL_CONNECTIONS;
    if (bytes <= SMALL_BYTES || scattered) {
        many = less_of(many, uncrowded(e, (double)(bytes ? bytes : 1)));
        n = n < many ? many : n;
    }
    n = less_of(n, held(e));
    if (n < xh_endpoint_sockets_open(e) && are_young(e)) /* they are there, and find their speed sooner together */
        n = xh_endpoint_sockets_open(e);
    return at_most(o, n);
}

static unsigned most_for(const struct xh_endpoint *e, const struct xh_request *r)
{
    return xh_endpoint_most(e, r->job->origin, r->queued_bytes, is_scattered(r));
}

/* 1 when there is a connection for a stream that waits for one. */
static int stream_may_begin(const struct xh_endpoint *e, const struct xh_request *r)
{
    unsigned most = xh_origin_object_connections(r->job->origin);
    unsigned may = r->job->transfer->patient > 1 ? most : xh_control_streams(&e->control, e->rtt_ns, most);
    return e->active == 0 || e->streams + e->active_guesses < may;
}

static struct xh_request *next_request(struct xh_endpoint *e)
{
    struct xh_request *r;
    if ((r = first_of(&e->again)) != NULL || (r = first_of(&e->demand)) != NULL)
        return r;
    r = first_of(&e->speculative);
    if (!r)
        return NULL;
    if (is_stream(r))
        return stream_may_begin(e, r) ? r : NULL;
    unsigned cap = r->job->origin->yields ? 1 : most_for(e, r);
    return e->active_guesses < (cap > 1 ? cap - 1 : 1) ? r : NULL;
}

/* What a connection that must be opened first begins with, where |r| would be next. Handshake and
 * slow start take many round trips, in which the reader would wait for what he wants next: such
 * connections get what is wanted last, and the first ones wait for a connection that is there. */
static struct xh_request *for_new_connection(struct xh_endpoint *e, struct xh_request *r)
{
    if (r->again || !is_guess(r) || e->rtt_ns <= 0) /* nothing came back yet: all are young alike */
        return r;
    unsigned most = most_for(e, r), room = most - (e->active - e->streams);
    if (room > most - 1 - e->active_guesses)
        room = most - 1 - e->active_guesses;
    struct xh_ring *p = e->speculative.prev;
    for (; room > 1 && p != &r->link; room--)
        p = p->prev;
    struct xh_request *last = xh_ring_of(p, struct xh_request, link);
    return is_stream(last) ? r : last;
}

/* 1 when |r| is not to begin before another has ended: never one that only streams would have to make way for, as
 * those may wait for the very reader who waits for |r|; nor one that is waited for, as long as all others are guesses and
 * streams and the user allows one more connection, whatever this process's share of them is. */
static int has_to_wait(const struct xh_endpoint *e, const struct xh_request *r)
{
    const struct xh_origin *o = r->job->origin;
    unsigned others = e->active - e->streams, most = xh_origin_object_connections(o);
    if (is_stream(r) || others == 0)
        return 0;
    if (!r->job->speculative && others <= e->active_guesses && e->active < o->options.connections)
        return 0;
    return others >= most_for(e, r) || e->active >= most;
}

/* Where |r| has to wait for nothing but the connections of streams, one that stands still makes way, if that is sooner.
 * Returns how long (ns) until it is worth looking again; UINT64_MAX: something else will have happened before. */
static uint64_t make_way(struct xh_endpoint *e, const struct xh_request *r)
{
    unsigned most = xh_origin_object_connections(r->job->origin), others = e->active - e->streams;
    if (e->streams == 0 || e->active < most || others >= most_for(e, r) || !worth_opening(e, r))
        return UINT64_MAX;
    uint64_t wait = xh_way_make(e, opening_ns(e), most, 1);
    return wait ? wait : UINT64_MAX;
}

/* A stream has begun that has no connection yet: those that stand still make way for what is too much. */
static void make_way_for_stream(struct xh_endpoint *e, const struct xh_request *r)
{
    unsigned most = xh_origin_object_connections(r->job->origin);
    if (e->active > most)
        xh_way_make(e, opening_ns(e), most, e->active - most);
}

void xh_endpoint_hold(struct xh_endpoint *e, uint64_t ms)
{
    uint64_t until = xh_now_ns() + ms * 1000000u;
    e->held_ns = until > e->held_ns ? until : e->held_ns;
    xh_trace(XH_T_ORIGIN, "hold", "server=%s ms=%" PRIu64, e->server, ms);
}

int xh_endpoint_is_held(const struct xh_endpoint *e)
{
    return e->held_ns && xh_now_ns() < e->held_ns;
}

void xh_endpoint_hold_server(const char *server, uint64_t ms)
{
    struct xh_endpoint *e = find_or_make(server);
    if (e)
        xh_endpoint_hold(e, ms);
}

uint64_t xh_endpoint_held_ns(const char *server)
{
    const struct xh_endpoint *e = xh_endpoint_find(server);
    uint64_t now = xh_now_ns();
    return e && e->held_ns > now ? e->held_ns - now : 0;
}

void xh_endpoint_dispatch(struct xh_endpoint *e)
{
    struct xh_request *r;
    if (xh_endpoint_is_held(e))
        return;
    while ((r = next_request(e)) != NULL && !has_to_wait(e, r)) {
        struct xh_thread *t = is_impatient(r) ? thread_for_stream(r->job->origin) : choose_thread(e, r, 0);
        if (!t) {
            struct xh_request *other = for_new_connection(e, r);
            if (is_patient(r) ? e->active > 0 : !worth_opening(e, other))
                return;
            r = other;
            t = choose_thread(e, r, 1);
            r->opens = !is_stream(r);
        }
        unqueue(e, r);
        bind(e, r, t);
        if (is_stream(r))
            make_way_for_stream(e, r);
    }
    if (r && make_way(e, r) < UINT64_MAX)
        xh_engine_wake(xh_engine_thread(0)); /* it looks again when that time has come */
}

/* 1 when one more request of |o| may run on |t| without more connections than its option allows. This process's share of
 * them does not count: what is stuck on one of two would wait for as long as TCP backs off. */
static int has_room(const struct xh_endpoint *e, const struct xh_origin *o, const struct xh_thread *t)
{
    unsigned here = atomic_load_explicit(&e->thread[t->index].sockets, memory_order_relaxed), most = (unsigned)o->options.connections;
    if (e->active >= most)
        return 0;
    return here > e->thread[t->index].active || xh_endpoint_sockets_open(e) < most;
}

int xh_endpoint_hedge(struct xh_request *r)
{
    struct xh_endpoint *e = r->endpoint;
    const struct xh_origin *o = r->job->origin;
    if (xh_endpoint_is_held(e) || !xh_hedge_allowed(&e->peers, r->exchange, xh_now_ns()) || !has_room(e, o, r->thread) ||
        strcmp(xh_request_url(r)->server, e->server) != 0) /* a redirect leads elsewhere by now */
        return -1;
    struct xh_request *h = calloc(1, sizeof *h);
    if (!h)
        return -1;
    *h = (struct xh_request){.job = r->job, .first = r->first, .end = r->end, .endpoint = e, .tries = r->tries,
                             .twin = r, .hedge = 1, .hedged = 1};
    h->url = r->url ? xh_url_ref(r->url) : NULL;
    r->twin = h;
    r->hedged = r->exchange->doubled = 1;
    xh_ring_init(&h->link);
    xh_ring_put_last(&r->job->requests, &h->in_job);
    xh_hedge_spend(&e->peers);
    xh_request_weigh(h, &e->limits);
    xh_trace(XH_T_ORIGIN, "hedge", "id=%p twin=%p quiet_ms=%" PRIu64, (void *)r, (void *)h,
             (xh_now_ns() - r->exchange->last_ns) / 1000000u);
    xh_count(o->counters, hedged, 1);
    bind(e, h, r->thread);
    return 0;
}

uint64_t xh_endpoints_look(uint64_t now)
{
    uint64_t nearest = UINT64_MAX;
    for (struct xh_endpoint *e = endpoints; e; e = e->next) {
        if (e->held_ns > now) { /* also where nothing waits yet: who queues something then wakes nobody */
            nearest = e->held_ns - now < nearest ? e->held_ns - now : nearest;
            continue;
        }
        if (e->held_ns) {
            e->held_ns = 0;
            xh_endpoint_dispatch(e);
        }
        struct xh_request *r = next_request(e);
        if (r && has_to_wait(e, r)) {
            uint64_t wait = make_way(e, r);
            nearest = wait < nearest ? wait : nearest;
            continue;
        }
        if (!r || !r->waits_ns || is_stream(r))
            continue;
        uint64_t left = patience_left(e, r, now);
        if (left == 0)
            xh_endpoint_dispatch(e);
        else if (left < nearest)
            nearest = left;
    }
    return nearest;
}

static void smooth(double *estimate, double sample, double weight)
{
    *estimate = *estimate > 0 ? *estimate + weight * (sample - *estimate) : sample;
}

/* The rate of all connections together: bytes of long replies over the time in which at
 * least one of them was coming in. Old times count half as much each second. */
static void measure_rate(struct xh_endpoint *e, const struct xh_exchange *x)
{
    uint64_t from = x->first_ns > e->counted_until_ns ? x->first_ns : e->counted_until_ns;
    if (x->body_bytes < RATE_MIN_BYTES)
        return;
    e->counted_bytes += (double)x->body_bytes;
    if (x->last_ns > from) { /* else another reply's time covers this one's */
        e->counted_until_ns = x->last_ns;
        e->counted_ns += (double)(x->last_ns - from);
        e->received_ns += (double)(x->last_ns - from);
    }
    if (e->counted_ns > 0)
        e->rate = e->counted_bytes / e->counted_ns;
    if (e->counted_ns > RATE_MEMORY_NS) {
        e->counted_bytes /= 2;
        e->counted_ns /= 2;
    }
}

/* Tries twice as many connections once all are busy and work waits, and stays with them if all
 * together bring more than before; else goes back, and tries again much later. */
static void weigh_gain(struct xh_endpoint *e, const struct xh_exchange *x)
{
    uint64_t now = xh_now_ns();
    unsigned most = at_most(x->job->origin, xh_endpoint_paying(e) + 1), busy = e->active - e->streams + 1;
    if (e->queued_requests == 0 || busy < most || busy > most + 1) {
        e->trial_ns = 0; /* the work was not enough to tell, or others than these are at it */
        return;
    }
    uint64_t arrived = atomic_load_explicit(&e->arrived, memory_order_relaxed);
    if (e->trial_ns == 0) {
        e->trial_ns = now;
        e->trial_bytes = arrived;
        return;
    }
    double took = (double)(now - e->trial_ns);
    if (took < TRIAL_NS || took < TRIAL_ROUND_TRIPS * e->rtt_ns)
        return;
    double rate = (double)(arrived - e->trial_bytes) / took;
    xh_trace(XH_T_ORIGIN, "trial", "connections=%u rate_mb=%.1f fewer_mb=%.1f", e->paying, rate * 1e3, e->fewer_rate * 1e3);
    if (e->fewer_rate > 0 && rate < GAIN_LEAST * e->fewer_rate) {
        e->paying = (e->paying + 1) / 2;
        e->settled_ns = now;
        e->fewer_rate = 0;
    } else if (e->paying < xh_origin_object_connections(x->job->origin) &&
               (e->settled_ns == 0 || now - e->settled_ns > SETTLED_NS)) {
        e->fewer_rate = rate;
        e->paying *= 2;
    }
    e->trial_ns = 0;
}

void xh_endpoint_release(struct xh_request *r, const struct xh_exchange *x)
{
    struct xh_endpoint *e = r->endpoint;
    xh_ring_take(&r->link);
    e->thread[r->thread->index].brought += (double)x->body_bytes;
    unbind(e, r);
    r->endpoint = NULL;
    if (!r->surplus)
        xh_hedge_note(&e->peers, x);
    if (x->sent_ns && x->first_ns > x->sent_ns) {
        /* Down at once, up slowly: waiting in the queues of a busy link is no round trip. */
        double rtt = (double)(x->first_ns - x->sent_ns);
        smooth(&e->rtt_ns, rtt, rtt < e->rtt_ns ? 0.5 : 1.0 / 64);
        if (!e->paying)
            e->paying = connections_at_first(rtt);
    }
    if (x->body_bytes >= RATE_MIN_BYTES && x->last_ns > x->first_ns)
        smooth(&e->connection_rate, (double)x->body_bytes / (double)(x->last_ns - x->first_ns), 0.125);
    if (is_stream(r) && !x->opened && x->last_ns > x->first_ns)
        xh_control_sample(&e->control, r->job->transfer->beside, x->body_bytes, x->last_ns - x->first_ns, e->rtt_ns,
                          xh_origin_object_connections(r->job->origin));
    measure_rate(e, x);
    weigh_gain(e, x);
}

void xh_endpoint_open(const struct xh_endpoint *e, struct xh_origin_info *out)
{
    out->open = out->idle = out->warm = 0;
    out->warm_bytes = 0;
    out->second_bytes = e ? (uint64_t)(known_rate(e) * 1e9) : 0;
    out->young = e && are_young(e);
    for (unsigned i = 0; e && i < xh_engine_threads(); i++) {
        unsigned sockets = atomic_load_explicit(&e->thread[i].sockets, memory_order_relaxed);
        out->open += sockets;
        out->idle += sockets > e->thread[i].active ? sockets - e->thread[i].active : 0;
    }
    if (!e || out->open <= e->streams + e->queued_streams + e->opening || e->rtt_ns <= 0)
        return;
    out->warm = out->open - e->streams - e->queued_streams - e->opening;
    double share = (double)(e->active_bytes + e->queued_bytes) / out->warm, window = window_of(e);
    double busy = round_trips_for(share, window, are_young(e));
    if (busy > SOON_ROUND_TRIPS)
        return;
    window += share;
    /* Young ones are ahead of a new one by its opening alone; those that have found their speed, by its slow start
     * too. */
    int trips = are_young(e) ? OPENING_ROUND_TRIPS : YOUNG_ROUND_TRIPS - 1;
    for (int left = (int)(trips - busy); left >= 1; left--, window *= 2) {
        window = window < GROWN_BYTES ? window : GROWN_BYTES;
        out->warm_bytes += (uint64_t)(window * out->warm);
    }
}

unsigned xh_endpoint_streams(const struct xh_endpoint *e, unsigned most)
{
    return e && e->streams ? e->streams + e->queued_streams - xh_way_free(e, opening_ns(e), most) : 0;
}

int xh_endpoint_has_room(const struct xh_request *r)
{
    const struct xh_endpoint *e = xh_endpoint_find(xh_request_url(r)->server);
    return !e || e->active + e->queued_streams < xh_origin_object_connections(r->job->origin);
}

atomic_uint *xh_endpoint_sockets(struct xh_endpoint *e, unsigned index)
{
    return &e->thread[index].sockets;
}
