/* One read, whole, over a real shadow and an origin made here: threads that answer late, in
 * any order, in odd pieces, and sometimes fail. Every byte is compared with a formula. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "open/expected.h"
#include "open/opening.h"
#include "ahead/hints.h"
#include "ahead/layouts.h"
#include "ahead/repeats.h"
#include "ahead/walk.h"
#include "ahead/sequence.h"
#include "ahead/schedule.h"
#include "object.h"
#include "pages/fetch.h"
#include "pages/flow.h"
#include "pages/keep.h"
#include "base/now.h"
#include "formula.h"
#include "base/process.h"
#include "shadow/impl.h"
#include "stream/segment.h"
#include "stream/share.h"
#include "stream/stage.h"
#include "stream/ending.h"
#include "stream/stream.h"

#define OBJECT_BYTES (3u * 1000 * 1000 + 77)

static const uint8_t *made; /* what the object begins with, if not with the formula's bytes */
static size_t made_len;

static void right_bytes(uint8_t *out, uint64_t off, size_t len)
{
    size_t i = 0;
    for (; i < len && off + i < made_len; i++)
        out[i] = made[off + i];
    formula_fill(out + i, off + i, len - i, 0);
}

static uint8_t byte_at(uint64_t off)
{
    uint8_t byte;
    right_bytes(&byte, off, 1);
    return byte;
}

/* |b| holds the |len| bytes at |off|, each of them changed by |other|. */
static void expect_right(const uint8_t *b, uint64_t off, size_t len, uint8_t other)
{
    uint8_t right[4096];
    for (size_t i = 0; i < len; i += sizeof right) {
        size_t n = len - i < sizeof right ? len - i : sizeof right;
        right_bytes(right, off + i, n);
        for (size_t k = 0; other && k < n; k++)
            right[k] ^= other;
        if (memcmp(b + i, right, n) == 0)
            continue;
        for (size_t k = 0; k < n; k++)
            if (b[i + k] != right[k])
                cr_assert_fail("wrong byte at %llu", (unsigned long long)(off + i + k));
    }
}

/* ---- the origin made here -------------------------------------------------------------- */

struct xh_origin {
    struct xh_counters *counters;
    _Atomic uint64_t fetched, farthest; /* bytes asked for in all; the end of those that lie farthest */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more, drained;
    struct xh_transfer *queue;
    size_t busy;
    int started;
    unsigned fail_one_in; /* 0: never */
    int hold; /* what is speculative is not served */
    int early; /* the head came before its version was known */
    uint8_t other; /* what the head's bytes differ by: those of another version */
    uint64_t object_bytes;
    unsigned streams; /* so many may be begun, on young connections */
    int found;        /* 1: those have found their speed */
    int apart; /* there is no connection yet */
    int far, busy_all; /* the server is; no connection is idle */
    int grows; /* two connections are there, in slow start, and six more may be opened */
    unsigned refuses; /* the so-many-th submission, from now on, finds no memory; 0: none */
    uint64_t rtt_ns;
    unsigned slow_us; /* each transfer takes so long */
    uint64_t watched; /* how often is this byte asked for? */
    unsigned times;
    unsigned loads; /* streams' loads that were asked for */
    unsigned ended; /* of these, cancelled */
    int asks;       /* before each piece they are asked whether they are full */
    int at_once; /* they have come when submitting them returns */
    uint64_t breaks; /* what was asked for ahead brings so many bytes, and then is cancelled; 0: it does not */
    const char *reader; /* who this process is to the origin; NULL: it cannot be told */
    int confirms; /* the hint's version is still there */
    unsigned opens; /* how often the origin was asked at opening */
    int fleeting; /* what it says of the version proves nothing to another opening */
    int whole; /* it sends no parts */
    unsigned transfers; /* that were asked for */
    int in_vain, said_in_vain; /* what came unasked of the last file was hardly read; so it was told */
    int open_holds, open_fails; /* an opening waits, or finds nothing */
    int fail_next; /* the same for the next one alone */
    uint64_t second_bytes; /* that the link brings in a second; 0: not known */
    struct xh_shadow *left_in; /* while the reader is found out, reader "aa" asks, and leaves there what it learnt */
} engine = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER,
            .drained = PTHREAD_COND_INITIALIZER, .object_bytes = OBJECT_BYTES, .rtt_ns = 50000000};

/* Between processes: those that are |gated| serve no more than |allowed| bytes. */
static struct gate {
    _Atomic uint64_t allowed, served;
} *gate;
static int gated;

static void pass(size_t n)
{
    uint64_t end = gated ? atomic_fetch_add(&gate->served, n) + n : 0;
    while (gated && end > atomic_load(&gate->allowed))
        usleep(200);
}

static void serve(struct xh_transfer *t, unsigned *seed)
{
    usleep(engine.slow_us);
    struct xh_err err = {0};
    uint8_t piece[9000];
    uint64_t left = t->origin_private ? engine.breaks : UINT64_MAX;
    int fails = engine.fail_one_in && (unsigned)rand_r(seed) % engine.fail_one_in == 0;
    for (size_t i = 0; i < t->nranges; i++) {
        struct xh_range r = t->ranges[i];
        while (r.len) {
            size_t n = 1 + (size_t)rand_r(seed) % sizeof piece;
            if (n > r.len)
                n = r.len;
            right_bytes(piece, r.off, n);
            pass(n);
            if (engine.asks && t->full)
                t->full(t);
            t->bytes(t, r.off, piece, n);
            r.off += n;
            r.len -= n;
            left -= n < left ? n : left;
            if (left == 0) {
                xh_err_set(&err, XH_E_CANCELLED, 0, "the connection broke off while the stream stood still");
                t->done(t, &err);
                return;
            }
            if (fails && rand_r(seed) % 4 == 0) {
                xh_err_set(&err, XH_E_NET, 0, "made to fail");
                t->done(t, &err);
                return;
            }
            if (rand_r(seed) % 8 == 0)
                sched_yield();
        }
    }
    t->done(t, NULL);
}

static void *engine_main(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    pthread_mutex_lock(&engine.lock);
    for (;;) {
        struct xh_transfer **at = &engine.queue;
        while (*at && engine.hold && (*at)->speculative)
            at = &(*at)->link;
        if (!*at) {
            pthread_cond_wait(&engine.more, &engine.lock);
            continue;
        }
        struct xh_transfer *t = *at;
        *at = t->link;
        pthread_mutex_unlock(&engine.lock);
        serve(t, &seed);
        pthread_mutex_lock(&engine.lock);
        if (--engine.busy == 0)
            pthread_cond_broadcast(&engine.drained);
    }
    return NULL;
}

static struct xh_origin *origin_now; /* the last one that was opened */

int xh_origin_ready(const struct xh_options *o, struct xh_err *err)
{
    (void)o, (void)err;
    return 0;
}

int xh_origin_reader(const char *url, const struct xh_options *o, char out[XH_READER_BYTES])
{
    (void)url, (void)o;
    char text[100];
    snprintf(text, sizeof text, "%llu aa\nknown", (unsigned long long)xh_now_ns());
    if (engine.left_in)
        xh_shadow_hint_save(engine.left_in, text);
    snprintf(out, XH_READER_BYTES, "%s", engine.reader ? engine.reader : "");
    return engine.reader != NULL;
}

int xh_origin_open(const char *url, const struct xh_options *o, const char *hint, int vouched, struct xh_counters *c,
                   const struct xh_patience *patience, struct xh_origin **out, struct xh_origin_head *head,
                   struct xh_err *err)
{
    pthread_mutex_lock(&engine.lock);
    engine.opens++;
    while (engine.open_holds)
        pthread_cond_wait(&engine.more, &engine.lock);
    if (engine.open_fails || engine.fail_next) {
        engine.fail_next = 0;
        pthread_mutex_unlock(&engine.lock);
        xh_count(c, requests, 1);
        return xh_err_set(err, XH_E_NOENT, 404, "%.100s: there is no such file", url);
    }
    origin_now = *out = calloc(1, sizeof **out);
    (*out)->counters = c;
    for (uintptr_t i = 0; i < 3 && !engine.started; i++) {
        pthread_t t;
        pthread_create(&t, NULL, engine_main, (void *)(i + 1));
        pthread_detach(t);
    }
    engine.started = 1;
    pthread_mutex_unlock(&engine.lock);
    head->len = 10000;
    head->bytes = malloc(head->len);
    for (size_t i = 0; i < head->len; i++)
        head->bytes[i] = byte_at(i) ^ engine.other;
    head->confirmed = engine.confirms;
    head->unverified = engine.early;
    return 0;
}

int xh_origin_open_told(const char *url, const struct xh_options *o, const char *hint, struct xh_counters *c,
                        struct xh_origin **out, struct xh_err *err)
{
    cr_assert_str_eq(hint, "known");
    origin_now = *out = calloc(1, sizeof **out);
    (*out)->counters = c;
    return 0;
}

void xh_origin_get_info(struct xh_origin *o, struct xh_origin_info *out)
{
    *out = (struct xh_origin_info){.size = engine.object_bytes, .validator = "etag:test", .url_shown = "https://test/x",
                                   .in_vain = engine.in_vain, .max_ranges = 50, .fleeting = engine.fleeting,
                                   .whole = engine.whole, .max_range_header = 3900,
                                   .flight_bytes = engine.grows ? 20000 : 1u << 20,
                                   .connections = 8, .streaming = 8, .scattered = 8,
                                   .open = engine.apart ? 0 : engine.grows ? 2 : 8,
                                   .idle = engine.apart || engine.busy_all ? 0 : 8,
                                   .far = engine.far, .second_bytes = engine.second_bytes,
                                   .streams = engine.streams, .young = engine.streams != 0 && !engine.found, .warm = 8,
                                   .rtt_ns = engine.rtt_ns};
}

void xh_origin_tell_apart(const char *url)
{
    (void)url;
}

void xh_origin_came_in_vain(struct xh_origin *o, int vain)
{
    (void)o;
    engine.said_in_vain = vain;
}

void xh_origin_beside(struct xh_origin *o, unsigned files)
{
    (void)o, (void)files;
}

void xh_origin_share(struct xh_origin *o, unsigned processes, int yields)
{
    (void)o, (void)processes;
}

size_t xh_origin_hint(struct xh_origin *o, char *buf, size_t size)
{
    return (size_t)snprintf(buf, size, "known");
}

int xh_origin_submit(struct xh_origin *o, struct xh_transfer *const *ts, size_t n, struct xh_err *err)
{
    pthread_mutex_lock(&engine.lock);
    if (engine.refuses && --engine.refuses == 0) {
        pthread_mutex_unlock(&engine.lock);
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a transfer");
    }
    engine.transfers += (unsigned)n;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < ts[i]->nranges; k++) {
            const struct xh_range *r = &ts[i]->ranges[k];
            cr_assert(r->len && r->off + r->len <= engine.object_bytes);
            atomic_fetch_add(&o->fetched, r->len);
            engine.times += engine.watched >= r->off && engine.watched - r->off < r->len;
            if (atomic_load(&o->farthest) < r->off + r->len) /* under the lock */
                atomic_store(&o->farthest, r->off + r->len);
        }
        ts[i]->origin_private = engine.breaks && ts[i]->speculative ? &engine : NULL;
        ts[i]->link = engine.queue;
        engine.queue = ts[i];
        engine.loads += ts[i]->full != NULL;
        engine.busy++;
    }
    pthread_cond_broadcast(&engine.more);
    while (engine.at_once && ts[0]->full && engine.busy)
        pthread_cond_wait(&engine.drained, &engine.lock);
    pthread_mutex_unlock(&engine.lock);
    return 0;
}

static void drain(void)
{
    pthread_mutex_lock(&engine.lock);
    while (engine.busy)
        pthread_cond_wait(&engine.drained, &engine.lock);
    pthread_mutex_unlock(&engine.lock);
}

void xh_origin_cancel(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o;
    pthread_mutex_lock(&engine.lock);
    engine.ended += t->full != NULL;
    pthread_mutex_unlock(&engine.lock);
}

int xh_origin_withdraw(struct xh_origin *o, struct xh_transfer *t)
{
    return 0;
}

void xh_origin_promote(struct xh_origin *o, struct xh_transfer *t)
{
    pthread_mutex_lock(&engine.lock);
    t->speculative = 0;
    pthread_cond_broadcast(&engine.more);
    pthread_mutex_unlock(&engine.lock);
}

static void hold(int on)
{
    pthread_mutex_lock(&engine.lock);
    engine.hold = on;
    pthread_cond_broadcast(&engine.more);
    pthread_mutex_unlock(&engine.lock);
}

void xh_origin_resume(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o, (void)t; /* no stream stands still: the engine made here does not ask */
}

void xh_origin_stop(struct xh_origin *o)
{
    (void)o;
    drain();
}

void xh_origin_close(struct xh_origin *o)
{
    drain();
    free(o);
}

/* ---- tests ------------------------------------------------------------------------------ */

static uint64_t opening; /* bytes that opening the last file took */

/* The files that are opened from now on are not taken for ones of a row with those before. */
static unsigned row;

static struct xh_file *open_now(const char *config)
{
    char url[64];
    struct xh_options o;
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    xh_options_defaults(&o);
    strcpy(o.sidecar, "off"); /* there is one object */
    o.head_bytes = 16384;
    o.whole_file_bytes = 1 << 20; /* so the object does not come whole */
    cr_assert_eq(xh_options_from_string(&o, config, "test", &err), 0, "%s", err.text);
    snprintf(url, sizeof url, "https://test/%.*sx", (int)row, "xxxxxxxx");
    cr_assert_eq(xh_cache_open(url, &o, &f, &err), 0, "%s", err.text);
    return f;
}

static struct xh_file *open_test(const char *config)
{
    struct xh_file *f = open_now(config);
    drain();
    opening = atomic_load(&origin_now->fetched);
    return f;
}

/* Bytes fetched since |f| was opened and the rest of its head had come. */
static uint64_t fetched(const struct xh_file *f)
{
    return atomic_load(&origin_now->fetched) - opening;
}

/* Reads 1 to 40 random extents, overlapping or not, and compares. Returns the read's code. */
static int read_random(struct xh_file *f, unsigned *seed)
{
    struct xh_extent e[40];
    struct xh_err err = {0};
    size_t n = 1 + (size_t)rand_r(seed) % 40;
    for (size_t i = 0; i < n; i++) {
        e[i].off = (uint64_t)rand_r(seed) % OBJECT_BYTES;
        e[i].len = (uint64_t)rand_r(seed) % (rand_r(seed) % 10 ? 5000 : 300000);
        if (e[i].len > OBJECT_BYTES - e[i].off)
            e[i].len = OBJECT_BYTES - e[i].off;
        e[i].buf = malloc(e[i].len + 1);
        ((uint8_t *)e[i].buf)[e[i].len] = 0x5a;
    }
    int rc = xh_cache_read(f, rand_r(seed) % 2 ? XH_KIND_RAW : XH_KIND_META, e, n, &err);
    for (size_t i = 0; i < n; i++) {
        const uint8_t *b = e[i].buf;
        if (rc == 0)
            expect_right(b, e[i].off, e[i].len, 0);
        cr_assert_eq(b[e[i].len], 0x5a, "written past an extent");
        free(e[i].buf);
    }
    return rc;
}

static void *reader(void *arg)
{
    struct xh_file *f = arg;
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int i = 0; i < 150; i++)
        read_random(f, &seed);
    return NULL;
}

static void many_threads(const char *config, unsigned fail_one_in)
{
    pthread_t t[4];
    struct xh_file *f = open_test(config);
    engine.fail_one_in = fail_one_in;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, reader, f);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    engine.fail_one_in = 0;
    unsigned seed = 9;
    for (int i = 0; i < 20; i++)
        cr_assert_eq(read_random(f, &seed), 0);
    xh_cache_close(f);
}

Test(read, random_extents_give_right_bytes, .timeout = 50)
{
    unsigned seed = 1;
    struct xh_file *f = open_test("shadow=off");
    for (int i = 0; i < 300; i++)
        cr_assert_eq(read_random(f, &seed), 0);
    xh_cache_close(f);
}

Test(read, many_threads_get_right_bytes, .timeout = 50)
{
    many_threads("shadow=off", 0);
}

Test(read, many_threads_that_stream_get_right_bytes, .timeout = 50)
{
    many_threads("shadow=off,stream_bytes=0,readahead_bytes=1M", 0);
}

Test(read, many_threads_that_stream_survive_failing_transfers, .timeout = 50)
{
    many_threads("shadow=off,stream_bytes=0,part_bytes=64k", 5);
}

Test(read, many_threads_survive_failing_transfers, .timeout = 50)
{
    many_threads("shadow=off,gap_bytes=0,part_bytes=64k", 5);
}

Test(read, a_budget_smaller_than_the_object_still_gives_right_bytes, .timeout = 50)
{
    many_threads("shadow=off,private_budget_bytes=1M", 0);
}

Test(read, a_page_is_fetched_once_however_many_ask, .timeout = 50)
{
    pthread_t t[4];
    struct xh_file *f = open_test("shadow=off,readahead=off,gap_bytes=0");
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, reader, f);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    cr_assert_leq(atomic_load(&origin_now->fetched), OBJECT_BYTES);
    xh_cache_close(f);
}

Test(read, asked_bytes_are_hit_staged_waited_for_demanded_or_bypassed)
{
    unsigned seed = 4;
    struct xh_stats s;
    struct xh_file *f = open_test("shadow=off");
    for (int i = 0; i < 200; i++)
        read_random(f, &seed);
    xh_cache_stats(f, &s);
    /* Overlapping extents count once for each extent everywhere. */
    cr_assert_eq(s.bytes_asked, s.bytes_hit + s.bytes_staged + s.bytes_waited + s.bytes_demand + s.bytes_bypass);
    xh_cache_close(f);
}

Test(read, a_stream_is_kept_when_it_is_read_again)
{
    struct xh_stats s;
    struct xh_err err = {0};
    uint8_t *b = malloc(OBJECT_BYTES);
    struct xh_extent e = {0, OBJECT_BYTES, b};
    struct xh_file *f = open_test("shadow=off,stream_bytes=0,readahead=off");
    uint64_t published[3];
    for (int i = 0; i < 3; i++) {
        memset(b, 0, OBJECT_BYTES);
        cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &e, 1, &err), 0);
        for (size_t k = 0; k < OBJECT_BYTES; k++)
            if (b[k] != byte_at(k))
                cr_assert_fail("wrong byte at %zu in pass %d", k, i);
        drain();
        xh_cache_stats(f, &s);
        published[i] = s.pages_published;
    }
    cr_assert_leq(published[0], 3, "the head alone");
    cr_assert_eq(published[1], (OBJECT_BYTES + 4095) / 4096);
    cr_assert_eq(published[2], published[1]);
    cr_assert_eq(s.bytes_hit, OBJECT_BYTES + 2 * 8192, "the head twice, the rest in the last pass");
    xh_cache_close(f);
    free(b);
}

/* Every |step|th element of 4 bytes of [from, from + len), into |b|. */
static size_t stride(struct xh_extent *e, uint64_t from, uint64_t len, uint64_t step, uint8_t *b)
{
    size_t n = 0;
    for (uint64_t off = from; off + 4 <= from + len; off += 4 * step, n++)
        e[n] = (struct xh_extent){off, 4, b + 4 * n};
    return n;
}

