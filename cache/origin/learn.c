/* What replies teach: see learn.h. */
#include "learn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/now.h"
#include "watch/trace.h"
#include "endpoint.h"
#include "job.h"
#include "s3regions.h"

void xh_learn_whole(struct xh_origin *o)
{
    xh_engine_lock();
    struct xh_endpoint *e = xh_endpoint_find(o->url->server);
    int first = e && !e->told_whole && !o->options.may_lack;
    if (first)
        e->told_whole = 1;
    o->dialect.whole = 1;
    xh_engine_unlock();
    if (first)
        xh_say("%.500s: the server sends all of a file where a part is asked for, so this one and others of up "
               "to %" PRIu64 " bytes are read whole (the option whole_file_bytes). Its operator can switch range "
               "requests on",
               o->url->shown, o->options.whole_file_bytes);
}

/* ---- changes while it is open */

static void revalidated(struct xh_job *j)
{
    struct xh_origin *o = j->origin;
    struct xh_probe *p = j->probe;
    char date[XH_HEADER_BYTES];
    uint64_t size;
    struct xh_err err;
    const struct xh_xml said = {(const char *)p->bytes, p->len};
    int known = !j->lost && p->status == 207 && xh_propfind_parse(said, date, sizeof date, &size);
    xh_engine_lock();
    o->checking = 0;
    o->checked_ns = xh_now_ns(); /* also after a failure: the next is due after the same time */
    /* XRootD goes on serving a removed file while somebody has it open. Twice, as a redirector says so too of what it
     * only has lost sight of. */
    int gone = j->lost && j->err.code == XH_E_NOENT;
    o->missed = gone ? o->missed + 1 : 0;
    if (o->missed > 1) {
        xh_err_set(&err, XH_E_CHANGED, 0, "%.200s: the file was removed on the server while it was open",
                   o->url->shown);
        xh_job_poison(o, &err);
    }
    if (known && (size != o->dialect.size || strcmp(date, o->dialect.value) != 0)) {
        xh_err_set(&err, XH_E_CHANGED, 0,
                   "%.200s: the file was changed on the server while it was open (%.40s, %" PRIu64
                   " bytes; now %.40s, %" PRIu64 " bytes). Close and open it again",
                   o->url->shown, o->dialect.value, o->dialect.size, date, size);
        xh_job_poison(o, &err);
    }
    xh_engine_unlock();
    free(p->bytes);
    free(p);
}

void xh_learn_check(struct xh_origin *o)
{
    uint64_t every_ns = o->options.revalidate_ms * 1000000u;
    if (o->dialect.proof != XH_BY_PROPFIND || every_ns == 0 || o->checking ||
        (!o->check_due && xh_now_ns() - o->checked_ns < every_ns))
        return;
    struct xh_probe *p = calloc(1, sizeof *p);
    if (!p)
        return;
    if (!xh_job_probe(o, XH_ASK_STAT, p, revalidated)) {
        free(p);
        return;
    }
    o->checking = 1;
    o->check_due = 0;
}

/* Files whose date was found when they were opened. Under the engine's lock. */
static struct xh_ring dated = {&dated, &dated};

static void check_now(struct xh_origin *o)
{
    if (xh_engine_era() == 0 || o->closing || o->poison.code)
        return;
    xh_origin_object_adopt(o);
    o->check_due = 1;
    xh_learn_check(o);
}

void xh_learn_date(struct xh_origin *o)
{
    int differ = 0;
    if (o->dialect.proof != XH_BY_PROPFIND)
        return;
    xh_engine_lock();
    xh_ring_each (struct xh_origin, of, among_dated, &dated) {
        if (!o->served || !of->served || !xh_url_same_server(o->served, of->served) ||
            strcmp(of->url->text, o->url->text) != 0 ||
            (of->dialect.size == o->dialect.size && strcmp(of->dialect.value, o->dialect.value) == 0))
            continue;
        differ = 1;
        check_now(of);
    }
    xh_ring_put_last(&dated, &o->among_dated);
    if (differ)
        check_now(o); /* either may be the older one: openings overtake each other */
    xh_engine_unlock();
}

