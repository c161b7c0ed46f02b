/* Several sites with origins made here, which do what the test says: when a transfer leaves a site, where it goes, and
 * what a site is judged by. Time is virtual (tests/sim/baton.h), so each wait below is exact on any machine. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "replicas/health.h"
#include "replicas/replicas.h"
#include "replicas/sites.h"
#include "../sim/baton.h"

#define OBJECT_BYTES (UINT64_C(40) << 30)
#define TRANSFERS 800
#define MIB (1u << 20)
#define SPACE_BYTES (UINT64_C(50) * MIB) /* from one transfer of the test to the next */
#define SITES 2
#define MS 1000000u

/* ---- origins made here ------------------------------------------------------------------------- */

struct xh_origin {
    unsigned site;
};

static _Atomic int down[SITES];      /* neither opened nor looked at with success */
static _Atomic unsigned looks[SITES]; /* the keeper's */
/* bytes in a millisecond, of all transfers; 0: any. What is left of them */
static uint64_t carries[SITES], left[SITES];
static uint64_t opens_in_ns[SITES];   /* without patience for that it is not opened */
static int says_when_cancelled = XH_E_CANCELLED;

/* What was asked for. Looks are answered at once; all else gets |rate| bytes of its site every millisecond. */
static struct asked {
    struct xh_transfer *t;
    unsigned site;
    int number; /* of the test's transfer; -1: a look */
    uint64_t came;
    int cancelled, fails, over;
} asked[4 * TRANSFERS];
static size_t nasked; /* under |lock|, as |asked| */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t rate[SITES];
static _Atomic int stuck; /* this one gets nothing at its first site */
static pthread_t pumping;
static _Atomic int ends;

int xh_origin_open(const char *url, const struct xh_options *o, const char *hint, int vouched, struct xh_counters *c,
                   const struct xh_patience *patience, struct xh_origin **out, struct xh_origin_head *head,
                   struct xh_err *err)
{
    (void)o, (void)hint, (void)vouched, (void)c, (void)head;
    unsigned site = (unsigned)(url[strlen("https://s")] - '0');
    looks[site]++;
    for (uint64_t end = sim_now() + opens_in_ns[site]; sim_now() < end; sim_sleep(SIM_MS))
        if (patience && patience->ends(patience->ctx))
            return xh_err_set(err, XH_E_CANCELLED, 0, "it is not waited for any longer");
    if (down[site])
        return xh_err_set(err, XH_E_NET, 0, "down");
    *out = calloc(1, sizeof **out);
    (*out)->site = site;
    return 0;
}

int xh_origin_open_told(const char *url, const struct xh_options *o, const char *hint, struct xh_counters *c,
                        struct xh_origin **out, struct xh_err *err)
{
    return xh_origin_open(url, o, hint, 0, c, NULL, out, NULL, err);
}

void xh_origin_get_info(struct xh_origin *o, struct xh_origin_info *out)
{
    (void)o;
    *out = (struct xh_origin_info){.size = OBJECT_BYTES, .validator = "etag:\"a\";size:1", .url_shown = "x",
                                   .max_ranges = 50,
                                   .max_range_header = 3900, .flight_bytes = 1u << 20,
                                   .connections = 2, .scattered = 2, .streams = 2,
                                   .rtt_ns = MS};
}

size_t xh_origin_hint(struct xh_origin *o, char *buf, size_t size)
{
    (void)o, (void)buf, (void)size;
    return 0;
}

void xh_origin_came_in_vain(struct xh_origin *o, int vain)
{
    (void)o, (void)vain;
}

void xh_origin_beside(struct xh_origin *o, unsigned files)
{
    (void)o, (void)files;
}

void xh_origin_share(struct xh_origin *o, unsigned processes, int yields)
{
    (void)o, (void)processes, (void)yields;
}

int xh_origin_submit(struct xh_origin *o, struct xh_transfer *const *ts, size_t n, struct xh_err *err)
{
    (void)err;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n; i++) {
        int is_look = ts[i]->nranges == 1 && ts[i]->ranges[0].len == XH_SAMPLE_BYTES;
        asked[nasked++] = (struct asked){.t = ts[i], .site = o->site,
                                         .number = is_look ? -1 : (int)(ts[i]->ranges[0].off / SPACE_BYTES)};
    }
    cr_assert_lt(nasked, sizeof asked / sizeof *asked);
    pthread_mutex_unlock(&lock);
    return 0;
}

