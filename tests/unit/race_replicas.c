/* Many threads that submit, promote, cancel, withdraw, fork and close over several sites made here, which fail, fall
 * silent, come back and change. A plain program, so that ThreadSanitizer can build it. Prints what does not hold and
 * aborts. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replicas/health.h"
#include "replicas/replicas.h"

#define OBJECT_BYTES (50u * 1000 * 1000 + 77)
#define SITES 3
#define THREADS 4
#define AT_ONCE 12

#define CHECK(what)                                                                    \
    do {                                                                               \
        if (!(what)) {                                                                 \
            fprintf(stderr, "race_replicas.c:%d: does not hold: %s\n", __LINE__, #what); \
            abort();                                                                   \
        }                                                                              \
    } while (0)

static uint8_t byte_at(uint64_t off)
{
    return (uint8_t)((off * 2654435761u) >> 13 ^ off >> 20);
}

/* ---- origins made here: one for each site, whose name is the last digit of its server ------------ */

enum mood { WELL, FAILS, SILENT, CHANGED, OTHER };

static _Atomic enum mood mood[SITES];
static _Atomic unsigned served[SITES];

struct job {
    struct job *next;
    struct xh_transfer *t;
    struct xh_origin *o;
    int queued, cancelled;
};

struct xh_origin {
    unsigned site;
    struct job *jobs; /* under the engine's lock */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t news;
    pid_t pid;
} engine = {.lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};
static struct xh_origin *origins[64];

/* Returns the failure's code, 0: all was delivered. */
static int serve(struct job *j, unsigned *seed)
{
    uint8_t piece[9000];
    unsigned site = j->o->site;
    int fails = mood[site] == FAILS && rand_r(seed) % 2;
    if (mood[site] == CHANGED)
        return XH_E_CHANGED;
    for (size_t i = 0; i < j->t->nranges; i++)
        for (struct xh_range r = j->t->ranges[i]; r.len;) {
            size_t n = 1 + (size_t)rand_r(seed) % sizeof piece;
            n = n < r.len ? n : r.len;
            for (;;) {
                pthread_mutex_lock(&engine.lock);
                int cancelled = j->cancelled;
                pthread_mutex_unlock(&engine.lock);
                if (cancelled)
                    return XH_E_CANCELLED;
                if (mood[site] != SILENT)
                    break;
                usleep(1000);
            }
            for (size_t k = 0; k < n; k++)
                piece[k] = byte_at(r.off + k) ^ (mood[site] == OTHER);
            if (fails && rand_r(seed) % 8 == 0)
                return XH_E_NET;
            j->t->bytes(j->t, r.off, piece, n);
            r = (struct xh_range){r.off + n, r.len - n};
        }
    return fails ? XH_E_NET : 0;
}

static struct job *next_job(unsigned site)
{
    for (int demand = 1; demand >= 0; demand--)
        for (size_t i = 0; i < 64; i++)
            for (struct job *j = origins[i] && origins[i]->site == site ? origins[i]->jobs : NULL; j; j = j->next)
                if (j->queued && (!demand || !j->t->speculative || j->cancelled))
                    return j;
    return NULL;
}

static void *engine_main(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg, site = seed % SITES; /* a silent site keeps its own threads alone */
    pthread_mutex_lock(&engine.lock);
    for (;;) {
        struct job *j = next_job(site);
        if (!j) {
            pthread_cond_wait(&engine.news, &engine.lock);
            continue;
        }
        j->queued = 0;
        int code = j->cancelled ? XH_E_CANCELLED : 0;
        pthread_mutex_unlock(&engine.lock);
        struct xh_err err = {0};
        served[j->o->site]++;
        if (code == 0)
            code = serve(j, &seed);
        xh_err_set(&err, code, 0, "made to be so");
        j->t->done(j->t, code ? &err : NULL);
        pthread_mutex_lock(&engine.lock);
        struct job **at = &j->o->jobs;
        while (*at != j)
            at = &(*at)->next;
        *at = j->next;
        free(j);
        pthread_cond_broadcast(&engine.news);
    }
    return NULL;
}

/* Lock held. */
static void engine_start(void)
{
    if (engine.pid == getpid())
        return;
    engine.pid = getpid();
    for (uintptr_t i = 0; i < 3 * SITES; i++) {
        pthread_t t;
        CHECK(pthread_create(&t, NULL, engine_main, (void *)(i + 1)) == 0);
        pthread_detach(t);
    }
}

static void in_child(void)
{
    pthread_mutex_init(&engine.lock, NULL);
    pthread_cond_init(&engine.news, NULL);
    for (size_t i = 0; i < 64; i++)
        if (origins[i])
            origins[i]->jobs = NULL; /* the parent's */
}