/* ---- what an exchange teaches */

/* So many remembered targets in a row that sent elsewhere when they were asked again, or refused that at once: targets
 * are good for one request, and none is remembered any more. */
#define BOUNCED_MOST 3

/* |x|, whose |finds| is set, has shown that its URL is good: later requests go there at once, and so do those that wait
 * for one. Lock held. */
static void remember_target(struct xh_exchange *x)
{
    struct xh_request *r = x->request;
    struct xh_origin *o = r->job->origin;
    x->finds = 0;
    if (r->url && o->target != r->url && o->bounced < BOUNCED_MOST) {
        xh_url_unref(o->target);
        o->target = xh_url_ref(r->url);
        o->targets++;
        o->found_ns = xh_now_ns();
    } else if (!r->url && o->target == x->url) {
        o->bounced = 0;
        o->found_ns = 0;
    }
    if (o->target || o->seeks == r) {
        o->seeks = NULL;
        o->sought_ns = 0;
    }
}

/* The cookies of |r|'s chain are the session's from now on: they have led to the file. Lock held. */
static void keep_chain(struct xh_request *r)
{
    if (r->chain.n)
        xh_session_take(r->job->origin->caller.session, &r->chain);
    xh_jar_free(&r->chain);
}

/* Tells those that wait for |r|'s login what became of it; |why| as xh_session_over has it. Lock held. */
static void end_login(struct xh_request *r, enum xh_login_end end, const struct xh_login_failure *why)
{
    const struct xh_origin *o = r->job->origin;
    xh_session_over(o->caller.session, o->url->server, r->leads->server, end, why);
    xh_trace(XH_T_ORIGIN, "login-over", "id=%p url=%s end=%d", (void *)r, o->url->shown, (int)end);
    xh_url_unref(r->leads);
    r->leads = NULL;
}

void xh_learn_found(struct xh_exchange *x)
{
    struct xh_request *r = x->request;
    xh_engine_lock();
    keep_chain(r); /* first: others go to that target at once, and need them */
    if (r->leads)
        end_login(r, XH_LOGIN_GOOD, NULL);
    remember_target(x);
    xh_engine_unlock();
}

/* A request worked: at the end of redirects, later ones go there at once. When data comes from another server than
 * before, or than the date, its copy may be of another version, which XRootD's replies do not tell. Where the servers
 * that have the data refuse PROPFIND, fail at it or send it elsewhere, and another one answers it, there is no date of
 * a copy: to ask for it whenever data comes from where the date did not would be to ask with each reply. Lock held. */
static void remember_server(struct xh_exchange *x)
{
    struct xh_request *r = x->request;
    struct xh_origin *o = r->job->origin;
    int data = x->ask != XH_ASK_STAT;
    if (!data && o->target && !xh_url_same_server(o->target, x->url) &&
        (r->tries.sent_away || (r->tries.from_original && x->url == o->url)))
        o->dates_at_first = 1;
    if (x->url != o->url && o->url->region && x->url->region)
        xh_s3_regions_note(o->url, x->url);
    if (x->finds)
        remember_target(x);
    if ((data || !o->dates_at_first) && (!o->served || !xh_url_same_server(o->served, x->url))) {
        o->check_due = data && o->served && o->opened && !o->closing && !o->dates_at_first;
        xh_url_unref(o->served);
        o->served = xh_url_ref(x->url);
        if (o->check_due)
            xh_learn_check(o);
    }
}

/* 1 when |x| went to a target that was found a moment ago, and has served nobody but its finder. Lock held. */
static int served_one(const struct xh_exchange *x)
{
    const struct xh_origin *o = x->job->origin;
    return o->target == x->url && o->found_ns && x->begun_ns - o->found_ns < XH_SEEKING_MOST_NS;
}

/* 1 when it is news that |x|'s target sends elsewhere: if it had served others, when the first one meets that; if none
 * but its finder, when |x| was sent, whenever one does. Lock held. */
static int is_news(const struct xh_exchange *x)
{
    return x->job->origin->target == x->url || x->finds;
}

