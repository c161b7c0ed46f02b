/* Files that are opened ahead: see expected.h. */
#include "expected.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/interrupt.h"
#include "base/now.h"
#include "base/table.h"
#include "base/thread.h"
#include "base/waits.h"
#include "origin/origin.h"
#include "watch/trace.h"

/* An opening that is asked for later than this is too old: its caller wants the origin's present version. */
#define STALE_NS UINT64_C(30000000000)

/* A guess that nobody comes for is closed after so long: while it is open, other processes that read the file count
 * this one as a reader. A program that needs longer for a file gains little by it. Changed by tests alone. */
uint64_t xh_expected_guess_ns = UINT64_C(60000000000);

struct expected {
    /* Constant. */
    char *url, reader[XH_READER_BYTES];
    char *object; /* see xh_origin_object; NULL without memory */
    struct xh_options opt;
    const struct xh_expected_how *how;

    /* Under the lock. */
    struct expected *next;
    enum { NOTED, OPENING, OPEN, FAILED } state;
    int wanted;   /* the program's opening waits for it, and takes it out of the list */
    int dropped;  /* it is out of the list, and its thread frees it */
    int kept;     /* |file| is as the program left it */
    int doubted;  /* its row is being written: the origin is asked again before it is handed over */
    struct xh_file *file; /* its thread's while OPENING */
    struct xh_err err;
    uint64_t asked_ns, opened_ns; /* when the origin was last asked for it, and when the answer was there */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t news;
    struct expected *first;
    struct expected *inherited; /* a fork's child has these open and does not want them */
    uint64_t wanted_ns; /* when the program last opened one of them */
    int closing; /* a thread is there that closes guesses in time */
    _Atomic uint64_t outdated_ns; /* when this process last wrote a file at a server; relaxed */
    _Atomic int inherits; /* there is something |inherited|; relaxed, as the next two */
    _Atomic unsigned n; /* changed under the lock, read without it as a hint */
    _Atomic unsigned threads;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER}; /* |news| by watch_forks, before anything is noted */

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&all.lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&all.lock);
}

/* The child expects nothing. What the parent's threads are opening is leaked: they are not here. */
static void in_child(void)
{
    struct expected *e, *next;
    pthread_mutex_init(&all.lock, NULL);
    xh_cond_init(&all.news);
    LL_FOREACH_SAFE (all.first, e, next)
        if (e->state == OPEN && !e->wanted)
            LL_PREPEND(all.inherited, e);
    all.first = NULL;
    all.closing = 0;
    atomic_store_explicit(&all.n, 0, memory_order_relaxed);
    atomic_store_explicit(&all.threads, 0, memory_order_relaxed);
    atomic_store_explicit(&all.inherits, all.inherited != NULL, memory_order_relaxed);
}

static void watch_forks(void)
{
    xh_cond_init(&all.news);
    pthread_atfork(before_fork, in_parent, in_child);
}

static void expected_free(struct expected *e)
{
    if (e->file)
        e->how->close(e->file);
    xh_env_release(&e->opt);
    free(e->object);
    free(e->url);
    free(e);
}

/* Closes what this process inherited: it would count as a reader of these files for as long as it lives. */
static void close_inherited(void)
{
    struct expected *e, *next;
    if (!atomic_exchange_explicit(&all.inherits, 0, memory_order_relaxed))
        return;
    pthread_mutex_lock(&all.lock);
    struct expected *gone = all.inherited;
    all.inherited = NULL;
    pthread_mutex_unlock(&all.lock);
    LL_FOREACH_SAFE (gone, e, next)
        expected_free(e);
}

/* Takes |e| out of the list. The lock is held. */
static void unlist(struct expected *e)
{
    LL_DELETE(all.first, e);
    atomic_fetch_sub_explicit(&all.n, 1, memory_order_relaxed);
}

