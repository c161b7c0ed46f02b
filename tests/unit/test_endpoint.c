/* The scheduler of a server's requests, on a clock and a link made here: who goes first, how many
 * connections are tried, what is a straggler, and that its sums stay those of a naive count. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "origin/endpoint.h"
#include "trace.h"

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
struct xh_url *xh_request_url(const struct xh_request *r) { (void)r; return &url; }
void xh_request_enter(struct xh_request *r, enum xh_request_state state) { r->state = state; }
void xh_request_weigh(struct xh_request *r) { r->queued_bytes = MIB, r->queued_requests = 1; }

/* ---- the link: so much a connection, so much in all ------------------------------------- */

static struct load {
    struct xh_request r;
    struct xh_job job;
    double left; /* bytes to come, once it runs */
    uint64_t sent_ns;
    int used;
} loads[4 * MOST];

static struct xh_endpoint *e;
static struct xh_exchange reply;

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
    }
    origin.counters = &counters;
}

static struct load *ask(int speculative)
{
    struct load *l = loads;
    while (l->used)
        l++;
    *l = (struct load){.job = {.origin = &origin, .speculative = speculative}, .left = MIB, .used = 1};
    l->r.job = &l->job;
    cr_assert_eq(xh_endpoint_queue(&l->r, XH_PLACE_LAST), 0);
    e = xh_endpoint_find(url.server);
    return l;
}