/* Forgets where |x| was sent: the original URL decides anew. Lock held. */
static void forget_target(const struct xh_exchange *x)
{
    struct xh_request *r = x->request;
    struct xh_origin *o = r->job->origin;
    xh_url_unref(r->url);
    r->url = NULL;
    /* The same object: nobody has set a newer one. What PROPFIND meets there says nothing of GET. */
    if (o->target == x->url && x->ask != XH_ASK_STAT) {
        xh_url_unref(o->target);
        o->target = NULL;
        o->found_ns = 0;
        o->sought_ns = o->opened && o->bounced < BOUNCED_MOST ? xh_now_ns() : 0;
    }
}

/* Keeps the cookies of a chain of redirects: for the request at first, for the session when they have led to the file.
 * Tells those that wait what became of a login. Lock held. */
static void keep_login(const struct xh_exchange *x, const struct xh_outcome *out, const struct xh_verdict *v)
{
    struct xh_request *r = x->request;
    const struct xh_origin *o = r->job->origin;
    struct xh_session *s = o->caller.session;
    struct xh_login_failure why = v->failure;
    int goes_on = (v->next == XH_NEXT_AGAIN && v->to) || out->net == XH_NET_TURN;
    if (!s)
        return;
    if (out->cookies && v->tries.hops)
        xh_jar_take(&r->chain, x->url->server, out->cookies, 1);
    if (v->served || v->login == XH_LOGIN_GOOD)
        keep_chain(r);
    if (v->doubts_session)
        xh_session_doubt(s, o->url->server, x->url->server);
    if (r->leads && (v->login != XH_LOGIN_NONE || !goes_on)) {
        int given_up = out->net == XH_NET_CANCELLED || out->net == XH_NET_LEFT || out->net == XH_NET_EXITING;
        if (!why.code && v->err.code && !given_up) {
            why = (struct xh_login_failure){.code = v->err.code, .status = v->err.status};
            snprintf(why.why, sizeof why.why, "%.*s", (int)sizeof why.why - 1, v->err.text);
        }
        end_login(r, v->login, why.code ? &why : NULL);
    }
    if (!goes_on)
        xh_jar_free(&r->chain);
}

/* Carries out what |v| says was learnt by |x|. Lock held. */
static void keep(struct xh_exchange *x, const struct xh_outcome *out, const struct xh_verdict *v)
{
    struct xh_request *r = x->request;
    struct xh_origin *o = r->job->origin;
    if (o->seeks == r && !v->to && out->net != XH_NET_TURN) /* not on its way there any more */
        o->seeks = NULL;
    if (v->served)
        remember_server(x);
    keep_login(x, out, v);
    r->tries = v->tries;
    r->endpoint->limits = v->limits;
    if (v->hold_ms)
        xh_endpoint_hold(r->endpoint, v->hold_ms);
    if (v->to) {
        struct xh_url *to = v->to;
        xh_trace(XH_T_ORIGIN, "redirect", "id=%p status=%d to=%s", (void *)r, x->reply.status, to->shown);
        if (x->url != o->url && strcmp(to->text, o->url->text) == 0) { /* back where it began, as behind a login */
            xh_url_unref(to);
            to = xh_url_ref(o->url);
        }
        xh_url_unref(r->url);
        r->url = to;
    }
    int for_one = (v->bounced && is_news(x)) || (v->forgets && v->next == XH_NEXT_AGAIN && served_one(x));
    o->bounced += for_one && o->bounced < BOUNCED_MOST;
    if (v->forgets)
        forget_target(x);
    if (v->drops_redirect) {
        xh_url_unref(r->url);
        r->url = NULL;
    }
    o->no_cert |= v->no_cert;
    if (v->no_key[0])
        memcpy(o->no_key, v->no_key, sizeof o->no_key);
    o->dialect.no_match |= v->no_match;
    if (v->sends_parts)
        o->dialect.whole = 0;
    if (v->changed)
        xh_job_poison(o, &v->err);
    if (x->probe && v->served) {
        x->probe->server_hash = xh_url_server_hash(x->url);
        x->probe->sent_ns = x->sent_ns;
        x->probe->came_ns = x->last_ns;
    }
    if (x->probe && v->measured) {
        x->probe->size = x->probe->len;
        x->probe->size_known = 1;
    }
    if (v->event)
        xh_trace(XH_T_ORIGIN, v->event, "id=%p ranges=%u most=%u server_most=%u why=\"%s\"", (void *)r, x->asked,
                 v->tries.most_ranges, v->limits.max_ranges, v->why);
}