int xh_origin_open(const char *url, const struct xh_options *o, const char *hint, int vouched, struct xh_counters *c,
                   const struct xh_patience *patience, struct xh_origin **out, struct xh_origin_head *head,
                   struct xh_err *err)
{
    (void)o, (void)hint, (void)vouched, (void)c, (void)head;
    unsigned site = (unsigned)(url[strlen("https://s")] - '0');
    for (int i = 0; mood[site] == SILENT && i < 300; i++) {
        usleep(1000);
        if (patience && patience->ends(patience->ctx))
            return xh_err_set(err, XH_E_CANCELLED, 0, "left");
    }
    if (mood[site] == FAILS || mood[site] == SILENT)
        return xh_err_set(err, XH_E_NET, 0, "made to fail");
    struct xh_origin *made = calloc(1, sizeof *made);
    made->site = site;
    pthread_mutex_lock(&engine.lock);
    engine_start();
    size_t i = 0;
    while (origins[i])
        i++;
    origins[i] = made;
    pthread_mutex_unlock(&engine.lock);
    *out = made;
    return 0;
}

int xh_origin_open_told(const char *url, const struct xh_options *o, const char *hint, struct xh_counters *c,
                        struct xh_origin **out, struct xh_err *err)
{
    return xh_origin_open(url, o, hint, 0, c, NULL, out, NULL, err);
}

void xh_origin_get_info(struct xh_origin *o, struct xh_origin_info *out)
{
    static const char *const validators[SITES] = {"etag:\"a\";size:1", "etag:\"a\";size:1", "size:1"};
    CHECK(o->site < SITES); /* else it was freed */
    *out = (struct xh_origin_info){.size = OBJECT_BYTES, .validator = validators[o->site], .url_shown = "x",
                                   .max_ranges = 50, .max_range_header = 3900, .flight_bytes = 1u << 20,
                                   .connections = 2, .scattered = 2,
                                   .streams = 2, .rtt_ns = 1000000, .in_vain = 1, .changed = 1};
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
    (void)o;
    return (size_t)snprintf(buf, size, "known");
}

int xh_origin_submit(struct xh_origin *o, struct xh_transfer *const *ts, size_t n, struct xh_err *err)
{
    (void)err;
    pthread_mutex_lock(&engine.lock);
    engine_start();
    for (size_t i = 0; i < n; i++) {
        struct job *j = calloc(1, sizeof *j);
        *j = (struct job){o->jobs, ts[i], o, 1, 0};
        ts[i]->origin_private = j;
        o->jobs = j;
    }
    pthread_cond_broadcast(&engine.news);
    pthread_mutex_unlock(&engine.lock);
    return 0;
}

void xh_origin_cancel(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o;
    pthread_mutex_lock(&engine.lock);
    ((struct job *)t->origin_private)->cancelled = 1;
    pthread_cond_broadcast(&engine.news);
    pthread_mutex_unlock(&engine.lock);
}

int xh_origin_withdraw(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o;
    pthread_mutex_lock(&engine.lock);
    struct job *j = t->origin_private;
    int gone = j->queued && t->speculative;
    j->cancelled |= gone;
    pthread_cond_broadcast(&engine.news);
    pthread_mutex_unlock(&engine.lock);
    return gone;
}

void xh_origin_promote(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o;
    pthread_mutex_lock(&engine.lock);
    t->speculative = 0;
    pthread_mutex_unlock(&engine.lock);
}

void xh_origin_resume(struct xh_origin *o, struct xh_transfer *t)
{
    (void)o, (void)t;
}

void xh_origin_stop(struct xh_origin *o)
{
    pthread_mutex_lock(&engine.lock);
    for (struct job *j = o->jobs; j; j = j->next)
        j->cancelled = 1;
    pthread_cond_broadcast(&engine.news);
    while (o->jobs)
        pthread_cond_wait(&engine.news, &engine.lock);
    pthread_mutex_unlock(&engine.lock);
}

void xh_origin_close(struct xh_origin *o)
{
    if (!o)
        return;
    xh_origin_stop(o);
    pthread_mutex_lock(&engine.lock);
    size_t i = 0;
    while (origins[i] != o)
        i++;
    origins[i] = NULL;
    pthread_mutex_unlock(&engine.lock);
    o->site = SITES;
    free(o);
}

/* ---- users --------------------------------------------------------------------------------------- */

struct user;

struct wish {
    struct xh_transfer t;
    struct xh_range ranges[5];
    uint64_t next[5]; /* the byte that comes next */
    struct user *user;
    int flying, cancelled; /* under the user's lock */
};