Test(read, strides_that_are_there_are_hits_and_do_not_count_as_a_stream)
{
    struct xh_stats before, s;
    struct xh_err err = {0};
    uint8_t *b = malloc(1u << 20);
    struct xh_extent *e = malloc(20000 * sizeof *e), whole = {0, 512 << 10, b}, cold = {1 << 20, 512 << 10, b};
    struct xh_file *f = open_test("shadow=off,stream_bytes=600K,readahead_bytes=0,whole_file_bytes=4M");
    cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &whole, 1, &err), 0);
    drain();
    xh_cache_stats(f, &before);
    unsigned misses = atomic_load(&f->whole->misses);
    cr_assert_gt(misses, 0, "they are counted");
    uint64_t streamed = atomic_load(&f->flows->own.streamed);
    size_t n = stride(e, 0, whole.len, 10, b);
    for (int i = 0; i < 10; i++) {
        memset(b, 0, 4 * n);
        cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, e, n, &err), 0);
        for (size_t k = 0; k < 4 * n; k++)
            if (b[k] != byte_at(e[k / 4].off + k % 4))
                cr_assert_fail("wrong byte of element %zu", k / 4);
    }
    cr_expect_eq(atomic_load(&f->whole->misses), misses, "the observers hear of no miss: no read was begun");
    memset(b, 0, 4 * n);
    cr_expect(xh_cache_hit(f, e, n), "the driver is served at once");
    cr_expect_eq(b[4 * n - 1], byte_at(e[n - 1].off + 3));
    xh_cache_stats(f, &s);
    cr_expect_eq(s.bytes_hit - before.bytes_hit, 11 * 4 * n);
    cr_expect_eq(s.requests, before.requests);
    cr_expect_eq(atomic_load(&f->flows->own.streamed), streamed, "of what is there nothing streams by");
    /* What is cold is still within stream_bytes: it is kept. */
    cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &cold, 1, &err), 0);
    drain();
    xh_cache_stats(f, &s);
    cr_expect_eq(s.bytes_bypass, 0);
    cr_expect_eq(s.bytes_demand - before.bytes_demand, cold.len);
    /* Where half of a stride is there, the other half counts. */
    streamed = atomic_load(&f->flows->own.streamed);
    n = stride(e, 256 << 10, 512 << 10, 16, b);
    cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, e, n, &err), 0);
    for (size_t k = 0; k < 4 * n; k++)
        cr_assert_eq(b[k], byte_at(e[k / 4].off + k % 4));
    cr_expect_eq(atomic_load(&f->flows->own.streamed) - streamed, 4 * n / 2);
    xh_cache_close(f);
    free(e);
    free(b);
}

Test(read, an_extent_outside_the_object_is_refused_and_nothing_else_happens)
{
    struct xh_err err = {0};
    uint8_t b[16] = {0};
    struct xh_file *f = open_test("shadow=off");
    struct xh_extent bad[] = {{OBJECT_BYTES - 8, 9, b}, {UINT64_MAX, 2, b}, {1, UINT64_MAX, b},
                              {OBJECT_BYTES, 1, b}};
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &bad[i], 1, &err), XH_E_RANGE);
    struct xh_extent none = {OBJECT_BYTES, 0, b};
    cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &none, 1, &err), 0);
    cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, NULL, 0, &err), 0);
    xh_cache_close(f);
}

Test(read, a_read_up_to_the_files_end_is_not_divided_where_no_connection_waits)
{
    struct xh_err err = {0};
    uint8_t *b = malloc(1u << 20);
    struct xh_extent e = {OBJECT_BYTES - 700000, 700000, b};
    engine.apart = 1;
    struct xh_file *f = open_test("shadow=off,readahead=off");
    unsigned before = engine.transfers;
    cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &e, 1, &err), 0, "%s", err.text);
    cr_expect_eq(engine.transfers - before, 1, "%u", engine.transfers - before);
    engine.apart = 0;
    xh_cache_close(f);
    free(b);
}

Test(read, with_readahead_off_what_is_read_is_fetched_and_no_more, .timeout = 50)
{
    struct xh_err err = {0};
    uint8_t *b = malloc(65536);
    for (enum xh_kind kind = XH_KIND_RAW; kind <= XH_KIND_META; kind++) {
        struct xh_file *f = open_test("shadow=off,readahead=off");
        for (uint64_t off = 1 << 20; off < 2 << 20; off += 65536) {
            struct xh_extent e = {off, 65536, b};
            cr_assert_eq(xh_cache_read(f, kind, &e, 1, &err), 0, "%s", err.text);
        }
        drain();
        cr_expect_eq(fetched(f), 1 << 20, "%llu", (unsigned long long)fetched(f));
        xh_cache_close(f);
    }
    free(b);
}

Test(read, a_reader_that_goes_in_order_waits_for_little)
{
    struct xh_stats s;
    struct xh_err err = {0};
    uint8_t *b = malloc(20000);
    struct xh_file *f = open_test("shadow=off");
    for (uint64_t off = 0; off + 20000 <= OBJECT_BYTES; off += 20000) {
        struct xh_extent e = {off, 20000, b};
        cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &e, 1, &err), 0);
        drain();
    }
    xh_cache_stats(f, &s);
    cr_assert_leq(s.bytes_demand + s.bytes_waited, 100000);
    xh_cache_close(f);
    free(b);
}

/* ---- an early head */

static struct xh_file *open_early(const char *config, uint8_t other)
{
    engine.early = 1;
    engine.other = other;
    return open_now(config);
}

/* Reads |len| bytes at |off|, which must be those of the object but for |other| when the read says 0. */
static int read_code(struct xh_file *f, uint64_t off, uint64_t len, uint8_t other)
{
    struct xh_err err = {0};
    uint8_t *b = malloc(len);
    struct xh_extent e = {off, len, b};
    int rc = xh_cache_read(f, XH_KIND_META, &e, 1, &err);
    if (rc == 0)
        expect_right(b, off, len, other);
    cr_assert_eq(rc, err.code);
    free(b);
    return rc;
}

Test(read, an_early_head_is_read_and_proved_along_with_what_is_fetched_first)
{
    const struct xh_range beyond = {1000000, 4096};
    uint8_t kept[4096];
    for (int ahead = 0; ahead < 2; ahead++) {
        struct xh_file *f = open_early("shadow=off", 0x55);
        engine.transfers = 0;
        cr_assert_eq(read_code(f, 100, 9900, 0x55), 0);
        cr_assert_eq(engine.transfers, 0, "nothing is fetched that nobody asked for");
        cr_assert_eq(xh_shadow_peek(f->shadow, 0), XH_CLAIM_MINE, "none of it is kept");
        if (ahead)
            xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_META, .r = &beyond, .n = 1});
        else
            cr_assert_eq(read_code(f, beyond.off, beyond.len, 0), XH_E_CHANGED);
        cr_assert_eq(engine.transfers, 1, "one for the head and what lies beyond it, %d", ahead);
        drain();
        cr_assert_eq(xh_shadow_read(f->shadow, 0, kept, sizeof kept), sizeof kept);
        cr_assert_eq(kept[77], byte_at(77), "what came later is kept");
        xh_cache_close(f);
    }
}

Test(read, an_early_head_is_told_with_its_proof_by_one_request)
{
    struct xh_err err = {0};
    void *told;
    size_t len;
    struct xh_file *f = open_early("shadow=off", 0);
    engine.transfers = 0;
    cr_assert_eq(xh_cache_tell(f, &told, &len, &err), 0, "%s", err.text);
    cr_assert_eq(engine.transfers, 1);
    free(told);
    drain();
    xh_cache_close(f);
    f = open_early("shadow=off", 0x55);
    cr_assert_eq(xh_cache_tell(f, &told, &len, &err), XH_E_CHANGED);
    drain();
    xh_cache_close(f);
}

Test(read, nothing_else_is_read_until_an_early_head_is_proved)
{
    static const char *const configs[] = {"shadow=off", "shadow=off,readahead=off", "shadow=off,stream_bytes=0"};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        hold(1); /* but for what a reader waits for: were the proof not among that, the read would succeed */
        struct xh_file *f = open_early(configs[i], 0x55);
        cr_assert_eq(read_code(f, 0, 8, 0x55), 0);
        cr_assert_eq(read_code(f, 9990, 20, 0), XH_E_CHANGED, "%s", configs[i]);
        cr_assert_eq(read_code(f, 0, 8, 0x55), XH_E_CHANGED, "nothing is read after that");
        cr_assert_eq(read_code(f, 1000000, 100, 0), XH_E_CHANGED);
        hold(0);
        xh_cache_close(f);
        hold(1);
        f = open_early(configs[i], 0);
        cr_assert_eq(read_code(f, 1000000, 100, 0), 0);
        cr_assert_eq(xh_shadow_peek(f->shadow, 0), XH_CLAIM_READY, "%s", configs[i]);
        cr_assert_eq(read_code(f, 0, 20000, 0), 0);
        hold(0);
        xh_cache_close(f);
    }
}

Test(read, what_is_read_to_be_kept_is_nothing_of_an_early_head_that_is_not_proved)
{
    static const uint8_t other[] = {0x55, 0};
    for (int same = 0; same < 2; same++) {
        struct xh_file *f = open_early("shadow=off", other[same]);
        f->opt.is_kept = 1;
        engine.transfers = 0;
        cr_assert_eq(read_code(f, 100, 100, other[same]), same ? 0 : XH_E_CHANGED);
        cr_assert_eq(read_code(f, 0, 9000, other[same]), same ? 0 : XH_E_CHANGED);
        cr_assert_eq(engine.transfers, 1);
        drain();
        xh_cache_close(f);
    }
}

/* The tmpfs file is cut and grown again by another program while a page comes in pieces: what was there of it is
 * zeros. */
Test(read, a_page_that_comes_in_pieces_is_published_as_it_came_whatever_befalls_the_file)
{
    struct xh_file *f = open_test("shadow=off,readahead=off");
    struct xh_run run = {100, 2};
    struct xh_runs runs = {.at = &run, .n = 1};
    struct xh_arrival a = {.page = 100};
    struct stat st;
    uint8_t came[2 * XH_PAGE_BYTES], got[XH_PAGE_BYTES];
    for (size_t i = 0; i < sizeof came; i++)
        came[i] = byte_at(100 * XH_PAGE_BYTES + i);
    for (uint64_t p = 100; p < 102; p++)
        cr_assert_eq(xh_shadow_claim_later(f->shadow, p, 0, 0, NULL), XH_CLAIM_MINE);
    cr_assert_eq(xh_arrive(f, &runs, &a, 100 * XH_PAGE_BYTES, came, 5000), 0);
    cr_assert_eq(xh_shadow_peek(f->shadow, 101), XH_CLAIM_BUSY);
    cr_assert_eq(fstat(f->shadow->fd, &st) | ftruncate(f->shadow->fd, (off_t)f->shadow->head.data_off) |
                     ftruncate(f->shadow->fd, st.st_size), 0);
    cr_assert_eq(xh_arrive(f, &runs, &a, 100 * XH_PAGE_BYTES + 5000, came + 5000, sizeof came - 5000), 0);
    xh_arrive_end(f, &runs, &a, 102);
    cr_expect_eq(xh_shadow_read(f->shadow, 100 * XH_PAGE_BYTES, got, sizeof got), 0, "its bytes are zeros now");
    cr_expect_eq(xh_shadow_read(f->shadow, 101 * XH_PAGE_BYTES, got, sizeof got), sizeof got);
    cr_expect_arr_eq(got, came + XH_PAGE_BYTES, sizeof got);
    xh_cache_close(f);
}

/* So does a daemon that closes all that it has open. */
Test(read, where_the_shadow_s_file_was_closed_reads_go_on_past_it, .timeout = 50)
{
    static const char *configs[] = {"shadow=off,readahead=off", "shadow=off"};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        struct xh_file *f = open_test(configs[i]);
        cr_assert_eq(read_code(f, 100000, 500000, 0), 0);
        close(f->shadow->fd);
        cr_assert_eq(read_code(f, 123456, 7, 0), 0, "it was there");
        cr_assert_eq(read_code(f, 550000, 300000, 0), 0, "a part of it was");
        cr_assert_eq(read_code(f, 1500000, OBJECT_BYTES - 1500000, 0), 0, "nothing of it was");
        unsigned seed = 3;
        for (int k = 0; k < 20; k++) /* several extents */
            cr_assert_eq(read_random(f, &seed), 0);
        xh_cache_close(f);
    }
}

Test(read, a_hit_too_waits_for_the_proof_of_an_early_head)
{
    hold(1);
    struct xh_file *f = open_early("shadow=off", 0x55);
    struct xh_range there = {245 * 4096, 4096};
    uint8_t b[4096];
    cr_assert_eq(xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_META, .r = &there, .n = 1}), 1);
    xh_fetch_promote(f, there.off / 4096);
    for (uint64_t p = 0; p < 2; p++) /* it lies in two */
        cr_assert_eq(xh_shadow_wait(f->shadow, there.off / 4096 + p, 5000, NULL), 0);
    cr_assert_eq(xh_shadow_read(f->shadow, there.off, b, sizeof b), sizeof b);
    cr_assert_eq(read_code(f, there.off, there.len, 0), XH_E_CHANGED);
    hold(0);
    xh_cache_close(f);
}

Test(read, a_proof_that_could_not_be_fetched_is_tried_again, .timeout = 50)
{
    int failures = 0;
    engine.fail_one_in = 1;
    for (int i = 0, rc = 1; i < 20; i++) {
        struct xh_file *f = open_early("shadow=off,readahead=off", 0);
        for (rc = 1; rc != 0; failures += rc != 0) {
            rc = read_code(f, 1000000, 100, 0);
            cr_assert(rc == 0 || rc == XH_E_NET, "%d", rc);
        }
        xh_cache_close(f);
    }
    cr_assert_gt(failures, 0);
}

Test(read, many_threads_with_an_early_head_get_right_bytes, .timeout = 50)
{
    engine.early = 1;
    many_threads("shadow=off", 0);
    many_threads("shadow=off,readahead=off", 5);
    many_threads("shadow=off,private_budget_bytes=1M", 0);
}

/* ---- a contiguous dataset, and what lies behind it */

#define DATA_OFF 300000u
#define DATA_BYTES 1500000u

/* Superblock and object header of a dataset of |bytes| at DATA_OFF. */
static void make_dataset_of(uint8_t p[1024], uint64_t bytes)
{
    static const uint8_t superblock[] = "\211HDF\r\n\032\n\2\x08\x08", header[] = "OHDR\2\0\x16\x08\x12\0\0\3\1";
    memset(p, 0, 1024);
    memcpy(p, superblock, sizeof superblock - 1);
    memset(p + 20, 0xff, 8); /* no extension */
    p[37] = 2; /* the root is at 512 */
    memcpy(p + 512, header, sizeof header - 1);
    for (int i = 0; i < 4; i++) {
        p[525 + i] = (uint8_t)(DATA_OFF >> 8 * i);
        p[533 + i] = (uint8_t)(bytes >> 8 * i);
    }
    made = p;
    made_len = 1024;
}

static void make_dataset(uint8_t p[1024])
{
    make_dataset_of(p, DATA_BYTES);
}

static void read_held(struct xh_file *f, enum xh_kind kind, uint64_t off, uint64_t len)
{
    struct xh_err err = {0};
    uint8_t *b = malloc(len);
    struct xh_extent e = {off, len, b};
    cr_assert_eq(xh_cache_read(f, kind, &e, 1, &err), 0, "%s", err.text);
    expect_right(b, off, len, 0);
    free(b);
}

/* The same, and all that it leads to. */
static void read_piece(struct xh_file *f, enum xh_kind kind, uint64_t off, uint64_t len)
{
    read_held(f, kind, off, len);
    drain();
}

/* Reads the dataset in order, |step| bytes at a time. */
static void read_data(struct xh_file *f, uint64_t step)
{
    for (uint64_t at = 0; at < DATA_BYTES; at += step)
        read_piece(f, XH_KIND_RAW, DATA_OFF + at, DATA_BYTES - at < step ? DATA_BYTES - at : step);
}

static const char *ways[] = {"shadow=off", "shadow=off,stream_bytes=0", "shadow=off,stream_bytes=500000"};

Test(read, nothing_beyond_the_end_of_a_contiguous_dataset_is_asked_for, .timeout = 50)
{
    uint8_t p[1024];
    make_dataset(p);
    for (int i = 0; i < 6; i++) {
        struct xh_stats s;
        struct xh_file *f = open_test(ways[i % 3]);
        read_piece(f, XH_KIND_META, 0, 48);
        read_piece(f, XH_KIND_META, 512, 512);
        read_data(f, i < 3 ? 20000 : 100000);
        uint64_t pages_end = (DATA_OFF + DATA_BYTES + 4095) / 4096 * 4096;
        cr_assert_leq(atomic_load(&origin_now->farthest), pages_end, "%s: up to %llu", ways[i % 3],
                      (unsigned long long)atomic_load(&origin_now->farthest));
        xh_cache_stats(f, &s);
        cr_assert_leq(s.bytes_demand + s.bytes_waited + s.bytes_bypass, 250000 + 48 + 512,
                      "but the dataset is fetched ahead");
        xh_cache_close(f);
    }
}

Test(read, who_reads_on_past_a_contiguous_dataset_is_followed, .timeout = 50)
{
    uint8_t p[1024];
    struct xh_stats s;
    make_dataset(p);
    for (int i = 0; i < 3; i++) {
        struct xh_file *f = open_test(ways[i]);
        read_piece(f, XH_KIND_META, 0, 48);
        read_piece(f, XH_KIND_META, 512, 512);
        for (uint64_t off = DATA_OFF; off + 20000 < OBJECT_BYTES; off += 20000)
            read_piece(f, XH_KIND_RAW, off, 20000);
        xh_cache_stats(f, &s);
        cr_assert_leq(s.bytes_demand + s.bytes_waited + s.bytes_bypass, 150000, "%s", ways[i]);
        xh_cache_close(f);
    }
}

Test(read, without_the_dataset_s_header_the_end_is_not_known, .timeout = 50)
{
    uint8_t p[1024];
    make_dataset(p);
    struct xh_file *f = open_test("shadow=off");
    read_data(f, 20000);
    cr_assert_gt(atomic_load(&origin_now->farthest), DATA_OFF + DATA_BYTES + 4096);
    xh_cache_close(f);
}

/* ---- a stream that begins with the read that it follows from */

#define LED_BYTES (48u << 20)
#define LED_READ (8u << 20)

/* Opens a file whose dataset is long, and knows where that ends. */
static struct xh_file *open_long(uint8_t p[1024])
{
    make_dataset_of(p, LED_BYTES);
    engine.object_bytes = DATA_OFF + LED_BYTES + 1000;
    engine.streams = 8;
    struct xh_file *f = open_test("shadow=off,stream_bytes=4M");
    read_piece(f, XH_KIND_META, 0, 48);
    read_piece(f, XH_KIND_META, 512, 512);
    return f;
}

Test(read, a_first_read_of_a_long_run_comes_with_its_stream_and_is_kept, .timeout = 50)
{
    uint8_t p[1024];
    struct xh_stats s;
    struct xh_file *f = open_long(p);
    for (uint64_t at = 0; at < LED_BYTES; at += LED_READ)
        read_piece(f, XH_KIND_RAW, DATA_OFF + at, LED_READ);
    xh_cache_stats(f, &s);
    cr_assert_leq(s.bytes_demand + s.bytes_bypass, 8192 + 1024, "the first read too came from the stage");
    uint64_t so_far = fetched(f);
    cr_assert_leq(so_far, LED_BYTES + 16384, "nothing twice");
    read_piece(f, XH_KIND_RAW, DATA_OFF + 4096, LED_READ - 8192);
    cr_assert_eq(fetched(f), so_far, "what was read first is in the shadow");
    xh_cache_close(f);
}

