/* Opening one file at its sites, hints, closing: see replicas.h. */
#include "replicas.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/hash.h"
#include "base/now.h"
#include "base/process.h"
#include "watch/trace.h"
#include "base/waits.h"
#include "health.h"
#include "keeper.h"
#include "routed.h"

/* Longest time for a server to open the file where there are other sites. */
#define OPEN_PATIENCE_NS 3000000000u
/* The room that the word for the site takes in a hint, with a NUL. */
#define SITE_WORD_BYTES sizeof "site=0123456789abcdef "

static void start_locks(struct xh_replicas *r)
{
    pthread_mutex_init(&r->lock, NULL);
    xh_cond_init(&r->news);
    TAILQ_INIT(&r->queue[0]);
    TAILQ_INIT(&r->queue[1]);
    TAILQ_INIT(&r->bound);
    TAILQ_INIT(&r->told);
    atomic_store_explicit(&r->queued, 0, memory_order_relaxed);
}

void xh_replicas_after_fork(struct xh_replicas *r)
{
    if (r->process == xh_process())
        return;
    r->process = xh_process();
    start_locks(r);
    r->kept = 0; /* the parent's keeper; the child's starts with the first transfer */
    for (size_t i = 0; i < r->n; i++) {
        struct xh_site *s = &r->site[i];
        s->legs = 0;
        atomic_store_explicit(&s->owed, 0, memory_order_relaxed);
    }
    r->samples = (struct xh_samples){0};
}

/* ---- opening */

/* Returns the site that the untrusted |*hint| came from, and moves |*hint| to that site's own part. Returns r->n
 * when the site is not in the list. */
static size_t site_of_hint(const struct xh_replicas *r, const char **hint)
{
    uint64_t hash;
    int len = 0;
    size_t i = 0;
    if (!*hint || sscanf(*hint, "site=%16" SCNx64 " %n", &hash, &len) != 1 || len == 0)
        return 0;
    *hint += len;
    while (i < r->n && xh_hash_text(XH_HASH_START, r->site[i].url) != hash)
        i++;
    return i;
}

size_t xh_replicas_hint(struct xh_replicas *r, char *buf, size_t size)
{
    size_t at = 0;
    if (r->offline) /* others are to open it so by themselves */
        return (size_t)snprintf(buf, size, "offline");
    if (r->main != 0 && size > SITE_WORD_BYTES)
        at = (size_t)snprintf(buf, size, "site=%016" PRIx64 " ",
                              xh_hash_text(XH_HASH_START, r->site[r->main].url));
    size_t len = xh_origin_hint(r->site[r->main].origin, buf + at, size - at);
    return len ? at + len : 0;
}

static void free_all(struct xh_replicas *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->site[i].url);
    free(r->samples.of_main);
    free(r->offline);
    xh_env_release(&r->options);
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->news);
    free(r);
}

/* Takes ownership of |url|. */
static void init_site(struct xh_site *s, char *url)
{
    s->url = url;
    xh_list_server(url, s->server, sizeof s->server);
    xh_url_shown(url, s->shown, sizeof s->shown);
}

static struct xh_replicas *make(const char *url, const struct xh_options *o, struct xh_counters *counters,
                                struct xh_err *err)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    char *urls[XH_SITES_MAX];
    const char *bad;
    size_t bad_len;
    struct xh_replicas *r = calloc(1, sizeof *r);
    if (r && (r->n = xh_list_sites(url, o->endpoints, urls, &bad, &bad_len)) == 0) {
        free(r);
        r = NULL;
    }
    if (!r) {
        xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a file");
        return NULL;
    }
    if (bad && !atomic_flag_test_and_set(&warned)) {
        char entry[300];
        snprintf(entry, sizeof entry, "%.*s", (int)(bad_len < 200 ? bad_len : 200), bad);
        xh_say("option endpoints: %s is passed over: it is no https:// or s3:// address of a server or directory",
               xh_shown(entry, 300));
    }
    r->options = *o;
    xh_env_hold(&r->options);
    char server[XH_SERVER_BYTES];
    if (r->n > 1 && xh_origin_trusted(url, o, server, sizeof server))
        /* the user has named the others as servers of the same file */
        memset(&r->options.namer, 0, sizeof r->options.namer);
    r->counters = counters;
    r->process = xh_process();
    start_locks(r);
    for (size_t i = 0; i < r->n; i++) {
        struct xh_site *s = &r->site[i];
        init_site(s, urls[i]);
        if (r->n > 1 && (s->due_ns = xh_health_due_ns(s->server)) > xh_now_ns())
            s->state = XH_SITE_DEAD;
    }
    return r;
}

