/* Many threads that read, hint, fork and close over an origin made here, which answers late, fails,
 * and leaves speculation aside until it is promoted. A plain program, so that ThreadSanitizer can
 * build it. Prints what does not hold and aborts. */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "object.h"
#include "scratch.h"
#include "shadow/impl.h"
#include "shadow/store.h"
#include "source/compressed.h"
#include "source/compressed_impl.h"
#include "stream/segment.h"
#include "stream/stage.h"
#include "stream/ending.h"
#include "stream/stream.h"

#define OBJECT_BYTES (100u * 1000 * 1000 + 77)
#define READ_IN_BYTES (12u * 1000 * 1000) /* where the random readers are */
#define READERS 4
#define FEW 10
#define THREADS (FEW + XH_STREAMS_MAX) /* those beyond serve streams that are waited for: one that stands makes way */
#define NO_STREAMS 2 /* of these: streams that stand keep none from a demand */

#define CHECK(what)                                                                \
    do {                                                                           \
        if (!(what)) {                                                             \
            fprintf(stderr, "race_read.c:%d: does not hold: %s\n", __LINE__, #what); \
            abort();                                                               \
        }                                                                          \
    } while (0)

static uint8_t byte_at(uint64_t off)
{
    return (uint8_t)((off * 2654435761u) >> 13 ^ off >> 20);
}

/* ---- the origin made here: some threads, and a queue for each kind ------------------------------ */

struct xh_origin {
    int unused;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t more, drained, resumed;
    struct xh_transfer *demand, *speculative;
    size_t busy;
    int started, cancel;
    _Atomic unsigned fail_one_in; /* 0: never */
    _Atomic enum { EAGER, LAZY, STRICT } mood; /* speculation: as it comes; late; only when promoted or cancelled */
    _Atomic unsigned too_early; /* promotions of what was not submitted yet */
    _Atomic int meet;           /* submit waits for one of these */
    _Atomic int linger; /* the submission of a stream comes back when all of it has stood, and some goes on, or half a
                         * second later */
    _Atomic int lingers; /* and it stands now */
    unsigned streams;           /* may be begun */
    int early;                  /* the head comes before its version is known */
    unsigned resumes;
    _Atomic size_t begun;       /* loads of the stream that was begun last */
    struct {
        struct xh_transfer *t;
        int dead;
    } serving[THREADS];
    _Atomic unsigned standing;  /* streams that wait to be resumed */
} engine = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER,
            .drained = PTHREAD_COND_INITIALIZER, .resumed = PTHREAD_COND_INITIALIZER};

/* Waits until |t|, which thread |by| serves, takes bytes. Returns 1 when it was cancelled. */
static int stands(struct xh_transfer *t, unsigned by)
{
    for (;;) {
        pthread_mutex_lock(&engine.lock);
        unsigned seen = engine.resumes;
        int dead = engine.serving[by].dead || engine.cancel;
        pthread_mutex_unlock(&engine.lock);
        if (dead || !t->full || !t->full(t))
            return dead;
        engine.standing++;
        pthread_mutex_lock(&engine.lock);
        while (engine.resumes == seen && !engine.cancel)
            pthread_cond_wait(&engine.resumed, &engine.lock);
        pthread_mutex_unlock(&engine.lock);
        engine.standing--;
    }
}

static void serve(struct xh_transfer *t, unsigned by, unsigned *seed, int cancelled)
{
    struct xh_err err = {0};
    uint8_t piece[9000];
    int fails = engine.fail_one_in && (unsigned)rand_r(seed) % engine.fail_one_in == 0;
    for (size_t i = 0; i < t->nranges && !cancelled; i++)
        for (struct xh_range r = t->ranges[i]; r.len && !cancelled;) {
            size_t n = 1 + (size_t)rand_r(seed) % sizeof piece;
            n = n < r.len ? n : r.len;
            if (t->full && stands(t, by)) {
                cancelled = 1;
                break;
            }
            for (size_t k = 0; k < n; k++)
                piece[k] = byte_at(r.off + k);
            t->bytes(t, r.off, piece, n);
            r = (struct xh_range){r.off + n, r.len - n};
            cancelled = fails && rand_r(seed) % 16 == 0;
            if (rand_r(seed) % 32 == 0)
                usleep(50);
        }
    if (cancelled)
        xh_err_set(&err, XH_E_NET, 0, "made to fail");
    t->done(t, cancelled ? &err : NULL);
}

