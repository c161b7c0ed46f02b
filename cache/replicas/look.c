/* Looks: see look.h.
 *
 * Two copies are taken for the same version when their sizes are equal, and also either their strong ETags or their
 * samples. The samples are the bytes of the head, of the end and of ranges between, at places chosen anew each time
 * a file is opened. docs/origin.md says what that leaves open. */
#include "look.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/now.h"
#include "base/waits.h"
#include "routed.h"

/* Longest time for a site to open, or to bring a few kilobytes. */
#define LOOK_MOST_NS 10000000000u

/* ---- blocking reads of the keeper */

struct look {
    struct xh_transfer t; /* t.ctx points to this struct */
    struct xh_replicas *r;
    uint8_t *to; /* gets the ranges one behind the other */
    int over;    /* under the lock */
    struct xh_err err;
};

static void on_bytes(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len)
{
    struct look *l = t->ctx;
    uint8_t *to = l->to;
    size_t i = 0;
    for (; off >= t->ranges[i].off + t->ranges[i].len; i++)
        to += t->ranges[i].len;
    memcpy(to + (off - t->ranges[i].off), data, len);
}

static void on_done(struct xh_transfer *t, const struct xh_err *err)
{
    struct look *l = t->ctx;
    struct xh_replicas *r = l->r;
    pthread_mutex_lock(&r->lock);
    if (err)
        l->err = *err;
    l->over = 1;
    pthread_cond_signal(&r->news);
    pthread_mutex_unlock(&r->lock);
}

/* Waits for news, at most until the next tick, and does the keeper's urgent work. The lock is held. */
static void wait_and_tick(struct xh_replicas *r)
{
    xh_cond_wait_until(&r->news, &r->lock, xh_now_ns() + XH_TICK_NS);
    xh_routed_tick(r);
    xh_routed_tell_all(r);
}

/* Reads |n| ranges of |s| into |to|. Returns 0 or the failure. Blocks. */
static int read_site(struct xh_replicas *r, struct xh_site *s, const struct xh_range *at, size_t n, uint8_t *to,
                     struct xh_err *err)
{
    struct look l = {.t = {.ranges = at, .nranges = n, .ctx = &l, .bytes = on_bytes, .done = on_done, .hasty = 1},
                     .r = r, .to = to};
    struct xh_transfer *t = &l.t;
    uint64_t until = xh_now_ns() + LOOK_MOST_NS;
    int left = 0, rc = xh_origin_submit(s->origin, &t, 1, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&r->lock);
    while (!l.over) {
        if (!left && (r->closing || xh_now_ns() > until)) {
            left = 1;
            xh_origin_cancel(s->origin, t);
        }
        wait_and_tick(r);
    }
    int closing = r->closing;
    pthread_mutex_unlock(&r->lock);
    if (l.err.code == 0)
        return 0;
    *err = l.err;
    if (left && !closing)
        xh_err_set(err, XH_E_TIMEOUT, 0, "%.200s: it takes too long", s->shown);
    return err->code;
}

/* ---- comparing */

/* Chooses the samples: the head, the end, and one place in each eighth of the file. */
static void choose_samples(struct xh_samples *m, uint64_t size)
{
    m->n = 0;
    for (unsigned i = 0; i < XH_SAMPLES; i++) {
        uint64_t dice = 0, step = size / (XH_SAMPLES - 2), off;
        if (getrandom(&dice, sizeof dice, GRND_NONBLOCK) != sizeof dice)
            dice = xh_now_ns();
        off = i == 0 ? 0 : i == XH_SAMPLES - 1 ? size : (i - 1) * step + (step ? dice % step : 0);
        off = size < XH_SAMPLE_BYTES ? 0 : off < size - XH_SAMPLE_BYTES ? off : size - XH_SAMPLE_BYTES;
        m->at[m->n++] = (struct xh_range){off, size < XH_SAMPLE_BYTES ? size : XH_SAMPLE_BYTES};
    }
    m->n = xh_ranges_join(m->at, m->n, 0);
    m->bytes = xh_ranges_bytes(m->at, m->n);
}

/* Ensures that the samples of a proved site are there. Returns 0 when they cannot be had now. */
static int have_samples(struct xh_replicas *r, uint64_t size)
{
    struct xh_samples *m = &r->samples;
    struct xh_site *from = NULL;
    if (m->of_main)
        return 1;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->n; i++)
        if (r->site[i].state == XH_SITE_LIVE && (!from || i == r->main))
            from = &r->site[i];
    pthread_mutex_unlock(&r->lock);
    choose_samples(m, size);
    uint8_t *bytes = from ? malloc(m->bytes) : NULL;
    if (bytes && read_site(r, from, m->at, m->n, bytes, XH_IGNORED) == 0)
        m->of_main = bytes;
    else
        free(bytes);
    return m->of_main != NULL;
}