/* What the verdict goes by, as it is now. Lock held. */
static void look(struct xh_attempt *a, const struct xh_exchange *x)
{
    const struct xh_request *r = x->request;
    const struct xh_origin *o = r->job->origin;
    a->tries = r->tries;
    a->redirected = r->url != NULL;
    a->leads = r->leads ? r->leads->server : NULL;
    a->all_came = !x->transfer || !xh_job_lacks(r->job, r->first, r->end);
    a->opened = o->opened;
    a->stranger = !o->served;
    a->no_cert = o->no_cert;
    a->no_key = o->no_key;
    a->limits = r->endpoint->limits;
    a->heard_ns = atomic_load_explicit(&r->endpoint->heard_ns, memory_order_relaxed);
    a->sockets = xh_endpoint_sockets_open(r->endpoint);
    a->others = r->endpoint->active - 1;
}

static uint32_t random_word(void)
{
    uint32_t word = 0;
    return getrandom(&word, sizeof word, GRND_NONBLOCK) == sizeof word ? word : 0;
}

/* 1 when nobody wants more of |x| now, which is over. */
static int stands(const struct xh_exchange *x, const struct xh_outcome *out)
{
    struct xh_transfer *t = x->transfer;
    if (out->net == XH_NET_LEFT)
        return 1;
    return out->net != XH_NET_OK && out->net != XH_NET_CANCELLED && t && t->full && t->full(t);
}

enum xh_next xh_learn_verdict(struct xh_exchange *x, const struct xh_outcome *out, struct xh_verdict *v)
{
    struct xh_origin *o = x->request->job->origin;
    struct xh_transfer *t = x->transfer;
    struct xh_attempt a = {.x = x,
                           .out = out,
                           .first = o->url,
                           .proxies = &o->caller.proxies,
                           .login = o->caller.login,
                           .logins = &o->caller.logins,
                           .cert_path = o->caller.cert.path,
                           .cert_note = o->caller.cert.note,
                           .trust_note = o->caller.trust.note,
                           .now_ns = xh_now_ns(),
                           .now_s = (long long)time(NULL),
                           .asked_came = !t || !xh_job_lacks(x->job, x->asked_first, x->asked_end),
                           .speculative = atomic_load_explicit(x->speculative, memory_order_relaxed),
                           .hasty = t ? atomic_load_explicit(&t->hasty, memory_order_relaxed) : x->probe->hasty,
                           .stands = stands(x, out),
                           .trusted = xh_caller_trusts(&o->caller, x->url),
                           .trusted_first = xh_caller_trusts(&o->caller, o->url)};
    int refused = x->reply.status == 401 || x->reply.status == 403 || x->page || x->take == XH_TAKE_DOUBT ||
                  (x->fault != XH_FAULT_NONE && x->said_len > 0);
    a.dice = (uint32_t)a.now_ns;
    if (out->net != XH_NET_OK || x->reply.status >= 400) /* there may be a pause */
        a.dice += random_word();
    for (;;) {
        if (refused && x->token && x->token->value)
            xh_token_describe(x->token, a.now_s, a.tells, sizeof a.tells);
        xh_engine_lock();
        look(&a, x);
        if (xh_verdict(&a, v) != XH_NEXT_LOOK)
            break;
        xh_engine_unlock();
        enum xh_again again = xh_origin_object_renew_token(o, x->token, x->begun_ns);
        a.looked = again == XH_AGAIN_SOON ? XH_LOOK_SOON : again == XH_AGAIN_FOUND ? XH_LOOK_OTHER : XH_LOOK_SAME;
        xh_origin_object_take_token(o, x);
    }
    keep(x, out, v);
    xh_engine_unlock();
    if (v->takes_whole)
        xh_learn_whole(o);
    xh_count(o->counters, retries, v->retries);
    return v->next;
}
