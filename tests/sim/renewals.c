/* The target of a redirect that expires under many requests: one of them asks for the next one, and the others wait for
 * what comes of that, but not for long where nothing does.
 *
 * An origin whose server sends each GET elsewhere is read until the server is known. Then what it named expires, and so
 * many transfers are asked for at once. What the first server does when it is asked from then on, and what becomes of
 * the transfer that asked, is in the table. Threads: as baton.h. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "origin/origin.h"
#include "baton.h"
#include "world.h"
#include "wrong.h"

#define SERVER "http://sim.test:8000"
#define FILE_BYTES 3000000u
#define PIECE_BYTES 50000u
#define KNOWN_BY 24u   /* transfers, one after another, until a server's replies are known */
#define AT_ONCE 8u
#define LATE_NS (6 * SIM_S)
#define LATE {.fault = SIM_FAULTS, .late_ns = LATE_NS}
#define HONEST {.fault = SIM_FAULTS}

enum fate { FATE_NONE, FATE_CANCELLED, FATE_CLOSED, FATE_STANDS };

static const struct way {
    const char *name;
    uint64_t most_ms;      /* until all but the first transfer are there */
    unsigned most_asked;   /* so often the first server is asked for that */
    struct sim_lie first;  /* what it does when it is asked first */
    int elsewhere;         /* 1: where it sends to is another server */
    enum fate fate;        /* of the first transfer, which asks */
    unsigned good_for;     /* requests that each target serves from then on; 0: all */
    int full;              /* meanwhile the servers take no further connections */
    int back;              /* 1: what has expired sends back to the first server, and all meet that at once */
} ways[] = {
    {"it answers", 200, 1, HONEST, 1, FATE_NONE, 0, 0, 0},
    {"it answers, and is where the target is", 200, 1, HONEST, 0, FATE_NONE, 0, 0, 0},
    {"it refuses the first time", 1500, 3, {.fault = SIM_F_500}, 1, FATE_NONE, 0, 0, 0},
    {"it is silent, and its replies are known", 1000, 2, LATE, 0, FATE_NONE, 0, 0, 0},
    {"it is silent", 2500, AT_ONCE + 2, LATE, 1, FATE_NONE, 0, 0, 0},
    {"the one that asks is cancelled", 500, 2, LATE, 1, FATE_CANCELLED, 0, 0, 0},
    {"the file is closed meanwhile", 200, 1, LATE, 1, FATE_CLOSED, 0, 0, 0},
    {"the one that asks stands still before its first byte", 500, 1, HONEST, 1, FATE_STANDS, 0, 0, 0},
    {"each target is good for one request", 3000, 2 * AT_ONCE, HONEST, 1, FATE_NONE, 1, 0, 0},
    {"the servers take no more connections for a while", 3000, 2 * AT_ONCE, HONEST, 1, FATE_NONE, 0, 1, 0},
    {"what has expired sends back", 500, 2, HONEST, 1, FATE_NONE, 0, 0, 1},
};

static const struct way *way;
static struct sim_object object = {.path = "/data/file.h5", .size = FILE_BYTES, .version = 1};
static unsigned named, expired; /* how many targets there were, and how many of them are over */
static unsigned served[1000];   /* requests at each */
static unsigned asked;          /* how often the first server was, since the target expired */
static int stands;              /* what a reader of the first transfer's says */

unsigned sim_renewals(void)
{
    return sizeof ways / sizeof *ways;
}

const char *sim_renewal_name(unsigned i)
{
    return ways[i].name;
}

static struct sim_lie lies(const char *path, const char *range)
{
    const char *moved = strstr(path, "?moved=");
    struct sim_lie lie = HONEST;
    if (moved) {
        unsigned n = (unsigned)strtoul(moved + 7, NULL, 10);
        int over = n <= expired || (way->good_for && served[n] == way->good_for);
        lie.expired = over ? 1 + way->back : 0;
        served[n] += expired && !over;
    } else if (*range) {
        if (expired && ++asked == 1)
            lie = way->first;
        lie.moves = ++named;
    }
    return lie;
}

/* ---- transfers */