static void cancel(const struct xh_transfer *t, int all)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nasked; i++)
        if (!asked[i].over && (all || asked[i].t == t))
            asked[i].cancelled = 1;
    pthread_mutex_unlock(&lock);
}

void xh_origin_cancel(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o;
    cancel(t, 0);
}

int xh_origin_withdraw(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o, (void)t;
    return 0;
}

void xh_origin_promote(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o, (void)t;
}

void xh_origin_resume(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o, (void)t;
}

static int all_over(const struct xh_origin *o)
{
    int over = 1;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nasked; i++)
        over &= asked[i].over || asked[i].site != o->site;
    pthread_mutex_unlock(&lock);
    return over;
}

void xh_origin_stop(struct xh_origin *o)
{
    cancel(NULL, 1);
    while (!all_over(o))
        sim_sleep(SIM_MS);
}

void xh_origin_close(struct xh_origin *o)
{
    if (o)
        xh_origin_stop(o);
    free(o);
}

/* What the engine does with |a|, a copy of asked[i], in a millisecond. */
static void serve(size_t i, const struct asked *a)
{
    static const uint8_t bytes[MIB];
    struct xh_err err;
    struct xh_range r = a->t->ranges[0];
    int look = a->number < 0, code = a->cancelled                          ? says_when_cancelled
                                     : a->fails || (look && down[a->site]) ? XH_E_NET
                                                                           : 0;
    uint64_t n = look ? r.len : stuck && a->number == stuck && a->site == 0 ? 0 : rate[a->site];
    n = code ? 0 : n < r.len - a->came ? n : r.len - a->came;
    if (carries[a->site] && !look) {
        n = n < left[a->site] ? n : left[a->site];
        left[a->site] -= n;
    }
    looks[a->site] += (unsigned)look;
    if (n)
        a->t->bytes(a->t, r.off + a->came, bytes, n);
    int over = code || a->came + n == r.len;
    pthread_mutex_lock(&lock);
    asked[i].came += n;
    asked[i].over = over;
    pthread_mutex_unlock(&lock);
    xh_err_set(&err, code, 0, "made to be so");
    if (over)
        a->t->done(a->t, code ? &err : NULL);
}

static void *pump(void *arg)
{
    while (!ends) {
        memcpy(left, carries, sizeof left);
        for (size_t i = 0;; i++) {
            pthread_mutex_lock(&lock);
            int more = i < nasked;
            struct asked a = asked[i];
            pthread_mutex_unlock(&lock);
            if (!more)
                break;
            if (!a.over)
                serve(i, &a);
        }
        sim_sleep(SIM_MS);
    }
    return arg;
}

/* ---- the cache's side ---------------------------------------------------------------------------- */

static struct xh_options options;
static struct xh_counters counters;
static struct xh_replicas *r;
static _Atomic int done, failed_with;

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    (void)t, (void)off, (void)data, (void)len;
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    (void)t;
    failed_with = err ? err->code : 0;
    done++;
}

static int never_full(struct xh_transfer *t)
{
    (void)t;
    return 0;
}

static struct xh_range ranges[TRANSFERS];
static struct xh_transfer transfers[TRANSFERS];

/* The transfer |number|, of |len| bytes. */
static void ask(int number, uint64_t len, int speculative, int stream)
{
    struct xh_err err = {0};
    struct xh_transfer *t = &transfers[number];
    ranges[number] = (struct xh_range){(uint64_t)number * SPACE_BYTES, len};
    *t = (struct xh_transfer){.ranges = &ranges[number], .nranges = 1, .speculative = speculative, .bytes = on_bytes,
                              .done = on_done, .full = stream ? never_full : NULL};
    cr_assert_eq(xh_replicas_submit(r, &t, 1, &err), 0);
}

/* The site that is, or was, the |nth| one to get transfer |number|, as soon as there is one within |ms|; -1: none. */
static int site_of(int number, unsigned nth, unsigned ms)
{
    int site = -1;
    for (unsigned waited = 0; site < 0 && waited <= ms; waited++) {
        unsigned n = 0;
        pthread_mutex_lock(&lock);
        for (size_t k = 0; k < nasked && site < 0; k++)
            if (asked[k].number == number && n++ == nth)
                site = (int)asked[k].site;
        pthread_mutex_unlock(&lock);
        sim_sleep(SIM_MS);
    }
    return site;
}

