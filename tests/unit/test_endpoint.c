/* The scheduler of a server's requests, on a clock and a link made here: who goes first, how many
 * connections are tried, what is a straggler, and that its sums stay those of a naive count. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "origin/endpoint.h"
#include "origin/rest.h"
#include "watch/trace.h"

#define MIB 1048576u
#define MS 1000000u
#define THREADS 2
#define MOST 64

/* ---- what the scheduler needs of the engine ------------------------------------------- */

static uint64_t now;
static struct xh_thread threads[THREADS];
static struct xh_url url = {.server = "https://host:443"};
static struct xh_counters counters;
static struct xh_origin origin;

uint64_t xh_now_ns(void) { return now; }
unsigned xh_engine_threads(void) { return THREADS; }
struct xh_thread *xh_engine_thread(unsigned i) { return &threads[i]; }
void xh_engine_wake(struct xh_thread *t) { (void)t; }
struct xh_thread *xh_engine_self(void) { return NULL; }
struct xh_url *xh_request_url(const struct xh_request *r) { (void)r; return &url; }
void xh_request_enter(struct xh_request *r, enum xh_request_state state) { r->state = state; }
void xh_engine_lock(void) {}
void xh_engine_unlock(void) {}
int xh_engine_runs(void) { return 1; }
int xh_job_lacks(const struct xh_job *j, size_t from, size_t end) { return 1; }
/* ---- the link: so much a connection, so much in all ------------------------------------- */

static struct load {
    struct xh_request r;
    struct xh_job job;
    struct xh_transfer stream; /* of a stream */
    uint64_t bytes;
    double left; /* bytes to come, once it runs */
    uint64_t sent_ns;
    int used;
} loads[4 * MOST];

static struct xh_endpoint *e;
static struct xh_exchange reply;
static uint64_t reply_bytes = MIB; /* of each */

void xh_request_weigh(struct xh_request *r, struct xh_limits *limits)
{
    r->queued_bytes = xh_ring_of(r->job, struct load, job)->bytes;
    r->queued_requests = 1;
}

static void fresh(void)
{
    now = (uint64_t)100000 * MS;
    xh_endpoint_forget();
    memset(loads, 0, sizeof loads);
    origin.options.connections = 16;
    for (unsigned i = 0; i < THREADS; i++) {
        threads[i].index = i;
        xh_ring_init(&threads[i].inbox);
        xh_ring_init(&threads[i].running);
        xh_ring_init(&threads[i].finished);
    }
    origin.counters = &counters;
}

static struct load *make(int speculative, uint64_t bytes)
{
    struct load *l = loads;
    while (l->used)
        l++;
    *l = (struct load){.job = {.origin = &origin, .speculative = speculative}, .bytes = bytes, .left = MIB, .used = 1};
    l->r.job = &l->job;
    return l;
}

static struct load *queue(struct load *l)
{
    cr_assert_eq(xh_endpoint_queue(&l->r, XH_PLACE_LAST), 0);
    e = xh_endpoint_find(url.server);
    return l;
}

static struct load *ask(int speculative)
{
    return queue(make(speculative, MIB));
}

static int never_full(struct xh_transfer *t)
{
    (void)t;
    return 0;
}

static struct load *ask_stream(int patient)
{
    struct load *l = make(1, 100 * MIB);
    l->stream = (struct xh_transfer){.full = never_full, .patient = patient};
    l->job.transfer = &l->stream;
    return queue(l);
}

static void promote(struct load *l)
{
    l->job.speculative = 0;
    xh_endpoint_promote(&l->r);
}

/* What the threads do with their inboxes. */
static void start(void)
{
    xh_endpoint_dispatch(e);
    for (unsigned i = 0; i < THREADS; i++) {
        while (!xh_ring_empty(&threads[i].inbox)) {
            struct load *l = xh_ring_take_first(&threads[i].inbox, struct load, r.link);
            xh_ring_put_last(&threads[i].running, &l->r.link);
            l->r.state = XH_REQ_RUNNING;
            l->sent_ns = now;
        }
        atomic_uint *sockets = xh_endpoint_sockets(e, i);
        if (*sockets < e->thread[i].active)
            *sockets = e->thread[i].active;
    }
}

/* As an engine thread does when a reply has come. */
static void finish(struct load *l)
{
    reply = (struct xh_exchange){.job = &l->job, .body_bytes = reply_bytes, .begun_ns = l->sent_ns,
                                 .sent_ns = l->sent_ns, .first_ns = l->sent_ns + 10 * MS, .last_ns = now};
    xh_endpoint_release(&l->r, &reply);
    l->used = 0;
    start();
}

/* |seconds| of a reader who always wants more than there are connections. |alone| and |all| are
 * bytes a second of one connection, and of all together. Returns the most that were busy at the end. */
static unsigned stream(double seconds, double alone, double all)
{
    unsigned most = 0;
    uint64_t end = now + (uint64_t)(seconds * 1e9);
    for (unsigned queued = 0; now < end; now += MS) {
        unsigned busy = 0;
        for (struct load *l = loads; l < loads + 4 * MOST; l++)
            busy += l->used && l->r.state == XH_REQ_RUNNING && now - l->sent_ns >= 10 * MS;
        for (struct load *l = loads; l < loads + 4 * MOST; l++)
            if (l->used && l->r.state == XH_REQ_RUNNING && now - l->sent_ns >= 10 * MS) {
                double came = (alone * busy < all ? alone : all / busy) / 1e3;
                l->left -= came;
                e->arrived += (unsigned long long)came;
                if (l->left <= 0)
                    finish(l);
            }
        for (queued = 0; queued < 2 * MOST;) {
            queued = 0;
            for (struct load *l = loads; l < loads + 4 * MOST; l++)
                queued += l->used && l->r.state == XH_REQ_QUEUED;
            if (queued < 2 * MOST)
                ask(0);
        }
        start();
        if (end - now < 1000u * MS && e->active > most)
            most = e->active;
    }
    return most;
}

Test(endpoint, more_connections_are_opened_where_they_bring_more, .init = fresh, .timeout = 30)
{
    cr_assert_eq(stream(10, 10e6, 1e9), 16, "each brings as much again: up to the option's cap");
}

Test(endpoint, more_connections_that_bring_nothing_are_given_up, .init = fresh, .timeout = 30)
{
    unsigned few = stream(10, 100e6, 200e6);
    cr_assert(few >= 3 && few <= 5, "two would do but for their idle round trips: %u", few);
    /* The link changes: a minute later that is found out. */
    cr_assert_eq(stream(70, 10e6, 1e9), 16);
}