/* A read in a thread of its own. */
struct late {
    struct xh_file *f;
    uint64_t off, len;
    _Atomic int done;
};

static void *read_late(void *arg)
{
    struct late *l = arg;
    read_held(l->f, XH_KIND_RAW, l->off, l->len);
    atomic_store(&l->done, 1);
    return NULL;
}

Test(read, a_first_read_that_comes_with_its_stream_is_published_as_it_comes, .timeout = 50)
{
    uint8_t p[1024];
    struct gate here = {.allowed = LED_READ / 2};
    struct late l = {.f = open_long(p), .off = DATA_OFF, .len = LED_READ};
    struct xh_stats s;
    pthread_t t;
    gate = &here;
    gated = 1;
    pthread_create(&t, NULL, read_late, &l);
    do { /* one engine thread may be far ahead of the others, in what lies behind the read: so more and more may come */
        usleep(1000);
        atomic_fetch_add(&here.allowed, 65536);
        xh_cache_stats(l.f, &s);
    } while (s.pages_published < LED_READ / 4 / XH_PAGE_BYTES);
    cr_expect_not(atomic_load(&l.done), "half of it has not come");
    atomic_store(&here.allowed, UINT64_MAX);
    pthread_join(t, NULL);
    drain();
    gated = 0;
    uint64_t so_far = fetched(l.f);
    read_piece(l.f, XH_KIND_RAW, DATA_OFF + 4096, LED_READ - 8192);
    cr_expect_eq(fetched(l.f), so_far, "all of it is in the shadow");
    cr_expect_eq(atomic_load(&l.f->shadow->inflight), 0, "every claim is over");
    xh_cache_close(l.f);
}

Test(read, a_stream_that_fails_under_its_first_read_leaves_nothing_claimed, .timeout = 50)
{
    uint8_t p[1024];
    struct xh_err err = {0};
    uint8_t *b = malloc(LED_READ);
    struct xh_extent e = {DATA_OFF, LED_READ, b};
    int failures = 0;
    for (int i = 0; i < 8; i++) {
        struct xh_file *f = open_long(p);
        engine.fail_one_in = 2;
        failures += xh_cache_read(f, XH_KIND_RAW, &e, 1, &err) != 0;
        engine.fail_one_in = 0;
        drain();
        read_piece(f, XH_KIND_RAW, DATA_OFF, LED_READ);
        xh_cache_close(f);
    }
    cr_assert_gt(failures, 0);
    free(b);
}

/* A reader comes, and then what he was promised breaks off: he gets the rest from a request of his own. */
Test(read, a_guess_that_fails_under_a_reader_is_no_failure_of_the_read, .timeout = 50)
{
    struct xh_stats s;
    struct xh_range r[] = {{1000000, 300000}, {1500000, 200000}};
    engine.breaks = 100000;
    for (int i = 0; i < 4; i++) {
        struct xh_file *f = open_test(i % 2 ? "shadow=off,readahead=off,stream_bytes=0" : "shadow=off,readahead=off");
        uint8_t *b = malloc(700001);
        struct xh_extent e = {1000000 + 4096u * (unsigned)(i / 2), 700000, b};
        struct xh_err err = {0};
        hold(1);
        cr_assert_eq(xh_stage_fetch(f, r, 2, 0), 2);
        cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &e, 1, &err), 0, "%s", err.text);
        for (uint64_t k = 0; k < e.len; k++)
            cr_assert_eq(b[k], byte_at(e.off + k), "at %llu", (unsigned long long)k);
        xh_cache_stats(f, &s);
        cr_assert_gt(s.bytes_staged, 0, "some of it came");
        cr_assert_lt(s.bytes_staged, 500000, "what did not come is not counted");
        cr_assert_eq(s.bytes_asked, s.bytes_hit + s.bytes_staged + s.bytes_waited + s.bytes_demand + s.bytes_bypass);
        hold(0);
        drain();
        free(b);
        xh_cache_close(f);
    }
    engine.breaks = 0;
}

/* The same of a stream that began with the read, which holds claims for what it is to keep. */
Test(read, a_stream_that_breaks_off_under_its_first_read_is_made_up_for_at_once, .timeout = 50)
{
    uint8_t p[1024];
    engine.breaks = 100000;
    struct xh_file *f = open_long(p);
    uint64_t begun = xh_now_ns();
    for (uint64_t at = 0; at < LED_BYTES; at += LED_READ)
        read_piece(f, XH_KIND_RAW, DATA_OFF + at, LED_READ);
    cr_assert_lt(xh_now_ns() - begun, f->opt.stall_timeout_ms * 1000000u, "it did not wait for itself");
    cr_assert_gt(engine.loads, 0);
    engine.breaks = 0;
    drain();
    xh_cache_close(f);
}

#define CUT_BYTES (100u << 20)
#define CUT_READ (256u << 10)
#define CUT_AFTER (3 * CUT_READ) /* its next reads are here already; before they are twice as many, a stream begins */

/* The stream is dealt anew behind what it still has to bring, while there is room left in the shadow for what is
 * fetched ahead. */
Test(read, what_a_stream_brings_is_not_fetched_to_the_shadow_too, .timeout = 50)
{
    uint8_t p[1024];
    uint64_t at = 0;
    make_dataset_of(p, CUT_BYTES);
    engine.object_bytes = DATA_OFF + CUT_BYTES + 1000;
    engine.streams = 1;
    engine.rtt_ns = 1000000;
    struct xh_file *f = open_test("shadow=off,stream_bytes=30M");
    read_piece(f, XH_KIND_META, 0, 48);
    read_piece(f, XH_KIND_META, 512, 512);
    for (; at < CUT_AFTER; at += CUT_READ)
        read_piece(f, XH_KIND_RAW, DATA_OFF + at, CUT_READ);
    hold(1);
    for (; !f->stage->stream[0] && at < 2 * CUT_AFTER; at += CUT_READ)
        read_held(f, XH_KIND_RAW, DATA_OFF + at, CUT_READ);
    cr_assert(f->stage->stream[0], "it has begun");
    engine.watched = f->stage->stream[0]->pos + CUT_READ;
    engine.streams = 0; /* there will be room soon */
    xh_stage_cut(f, CUT_READ);
    for (uint64_t end = at + 4 * CUT_READ; at < end; at += CUT_READ)
        read_held(f, XH_KIND_RAW, DATA_OFF + at, CUT_READ);
    cr_assert_eq(engine.times, 0, "the stream has asked for that");
    hold(0);
    read_piece(f, XH_KIND_RAW, engine.watched / CUT_READ * CUT_READ, CUT_READ);
    xh_cache_close(f);
}

/* Opens an object without datasets, of which a stream may begin. */
static struct xh_file *open_run_file(const char *config)
{
    engine.object_bytes = CUT_BYTES;
    engine.streams = 8;
    engine.rtt_ns = 1000000;
    return open_test(config);
}

#define RUN_READ (1u << 20)

/* Reads pieces |first| to |end| of |f| in order, each |times|. */
static void read_in_order(struct xh_file *f, uint64_t first, uint64_t end, int times)
{
    for (uint64_t i = first * (unsigned)times; i < end * (unsigned)times; i++)
        read_piece(f, XH_KIND_RAW, i / (unsigned)times * RUN_READ, RUN_READ);
}

Test(read, small_reads_between_those_of_a_run_and_excursions_from_it_are_no_turns, .timeout = 50)
{
    struct xh_file *f = open_run_file("shadow=off");
    for (uint64_t i = 0; i < 24; i++) {
        read_in_order(f, i, i + 1, 1);
        read_piece(f, XH_KIND_RAW, (90u << 20) + 8 * i, 8);
        cr_assert_leq(f->sequence->turns.n, 1);
    }
    for (uint64_t i = 24; i < 48; i++) {
        read_in_order(f, i, i + 1, 1);
        if (i % 8 == 0)
            read_piece(f, XH_KIND_RAW, (60 + i * i % 30) * RUN_READ, RUN_READ);
        if (i % 8 == 5)
            cr_assert_eq(f->sequence->turns.n, 0, "it was one read");
    }
    xh_cache_close(f);
    f = open_run_file("shadow=off");
    for (uint64_t i = 0; i < 8; i++) {
        read_in_order(f, i, i + 1, 1);
        read_in_order(f, 50 + i, 51 + i, 1);
    }
    cr_expect_eq(f->sequence->turns.n, 2, "these are");
    xh_cache_close(f);
}

Test(read, an_excursion_moves_no_stream, .timeout = 50)
{
    struct xh_file *f = open_run_file("shadow=off,stream_bytes=50M");
    read_in_order(f, 0, 3, 1);
    hold(1);
    xh_stage_stream(f, 60 * RUN_READ, 78 * RUN_READ, 1, 0);
    xh_stage_reach(f, 3 * RUN_READ, 64 * RUN_READ);
    cr_assert(f->stage->stream[0]);
    uint64_t reach = f->stage->reach;
    read_held(f, XH_KIND_RAW, 80 * RUN_READ, 65536);
    read_held(f, XH_KIND_RAW, 80 * RUN_READ + 65536, 65536);
    cr_expect_eq(f->stage->reach, reach, "%llu", (unsigned long long)f->stage->reach);
    hold(0);
    drain();
    xh_cache_close(f);
}

Test(read, steps_that_were_none_let_others_less_far_ahead_also_where_a_run_is_read_between_them, .timeout = 50)
{
    static const uint64_t at[] = {40, 43, 46, 70, 75, 80, 51, 53, 55, 91, 94, 97};
    struct xh_file *f = open_run_file("shadow=off");
    for (uint64_t i = 0; i < 12; i++) { /* three equal steps, and then another three somewhere else */
        read_in_order(f, i, i + 1, 1);
        read_piece(f, XH_KIND_RAW, at[i] * RUN_READ, RUN_READ);
    }
    const struct xh_run_read *run = f->sequence->turns.run;
    cr_expect(run[0].seq.window && run[0].seq.window <= 2 * run[0].seq.bytes, "%llu",
              (unsigned long long)run[0].seq.window);
    cr_expect_gt(run[1].seq.window, 2 * run[1].seq.bytes, "the run is trusted");
    xh_cache_close(f);
}

/* 1 when a stream of |f| is not at its end. */
static int streams(const struct xh_file *f)
{
    for (size_t i = 0; i < XH_STREAMS_MAX && f->stage->stream[i]; i++)
        if (!f->stage->stream[i]->cut)
            return 1;
    return 0;
}

Test(read, streams_end_where_what_they_brought_is_read_again_and_again_but_not_for_one_repeat, .timeout = 50)
{
    struct xh_file *f = open_run_file("shadow=off,stream_bytes=1M");
    read_in_order(f, 0, 1, 1);
    read_in_order(f, 30, 31, 1);
    hold(1);
    xh_stage_stream(f, 60 * RUN_READ, 90 * RUN_READ, 1, 0);
    cr_assert(streams(f));
    read_held(f, XH_KIND_RAW, 30 * RUN_READ, RUN_READ);
    cr_expect(streams(f), "one repeat");
    cr_expect_not(xh_keep_is_again(f), "what is kept would be fetched besides");
    read_held(f, XH_KIND_RAW, 0, RUN_READ);
    cr_expect_not(streams(f), "one more soon behind it");
    cr_expect(xh_keep_is_again(f));
    hold(0);
    drain();
    xh_cache_close(f);
}

/* As parts of a stream that come after its end. */
Test(read, what_the_stage_still_gets_while_data_is_read_again_is_fetched_once, .timeout = 50)
{
    struct xh_range late = {60 * RUN_READ, 4 * RUN_READ};
    struct xh_stats before, s;
    struct xh_file *f = open_run_file("shadow=off,stream_bytes=0");
    read_in_order(f, 0, 1, 3);
    cr_assert(xh_keep_is_again(f));
    cr_assert_eq(xh_stage_fetch(f, &late, 1, 0), 1);
    drain();
    xh_cache_stats(f, &before);
    for (int i = 0; i < 2; i++)
        read_in_order(f, 60, 64, 1);
    xh_cache_stats(f, &s);
    cr_expect_eq(s.bytes_demand + s.bytes_bypass, before.bytes_demand + before.bytes_bypass);
    xh_cache_close(f);
}

Test(read, scattered_reads_of_what_nobody_has_read_end_the_keeping_too, .timeout = 50)
{
    struct xh_err err = {0};
    struct xh_file *f = open_run_file("shadow=off,stream_bytes=1M,readahead_bytes=0");
    uint8_t *b = malloc(2 * RUN_READ);
    read_in_order(f, 0, 2, 2);
    cr_assert(xh_keep_is_again(f));
    for (uint64_t i = 0; i < 16; i++) {
        struct xh_extent e[] = {{(10 + i) * RUN_READ, RUN_READ, b}, {(40 + i) * RUN_READ, RUN_READ, b + RUN_READ}};
        cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, e, 2, &err), 0);
        drain();
    }
    cr_expect_not(xh_keep_is_again(f));
    xh_cache_close(f);
    free(b);
}

Test(read, what_was_read_whole_and_not_kept_is_read_ahead_when_it_is_read_in_pieces, .timeout = 50)
{
    struct xh_stats before, s;
    struct xh_file *f = open_run_file("shadow=off,stream_bytes=0");
    read_piece(f, XH_KIND_RAW, 0, 16 * RUN_READ);
    xh_cache_stats(f, &before);
    read_in_order(f, 0, 16, 1);
    xh_cache_stats(f, &s);
    cr_expect_leq(s.bytes_demand + s.bytes_bypass - before.bytes_demand - before.bytes_bypass, 4 * RUN_READ, "%llu",
                  (unsigned long long)(s.bytes_demand + s.bytes_bypass - before.bytes_demand - before.bytes_bypass));
    xh_cache_close(f);
}

#define STREAM_BYTES (32u << 20)
#define PIECE (16u << 10) /* 40 of them are too few for a stream of their own */

/* A stream begins behind a link that brings |rate| bytes a second, 0: unknown. Returns how far it may run ahead. */
static uint64_t run_ahead(uint64_t rate)
{
    engine.object_bytes = CUT_BYTES;
    engine.streams = 8;
    engine.loads = 0;
    struct xh_file *f = open_test("shadow=off");
    drain();
    hold(1);
    xh_stage_tell(f, rate);
    cr_assert_eq(xh_stage_stream(f, 0, CUT_BYTES, 1, 0), CUT_BYTES);
    xh_stage_reach(f, 0, UINT64_C(1) << 40);
    uint64_t ahead = f->stage->reach;
    hold(0);
    xh_cache_close(f);
    return ahead;
}

Test(read, the_stream_of_a_slow_link_runs_ahead_by_seconds, .timeout = 50)
{
    uint64_t most = run_ahead(0);
    cr_assert_gt(most, 100000000);
    cr_assert_eq(engine.loads, 8);
    cr_assert_eq(run_ahead(12000000), 48000000, "four seconds");
    cr_assert_eq(run_ahead(1000000), 16u << 20, "but enough to be a stream");
    cr_assert_eq(run_ahead(1000000000), most);
}

Test(read, what_may_be_fetched_in_vain_of_a_file_that_was_opened_before_is_as_much)
{
    uint64_t spare[2];
    for (int i = 0; i < 2; i++) {
        engine.confirms = i;
        struct xh_file *f = open_run_file("shadow=off");
        spare[i] = f->spare_bytes;
        xh_cache_close(f);
    }
    engine.confirms = 0;
    cr_expect(spare[0] > 0 && spare[1] == spare[0], "%llu, %llu", (unsigned long long)spare[0],
              (unsigned long long)spare[1]);
}

/* Neighbours share a page, which the one had and the other has again. */
Test(read, small_pieces_in_order_are_not_what_is_read_again, .timeout = 50)
{
    struct xh_file *f = open_test("shadow=off,stream_bytes=0");
    for (uint64_t at = 100; at < 64 * 1000; at += 1000)
        read_piece(f, XH_KIND_RAW, at, 1000);
    for (uint64_t at = 100000; at < 200000; at += 10000)
        read_piece(f, XH_KIND_RAW, at, 10000);
    cr_assert_eq(atomic_load(&f->keep->again), 0);
    read_piece(f, XH_KIND_RAW, 110000, 10000);
    read_piece(f, XH_KIND_RAW, 120000, 10000);
    cr_assert_gt(atomic_load(&f->keep->again), 0, "at the second one, whatever is ahead");
    xh_cache_close(f);
}

Test(read, tiles_that_overlap_a_little_end_the_keeping_too, .timeout = 50)
{
    engine.object_bytes = CUT_BYTES;
    struct xh_file *f = open_test("shadow=off,stream_bytes=0,readahead_bytes=1M");
    for (int i = 0; i < 4; i++)
        read_piece(f, XH_KIND_RAW, 100000, 300000);
    cr_assert_gt(atomic_load(&f->keep->again), 0);
    for (uint64_t at = 1000000; at < 24000000; at += 270000)
        read_piece(f, XH_KIND_RAW, at, 300000);
    cr_assert_eq(atomic_load(&f->keep->again), 0);
    xh_cache_close(f);
}

/* What a stream has brought lies ahead of its reader, who comes to it, however small his reads are. */
Test(read, what_a_stream_has_brought_waits_for_its_reader, .timeout = 50)
{
    engine.object_bytes = 8 * STREAM_BYTES;
    engine.streams = 8;
    struct xh_file *f = open_test("shadow=off,readahead_bytes=40M");
    struct xh_range behind = {STREAM_BYTES, STREAM_BYTES / 2};
    drain();
    cr_assert_eq(xh_stage_stream(f, 0, STREAM_BYTES, 1, 0), STREAM_BYTES);
    xh_stage_reach(f, 0, STREAM_BYTES);
    drain();
    cr_assert(!f->stage->stream[0] && xh_stage_has(f, STREAM_BYTES - 1), "all of it is there");
    for (uint64_t at = 0; at < 40 * PIECE; at += PIECE)
        read_piece(f, XH_KIND_RAW, at, PIECE);
    cr_assert_eq(xh_stage_fetch(f, &behind, 1, 0), 0, "there is no room");
    for (uint64_t at = 40 * PIECE; at < STREAM_BYTES; at += PIECE)
        cr_assert(xh_stage_has(f, at), "%llu", (unsigned long long)at);
    read_piece(f, XH_KIND_RAW, 6 * STREAM_BYTES, STREAM_BYTES);
    read_piece(f, XH_KIND_RAW, 4 * STREAM_BYTES, STREAM_BYTES);
    cr_assert_eq(xh_stage_fetch(f, &behind, 1, 0), 1, "the reader went elsewhere, and read more than lay before him");
    xh_cache_close(f);
}

/* Reads |n| pieces from |*at| on. */
static void read_elsewhere(struct xh_file *f, uint64_t *at, int n)
{
    for (; n > 0; n--, *at += 4 * PIECE)
        read_piece(f, XH_KIND_RAW, *at, PIECE);
}