/* Whether the one that has transfer |number| now is to give it up soon; -1: nobody has it. */
static int is_hasty(int number)
{
    int hasty = -1;
    pthread_mutex_lock(&lock);
    for (size_t k = 0; k < nasked; k++)
        if (asked[k].number == number && !asked[k].over)
            hasty = asked[k].t->hasty;
    pthread_mutex_unlock(&lock);
    return hasty;
}

static void fail(int number)
{
    pthread_mutex_lock(&lock);
    for (size_t k = 0; k < nasked; k++)
        asked[k].fails |= asked[k].number == number;
    pthread_mutex_unlock(&lock);
}

static unsigned live(void)
{
    pthread_mutex_lock(&r->lock);
    unsigned n = xh_sites_live(r);
    pthread_mutex_unlock(&r->lock);
    return n;
}

static int lives(unsigned n, unsigned ms)
{
    for (; live() != n && ms; ms--)
        sim_sleep(SIM_MS);
    return live() == n;
}

static void hung(const char *why)
{
    fprintf(stderr, "%s\n", why);
    abort();
}

/* Opens the file. Returns the milliseconds that it took. */
static uint64_t open_file(void)
{
    struct xh_err err = {0};
    struct xh_origin_head head = {0};
    sim_begin(1, 600 * SIM_S, 0, hung);
    uint64_t begun = sim_now();
    xh_options_defaults(&options);
    strcpy(options.endpoints, "https://s0,https://s1");
    cr_assert_eq(pthread_create(&pumping, NULL, pump, NULL), 0);
    cr_assert_eq(xh_replicas_open("https://s0/x", &options, NULL, 0, &counters, &r, &head, &err), 0, "%s", err.text);
    return (sim_now() - begun) / SIM_MS;
}

static void open_sites(int second_is_down)
{
    down[1] = second_is_down;
    open_file();
    cr_assert(lives(second_is_down ? 1 : 2, 2000));
}

static void close_sites(void)
{
    uint64_t begun = sim_now();
    xh_replicas_close(r);
    cr_assert_leq(sim_now() - begun, 100 * SIM_MS, "nobody waits for a site when the file is closed");
    ends = 1;
    pthread_join(pumping, NULL);
}

/* ---- tests ---------------------------------------------------------------------------------------- */

Test(sites, what_is_under_way_may_be_given_up_once_there_is_another_site, .timeout = 20)
{
    open_sites(1);
    ask(1, 4 * MIB, 0, 0);
    cr_assert_eq(site_of(1, 0, 1000), 0);
    cr_assert_eq(is_hasty(1), 0, "there is no other way to it");
    rate[0] = 1;
    down[1] = 0;
    cr_assert(lives(2, 10000));
    cr_assert_eq(is_hasty(1), 1);
    fail(1);
    cr_assert_eq(site_of(1, 1, 1000), 1);
    close_sites();
}

Test(sites, what_holds_for_each_holds_for_all, .timeout = 20)
{
    struct xh_origin_info info;
    open_sites(0);
    xh_replicas_get_info(r, &info);
    cr_assert_eq(info.max_range_header, 3900);
    cr_assert_eq(info.flight_bytes, 1u << 20);
    cr_assert_eq(info.scattered, 4, "and what can be added is added");
    close_sites();
}

Test(sites, one_that_is_new_is_not_taken_for_faster_than_the_others, .timeout = 20)
{
    open_sites(1);
    rate[0] = 4096; /* 4 MB/s, and what is asked for takes six seconds */
    ask(1, 24 * MIB, 0, 0);
    cr_assert_eq(site_of(1, 0, 1000), 0);
    down[1] = 0;
    cr_assert(lives(2, 10000));
    cr_assert_eq(site_of(1, 1, 500), -1, "it was on a good way");
    cr_assert_eq(live(), 2, "nothing is wrong with that site");
    close_sites();
}

Test(sites, what_leaves_a_site_goes_to_another, .timeout = 20)
{
    open_sites(0);
    rate[0] = 30000;
    rate[1] = 400;
    ask(1, 4 * MIB, 0, 0);
    ask(2, 100000, 0, 0);
    cr_assert_neq(site_of(1, 0, 1000), site_of(2, 0, 1000));
    sim_sleep(500 * SIM_MS); /* so that both are known */
    ask(3, SPACE_BYTES, 1, 1);
    cr_assert_eq(site_of(3, 0, 1000), 0);
    stuck = 5;
    ask(5, 65536, 0, 0);
    cr_assert_eq(site_of(5, 0, 1000), 0, "it is the faster one");
    cr_assert_eq(site_of(5, 1, 1200), 1, "though the one that it leaves would be chosen again");
    close_sites();
}