Test(endpoint, a_longer_link_begins_with_more, .init = fresh)
{
    static const struct {
        unsigned rtt_ms, connections;
    } cases[] = {{1, 2}, {10, 2}, {20, 4}, {50, 8}, {160, 16}, {5000, 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct load *l = ask(0);
        e->trial.paying = 0;
        e->link.rtt_ns = 0;
        start();
        now += cases[i].rtt_ms * MS;
        reply = (struct xh_exchange){.job = &l->job, .sent_ns = l->sent_ns, .first_ns = now, .last_ns = now};
        xh_endpoint_release(&l->r, &reply);
        l->used = 0;
        cr_assert_eq(xh_control_paying(&e->trial), cases[i].connections, "%u ms", cases[i].rtt_ms);
    }
}

Test(endpoint, a_cap_that_is_no_doubling_is_weighed_too, .init = fresh, .timeout = 30)
{
    origin.options.connections = 12;
    cr_assert_eq(stream(10, 10e6, 1e9), 12);
}

Test(endpoint, no_more_connections_than_the_option_allows, .init = fresh, .timeout = 30)
{
    origin.options.connections = 3;
    cr_assert_eq(stream(5, 10e6, 1e9), 3);
}

Test(endpoint, demand_goes_first_and_speculation_leaves_a_connection_free, .init = fresh)
{
    origin.options.connections = 4;
    struct load *guess[6];
    for (int i = 0; i < 6; i++)
        guess[i] = ask(1);
    e->trial.paying = 8;
    start();
    cr_assert_eq(e->active, 3, "one stays free");
    struct load *first = ask(0), *second = ask(0);
    start();
    cr_assert_eq(first->r.state, XH_REQ_RUNNING, "at once");
    cr_assert_eq(second->r.state, XH_REQ_QUEUED);
    finish(guess[0]);
    cr_assert_eq(second->r.state, XH_REQ_RUNNING, "before the guesses that waited longer");
    cr_assert_eq(guess[3]->r.state, XH_REQ_QUEUED);
    promote(guess[5]);
    finish(first);
    cr_assert_eq(guess[5]->r.state, XH_REQ_RUNNING, "a guess that is waited for is demand");
}

Test(endpoint, a_thin_link_gets_few_connections_once_it_is_known, .init = fresh)
{
    ask(1);
    e->link.rtt_ns = 20 * MS;
    e->trial.paying = 4;
    e->arrived = 100 * MIB;
    e->link.rate = 2e-3; /* 2 MB/s */
    cr_assert_eq(xh_endpoint_most(e, &origin, 200000), 8, "that may be the connections' beginning");
    e->link.received_ns = 2000 * MS;
    cr_assert_eq(xh_endpoint_most(e, &origin, 200000), 2, "more would wait for each other");
    cr_assert_eq(xh_endpoint_most(e, &origin, MIB), 2, "less than the first packets of three fit into a round trip");
    e->link.rate = 4e-3;
    cr_assert_eq(xh_endpoint_most(e, &origin, MIB), 5);
    e->link.rate = 0.1;
    cr_assert_eq(xh_endpoint_most(e, &origin, 200000), 8);
}

/* ---- a server that wants to be left alone ---- */

/* How long a client with connections of its own has to wait that comes now. */
static uint64_t turn_ns(const char *server)
{
    uint64_t turn = 0;
    return xh_endpoint_turn_ns(server, &turn);
}

Test(endpoint, a_server_that_says_when_to_come_back_is_left_alone_until_then, .init = fresh)
{
    struct load *busy = ask(0);
    start();
    cr_assert_eq(busy->r.state, XH_REQ_RUNNING);
    xh_endpoint_hold(e, 60000);
    struct load *demand = ask(0), *guess = ask(1), *stream = ask_stream(0);
    start();
    finish(busy); /* a connection is free, and what was under way has ended */
    cr_assert(demand->r.state == XH_REQ_QUEUED && guess->r.state == XH_REQ_QUEUED && stream->r.state == XH_REQ_QUEUED);
    cr_assert_eq(xh_endpoints_look(now), 60000ull * MS);
    now += 59999ull * MS;
    cr_assert_eq(xh_endpoints_look(now), MS);
    start();
    cr_assert_eq(demand->r.state, XH_REQ_QUEUED, "not a moment too soon");
    xh_endpoint_hold(e, 10); /* another file's request was refused later, with a shorter time */
    xh_endpoint_hold(e, 0);
    cr_assert_eq(xh_endpoints_look(now), 10 * MS);
    now += 10 * MS;
    xh_endpoints_look(now);
    start();
    cr_assert_eq(demand->r.state, XH_REQ_RUNNING);
    cr_assert_eq(stream->r.state, XH_REQ_RUNNING);
    cr_assert_not(xh_endpoint_is_held(e));
}

Test(endpoint, a_limit_is_widened_though_nothing_more_is_queued, .init = fresh)
{
    struct load *l[8];
    for (int i = 0; i < 8; i++)
        l[i] = ask(0);
    xh_limits_serves(&e->limits, 2, now);
    start();
    cr_expect_eq(e->active, 2, "%u", e->active);
    now += XH_WIDEN_NS - 1;
    l[0]->sent_ns = l[1]->sent_ns = now - 20 * MS; /* else the link is a slow one */
    finish(l[0]);
    cr_expect_eq(e->active, 2, "%u", e->active);
    now += 1;
    finish(l[1]);
    cr_expect_gt(e->active, 2, "%u", e->active);
}

Test(endpoint, what_a_server_answers_so_often_goes_out_one_by_one, .init = fresh)
{
    struct load *l[3];
    for (int i = 0; i < 3; i++)
        l[i] = ask(0);
    e->limits.gap_ns = 100 * MS;
    for (int i = 0; i < 3; i++) {
        start();
        xh_endpoint_dispatch(e);
        start();
        cr_expect_eq(e->active, (unsigned)i + 1);
        cr_expect_eq(xh_endpoints_look(now), 100 * MS);
        now += 100 * MS;
        xh_endpoints_look(now);
    }
    cr_expect_eq(l[2]->r.state, XH_REQ_RUNNING);
}

/* Of what was refused when all of it was asked for at once, most are guesses. */
Test(endpoint, where_requests_go_out_one_by_one_none_that_nobody_waits_for_keeps_demand_waiting, .init = fresh)
{
    struct load *guess[2];
    for (int i = 0; i < 2; i++) {
        guess[i] = make(1, 1000);
        cr_assert_eq(xh_endpoint_queue(&guess[i]->r, XH_PLACE_AGAIN), 0);
    }
    struct load *demand = queue(make(0, 1000));
    e->limits.gap_ns = 100 * MS;
    start();
    cr_expect_eq(demand->r.state, XH_REQ_RUNNING, "it has the first place");
    cr_expect_eq(guess[0]->r.state, XH_REQ_QUEUED);
    now += 100 * MS;
    xh_endpoints_look(now);
    start();
    cr_expect_eq(guess[0]->r.state, XH_REQ_RUNNING);
    cr_expect_eq(guess[1]->r.state, XH_REQ_QUEUED);
    demand = queue(make(0, 1000)); /* the next place is its own */
    now += 100 * MS;
    xh_endpoints_look(now);
    start();
    cr_expect_eq(demand->r.state, XH_REQ_RUNNING);
    cr_expect_eq(guess[1]->r.state, XH_REQ_QUEUED);
}

/* One that looks from time to time whether the server may be asked would find it taken again and again. */
Test(endpoint, a_client_with_connections_of_its_own_has_a_place_among_what_goes_out_one_by_one, .init = fresh)
{
    struct load *l[4];
    uint64_t turn = 0, second = 0;
    for (int i = 0; i < 4; i++)
        l[i] = ask(0);
    e->limits.gap_ns = 100 * MS;
    start();
    cr_assert_eq(l[0]->r.state, XH_REQ_RUNNING);
    cr_expect_eq(xh_endpoint_turn_ns(e->server, &turn), 100 * MS, "the next place");
    cr_expect_eq(xh_endpoint_turn_ns(e->server, &second), 200 * MS);
    cr_expect_eq(xh_endpoints_look(now), 300 * MS);
    now += 100 * MS;
    xh_endpoints_look(now);
    start();
    cr_expect_eq(xh_endpoint_turn_ns(e->server, &turn), 0, "it is there, whatever waits");
    cr_expect_eq(l[1]->r.state, XH_REQ_QUEUED, "two at once would be refused");
    now += 200 * MS;
    xh_endpoints_look(now);
    start();
    cr_expect_eq(l[1]->r.state, XH_REQ_RUNNING);
    cr_expect_eq(l[2]->r.state, XH_REQ_QUEUED);
    cr_expect_eq(xh_endpoint_turn_ns(e->server, &second), 0, "it came late, and may go");
    xh_endpoint_hold(e, 60000); /* refused: the places are those behind that */
    cr_expect_eq(xh_endpoint_turn_ns(e->server, &second), 60000ull * MS);
    cr_expect_eq(turn_ns(e->server), 60100ull * MS);
    now += 60200ull * MS;
    cr_expect_eq(turn_ns(e->server), 0);
    cr_expect_eq(turn_ns(e->server), 100 * MS);
}

/* As an engine thread does with one that waits for a login, a token, or the file's new place. */
static void turn_away(struct load *l)
{
    reply = (struct xh_exchange){.job = &l->job};
    xh_endpoint_release(&l->r, &reply);
    xh_request_enter(&l->r, XH_REQ_DELAYED);
    start();
}

Test(endpoint, where_requests_go_out_one_by_one_what_is_not_sent_takes_no_place, .init = fresh)
{
    struct load *l[6];
    uint64_t turn = 0;
    for (int i = 0; i < 6; i++)
        l[i] = ask(0);
    e->limits.gap_ns = 100 * MS;
    start();
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(l[i]->r.state, XH_REQ_RUNNING, "%d", i);
        turn_away(l[i]);
    }
    cr_assert_eq(l[3]->r.state, XH_REQ_RUNNING, "at the same time");
    cr_expect_eq(l[4]->r.state, XH_REQ_QUEUED, "it was sent");
    finish(l[3]);
    cr_expect_eq(l[4]->r.state, XH_REQ_QUEUED, "and over");
    now += 100 * MS;
    xh_endpoints_look(now);
    cr_expect_eq(l[4]->r.state, XH_REQ_BOUND);
    xh_endpoint_take(&l[4]->r); /* cancelled before its thread came to it */
    xh_endpoint_dispatch(e);
    start();
    cr_expect_eq(l[5]->r.state, XH_REQ_RUNNING);
    cr_expect_eq(xh_endpoint_turn_ns(e->server, &turn), 100 * MS, "its place is the one behind that");
    l[0] = ask(0);
    turn_away(l[5]);
    cr_expect_eq(l[0]->r.state, XH_REQ_QUEUED, "it would go out together with the other client's");
    xh_endpoint_hold(e, 300);
    now += 200 * MS;
    start();
    cr_expect_eq(l[0]->r.state, XH_REQ_QUEUED);
    now += 100 * MS;
    xh_endpoints_look(now);
    start();
    cr_assert_eq(l[0]->r.state, XH_REQ_RUNNING);
    xh_endpoint_hold(e, 300);
    l[1] = ask(0);
    turn_away(l[0]);
    cr_expect_eq(l[1]->r.state, XH_REQ_QUEUED, "the server is left alone all the same");
    cr_expect_eq(xh_endpoints_look(now), 300 * MS);
}