/* Compares the samples of |s|, whose size |size| is the main site's. Returns 0 when they are equal, XH_E_CHANGED, or
 * why that is not known. */
static int compare(struct xh_replicas *r, struct xh_site *s, uint64_t size, struct xh_err *err)
{
    struct xh_samples *m = &r->samples;
    if (!have_samples(r, size))
        return xh_err_set(err, XH_E_NET, 0, "%.200s: there is nothing to compare it with now", s->shown);
    uint8_t *bytes = malloc(m->bytes), *p = bytes, *q = m->of_main;
    if (!bytes)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory");
    int rc = read_site(r, s, m->at, m->n, bytes, err);
    for (size_t i = 0; rc == 0 && i < m->n; p += m->at[i].len, q += m->at[i].len, i++)
        if (memcmp(p, q, m->at[i].len) != 0)
            rc = xh_err_set(err, XH_E_CHANGED, 0,
                            "%.200s: it has other bytes than %.200s at %" PRIu64 " to %" PRIu64
                            ", so it is another version",
                            s->shown, r->site[r->main].shown, m->at[i].off, m->at[i].off + m->at[i].len);
    free(bytes);
    return rc;
}

/* Checks whether |s| answers. Returns 0 or the failure. */
static int ask_site(struct xh_replicas *r, struct xh_site *s, struct xh_err *err)
{
    uint8_t bytes[XH_SAMPLE_BYTES];
    struct xh_origin_info info;
    xh_origin_get_info(s->origin, &info);
    struct xh_range first = {0, info.size < sizeof bytes ? info.size : sizeof bytes};
    return info.size ? read_site(r, s, &first, 1, bytes, err) : 0;
}

/* Returns 1 for equal strong ETags. The validator's text contains the size too. */
static int same_etag(const char *a, const char *b)
{
    return (strncmp(a, "etag:\"", 6) == 0 || strncmp(a, "etag:#s", 7) == 0) && strcmp(a, b) == 0;
}

/* Checks whether |s| has the version of the main site. The origin of |s| exists; without |opened| it is an old one,
 * and its server may be gone. Returns as compare(). */
static int prove(struct xh_replicas *r, struct xh_site *s, int opened, struct xh_err *err)
{
    struct xh_origin_info ours, its;
    xh_origin_get_info(r->site[r->main].origin, &ours);
    xh_origin_get_info(s->origin, &its);
    if (its.size != ours.size)
        return xh_err_set(err, XH_E_CHANGED, 0,
                          "%.200s: it has %" PRIu64 " bytes and %.200s has %" PRIu64 ", so it is another version",
                          s->shown, its.size, r->site[r->main].shown, ours.size);
    if (same_etag(its.validator, ours.validator)) /* each of its replies shows that ETag */
        return opened ? 0 : ask_site(r, s, err);
    return ours.size ? compare(r, s, ours.size, err) : 0;
}

/* ---- the keeper's look */

struct patience {
    struct xh_replicas *r;
    uint64_t until_ns;
};

static int ends(void *ctx)
{
    struct patience *p = ctx;
    pthread_mutex_lock(&p->r->lock);
    xh_routed_tick(p->r);
    xh_routed_tell_all(p->r);
    int over = p->r->closing || xh_now_ns() > p->until_ns;
    pthread_mutex_unlock(&p->r->lock);
    return over;
}

static int open_site(struct xh_replicas *r, struct xh_site *s, struct xh_err *err)
{
    struct patience p = {r, xh_now_ns() + LOOK_MOST_NS};
    struct xh_patience patience = {.ends = ends, .ctx = &p};
    struct xh_origin_head head = {0};
    struct xh_origin *o = NULL;
    int rc = xh_origin_open(s->url, &r->options, NULL, 0, r->counters, &patience, &o, &head, err);
    free(head.bytes);
    pthread_mutex_lock(&r->lock);
    s->origin = o;
    pthread_mutex_unlock(&r->lock);
    return rc;
}

void xh_look_at(struct xh_replicas *r, struct xh_site *s)
{
    struct xh_err err = {0};
    int fresh = !s->origin, rc = fresh ? open_site(r, s, &err) : 0;
    if (rc == 0)
        rc = s == &r->site[r->main] ? ask_site(r, s, &err) : prove(r, s, fresh, &err);
    pthread_mutex_lock(&r->lock);
    if (rc == 0) {
        xh_site_lives(r, s);
    } else if (r->closing) {
        s->state = XH_SITE_DEAD; /* the file is closed: the state no longer matters */
    } else if (xh_site_fate(r, s, &err) == XH_FATE_REFUSED) {
        xh_site_refuse(r, s, &err);
    } else {
        r->changed |= rc == XH_E_CHANGED;
        xh_site_failed(r, s, err.text);
    }
    pthread_mutex_unlock(&r->lock);
}