/* Where thread |by| finds what it serves next; there is none where that is NULL. */
static struct xh_transfer **next_for(unsigned by)
{
    struct xh_transfer **at = &engine.demand;
    while (*at && ((by < NO_STREAMS && (*at)->full) || (by >= FEW && !(*at)->full)))
        at = &(*at)->link;
    return *at || by >= FEW ? at : &engine.speculative;
}

static void *engine_main(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg, by = seed - 1;
    pthread_mutex_lock(&engine.lock);
    for (;;) {
        struct xh_transfer **from = next_for(by);
        int late = from == &engine.speculative && engine.mood != EAGER && !engine.cancel;
        if (!*from || (late && engine.mood == STRICT) || ((*from)->full && by < NO_STREAMS)) {
            pthread_cond_wait(&engine.more, &engine.lock);
            continue;
        }
        if (late && rand_r(&seed) % 8) {
            pthread_mutex_unlock(&engine.lock);
            usleep(300);
            pthread_mutex_lock(&engine.lock);
            continue;
        }
        struct xh_transfer *t = *from;
        int cancelled = engine.cancel || t->origin_private == engine.serving;
        *from = t->link;
        t->origin_private = NULL; /* in no queue: nothing to promote */
        engine.serving[by].t = t;
        engine.serving[by].dead = 0;
        pthread_mutex_unlock(&engine.lock);
        serve(t, by, &seed, cancelled);
        pthread_mutex_lock(&engine.lock);
        engine.serving[by].t = NULL;
        if (--engine.busy == 0)
            pthread_cond_broadcast(&engine.drained);
    }
    return NULL;
}

int xh_origin_ready(const struct xh_options *o, struct xh_err *err)
{
    (void)o, (void)err;
    return 0;
}

int xh_origin_reader(const char *url, const struct xh_options *o, char out[XH_READER_BYTES])
{
    (void)url, (void)o;
    out[0] = '\0';
    return 0;
}

int xh_origin_open(const char *url, const struct xh_options *o, const char *hint, int vouched, struct xh_counters *c,
                   const struct xh_patience *patience, struct xh_origin **out, struct xh_origin_head *head,
                   struct xh_err *err)
{
    (void)url, (void)o, (void)hint, (void)c, (void)patience, (void)err;
    *out = calloc(1, sizeof **out);
    pthread_mutex_lock(&engine.lock);
    for (uintptr_t i = 0; i < THREADS && !engine.started; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, engine_main, (void *)(i + 1)) == 0);
        pthread_detach(t);
    }
    engine.started = 1;
    engine.cancel = 0;
    pthread_mutex_unlock(&engine.lock);
    head->len = 10000;
    head->bytes = malloc(head->len);
    for (size_t i = 0; i < head->len; i++)
        head->bytes[i] = byte_at(i);
    head->confirmed = 1; /* no walk, no rest of the head */
    head->unverified = engine.early;
    return 0;
}

int xh_origin_open_told(const char *url, const struct xh_options *o, const char *hint, struct xh_counters *c,
                        struct xh_origin **out, struct xh_err *err)
{
    (void)url, (void)o, (void)hint, (void)c, (void)out, (void)err;
    CHECK(!"nobody tells anything here");
    return XH_E_INVAL;
}

void xh_origin_get_info(struct xh_origin *o, struct xh_origin_info *out)
{
    (void)o;
    *out = (struct xh_origin_info){.size = OBJECT_BYTES, .validator = "etag:test", .url_shown = "https://test/x",
                                   .max_ranges = 50,
                                   .max_range_header = 3900, .flight_bytes = 1u << 20,
                                   .connections = engine.streams ? engine.streams : 8,
                                   .streaming = engine.streams ? engine.streams : 8, .scattered = 8, .open = 8,
                                   .idle = 8,
                                   .streams = engine.streams, .warm = engine.streams};
}

void xh_origin_tell_apart(const char *url)
{
    (void)url;
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
    (void)o, (void)processes;
}

size_t xh_origin_hint(struct xh_origin *o, char *buf, size_t size)
{
    (void)o, (void)buf, (void)size;
    return 0;
}