Test(endpoint, a_client_with_connections_of_its_own_is_told_and_tells, .init = fresh)
{
    struct load *l = ask(0);
    start();
    finish(l);
    cr_assert_eq(turn_ns(e->server), 0);
    xh_endpoint_hold(e, 60000);
    cr_assert_eq(turn_ns(e->server), 60000ull * MS);
    now += 60000ull * MS;
    cr_assert_eq(turn_ns(e->server), 0);
    xh_endpoint_hold_server(e->server, 60000);
    struct load *late = ask(0);
    start();
    cr_assert_eq(late->r.state, XH_REQ_QUEUED);
    cr_assert_eq(turn_ns("https://nobody.example:443"), 0);
    xh_endpoint_hold_server("https://nobody.example:443", 5);
    cr_assert_eq(turn_ns("https://nobody.example:443"), 5 * MS, "one that reading has never asked");
}

/* The thread that hears of it sleeps until then, whatever waits by that time: who queues something meanwhile wakes
 * nobody. */
Test(endpoint, what_is_queued_while_a_server_is_left_alone_is_sent_when_that_is_over, .init = fresh)
{
    struct load *l = ask(0);
    start();
    finish(l);
    xh_endpoint_hold(e, 60000);
    cr_assert_eq(xh_endpoints_look(now), 60000ull * MS, "nothing waits, and it is looked all the same");
    struct load *late = ask(0);
    start();
    cr_assert_eq(late->r.state, XH_REQ_QUEUED);
    now += 60000ull * MS;
    cr_assert_eq(xh_endpoints_look(now), UINT64_MAX);
    start();
    cr_assert_eq(late->r.state, XH_REQ_RUNNING);
}

/* ---- streams ------------------------------------------------------------------------------ */

static unsigned sockets(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < THREADS; i++)
        n += *xh_endpoint_sockets(e, i);
    return n;
}

/* A round trip of 50 ms is known, and that a connection brings so much; none is opened yet. */
static void known(double mb_per_second, uint64_t arrived)
{
    origin.options.connections = 16;
    struct load *l = ask(0);
    e->link.rtt_ns = 50 * MS;
    e->link.connection_rate = mb_per_second / 1e3;
    e->trial.paying = 8;
    e->arrived = arrived;
    xh_endpoint_take(&l->r);
    l->used = 0;
}

/* Nothing is gained by a further connection: those there are soon done. */
static void known_and_fast(void)
{
    known(1000, 1000ull * MIB);
}

Test(endpoint, a_patient_stream_waits_for_a_connection_that_is_there, .init = fresh)
{
    known_and_fast();
    struct load *first = ask(0);
    start();
    struct load *stream = ask_stream(1);
    start();
    cr_assert_eq(stream->r.state, XH_REQ_QUEUED);
    finish(first);
    cr_assert_eq(stream->r.state, XH_REQ_RUNNING);
    cr_assert_eq(sockets(), 1);
}

/* So many connections that are there, and idle. */
static void open_connections(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        *xh_endpoint_sockets(e, i % THREADS) += 1;
}

Test(endpoint, a_patient_stream_leaves_the_last_connection_unless_it_may_have_it, .init = fresh)
{
    known_and_fast();
    origin.options.connections = 3;
    open_connections(3 - sockets());
    struct load *stream[3];
    for (int i = 0; i < 3; i++)
        stream[i] = ask_stream(1);
    start();
    cr_assert_eq(stream[0]->r.state, XH_REQ_RUNNING);
    cr_assert_eq(stream[1]->r.state, XH_REQ_RUNNING);
    cr_assert_eq(stream[2]->r.state, XH_REQ_QUEUED, "one connection is for what cannot wait");
    stream[2]->stream.last = 1;
    start();
    cr_assert_eq(stream[2]->r.state, XH_REQ_RUNNING);
    cr_assert_eq(sockets(), 3);
}