struct user {
    pthread_mutex_t lock;
    pthread_cond_t landed;
    struct xh_replicas *r;
    struct wish wish[AT_ONCE];
    unsigned seed, flying, good, failed;
};

static _Atomic int may_fail; /* transfers may end with an error that nobody asked for */

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    struct wish *w = t->ctx;
    size_t i = 0;
    while (i + 1 < t->nranges && off >= t->ranges[i + 1].off)
        i++;
    CHECK(w->next[i] == off && off + len <= t->ranges[i].off + t->ranges[i].len);
    w->next[i] += len;
    for (size_t k = 0; k < len; k += 97)
        CHECK(data[k] == byte_at(off + k));
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct wish *w = t->ctx;
    struct user *u = w->user;
    struct xh_origin_info info;
    pthread_mutex_lock(&u->lock);
    CHECK(w->flying);
    pthread_mutex_unlock(&u->lock);
    xh_replicas_get_info(u->r, &info); /* as who goes on from here does; also while all is being closed */
    CHECK(info.size == OBJECT_BYTES);
    pthread_mutex_lock(&u->lock);
    for (size_t i = 0; !err && i < t->nranges; i++)
        CHECK(w->next[i] == t->ranges[i].off + t->ranges[i].len);
    if (err && !w->cancelled && !may_fail)
        fprintf(stderr, "%s: %s\n", xh_err_name(err->code), err->text);
    CHECK(!err || w->cancelled || may_fail);
    u->good += !err;
    u->failed += err && !w->cancelled;
    w->flying = 0;
    u->flying--;
    pthread_cond_signal(&u->landed);
    pthread_mutex_unlock(&u->lock);
}

/* Lock of the user held; lets go of it meanwhile. */
static void begin(struct user *u, struct wish *w)
{
    size_t n = 1 + (size_t)rand_r(&u->seed) % 5;
    uint64_t at = (uint64_t)rand_r(&u->seed) % (OBJECT_BYTES - 2000000);
    for (size_t i = 0; i < n; i++) {
        w->ranges[i] = (struct xh_range){at, 1 + (uint64_t)rand_r(&u->seed) % (n == 1 ? 600000 : 60000)};
        w->next[i] = at;
        at += w->ranges[i].len + 1 + (uint64_t)rand_r(&u->seed) % 5000;
    }
    w->t = (struct xh_transfer){.ranges = w->ranges, .nranges = n, .ctx = w, .bytes = on_bytes, .done = on_done,
                                .speculative = rand_r(&u->seed) % 2};
    w->user = u;
    w->cancelled = 0;
    w->flying = 1;
    u->flying++;
    struct xh_transfer *t = &w->t;
    pthread_mutex_unlock(&u->lock);
    CHECK(xh_replicas_submit(u->r, &t, 1, NULL) == 0);
    pthread_mutex_lock(&u->lock);
}

static void use(struct user *u, int times)
{
    struct xh_origin_info info;
    pthread_mutex_lock(&u->lock);
    for (int k = 0; k < times; k++) {
        struct wish *w = &u->wish[rand_r(&u->seed) % AT_ONCE];
        if (!w->flying) {
            begin(u, w);
            continue;
        }
        switch (rand_r(&u->seed) % 8) { /* the user's lock is held, as the stage's is: done() waits for it */
        case 0:
            w->cancelled = 1;
            xh_replicas_cancel(u->r, &w->t);
            break;
        case 1:
            w->cancelled |= xh_replicas_withdraw(u->r, &w->t);
            break;
        case 2:
            xh_replicas_get_info(u->r, &info);
            xh_replicas_are_several(u->r);
            CHECK(info.size == OBJECT_BYTES);
            break;
        default:
            xh_replicas_promote(u->r, &w->t);
            if (u->flying > AT_ONCE / 2)
                pthread_cond_wait(&u->landed, &u->lock);
        }
    }
    pthread_mutex_unlock(&u->lock);
}

/* Waits until all is there: speculation too comes without being asked for. */
static void land(struct user *u)
{
    pthread_mutex_lock(&u->lock);
    while (u->flying)
        pthread_cond_wait(&u->landed, &u->lock);
    pthread_mutex_unlock(&u->lock);
}

static void *user_main(void *arg)
{
    use(arg, 400);
    return NULL;
}

static struct xh_options options;
static struct xh_counters counters;

static struct xh_replicas *open_all(void)
{
    struct xh_origin_head head = {0};
    struct xh_replicas *r;
    struct xh_err err = {0};
    for (int i = 0; i < SITES; i++) /* what was before is forgotten: the first one that is well is the main one */
        xh_health_well((const char *[]){"https://s0:443", "https://s1:443", "https://s2:443"}[i]);
    CHECK(xh_replicas_open("https://s0/x", &options, NULL, 0, &counters, &r, &head, &err) == 0);
    return r;
}