int xh_origin_submit(struct xh_origin *o, struct xh_transfer *const *ts, size_t n, struct xh_err *err)
{
    (void)o, (void)err;
    /* All may have come before this: then there is none to wait for. */
    unsigned was = engine.too_early;
    for (int i = 0; i < 2000 && ts[0]->speculative && engine.meet && engine.too_early == was; i++)
        usleep(100);
    if (ts[0]->full)
        engine.begun = n;
    pthread_mutex_lock(&engine.lock);
    for (size_t i = 0; i < n; i++) {
        int waits = ts[i]->speculative && (!ts[i]->full || ts[i]->patient);
        struct xh_transfer **to = waits ? &engine.speculative : &engine.demand;
        ts[i]->origin_private = to;
        ts[i]->link = *to;
        *to = ts[i];
        engine.busy++;
    }
    pthread_cond_broadcast(&engine.more);
    pthread_mutex_unlock(&engine.lock);
    for (int left = 5000; ts[0]->full && engine.linger && left && (!engine.lingers || engine.standing == n);
         usleep(100)) {
        engine.lingers |= engine.standing == n;
        left -= engine.lingers;
    }
    return 0;
}

static void drain(int cancel)
{
    pthread_mutex_lock(&engine.lock);
    engine.cancel = cancel;
    pthread_cond_broadcast(&engine.more);
    pthread_cond_broadcast(&engine.resumed);
    while (engine.busy)
        pthread_cond_wait(&engine.drained, &engine.lock);
    pthread_mutex_unlock(&engine.lock);
}

void xh_origin_cancel(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o;
    pthread_mutex_lock(&engine.lock);
    if (t->origin_private)
        t->origin_private = engine.serving; /* it is queued, and is dead when its turn comes */
    for (size_t i = 0; i < THREADS; i++)
        engine.serving[i].dead |= engine.serving[i].t == t;
    engine.resumes++;
    pthread_cond_broadcast(&engine.resumed);
    pthread_mutex_unlock(&engine.lock);
}

int xh_origin_withdraw(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o, (void)t;
    return 0; /* what is submitted here is under way at once */
}

void xh_origin_promote(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o;
    pthread_mutex_lock(&engine.lock);
    if (!t->origin_private)
        engine.too_early++;
    for (struct xh_transfer **at = &engine.speculative; *at; at = &(*at)->link)
        if (*at == t) {
            *at = t->link;
            t->link = engine.demand;
            engine.demand = t;
            pthread_cond_broadcast(&engine.more);
            break;
        }
    pthread_mutex_unlock(&engine.lock);
}

void xh_origin_resume(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o, (void)t;
    pthread_mutex_lock(&engine.lock);
    engine.resumes++;
    pthread_cond_broadcast(&engine.resumed);
    pthread_mutex_unlock(&engine.lock);
}

static int is_child;

void xh_origin_stop(struct xh_origin *o)
{
    (void)o;
    if (!is_child)
        drain(1);
}

void xh_origin_close(struct xh_origin *o)
{
    if (!is_child)
        drain(1);
    free(o);
}

/* ---- readers ------------------------------------------------------------------------------------ */

static struct xh_file *open_test(const char *config)
{
    struct xh_options o;
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    xh_options_defaults(&o);
    strcpy(o.sidecar, "off"); /* there is one object */
    o.head_bytes = 16384;
    o.whole_file_bytes = 1 << 20; /* so the object does not come whole */
    CHECK(xh_options_from_string(&o, config, "test", &err) == 0);
    CHECK(xh_cache_open("https://test/x", &o, &f, &err) == 0);
    return f;
}

static void check_bounds(struct xh_file *f)
{
    /* what a stream had to bring is besides */
    uint64_t most = f->opt.readahead_bytes + (engine.streams ? 2 * (16u << 20) : 0);
    pthread_mutex_lock(&f->stage->lock);
    CHECK(f->stage->place.bytes <= most);
    pthread_mutex_unlock(&f->stage->lock);
    CHECK(xh_room_held() <= most);
}

static int read_one(struct xh_file *f, uint64_t off, uint64_t len, uint8_t *b)
{
    /* What was written here since the last read came after it had returned. */
    for (uint64_t k = 0; k < 400000; k++)
        CHECK(b[k] == 0x5a);
    struct xh_err err = {0};
    struct xh_extent e[3] = {{off + len / 2, len - len / 2, b + len / 2}, {off, len / 2, b}, {off, 0, b}};
    int rc = xh_cache_read(f, XH_KIND_RAW, e, 3, &err);
    for (uint64_t k = 0; rc == 0 && k < len; k++)
        CHECK(b[k] == byte_at(off + k));
    memset(b, 0x5a, 400000);
    check_bounds(f);
    return rc;
}