Test(endpoint, a_patient_stream_does_not_begin_on_a_young_connection_while_others_have_grown, .init = fresh)
{
    known_and_fast();
    open_connections(THREADS - sockets());
    for (unsigned i = 0; i < THREADS; i++)
        *xh_endpoint_sockets(e, i) = 1;
    struct load *busy[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        busy[i] = ask(0);
    start();
    for (unsigned i = 0; i < THREADS; i++)
        e->thread[i].brought = i == 0 ? 0 : 4e6;
    struct load *stream = ask_stream(1), *young = NULL, *grown = NULL;
    for (unsigned i = 0; i < THREADS; i++)
        *(busy[i]->r.thread->index == 0 ? &young : &grown) = busy[i];
    cr_assert(young && grown);
    reply_bytes = 0;
    finish(young);
    cr_assert_eq(stream->r.state, XH_REQ_QUEUED, "it would keep its reader waiting there");
    finish(grown);
    cr_assert_eq(stream->r.state, XH_REQ_RUNNING);
    reply_bytes = MIB;
}

Test(endpoint, a_patient_stream_follows_another_and_is_opened_for_when_a_reader_comes, .init = fresh)
{
    known_and_fast();
    struct load *stream[3];
    for (int i = 0; i < 3; i++)
        stream[i] = ask_stream(1);
    start();
    cr_assert_eq(stream[0]->r.state, XH_REQ_RUNNING, "there is nothing to wait for");
    cr_assert_eq(stream[1]->r.state, XH_REQ_QUEUED, "it follows the first");
    cr_assert_eq(sockets(), 1);
    cr_assert_eq(e->opening, 0, "a stream's connection is none to wait for");
    stream[2]->job.speculative = 0;
    xh_endpoint_promote(&stream[2]->r);
    start();
    cr_assert_eq(stream[2]->r.state, XH_REQ_QUEUED, "the first one's connection may be free sooner than a new one");
    now += (uint64_t)xh_link_opening_ns(&e->link);
    start();
    cr_assert_eq(stream[2]->r.state, XH_REQ_RUNNING, "the first may stand still for ever");
    cr_assert_eq(stream[1]->r.state, XH_REQ_QUEUED);
    finish(stream[0]);
    cr_assert_eq(stream[1]->r.state, XH_REQ_RUNNING);
}

/* The server hung up on all, and another stream of the same reader stands still. */
Test(endpoint, a_promoted_stream_that_waits_for_a_grown_connection_is_looked_at_when_that_is_over, .init = fresh)
{
    known_and_fast();
    struct load *stands = ask_stream(1), *read = ask_stream(1);
    start();
    cr_assert_eq(stands->r.state, XH_REQ_RUNNING);
    cr_assert_eq(xh_endpoints_look(now), UINT64_MAX, "nobody waits");
    promote(read);
    start();
    cr_assert_eq(read->r.state, XH_REQ_QUEUED);
    uint64_t wait = xh_endpoints_look(now);
    cr_assert_eq(wait, (uint64_t)xh_link_opening_ns(&e->link));
    now += wait;
    xh_endpoints_look(now);
    cr_assert_eq(read->r.state, XH_REQ_BOUND);
}

Test(endpoint, what_is_read_now_goes_before_what_is_queued_for_other_files, .init = fresh)
{
    static struct xh_origin other;
    known_and_fast();
    other = origin;
    struct load *first = ask_stream(1), *later[2], *read[3];
    for (int i = 0; i < 2; i++) {
        later[i] = ask_stream(1);
        later[i]->job.origin = &other;
    }
    for (int i = 0; i < 3; i++)
        read[i] = ask_stream(1);
    start();
    cr_assert_eq(first->r.state, XH_REQ_RUNNING);
    promote(read[0]);
    finish(first);
    cr_assert_eq(read[0]->r.state, XH_REQ_RUNNING, "over the connection that was there");
    cr_assert_eq(sockets(), 1);
    finish(read[0]);
    cr_assert_eq(read[1]->r.state, XH_REQ_RUNNING);
    finish(read[1]);
    cr_assert_eq(read[2]->r.state, XH_REQ_RUNNING, "in their order");
    finish(read[2]);
    cr_assert_eq(later[0]->r.state, XH_REQ_RUNNING);
    cr_assert_eq(later[1]->r.state, XH_REQ_QUEUED);
}

Test(endpoint, a_stream_whose_reader_has_come_does_not_wait_when_it_is_sent_again, .init = fresh)
{
    known_and_fast();
    struct load *stands = ask_stream(0), *read = ask_stream(1);
    start();
    cr_assert_eq(read->r.state, XH_REQ_QUEUED);
    read->job.speculative = 0;
    xh_endpoint_promote(&read->r);
    now += (uint64_t)xh_link_opening_ns(&e->link);
    start();
    cr_assert_eq(read->r.state, XH_REQ_RUNNING);
    finish(read);
    read->used = 1;
    for (unsigned i = 0; i < THREADS; i++)
        *xh_endpoint_sockets(e, i) = e->thread[i].active;
    cr_assert_eq(xh_endpoint_queue(&read->r, XH_PLACE_AGAIN), 0);
    start();
    cr_assert_eq(read->r.state, XH_REQ_RUNNING);
    cr_assert_eq(stands->r.state, XH_REQ_RUNNING);
}

/* The server hung up on it, and another stream stands still: what waits for a connection that is there holds up
 * nobody. */
Test(endpoint, a_patient_stream_that_is_sent_again_waits_behind_all_others, .init = fresh)
{
    known_and_fast();
    struct load *patient = ask_stream(1);
    start();
    cr_assert_eq(patient->r.state, XH_REQ_RUNNING);
    struct load *stands = ask_stream(0);
    start();
    cr_assert_eq(stands->r.state, XH_REQ_RUNNING);
    finish(patient);
    patient->used = 1;
    for (unsigned i = 0; i < THREADS; i++)
        *xh_endpoint_sockets(e, i) = e->thread[i].active;
    cr_assert_eq(xh_endpoint_queue(&patient->r, XH_PLACE_AGAIN), 0);
    start();
    cr_assert_eq(patient->r.state, XH_REQ_QUEUED);
    struct load *demand = ask(0);
    start();
    cr_assert_eq(demand->r.state, XH_REQ_RUNNING);
    finish(demand);
    cr_assert_eq(patient->r.state, XH_REQ_RUNNING, "there is a connection for it");
}

Test(endpoint, only_streams_never_keep_a_request_waiting, .init = fresh)
{
    known_and_fast();
    origin.options.connections = 2;
    struct load *stream[2] = {ask_stream(0), ask_stream(0)};
    start();
    struct load *one = ask(0), *more = ask(0);
    start();
    cr_assert_eq(stream[0]->r.state, XH_REQ_RUNNING);
    cr_assert_eq(stream[1]->r.state, XH_REQ_RUNNING);
    cr_assert_eq(one->r.state, XH_REQ_RUNNING, "they may wait for the reader of this");
    cr_assert_eq(more->r.state, XH_REQ_QUEUED);
}

/* Such a stream may go on for as long as its file is. */
Test(endpoint, at_a_servers_limit_one_stream_leaves_for_demand_though_it_goes_on, .init = fresh)
{
    static struct xh_exchange going[3];
    struct load *stream[3];
    known_and_fast();
    for (int i = 0; i < 3; i++)
        stream[i] = ask_stream(0);
    start();
    for (int i = 0; i < 3; i++)
        stream[i]->r.exchange = &going[i];
    stream[0]->stream.goes_on = 1;
    promote(stream[1]);
    xh_limits_serves(&e->limits, 3, now);
    struct load *guess = ask(1);
    start();
    for (int i = 0; i < 3; i++)
        cr_expect_eq(stream[i]->r.leaves, XH_LEAVES_NOT, "%d: not for a guess", i);
    cr_expect_eq(guess->r.state, XH_REQ_QUEUED);
    struct load *one = ask(0), *more = ask(0);
    start();
    cr_assert_eq(one->r.state, XH_REQ_QUEUED);
    cr_expect_eq(stream[0]->r.leaves, XH_LEAVES_NOT, "others may wait for it");
    cr_expect_eq(stream[1]->r.leaves, XH_LEAVES_NOT, "its reader waits");
    cr_expect_eq(stream[2]->r.leaves, XH_LEAVES_FLOWING);
    struct load *again = make(1, 100 * MIB);
    again->stream.full = never_full;
    again->job.transfer = &again->stream;
    cr_assert_eq(xh_endpoint_queue(&again->r, XH_PLACE_AGAIN), 0);
    finish(stream[2]);
    cr_expect_eq(one->r.state, XH_REQ_RUNNING);
    finish(one);
    cr_expect_eq(more->r.state, XH_REQ_RUNNING, "one after another");
    finish(more);
    cr_expect_eq(again->r.state, XH_REQ_RUNNING, "what streams waits for that");
}

Test(endpoint, a_limit_that_has_run_out_is_seen_though_nothing_happens, .init = fresh)
{
    known_and_fast();
    ask_stream(0);
    start();
    xh_limits_serves(&e->limits, 1, now);
    struct load *guess = ask(1);
    start();
    xh_endpoints_look(now);
    cr_assert_eq(guess->r.state, XH_REQ_QUEUED);
    now += XH_WIDEN_NS;
    xh_endpoints_look(now);
    cr_expect_neq(guess->r.state, XH_REQ_QUEUED);
}

/* A guess that was refused is sent again, but nobody waits for it. */
Test(endpoint, at_a_servers_limit_no_stream_leaves_for_a_guess_that_was_refused, .init = fresh)
{
    static struct xh_exchange going;
    known_and_fast();
    struct load *stream = ask_stream(0);
    start();
    stream->r.exchange = &going;
    xh_limits_serves(&e->limits, 1, now);
    struct load *guess = make(1, MIB);
    cr_assert_eq(xh_endpoint_queue(&guess->r, XH_PLACE_AGAIN), 0);
    start();
    cr_expect_eq(stream->r.leaves, XH_LEAVES_NOT);
    struct load *one = ask(0);
    start();
    cr_expect_eq(stream->r.leaves, XH_LEAVES_FLOWING, "for the demand behind it");
    finish(stream);
    cr_expect_eq(one->r.state, XH_REQ_RUNNING);
    cr_expect_eq(guess->r.state, XH_REQ_QUEUED);
}

Test(endpoint, a_stream_that_is_not_patient_begins_at_once_on_its_objects_thread, .init = fresh)
{
    known_and_fast();
    ask(0), ask(0), ask(1);
    start();
    struct load *stream[4];
    for (int i = 0; i < 4; i++)
        stream[i] = ask_stream(0);
    cr_assert_eq(e->queued_bytes, 2 * MIB, "what a stream brings is its reader's affair");
    finish(&loads[0]);
    finish(&loads[1]);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(stream[i]->r.state, XH_REQ_RUNNING);
        cr_assert_eq(stream[i]->r.thread, stream[0]->r.thread);
    }
}