static void users_init(struct user *u, struct xh_replicas *r)
{
    static unsigned seed = 1;
    memset(u, 0, THREADS * sizeof *u);
    for (int i = 0; i < THREADS; i++) {
        pthread_mutex_init(&u[i].lock, NULL);
        pthread_cond_init(&u[i].landed, NULL);
        u[i].r = r;
        u[i].seed = seed++;
    }
}

/* Waits until as many sites as are well are proved: the numbers of all together tell. */
static void wait_for_sites(struct xh_replicas *r)
{
    struct xh_origin_info info;
    unsigned well = 0, times = 0;
    for (int i = 0; i < SITES; i++)
        well += mood[i] == WELL;
    do {
        usleep(1000);
        xh_replicas_get_info(r, &info);
    } while (info.scattered < 2 * well && ++times < 20000);
    CHECK(info.in_vain && info.changed); /* also where several sites are live */
}

/* Reads while the sites' moods are |begin|, then |then|; closes with or without waiting. |proved|: begins when all
 * sites that are well are proved. */
static unsigned read_while(const enum mood begin[SITES], const enum mood then[SITES], int waits, int proved)
{
    static struct user u[THREADS];
    pthread_t t[THREADS];
    unsigned good = 0;
    for (int i = 0; i < SITES; i++)
        mood[i] = begin[i];
    struct xh_replicas *r = open_all();
    users_init(u, r);
    if (proved)
        wait_for_sites(r);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, user_main, &u[i]) == 0);
    wait_for_sites(r);
    for (int i = 0; i < SITES; i++)
        mood[i] = then[i];
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS && waits; i++)
        land(&u[i]);
    for (int i = 0; i < THREADS && !waits; i++)
        for (int k = 0; k < AT_ONCE; k++) {
            pthread_mutex_lock(&u[i].lock);
            u[i].wish[k].cancelled = 1; /* by the end of the file */
            pthread_mutex_unlock(&u[i].lock);
        }
    xh_replicas_close(r);
    for (int i = 0; i < THREADS; i++) {
        CHECK(u[i].flying == 0);
        good += u[i].good;
    }
    for (int i = 0; i < SITES; i++)
        mood[i] = WELL;
    return good;
}

static void a_child_reads_by_itself(void)
{
    static struct user u[THREADS];
    struct xh_replicas *r = open_all();
    users_init(u, r);
    use(&u[0], 60);
    pid_t child = fork();
    if (child == 0) {
        xh_replicas_after_fork(r);
        users_init(u, r);
        use(&u[0], 60);
        land(&u[0]);
        CHECK(u[0].good > 0);
        xh_replicas_close(r);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    land(&u[0]);
    xh_replicas_close(r);
}

int main(void)
{
    static const enum mood well[SITES] = {WELL}, one_fails[SITES] = {WELL, FAILS},
    own_fails[SITES] = {FAILS, WELL, WELL},
                           silent[SITES] = {WELL, SILENT, WELL}, own_silent[SITES] = {SILENT, WELL, WELL},
                           changed[SITES] = {WELL, CHANGED, WELL}, own_changed[SITES] = {CHANGED, WELL, WELL},
                           other[SITES] = {WELL, WELL, OTHER};
    alarm(100); /* a hang is a failure */
    pthread_atfork(NULL, NULL, in_child);
    xh_options_defaults(&options);
    snprintf(options.endpoints, sizeof options.endpoints, "https://s0,https://s1,https://s2");

    CHECK(read_while(well, well, 1, 1) > 100);
    for (int i = 0; i < SITES; i++)
        CHECK(served[i] > 0);
    CHECK(read_while(other, other, 1, 0) > 100); /* is never proved, or a CHECK in on_bytes() strikes */
    CHECK(read_while(well, one_fails, 1, 0) > 100);
    CHECK(read_while(well, own_fails, 1, 0) > 100);
    CHECK(read_while(well, silent, 1, 0) > 100);
    CHECK(read_while(silent, well, 0, 0) > 100);
    CHECK(read_while(own_silent, well, 1, 0) > 100); /* opened elsewhere */
    CHECK(read_while(well, changed, 1, 0) > 100);
    may_fail = 1;
    read_while(well, own_changed, 1, 0);
    read_while(well, own_silent, 0, 0);
    may_fail = 0;
    CHECK(read_while(well, well, 0, 0) > 100);
    a_child_reads_by_itself();
    return 0;
}