static void *reader(void *arg)
{
    struct xh_file *f = arg;
    static _Atomic unsigned seeds = 1;
    unsigned seed = seeds++;
    uint8_t *b = malloc(400000);
    memset(b, 0x5a, 400000);
    for (int i = 0; i < 12; i++) {
        uint64_t off = (uint64_t)rand_r(&seed) % (READ_IN_BYTES - 4000000), len = 1 + (uint64_t)rand_r(&seed) % 390000;
        struct xh_range hints[3] = {{off, len}, {off + 3 * len, len}, {off + len / 2, 2 * len}};
        if (rand_r(&seed) % 2)
            CHECK(xh_cache_prefetch(f, XH_KIND_RAW, hints, 3) <= 3);
        int backwards = rand_r(&seed) % 4 == 0;
        for (uint64_t k = 0; k < 8; k++)
            read_one(f, off + len * (backwards ? 7 - k : k), len, b);
    }
    free(b);
    return NULL;
}

static void *stream_reader(void *arg)
{
    struct xh_file *f = arg;
    static _Atomic unsigned seeds = 77;
    unsigned seed = seeds++;
    uint8_t *b = malloc(400000);
    memset(b, 0x5a, 400000);
    for (int i = 0; i < 3; i++) {
        uint64_t off = (uint64_t)rand_r(&seed) % 40000000;
        for (int k = 0; k < 100; k++, off += 390000)
            read_one(f, off, 390000, b); /* may fail, where transfers are made to */
    }
    free(b);
    return NULL;
}

static _Atomic int read_all;

/* As if other processes opened the file and closed it, again and again: what its stage has is shared, and streams end,
 * while readers take from them. */
static void *others_come_and_go(void *arg)
{
    struct xh_file *f = arg;
    char path[sizeof f->shadow->dir + XH_NAME_BYTES + 1];
    snprintf(path, sizeof path, "%s/%s", f->shadow->dir, f->shadow->name);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    for (unsigned seed = 5; !read_all; usleep(1000 + (unsigned)rand_r(&seed) % 20000))
        CHECK(xh_store_lock(fd, rand_r(&seed) % 2 ? F_RDLCK : F_UNLCK, XH_LOCK_OPEN) == 0);
    close(fd);
    return NULL;
}

/* With |streams|, two read on and on while the others come across. */
static void threads_read(const char *config, unsigned fail_one_in, int mood, unsigned streams)
{
    pthread_t t[READERS], others = pthread_self();
    engine.streams = streams;
    engine.early = 1; /* several readers prove it at once */
    struct xh_file *f = open_test(config);
    engine.early = 0;
    pthread_mutex_lock(&engine.lock);
    engine.fail_one_in = fail_one_in;
    engine.mood = mood;
    pthread_mutex_unlock(&engine.lock);
    read_all = 0;
    if (f->opt.shadow)
        pthread_create(&others, NULL, others_come_and_go, f);
    for (int i = 0; i < READERS; i++)
        pthread_create(&t[i], NULL, streams && i < 2 ? stream_reader : reader, f);
    for (int i = 0; i < READERS; i++)
        pthread_join(t[i], NULL);
    read_all = 1;
    if (f->opt.shadow)
        pthread_join(others, NULL);
    xh_cache_close(f); /* with speculation in flight */
    engine.fail_one_in = 0;
    engine.mood = EAGER;
    engine.streams = 0;
}

/* |budget_bytes|: 0, or fewer than come. */
static void threads_share(unsigned budget_bytes, unsigned fail_one_in)
{
    char config[300];
    scratch_begin("/dev/shm/xh-race-read");
    snprintf(config, sizeof config, "shadow_dir=%s,shadow_budget_bytes=%u,stream_bytes=0,readahead_bytes=24M", dir,
             budget_bytes);
    threads_read(config, fail_one_in, EAGER, 4);
    scratch_end();
}

static uint64_t staged(struct xh_file *f)
{
    pthread_mutex_lock(&f->stage->lock);
    uint64_t bytes = f->stage->place.bytes;
    pthread_mutex_unlock(&f->stage->lock);
    return bytes;
}

static size_t parcels(struct xh_file *f)
{
    pthread_mutex_lock(&f->stage->lock);
    size_t n = f->stage->n;
    pthread_mutex_unlock(&f->stage->lock);
    return n;
}

/* A reader who comes between the listing of a load and its submission is not left to wait. */
static void *read_staged(void *arg)
{
    struct xh_file *f = arg;
    uint8_t *b = malloc(400000);
    memset(b, 0x5a, 400000);
    while (!staged(f))
        usleep(100);
    CHECK(read_one(f, 2000000, 300000, b) == 0);
    free(b);
    return NULL;
}