Test(endpoint, a_promoted_stream_goes_before_speculation, .init = fresh)
{
    known_and_fast();
    struct load *first = ask(0), *second = ask(0);
    *xh_endpoint_sockets(e, 0) = 2;
    start();
    struct load *guess = ask(1), *stream = ask_stream(1);
    start();
    cr_assert(guess->r.state == XH_REQ_QUEUED && stream->r.state == XH_REQ_QUEUED);
    promote(stream);
    start();
    cr_assert_eq(stream->r.state, XH_REQ_QUEUED, "a connection will be free sooner than a new one is there");
    finish(first);
    cr_assert(guess->r.state == XH_REQ_QUEUED && stream->r.state == XH_REQ_RUNNING);
    finish(second);
    cr_assert_eq(guess->r.state, XH_REQ_RUNNING);
    cr_assert_eq(sockets(), 2);
}

Test(endpoint, a_promoted_stream_is_opened_for_like_demand_and_holds_none_up, .init = fresh)
{
    known(1, 100 * MIB); /* a second for what is under way */
    ask(0);
    start();
    struct load *stream = ask_stream(1);
    start();
    cr_assert_eq(stream->r.state, XH_REQ_QUEUED, "while nobody waits for it");
    promote(stream);
    struct load *demand = ask(0);
    start();
    cr_assert_eq(stream->r.state, XH_REQ_QUEUED, "a grown connection may soon be free");
    cr_assert_eq(demand->r.state, XH_REQ_RUNNING);
    now += (uint64_t)xh_link_opening_ns(&e->link);
    start();
    cr_assert_eq(stream->r.state, XH_REQ_RUNNING);
}

Test(endpoint, a_promoted_stream_that_was_none_of_the_guesses_keeps_its_place, .init = fresh)
{
    known_and_fast();
    struct load *first = ask(0);
    start();
    struct load *before = ask(0), *stream = ask_stream(0), *behind = ask(0);
    promote(stream);
    finish(first);
    cr_assert_eq(before->r.state, XH_REQ_RUNNING);
    cr_assert_eq(stream->r.state, XH_REQ_RUNNING);
    cr_assert_eq(behind->r.state, XH_REQ_QUEUED);
}

/* ---- new connections --------------------------------------------------------------------- */

/* Two connections are busy with 1 MiB each, and |n| times |bytes| wait. Returns how many connections there
 * are then. */
static unsigned connections_for(unsigned n, uint64_t bytes, int speculative)
{
    while (sockets() < 2) { /* these are there */
        ask(0);
        *xh_endpoint_sockets(e, sockets() % THREADS) += 1;
        start();
    }
    for (unsigned i = 0; i < n; i++)
        queue(make(speculative, bytes));
    start();
    return sockets();
}

Test(endpoint, beside_young_connections_a_new_one_is_not_opened_for_a_modest_queue_of_large_parts, .init = fresh)
{
    known(2, MIB);
    cr_assert_eq(connections_for(4, MIB, 0), 2, "slow start takes as long as the queue does");
}

Test(endpoint, who_has_waited_as_long_as_a_connection_takes_gets_one, .init = fresh)
{
    known(2, MIB);
    connections_for(4, MIB, 0);
    uint64_t left = xh_endpoints_look(now);
    cr_assert_eq(left, (uint64_t)(2 * e->link.rtt_ns) + 5 * MS, "the way there, and the handshake");
    now += left - 1;
    cr_assert_eq(xh_endpoints_look(now), 1);
    cr_assert_eq(sockets(), 2);
    now += 1;
    xh_endpoints_look(now);
    start();
    cr_assert_eq(sockets(), 6, "the busy ones do not bring what was expected of them");
    cr_assert_eq(xh_endpoints_look(now), UINT64_MAX, "nobody waits any more");
}

Test(endpoint, who_waits_for_a_server_that_is_left_alone_waits_for_no_connection, .init = fresh)
{
    known(100, 1000ull * MIB);
    connections_for(0, 0, 0);
    xh_endpoint_hold(e, 60000);
    for (int i = 0; i < 2; i++)
        queue(make(0, 1000));
    now += 60000ull * MS;
    xh_endpoints_look(now);
    start();
    cr_assert_eq(sockets(), 2, "it asked for less, and gets no more connections for that");
    uint64_t left = xh_endpoints_look(now);
    cr_assert_eq(left, (uint64_t)(2 * e->link.rtt_ns) + 5 * MS, "from now on they wait for one");
}

Test(endpoint, what_nobody_waits_for_is_not_opened_for_by_waiting, .init = fresh)
{
    known(2, MIB);
    connections_for(4, MIB, 1);
    unsigned before = sockets();
    now += 1000 * MS;
    cr_assert_eq(xh_endpoints_look(now), UINT64_MAX);
    start();
    cr_assert_eq(sockets(), before);
    promote(&loads[5]); /* it waits from now on */
    cr_assert_eq(xh_endpoints_look(now), (uint64_t)(2 * e->link.rtt_ns) + 5 * MS);
}

/* All connections of a client have died, as its address is another one: what was stuck on them is sent again, guesses
 * too, and those that are still taken for alive would be waited for. */
Test(endpoint, a_guess_that_is_sent_again_keeps_no_demand_waiting_for_connections_that_are_busy, .init = fresh)
{
    known(2, MIB);
    connections_for(0, 0, 0);
    struct load *guess = make(1, MIB), *demand = make(0, MIB);
    cr_assert_eq(xh_endpoint_queue(&guess->r, XH_PLACE_AGAIN), 0);
    cr_assert_eq(xh_endpoint_queue(&demand->r, XH_PLACE_AGAIN), 0);
    start();
    cr_assert_eq(guess->r.state, XH_REQ_QUEUED, "the busy ones are expected to end soon");
    uint64_t left = xh_endpoints_look(now);
    cr_assert_eq(left, (uint64_t)(2 * e->link.rtt_ns) + 5 * MS, "it goes before the demand, which would wait for it");
    now += left;
    xh_endpoints_look(now);
    start();
    cr_assert_eq(guess->r.state, XH_REQ_RUNNING);
    cr_assert_eq(demand->r.state, XH_REQ_RUNNING);
}

/* |l| was given up on its connection, and is sent again: it gets a new one once it has waited as long as opening one
 * takes, though |active| requests run already, and there is an idle connection. */
static void gets_a_new_connection(struct load *l, unsigned active)
{
    e = xh_endpoint_find(url.server);
    cr_assert_eq(e->active, active);
    unsigned before = sockets();
    l->r.stuck = XH_STUCK_ONCE;
    cr_assert_eq(xh_endpoint_queue(&l->r, XH_PLACE_AGAIN), 0);
    now += 1 + (uint64_t)xh_link_opening_ns(&e->link);
    xh_endpoints_look(now);
    start();
    cr_assert_eq(l->r.state, XH_REQ_RUNNING);
    cr_assert(l->r.fresh || sockets() > before, "those that are there may be as dead");
}

Test(endpoint, what_is_given_up_on_its_connection_gets_a_new_one_though_others_are_busy, .init = fresh)
{
    known(2, 1000ull * MIB);
    e->trial.paying = 2;
    connections_for(6, MIB, 0);
    start();
    unsigned busy = e->active;
    cr_assert_leq(busy, 3, "no more pay: %u", busy);
    for (struct load *l = loads; l < loads + MOST; l++)
        if (l->used && l->r.state == XH_REQ_QUEUED) {
            xh_endpoint_take(&l->r);
            l->used = 0;
        }
    gets_a_new_connection(make(1, MIB), busy);
    *xh_endpoint_sockets(e, 0) += 1; /* one idles */
    gets_a_new_connection(make(0, MIB), busy + 1);
    struct load *stream = make(1, 100 * MIB);
    stream->stream = (struct xh_transfer){.full = never_full, .patient = 1};
    stream->job.transfer = &stream->stream;
    *xh_endpoint_sockets(e, 0) -= 1;
    gets_a_new_connection(stream, busy + 2);
}

Test(endpoint, beside_old_slow_connections_a_new_one_is_opened_for_large_parts, .init = fresh)
{
    known(2, 100 * MIB);
    cr_assert_eq(connections_for(4, MIB, 0), 6);
}