/* Drops those that |are| so, but for what somebody waits for. Waits for no opening. */
static void drop(int (*are)(const struct expected *, const void *), const void *so)
{
    struct expected *gone = NULL, *e, *next;
    pthread_mutex_lock(&all.lock);
    LL_FOREACH_SAFE (all.first, e, next) {
        if (e->wanted || !are(e, so))
            continue;
        unlist(e);
        e->dropped = 1;
        if (e->state != OPENING)
            LL_PREPEND(gone, e);
    }
    pthread_mutex_unlock(&all.lock);
    LL_FOREACH_SAFE (gone, e, next)
        expected_free(e);
}

/* When the guess |e| is to be closed. */
static uint64_t due_ns(const struct expected *e)
{
    return e->opened_ns + xh_expected_guess_ns;
}

static int is_unclaimed(const struct expected *e)
{
    return e->opt.guessed && e->state == OPEN && !e->wanted;
}

static int is_due(const struct expected *e, const void *now)
{
    return is_unclaimed(e) && due_ns(e) <= *(const uint64_t *)now;
}

/* Closes the guesses that nobody comes for, each in its time, as long as there are any. One thread at a time does. */
static void close_in_time(void)
{
    uint64_t next = 0;
    pthread_mutex_lock(&all.lock);
    for (int ours = !all.closing; ours && next != UINT64_MAX;) {
        struct expected *e;
        uint64_t now = xh_now_ns();
        next = UINT64_MAX;
        LL_FOREACH (all.first, e)
            if (is_unclaimed(e) && due_ns(e) < next)
                next = due_ns(e);
        all.closing = next != UINT64_MAX;
        if (next <= now) {
            pthread_mutex_unlock(&all.lock);
            drop(is_due, &now);
            pthread_mutex_lock(&all.lock);
        } else if (all.closing) {
            xh_cond_wait_until(&all.news, &all.lock, next);
        }
    }
    pthread_mutex_unlock(&all.lock);
}

static void *run(void *ctx)
{
    struct expected *e = ctx;
    struct xh_file *file = e->file; /* what was opened before, which may be another version by now */
    struct xh_err err = {0};
    int rc = 0, is_guess = e->opt.guessed; /* |e| may be gone at the end */
    uint64_t asked_ns = xh_now_ns();
    if (file && !e->how->is_current(file)) {
        e->how->close(file);
        file = NULL;
    }
    int anew = !file;
    if (anew)
        rc = e->how->open(e->url, &e->opt, &file, &err);
    pthread_mutex_lock(&all.lock);
    e->kept &= !anew;
    e->asked_ns = asked_ns;
    e->file = file;
    e->err = err;
    e->state = rc ? FAILED : OPEN;
    e->opened_ns = xh_now_ns();
    int ours = e->dropped || (rc && !e->wanted);
    if (ours && !e->dropped)
        unlist(e);
    pthread_cond_broadcast(&all.news);
    pthread_mutex_unlock(&all.lock);
    if (ours)
        expected_free(e);
    atomic_fetch_sub_explicit(&all.threads, 1, memory_order_relaxed);
    if (is_guess)
        close_in_time();
    return NULL;
}

static int start(struct expected *e)
{
    atomic_fetch_add_explicit(&all.threads, 1, memory_order_relaxed);
    int rc = xh_thread_start(NULL, run, e);
    if (rc)
        atomic_fetch_sub_explicit(&all.threads, 1, memory_order_relaxed);
    return rc;
}

static struct expected *find(const char *url)
{
    struct expected *e;
    LL_FOREACH (all.first, e)
        if (strcmp(e->url, url) == 0)
            break;
    return e;
}

/* Makes room in the list for |more|. The oldest entry of another family gives way if it was only noted, or kept, any if
 * it was opened too long ago: the program may never come to it. What was guessed gives way to what was not. Returns
 * what was taken out of the list; |more|: there is no room. The lock is held. */