static void a_taker_before_submission_promotes(void)
{
    pthread_t t;
    struct xh_range r = {2000000, 300000};
    struct xh_file *f = open_test("shadow=off,readahead=off");
    engine.mood = STRICT;
    engine.meet = 1;
    pthread_create(&t, NULL, read_staged, f);
    CHECK(xh_stage_fetch(f, &r, 1, 0) == 1);
    pthread_join(t, NULL);
    engine.mood = EAGER;
    engine.meet = 0;
    xh_cache_close(f);
}

/* In a child: the engine made here, anew. */
static void start_again(void)
{
    pthread_t t;
    pthread_mutex_init(&engine.lock, NULL);
    pthread_cond_init(&engine.more, NULL);
    pthread_cond_init(&engine.drained, NULL);
    pthread_cond_init(&engine.resumed, NULL);
    engine.demand = engine.speculative = NULL;
    engine.busy = 0;
    memset(engine.serving, 0, sizeof engine.serving);
    engine.mood = EAGER;
    for (uintptr_t i = 0; i < 3; i++) {
        CHECK(pthread_create(&t, NULL, engine_main, (void *)(i + 1)) == 0);
        pthread_detach(t);
    }
}

/* A child that closes what its parent has in flight, without a read, ends in peace. */
static void a_child_closes(void)
{
    int status;
    struct xh_range r = {2000000, 1500000};
    struct xh_file *f = open_test("shadow=off,readahead=off");
    engine.mood = STRICT;
    CHECK(xh_stage_fetch(f, &r, 1, 0) == 1);
    CHECK(staged(f) > 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        is_child = 1;
        xh_cache_close(f);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    xh_cache_close(f);
    engine.mood = EAGER;
}

/* |act|, in a child that ends with what it returns, on a file at whose body a thread of the parent was at work when the
 * child began. */
static void in_a_child_of_one_at_work(int (*act)(struct xh_file *))
{
    int status;
    struct xh_file *f = open_test("shadow=off");
    struct xh_options o = f->opt;
    strcpy(o.sidecar, "auto");
    CHECK(f->compressed = xh_compressed_new("https://test/x", &o, f->above->files));
    pthread_mutex_lock(&f->compressed->lock);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        is_child = 1;
        alarm(100);
        _exit(act(f));
    }
    pthread_mutex_unlock(&f->compressed->lock);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    xh_cache_close(f);
}

static int closes(struct xh_file *f)
{
    xh_cache_close(f);
    return 0;
}

static void a_child_does_not_wait_for_the_parents_look(void)
{
    in_a_child_of_one_at_work(closes);
}

/* As the option stats and Python's stats() do. */
static int asks_for_statistics(struct xh_file *f)
{
    struct xh_stats s;
    xh_cache_stats(f, &s);
    return s.bytes_asked != 0;
}

static void a_child_asks_for_statistics(void)
{
    in_a_child_of_one_at_work(asks_for_statistics);
}

/* Threads of a child that come to a file at once, while its parent has much of it in the stage and under way: each gets
 * its bytes, and the room is the child's alone. */
static void a_childs_threads_come_at_once(void)
{
    int status;
    struct xh_range r[2] = {{2000000, 1500000}, {8000000, 3000000}};
    struct xh_file *f = open_test("shadow=off,readahead=off,readahead_bytes=8M");
    CHECK(xh_stage_fetch(f, &r[0], 1, 0) == 1);
    drain(0);
    engine.mood = STRICT;
    CHECK(xh_stage_fetch(f, &r[1], 1, 0) == 1);
    CHECK(xh_room_held() == r[0].len + r[1].len && xh_room_memory() >= r[0].len);
    pthread_mutex_lock(&f->stage->lock); /* as an engine's thread may */
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        pthread_t t[READERS];
        is_child = 1;
        alarm(100);
        CHECK(xh_room_held() == 0 && xh_room_memory() == 0);
        start_again();
        for (int i = 0; i < READERS; i++)
            pthread_create(&t[i], NULL, reader, f);
        for (int i = 0; i < READERS; i++)
            pthread_join(t[i], NULL);
        drain(0);
        xh_cache_close(f);
        CHECK(xh_room_held() == 0 && xh_room_memory() == 0);
        _exit(0);
    }
    pthread_mutex_unlock(&f->stage->lock);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    xh_cache_close(f);
    engine.mood = EAGER;
}

static size_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2(); /* zeroes under a sanitizer */
    return m.uordblks + m.hblkhd;
}