Test(endpoint, beside_young_connections_new_ones_are_opened_for_a_long_queue, .init = fresh)
{
    known(2, MIB);
    cr_assert_gt(connections_for(60, MIB, 0), 2);
}

/* ---- what is open ------------------------------------------------------------------------- */

static struct xh_origin_info facts(void)
{
    struct xh_origin_info info = {0};
    xh_endpoint_open(e, &info);
    return info;
}

Test(endpoint, young_connections_do_not_idle_where_as_many_others_have_found_their_speed, .init = fresh)
{
    known_and_fast();
    for (unsigned i = 0; i < THREADS; i++)
        *xh_endpoint_sockets(e, i) = 2;
    cr_assert_eq(facts().idle, 2 * THREADS, "none has found its speed");
    e->thread[0].brought = 8e6;
    cr_assert_eq(facts().idle, 2, "the young ones would keep the read waiting");
    for (unsigned i = 1; i < THREADS; i++)
        *xh_endpoint_sockets(e, i) = 3;
    cr_assert_eq(facts().idle, 2 + 3 * (THREADS - 1), "the two alone would do the work of many");
}

Test(endpoint, connections_are_told_by_what_they_do, .init = fresh)
{
    struct xh_origin_info i = {.open = 9, .idle = 9, .warm = 9};
    xh_endpoint_open(NULL, &i);
    cr_assert(!i.open && !i.idle && !i.warm, "an unknown server");
    struct load *l[4];
    for (int k = 0; k < 4; k++)
        l[k] = ask(0);
    start();
    e->link.rtt_ns = 50 * MS;
    e->link.connection_rate = 1e-2;
    i = facts();
    cr_assert(i.open == 4 && i.idle == 0 && i.warm == 0, "all four are being opened");
    finish(l[0]);
    finish(l[1]);
    i = facts();
    cr_assert(i.open == 4 && i.idle == 2 && i.warm == 2, "%u %u %u", i.open, i.idle, i.warm);
    ask(0);
    start();
    i = facts();
    cr_assert(i.idle == 1 && i.warm == 2, "what has one that was there is soon done with it");
    ask_stream(1);
    start();
    i = facts();
    cr_assert(i.idle == 0 && i.warm == 1, "a stream is not");
}

/* ---- stragglers ------------------------------------------------------------------------- */

static struct xh_range wanted = {0, MIB};
static struct xh_transfer transfer = {.ranges = &wanted, .nranges = 1};

/* |l| runs and has brought |came| bytes, the last of them |quiet_ms| ago. */
static struct xh_exchange *progress(struct load *l, struct xh_exchange *x, uint64_t came, uint64_t quiet_ms)
{
    l->job.transfer = &transfer;
    l->job.got = &l->job.got_one;
    l->job.got_one = came;
    *x = (struct xh_exchange){.request = &l->r, .job = &l->job, .transfer = &transfer, .got = l->job.got,
                              .asked_end = 1,
                              .body_bytes = came, .fresh = came,
                              .sent_ns = l->sent_ns, .first_ns = l->sent_ns + 10 * MS, .last_ns = now - quiet_ms * MS};
    l->r.exchange = x;
    return x;
}

/* A peer that ended just now, and was silent for |quiet_ms| once; |took_ms| 0: too short to have a rate. */
static void peer(uint64_t quiet_ms, uint64_t took_ms)
{
    struct load l = {.job.origin = &origin};
    struct xh_exchange x = {.job = &l.job, .body_bytes = MIB, .fresh = MIB, .quiet_ns = quiet_ms * MS,
                            .first_ns = now - took_ms * MS, .last_ns = now};
    xh_hedge_note(&e->peers, &x);
}

/* How long |x| has to wait where a round trip takes |rtt_ms|. */
static uint64_t wait_of(const struct xh_exchange *x, double rtt_ms)
{
    return xh_hedge_wait(&e->peers, rtt_ms * MS, x, now);
}

Test(endpoint, silence_is_a_straggler_by_what_the_servers_replies_have_taken, .init = fresh)
{
    struct xh_exchange x;
    struct load *l = ask(0);
    start();
    now += 1000 * MS;
    cr_assert_gt(wait_of(progress(l, &x, 1000, 900), 10), 0, "nothing is known of the server");
    peer(40, 0);
    cr_assert_eq(wait_of(&x, 10), 0);
    cr_assert_eq(wait_of(progress(l, &x, 1000, 161), 10), 0);
    cr_assert_eq(wait_of(progress(l, &x, 1000, 150), 10), 10 * MS, "four times the longest silence");
    cr_assert_eq(wait_of(progress(l, &x, 1000, 150), 45), 30 * MS, "four round trips");
    cr_assert_gt(wait_of(progress(l, &x, MIB, 900), 10), 0, "all bytes came");
    for (unsigned i = 0; i < XH_PEERS; i++)
        peer(0, 0);
    cr_assert_eq(wait_of(progress(l, &x, 1000, 70), 0.1), 30 * MS, "a busy server");
    peer(250, 0);
    cr_assert_gt(wait_of(progress(l, &x, 1000, 900), 10), 0, "a peer was silent as well");
    for (unsigned i = 0; i < XH_PEERS; i++)
        peer(20, 0);
    cr_assert_eq(wait_of(&x, 10), 0, "that was long ago");
}

Test(endpoint, what_has_no_connection_for_long_is_asked_for_again_as_what_is_silent, .init = fresh)
{
    struct xh_exchange x = {0};
    struct load *l = ask(0);
    xh_ring_init(&l->job.requests);
    start();
    now += 5000 * MS;
    progress(l, &x, 0, 0);
    x.last_ns = x.first_ns = x.sent_ns = 0;
    x.begun_ns = now - 1900 * MS;
    cr_assert_eq(wait_of(&x, 10), 100 * MS);
    cr_assert_neq(xh_endpoint_hedge(&l->r), 0);
    x.begun_ns = now - 2000 * MS;
    cr_assert_gt(wait_of(&x, 600), 0, "four round trips are longer");
    cr_assert_eq(wait_of(&x, 10), 0);
    cr_assert_eq(xh_endpoint_hedge(&l->r), 0);
    struct xh_request *twin = l->r.twin;
    cr_assert(twin->fresh && twin->opens, "what idles may be as dead");
    xh_endpoint_take(twin);
    free(twin);
    cr_assert(!xh_hedge_is_heard(10 * MS, &x, x.begun_ns + 20 * MS) && xh_hedge_is_heard(10 * MS, &x, now));
}

Test(endpoint, what_is_silent_for_long_is_asked_for_again_alone_and_one_at_a_time, .init = fresh)
{
    struct xh_exchange x[2];
    struct load *l[2] = {ask(0), ask(0)};
    for (int i = 0; i < 2; i++)
        xh_ring_init(&l[i]->job.requests);
    start();
    now += 5000 * MS;
    cr_assert_gt(wait_of(progress(l[0], &x[0], 1000, 1900), 10), 0, "not for long yet");
    cr_assert_neq(xh_endpoint_hedge(&l[0]->r), 0);
    cr_assert_eq(wait_of(progress(l[0], &x[0], 1000, 2100), 10), 0);
    cr_assert_gt(wait_of(&x[0], 600), 0, "a long round trip");
    cr_assert_eq(xh_endpoint_hedge(&l[0]->r), 0);
    progress(l[1], &x[1], 1000, 4000);
    cr_assert_neq(xh_endpoint_hedge(&l[1]->r), 0, "one at a time");
    struct xh_request *twin = l[0]->r.twin;
    xh_endpoint_take(twin);
    free(twin);
    origin.processes = 16;
    cr_assert_eq(xh_endpoint_hedge(&l[1]->r), 0, "also where this process has its share of connections already");
    twin = l[1]->r.twin;
    xh_endpoint_take(twin);
    free(twin);
    cr_assert_eq(e->peers.hedges, 0);
    cr_assert_eq(e->peers.replies, 0);
}

/* 1 where |x|, of which |left| bytes are not there after |kb| KiB in |ms|, lags behind two peers that brought
 * |peer_kb_per_ms|. */