Test(read, what_was_passed_by_stays_as_long_as_others_were_late, .timeout = 50)
{
    engine.object_bytes = 8 * STREAM_BYTES;
    for (int comes_back = 0; comes_back < 2; comes_back++) {
        struct xh_file *f = open_test("shadow=off,readahead=off,readahead_bytes=4M");
        struct xh_range r[6];
        uint64_t at = 0;
        for (uint64_t i = 0; i < 6; i++)
            r[i] = (struct xh_range){STREAM_BYTES * (i + 1), 1 << 20};
        for (int i = 0; i < 3; i++, at += 1 << 20) { /* none is late that is read in its turn */
            struct xh_range next[2] = {{at, 1 << 19}, {at + (1 << 19), 1 << 19}};
            cr_assert_eq(xh_stage_fetch(f, next, 2, 0), 2);
            drain();
            read_piece(f, XH_KIND_RAW, at, 1 << 19);
            read_piece(f, XH_KIND_RAW, at + (1 << 19), 1 << 19);
        }
        cr_assert_eq(xh_stage_fetch(f, r, 4, 0), 4);
        drain();
        read_elsewhere(f, &at, 40);
        if (comes_back) {
            read_piece(f, XH_KIND_RAW, r[0].off, r[0].len);
            cr_assert_eq(xh_stage_fetch(f, &r[4], 1, 0), 1, "in its room");
            drain();
        }
        cr_assert_eq(xh_stage_fetch(f, &r[5], 1, 0), !comes_back);
        drain();
        cr_assert(xh_stage_has(f, r[1].off) && !xh_stage_has(f, r[0].off), "it was read, or made room");
        read_elsewhere(f, &at, 200);
        cr_assert_eq(xh_stage_fetch(f, &r[5], 1, 0), 1, "no other one was half as late");
        xh_cache_close(f);
    }
}

/* The read itself comes first, over all connections; what follows it is asked for behind it, or at the next read. */
Test(read, a_long_run_that_begins_with_its_read_is_seen_to_up_to_its_end_where_a_request_has_one_range, .timeout = 50)
{
    struct xh_range r = {1u << 20, 19u << 20};
    engine.object_bytes = 64u << 20;
    engine.far = 1;
    engine.streams = 8;
    struct xh_file *f = open_test("shadow=off,readahead_bytes=18M,multirange=off");
    pthread_mutex_lock(&engine.lock);
    engine.hold = 1; /* so that all of it is on its way */
    pthread_mutex_unlock(&engine.lock);
    uint64_t end = r.off + r.len;
    struct xh_proposal p = {.r = &r, .n = 1, .window = 18u << 20, .run_end = 50u << 20, .leads = 1, .turns = 1};
    cr_expect_eq(xh_schedule_run(f, &p), end);
    uint64_t asked = fetched(f);
    cr_expect_geq(asked, r.len);
    struct xh_range rest = {end, 4u << 20};
    p = (struct xh_proposal){.r = &rest, .n = 1, .window = 18u << 20, .run_end = 50u << 20, .turns = 1};
    cr_expect_eq(xh_schedule_run(f, &p), end, "there is no room yet");
    pthread_mutex_lock(&engine.lock);
    engine.hold = 0;
    pthread_cond_broadcast(&engine.more);
    pthread_mutex_unlock(&engine.lock);
    drain();
    cr_expect_eq(xh_schedule_run(f, &p), rest.off + rest.len);
    drain();
    xh_cache_close(f);
}

/* ---- sharing ---------------------------------------------------------------------------- */

static char share_dir[64];

/* A file of |bytes| bytes with a shadow that others could have open; |config| begins with a comma, or is "". */
static struct xh_file *open_shareable(uint64_t bytes, const char *config)
{
    char all[200];
    strcpy(share_dir, "/dev/shm/xh-test-read-XXXXXX");
    cr_assert_not_null(mkdtemp(share_dir));
    engine.object_bytes = bytes;
    engine.streams = 8;
    snprintf(all, sizeof all, "shadow_dir=%s,readahead_bytes=40M%s", share_dir, config);
    return open_test(all);
}

static void close_shareable(struct xh_file *f)
{
    char command[128];
    drain();
    xh_cache_close(f);
    snprintf(command, sizeof command, "rm -r %s", share_dir);
    cr_assert_eq(system(command), 0);
}

/* The stage gets all from |off| to |end|. */
static void stream_in(struct xh_file *f, uint64_t off, uint64_t end)
{
    cr_assert_eq(xh_stage_stream(f, off, end, 1, 0), end);
    xh_stage_reach(f, off, end - off);
    drain();
    cr_assert(xh_stage_has(f, off) && xh_stage_has(f, end - 1), "all of it is there");
}

Test(read, what_a_stream_has_brought_goes_to_the_shadow_up_to_the_files_end, .timeout = 50)
{
    static const uint64_t beyond[] = {0, 1, 4095};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        uint64_t off = 20001, end = STREAM_BYTES + beyond[i];
        row++;
        struct xh_file *f = open_shareable(end, "");
        stream_in(f, off, end);
        xh_stage_share(f);
        cr_expect(xh_shadow_has(f->shadow, 5, xh_page_up(f->size) - 5), "%llu", (unsigned long long)end);
        cr_expect_neq(xh_shadow_peek(f->shadow, 4), XH_CLAIM_READY, "half of it is not there");
        opening = atomic_load(&origin_now->fetched);
        for (uint64_t at = 20480; at < end; at += PIECE)
            read_piece(f, XH_KIND_RAW, at, at + PIECE < end ? PIECE : (size_t)(end - at));
        cr_expect_eq(fetched(f), 0);
        close_shareable(f);
    }
}

Test(read, of_what_lies_in_pieces_whole_pages_are_shared, .timeout = 50)
{
    /* touching within a page, apart in one, a whole page alone, a hole of a page, the file's end in two parts */
    static const struct xh_range pieces[] = {{20000, 5000}, {25000, 5000}, {41000, 100}, {42000, 100}, {45056, 4096},
                                             {57344, 8192}, {69632, 8193}, {999000, 600}, {999600, 401}};
    static const uint64_t whole[] = {5, 6, 11, 14, 15, 17, 18, 244};
    const size_t n = sizeof pieces / sizeof *pieces;
    struct xh_file *f = open_shareable(1000001, ",readahead=off");
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(xh_stage_fetch(f, &pieces[i], 1, 0), 1);
    drain();
    xh_stage_share(f);
    for (uint64_t p = 4, k = 0; p < xh_page_up(f->size); p++) {
        int is = k < sizeof whole / sizeof *whole && p == whole[k];
        cr_expect_eq(xh_shadow_peek(f->shadow, p) == XH_CLAIM_READY, is, "page %llu", (unsigned long long)p);
        k += (uint64_t)is;
    }
    opening = atomic_load(&origin_now->fetched);
    for (size_t i = 0; i < n; i++)
        read_piece(f, XH_KIND_RAW, pieces[i].off, pieces[i].len);
    cr_expect_eq(fetched(f), 0, "it is here or there: %llu", (unsigned long long)fetched(f));
    close_shareable(f);
}

/* Else each page that is shared would make way for the next, and all be fetched again. */
Test(read, no_more_is_shared_than_the_shadow_has_room_for, .timeout = 50)
{
    struct xh_stats s;
    struct xh_file *f = open_shareable(2 * STREAM_BYTES, ",shadow_budget_bytes=8M,readahead=off");
    stream_in(f, STREAM_BYTES / 2, 3 * STREAM_BYTES / 2);
    for (int i = 0; i < 100; i++) { /* as while the rest comes */
        f->stage->unshared = 1;
        xh_stage_share(f);
    }
    xh_cache_stats(f, &s);
    cr_expect_gt(s.pages_published, 1000);
    cr_expect_leq(s.pages_published, 2048 + 128, "%llu", (unsigned long long)s.pages_published);
    cr_expect_leq(s.pages_evicted, 128, "%llu", (unsigned long long)s.pages_evicted);
    opening = atomic_load(&origin_now->fetched);
    for (uint64_t at = STREAM_BYTES / 2; at < 3 * STREAM_BYTES / 2; at += PIECE)
        read_piece(f, XH_KIND_RAW, at, PIECE);
    cr_expect_leq(fetched(f), 2u << 20, "%llu again", (unsigned long long)fetched(f));
    close_shareable(f);
}

/* Else what is fetched ahead would make way for what is fetched farther ahead. */
Test(read, what_others_read_too_is_fetched_ahead_by_half_of_a_small_budget, .timeout = 50)
{
    struct xh_file *f = open_shareable(2 * STREAM_BYTES, ",shadow_budget_bytes=8M");
    cr_expect_eq(xh_guess_window(f), 40u << 20, "it comes to the stage");
    f->others_wait = 1;
    cr_expect_eq(xh_guess_window(f), 4u << 20, "%llu", (unsigned long long)xh_guess_window(f));
    close_shareable(f);
}

/* ---- hints ------------------------------------------------------------------------------ */

#define HINTS 250u
#define HINT_BYTES 10000u

/* Ranges of HINT_BYTES that tile the object from its head's end on, in a random order. */
static void make_hints(struct xh_range r[HINTS], unsigned seed)
{
    for (uint64_t i = 0; i < HINTS; i++)
        r[i] = (struct xh_range){16384 + i * HINT_BYTES, HINT_BYTES};
    for (size_t i = HINTS - 1; i > 0; i--) {
        size_t k = (size_t)rand_r(&seed) % (i + 1);
        struct xh_range t = r[i];
        r[i] = r[k];
        r[k] = t;
    }
}

static void read_checked(struct xh_file *f, struct xh_range r)
{
    struct xh_err err = {0};
    uint8_t b[HINT_BYTES];
    struct xh_extent e = {r.off, r.len, b};
    cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &e, 1, &err), 0, "%s", err.text);
    for (uint64_t k = 0; k < r.len; k++)
        cr_assert_eq(b[k], byte_at(r.off + k));
}

/* Reads all hints from |first| on, in their order. Returns how many bytes it had to fetch itself. */
static uint64_t follow(struct xh_file *f, const struct xh_range *r, size_t first)
{
    struct xh_stats s;
    for (size_t i = first; i < HINTS; i++) {
        drain(); /* what was fetched ahead is there */
        read_checked(f, r[i]);
    }
    xh_cache_stats(f, &s);
    return s.bytes_demand + s.bytes_waited + s.bytes_bypass;
}

Test(read, hints_beyond_the_room_are_fetched_as_the_reads_go_on, .timeout = 50)
{
    const char *configs[] = {"shadow=off,readahead_bytes=400000", "shadow=off,readahead_bytes=400000,readahead=off",
                             "shadow=off,readahead_bytes=400000,multirange=off"};
    struct xh_range r[HINTS];
    for (unsigned i = 0; i < 3; i++) {
        struct xh_file *f = open_test(configs[i]);
        make_hints(r, i + 1);
        cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, r, HINTS), HINTS);
        drain();
        cr_assert_leq(fetched(f), 300000, "more than there is room for");
        cr_assert_eq(follow(f, r, 0), 0, "%s", configs[i]);
        /* Whole pages, where neighbours had touched them before; and gaps, without multi-range. */
        cr_assert_leq(fetched(f), HINTS * HINT_BYTES * (i < 2 ? 11 : 16) / 10, "%s: %llu bytes",
                      configs[i], (unsigned long long)fetched(f));
        xh_cache_close(f);
    }
}

Test(read, hints_into_the_shadow_keep_to_the_room_as_well, .timeout = 50)
{
    struct xh_range r[HINTS];
    struct xh_file *f = open_test("shadow=off,readahead_bytes=400000");
    f->repeats->left = UINT64_MAX;
    xh_keep_again(f, 1); /* as after a second reading */
    make_hints(r, 4);
    cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, r, HINTS), HINTS);
    for (unsigned i = 0; i < HINTS; i++) {
        drain();
        cr_assert_leq(fetched(f), 300000 * 17 / 10 + i * 17000, "far ahead of the reader");
        read_checked(f, r[i]);
    }
    xh_cache_close(f);
}

Test(read, one_long_hint_is_fetched_a_room_at_a_time, .timeout = 50)
{
    struct xh_range whole = {16384, HINTS * HINT_BYTES}, r[HINTS];
    struct xh_file *f = open_test("shadow=off,readahead_bytes=400000,readahead=off");
    for (unsigned i = 0; i < HINTS; i++)
        r[i] = (struct xh_range){16384 + i * HINT_BYTES, HINT_BYTES};
    cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, &whole, 1), 1);
    drain();
    cr_assert_leq(fetched(f), 300000);
    cr_assert_eq(follow(f, r, 0), 0);
    xh_cache_close(f);
}

/* Reads what was announced, all of it, piece by piece. Returns how many bytes of it the shadow has got. */
static uint64_t kept_of(const char *config, const struct xh_range *r, size_t n)
{
    struct xh_stats before, s;
    engine.object_bytes = 8 * STREAM_BYTES;
    struct xh_file *f = open_test(config);
    xh_cache_stats(f, &before);
    cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, r, n), n);
    for (size_t i = 0; i < n; i++)
        for (uint64_t at = 0; at < r[i].len; at += 1 << 20) {
            drain();
            read_piece(f, XH_KIND_RAW, r[i].off + at, 1 << 20);
        }
    xh_cache_stats(f, &s);
    cr_expect_eq(s.bytes_demand + s.bytes_bypass, 0, "all of it was fetched ahead");
    xh_cache_close(f);
    return (s.pages_published - before.pages_published) * XH_PAGE_BYTES;
}

/* Each time that there is room for more, less is left. */
Test(read, whether_what_was_announced_is_kept_is_decided_for_all_of_it, .timeout = 50)
{
    static const struct xh_range one[] = {{1 << 20, 40 << 20}}, two[] = {{1 << 20, 1 << 20}, {8 << 20, 40 << 20}};
    struct xh_range set[8];
    for (uint64_t i = 0; i < 8; i++)
        set[i] = (struct xh_range){(1 + 8 * i) << 20, 4 << 20};
    cr_expect_eq(kept_of("shadow=off,readahead_bytes=16M,stream_bytes=8M", one, 1), 0, "a stream, to its end");
    cr_expect_eq(kept_of("shadow=off,readahead_bytes=16M,stream_bytes=8M", two, 2), 1u << 20, "the short one");
    cr_expect_eq(kept_of("shadow=off,readahead_bytes=16M,stream_bytes=24M", one, 1), 40u << 20, "twice that");
    cr_expect_eq(kept_of("shadow=off,readahead_bytes=40M,private_budget_bytes=16M,stream_bytes=1M", set, 8), 0,
                 "it does not fit, nor does the end of it");
    cr_expect_eq(kept_of("shadow=off,readahead_bytes=40M,private_budget_bytes=96M,stream_bytes=1M", set, 8), 32u << 20);
}

/* ---- one room for all files of the process */

#define FILES 8
#define ROOM_BYTES 1000000u

static void open_files(struct xh_file *f[FILES], const char *config)
{
    for (int i = 0; i < FILES; i++)
        f[i] = open_test(config);
}

/* Bytes that have come, or were asked for in parts, and wait for their reader. */
static uint64_t staged(struct xh_file *f)
{
    pthread_mutex_lock(&f->stage->lock);
    uint64_t bytes = f->stage->place.bytes;
    pthread_mutex_unlock(&f->stage->lock);
    return bytes;
}

static uint64_t all_staged(struct xh_file *const f[FILES])
{
    uint64_t sum = 0;
    for (int i = 0; i < FILES; i++)
        sum += staged(f[i]);
    return sum;
}

Test(read, what_is_fetched_ahead_is_bounded_for_all_files_together, .timeout = 50)
{
    struct xh_range r[HINTS];
    struct xh_file *f[FILES];
    open_files(f, "shadow=off,readahead_bytes=1000000,readahead=off");
    make_hints(r, 7);
    for (int i = 0; i < FILES; i++)
        cr_assert_eq(xh_cache_prefetch(f[i], XH_KIND_RAW, r, HINTS), HINTS);
    drain();
    cr_assert_geq(all_staged(f), ROOM_BYTES / 2, "the first ones found room");
    for (size_t i = 0; i < HINTS; i++)
        for (int k = 0; k < FILES; k++) {
            read_checked(f[k], r[i]);
            cr_assert_leq(all_staged(f), ROOM_BYTES);
            cr_assert_leq(xh_room_held(), ROOM_BYTES);
            cr_assert_leq(xh_room_memory(), 2 * ROOM_BYTES, "and blocks of which a part was read");
            if (k == FILES - 1 && i % 8 == 0)
                drain();
        }
    for (int i = 0; i < FILES; i++) {
        cr_expect_geq(atomic_load(&f[i]->counters.bytes_staged), HINTS * HINT_BYTES / 4, "file %d had its share: %llu",
                      i, (unsigned long long)f[i]->counters.bytes_staged);
        xh_cache_close(f[i]);
    }
    cr_assert_eq(xh_room_held(), 0);
    cr_assert_eq(xh_room_memory(), 0);
}

Test(read, files_that_are_read_no_more_do_not_narrow_the_share_of_one_that_is, .timeout = 50)
{
    struct xh_range some = {16384, 100000};
    struct xh_file *left[3], *f = open_now("shadow=off,readahead_bytes=1000000,readahead=off");
    for (int i = 0; i < 3; i++) {
        left[i] = open_test("shadow=off,readahead_bytes=1000000,readahead=off");
        cr_assert_eq(xh_stage_fetch(left[i], &some, 1, 0), 1);
    }
    drain();
    cr_expect_eq(xh_room_share(ROOM_BYTES), ROOM_BYTES / 3);
    for (uint64_t i = 0; i < 48; i++)
        read_checked(f, (struct xh_range){200000 + 2 * XH_PAGE_BYTES * i, 100});
    cr_expect_eq(xh_room_share(ROOM_BYTES), ROOM_BYTES);
    cr_expect_eq(staged(left[0]), some.len, "nobody wants the room");
    for (int i = 0; i < 3; i++)
        xh_cache_close(left[i]);
    xh_cache_close(f);
}

Test(read, a_file_that_is_read_no_more_gives_its_room_to_one_that_is, .timeout = 50)
{
    struct xh_range r[HINTS];
    struct xh_file *left = open_test("shadow=off,readahead_bytes=1000000,readahead=off"),
                   *f = open_now("shadow=off,readahead_bytes=1000000,readahead=off");
    struct xh_range all = {16384, ROOM_BYTES};
    drain();
    cr_assert_eq(xh_stage_fetch(left, &all, 1, 0), 1);
    drain();
    cr_assert_eq(xh_room_held(), ROOM_BYTES);
    make_hints(r, 9);
    cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, r, HINTS), HINTS);
    drain();
    cr_assert_eq(staged(f), 0, "there is no room yet");
    follow(f, r, 0);
    cr_assert_eq(staged(left), 0);
    cr_assert_geq(atomic_load(&f->counters.bytes_staged), HINTS * HINT_BYTES / 2);
    read_checked(left, (struct xh_range){20000, HINT_BYTES});
    xh_cache_close(left);
    xh_cache_close(f);
    cr_assert_eq(xh_room_memory(), 0);
}

/* ---- files that one file names ---- */

static struct xh_options named_options(uint64_t family, const char *config)
{
    struct xh_options o;
    struct xh_err err = {0};
    xh_options_defaults(&o);
    strcpy(o.sidecar, "off");
    o.head_bytes = 16384;
    o.whole_file_bytes = 1 << 20;
    o.shadow = 0;
    o.namer = (struct xh_namer){.by_file = 1, .remote = 1, .family = family, .parent = "https://test/all.h5"};
    cr_assert_eq(xh_options_from_string(&o, config, "test", &err), 0, "%s", err.text);
    return o;
}

/* |asked_as|: 0, or the number of its opening. */
static struct xh_file *open_named_as(uint64_t family, uint64_t asked_as, const char *config)
{
    static int number;
    char url[64];
    struct xh_options o = named_options(family, config);
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    snprintf(url, sizeof url, "https://test/%d", number++);
    o.asked_as = asked_as;
    cr_assert_eq(xh_cache_open(url, &o, &f, &err), 0, "%s", err.text);
    drain();
    return f;
}

static struct xh_file *open_named(uint64_t family)
{
    return open_named_as(family, 0, "");
}