/* What was read is not held for the sake of what was not: out of order, in halves, of one load. */
static void read_parcels_hold_no_memory(void)
{
    enum { PIECES = 600 };
    struct xh_range r[PIECES]; /* so short that they come past the shadow */
    uint8_t *b = malloc(400000);
    memset(b, 0x5a, 400000);
    struct xh_file *f = open_test("shadow=off,readahead=off,readahead_bytes=8M,connections=1");
    for (uint64_t i = 0; i < PIECES; i++)
        r[i] = (struct xh_range){1000000 + i * 20000, 10000};
    CHECK(xh_cache_prefetch(f, XH_KIND_RAW, r, PIECES) == PIECES);
    CHECK(staged(f) > 0);
    uint64_t all = staged(f);
    size_t before = heap_bytes();
    drain(0);
    for (uint64_t i = 0; i < PIECES - 1; i++) {
        read_one(f, r[i].off + 5000, 5000, b);
        read_one(f, r[i].off, 5000, b);
    }
    CHECK(staged(f) < all / 20);
    /* the hints' own memory of what was read is 64 KiB of it */
    CHECK(heap_bytes() < before + all / 20);
    free(b);
    xh_cache_close(f);
}

static void read_on(struct xh_file *f, uint64_t from, uint64_t to, uint8_t *b)
{
    for (uint64_t off = from; off < to; off += 390000)
        CHECK(read_one(f, off, to - off < 390000 ? to - off : 390000, b) == 0);
}

/* A stream stands still while its reader has enough before him, goes on as he comes, and is left
 * when he goes elsewhere. */
static void a_stream_waits_for_its_reader(void)
{
    uint8_t *b = malloc(400000);
    memset(b, 0x5a, 400000);
    engine.streams = 4;
    struct xh_file *f = open_test("shadow=off,stream_bytes=0,readahead_bytes=16M");
    read_on(f, 0, 30000000, b);
    CHECK(f->stage->stream[0] && f->stage->stream[1]);
    int ms = 0;
    for (; (engine.standing < engine.streams || staged(f) < (12u << 20)) && ms < 20000; ms++)
        usleep(1000);
    usleep(20000);
    /* One that was resumed last finds that there is no room, and stands again. */
    while (engine.standing < engine.streams && ms++ < 20000)
        usleep(1000);
    CHECK(ms < 20000);
    CHECK(staged(f) >= (12u << 20) && staged(f) <= (16u << 20) + 8 * 9000);
    read_on(f, 30000000, 60000000, b);
    CHECK(atomic_load(&f->counters.bytes_staged) > 40000000);
    for (uint64_t off = 1000; off < 8000000; off += 190000) /* what was there is not there any more */
        CHECK(read_one(f, off, 1000, b) == 0);
    read_on(f, 90000000, OBJECT_BYTES, b); /* far from where the stream is */
    free(b);
    xh_cache_close(f);
    engine.streams = 0;
}

/* 1 when load |i| of the present streams is there, and patient or not. */
static int streams_by(struct xh_file *f, unsigned i, int patient)
{
    pthread_mutex_lock(&f->stage->lock);
    struct xh_prefetch *l = f->stage->stream[i];
    int is = l && l->t.patient == patient;
    pthread_mutex_unlock(&f->stage->lock);
    return is;
}

/* A stream that is cut ends there, and another one goes on from there. */
static void a_stream_is_cut(unsigned seed)
{
    uint8_t *b = malloc(400000);
    memset(b, 0x5a, 400000);
    engine.streams = 4; /* with those that end soon no more than there are threads */
    struct xh_file *f = open_test("shadow=off,stream_bytes=0,readahead_bytes=16M");
    uint64_t at = 0, cut = 20000000 + (uint64_t)rand_r(&seed) % 40000000;
    read_on(f, 0, cut, b);
    for (int i = 0; i < 3; i++) {
        xh_stage_cut(f, (uint64_t)(rand_r(&seed) % 12000000));
        at = cut;
        cut += (uint64_t)(rand_r(&seed) % 9000000) + 390000;
        read_on(f, at, cut, b);
    }
    read_on(f, cut, OBJECT_BYTES, b);
    drain(0);
    CHECK(parcels(f) == 0);
    xh_cache_close(f);
    free(b);
    engine.streams = 0;
}