static struct expected *make_room(struct expected *more)
{
    struct expected *e;
    uint64_t now = xh_now_ns(), family = more->opt.namer.family;
    if (atomic_load_explicit(&all.n, memory_order_relaxed) < XH_EXPECTED_MOST)
        return NULL;
    LL_FOREACH (all.first, e)
        if (!e->wanted && ((e->opt.namer.family != family && (e->state == NOTED || (e->state == OPEN && e->kept))) ||
                           (e->state == OPEN && now - e->opened_ns >= STALE_NS) ||
                           (e->state == OPEN && e->opt.guessed && !more->opt.guessed))) {
            unlist(e);
            return e;
        }
    return more;
}

uint64_t xh_expected_number(void)
{
    static _Atomic uint64_t number;
    return atomic_fetch_add_explicit(&number, 1, memory_order_relaxed) + 1;
}

/* Returns what is not in the list yet, or NULL: nothing is expected with these options, or there is no memory. */
static struct expected *expected_new(const char *url, const struct xh_options *o, const struct xh_expected_how *how)
{
    pthread_once(&once, watch_forks);
    if (!o->readahead || xh_origin_ready(o, XH_IGNORED)) /* as the thread that opens is none of the program's */
        return NULL;
    struct expected *e = calloc(1, sizeof *e);
    if (!e || !(e->url = strdup(url))) {
        free(e);
        return NULL;
    }
    e->opt = *o;
    e->how = how;
    e->opt.asked_as = xh_expected_number();
    xh_env_hold(&e->opt);
    /* A reader that cannot be told from another might be handed what it may not read. */
    if (!e->opt.env || !xh_origin_reader(url, &e->opt, e->reader)) {
        expected_free(e);
        return NULL;
    }
    e->object = xh_origin_object(url, &e->opt);
    return e;
}

/* Puts |e| into the list, unless that is |refused| or there is no room. Returns what is to be freed then, which may be
 * |e|; or NULL. The lock is held. */
static struct expected *enlist(struct expected *e, int refused)
{
    struct expected *gone = refused ? e : make_room(e);
    if (gone != e) {
        LL_APPEND(all.first, e);
        atomic_fetch_add_explicit(&all.n, 1, memory_order_relaxed);
    }
    return gone;
}

int xh_expected_note(const char *url, const struct xh_options *o, const struct xh_expected_how *how)
{
    struct expected *e = expected_new(url, o, how);
    if (!e)
        return 0;
    pthread_mutex_lock(&all.lock);
    int is_there = find(url) != NULL;
    struct expected *gone = enlist(e, is_there);
    int noted = gone != e;
    pthread_mutex_unlock(&all.lock);
    if (gone)
        expected_free(gone);
    return noted || is_there;
}