/* How many bytes the read had to ask for itself. */
static uint64_t alone(struct xh_file *f, uint64_t off)
{
    struct xh_stats before, after;
    xh_cache_stats(f, &before);
    read_checked(f, (struct xh_range){off, HINT_BYTES});
    xh_cache_stats(f, &after);
    drain();
    return after.bytes_demand + after.bytes_bypass - before.bytes_demand - before.bytes_bypass;
}

Test(read, where_two_siblings_were_first_read_the_others_are_fetched_ahead, .timeout = 50)
{
    struct xh_file *f[FILES], *stranger = open_named(9);
    for (int i = 0; i < FILES; i++)
        f[i] = open_named(7);
    cr_assert_eq(alone(f[0], 1000000), HINT_BYTES);
    cr_assert_eq(alone(f[1], 1000000), HINT_BYTES, "one alone shows nothing");
    for (int i = 2; i < FILES - 1; i++)
        cr_assert_eq(alone(f[i], 1000000), 0, "file %d", i);
    xh_cache_close(f[0]);
    f[0] = open_named(7);
    cr_assert_eq(alone(stranger, 1000000), HINT_BYTES, "of another family");
    cr_assert_eq(alone(f[0], 2000000), HINT_BYTES, "read elsewhere");
    cr_assert_eq(alone(f[FILES - 1], 1000000), 0, "it was fetched with the others");
    for (int i = 0; i < FILES; i++)
        xh_cache_close(f[i]);
    xh_cache_close(stranger);
}

Test(read, siblings_are_fetched_ahead_in_the_order_in_which_they_were_asked_for, .timeout = 50)
{
    struct xh_file *f[5], *later;
    uint64_t first = xh_expected_number();
    for (int i = 0; i < 5; i++) /* room for one first read alone */
        f[i] = open_named_as(8, (uint64_t[]){first, first + 1, first + 9, first + 3, first + 5}[i],
                             "readahead_bytes=20000");
    cr_assert_eq(alone(f[0], 1000000), HINT_BYTES);
    cr_assert_eq(alone(f[1], 1000000), HINT_BYTES);
    cr_assert_eq(alone(f[3], 1000000), 0, "it was opened fourth and asked for third");
    later = open_named_as(8, first + 2, "readahead_bytes=1000000");
    drain();
    cr_assert_eq(alone(later, 1000000), 0, "what is opened when two were read alike is fetched at once");
    for (int i = 0; i < 5; i++)
        xh_cache_close(f[i]);
    xh_cache_close(later);
}

static void keep_all(struct xh_room_place *p)
{
    cr_assert_fail("nothing was left");
}

Test(read, files_that_are_read_as_one_are_one_in_the_room)
{
    pthread_mutex_t lock[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
    struct xh_room_group g = {0};
    struct xh_room_place p[3];
    for (int i = 0; i < 3; i++)
        p[i] = (struct xh_room_place){.lock = &lock[i], .empty = keep_all, .group = i < 2 ? &g : NULL};
    xh_room_begin();
    cr_assert(xh_room_reserve(&p[0], 300, 1000));
    xh_room_add(&p[0], 300, 0);
    cr_assert(xh_room_reserve(&p[1], 400, 1000), "alone they may hold all");
    xh_room_add(&p[1], 400, 0);
    cr_assert_eq(xh_room_left(&p[1], 1000), 300);
    cr_assert(xh_room_reserve(&p[2], 100, 1000));
    xh_room_add(&p[2], 100, 0);
    cr_assert_eq(xh_room_share(1000), 500, "two share it");
    cr_assert_eq(xh_room_left(&p[0], 1000), 0, "the two have their half");
    cr_assert_not(xh_room_reserve(&p[1], 100, 1000));
    cr_assert_eq(xh_room_left(&p[2], 1000), 200);
    xh_room_add(&p[0], 0, 300);
    cr_assert(xh_room_reserve(&p[1], 100, 1000), "what one gives back is the other's");
    xh_room_release(&p[1], 100);
    xh_room_add(&p[1], 0, 400);
    cr_assert_eq(xh_room_share(1000), 1000);
    cr_assert_eq(atomic_load(&g.bytes), 0);
    xh_room_add(&p[2], 0, 100);
    cr_assert_eq(xh_room_held(), 0);
}

Test(read, files_that_one_file_names_are_one_group_in_the_room, .timeout = 50)
{
    struct xh_file *f[2] = {open_named_as(5, 0, ""), open_named_as(5, 0, "")}, *stranger = open_named_as(6, 0, "");
    struct xh_room_group *g = f[0]->stage->place.group;
    cr_expect(g && f[1]->stage->place.group == g);
    cr_expect(stranger->stage->place.group && stranger->stage->place.group != g);
    xh_cache_close(f[0]);
    xh_cache_close(f[1]);
    xh_cache_close(stranger);
}

Test(read, what_a_part_asked_for_that_cannot_be_opened_counts_in_the_total)
{
    struct xh_options o = named_options(5, "");
    struct xh_account a = {0};
    struct xh_file *f = NULL;
    struct xh_err err = {0};
    xh_account_init(&a, 1);
    engine.open_fails = 1;
    cr_assert_lt(xh_cache_open_part("https://test/x", &o, &a, &f, &err), 0);
    cr_expect_eq(a.ended.requests, 1);
    cr_expect_eq(a.threads[XH_COPYING], 0);
}

/* The |i|-th of |n| sources. */
static struct xh_file *open_source(uint64_t i, uint64_t n, const char *config)
{
    char url[64];
    struct xh_options o = named_options(11, config);
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    snprintf(url, sizeof url, "https://test/source%llu", (unsigned long long)i);
    o.followers = n - i - 1;
    cr_assert_eq(xh_cache_open(url, &o, &f, &err), 0, "%s", err.text);
    drain();
    return f;
}

Test(read, where_the_first_of_several_sources_that_were_opened_for_a_read_is_read_the_others_are_fetched, .timeout = 50)
{
    struct xh_file *f[4], *two[2];
    for (uint64_t i = 0; i < 4; i++)
        f[i] = open_source(i, 4, "");
    cr_assert_eq(alone(f[0], 1000000), HINT_BYTES);
    for (int i = 1; i < 4; i++)
        cr_assert_eq(alone(f[i], 1000000), 0, "file %d", i);
    for (int i = 0; i < 4; i++)
        xh_cache_close(f[i]);
    for (uint64_t i = 0; i < 2; i++)
        two[i] = open_source(7 + i, 9, "");
    cr_assert_eq(alone(two[0], 2000000), HINT_BYTES);
    cr_assert_eq(alone(two[1], 2000000), HINT_BYTES, "a read may go on at another place behind the end of the first");
    for (int i = 0; i < 2; i++)
        xh_cache_close(two[i]);
}

/* Bytes of |f| that passed the shadow by. */
static uint64_t read_large(struct xh_file *f, uint64_t off)
{
    static uint8_t b[400000];
    struct xh_extent e = {off, sizeof b, b};
    struct xh_err err = {0};
    cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &e, 1, &err), 0, "%s", err.text);
    drain();
    return atomic_load(&f->counters.bytes_bypass);
}

Test(read, what_streams_by_counts_for_all_files_that_one_file_names, .timeout = 50)
{
    struct xh_file *f[5], *stranger = open_named_as(9, 0, "stream_bytes=1000000,readahead=off");
    for (int i = 0; i < 5; i++)
        f[i] = open_named_as(6, 0, "stream_bytes=1000000");
    for (int i = 0; i < 3; i++)
        cr_assert_eq(read_large(f[i], 200000 + 500000 * (uint64_t)i), 0, "file %d", i);
    cr_assert_neq(read_large(f[3], 200000), 0, "a million bytes have streamed by");
    cr_assert_eq(read_large(stranger, 200000), 0, "of another family");
    for (int i = 0; i < 5; i++)
        xh_cache_close(f[i]);
    xh_cache_close(stranger);
}

Test(read, files_that_are_read_in_turns_share_how_far_each_looks_ahead, .timeout = 50)
{
    struct xh_file *f[4];
    for (int i = 0; i < 4; i++)
        f[i] = open_named_as(5, 0, "readahead_bytes=400000");
    for (int row = 0; row < 20; row++)
        for (int i = 0; i < 4; i++)
            alone(f[i], 1000000 + 10000 * (uint64_t)row);
    for (int i = 0; i < 4; i++) {
        uint64_t window = f[i]->sequence->turns.run[0].seq.window;
        cr_expect(window > 0 && window <= 100000, "%llu", (unsigned long long)window);
    }
    for (int i = 0; i < 4; i++)
        cr_expect_eq(f[i]->sequence->turns.run[0].seq.takes_turns, 1);
    for (int row = 20; row < 100; row++)
        alone(f[2], 1000000 + 10000 * (uint64_t)row);
    cr_expect_gt(f[2]->sequence->turns.run[0].seq.window, 100000, "it is read alone now");
    cr_expect_eq(f[2]->sequence->turns.run[0].seq.takes_turns, 0);
    for (int i = 0; i < 4; i++)
        xh_cache_close(f[i]);
}

/* Reads a run of |f|. Returns the bytes that came ahead of it past the shadow. */
static uint64_t staged_of_run(struct xh_file *f)
{
    struct xh_stats s;
    for (uint64_t i = 0; i < 40; i++)
        alone(f, 1000000 + i * HINT_BYTES);
    xh_cache_stats(f, &s);
    cr_assert_gt(s.bytes_hit + s.bytes_staged, 0, "it is fetched ahead");
    return s.bytes_staged;
}

Test(read, the_beginning_of_a_file_that_nothing_follows_stays_in_the_shadow_however_long_it_is, .timeout = 50)
{
    engine.object_bytes = UINT64_C(5) << 30;
    struct xh_file *f = open_test("");
    cr_assert_eq(staged_of_run(f), 0);
    xh_cache_close(f);
    f = open_source(1, 100, "");
    cr_assert_neq(staged_of_run(f), 0, "together with those that follow it, it is a long stream");
    xh_cache_close(f);
}

/* ---- files that are opened ahead ---- */

#define COMING "https://test/coming"

static unsigned opens(void)
{
    pthread_mutex_lock(&engine.lock);
    unsigned n = engine.opens;
    pthread_mutex_unlock(&engine.lock);
    return n;
}

/* |url| is expected, and is opened ahead. */
static void expect(const char *url, const struct xh_options *o)
{
    xh_cache_expect(url, o);
    xh_cache_expect_soon(o->namer.family, XH_EXPECTED_MOST);
}

static void let_open(int holds, int fails)
{
    pthread_mutex_lock(&engine.lock);
    engine.open_holds = holds;
    engine.open_fails = fails;
    pthread_cond_broadcast(&engine.more);
    pthread_mutex_unlock(&engine.lock);
}

static void open_read_and(void (*end)(struct xh_file *), const char *url, const struct xh_options *o)
{
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    cr_assert_eq(xh_cache_open(url, o, &f, &err), 0, "%s", err.text);
    read_checked(f, (struct xh_range){1000000, HINT_BYTES});
    drain();
    end(f);
}

static void open_and_close(const char *url, const struct xh_options *o)
{
    open_read_and(xh_cache_close, url, o);
}

Test(read, a_file_that_is_expected_is_opened_once_and_handed_over_once, .timeout = 50)
{
    struct xh_options o = named_options(3, "stats=off");
    engine.reader = "a";
    expect(COMING, &o);
    expect(COMING, &o);
    open_and_close(COMING, &o);
    cr_assert_eq(opens(), 1);
    open_and_close(COMING, &o);
    cr_assert_eq(opens(), 2);
    cr_assert_eq(xh_expected_count(), 0);
}

static void open_and_leave(const char *url, const struct xh_options *o)
{
    open_read_and(xh_cache_leave, url, o);
}

Test(read, of_what_another_file_names_the_last_one_is_kept_until_another_one_is_opened, .timeout = 50)
{
    struct xh_options o = named_options(3, "stats=off"), own = o;
    engine.reader = "a";
    for (int i = 0; i < 9; i++)
        open_and_leave(COMING, &o);
    cr_assert_eq(opens(), 1, "it was opened again, and again");
    cr_assert_eq(xh_expected_count(), 1);
    open_and_leave(COMING "1", &o);
    cr_assert_eq(opens(), 2);
    cr_assert_eq(xh_expected_count(), 1, "one of a family");
    open_and_leave(COMING, &o);
    cr_assert_eq(opens(), 3);
    engine.reader = "b";
    open_and_leave(COMING, &o);
    cr_assert_eq(opens(), 4, "it is another reader's");
    xh_cache_expect_none(3);
    cr_assert_eq(xh_expected_count(), 0);
    own.namer.by_file = 0;
    open_and_leave(COMING, &own);
    cr_assert_eq(xh_expected_count(), 0, "the program closed it itself");
}

Test(read, what_another_reader_opened_or_what_was_written_since_is_not_kept, .timeout = 50)
{
    struct xh_options o = named_options(3, "stats=off");
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    engine.reader = "a";
    cr_assert_eq(xh_cache_open(COMING, &o, &f, &err), 0, "%s", err.text);
    engine.reader = "b"; /* the token file has another token by now */
    xh_cache_leave(f);
    open_and_close(COMING, &o);
    cr_assert_eq(opens(), 2, "it was handed to another reader");
    cr_assert_eq(xh_cache_open(COMING, &o, &f, &err), 0, "%s", err.text);
    xh_cache_forget(COMING, &o); /* as a commit does */
    xh_cache_leave(f);
    open_and_close(COMING, &o);
    cr_assert_eq(opens(), 4, "it was written while it was open");
    xh_cache_expect_none(3);
}

Test(read, what_is_kept_of_other_files_leaves_room_for_what_comes_next, .timeout = 50)
{
    char url[64];
    engine.reader = "a";
    for (unsigned i = 0; i < XH_EXPECTED_MOST; i++) {
        struct xh_options o = named_options(100 + i, "stats=off");
        snprintf(url, sizeof url, COMING "%u", i);
        open_and_leave(url, &o);
    }
    cr_assert_eq(xh_expected_count(), XH_EXPECTED_MOST);
    struct xh_options o = named_options(3, "stats=off");
    unsigned before = opens();
    cr_assert_eq(xh_cache_expect(COMING, &o), 1, "sixteen files of others are kept");
    cr_assert_eq(xh_expected_count(), XH_EXPECTED_MOST);
    xh_cache_expect_none(3);
    for (unsigned i = 0; i < XH_EXPECTED_MOST; i++)
        xh_cache_expect_none(100 + i);
    cr_assert_eq(opens(), before);
    cr_assert_eq(xh_expected_count(), 0);
}

Test(read, what_is_expected_is_opened_once_it_is_near_and_in_order, .timeout = 50)
{
    char url[64];
    struct xh_options o = named_options(3, "");
    engine.reader = "a";
    for (int i = 0; i < 5; i++) {
        snprintf(url, sizeof url, COMING "%d", i);
        xh_cache_expect(url, &o);
    }
    cr_assert_eq(xh_expected_count(), 5);
    cr_assert_eq(xh_expected_threads(), 0, "nothing is asked for yet");
    xh_cache_expect_soon(4, 9);
    cr_assert_eq(xh_expected_threads(), 0, "another family's");
    xh_cache_expect_soon(3, 2);
    while (xh_expected_threads())
        sched_yield();
    cr_assert_eq(opens(), 2);
    open_and_close(COMING "0", &o);
    open_and_close(COMING "1", &o);
    cr_assert_eq(opens(), 2, "these two were opened ahead");
    open_and_close(COMING "2", &o);
    cr_assert_eq(opens(), 3);
    cr_assert_eq(xh_expected_count(), 2, "it is expected no more");
    xh_cache_expect_none(3);
    cr_assert_eq(xh_expected_count(), 0);
}

Test(read, where_several_files_are_opened_before_any_is_read_all_that_are_expected_are_opened, .timeout = 50)
{
    char url[64];
    struct xh_options o = named_options(3, "");
    struct xh_file *f = open_source(0, 4, "");
    o.namer.family = f->opt.namer.family;
    engine.reader = "a";
    unsigned before = opens();
    for (int i = 0; i < 5; i++) {
        snprintf(url, sizeof url, COMING "%d", i);
        xh_cache_expect(url, &o);
    }
    xh_cache_expect_beside(o.namer.family + 1);
    cr_assert_eq(xh_expected_threads(), 0, "another family's");
    xh_cache_expect_beside(o.namer.family);
    while (xh_expected_threads())
        sched_yield();
    cr_assert_eq(opens(), before + 5);
    xh_cache_expect_none(o.namer.family);
    read_checked(f, (struct xh_range){1000000, HINT_BYTES});
    drain();
    xh_cache_expect(COMING, &o);
    xh_cache_expect_beside(o.namer.family);
    cr_assert_eq(xh_expected_threads(), 0, "one file after another is read");
    xh_cache_expect_none(o.namer.family);
    xh_cache_close(f);
}

Test(read, a_file_is_not_handed_to_who_asks_with_other_rights_or_options, .timeout = 50)
{
    struct xh_options o = named_options(3, ""), other = named_options(3, "gap_bytes=1"), of_other = o;
    engine.reader = NULL;
    expect(COMING, &o);
    cr_assert_eq(xh_expected_count(), 0, "who it is for cannot be told");
    engine.reader = "a";
    expect(COMING, &o);
    while (opens() == 0) /* by a thread of its own */
        usleep(1000);
    engine.reader = "b";
    open_and_close(COMING, &o);
    cr_assert_eq(opens(), 2, "another token");
    engine.reader = "a";
    setenv("BEARER_TOKEN", "new", 1);
    open_and_close(COMING, &o);
    cr_assert_eq(opens(), 3, "another environment");
    unsetenv("BEARER_TOKEN");
    open_and_close(COMING, &other);
    cr_assert_eq(opens(), 4, "another option");
    strcpy(of_other.namer.server, "https://test:443");
    open_and_close(COMING, &of_other);
    cr_assert_eq(opens(), 5, "named by another file");
    cr_assert_eq(xh_expected_count(), 1, "it is still there");
    open_and_close(COMING, &o);
    cr_assert_eq(opens(), 5);
}

Test(read, what_was_opened_ahead_of_a_file_that_was_written_since_is_not_handed_over, .timeout = 50)
{
    struct xh_options o = named_options(3, "");
    engine.reader = "a";
    expect(COMING, &o);
    expect(COMING "2", &o);
    while (xh_expected_threads())
        sched_yield();
    cr_assert_eq(opens(), 2);
    xh_cache_forget(COMING, &o); /* as a commit does */
    cr_assert_eq(xh_expected_count(), 1);
    open_and_close(COMING, &o);
    cr_assert_eq(opens(), 3);
    open_and_close(COMING "2", &o);
    cr_assert_eq(opens(), 3, "another file");
    let_open(1, 0);
    expect(COMING, &o);
    while (opens() == 3)
        sched_yield();
    xh_cache_forget(COMING, &o);
    let_open(0, 0);
    open_and_close(COMING, &o);
    cr_assert_eq(opens(), 5, "that opening was under way");
    while (xh_expected_threads())
        sched_yield();
    xh_cache_expect(COMING, &o);
    xh_cache_forget(COMING, &o);
    cr_assert_eq(xh_expected_count(), 1, "it was not asked for yet");
    xh_cache_expect_none(3);
}

Test(read, an_opening_ahead_that_fails_costs_its_request_and_is_asked_for_again, .timeout = 50)
{
    struct xh_options o = named_options(3, "");
    engine.reader = "a";
    let_open(0, 1);
    expect(COMING, &o);
    while (xh_expected_count())
        sched_yield();
    cr_assert_eq(opens(), 1);
    let_open(0, 0);
    open_and_close(COMING, &o);
    cr_assert_eq(opens(), 2);
}