Test(sites, with_none_live_all_are_looked_at_soon, .timeout = 20)
{
    open_sites(0);
    down[0] = down[1] = 1;
    ask(1, 4 * MIB, 0, 0);
    int first = site_of(1, 0, 1000);
    cr_assert_geq(first, 0);
    fail(1);
    cr_assert(lives(1, 1000));
    cr_assert_eq(site_of(1, 1, 1000), 1 - first);
    down[first] = 0;
    sim_sleep(700 * SIM_MS); /* less than the pause of who failed */
    fail(1);
    cr_assert(lives(0, 1000) || live() == 1);
    cr_assert(lives(1, 800), "it is there all along");
    close_sites();
}

Test(sites, a_stream_does_not_fill_its_site, .timeout = 20)
{
    open_sites(1);
    rate[0] = 100;
    ask(1, 200 * MIB, 1, 1);
    cr_assert_eq(site_of(1, 0, 1000), 0);
    ask(6, MIB, 1, 0);
    cr_assert_eq(site_of(6, 0, 1000), 0, "what is wanted before what a stream brings does not wait for its end");
    close_sites();
}

Test(sites, one_that_falls_silent_is_left_within_two_seconds, .timeout = 60)
{
    open_sites(0);
    ask(1, 4 * MIB, 1, 0); /* a guess is not moved for slowness. The rates are 0 */
    int first = site_of(1, 0, 10);
    cr_assert_geq(first, 0);
    rate[1 - first] = 10000;
    cr_assert_eq(site_of(1, 1, 1000), -1, "it may be late");
    cr_assert_eq(site_of(1, 1, 1000), 1 - first);
    sim_sleep(SIM_S);
    cr_assert(done == 1 && failed_with == 0);
    close_sites();
}

Test(sites, shares_follow_speed_as_it_is_measured, .timeout = 60)
{
    uint64_t got[SITES] = {0};
    int asked_for = 0;
    open_sites(0);
    rate[0] = rate[1] = MIB;
    carries[0] = 75000;
    carries[1] = 25000;
    for (; asked_for < 700; sim_sleep(SIM_MS))
        for (; asked_for < 700 && asked_for - done < 40; asked_for++)
            ask(asked_for, MIB, 1, 0);
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nasked; i++)
        got[asked[i].site] += asked[i].came;
    pthread_mutex_unlock(&lock);
    double share = (double)got[0] / (double)(got[0] + got[1]);
    cr_assert(share > 0.7 && share < 0.8, "%.2f", share);
    close_sites();
}

Test(sites, one_that_says_nothing_is_waited_for_neither_by_opening_nor_by_closing, .timeout = 60)
{
    opens_in_ns[1] = SIM_NEVER / 2;
    cr_assert_leq(open_file(), 1);
    rate[0] = 10000;
    ask(1, MIB, 0, 0);
    sim_sleep(200 * SIM_MS);
    cr_assert(done == 1 && failed_with == 0);
    close_sites();
}

Test(sites, where_the_urls_own_says_nothing_another_is_opened_after_three_seconds, .timeout = 60)
{
    opens_in_ns[0] = SIM_NEVER / 2;
    uint64_t ms = open_file();
    cr_assert(ms >= 3000 && ms < 3100, "%llu", (unsigned long long)ms);
    cr_assert_eq(r->main, 1);
    close_sites();
}

Test(sites, where_the_urls_own_is_down_a_slow_one_is_waited_for, .timeout = 60)
{
    down[0] = 1;
    opens_in_ns[1] = 5 * SIM_S;
    uint64_t ms = open_file();
    cr_assert(ms >= 8000 && ms < 8100, "%llu", (unsigned long long)ms);
    cr_assert_eq(r->main, 1);
    close_sites();
}

Test(sites, what_has_changed_is_told_though_it_was_just_being_moved, .timeout = 60)
{
    open_sites(0);
    ask(1, MIB, 0, 0);
    cr_assert_eq(site_of(1, 0, 10), 0);
    says_when_cancelled = XH_E_CHANGED;
    sim_sleep(3 * SIM_S);
    cr_assert_eq(done, 1);
    cr_assert_eq(failed_with, XH_E_CHANGED);
    close_sites();
}