int xh_expected_is(const char *url)
{
    if (!atomic_load_explicit(&all.n, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&all.lock);
    int is = find(url) != NULL;
    pthread_mutex_unlock(&all.lock);
    return is;
}

int xh_expected_are_announced(void)
{
    struct expected *e;
    if (!atomic_load_explicit(&all.n, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&all.lock);
    LL_FOREACH (all.first, e)
        if (!e->opt.namer.by_file && !e->opt.guessed && !e->kept)
            break;
    pthread_mutex_unlock(&all.lock);
    return e != NULL;
}

void xh_expected_doubt(uint64_t family)
{
    struct expected *e;
    if (!atomic_load_explicit(&all.n, memory_order_relaxed))
        return;
    pthread_mutex_lock(&all.lock);
    LL_FOREACH (all.first, e)
        if (e->opt.guessed && e->opt.namer.family == family)
            e->doubted = 1;
    pthread_mutex_unlock(&all.lock);
}

/* The lock is held. */
static void open_some(uint64_t family, size_t n, unsigned beside)
{
    for (struct expected *e = all.first; e && n; e = e->next) {
        if (e->opt.namer.family != family)
            continue;
        n--;
        if (e->state != NOTED)
            continue;
        e->state = OPENING;
        e->opt.beside = beside;
        if (start(e)) /* under the lock: else it might be gone before it began */
            e->state = NOTED;
    }
}

void xh_expected_open(uint64_t family, size_t n)
{
    if (!atomic_load_explicit(&all.n, memory_order_relaxed))
        return;
    pthread_mutex_lock(&all.lock);
    open_some(family, n, 0);
    pthread_mutex_unlock(&all.lock);
}

void xh_expected_open_beside(uint64_t family, unsigned others)
{
    struct expected *e;
    pthread_mutex_lock(&all.lock);
    LL_FOREACH (all.first, e)
        others += e->opt.namer.family == family;
    open_some(family, XH_EXPECTED_MOST, others);
    pthread_mutex_unlock(&all.lock);
}

/* 1 when |a| and |b| name the same options, for a URL that the same file names. */
static int same_options(const struct xh_options *a, const struct xh_options *b)
{
    const struct xh_namer *x = &a->namer, *y = &b->namer;
    for (size_t i = 0; i < XH_OPT_COUNT; i++)
        if (!xh_options_agree(&xh_opt_rows[i], a, b))
            return 0;
    return x->by_file == y->by_file && x->remote == y->remote && x->family == y->family &&
           strcmp(x->server, y->server) == 0 && strcmp(x->parent, y->parent) == 0 && a->may_lack == b->may_lack &&
           a->sums == b->sums && a->is_kept == b->is_kept && a->is_written == b->is_written;
}

/* 1 for a guess whose file may be one that is being written, or is about to be. The lock is held. */
static int may_change(const struct expected *e)
{
    return e->opt.guessed && e->state == OPEN && (e->doubted || !e->how->is_settled(e->file));
}

static uint64_t fresh_ns(const struct expected *e)
{
    if (may_change(e))
        return 0;
    uint64_t ns = XH_FRESH_TIMES * (e->opened_ns - e->asked_ns);
    ns = ns > XH_FRESH_LEAST_NS ? ns : XH_FRESH_LEAST_NS;
    return ns < STALE_NS ? ns : STALE_NS;
}

/* |e| is wanted. If it is no longer fresh, the origin is asked for it again, and side by side for as many of those that
 * come next as the program will want before that answer is old as well. The lock is held. */
static void renew(struct expected *e)
{
    uint64_t now = xh_now_ns(), since = now - all.wanted_ns, most = since ? fresh_ns(e) / since : XH_EXPECTED_MOST;
    const struct expected *first = e;
    all.wanted_ns = now;
    if (e->state != OPEN || now - e->opened_ns < fresh_ns(e))
        return;
    for (uint64_t n = 0; e && n <= most; e = e->next, n++) {
        if (e->opt.namer.family != first->opt.namer.family || e->state != OPEN || (e->wanted && e != first) ||
            now - e->opened_ns < fresh_ns(e))
            continue;
        e->state = OPENING;
        if (start(e)) /* without a thread it is as old as it is */
            e->state = OPEN;
    }
}

/* Waits until |e|, which is wanted, is open or has failed. Returns 1 when that was interrupted. The lock is held; lets
 * go of it meanwhile. */
static int wait_for(struct expected *e)
{
    struct xh_wait w = {0};
    while (e->state == OPENING)
        if (xh_interrupt_wait(&w, &all.news, &all.lock, XH_NO_END))
            return e->state == OPENING;
    return 0;
}

static int is_family_s(const struct expected *e, const void *family)
{
    return e->opt.namer.family == *(const uint64_t *)family;
}

/* 1 for what is open of |object|, NULL: of any, or is being opened. */
static int is_opened_of(const struct expected *e, const void *object)
{
    return e->state != NOTED && !(e->object && object && strcmp(e->object, object) != 0);
}

struct besides {
    uint64_t family;
    const char *url;
};

static int is_kept_besides(const struct expected *e, const void *besides)
{
    const struct besides *b = besides;
    return e->kept && e->opt.namer.family == b->family && strcmp(e->url, b->url) != 0;
}

static int is_in_the_way(const struct expected *e, const void *kept)
{
    const struct expected *k = kept;
    return (e->kept && e->opt.namer.family == k->opt.namer.family) ||
           (e->state != OPENING && strcmp(e->url, k->url) == 0);
}

int xh_expected_keep(struct xh_file *f, const char *url, const struct xh_options *o, const char *reader,
                     const struct xh_expected_how *how, uint64_t asked_ns, uint64_t opened_ns)
{
    struct expected *e = expected_new(url, o, how);
    if (!e)
        return 0;
    drop(is_in_the_way, e);
    pthread_mutex_lock(&all.lock);
    int is_other = strcmp(e->reader, reader) != 0 ||
                   asked_ns <= atomic_load_explicit(&all.outdated_ns, memory_order_relaxed);
    struct expected *gone = enlist(e, is_other || find(url));
    int kept = gone != e;
    if (kept) {
        e->file = f;
        e->kept = 1;
        e->state = OPEN;
        e->asked_ns = asked_ns;
        e->opened_ns = opened_ns;
    }
    pthread_mutex_unlock(&all.lock);
    if (gone)
        expected_free(gone);
    return kept;
}

int xh_expected_take(const char *url, const struct xh_options *o, struct xh_file **out, struct xh_handed *how,
                     struct xh_err *err)
{
    char reader[XH_READER_BYTES];
    *how = (struct xh_handed){0};
    close_inherited();
    if (!atomic_load_explicit(&all.n, memory_order_relaxed))
        return 0;
    if (!o->may_lack) /* the program's */
        drop(is_kept_besides, &(struct besides){o->namer.family, url});
    uint64_t began = xh_now_ns();
    pthread_mutex_lock(&all.lock);
    struct expected *e = find(url);
    pthread_mutex_unlock(&all.lock);
    if (!e || !xh_origin_reader(url, o, reader)) /* that reads files */
        return 0;
    pthread_mutex_lock(&all.lock);
    e = find(url);
    if (!e || e->wanted || !same_options(&e->opt, o) || strcmp(e->reader, reader) != 0 ||
        !xh_env_is_same(e->opt.env, o->env)) {
        pthread_mutex_unlock(&all.lock);
        return 0;
    }
    e->wanted = 1;
    renew(e);
    int interrupted = wait_for(e);
    if (!interrupted && may_change(e) && e->asked_ns < began) { /* it was asked for before the program came */
        renew(e);
        interrupted = wait_for(e);
    }
    /* It may be there by now; or there was no thread to ask for it again. */
    int is_old = (may_change(e) || (e->opt.guessed && e->state == FAILED)) && e->asked_ns < began;
    if (interrupted) {
        e->wanted = 0;
        pthread_mutex_unlock(&all.lock);
        return xh_interrupt_error(err, xh_shown(url, 512));
    }
    unlist(e);
    pthread_mutex_unlock(&all.lock);
    if (e->state == NOTED || is_old) {
        expected_free(e);
        return 0;
    }
    uint64_t now = xh_now_ns();
    int rc = e->state == FAILED ? e->err.code : now - e->opened_ns < STALE_NS;
    *how = (struct xh_handed){now - began, e->asked_ns, e->opened_ns, e->kept};
    if (rc < 0 && err)
        *err = e->err;
    if (rc > 0) {
        *out = e->file;
        e->file = NULL;
    }
    xh_trace(XH_T_READ, "expected", "taken=%d kept=%d waited_us=%llu", rc, e->kept,
             (unsigned long long)(how->waited_ns / 1000));
    expected_free(e);
    return rc;
}

void xh_expected_forget(uint64_t family)
{
    drop(is_family_s, &family);
}

void xh_expected_outdated(const char *object)
{
    /* What the program has open now is not in the list, and may be of this object. */
    atomic_store_explicit(&all.outdated_ns, xh_now_ns(), memory_order_relaxed);
    if (atomic_load_explicit(&all.n, memory_order_relaxed))
        drop(is_opened_of, object);
}

unsigned xh_expected_count(void)
{
    return atomic_load_explicit(&all.n, memory_order_relaxed);
}

unsigned xh_expected_threads(void)
{
    return atomic_load_explicit(&all.threads, memory_order_relaxed);
}