/* What the threads do with their inboxes. */
static void start(void)
{
    xh_endpoint_dispatch(e);
    for (unsigned i = 0; i < THREADS; i++) {
        while (!xh_ring_empty(&threads[i].inbox)) {
            struct load *l = xh_ring_of(xh_ring_take_first(&threads[i].inbox), struct load, r.link);
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
    reply = (struct xh_exchange){.job = &l->job, .body_bytes = MIB, .sent_ns = l->sent_ns,
                                 .first_ns = l->sent_ns + 10 * MS, .last_ns = now};
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
        e->paying = 0;
        e->rtt_ns = 0;
        start();
        now += cases[i].rtt_ms * MS;
        reply = (struct xh_exchange){.job = &l->job, .sent_ns = l->sent_ns, .first_ns = now, .last_ns = now};
        xh_endpoint_release(&l->r, &reply);
        l->used = 0;
        cr_assert_eq(xh_endpoint_paying(e), cases[i].connections, "%u ms: %u", cases[i].rtt_ms, xh_endpoint_paying(e));
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
    e->paying = 8;
    start();
    cr_assert_eq(e->active, 3, "one stays free");
    struct load *first = ask(0), *second = ask(0);
    start();
    cr_assert_eq(first->r.state, XH_REQ_RUNNING, "at once");
    cr_assert_eq(second->r.state, XH_REQ_QUEUED);
    finish(guess[0]);
    cr_assert_eq(second->r.state, XH_REQ_RUNNING, "before the guesses that waited longer");
    cr_assert_eq(guess[3]->r.state, XH_REQ_QUEUED);
    guess[5]->job.speculative = 0;
    xh_endpoint_promote(&guess[5]->r);
    finish(first);
    cr_assert_eq(guess[5]->r.state, XH_REQ_RUNNING, "a guess that is waited for is demand");
}

Test(endpoint, a_connection_opened_for_speculation_begins_with_what_is_wanted_last, .init = fresh)
{
    origin.options.connections = 4;
    struct load *first = ask(1), *guess[6];
    start();
    now += 50 * MS;
    finish(first);
    e->paying = 8;
    e->arrived = 100 * MIB; /* the connection will not find more speed than it has */
    for (int i = 0; i < 6; i++)
        guess[i] = ask(1);
    start();
    int running[] = {1, 0, 0, 0, 1, 1}; /* on the connection that was there, and on two new ones */
    for (int i = 0; i < 6; i++)
        cr_assert_eq(guess[i]->r.state == XH_REQ_RUNNING, running[i], "%d", i);
    now += 50 * MS;
    finish(guess[0]);
    cr_assert_eq(guess[1]->r.state, XH_REQ_RUNNING);
}

Test(endpoint, scattered_reads_get_more_connections_where_round_trips_are_long, .init = fresh)
{
    ask(1);
    e->rtt_ns = 5 * MS;
    cr_assert_eq(xh_endpoint_most(e, &origin, 1, 1), xh_endpoint_most(e, &origin, 1, 0));
    e->rtt_ns = 100 * MS;
    cr_assert_gt(xh_endpoint_most(e, &origin, 1, 1), xh_endpoint_most(e, &origin, 1, 0));
    origin.options.connections = 4;
    cr_assert_eq(xh_endpoint_most(e, &origin, 1, 1), 4);
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
    *x = (struct xh_exchange){.request = &l->r, .job = &l->job, .asked_end = 1, .body_bytes = came, .fresh = came,
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

Test(endpoint, silence_is_a_straggler_only_beside_peers_that_came, .init = fresh)
{
    struct xh_exchange x;
    struct load *l = ask(0);
    start();
    now += 1000 * MS;
    cr_assert_gt(xh_hedge_wait(&e->peers, 10 * MS, progress(l, &x, 1000, 900), now), 0, "alone");
    now -= 950 * MS;
    peer(20, 0);
    now += 950 * MS;
    cr_assert_gt(xh_hedge_wait(&e->peers, 10 * MS, &x, now), 0, "the peer ended before the silence began");
    peer(20, 0);
    cr_assert_eq(xh_hedge_wait(&e->peers, 10 * MS, &x, now), 0);
    cr_assert_gt(xh_hedge_wait(&e->peers, 10 * MS, progress(l, &x, 1000, 90), now), 0, "not for long yet");
    cr_assert_gt(xh_hedge_wait(&e->peers, 10 * MS, progress(l, &x, MIB, 900), now), 0, "all bytes came");
    cr_assert_gt(xh_hedge_wait(&e->peers, 250 * MS, progress(l, &x, 1000, 900), now), 0, "a long round trip");
    peer(250, 0);
    cr_assert_gt(xh_hedge_wait(&e->peers, 10 * MS, &x, now), 0, "a peer was silent as well");
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
    cr_assert_gt(xh_hedge_wait(&e->peers, 10 * MS, &x, now), 0, "too young");
    now += 200 * MS;
    cr_assert_eq(xh_hedge_wait(&e->peers, 10 * MS, progress(l, &x, 20000, 1), now), 0);
    cr_assert_gt(xh_hedge_wait(&e->peers, 50 * MS, &x, now), 0, "slow start");
    cr_assert_gt(xh_hedge_wait(&e->peers, 10 * MS, progress(l, &x, MIB - 500, 1), now), 0, "soon over");
    peer(10, 20000);
    cr_assert_gt(xh_hedge_wait(&e->peers, 10 * MS, progress(l, &x, 20000, 1), now), 0, "a peer was as slow");
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
        uint64_t wait = xh_hedge_wait(&e->peers, 10 * MS, &x, now);
        cr_assert(wait == 0 || wait < (uint64_t)1 << 40);
    }
    /* With a deadline kept, the next look is not at once. */
    now = l->sent_ns + (uint64_t)100000 * MS;
    progress(l, &x, 1000, 99000);
    memset(&e->peers, 0, sizeof e->peers);
    cr_assert_geq(xh_hedge_wait(&e->peers, 10 * MS, &x, now), 50 * MS);
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

Test(endpoint, sums_are_those_of_a_naive_count, .init = fresh, .timeout = 30)
{
    unsigned seed = 5;
    ask(0);
    for (int step = 0; step < 200000; step++) {
        struct load *l = &loads[(unsigned)rand_r(&seed) % MOST];
        int what = rand_r(&seed) % 8;
        now += MS;
        if (!l->used && what < 4)
            ask(what < 2);
        else if (l->used && l->r.state == XH_REQ_RUNNING && what < 4)
            finish(l);
        else if (l->used && l->job.speculative && what < 6) {
            l->job.speculative = 0;
            xh_endpoint_promote(&l->r);
        } else if (l->used && l->r.state == XH_REQ_QUEUED && what == 7) {
            xh_endpoint_take(&l->r);
            l->used = 0;
        }
        if (what & 1)
            start();
        unsigned queued = 0, active = 0, speculative = 0, in[THREADS] = {0};
        for (l = loads; l < loads + 4 * MOST; l++) {
            int runs = l->used && l->r.state == XH_REQ_RUNNING;
            queued += l->used && !runs;
            active += (unsigned)runs;
            speculative += runs && l->job.speculative;
            if (runs)
                in[l->r.thread->index]++;
        }
        cr_assert_eq(e->queued_requests, queued, "step %d", step);
        cr_assert_eq(e->queued_bytes, (uint64_t)queued * MIB);
        cr_assert_eq(e->active, active);
        cr_assert_eq(e->active_bytes, (uint64_t)active * MIB);
        cr_assert_eq(e->active_guesses, speculative);
        for (unsigned i = 0; i < THREADS; i++)
            cr_assert_eq(e->thread[i].active, in[i]);
    }
}
