/* A reply that straggles is asked for again on another connection; a server that is slow for all is not.
 *
 * An origin is asked for a whole file in many transfers at once, twice. One reply of them, at a time when others are
 * under way and the server is known, does what the table says; so may the reply to what is asked in its place. In
 * time means: far sooner than the straggler would have ended. Threads: as baton.h. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "origin/origin.h"
#include "baton.h"
#include "world.h"
#include "wrong.h"

#define FILE_BYTES 3000000u
#define STRAGGLER 27u /* which request straggles */
#define ROUNDS 2
#define STALL_NS (6 * SIM_S)
#define RANGES_MOST 40u

/* Half of the body, and the rest, if it comes, so much later. */
#define HALTS(ns) {.fault = SIM_FAULTS, .halts = 1, .pause_ns = (ns)}
#define HONEST {.fault = SIM_FAULTS}

static const struct way {
    const char *name;
    unsigned ranges, range_bytes;      /* of a transfer */
    uint64_t most_ms;                  /* of a round; 0: any time */
    unsigned least, most;              /* requests that are sent a second time */
    struct sim_lie first, again, each; /* the straggler, what is asked in its place, all others */
    unsigned again_asked;              /* how often what the straggler should bring is asked for in all; 0: any number */
    unsigned connections;              /* 0: the default */
    int alone;                         /* each transfer is asked for when the one before it has ended */
    unsigned each_after;               /* all others: those behind so many requests, or the first */
} ways[] = {
    {"honest", 1, 100000, 1000, 0, 0, HONEST, HONEST, HONEST, 0, 0, 0, 0},
    {"stalls in the body", 1, 100000, 1500, 1, 2, HALTS(STALL_NS), HONEST, HONEST, 0, 0, 0, 0},
    {"stalls in parts", 40, 1250, 1500, 1, 2, HALTS(STALL_NS), HONEST, HONEST, 0, 0, 0, 0},
    {"stalls before the headers", 1, 100000, 1500, 1, 2, {.fault = SIM_FAULTS, .late_ns = STALL_NS}, HONEST, HONEST, 0, 0, 0, 0},
    {"trickles", 1, 150000, 3000, 1, 2,
     {.fault = SIM_FAULTS, .halts = 1, .step_bytes = 500, .step_ns = 50 * SIM_MS}, HONEST, HONEST, 0, 0, 0, 0},
    /* Both bring the same bytes side by side. */
    {"goes on when asked again", 40, 1250, 2000, 1, 2,
     {.fault = SIM_FAULTS, .halts = 1, .pause_ns = 150 * SIM_MS, .step_bytes = 500, .step_ns = 2 * SIM_MS},
     {.fault = SIM_FAULTS, .halts = 1, .step_bytes = 500, .step_ns = 2 * SIM_MS}, HONEST, 0, 0, 0, 0},
    {"trickles on, and the second stalls", 1, 150000, 9000, 1, 2,
     {.fault = SIM_FAULTS, .halts = 1, .step_bytes = 500, .step_ns = 50 * SIM_MS},
     {.fault = SIM_FAULTS, .late_ns = 200 * SIM_S}, HONEST, 0, 0, 0, 0},
    {"the second fails", 1, 100000, 2500, 1, 2, HALTS(2 * SIM_S), {.fault = SIM_F_503}, HONEST, 3, 0, 0, 0},
    {"the straggler fails", 1, 100000, 4000, 1, 2, {.fault = SIM_FAULTS, .halts = 1, .pause_ns = 700 * SIM_MS, .breaks = 1},
     {.fault = SIM_FAULTS, .late_ns = 2500 * SIM_MS}, HONEST, 0, 0, 0, 0},
    {"both stall", 1, 100000, 2500, 1, 2, HALTS(2 * SIM_S), HALTS(2 * SIM_S), HONEST, 3, 0, 0, 0},
    {"no connection is left", 1, 100000, 0, 0, 0, HALTS(2 * SIM_S), HONEST, HONEST, 0, 1, 0, 0},
    {"slow for all", 1, 100000, 0, 0, 0, HONEST, HONEST, {.fault = SIM_FAULTS, .late_ns = 250 * SIM_MS}, 0, 0, 0, 0},
    {"a slow rate for all", 1, 100000, 0, 0, 0, HONEST, HONEST,
     {.fault = SIM_FAULTS, .halts = 1, .step_bytes = 5000, .step_ns = 30 * SIM_MS}, 0, 0, 0, 0},
    {"stalls before the headers, alone", 1, 100000, 300, 1, 1, {.fault = SIM_FAULTS, .late_ns = STALL_NS}, HONEST, HONEST, 3,
     0, 1, 0},
    {"stalls in the body, alone", 1, 100000, 300, 1, 1, HALTS(STALL_NS), HONEST, HONEST, 3, 0, 1, 0},
    /* The first of the slow ones is one as far as anybody can tell; then it is known. */
    {"slow for all from then on, alone", 1, 100000, 0, 1, 1, HONEST, HONEST, {.fault = SIM_FAULTS, .late_ns = 250 * SIM_MS}, 0, 0,
     1, STRAGGLER},
};

static const struct way *way;
static struct sim_object object = {.path = "/data/file.h5", .size = FILE_BYTES, .version = 1};
static uint64_t straggler_end; /* last byte that the straggler is asked for; 0: it was not asked yet */
static unsigned asked, straggler_asked;

unsigned sim_straggler_ways(void)
{
    return sizeof ways / sizeof *ways;
}

const char *sim_straggler_name(unsigned i)
{
    return ways[i].name;
}