/* A stream of chunks with gaps between them, read to its end: neither they nor what a gap leaves of a stripe stay. */
static void a_stream_leaves_no_gaps_behind(uint64_t chunk, uint64_t gap)
{
    uint8_t *b = malloc(400000);
    memset(b, 0x5a, 400000);
    engine.streams = 4;
    struct xh_file *f = open_test("shadow=off,readahead=off,stream_bytes=0,readahead_bytes=32M");
    uint64_t off = 1000000, end = off + (60000000 / (chunk + gap)) * (chunk + gap) - gap, most = 0;
    CHECK(xh_stage_stream(f, off, end, 1, 0) == end);
    for (; off < end; off += chunk + gap) {
        CHECK(read_one(f, off, chunk, b) == 0);
        xh_stage_reach(f, off + chunk, 4u << 20);
        most = staged(f) > most ? staged(f) : most;
    }
    CHECK(most > 0 && atomic_load(&f->counters.bytes_demand) == 0);
    drain(0);
    CHECK(staged(f) == 0 && parcels(f) == 0);
    free(b);
    xh_cache_close(f);
    engine.streams = 0;
}

/* A file that is read after others comes in parts, as far as there is room, however far its reader is; and its reader
 * finds it, whatever has come by then. */
static void a_file_behind_others_comes_as_far_as_there_is_room(unsigned seed, int ends)
{
    uint8_t *b = malloc(400000);
    memset(b, 0x5a, 400000);
    engine.streams = 4;
    struct xh_file *f = open_test("shadow=off,readahead=off,stream_bytes=0,readahead_bytes=16M");
    uint64_t off = 1000000, end = off + 40000000;
    CHECK(xh_stage_stream(f, off, end, 1, 60000000) == end);
    xh_stage_reach(f, off, 1u << 20);
    for (int i = 0; i < 2000 && staged(f) < (12u << 20); i++)
        usleep(1000);
    CHECK(staged(f) >= (12u << 20) && staged(f) <= (16u << 20) + 16 * 9000);
    uint64_t cut = ends ? off + 9000000 : end;
    for (uint64_t len; off < end; off += len) {
        len = (uint64_t)(rand_r(&seed) % 390000) + 1;
        len = len < end - off ? len : end - off;
        CHECK(read_one(f, off, len, b) == 0);
        xh_stage_reach(f, off + len, 1u << 20);
        if (off < cut && off + len >= cut)
            xh_stage_end(f); /* others read it too from now on */
    }
    CHECK((atomic_load(&f->counters.bytes_demand) > 0) == ends);
    drain(0);
    CHECK(staged(f) == 0 && parcels(f) == 0 && f->stage->granted == 0);
    free(b);
    xh_cache_close(f);
    engine.streams = 0;
}

/* A stream's loads that wait for a connection are hurried by their reader, even by one who comes before the
 * origin has them. */
static void *read_streamed(void *arg)
{
    struct xh_file *f = arg;
    uint8_t *b = malloc(400000);
    memset(b, 0x5a, 400000);
    while (!parcels(f))
        usleep(100);
    read_on(f, 2000000, 30000000, b);
    free(b);
    return NULL;
}

static void a_reader_hurries_a_patient_stream(int before_submission)
{
    pthread_t t;
    engine.streams = 4;
    struct xh_file *f = open_test("shadow=off,readahead=off,stream_bytes=0,readahead_bytes=64M");
    engine.mood = STRICT;
    engine.meet = before_submission;
    if (before_submission)
        pthread_create(&t, NULL, read_streamed, f);
    CHECK(xh_stage_stream(f, 2000000, 30000000, 1, 0) == 30000000);
    CHECK(streams_by(f, 0, 1) && streams_by(f, 3, 1));
    xh_stage_reach(f, 2000000, 64u << 20);
    engine.meet = 0;
    if (!before_submission)
        pthread_create(&t, NULL, read_streamed, f);
    pthread_join(t, NULL);
    CHECK(atomic_load(&f->counters.bytes_demand) == 0);
    engine.mood = EAGER;
    xh_cache_close(f);
    engine.streams = 0;
}

/* A stream that stands before its submission has come back goes on when its reader comes. */
static void *read_standing(void *arg)
{
    struct xh_file *f = arg;
    uint8_t *b = malloc(400000);
    memset(b, 0x5a, 400000);
    while (!engine.lingers)
        usleep(100);
    for (uint64_t off = 2000000; off < 60000000; off += 390000) {
        read_on(f, off, off + 390000 < 60000000 ? off + 390000 : 60000000, b);
        xh_stage_reach(f, off + 390000, 16u << 20);
    }
    free(b);
    return NULL;
}

static void a_stream_stands_before_it_is_submitted(void)
{
    pthread_t t;
    engine.streams = 4;
    engine.linger = 1;
    engine.lingers = 0;
    struct xh_file *f = open_test("shadow=off,readahead=off,stream_bytes=0,readahead_bytes=64M");
    pthread_create(&t, NULL, read_standing, f);
    CHECK(xh_stage_stream(f, 2000000, 60000000, 1, 0) == 60000000);
    pthread_join(t, NULL);
    CHECK(atomic_load(&f->counters.bytes_demand) == 0);
    xh_cache_close(f);
    engine.streams = 0;
    engine.linger = 0;
}