static void *open_in_vain(void *o)
{
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    int rc = xh_cache_open(COMING, o, &f, &err);
    cr_assert_eq(rc, XH_E_NOENT);
    cr_assert_eq(err.status, 404);
    cr_assert_null(f);
    return NULL;
}

Test(read, who_waits_for_an_opening_ahead_that_fails_is_told_why, .timeout = 50)
{
    struct xh_options o = named_options(3, "");
    pthread_t t;
    engine.reader = "a";
    let_open(1, 1);
    expect(COMING, &o);
    pthread_create(&t, NULL, open_in_vain, &o);
    let_open(0, 1);
    pthread_join(t, NULL);
    cr_assert_eq(xh_expected_count(), 0);
    cr_assert_leq(opens(), 2, "once more where it failed before it was asked for");
}

Test(read, few_files_are_opened_ahead_and_those_that_nobody_comes_for_are_closed, .timeout = 50)
{
    char url[64];
    struct xh_options o = named_options(3, ""), stranger = named_options(4, "");
    engine.reader = "a";
    let_open(1, 0);
    expect(COMING, &stranger);
    for (int i = 0; i < 20; i++) {
        snprintf(url, sizeof url, COMING "%d", i);
        expect(url, &o);
    }
    cr_assert_eq(xh_expected_count(), XH_EXPECTED_MOST);
    if (fork() == 0) {
        xh_cache_expect_none(3);
        _exit(xh_expected_count() != 0);
    }
    int status = 1;
    wait(&status);
    cr_assert_eq(status, 0, "a fork's child expects nothing");
    xh_cache_expect_none(3);
    cr_assert_eq(xh_expected_count(), 1, "that of another family");
    let_open(0, 0);
    open_and_close(COMING, &stranger);
    while (xh_expected_threads()) /* which ask, though nobody comes for what they open */
        sched_yield();
    cr_assert_eq(opens(), XH_EXPECTED_MOST);
}

/* Unlike what a file names, which may never be read. Also where few connections are there and all are busy, over which
 * another small file would be dealt: those are others' that were announced. */
static void announced_comes_by_one_request(int far)
{
    struct xh_options o = named_options(0, "whole_file_bytes=16M");
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    o.namer = (struct xh_namer){0};
    engine.reader = "a";
    engine.far = engine.busy_all = far;
    engine.streams = far ? 8 : 0;
    engine.opens = engine.transfers = 0;
    cr_assert_eq(xh_cache_expect(COMING, &o), 1);
    cr_assert_eq(xh_cache_expect(COMING, &o), 1, "said twice");
    xh_cache_expect_soon(0, XH_EXPECTED_MOST);
    while (xh_expected_threads())
        sched_yield();
    drain();
    cr_assert_eq(xh_cache_open(COMING, &o, &f, &err), 0, "%s", err.text);
    cr_assert_eq(opens(), 1);
    cr_assert_eq(engine.transfers, 1);
    cr_assert_geq(fetched(f), OBJECT_BYTES - o.head_bytes);
    read_checked(f, (struct xh_range){1000000, HINT_BYTES});
    read_checked(f, (struct xh_range){OBJECT_BYTES - HINT_BYTES, HINT_BYTES});
    cr_assert_eq(engine.transfers, 1, "all of it is there");
    xh_cache_close(f);
    o.readahead = 0;
    cr_assert_eq(xh_cache_expect(COMING, &o), 0, "nothing is fetched ahead");
}

Test(read, a_small_file_that_the_program_announced_comes_whole_by_one_request, .timeout = 50)
{
    announced_comes_by_one_request(0);
    announced_comes_by_one_request(1);
}

Test(read, what_one_file_names_leaves_room_for_what_another_names, .timeout = 50)
{
    char url[64];
    struct xh_options o = named_options(3, ""), other = named_options(4, "");
    engine.reader = "a";
    for (int i = 0; i < XH_EXPECTED_MOST; i++) {
        snprintf(url, sizeof url, COMING "%d", i);
        xh_cache_expect(url, &o);
    }
    expect(COMING, &other);
    while (xh_expected_threads())
        sched_yield();
    cr_assert_eq(opens(), 1);
    cr_assert_eq(xh_expected_count(), XH_EXPECTED_MOST);
    xh_cache_expect_none(3);
    cr_assert_eq(xh_expected_count(), 1);
    xh_cache_expect_none(4);
}

Test(read, a_reader_that_skips_hints_is_followed, .timeout = 50)
{
    struct xh_range r[HINTS];
    struct xh_file *f = open_test("shadow=off,readahead_bytes=400000");
    make_hints(r, 5);
    xh_cache_prefetch(f, XH_KIND_RAW, r, HINTS);
    /* A few reads to find out, and the time until the stage takes the skipped ones for stale. */
    cr_assert_leq(follow(f, r, 150), 40 * HINT_BYTES);
    cr_assert_leq(fetched(f), (30 + 100 + 40) * HINT_BYTES, "what was skipped was fetched");
    xh_cache_close(f);
}

/* Each read is announced just before it, as in a loop over chunks. Nothing is known of what comes next then, so its
 * order is learned as without hints: else each read takes a round trip. */
Test(read, of_reads_that_are_announced_one_by_one_the_order_is_learned, .timeout = 50)
{
    struct xh_range r[HINTS];
    struct xh_stats s;
    struct xh_file *f = open_test("shadow=off");
    for (size_t i = 0; i < HINTS; i++)
        r[i] = (struct xh_range){16384 + i * HINT_BYTES, HINT_BYTES};
    for (size_t i = 0; i < 20; i++) {
        xh_cache_prefetch(f, XH_KIND_RAW, &r[i], 1);
        drain();
        read_checked(f, r[i]);
    }
    drain();
    uint64_t before = fetched(f);
    cr_assert_geq(before, 25 * HINT_BYTES, "nothing was fetched ahead");
    for (size_t i = 20; i < 24; i++)
        read_checked(f, r[i]);
    xh_cache_stats(f, &s);
    cr_assert_eq(s.bytes_demand + s.bytes_bypass, 0);
    xh_cache_close(f);
}

/* The second naming merges with the first while both are ahead: what came for the first stays for it. Its read must not
 * be taken for the third's, which is fetched again. */
Test(read, a_repeat_inside_the_room_does_not_undo_the_hints_behind_it, .timeout = 50)
{
    struct xh_range r[HINTS];
    struct xh_file *f = open_test("shadow=off,readahead_bytes=400000,readahead=off");
    make_hints(r, 5);
    r[10] = r[200] = r[0];
    cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, r, HINTS), HINTS);
    uint64_t lacked = follow(f, r, 0);
    cr_assert_eq(lacked, 0, "%llu bytes: a repeat waits for the link", (unsigned long long)lacked);
    cr_assert_leq(fetched(f), (HINTS - 1) * HINT_BYTES);
    xh_cache_close(f);
}

/* A chunk is read again, for another sample in it, while it waits to be fetched for a later announcement. */
Test(read, a_second_read_of_what_waits_again_passes_no_hints_by, .timeout = 50)
{
    struct xh_range r[HINTS];
    struct xh_file *f = open_test("shadow=off,readahead_bytes=400000,readahead=off");
    make_hints(r, 5);
    r[HINTS - 1] = r[0];
    cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, r, HINTS), HINTS);
    drain();
    read_checked(f, r[0]);
    read_checked(f, r[0]);
    cr_assert_leq(follow(f, r, 1), HINT_BYTES, "more than the second read");
    xh_cache_close(f);
}

/* HDF5 reads a chunk anew for each sample in it. */
Test(read, a_chunk_that_was_named_once_is_there_for_all_its_reads, .timeout = 50)
{
    struct xh_range r[20];
    struct xh_stats s;
    struct xh_file *f = open_test("shadow=off,readahead=off");
    for (unsigned i = 0; i < 20; i++)
        r[i] = (struct xh_range){16384 + (uint64_t)i * 140000, 70000};
    cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, r, 20), 20);
    for (unsigned i = 0; i < 60; i++) {
        drain();
        for (uint64_t off = 0; off < 70000; off += HINT_BYTES)
            read_checked(f, (struct xh_range){r[i % 20].off + off, HINT_BYTES});
    }
    xh_cache_stats(f, &s);
    cr_assert_eq(s.bytes_demand + s.bytes_waited + s.bytes_bypass, 0);
    cr_assert_leq(fetched(f), 20 * (70000 + 2 * 4096));
    xh_cache_close(f);
}

Test(read, hints_that_nobody_reads_cost_their_bytes_once_and_hold_up_nobody, .timeout = 50)
{
    struct xh_stats s;
    struct xh_range r[HINTS];
    struct xh_file *f = open_test("shadow=off,readahead_bytes=1000000");
    make_hints(r, 6);
    for (int i = 0; i < 3; i++) /* said again and again */
        xh_cache_prefetch(f, XH_KIND_RAW, r, 20);
    drain();
    cr_assert_leq(fetched(f), 20 * HINT_BYTES);
    cr_assert_geq(fetched(f), 10 * HINT_BYTES, "but for what lies in the head");
    uint8_t *b = malloc(20000);
    for (uint64_t off = 1000000; off + 20000 <= OBJECT_BYTES; off += 20000) {
        struct xh_extent e = {off, 20000, b};
        struct xh_err err = {0};
        cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, &e, 1, &err), 0);
        drain();
    }
    free(b);
    xh_cache_stats(f, &s);
    cr_assert_leq(s.bytes_demand + s.bytes_waited, 300000, "an unhinted reader is predicted all the same");
    xh_cache_close(f);
}

Test(read, a_reader_hurries_what_it_waits_for)
{
    struct xh_file *f = open_test("shadow=off,stall_timeout_ms=5000");
    struct xh_range there[] = {{1000000, 8192}, {1500000, 300000}}, elsewhere = {2000000, 4096};
    uint8_t b[8192];
    struct xh_extent e = {1000000, sizeof b, b};
    struct xh_err err = {0};
    hold(1);
    cr_assert_eq(xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_META, .r = &elsewhere, .n = 1}), 1);
    cr_assert_eq(xh_schedule(f, &(struct xh_proposal){.kind = XH_KIND_META, .r = there, .n = 2}), 2);
    cr_assert_eq(xh_cache_read(f, XH_KIND_META, &e, 1, &err), 0, "%s", err.text);
    size_t right = 0;
    while (right < sizeof b && b[right] == byte_at(1000000 + right))
        right++;
    cr_assert_eq(right, sizeof b);
    cr_assert_eq(xh_shadow_peek(f->shadow, 1000000 / 4096), XH_CLAIM_READY, "it came, and not past the shadow");
    cr_assert_eq(xh_shadow_peek(f->shadow, 2000000 / 4096), XH_CLAIM_BUSY, "nobody waits for this");
    hold(0);
    drain();
    cr_assert_eq(xh_shadow_peek(f->shadow, 2000000 / 4096), XH_CLAIM_READY);
    cr_assert_null(f->flights->first);
    xh_cache_close(f);
}

Test(read, hints_of_nothing_or_outside_are_cut_off)
{
    struct xh_file *f = open_test("shadow=off");
    struct xh_range r[] = {{20000, 0}, {20000, 10}, {OBJECT_BYTES, 0}, {OBJECT_BYTES - 5, 6}, {30000, 10}};
    cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, NULL, 0), 0);
    cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, r, 5), 3);
    drain();
    cr_assert_leq(fetched(f), 4096);
    xh_cache_close(f);
    f = open_test("shadow=off,readahead_bytes=0");
    cr_assert_eq(xh_cache_prefetch(f, XH_KIND_RAW, r, 2), 0, "there is no room at all");
    xh_cache_close(f);
}

Test(read, more_hints_than_may_wait_are_not_taken, .timeout = 50)
{
    size_t n = XH_HINTS_MAX + 5000;
    struct xh_range *r = malloc(n * sizeof *r);
    struct xh_file *f = open_test("shadow=off,readahead_bytes=64k");
    for (size_t i = 0; i < n; i++)
        r[i] = (struct xh_range){2 * i, 2};
    size_t taken = xh_cache_prefetch(f, XH_KIND_RAW, r, n);
    cr_assert_eq(taken, XH_HINTS_MAX);
    cr_assert_leq(xh_cache_prefetch(f, XH_KIND_RAW, r, n), 48 * 1024 / 2, "as many as there was room for at once");
    cr_assert_leq(f->hints->room, 2 * XH_HINTS_MAX);
    xh_cache_close(f);
    free(r);
}

static void *hinter(void *arg)
{
    struct xh_file *f = arg;
    struct xh_range r[HINTS];
    unsigned seed = (unsigned)(uintptr_t)&seed;
    for (int i = 0; i < 40; i++) {
        make_hints(r, seed + (unsigned)i);
        xh_cache_prefetch(f, rand_r(&seed) % 8 ? XH_KIND_RAW : XH_KIND_META, r, (size_t)rand_r(&seed) % HINTS);
        for (size_t k = 0; k < 20; k++)
            read_checked(f, r[(size_t)rand_r(&seed) % HINTS]);
    }
    return NULL;
}

Test(read, hints_and_reads_of_many_threads_get_on_and_closing_waits_for_nothing, .timeout = 50)
{
    pthread_t t[4];
    struct xh_file *f = open_test("shadow=off,readahead_bytes=200000");
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, i % 2 ? reader : hinter, f);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    struct xh_range whole = {0, OBJECT_BYTES};
    xh_cache_prefetch(f, XH_KIND_RAW, &whole, 1);
    xh_cache_close(f);
}

/* Opens what |teller| opened, by what it told, with a shadow of its own: another node's. */
static struct xh_file *open_heard_for(const void *told, size_t len, int data_only, int *rc)
{
    struct xh_options o;
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    xh_options_defaults(&o);
    strcpy(o.sidecar, "off"); /* there is one object */
    o.head_bytes = 16384;
    o.whole_file_bytes = 1 << 20;
    cr_assert_eq(xh_options_from_string(&o, "shadow=off", "test", &err), 0, "%s", err.text);
    *rc = xh_cache_open_told("https://test/x", &o, &(struct xh_told){.bytes = told, .len = len, .data_only = data_only},
                             &f, &err);
    return f;
}

static struct xh_file *open_heard(const void *told, size_t len, int *rc)
{
    return open_heard_for(told, len, 0, rc);
}

/* ---- several that open it together ------------------------------------------------------ */

#define WANTED 1048576u
#define LASTS_S 60u /* no child outlives the test that ran into its own bound: the runner would wait for it */

static char pair_dir[64];

static void read_page_as(struct xh_file *f, uint64_t off, enum xh_kind kind)
{
    uint8_t b[4096];
    struct xh_extent e = {off, sizeof b, b};
    struct xh_err err = {0};
    cr_assert_eq(xh_cache_read(f, kind, &e, 1, &err), 0, "%s", err.text);
    for (size_t i = 0; i < sizeof b; i++)
        cr_assert_eq(b[i], byte_at(off + i), "wrong byte at %zu", i);
}

static void read_page(struct xh_file *f, uint64_t off)
{
    read_page_as(f, off, XH_KIND_META);
}

/* A process that has it open too, in a shadow of the two's own: it says that it walks, reads WANTED when it is told to
 * by a byte in |go|, and goes on saying so until it is killed. Returns when it has said so for the first time. */
static pid_t start_walker(int go[2])
{
    int said[2];
    char config[128], c = 0;
    strcpy(pair_dir, "/dev/shm/xh-test-read-XXXXXX");
    cr_assert_not_null(mkdtemp(pair_dir));
    snprintf(config, sizeof config, "shadow_dir=%s,readahead=off", pair_dir);
    cr_assert(pipe(said) == 0 && pipe(go) == 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        alarm(LASTS_S);
        struct xh_file *f = open_test(config);
        fcntl(go[0], F_SETFL, O_NONBLOCK);
        for (int spoke = 0;; usleep(10000)) {
            xh_shadow_walks(f->shadow, 1);
            if (!spoke)
                spoke = write(said[1], &c, 1) == 1;
            if (read(go[0], &c, 1) == 1)
                read_page(f, WANTED);
        }
    }
    cr_assert_eq(read(said[0], &c, 1), 1);
    close(said[0]);
    close(said[1]);
    return pid;
}

/* ---- fork, where a pid tells nothing ---- */

/* Forks into a pid namespace of its own. Returns as fork does, -1 also without the right to do so. */
static pid_t fork_as_process_1(void)
{
    return unshare(CLONE_NEWPID) < 0 ? -1 : fork();
}

static int status_of(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Process 1 of a namespace, in which a thread is at work on the file, forks process 1 of the next one. */
static int forks_process_1(void)
{
    struct xh_file *f = open_test("shadow=off");
    uint64_t mine = xh_process();
    uint8_t b[100];
    struct xh_extent e = {100, sizeof b, b};
    int good =
        getpid() == 1 && mine == xh_process() && mine % 2 == 1 && xh_cache_read(f, XH_KIND_RAW, &e, 1, NULL) == 0;
    pthread_mutex_lock(&f->layouts->lock);
    pid_t pid = fork_as_process_1();
    if (pid < 0)
        return 2;
    if (pid == 0) {
        alarm(100); /* it would wait for a thread that is not here */
        good &= getpid() == 1 && xh_process() != mine && xh_cache_read(f, XH_KIND_RAW, &e, 1, NULL) == 0;
        good &= atomic_load(&f->process) == xh_process();
        for (size_t i = 0; i < sizeof b; i++)
            good &= b[i] == byte_at(100 + i);
        _exit(!good);
    }
    pthread_mutex_unlock(&f->layouts->lock);
    return status_of(pid) | !good | (xh_process() != mine);
}

static int forgets_advice;

int __real_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice);
int __wrap_madvise(void *at, size_t bytes, int advice)
{
    return forgets_advice ? 0 : __real_madvise(at, bytes, advice);
}

/* qemu-user 7.2, for one, says that it will wipe a page in a fork's child, and does not. */
Test(read, a_child_is_a_child_also_where_the_kernel_forgets_to_wipe)
{
    forgets_advice = 1;
    uint64_t mine = xh_process();
    pid_t pid = fork();
    if (pid == 0)
        _exit(xh_process() == mine);
    cr_assert_eq(status_of(pid), 0);
    cr_assert_eq(xh_process(), mine);
}

Test(read, a_child_that_has_its_parents_pid_in_another_namespace_is_a_child, .timeout = 50)
{
    pid_t pid = fork();
    if (pid == 0) {
        pid_t first = fork_as_process_1();
        if (first == 0)
            _exit(forks_process_1());
        _exit(first < 0 ? 2 : status_of(first));
    }
    int status = status_of(pid);
    if (status == 2)
        cr_skip_test("no right to make a pid namespace");
    cr_expect_eq(status, 0);
}

/* ---- opening ---- */

Test(read, a_small_file_comes_whole_over_several_connections_once_something_is_missed, .timeout = 20)
{
    engine.object_bytes = 900000;
    uint8_t b[100];
    struct xh_file *f = open_test("shadow=off");
    struct xh_extent e = {500000, sizeof b, b};
    cr_expect_eq(opening, 0, "a program that wants nothing but the head costs no more");
    cr_assert_eq(xh_cache_read(f, XH_KIND_META, &e, 1, NULL), 0);
    cr_expect_geq(engine.transfers, 5, "%u", engine.transfers);
    cr_expect_leq(atomic_load(&origin_now->fetched), engine.object_bytes + XH_PAGE_BYTES, "one page may be a gap");
    cr_expect_geq(atomic_load(&origin_now->fetched), engine.object_bytes - (64 << 10), "all but the head");
    xh_cache_close(f);
}