static struct sim_lie lies(const char *path, const char *range)
{
    const char *last = strrchr(range, '-');
    uint64_t end = last ? strtoull(last + 1, NULL, 10) : 0;
    if (end == 0) /* a connection is opened */
        return (struct sim_lie)HONEST;
    if (++asked == STRAGGLER)
        straggler_end = end;
    if (!straggler_end || end != straggler_end)
        return asked > 1 && asked > way->each_after ? way->each : (struct sim_lie)HONEST;
    straggler_asked++;
    return straggler_asked == 1 ? way->first : straggler_asked == 2 ? way->again : (struct sim_lie)HONEST;
}

/* ---- transfers */

struct job {
    struct xh_transfer t;
    struct xh_range range[RANGES_MOST];
    uint64_t next[RANGES_MOST]; /* of each range the byte that must come now */
    int done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    struct job *j = t->ctx;
    size_t i = xh_range_at(j->range, t->nranges, off);
    if (off != j->next[i] || len > j->range[i].off + j->range[i].len - off)
        wrong("bytes at %" PRIu64 " where those at %" PRIu64 " are due", off, j->next[i]);
    else if (sim_content_differs(&object, 1, off, data, len) != len)
        wrong("wrong bytes at %" PRIu64, off);
    j->next[i] += len;
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct job *j = t->ctx;
    if (err)
        wrong("%s: %s", xh_err_name(err->code), err->text);
    for (size_t i = 0; i < t->nranges && !err; i++)
        if (j->next[i] != j->range[i].off + j->range[i].len)
            wrong("done without the bytes from %" PRIu64 " on", j->next[i]);
    pthread_mutex_lock(&lock);
    if (j->done)
        wrong("done twice");
    j->done = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_for(const struct job *j)
{
    pthread_mutex_lock(&lock);
    while (!j->done)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* Asks for the whole file: each second range of a block by one transfer, the others by the next. Returns ns. */
static uint64_t read_round(struct xh_origin *o, struct job *jobs, size_t n)
{
    uint64_t begun = sim_now(), block = 2ull * way->ranges * way->range_bytes;
    struct xh_err err;
    for (size_t i = 0; i < n; i++) {
        struct job *j = &jobs[i];
        struct xh_transfer *list[] = {&j->t};
        memset(j, 0, sizeof *j);
        for (size_t k = 0; k < way->ranges; k++) {
            j->next[k] = i / 2 * block + (2 * k + i % 2) * way->range_bytes;
            j->range[k] = (struct xh_range){j->next[k], way->range_bytes};
        }
        j->t = (struct xh_transfer){.ranges = j->range, .nranges = way->ranges, .ctx = j, .bytes = on_bytes, .done = on_done};
        if (xh_origin_submit(o, list, 1, &err) != 0)
            wrong("submit: %s", err.text);
        else if (way->alone)
            wait_for(j);
    }
    for (size_t i = 0; i < n && !wrong_text[0]; i++)
        wait_for(&jobs[i]);
    return sim_now() - begun;
}

void sim_straggler_run(unsigned i, char *seen, size_t seen_size, char *wrong_out, size_t wrong_out_size)
{
    static struct sim_world w;
    static struct xh_counters counters;
    static struct job jobs[2 * FILE_BYTES / 100000];
    struct xh_origin_head head;
    struct xh_origin *o;
    struct xh_stats stats;
    struct xh_err err;
    uint64_t slowest = 0;
    way = &ways[i];
    wrong_text = wrong_out;
    wrong_size = wrong_out_size;
    w.seed = 1;
    w.link = (struct sim_link){.rtt_ns = 2 * SIM_MS, .rate = 0.125, .queue_bytes = 2500000, .segments = 10, .control = SIM_CUBIC,
                               .receive_most = 3000000, .send_most = 3000000};
    w.server = (struct sim_server){.name = "http://sim.test:8000", .other = "http://other.test:8000", .objects = 1,
                                   .dialect = SIM_NGINX, .think_ns = 100000, .accept_ns = 300000, .lies = lies, .lie = HONEST};
    w.object = object;
    xh_options_defaults(&w.options);
    w.options.retries = 0;
    if (way->connections)
        w.options.connections = way->connections;
    sim_world_begin(&w);
    if (xh_origin_open("http://sim.test:8000/data/file.h5", &w.options, NULL, 0, &counters, NULL, &o, &head, &err) != 0) {
        wrong("open: %s", err.text);
        return;
    }
    size_t n = FILE_BYTES / (way->ranges * way->range_bytes);
    for (int r = 0; r < ROUNDS && !wrong_text[0]; r++) {
        uint64_t ns = read_round(o, jobs, n);
        slowest = ns > slowest ? ns : slowest;
    }
    xh_counters_snapshot(&counters, &stats);
    snprintf(seen, seen_size, "transfers=%zu slowest_ms=%" PRIu64 " requests=%" PRIu64 " hedged=%" PRIu64 " straggler_asked=%u",
             ROUNDS * n, slowest / SIM_MS, stats.requests, stats.hedged, straggler_asked);
    if (way->most_ms && slowest > way->most_ms * SIM_MS)
        wrong("a round took %" PRIu64 " ms", slowest / SIM_MS);
    if (stats.hedged < way->least || stats.hedged > way->most)
        wrong("%" PRIu64 " requests were sent a second time", stats.hedged);
    if (stats.requests > 3 + ROUNDS * n + stats.hedged) /* the opening takes up to three */
        wrong("%" PRIu64 " requests for %zu transfers", stats.requests, ROUNDS * n);
    if (way->again_asked && straggler_asked != way->again_asked)
        wrong("what straggled was asked for %u times", straggler_asked);
}