/* What the shadow has between two chunks, an index node mostly, does not end a stream; more of it does. */
static void a_stream_goes_over_small_holes_alone(void)
{
    uint8_t *b = malloc(400000), *node = malloc(200000);
    memset(b, 0x5a, 400000);
    engine.streams = 4;
    struct xh_file *f = open_test("shadow=off,readahead=off,stream_bytes=0,readahead_bytes=32M");
    struct xh_err err = {0};
    struct xh_extent small = {7000000, 3000, node}, large = {40000000, 150000, node};
    CHECK(xh_cache_read(f, XH_KIND_META, &small, 1, &err) == 0);
    CHECK(xh_cache_read(f, XH_KIND_META, &large, 1, &err) == 0);
    CHECK(xh_shadow_peek(f->shadow, 7000000 / XH_PAGE_BYTES) == XH_CLAIM_READY);
    uint64_t hole = 40000000 / XH_PAGE_BYTES;
    CHECK(xh_shadow_peek(f->shadow, hole) == XH_CLAIM_READY);
    while (xh_shadow_peek(f->shadow, hole - 1) == XH_CLAIM_READY) /* more may have come along */
        hole--;
    uint64_t stop = hole * XH_PAGE_BYTES, seen = xh_stage_stream(f, 1000000, 80000000, 1, 0);
    while (xh_shadow_peek(f->shadow, hole) == XH_CLAIM_READY)
        hole++;
    CHECK(seen == hole * XH_PAGE_BYTES); /* what the shadow has is seen to */
    CHECK(f->stage->at[f->stage->n - 1]->end == stop);
    for (uint64_t off = 1000000; off < seen; off += 390000) {
        CHECK(read_one(f, off, seen - off < 390000 ? seen - off : 390000, b) == 0);
        xh_stage_reach(f, off + 390000, 16u << 20);
    }
    drain(0);
    CHECK(staged(f) == 0 && parcels(f) == 0);
    free(b);
    free(node);
    xh_cache_close(f);
    engine.streams = 0;
}

/* Of a part that hangs, the name is the last that was written. */
#define PART(call) (fprintf(stderr, "# %s\n", #call), call)

int main(void)
{
    PART(a_stream_waits_for_its_reader());
    for (unsigned seed = 1; seed <= 4; seed++)
        PART(a_stream_is_cut(seed));
    PART(a_stream_leaves_no_gaps_behind(300000, 4000));
    for (int ends = 0; ends < 2; ends++)
        PART(a_file_behind_others_comes_as_far_as_there_is_room(5, ends));
    PART(a_stream_leaves_no_gaps_behind(131072, 100));
    PART(a_stream_leaves_no_gaps_behind(390001, 65536));
    PART(a_stream_goes_over_small_holes_alone());
    PART(a_reader_hurries_a_patient_stream(0));
    PART(a_reader_hurries_a_patient_stream(1));
    PART(a_stream_stands_before_it_is_submitted());
    PART(threads_read("shadow=off,stream_bytes=0,readahead_bytes=24M", 0, EAGER, 4));
    PART(threads_read("shadow=off,stream_bytes=0,readahead_bytes=24M", 20, EAGER, 4));
    PART(threads_share(0, 0));
    PART(threads_share(8u << 20, 0));
    PART(threads_share(32u << 20, 20));
    PART(a_taker_before_submission_promotes());
    PART(a_child_closes());
    PART(a_child_does_not_wait_for_the_parents_look());
    PART(a_child_asks_for_statistics());
    for (int i = 0; i < 5; i++)
        PART(a_childs_threads_come_at_once());
    PART(read_parcels_hold_no_memory());
    PART(threads_read("shadow=off,stream_bytes=0,readahead_bytes=2000000,part_bytes=64k", 0, EAGER, 0));
    PART(threads_read("shadow=off,stream_bytes=0,readahead_bytes=2000000,part_bytes=64k", 0, LAZY, 0));
    PART(threads_read("shadow=off,stream_bytes=0,readahead_bytes=4M,part_bytes=512k", 4, EAGER, 0));
    PART(threads_read("shadow=off,stream_bytes=1M,readahead_bytes=2000000,private_budget_bytes=1M", 4, LAZY, 0));
    return 0;
}