Test(read, a_share_of_several_processes_and_a_small_part_come_before_the_whole_file, .timeout = 20)
{
    static const struct {
        uint64_t size;
        int jointly, first;
    } table[] = {{900000, 0, 0}, {900000, 1, 1}, {OBJECT_BYTES, 0, 1 /* it is a tenth of the file */}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct xh_stats s;
        row++;
        engine.object_bytes = table[i].size;
        struct xh_file *f = open_test("shadow=off,whole_file_bytes=4M");
        f->opened_jointly = table[i].jointly;
        read_piece(f, XH_KIND_RAW, 100 * XH_PAGE_BYTES, 300000);
        xh_cache_stats(f, &s);
        cr_expect_eq(s.bytes_demand, table[i].first ? 300000 : 0, "%zu: %llu", i, (unsigned long long)s.bytes_demand);
        cr_expect(xh_schedule_is_whole(f));
        xh_cache_close(f);
    }
}

Test(read, a_small_file_of_which_some_requests_cannot_be_sent_comes_all_the_same, .timeout = 20)
{
    engine.object_bytes = 900000;
    engine.far = engine.grows = 1;
    engine.streams = 6;
    for (unsigned refused = 0; refused < 3; refused++) {
        row++;
        struct xh_file *f = open_test("shadow=off");
        engine.refuses = refused;
        engine.loads = 0;
        read_piece(f, XH_KIND_RAW, 100 * XH_PAGE_BYTES, 300000);
        cr_expect_eq(engine.loads, refused == 0 ? 8 : refused == 2 ? 2 : 0, "%u: %u", refused, engine.loads);
        drain();
        for (uint64_t p = 0; p < xh_page_up(engine.object_bytes); p++)
            cr_expect_neq(xh_shadow_peek(f->shadow, p), XH_CLAIM_BUSY, "%u: page %u", refused, (unsigned)p);
        cr_expect_eq(xh_fetch_wide_flying(f) + xh_fetch_meta_flying(f), 0);
        cr_expect_eq(xh_flow_flying(f), 0);
        read_piece(f, XH_KIND_RAW, 0, engine.object_bytes);
        xh_cache_close(f);
    }
}

Test(read, where_the_whole_file_was_asked_for_and_did_not_come_guesses_are_made_again, .timeout = 20)
{
    struct xh_stats s;
    engine.object_bytes = 900000;
    engine.breaks = 1000;
    struct xh_file *f = open_test("shadow=off");
    read_page(f, 120 * XH_PAGE_BYTES);
    drain();
    engine.breaks = 0;
    cr_expect(!xh_schedule_is_whole(f));
    for (unsigned page = 130; page < 200; page++) {
        read_piece(f, XH_KIND_RAW, page * XH_PAGE_BYTES, XH_PAGE_BYTES);
        drain();
    }
    xh_cache_stats(f, &s);
    cr_expect_geq(s.bytes_hit + s.bytes_staged, 40 * XH_PAGE_BYTES, "%llu", (unsigned long long)s.bytes_hit);
    xh_cache_close(f);
}

/* Reads these pages of the next file of a row. Returns whether it came with both of them. */
static int read_of_row(const char *config, uint64_t one, uint64_t other)
{
    struct xh_file *f = open_test(config);
    int came = xh_shadow_has(f->shadow, one, 1) && xh_shadow_has(f->shadow, other, 1);
    if (one)
        read_page(f, one * XH_PAGE_BYTES);
    if (other)
        read_page(f, other * XH_PAGE_BYTES);
    drain();
    xh_cache_close(f);
    return came;
}

Test(read, the_third_file_of_a_row_is_read_ahead_as_the_two_before_it_were, .timeout = 20)
{
    engine.far = 1;
    for (int i = 0; i < 5; i++)
        cr_expect_eq(read_of_row("shadow=off", 700, 300), i >= 2, "%d", i);
    cr_expect_eq(read_of_row("shadow=off", 500, 200), 0, "elsewhere");
    cr_expect_eq(read_of_row("shadow=off", 500, 200), 0, "it was not read as the last one");
    cr_expect_eq(read_of_row("shadow=off", 500, 200), 1);
    cr_expect_eq(read_of_row("shadow=off", 0, 0), 1, "nothing is read of it");
    cr_expect_eq(read_of_row("shadow=off", 500, 200), 0, "what came in vain once does not come again");
    row++;
    for (int i = 0; i < 3; i++)
        cr_expect_eq(read_of_row("shadow=off,readahead=off", 700, 300), 0);
}

/* Reads |n| pages of raw data of |f| one by one from |page| on. Returns how many requests that took. */
static unsigned read_on(struct xh_file *f, uint64_t page, uint64_t n)
{
    unsigned before = engine.transfers;
    for (uint64_t i = 0; i < n; i++)
        read_page_as(f, (page + i) * XH_PAGE_BYTES, XH_KIND_RAW);
    drain();
    return engine.transfers - before;
}

/* Where what was expected does not come, the reader's order is learnt as in any other file. */
Test(read, a_file_of_a_row_whose_pages_do_not_come_ahead_is_read_ahead_in_order, .timeout = 20)
{
    engine.far = 1;
    for (int fails = 0; fails < 2; fails++) { /* or there is no room for all of them at once */
        unsigned first = 0, last = 0;
        row++;
        for (int i = 0; i < 3; i++) {
            engine.refuses = fails && i == 2 ? 1 : 0;
            struct xh_file *f = open_test(fails ? "shadow=off" : "shadow=off,readahead_bytes=64K");
            if (!fails)
                read_on(f, 200, 20);
            last = read_on(f, 300, 60);
            first = i == 0 ? last : first;
            xh_cache_close(f);
        }
        cr_expect_leq(last, first, "%d: %u requests, %u in the first file", fails, last, first);
    }
}

Test(read, rows_are_told_apart_by_their_names_but_for_digits_and_the_ninth_takes_the_place_of_the_oldest, .timeout = 20)
{
    engine.far = 1;
    for (row = 0; row < 8; row++) /* in turns */
        cr_expect_eq(read_of_row("shadow=off", 700 + row, 300), 0);
    for (row = 0; row < 8; row++)
        cr_expect_eq(read_of_row("shadow=off", 700 + row, 300), 0);
    for (row = 0; row < 8; row++)
        cr_expect_eq(read_of_row("shadow=off", 700 + row, 300), 1, "%u", row);
    read_of_row("shadow=off", 700, 300);
    row = 1;
    cr_expect_eq(read_of_row("shadow=off", 701, 300), 1);
    row = 0;
    cr_expect_eq(read_of_row("shadow=off", 700, 300), 0);
}

Test(read, two_openings_of_a_version_that_is_not_proved_share_no_page, .timeout = 20)
{
    for (engine.fleeting = 0; engine.fleeting < 2; engine.fleeting++) {
        struct xh_file *a = open_test("shadow=off,readahead=off");
        read_page(a, 500 * XH_PAGE_BYTES);
        struct xh_file *b = open_test("shadow=off,readahead=off");
        read_page(b, 500 * XH_PAGE_BYTES);
        cr_expect_eq(fetched(b) != 0, engine.fleeting, "%d", engine.fleeting);
        xh_cache_close(a);
        xh_cache_close(b);
    }
}

/* ---- a claim that comes late ---- */

#define AT_ONCE (12u * 1000 * 1000) /* what one process asks for in one read */

/* In a child: reads nearly all in one go, as slowly as the gate lets it. Returns once all of it is claimed. */
static pid_t start_slow_reader(struct xh_file **beside)
{
    char config[128];
    struct xh_err err = {0};
    strcpy(pair_dir, "/dev/shm/xh-test-read-XXXXXX");
    cr_assert_not_null(mkdtemp(pair_dir));
    snprintf(config, sizeof config, "shadow_dir=%s,readahead=off", pair_dir);
    engine.object_bytes = AT_ONCE + 100000;
    gate = mmap(NULL, sizeof *gate, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(gate, MAP_FAILED);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(LASTS_S);
        struct xh_file *f = open_test(config);
        uint8_t *b = malloc(AT_ONCE);
        struct xh_extent e = {50000, AT_ONCE, b};
        gated = 1;
        int bad = xh_cache_read(f, XH_KIND_RAW, &e, 1, &err);
        for (uint64_t k = 0; k < AT_ONCE; k++)
            bad |= b[k] != byte_at(50000 + k);
        _exit(bad != 0);
    }
    *beside = open_test(config);
    while (!xh_shadow_is_later((*beside)->shadow, (50000 + AT_ONCE) / XH_PAGE_BYTES - 2))
        usleep(1000);
    return pid;
}

static void end_slow_reader(pid_t pid, struct xh_file *f)
{
    int status;
    atomic_store(&gate->allowed, UINT64_MAX);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "its own bytes are right: %x", status);
    drain();
    xh_cache_close(f);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", pair_dir);
    cr_assert_eq(system(command), 0);
}

/* Waits until somebody waits for page |p|. */
static void until_awaited(struct xh_file *f, uint64_t p)
{
    while (!(atomic_load(&f->shadow->words[p]) & XH_W_WAITERS))
        usleep(1000);
}

Test(read, a_claim_that_comes_late_gives_way_to_a_small_read_elsewhere, .timeout = 50)
{
    struct late l = {.off = 2500 * XH_PAGE_BYTES, .len = 3 * XH_PAGE_BYTES};
    pthread_t t;
    pid_t pid = start_slow_reader(&l.f);
    pthread_create(&t, NULL, read_late, &l);
    until_awaited(l.f, 2502);
    /* A fifth of it comes, and no more before the other has what it wants. */
    for (uint64_t at = 0; at < AT_ONCE / 5 && !atomic_load(&l.done); at += XH_PAGE_BYTES, usleep(2000))
        atomic_store(&gate->allowed, at);
    pthread_join(t, NULL);
    cr_expect_leq(fetched(l.f), 4 * XH_PAGE_BYTES, "what it wants, and nothing else: %d", (int)fetched(l.f));
    cr_expect_eq(xh_shadow_peek(l.f->shadow, 2501), XH_CLAIM_READY, "for others too");
    struct xh_stats s;
    xh_cache_stats(l.f, &s);
    cr_expect_eq(s.bytes_asked, s.bytes_hit + s.bytes_staged + s.bytes_waited + s.bytes_demand + s.bytes_bypass,
                 "each byte counts once");
    cr_expect_eq(waitpid(pid, NULL, WNOHANG), 0, "the other is at it still");
    end_slow_reader(pid, l.f);
}

Test(read, who_wants_all_that_another_fetches_waits_for_it, .timeout = 50)
{
    struct late l = {.off = 100000, .len = AT_ONCE - 100000};
    pthread_t t;
    pid_t pid = start_slow_reader(&l.f);
    pthread_create(&t, NULL, read_late, &l);
    until_awaited(l.f, (l.off + l.len - 1) / XH_PAGE_BYTES);
    for (uint64_t at = 0; at < AT_ONCE / 2; at += 4 * XH_PAGE_BYTES, usleep(2000)) /* some looks */
        atomic_store(&gate->allowed, at);
    atomic_store(&gate->allowed, UINT64_MAX);
    pthread_join(t, NULL);
    cr_expect_leq(fetched(l.f), 2 * XH_PAGE_BYTES, "%d bytes twice", (int)fetched(l.f));
    end_slow_reader(pid, l.f);
}

/* This process's, opened along with the walker's; it has no connection. */
static struct xh_file *open_beside(void)
{
    char config[128];
    snprintf(config, sizeof config, "shadow_dir=%s,readahead=off", pair_dir);
    struct xh_file *f = open_test(config);
    f->opened_jointly = 1;
    engine.apart = 1;
    return f;
}

static void end_walker(pid_t pid)
{
    cr_assert_eq(kill(pid, SIGKILL), 0);
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
}

static void remove_pair(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", pair_dir);
    cr_assert_eq(system(command), 0);
}

/* The walker said so just now, however long ago it had the processor. */
static void say_it_walks(struct xh_file *f)
{
    _Atomic uint64_t *word = &f->shadow->live->walking;
    atomic_store(word, xh_now_ns() / 1000000u * XH_SLOTS + atomic_load(word) % XH_SLOTS);
}

/* While |walker.beside| waits, the walker reads, however long that takes it. */
static struct {
    struct xh_file *beside;
    int go;
    unsigned looks;
} walker;

int nanosleep(const struct timespec *t, struct timespec *left)
{
    if (!walker.beside)
        return clock_nanosleep(CLOCK_MONOTONIC, 0, t, left);
    if (walker.looks++ == 0 && write(walker.go, "", 1) != 1)
        return -1;
    while (xh_shadow_peek(walker.beside->shadow, WANTED / XH_PAGE_BYTES) != XH_CLAIM_READY)
        usleep(1000);
    return 0;
}

Test(read, who_has_no_connection_gets_what_the_walker_reads_meanwhile, .timeout = 20)
{
    int go[2];
    pid_t pid = start_walker(go);
    struct xh_file *f = open_beside();
    walker.go = go[1];
    walker.beside = f;
    say_it_walks(f);
    read_page(f, WANTED);
    walker.beside = NULL;
    cr_assert_eq(walker.looks, 1, "it looked again, and found it");
    cr_assert_eq(fetched(f), 0, "the walker fetched it");
    engine.apart = 0;
    xh_cache_close(f);
    end_walker(pid);
    remove_pair();
}

Test(read, who_has_no_connection_asks_when_the_walker_does_not, .timeout = 20)
{
    int go[2];
    pid_t pid = start_walker(go);
    struct xh_file *f = open_beside();
    say_it_walks(f);
    uint64_t begun = xh_now_ns();
    read_page(f, WANTED);
    cr_assert_geq(xh_now_ns() - begun, 100000000u, "two round trips");
    cr_assert_eq(fetched(f), 4096);
    engine.apart = 0;
    xh_cache_close(f);
    end_walker(pid);
    remove_pair();
}

/* The shortest of twenty reads of a page that is not there. */
static uint64_t quickest(struct xh_file *f, uint64_t off)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 20; i++, off += 4096) {
        uint64_t begun = xh_now_ns();
        read_page(f, off);
        uint64_t took = xh_now_ns() - begun;
        best = took < best ? took : best;
    }
    return best;
}

Test(read, nobody_waits_with_a_connection_or_without_a_walker, .timeout = 20)
{
    int go[2];
    pid_t pid = start_walker(go);
    struct xh_file *f = open_beside();
    engine.apart = 0;
    cr_assert_lt(quickest(f, WANTED), 100000000u);
    end_walker(pid);
    usleep(400000); /* what it said holds no longer */
    engine.apart = 1;
    cr_assert_lt(quickest(f, 2 * WANTED), 100000000u);
    cr_assert_eq(fetched(f), 40 * 4096);
    xh_cache_close(f);
    remove_pair();
}

Test(read, what_one_open_learned_opens_the_file_elsewhere_without_a_request, .timeout = 20)
{
    for (int early = 0; early < 2; early++) {
        engine.early = early;
        engine.reader = "aa";
        struct xh_file *teller = open_test("shadow=off");
        struct xh_err err = {0};
        uint8_t head[16384];
        void *told;
        size_t len;
        int rc;
        cr_assert_eq(xh_cache_tell(teller, &told, &len, &err), 0, "%s", err.text);
        struct xh_file *f = open_heard(told, len, &rc);
        cr_assert_eq(rc, 0);
        cr_assert_eq(xh_cache_size(f), OBJECT_BYTES);
        struct xh_extent e = {0, sizeof head, head};
        cr_assert_eq(xh_cache_read(f, XH_KIND_META, &e, 1, &err), 0, "%s", err.text);
        for (size_t i = 0; i < sizeof head; i++)
            cr_assert_eq(head[i], byte_at(i), "wrong byte at %zu", i);
        cr_assert_eq(atomic_load(&origin_now->fetched), 0, "the head was told");
        unsigned seed = 5;
        cr_assert_eq(read_random(f, &seed), 0, "and the rest comes from the origin");
        cr_assert(atomic_load(&origin_now->fetched) > 0);
        xh_cache_close(f);
        free(told);
        xh_cache_close(teller);
    }
}

Test(read, who_is_told_by_another_reader_proves_that_he_may_read_it, .timeout = 20)
{
    static const char *const readers[][2] = {{"aa", "bb"}, {NULL, NULL}, {"aa", NULL}, {NULL, "aa"}};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        for (int confirms = 0; confirms < 2; confirms++) {
            engine.reader = readers[i][0];
            struct xh_file *teller = open_test("shadow=off");
            struct xh_err err = {0};
            void *told;
            size_t len;
            int rc;
            cr_assert_eq(xh_cache_tell(teller, &told, &len, &err), 0, "%s", err.text);
            engine.reader = readers[i][1];
            engine.opens = 0;
            engine.confirms = confirms;
            struct xh_file *f = open_heard(told, len, &rc);
            engine.confirms = 0;
            cr_assert_eq(engine.opens, 1, "the origin was not asked");
            cr_assert_eq(rc, confirms ? 0 : XH_E_CHANGED);
            xh_cache_close(f);
            free(told);
            xh_cache_close(teller);
        }
}

Test(read, who_opens_at_the_same_time_vouches_for_the_same_reader_alone, .timeout = 20)
{
    static const struct {
        const char *reader;
        int asks, vouched;
    } cases[] = {{"aa", 1, 1}, {"bb", 1, 0}, {NULL, 1, 0}, {"aa", 0, 0}};
    strcpy(pair_dir, "/dev/shm/xh-test-read-XXXXXX");
    cr_assert_not_null(mkdtemp(pair_dir));
    engine.reader = "aa";
    struct xh_file *f = open_beside();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xh_opening op;
        engine.reader = cases[i].reader;
        engine.left_in = cases[i].asks ? f->shadow : NULL;
        xh_opening_begin(&op, "https://test/x", &f->opt, f->account);
        cr_expect_eq(op.vouched, cases[i].vouched, "%zu", i);
        cr_expect_str_eq(op.hint, "known", "it is asked whether that is still there");
        xh_shadow_turn_over(&op.turn);
    }
    engine.left_in = NULL;
    xh_cache_close(f);
    remove_pair();
}

Test(read, an_early_head_of_another_version_is_not_told, .timeout = 20)
{
    engine.early = 1;
    engine.other = 0xff;
    struct xh_file *teller = open_test("shadow=off");
    struct xh_err err = {0};
    void *told;
    size_t len;
    cr_assert_eq(xh_cache_tell(teller, &told, &len, &err), XH_E_CHANGED);
    xh_cache_close(teller);
}

Test(read, a_childs_rank_walks_if_and_only_if_its_parents_did, .timeout = 20)
{
    struct xh_err err = {0};
    engine.reader = "aa";
    struct xh_file *teller = open_test("shadow=off");
    void *told;
    size_t len;
    int rc, status;
    cr_assert_eq(xh_cache_tell(teller, &told, &len, &err), 0, "%s", err.text);
    for (int data_only = 0; data_only < 2; data_only++) {
        struct xh_file *f = open_heard_for(told, len, data_only, &rc);
        cr_assert_eq(rc, 0);
        cr_assert_eq(f->walk->index == NULL, data_only);
        pid_t pid = fork();
        if (pid == 0) {
            xh_file_after_fork(f);
            _exit((f->walk->index == NULL) != data_only);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "data_only %d", data_only);
        xh_cache_close(f);
    }
    free(told);
    xh_cache_close(teller);
}

Test(read, what_was_told_without_an_end_opens_nothing, .timeout = 20)
{
    int rc;
    cr_assert_null(open_heard("known", 5, &rc));
    cr_assert_eq(rc, XH_E_INVAL);
}

/* ---- small reads in no order */

#define SCATTERED 8
#define SCATTERED_BYTES 100u