/* The main site is open; the keeper opens the others. */
static void opened(struct xh_replicas *r, size_t main)
{
    r->main = main;
    r->site[main].state = XH_SITE_LIVE;
    r->site[main].proved = 1;
    r->alone = r->n == 1;
    if (r->alone)
        return;
    pthread_mutex_lock(&r->lock);
    if (xh_keeper_start(r) != 0) /* without a thread the main site alone is used. The keeper reads |alone| */
        r->alone = 1;
    pthread_mutex_unlock(&r->lock);
}

static int out_of_patience(void *until)
{
    return xh_now_ns() > *(uint64_t *)until;
}

/* Opens site |i|, within OPEN_PATIENCE_NS. Returns 0 or the failure. */
static int open_hastily(struct xh_replicas *r, size_t i, const char *hint, int vouched, struct xh_origin_head *head,
                        struct xh_err *err)
{
    struct xh_site *s = &r->site[i];
    uint64_t until = xh_now_ns() + OPEN_PATIENCE_NS;
    struct xh_patience patience = {.ends = out_of_patience, .ctx = &until};
    int rc = xh_origin_open(s->url, &r->options, hint, vouched, r->counters, &patience, &s->origin, head, err);
    if (rc == 0) {
        xh_health_well(s->server);
    } else if (rc == XH_E_CANCELLED || xh_site_fate(r, s, err) == XH_FATE_ELSEWHERE) {
        s->state = XH_SITE_DEAD;
        s->due_ns = xh_health_failed(s->server);
    }
    xh_trace(XH_T_ORIGIN, "site-open", "url=%s code=%s", s->shown, xh_err_name(rc));
    return rc;
}

/* Opens the first site that answers. The order is |first|, the URL's own site, the others; sites that failed lately
 * come last. Returns the index, or r->n with |err|: no site answered, or |*over|: no other site is worth a try.
 * |*late|: the first one that only took too long; r->n: none. */
static size_t open_any(struct xh_replicas *r, size_t first, const char *hint, int vouched, struct xh_origin_head *head,
                       int *over, size_t *late, struct xh_err *err)
{
    size_t order[XH_SITES_MAX], n = 0;
    for (int dead = 0; dead < 2; dead++)
        for (size_t k = 0; k <= r->n; k++) {
            size_t i = k == 0 ? first : k - 1;
            if (i < r->n && (k == 0 || i != first) && (r->site[i].state == XH_SITE_DEAD) == dead)
                order[n++] = i;
        }
    for (size_t k = 0; k < n; k++) {
        size_t i = order[k];
        struct xh_err own = {0};
        int rc = open_hastily(r, i, i == first ? hint : NULL, i == first && vouched, head, &own);
        if (rc == 0)
            return i;
        if (rc == XH_E_CANCELLED && (i == 0 || *late == r->n))
            *late = i;
        if (i == 0) /* the caller gets the error of the URL's own server */
            *err = own;
        *over = i == 0 && rc != XH_E_CANCELLED && xh_site_fate(r, &r->site[0], &own) != XH_FATE_ELSEWHERE;
        if (*over)
            return r->n;
    }
    return r->n;
}