static int lags(unsigned kb, unsigned left_kb, unsigned ms, unsigned peer_kb_per_ms,
                unsigned peers)
{
    struct xh_range range = {0, (uint64_t)(kb + left_kb) << 10};
    uint64_t got = (uint64_t)kb << 10;
    struct xh_transfer t = {.ranges = &range, .nranges = 1};
    struct xh_exchange x = {.transfer = &t, .got = &got, .asked_end = 1, .body_bytes = got,
                            .sent_ns = now - (ms + 50) * MS, .first_ns = now - ms * MS, .last_ns = now};
    struct xh_peers p = {0};
    for (unsigned i = 0; i < peers; i++) {
        p.last[i].end_ns = now - 10 * MS;
        p.last[i].rate = peer_kb_per_ms * 1024 / 1e6;
    }
    return xh_hedge_lags(&p, 50 * MS, &x, now);
}

Test(endpoint, what_lags_is_asked_for_twice_where_that_ends_a_round_trip_sooner, .init = fresh)
{
    now += 100000 * MS;
    cr_assert(lags(100, 1900, 150, 40, 2), "216 ms, where it still grows; another one 98");
    cr_assert_not(lags(100, 1900, 150, 12, 2), "another one 208");
    cr_assert_not(lags(1000, 1000, 150, 40, 2), "50 ms; another one 75");
    cr_assert(lags(1000, 1000, 1500, 40, 2) == 0, "the same after 1.5 s: it may be doubling yet");
    cr_assert(lags(100, 19000, 1500, 400, 2), "382 ms; another one 98");
    cr_assert_not(lags(100, 1900, 150, 40, 1), "one peer tells nothing");
    cr_assert_not(lags(0, 2000, 150, 100, 2), "nothing came yet");
}

/* How long a stream has to wait that was silent for |quiet_ms|, and before for |paused_ms| at most, where the server
 * was heard |heard_ms| ago. */
static uint64_t stuck_as(struct xh_peers *p, double rtt_ms, uint64_t quiet_ms, uint64_t paused_ms, uint64_t heard_ms)
{
    struct xh_exchange x = {.last_ns = now - quiet_ms * MS, .quiet_ns = paused_ms * MS};
    return xh_hedge_stuck(p, rtt_ms * MS, &x, now - heard_ms * MS, now);
}

static uint64_t stuck(struct xh_peers *p, double rtt_ms, uint64_t quiet_ms, uint64_t heard_ms)
{
    return stuck_as(p, rtt_ms, quiet_ms, 0, heard_ms);
}

Test(endpoint, a_stream_that_is_silent_for_long_is_stuck_while_its_server_is_heard, .init = fresh)
{
    struct xh_peers p = {0};
    now += 100000 * MS;
    struct xh_peers of_opening = {.heard_ns = now - 2000 * MS};
    struct xh_exchange opening = {.begun_ns = now - 1900 * MS};
    p.heard_ns = now - 2000 * MS;
    cr_assert_eq(xh_hedge_stuck(&of_opening, 10 * MS, &opening, now, now), 100 * MS, "still being connected");
    opening.begun_ns -= 100 * MS;
    cr_assert_eq(xh_hedge_stuck(&of_opening, 10 * MS, &opening, now, now), 0);
    cr_assert_eq(stuck(&p, 10, 1990, 0), 10 * MS);
    cr_assert_eq(stuck(&p, 600, 2000, 0), 400 * MS, "four round trips");
    cr_assert_eq(stuck_as(&p, 10, 2000, 700, 0), 800 * MS, "four times its longest silence");
    cr_assert_eq(stuck(&p, 10, 2000, 0), 0);
    cr_assert_eq(stuck(&p, 10, 2000, 0), 0, "another one, at the same time");
}

/* What came in place of one that was given up has brought |fresh| bytes for |for_ms|, and then been silent for
 * |quiet_ms|. Returns how long (ms) one may be silent then. */
static uint64_t judged(struct xh_peers *p, uint64_t fresh, uint64_t for_ms, uint64_t quiet_ms)
{
    struct xh_exchange x = {.fresh = fresh, .sent_ns = now - (for_ms + quiet_ms) * MS, .last_ns = now - quiet_ms * MS};
    xh_hedge_judge(p, 10 * MS, &x, now);
    return stuck(p, 10, 0, 0) / MS;
}

Test(endpoint, a_reply_that_is_given_up_in_vain_doubles_the_time, .init = fresh)
{
    struct xh_peers p = {0};
    struct xh_exchange calm = {.fresh = 1, .last_ns = 1};
    now += 100000 * MS;
    cr_assert_eq(judged(&p, 1, 100, 0), 2000, "it has come");
    cr_assert_eq(judged(&p, 1, 5000, 2000), 2000, "it had come for long");
    cr_assert_eq(judged(&p, 1, 100, 2000), 4000);
    cr_assert_eq(judged(&p, 0, 100, 2000), 4000, "many at once are one lesson");
    for (int i = 0; i < 100; i++) {
        now += 40000 * MS;
        judged(&p, 0, 0, 2000);
    }
    cr_assert_eq(stuck(&p, 10, 0, 0) / MS, 32000, "at most");
    for (unsigned i = 0; i < XH_PEERS; i++)
        xh_hedge_note(&p, &calm);
    cr_assert_eq(stuck(&p, 10, 0, 0) / MS, 16000, "some replies were never silent");
    cr_assert_eq(judged(&p, 1, 100, 0), 2000);
}

Test(endpoint, where_no_connection_is_heard_one_stream_alone_is_given_up, .init = fresh)
{
    struct xh_peers p = {0};
    now += 100000 * MS;
    p.heard_ns = now - 2000 * MS;
    cr_assert_eq(xh_hedge_stuck(&p, 10 * MS, &(struct xh_exchange){.last_ns = now - 2000 * MS}, 0, now), 0,
                 "it was never heard");
    p.anew_ns = 0;
    cr_assert_eq(stuck(&p, 10, 2000, 1980), 0, "what was under way");
    cr_assert_gt(stuck(&p, 10, 2000, 1980), 0);
    now += 8000 * MS;
    cr_assert_gt(stuck(&p, 10, 10000, 9980), 0, "nothing has come of that");
    struct load *given_up = ask(1);
    uint64_t heard = e->peers.heard_ns;
    e->peers = p;
    xh_endpoint_stuck_is_over(&given_up->r);
    cr_assert_eq(stuck(&e->peers, 10, 10000, 9980), 0, "that has failed: another one is tried");
    e->peers.heard_ns = heard;
    cr_assert_eq(stuck(&p, 10, 10000, 0), 500 * MS, "now the server is back: the others may go on where they were");
    now += 500 * MS;
    cr_assert_eq(stuck(&p, 10, 10500, 0), 0);
    now += 20000 * MS;
    struct xh_exchange x = {.last_ns = now - 20000 * MS};
    cr_assert_eq(xh_hedge_stuck(&p, 10 * MS, &x, now + MS, now), 500 * MS,
                 "another thread has heard it since the clock was read");
}

Test(endpoint, a_trickle_is_a_straggler_only_beside_faster_peers, .init = fresh)
{
    struct xh_exchange x;
    struct load *l = ask(0);
    start();
    now += 400 * MS;
    peer(10, 100);
    peer(10, 100);
    progress(l, &x, 20000, 1);
    cr_assert_gt(wait_of(&x, 10), 0, "too young");
    now += 200 * MS;
    cr_assert_eq(wait_of(progress(l, &x, 20000, 1), 10), 0);
    cr_assert_gt(wait_of(&x, 50), 0, "slow start");
    cr_assert_gt(wait_of(progress(l, &x, MIB - 500, 1), 10), 0, "soon over");
    peer(10, 20000);
    cr_assert_gt(wait_of(progress(l, &x, 20000, 1), 10), 0, "a peer was as slow");
}

Test(endpoint, looking_for_stragglers_never_spins, .init = fresh)
{
    unsigned seed = 3;
    struct xh_exchange x;
    struct load *l = ask(0);
    start();
    for (int i = 0; i < 100000; i++) {
        now += (uint64_t)rand_r(&seed) % (300 * MS);
        if (rand_r(&seed) % 8 == 0)
            peer((uint64_t)rand_r(&seed) % 100, (uint64_t)rand_r(&seed) % 1000);
        if (rand_r(&seed) % 50 == 0)
            l->sent_ns = now - (uint64_t)rand_r(&seed) % (900 * MS);
        uint64_t age_ms = (now - l->sent_ns) / MS;
        progress(l, &x, (uint64_t)rand_r(&seed) % MIB, (uint64_t)rand_r(&seed) % (age_ms + 1));
        uint64_t wait = wait_of(&x, 10);
        cr_assert(wait == 0 || wait < (uint64_t)1 << 40);
    }
    /* With a deadline kept, the next look is not at once. */
    now = l->sent_ns + (uint64_t)100000 * MS;
    progress(l, &x, 1000, 1900);
    memset(&e->peers, 0, sizeof e->peers);
    cr_assert_geq(wait_of(&x, 10), 50 * MS);
}