struct job {
    struct xh_transfer t;
    struct xh_range range;
    uint64_t next; /* byte that must come now */
    int done, code;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    struct job *j = t->ctx;
    if (off != j->next || sim_content_differs(&object, 1, off, data, len) != len)
        wrong("wrong bytes at %" PRIu64 " where those at %" PRIu64 " are due", off, j->next);
    j->next += len;
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct job *j = t->ctx;
    if (err && err->code != XH_E_CANCELLED)
        wrong("%s: %s", xh_err_name(err->code), err->text);
    if (!err && j->next != j->range.off + j->range.len)
        wrong("done without the bytes from %" PRIu64 " on", j->next);
    pthread_mutex_lock(&lock);
    j->code = err ? err->code : 0;
    j->done = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static int on_full(struct xh_transfer *t)
{
    return stands;
}

static void wait_for(const struct job *j)
{
    pthread_mutex_lock(&lock);
    while (!j->done)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void submit(struct xh_origin *o, struct job *j, size_t piece, int is_stream)
{
    struct xh_transfer *list[] = {&j->t};
    struct xh_err err;
    *j = (struct job){.range = {piece * PIECE_BYTES, PIECE_BYTES}, .next = piece * PIECE_BYTES};
    j->t = (struct xh_transfer){.ranges = &j->range, .nranges = 1, .ctx = j, .bytes = on_bytes, .done = on_done,
                                .full = is_stream ? on_full : NULL, .speculative = is_stream};
    if (xh_origin_submit(o, list, 1, &err) != 0) {
        wrong("submit: %s", err.text);
        j->done = 1;
    }
}

static void pause_ms(unsigned ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000l};
    nanosleep(&t, NULL);
}

void sim_renewal_run(unsigned i, char *seen, size_t seen_size, char *wrong_out, size_t wrong_out_size)
{
    static struct sim_world w;
    static struct xh_counters counters;
    static struct job jobs[AT_ONCE], one;
    struct xh_origin_head head;
    struct xh_origin *o;
    struct xh_err err;
    way = &ways[i];
    wrong_text = wrong_out;
    wrong_size = wrong_out_size;
    w.seed = 1;
    w.link = (struct sim_link){.rtt_ns = 20 * SIM_MS, .rate = 0.125, .queue_bytes = 2500000, .segments = 10,
                               .control = SIM_CUBIC, .receive_most = 3000000, .send_most = 3000000};
    w.server = (struct sim_server){.name = SERVER, .other = way->elsewhere ? "http://other.test:8000" : SERVER,
                                   .objects = 1, .dialect = SIM_NGINX, .think_ns = 100000, .accept_ns = 300000,
                                   .lies = lies, .lie = HONEST};
    w.object = object;
    xh_options_defaults(&w.options);
    sim_world_begin(&w);
    if (xh_origin_open(SERVER "/data/file.h5", &w.options, NULL, 0, &counters, NULL, &o, &head, &err) != 0) {
        wrong("open: %s", err.text);
        return;
    }
    for (size_t k = 0; k < KNOWN_BY && !wrong_text[0]; k++) {
        submit(o, &one, k, 0);
        wait_for(&one);
    }
    for (size_t k = 0; k < 4 * AT_ONCE && !wrong_text[0]; k++) {
        submit(o, &jobs[k % AT_ONCE], k, 0);
        for (size_t i = 0; k % AT_ONCE == AT_ONCE - 1 && i < AT_ONCE; i++)
            wait_for(&jobs[i]);
    }
    expired = named;
    stands = way->fate == FATE_STANDS;
    uint64_t begun = sim_now();
    w.server.takes = way->full ? w.server.taken : 0;
    submit(o, &jobs[0], 0, stands);
    if (!way->back)
        pause_ms(60); /* it asks by then */
    if (asked != !way->back)
        wrong("the first server was asked %u times", asked);
    for (size_t k = 1; k < AT_ONCE; k++)
        submit(o, &jobs[k], k, 0);
    if (way->fate == FATE_CANCELLED) {
        pause_ms(100);
        xh_origin_cancel(o, &jobs[0].t);
    }
    if (way->fate == FATE_CLOSED) {
        pause_ms(100);
        xh_origin_close(o);
    }
    for (size_t k = 1; k < AT_ONCE && !wrong_text[0]; k++)
        wait_for(&jobs[k]);
    uint64_t ns = sim_now() - begun;
    if (stands) {
        stands = 0;
        xh_origin_resume(o, &jobs[0].t);
    }
    if (!wrong_text[0])
        wait_for(&jobs[0]);
    w.server.takes = 0;
    unsigned before = asked;
    for (size_t k = 0; k < AT_ONCE && way->fate != FATE_CLOSED && !wrong_text[0]; k++) {
        submit(o, &one, k, 0);
        wait_for(&one);
    }
    unsigned later = asked - before;
    asked = before;
    snprintf(seen, seen_size, "ms=%" PRIu64 " asked=%u later=%u", ns / SIM_MS, asked, later);
    if (ns > way->most_ms * SIM_MS)
        wrong("it took %" PRIu64 " ms", ns / SIM_MS);
    if (asked > way->most_asked)
        wrong("the first server was asked %u times", asked);
    if (later > (way->good_for ? AT_ONCE : 0))
        wrong("the first server was asked %u times when all were there", later);
    int ends = way->fate == FATE_CANCELLED || way->fate == FATE_CLOSED ? XH_E_CANCELLED : 0;
    if (jobs[0].code != ends)
        wrong("the first transfer ended with %s", xh_err_name(jobs[0].code));
}