int xh_replicas_open(const char *url, const struct xh_options *o, const char *hint, int vouched,
                     struct xh_counters *counters, struct xh_replicas **out, struct xh_origin_head *head,
                     struct xh_err *err)
{
    struct xh_err own = {0};
    struct xh_replicas *r = make(url, o, counters, err);
    if (!r)
        return XH_E_NOMEM;
    size_t main = site_of_hint(r, &hint);
    if (main == r->n) { /* that site is not in the list any more */
        main = 0;
        hint = NULL;
    }
    int over = 0;
    size_t late = r->n;
    if (r->n > 1)
        main = open_any(r, main, hint, vouched, head, &over, &late, &own);
    if (main == r->n && !over && late > 0 && late < r->n) { /* the URL's own is down, and this one slow */
        struct xh_site *s = &r->site[late];
        if (xh_origin_open(s->url, &r->options, NULL, 0, counters, NULL, &s->origin, head, XH_IGNORED) == 0) {
            main = late;
            xh_health_well(s->server);
        }
    }
    if (r->n == 1 || (main == r->n && !over)) { /* the only site; or none answered: try it with full patience */
        own.code = xh_origin_open(url, &r->options, hint, vouched, counters, NULL, &r->site[0].origin, head, &own);
        main = own.code ? r->n : 0;
    }
    if (main == r->n) {
        int rc = own.code;
        if (err)
            *err = own;
        free_all(r);
        return rc;
    }
    opened(r, main);
    *out = r;
    return 0;
}

int xh_replicas_open_told(const char *url, const struct xh_options *o, const char *hint,
                          struct xh_counters *counters, struct xh_replicas **out, struct xh_err *err)
{
    struct xh_replicas *r = make(url, o, counters, err);
    if (!r)
        return XH_E_NOMEM;
    size_t main = site_of_hint(r, &hint);
    int rc = main < r->n ? xh_origin_open_told(r->site[main].url, o, hint, counters, &r->site[main].origin, err)
                         : xh_err_set(err, XH_E_INVAL, 0,
                                      "%.200s: another process opened it at an endpoint that is not listed here",
                                      r->site[0].shown);
    if (rc) {
        free_all(r);
        return rc;
    }
    opened(r, main);
    *out = r;
    return 0;
}

int xh_replicas_open_offline(const char *url, const struct xh_options *o, const char *validator, uint64_t size,
                             const char *hint, struct xh_replicas **out, struct xh_err *err)
{
    struct xh_replicas *r = calloc(1, sizeof *r);
    if (!r || !(r->offline = strdup(validator))) {
        free(r);
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a file");
    }
    r->options = *o;
    xh_env_hold(&r->options);
    r->process = xh_process();
    r->offline_size = size;
    site_of_hint(r, &hint);
    r->offline_changed_s = xh_origin_hint_changed_s(hint);
    xh_url_shown(url, r->site[0].shown, sizeof r->site[0].shown);
    start_locks(r);
    *out = r;
    return 0;
}

void xh_replicas_close(struct xh_replicas *r)
{
    struct xh_err err;
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->closing = 1;
    xh_err_set(&err, XH_E_CANCELLED, 0, "%.200s: the file was closed", r->site[r->main].shown);
    for (int k = 0; k < 2; k++)
        while (!TAILQ_EMPTY(&r->queue[k]))
            xh_routed_tell(TAILQ_FIRST(&r->queue[k]), &err);
    pthread_cond_broadcast(&r->news);
    pthread_mutex_unlock(&r->lock);
    if (r->kept)
        pthread_join(r->keeper, NULL);
    /* BOUND transfers end in there. No origin is freed yet: their owners may ask for facts of all */
    for (size_t i = 0; i < r->n; i++)
        if (r->site[i].origin)
            xh_origin_stop(r->site[i].origin);
    pthread_mutex_lock(&r->lock);
    xh_routed_tell_all(r);
    pthread_mutex_unlock(&r->lock);
    for (size_t i = 0; i < r->n; i++)
        xh_origin_close(r->site[i].origin);
    free_all(r);
}