Test(endpoint, few_requests_are_hedged_on_the_same_thread_and_counted, .init = fresh)
{
    struct xh_exchange x[4];
    struct load *l[4];
    for (int i = 0; i < 4; i++) {
        l[i] = ask(0);
        xh_ring_init(&l[i]->job.requests);
    }
    start();
    for (int i = 0; i < 4; i++)
        progress(l[i], &x[i], 1000, 0);
    cr_assert_neq(xh_endpoint_hedge(&l[0]->r), 0, "nothing is known of the server");
    for (int i = 0; i < 100; i++)
        peer(20, 40);
    unsigned active = e->active;
    l[0]->r.chain.n = 1;
    cr_assert_neq(xh_endpoint_hedge(&l[0]->r), 0, "it would go without the cookies of the redirect");
    l[0]->r.chain.n = 0;
    cr_assert_eq(xh_endpoint_hedge(&l[0]->r), 0);
    struct xh_request *twin = l[0]->r.twin;
    cr_assert(twin && twin->twin == &l[0]->r && twin->thread == l[0]->r.thread && twin->state == XH_REQ_BOUND);
    cr_assert_eq(e->active, active + 1);
    cr_assert_eq(xh_endpoint_hedge(&l[1]->r), 0);
    cr_assert_neq(xh_endpoint_hedge(&l[2]->r), 0, "two at once");
    xh_endpoint_take(twin);
    free(twin);
    cr_assert_neq(xh_endpoint_hedge(&l[2]->r), 0, "one reply in eight");
    for (int i = 0; i < 8; i++)
        peer(20, 40);
    origin.options.connections = e->active;
    cr_assert_neq(xh_endpoint_hedge(&l[2]->r), 0, "no more connections than the option allows");
    origin.options.connections++;
    cr_assert_eq(xh_endpoint_hedge(&l[2]->r), 0);
    for (int i = 1; i < 3; i++) {
        twin = l[i]->r.twin;
        xh_endpoint_take(twin);
        free(twin);
    }
    cr_assert_eq(e->active, active);
    cr_assert_eq(e->peers.hedges, 0);
}

/* The transfer's request of |l|, in place of |l|'s own, is sent. */
static struct xh_request *run_alone(struct load *l, struct xh_exchange *x)
{
    struct xh_request *r = &l->job.first_request;
    progress(l, x, 100, 0);
    *r = (struct xh_request){.job = &l->job, .end = 1, .exchange = x};
    x->request = r;
    x->asked_bytes = 1000;
    x->turn = XH_PROXY_FREE;
    xh_ring_init(&l->job.requests);
    xh_ring_init(&l->job.in_finished);
    xh_ring_put_last(&l->job.requests, &r->in_job);
    cr_assert_eq(xh_endpoint_queue(r, XH_PLACE_LAST), 0);
    e = xh_endpoint_find(url.server);
    xh_endpoint_dispatch(e);
    cr_assert_eq(r->state, XH_REQ_BOUND);
    xh_ring_take(&r->link);
    xh_ring_put_last(&r->thread->running, &r->link);
    r->state = XH_REQ_RUNNING;
    x->sent_ns = x->begun_ns = now;
    return r;
}

Test(endpoint, what_is_left_over_of_a_reply_counts_where_its_request_did_until_it_is_over, .init = fresh)
{
    enum { GUESS = 1, PROMOTED = 2, TWIN_OVER = 4 };
    struct xh_outcome out = {.net = XH_NET_OK};
    for (int kind = 0; kind < 8; kind++) {
        struct xh_exchange x;
        struct load *l = make(kind & GUESS, 1000);
        struct xh_request *r = run_alone(l, &x);
        if (kind & GUESS && kind & PROMOTED) {
            l->job.speculative = 0;
            xh_endpoint_promote(r);
        }
        if (kind & TWIN_OVER)
            r->hedge = (int)(e->peers.hedges = 1);
        e->link.rtt_ns = 50.0 * MS;
        cr_assert_eq(e->active_guesses, kind % 4 == GUESS);
        cr_expect_eq(r->opens, 1);
        cr_assert(xh_rest_begin(r->thread, r), "%d", kind);
        cr_expect_eq(counters.connections, (unsigned)kind + 1, "its file's account has the connection");
        cr_expect_eq(r->state, XH_REQ_OVER);
        cr_expect_eq(e->active, 1);
        cr_expect_eq(e->active_guesses, kind % 4 == GUESS);
        cr_assert(xh_rest_over(&x, &out));
        cr_expect(e->active == 0 && e->active_guesses == 0 && e->active_bytes == 0 && e->opening == 0, "%d", kind);
        cr_expect_eq(e->peers.hedges, 0, "%d", kind);
        l->used = 0;
        for (unsigned i = 0; i < THREADS; i++)
            xh_ring_init(&threads[i].finished);
    }
}

Test(endpoint, sums_are_those_of_a_naive_count, .init = fresh, .timeout = 30)
{
    unsigned seed = 5;
    ask(0);
    for (int step = 0; step < 200000; step++) {
        struct load *l = &loads[(unsigned)rand_r(&seed) % MOST];
        int what = rand_r(&seed) % 8;
        now += MS;
        if (!l->used && what < 4)
            rand_r(&seed) % 4 ? ask(what < 2) : ask_stream(what < 2);
        else if (l->used && l->r.state == XH_REQ_RUNNING && what < 4)
            finish(l);
        else if (l->used && l->job.speculative && what < 6) {
            promote(l);
        } else if (l->used && l->r.state == XH_REQ_QUEUED && what == 7) {
            xh_endpoint_take(&l->r);
            l->used = 0;
        }
        if (what & 1)
            start();
        unsigned queued = 0, active = 0, speculative = 0, streams = 0, opening = 0, in[THREADS] = {0};
        uint64_t queued_bytes = 0, active_bytes = 0;
        for (l = loads; l < loads + 4 * MOST; l++) {
            int runs = l->used && l->r.state == XH_REQ_RUNNING, is_stream = l->job.transfer != NULL;
            queued += l->used && !runs;
            queued_bytes += l->used && !runs && !is_stream ? MIB : 0;
            active += (unsigned)runs;
            active_bytes += runs && !is_stream ? MIB : 0;
            speculative += runs && !is_stream && l->job.speculative;
            streams += runs && is_stream;
            opening += runs ? l->r.opens : 0;
            if (runs)
                in[l->r.thread->index]++;
            cr_assert(!l->r.opens || (runs && !is_stream));
        }
        cr_assert_eq(e->queued_requests, queued, "step %d", step);
        cr_assert_eq(e->queued_bytes, queued_bytes);
        cr_assert_eq(e->active, active);
        cr_assert_eq(e->active_bytes, active_bytes);
        cr_assert_eq(e->active_guesses, speculative);
        cr_assert_eq(e->streams, streams);
        cr_assert_eq(e->opening, opening);
        for (unsigned i = 0; i < THREADS; i++)
            cr_assert_eq(e->thread[i].active, in[i]);
    }
}

Test(endpoint, a_server_cannot_make_us_know_servers_without_end, .init = fresh)
{
    static char names[5000][32];
    int made = 0;
    for (int i = 0; i < 5000; i++) {
        snprintf(names[i], sizeof *names, "http://host:%d", i);
        url.server = names[i];
        made += xh_endpoint_queue(&make(0, MIB)->r, XH_PLACE_LAST) == 0;
        if (made <= i)
            break;
        loads[0].used = 0;
    }
    cr_expect_eq(made, 4096);
    loads[0].used = 0;
    url.server = names[0];
    cr_expect_eq(xh_endpoint_queue(&make(0, MIB)->r, XH_PLACE_LAST), 0, "who is known is asked");
}