/* The |i|th of places that lie in no order, the nearest |apart|. */
static uint64_t scattered_by(unsigned i, uint64_t apart)
{
    static const uint8_t places[] = {3, 17, 0, 25, 9, 28, 13, 6, 21, 1, 15, 27, 8, 19, 4, 23, 11, 2, 26, 14};
    return 20000 + apart * places[i];
}

/* The same all over the object. */
static uint64_t scattered(unsigned i)
{
    return scattered_by(i, 100000);
}

static void read_scattered(struct xh_file *f, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        read_piece(f, XH_KIND_RAW, scattered(i), SCATTERED_BYTES);
}

Test(read, what_lies_around_small_reads_in_no_order_comes_by_one_request, .timeout = 50)
{
    engine.streams = 1;
    engine.far = 1;
    engine.slow_us = 3000;
    struct xh_file *f = open_test("shadow=off");
    read_scattered(f, 0, SCATTERED - 1);
    cr_assert_eq(engine.loads, 0, "a few reads show no habit");
    read_scattered(f, SCATTERED - 1, SCATTERED);
    cr_assert_eq(engine.loads, 1);
    drain();
    uint64_t before = fetched(f);
    cr_assert_leq(before, 2900000 + 2900000 / 4 + SCATTERED * 2 * XH_PAGE_BYTES, "it came more than once");
    engine.said_in_vain = -1;
    for (unsigned i = 0; i < 20; i++)
        if (scattered(i) < 2800000)
            read_piece(f, XH_KIND_RAW, scattered(i) + 50000, SCATTERED_BYTES);
    cr_assert_eq(fetched(f), before, "it is here");
    xh_cache_close(f);
    cr_assert_eq(engine.said_in_vain, 0);
}

/* What comes in the background holds no claims: who wants some of it sooner fetches it. */
Test(read, nobody_waits_for_what_lies_around_reads, .timeout = 50)
{
    engine.streams = 1;
    engine.far = 1;
    engine.slow_us = 3000;
    struct xh_file *f = open_test("shadow=off");
    read_scattered(f, 0, SCATTERED - 1);
    hold(1);
    for (unsigned i = SCATTERED - 1; i < 2 * SCATTERED; i++)
        read_held(f, XH_KIND_RAW, scattered(i), SCATTERED_BYTES);
    cr_assert_eq(engine.loads, 1);
    hold(0);
    drain();
    xh_cache_close(f);
}

/* Then the next file's reader has to go on for longer. */
Test(read, what_lies_around_reads_and_is_not_read_came_in_vain, .timeout = 50)
{
    engine.streams = 1;
    engine.far = 1;
    engine.slow_us = 3000;
    struct xh_file *f = open_test("shadow=off");
    read_scattered(f, 0, SCATTERED);
    cr_assert_eq(engine.loads, 1);
    xh_cache_close(f);
    cr_assert_eq(engine.said_in_vain, 1);
    engine.in_vain = 1;
    row++;
    f = open_test("shadow=off");
    read_scattered(f, 0, 20);
    cr_assert_eq(engine.loads, 1);
    xh_cache_close(f);
}

Test(read, what_lies_around_reads_does_not_come_where_it_is_more_than_there_is_room_for, .timeout = 50)
{
    engine.streams = 1;
    engine.far = 1;
    engine.slow_us = 3000;
    struct xh_file *f = open_test("shadow=off,readahead_bytes=1000000");
    read_scattered(f, 0, 20);
    cr_assert_eq(engine.loads, 0);
    xh_cache_close(f);
}

/* The link would take longer for all of it than the reads have: three seconds, on a busy machine, too. */
Test(read, what_lies_around_reads_that_hardly_wait_does_not_come, .timeout = 50)
{
    engine.streams = 1;
    engine.far = engine.found = 1;
    engine.second_bytes = 1000000;
    struct xh_file *f = open_test("shadow=off");
    read_scattered(f, 0, SCATTERED);
    cr_assert_eq(engine.loads, 0);
    xh_cache_close(f);
}

/* However soon it came. */
Test(read, what_lay_around_reads_and_came_at_once_is_counted, .timeout = 50)
{
    engine.streams = 1;
    engine.far = 1;
    engine.slow_us = 3000;
    engine.at_once = 1;
    struct xh_file *f = open_test("shadow=off");
    read_scattered(f, 0, SCATTERED);
    cr_assert_eq(engine.loads, 1);
    for (unsigned i = 0; i < 20; i++)
        if (scattered(i) < 2800000)
            read_piece(f, XH_KIND_RAW, scattered(i) + 50000, SCATTERED_BYTES);
    engine.said_in_vain = -1;
    xh_cache_close(f);
    cr_assert_eq(engine.said_in_vain, 0);
}

/* What comes makes others' pages go, and its own: it is not asked for for ever. */
Test(read, what_lies_around_reads_and_finds_no_room_is_not_asked_for_again_and_again, .timeout = 50)
{
    static const char *config = "shadow=off,private_budget_bytes=4M";
    struct xh_file *f, *others[4];
    engine.streams = 1;
    engine.far = 1;
    engine.slow_us = 3000;
    f = open_test(config);
    for (unsigned i = 0; i < SCATTERED - 1; i++)
        read_piece(f, XH_KIND_RAW, scattered_by(i, 65000), SCATTERED_BYTES);
    hold(1);
    read_held(f, XH_KIND_RAW, scattered_by(SCATTERED - 1, 65000), SCATTERED_BYTES);
    cr_assert_eq(engine.loads, 1);
    for (unsigned k = 0; k < 4; k++) {
        row++;
        others[k] = open_now("shadow=off,private_budget_bytes=4M,readahead=off");
        for (unsigned i = 0; i < 12; i++)
            read_held(others[k], XH_KIND_RAW, 200000 * i, 200000);
    }
    hold(0);
    usleep(1000000);
    cr_assert_leq(engine.loads, 2, "it was asked for %u times", engine.loads);
    for (unsigned k = 0; k < 4; k++)
        xh_cache_close(others[k]);
    xh_cache_close(f);
}

/* Three files, each of which has half of the room, make each other's pages go: none comes more than about twice. */
Test(read, what_lies_around_the_reads_of_several_files_does_not_come_again_and_again, .timeout = 50)
{
    struct xh_file *f[3];
    struct xh_origin *of[3];
    engine.streams = 8;
    engine.far = 1;
    engine.slow_us = 3000;
    char config[200];
    strcpy(share_dir, "/dev/shm/xh-test-read-XXXXXX");
    cr_assert_not_null(mkdtemp(share_dir));
    snprintf(config, sizeof config, "shadow_dir=%s,shadow_budget_bytes=5500000", share_dir);
    for (unsigned k = 0; k < 3; k++, row++) {
        f[k] = open_test(config);
        of[k] = origin_now;
    }
    uint64_t before = 0, after = 0;
    for (unsigned k = 0; k < 3; k++)
        before += atomic_load(&of[k]->fetched);
    for (unsigned i = 0; i < 400; i++)
        for (unsigned k = 0; k < 3; k++)
            read_piece(f[k], XH_KIND_RAW, scattered_by(i % 20, 85000) + i / 20 * XH_PAGE_BYTES, SCATTERED_BYTES);
    for (unsigned k = 0; k < 3; k++)
        after += atomic_load(&of[k]->fetched);
    for (unsigned k = 0; k < 2; k++)
        xh_cache_close(f[k]);
    close_shareable(f[2]);
    cr_expect_gt(engine.loads, 0);
    cr_expect_lt(after - before, 3 * 3 * OBJECT_BYTES, "%llu by %u", (unsigned long long)(after - before),
                 engine.loads);
}

#define AROUND_BYTES (60u << 20)

/* The background is under way, in all of a file of AROUND_BYTES. */
static struct xh_file *open_around(void)
{
    engine.object_bytes = AROUND_BYTES;
    engine.streams = 8;
    engine.far = 1;
    engine.slow_us = 40000;
    struct xh_file *f = open_test("shadow=off,stream_bytes=0");
    for (unsigned i = 0; i < SCATTERED - 1; i++)
        read_piece(f, XH_KIND_RAW, scattered_by(i, 2u << 20), SCATTERED_BYTES);
    cr_assert_eq(engine.loads, 0);
    hold(1);
    read_held(f, XH_KIND_RAW, scattered_by(SCATTERED - 1, 2u << 20), SCATTERED_BYTES);
    cr_assert_eq(engine.loads, 1);
    engine.slow_us = 0;
    return f;
}

Test(read, what_a_stream_brings_does_not_come_in_the_background_too, .timeout = 50)
{
    struct xh_file *f = open_around();
    for (uint64_t at = 10u << 20; at < (40u << 20) && engine.loads == 1; at += 1u << 20)
        read_held(f, XH_KIND_RAW, at, 1u << 20);
    cr_expect_gt(engine.loads, 1, "it streams");
    cr_expect_geq(engine.ended, 1);
    hold(0);
    xh_cache_close(f);
}

Test(read, what_one_read_brings_does_not_come_in_the_background_too, .timeout = 50)
{
    struct xh_file *f = open_around();
    read_held(f, XH_KIND_RAW, 1u << 20, 30u << 20);
    cr_expect_geq(engine.ended, 1);
    hold(0);
    xh_cache_close(f);
}

Test(read, what_lies_around_reads_ends_when_nobody_reads_for_as_long_as_somebody_did, .timeout = 50)
{
    for (int idle = 0; idle < 2; idle++, row++) {
        uint64_t begun = xh_now_ns();
        struct xh_file *f = open_around();
        uint64_t took = xh_now_ns() - begun; /* longer than the reads */
        engine.asks = 1;
        usleep((useconds_t)(took / 1000 + 1000000));
        if (!idle) /* is waited for as long as the pause was, and the reads */
            read_held(f, XH_KIND_RAW, 50u << 20, SCATTERED_BYTES);
        hold(0);
        drain();
        cr_expect_eq(engine.ended > 0, idle, "%d", idle);
        xh_cache_close(f);
        engine.asks = 0;
        engine.loads = engine.ended = 0;
    }
}

Test(read, what_lies_between_pieces_that_come_in_one_range_is_kept, .timeout = 50)
{
    struct xh_file *f = open_test("shadow=off");
    uint8_t first[100], second[100];
    struct xh_extent e[] = {{101 * XH_PAGE_BYTES, sizeof first, first}, {104 * XH_PAGE_BYTES, sizeof second, second}};
    struct xh_err err = {0};
    cr_assert_eq(xh_cache_read(f, XH_KIND_RAW, e, 2, &err), 0, "%s", err.text);
    expect_right(first, e[0].off, sizeof first, 0);
    expect_right(second, e[1].off, sizeof second, 0);
    drain();
    uint64_t before = fetched(f);
    cr_assert_eq(before, 4 * XH_PAGE_BYTES, "as one range");
    read_piece(f, XH_KIND_RAW, 102 * XH_PAGE_BYTES + 5, 2 * XH_PAGE_BYTES - 5);
    cr_assert_eq(fetched(f), before);
    xh_cache_close(f);
}

/* ---- files whose names count */

/* Opens the |i|th file of a row, and waits for those that are opened ahead. */
static struct xh_file *open_counted(unsigned i, const char *config)
{
    struct xh_options o = named_options(0, config);
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    char url[64];
    o.namer = (struct xh_namer){0};
    snprintf(url, sizeof url, "https://test/run_%04u.h5", 95 + i);
    cr_assert_eq(xh_cache_open(url, &o, &f, &err), 0, "%s", err.text);
    while (xh_expected_threads())
        sched_yield();
    drain();
    return f;
}

/* Reads a little of it. */
static void read_counted(unsigned i, const char *config)
{
    struct xh_file *f = open_counted(i, config);
    read_page(f, 700 * XH_PAGE_BYTES);
    read_page(f, 300 * XH_PAGE_BYTES);
    drain();
    xh_cache_close(f);
}

#define COUNTED "shadow=off,whole_file_bytes=0"

Test(read, the_next_files_of_a_row_that_counts_are_opened_ahead, .timeout = 20)
{
    static const unsigned ahead[] = {0, 0, 1, 3, 5, 7, 8, 8, 8, 8};
    engine.reader = "a";
    engine.opens = 0;
    for (unsigned i = 0; i < sizeof ahead / sizeof *ahead; i++) {
        read_counted(i, COUNTED);
        cr_expect_eq(opens(), i + 1 + ahead[i], "%u: %u", i, opens());
    }
    struct xh_file *f = open_counted(10, COUNTED);
    cr_expect(xh_shadow_has(f->shadow, 700, 1) && xh_shadow_has(f->shadow, 300, 1), "and read as those before");
    xh_cache_close(f);
}

Test(read, where_a_row_ends_no_more_files_are_asked_for, .timeout = 20)
{
    engine.reader = "a";
    for (unsigned i = 0; i < 4; i++) /* the next three are open now */
        read_counted(i, COUNTED);
    engine.open_fails = 1;
    read_counted(4, COUNTED);
    unsigned asked = opens();
    for (unsigned i = 5; i < 7; i++)
        read_counted(i, COUNTED);
    cr_expect_eq(opens(), asked);
    engine.open_fails = 0;
    read_counted(7, COUNTED);
    read_counted(8, COUNTED);
    cr_expect_eq(opens(), asked + 2, "they were there after all");
}

Test(read, a_program_that_opens_other_names_or_wants_nothing_ahead_has_none_opened, .timeout = 20)
{
    static const unsigned names[] = {0, 5, 1, 7, 30, 2, 31, 12};
    engine.reader = "a";
    engine.opens = 0;
    for (unsigned i = 0; i < 8; i++)
        read_counted(names[i], COUNTED);
    cr_expect_eq(opens(), 8);
    for (unsigned i = 50; i < 56; i++)
        read_counted(i, COUNTED ",readahead=off");
    cr_expect_eq(opens(), 14);
}

Test(read, where_the_program_says_what_it_will_open_nothing_else_is_opened_ahead, .timeout = 20)
{
    struct xh_options o = named_options(0, COUNTED);
    char url[64];
    o.namer = (struct xh_namer){0};
    engine.reader = "a";
    engine.opens = 0;
    for (unsigned i = 0; i < 8; i++) {
        snprintf(url, sizeof url, "https://test/run_%04u.h5", 95 + i);
        cr_assert_eq(xh_cache_expect(url, &o), 1);
    }
    xh_cache_expect_soon(0, XH_EXPECTED_MOST);
    for (unsigned i = 0; i < 8; i++)
        read_counted(i, COUNTED);
    cr_expect_eq(opens(), 8);
    read_counted(8, COUNTED);
    cr_expect_eq(opens(), 10, "it says no more: the next one is opened");
}

/* It may be one that is being written: what the program opens is what is there when it does. */
Test(read, a_file_whose_name_was_guessed_and_that_changed_lately_is_asked_for_again, .timeout = 20)
{
    engine.reader = "a";
    engine.opens = 0;
    for (unsigned i = 0; i < 4; i++)
        read_counted(i, COUNTED);
    engine.fleeting = engine.confirms = 1;
    for (unsigned i = 4; i < 7; i++)
        read_counted(i, COUNTED);
    cr_expect_eq(opens(), 15, "they were opened before that, and eight more are now");
    read_counted(7, COUNTED);
    cr_expect_eq(opens(), 17, "it is asked for again, and one more is opened");
}

static struct xh_options program_options(const char *config)
{
    struct xh_options o = named_options(0, config);
    o.namer = (struct xh_namer){0};
    return o;
}

static void *open_coming(void *out)
{
    struct xh_options o = program_options(COUNTED);
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    *(int *)out = xh_cache_open(COMING, &o, &f, &err);
    xh_cache_close(f);
    return NULL;
}

/* The file may have come to be since it was asked for. */
Test(read, who_waits_for_a_guess_that_fails_asks_himself, .timeout = 20)
{
    struct xh_options guess = program_options(COUNTED);
    int rc = 1;
    pthread_t t;
    guess.guessed = 1;
    engine.reader = "a";
    engine.open_holds = 1;
    cr_assert_eq(xh_cache_expect_now(COMING, &guess), 1);
    while (opens() == 0)
        sched_yield();
    pthread_create(&t, NULL, open_coming, &rc);
    usleep(100000); /* it waits */
    pthread_mutex_lock(&engine.lock);
    engine.fail_next = 1;
    pthread_mutex_unlock(&engine.lock);
    let_open(0, 0);
    pthread_join(t, NULL);
    cr_expect_eq(rc, 0);
    cr_expect_eq(opens(), 2);
}

/* The files of a row are replaced one after another, and each is opened then. */
Test(read, where_a_file_of_a_row_changed_lately_the_next_ones_are_asked_for_again, .timeout = 20)
{
    engine.reader = "a";
    engine.confirms = 1;
    for (unsigned i = 0; i < 4; i++)
        read_counted(i, COUNTED);
    unsigned asked = opens();
    engine.fleeting = 1;
    read_counted(10, COUNTED); /* another one of the family */
    engine.fleeting = 0;
    cr_expect_eq(opens(), asked + 1);
    read_counted(4, COUNTED);
    cr_expect_eq(opens(), asked + 2, "it was opened before");
}

static unsigned descriptors(void)
{
    unsigned n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

Test(read, a_forks_child_closes_what_its_parent_has_opened_ahead, .timeout = 20)
{
    unsigned before = descriptors();
    int status = 1;
    engine.reader = "a";
    for (unsigned i = 0; i < 3; i++)
        read_counted(i, COUNTED);
    cr_expect_eq(xh_expected_count(), 1);
    cr_assert_gt(descriptors(), before);
    if (fork() == 0) {
        struct xh_options o = program_options(COUNTED);
        struct xh_handed how;
        struct xh_file *f = NULL;
        alarm(10);
        int taken = xh_expected_take(COMING, &o, &f, &how, NULL);
        _exit(taken || descriptors() != before);
    }
    wait(&status);
    cr_expect_eq(status, 0);
    unsigned asked = opens();
    read_counted(3, COUNTED);
    cr_expect_geq(xh_expected_count(), 1);
    cr_expect_leq(opens(), asked + 3, "the parent's is there");
}

Test(read, a_guess_that_nobody_comes_for_is_closed_in_time, .timeout = 20)
{
    xh_expected_guess_ns = 50000000;
    engine.reader = "a";
    for (unsigned i = 0; i < 3; i++)
        read_counted(i, COUNTED);
    cr_expect_eq(opens(), 4);
    while (xh_expected_count())
        usleep(1000);
    xh_expected_guess_ns = UINT64_C(60000000000);
    read_counted(3, COUNTED); /* which was closed */
    cr_expect_eq(xh_expected_count(), 1, "the row goes on");
    struct xh_options o = program_options(COUNTED); /* what the program announced stays */
    cr_assert_eq(xh_cache_expect_now(COMING, &o), 1);
    while (xh_expected_threads())
        sched_yield();
    cr_expect_eq(xh_expected_count(), 2);
}

Test(read, what_is_guessed_gives_way_to_what_the_program_announces, .timeout = 20)
{
    struct xh_options o = program_options(COUNTED), guess = o;
    char url[64];
    guess.guessed = 1;
    engine.reader = "a";
    for (unsigned i = 0; i < XH_EXPECTED_MOST; i++) {
        snprintf(url, sizeof url, COMING "%u", i);
        cr_assert_eq(xh_cache_expect_now(url, &guess), 1);
    }
    while (xh_expected_threads())
        sched_yield();
    cr_expect_eq(xh_cache_expect_now(COMING "g", &guess), 0);
    cr_expect_eq(xh_cache_expect_now(COMING, &o), 1);
    cr_expect_eq(xh_expected_count(), XH_EXPECTED_MOST);
}
