/* Verdicts: what a finished exchange leads to. See xh_exchange_judge in request.h.
 *
 * Order of judgement: a fault found in the reply; a status other than success; the bytes
 * that came; the network. Every path either makes progress, counts a failure (bounded by
 * the option retries), asks for fewer ranges (bounded by 1) or goes by the original URL
 * again (bounded): so each request ends. */
#include "base/now.h"
#include "request.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "watch/trace.h"
#include "endpoint.h"
#include "handle.h"

#define HOPS_MAX 10u
#define RETURNS_MAX 4u
#define HASTY_RETRIES 1u
#define BACKOFF_FIRST_MS 100u
#define BACKOFF_MAX_MS 10000u
#define NONSENSE_MOST 2u /* so often a request of several ranges is sent before its ranges are asked for singly */
#define LONG_TOKEN_BYTES 4096u /* servers bear headers of 8 KiB and more */
#define REDIRECTED_TOKEN_BYTES 1500u
#define PROXY_TURN_MS 20u /* how often a request looks whether the proxy has taken the login that another one shows it */
#define TITLE_BYTES 81u       /* of a page, in an error */
#define TITLE_WORD_BYTES 20u  /* a server that repeats the token must not make us show it */
#define PROGRESS_BYTES 65536u /* what a failed reply must have brought to count as progress */

/* Sets |err|: "cannot read URL (via URL): …". Returns XH_VERDICT_FAIL. */
__attribute__((format(printf, 5, 6))) static enum xh_verdict fail(const struct xh_exchange *x, struct xh_err *err,
                                                                  int code, int status, const char *fmt, ...)
{
    const struct xh_origin *o = x->job->origin;
    char said[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(said, sizeof said, fmt, ap);
    va_end(ap);
    if (x->url == o->url)
        xh_err_set(err, code, status, "%.200s: %s", o->url->shown, said);
    else
        xh_err_set(err, code, status, "%.120s (sent on to %.100s): %s", o->url->shown, x->url->shown, said);
    return XH_VERDICT_FAIL;
}

static enum xh_verdict changed(const struct xh_exchange *x, struct xh_err *err, int status, const char *how)
{
    struct xh_origin *o = x->job->origin;
    fail(x, err, XH_E_CHANGED, status, "the file was changed on the server while it was open (%s). Close and open it again",
         how);
    xh_engine_lock();
    xh_object_poison(o, err);
    xh_engine_unlock();
    return XH_VERDICT_FAIL;
}

/* Exponential back-off, half of it random so that clients do not come back in step. */
static uint64_t backoff_ms(unsigned failures)
{
    uint64_t ms = BACKOFF_FIRST_MS;
    for (unsigned i = 1; i < failures && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    if (ms > BACKOFF_MAX_MS)
        ms = BACKOFF_MAX_MS;
    uint32_t dice = 0;
    if (getrandom(&dice, sizeof dice, GRND_NONBLOCK) != sizeof dice)
        dice = (uint32_t)xh_now_ns();
    return ms / 2 + dice % (ms / 2 + 1);
}

/* Forgets where |r| was redirected to: the original URL decides anew. */
static void from_original(struct xh_exchange *x)
{
    struct xh_request *r = x->request;
    struct xh_origin *o = x->job->origin;
    xh_engine_lock();
    xh_url_unref(r->url);
    r->url = NULL;
    r->hops = 0;
    r->from_original = 1;
    /* The same object: nobody has set a newer one. What PROPFIND meets there says nothing of GET. */
    if (o->target == x->url && x->job->ask != XH_ASK_STAT) {
        xh_url_unref(o->target);
        o->target = NULL;
    }
    xh_engine_unlock();
}

/* A redirect's target failed: 1 when the original URL is to be asked again instead. Once
 * while opening; more often later, as what worked before has most likely expired. */
static int goes_back(struct xh_exchange *x)
{
    struct xh_request *r = x->request;
    const struct xh_origin *o = x->job->origin;
    if (x->url == o->url || r->returns >= (o->opened ? RETURNS_MAX : 1))
        return 0;
    r->returns++;
    from_original(x);
    return 1;
}

/* 1 when there are other ways to what |x| asks for. */
static int is_hasty(const struct xh_exchange *x)
{
    return x->job->transfer ? atomic_load_explicit(&x->job->transfer->hasty, memory_order_relaxed)
                            : x->job->probe && x->job->probe->hasty;
}

/* One more failure worth retrying: LATER, or FAIL with |err|, which the caller has set. */
static enum xh_verdict later(struct xh_exchange *x, unsigned retries, uint64_t at_least_ms, uint64_t *delay_ms)
{
    struct xh_request *r = x->request;
    if (is_hasty(x)) {
        retries = retries > HASTY_RETRIES ? HASTY_RETRIES : retries;
        if (at_least_ms)
            return XH_VERDICT_FAIL;
    }
    /* A server that wants to be left alone is not asked again for what nobody waits for. */
    if (at_least_ms && atomic_load_explicit(&x->job->speculative, memory_order_relaxed))
        return XH_VERDICT_FAIL;
    r->failures = x->fresh >= PROGRESS_BYTES ? 1 : r->failures + 1;
    r->repeats++;
    if (r->failures > retries || r->repeats > 8 * retries + 8)
        return XH_VERDICT_FAIL;
    if (r->url)
        from_original(x);
    *delay_ms = backoff_ms(r->failures);
    if (*delay_ms < at_least_ms)
        *delay_ms = at_least_ms;
    xh_count(x->job->origin->counters, retries, 1);
    return XH_VERDICT_LATER;
}

/* 1 when every range that |x| asked for, or its slice if |all|, is complete. */
static int complete(const struct xh_exchange *x, int all)
{
    const struct xh_job *j = x->job;
    size_t end = all ? x->request->end : x->asked_end;
    for (size_t i = all ? x->request->first : x->asked_first; i < end; i++)
        if (j->got[i] < j->transfer->ranges[i].len)
            return 0;
    return 1;
}

/* Sent again at once, in another way. */
static enum xh_verdict again(const struct xh_exchange *x)
{
    xh_count(x->job->origin->counters, retries, 1);
    return XH_VERDICT_AGAIN;
}

/* The answer to several ranges shows that this server does not do them, or not so many: all its files are read by fewer
 * for a while. */
static enum xh_verdict shows_limit(struct xh_exchange *x, unsigned nranges, const char *why)
{
    struct xh_limits *l = &x->request->endpoint->limits;
    xh_engine_lock();
    if (nranges)
        xh_limits_cap(l, nranges, xh_now_ns());
    else
        xh_limits_halve(l, x->asked, x->range_bytes, xh_now_ns());
    unsigned most = l->max_ranges;
    xh_engine_unlock();
    xh_trace(XH_T_ORIGIN, "limit", "id=%p ranges=%u most=%u why=\"%s\"", (void *)x->request, x->asked, most, why);
    return again(x);
}

/* Single ranges from now on for this request; it says nothing of others. */
static enum xh_verdict go_single(struct xh_exchange *x, const char *why)
{
    x->request->most_ranges = 1;
    xh_trace(XH_T_ORIGIN, "single", "id=%p why=\"%s\"", (void *)x->request, why);
    return again(x);
}

/* The same. What was wrong may have been this answer's fault alone, or the server's. */
static enum xh_verdict go_single_doubting(struct xh_exchange *x, const char *why)
{
    xh_engine_lock();
    xh_limits_doubt(&x->request->endpoint->limits, xh_now_ns());
    xh_engine_unlock();
    return go_single(x, why);
}

/* An answer to several ranges that was none: the same once more, then single ranges. */
static enum xh_verdict is_nonsense(struct xh_exchange *x, const char *why)
{
    if (++x->request->nonsense >= NONSENSE_MOST)
        return go_single_doubting(x, why);
    xh_trace(XH_T_ORIGIN, "nonsense", "id=%p why=\"%s\"", (void *)x->request, why);
    return again(x);
}

/* 1 when |x| asked for so much of a small file that a server may rather send all of it: nginx does where the ranges and
 * some 256 bytes for each come to more than the file has. That says nothing of other files. */
static int asks_for_most(const struct xh_exchange *x)
{
    return x->asked_bytes + 256u * x->asked > x->dialect.size / 2;
}

/* A 500 to several ranges is a limit (XRootD 5.5) or a server's bad moment, which a pause helps: so first a pause; if it
 * says so again, half as many for this request; and when these worked and a later request of more fails, it is a limit.
 * Returns 1 when |*v| is to be done. */
static int too_wide(struct xh_exchange *x, enum xh_verdict *v)
{
    struct xh_request *r = x->request;
    if (x->asked < 2)
        return 0;
    xh_engine_lock();
    int limit = xh_limits_failed(&r->endpoint->limits, x->asked, x->sent_ns, xh_now_ns());
    xh_engine_unlock();
    if (!limit && r->wide_failures++ == 0 && x->job->origin->options.retries)
        return 0;
    r->most_ranges = x->asked / 2;
    r->failed_ranges = x->asked;
    xh_trace(XH_T_ORIGIN, "narrow", "id=%p ranges=%u limit=%d", (void *)r, r->most_ranges, limit);
    *v = again(x);
    return 1;
}

/* |x| brought all that it asked for. */
static void learn_limits(struct xh_exchange *x)
{
    struct xh_request *r = x->request;
    if (x->asked < 2 && !r->failed_ranges)
        return;
    xh_engine_lock();
    if (r->failed_ranges)
        xh_limits_worked(&r->endpoint->limits, x->asked, x->sent_ns);
    else
        xh_limits_good(&r->endpoint->limits, x->asked, x->sent_ns);
    xh_engine_unlock();
    r->failed_ranges = r->wide_failures = 0;
}

static enum xh_verdict judge_fault(struct xh_exchange *x, uint64_t *delay_ms, struct xh_err *err)
{
    struct xh_origin *o = x->job->origin;
    int status = x->reply.status;
    switch (x->fault) {
    case XH_FAULT_CHANGED:
        return changed(x, err, status, x->why);
    case XH_FAULT_MULTI:
        if (x->asked > 1)
            return is_nonsense(x, x->why);
        break;
    case XH_FAULT_LIMIT:
        return asks_for_most(x) ? go_single(x, x->why) : shows_limit(x, 1, x->why);
    case XH_FAULT_NO_RANGES:
        fail(x, err, XH_E_PROTO, status,
             "the server does not do range requests (it answers 200 with the whole file), so only files up to "
             "%" PRIu64 " bytes can be read from it (the option whole_file_bytes). `xhdf5 get` fetches this one to a disk; or ask the "
             "server's operator to switch range requests on", o->options.whole_file_bytes);
        /* Some caches answer so only while they fill: one more try. A whole of another length is no answer to us, but
         * what an earlier reply left on the connection. */
        if (x->job->probe && !x->job->probe->insists)
            return XH_VERDICT_FAIL;
        int seen = x->request->whole_seen; /* whatever else has failed before: a server that is busy may do so too */
        int strange = !x->job->probe && x->reply.length_given && x->reply.length != x->dialect.size;
        x->request->whole_seen = 1;
        return seen && !strange ? XH_VERDICT_FAIL : later(x, (unsigned)o->options.retries, 0, delay_ms);
    case XH_FAULT_LOCAL:
        return fail(x, err, XH_E_NOMEM, 0, "%s", x->why);
    default:
        break;
    }
    return fail(x, err, XH_E_PROTO, status, "the server's reply makes no sense: %s", x->why);
}

static enum xh_verdict judge_redirect(struct xh_exchange *x, struct xh_err *err)
{
    struct xh_request *r = x->request;
    struct xh_url *to = NULL;
    int status = x->reply.status;
    if (x->reply.location[0] == '\0')
        return fail(x, err, XH_E_PROTO, status, "status %d without a usable Location", status);
    if (++r->hops > HOPS_MAX)
        return fail(x, err, XH_E_PROTO, status, "redirected more than %u times: a loop on the server", HOPS_MAX);
    if (xh_url_resolve(x->url, x->reply.location, &to, err) != 0) {
        err->status = status;
        return XH_VERDICT_FAIL;
    }
    if (xh_proxy_check(&x->job->origin->proxies, to, err) != 0) {
        xh_url_unref(to);
        return XH_VERDICT_FAIL;
    }
    xh_trace(XH_T_ORIGIN, "redirect", "id=%p status=%d to=%s", (void *)r, status, to->shown);
    xh_engine_lock();
    xh_url_unref(r->url);
    r->url = to;
    xh_engine_unlock();
    return XH_VERDICT_AGAIN;
}

/* Of 401, of 403 as XRootD has it, and of a web page: the token may have been renewed since it was read. 1: it was; try
 * again. */
static int token_renewed(struct xh_exchange *x)
{
    struct xh_origin *o = x->job->origin;
    /* A page is a login's, elsewhere perhaps; a redirect's ticket was made by the first server, out of the token. */
    const struct xh_url *to = x->page || x->url->ticket ? o->url : x->url;
    if (!xh_object_trusts(o, to) || to->ticket || o->url->user || x->request->token_reread)
        return 0;
    x->request->token_reread = 1;
    int differs = xh_object_renew_token(o, x->token);
    xh_engine_lock();
    struct xh_token *drop = x->token;
    x->token = xh_token_ref(o->token);
    xh_engine_unlock();
    xh_token_unref(drop);
    return differs;
}

/* 1 when |u| ends as a directory's URL does: servers send to that whoever asks for the directory without the slash. */
static int names_directory(const struct xh_url *u)
{
    size_t n = strcspn(u->text, "?");
    return n > 0 && u->text[n - 1] == '/';
}

static enum xh_verdict refused(const struct xh_exchange *x, struct xh_err *err)
{
    const struct xh_origin *o = x->job->origin;
    int status = x->reply.status;
    const char *what = status == 401 ? "401 Unauthorized" : "403 Forbidden";
    char tells[300] = "", cert[400] = "", why[160] = "";
    if (x->url->ticket && x->url == o->url)
        return fail(x, err, XH_E_ACCES, status,
                    "%s: the URL carries its own authorisation in its query, so nothing else was sent beside it, and it was "
                    "refused: most likely it has expired. Get a new one", what);
    if (x->url->ticket) { /* made by the first server, XRootD's out of the token */
        if (x->token && x->token->value)
            xh_token_describe(x->token, (long long)time(NULL), tells, sizeof tells);
        return fail(x, err, XH_E_ACCES, status,
                    "%s: the server sent us there with an authorisation of its own in the URL, which was refused; it had made it for "
                    "%.160s%s", what, x->token && x->token->value ? x->token->note : "a reader without a token", tells);
    }
    if (status == 403 && names_directory(x->url) && xh_url_same_server(x->url, o->url))
        return fail(x, err, XH_E_ACCES, status, "%s: this is the URL of a directory, and the server does not show "
                                                "what is in it. Name a file in it", what);
    if (o->url->user)
        return fail(x, err, XH_E_ACCES, status, "%s: %s were refused", what, o->login);
    if (!o->url->https)
        return fail(x, err, XH_E_ACCES, status, "%s: no token is sent over http; use https", what);
    const struct xh_token *t = x->token;
    int by_file = o->options.namer.by_file != 0, have = (t && t->value) || o->cert.path[0];
    if (by_file && (have || o->options.netrc) && !xh_object_trusts(o, x->url))
        return fail(x, err, XH_E_ACCES, status, XH_AUTH_WITHHELD, what, o->options.namer.parent);
    if (have && !xh_object_trusts(o, x->url))
        return fail(x, err, XH_E_ACCES, status,
                    "%s: no token or certificate is sent to a server that the URL does not name. If it may have them, "
                    "name its host in XHDF5_CREDENTIAL_HOSTS", what);
    xh_engine_lock();
    int no_cert = o->no_cert;
    xh_engine_unlock();
    if (x->cert_sent || no_cert)
        snprintf(cert, sizeof cert, "; the certificate %.120s was offered%s", o->cert.path,
                 no_cert ? ", and the server would not talk to its owner" : " too");
    else if (o->cert.note[0])
        snprintf(cert, sizeof cert, "; %.380s", o->cert.note);
    if (x->reply.reason[0])
        snprintf(why, sizeof why, "; the server says: %.120s", x->reply.reason);
    if (t && t->value && x->token_sent) {
        xh_token_describe(t, (long long)time(NULL), tells, sizeof tells);
        return fail(x, err, XH_E_ACCES, status,
                    "%s: %.160s was refused%s%s%s. Get one that is valid, meant for this server, and covers this path",
                    what, t->note, tells, why, cert);
    }
    return fail(x, err, XH_E_ACCES, status,
                "%s: no token was found (%.200s)%s%s. Set BEARER_TOKEN_FILE to a file with one", what,
                t ? t->note : "", why, cert);
}

/* Copies the title of the page that came, for an error; "" when there is none, or one with a word as long as a
 * secret. */
static void take_title(const struct xh_exchange *x, char *out, size_t size)
{
    const char *p = strcasestr(x->said, "<title"), *from = p ? strchr(p, '>') : NULL, *end = from ? strchr(from, '<') : NULL;
    size_t used = 0, word = 0;
    out[0] = '\0';
    for (p = end ? from + 1 : NULL; p && p < end && used + 1 < size; p++) {
        int blank = strchr(" \t\r\n", *p) != NULL;
        if (blank && (used == 0 || out[used - 1] == ' '))
            continue;
        if ((word = blank ? 0 : word + 1) > TITLE_WORD_BYTES) {
            out[0] = '\0';
            return;
        }
        out[used++] = blank ? ' ' : *p;
        out[used] = '\0';
    }
}

/* 1 when the page is a directory's listing. */
static int is_listing(const struct xh_exchange *x, const char *title)
{
    static const char *const begins[] = {"Index of ", "Directory listing", "Listing of", "Directory: "};
    int found = names_directory(x->job->origin->url) || strstr(x->said, "<h1>Listing of: ") /* XRootD */;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        found |= strncasecmp(title, begins[i], strlen(begins[i])) == 0;
    return found;
}

/* How to be let in, and what was sent for it. */
static void say_how(const struct xh_exchange *x, char *out, size_t size)
{
    const struct xh_origin *o = x->job->origin;
    const struct xh_token *t = x->token;
    char tells[200] = "";
    if (!o->url->https)
        snprintf(out, size, "No token is sent over http: use https, and set BEARER_TOKEN_FILE to a file with one");
    else if (o->url->ticket)
        snprintf(out, size, "The URL carries its own authorisation in its query: most likely that has expired, get "
                            "a new one");
    else if (o->url->user)
        snprintf(out, size, "What was sent, %.100s, did not help", o->login);
    else if (!xh_object_trusts(o, o->url) && ((t && t->value) || o->cert.path[0]))
        snprintf(out, size, "No token or certificate is sent there, as not the program names this URL: if the "
                            "server may have them, name its host "
                 "in XHDF5_CREDENTIAL_HOSTS");
    else if (t && t->value) {
        xh_token_describe(t, (long long)time(NULL), tells, sizeof tells);
        snprintf(out, size, "What was sent, %.120s%s, did not help: get one that is valid for this server", t->note, tells);
    } else {
        snprintf(out, size, "No token was found (%.160s): set BEARER_TOKEN_FILE to a file with one, or "
                            "XHDF5_NETRC=on for a name and password",
                 t ? t->note : "");
    }
}

/* A web page in place of the file. */
static enum xh_verdict judge_page(struct xh_exchange *x, struct xh_err *err)
{
    struct xh_origin *o = x->job->origin;
    char title[TITLE_BYTES], quoted[TITLE_BYTES + 4] = "", how[420];
    int remembered = x->request->hops == 0 && x->url != o->url;
    if ((remembered && goes_back(x)) || token_renewed(x)) {
        if (x->request->url)
            from_original(x);
        xh_count(o->counters, retries, 1);
        return XH_VERDICT_AGAIN;
    }
    take_title(x, title, sizeof title);
    if (title[0])
        snprintf(quoted, sizeof quoted, " \"%s\"", title);
    const char *host = strstr(x->url->server, "://") + 3;
    if (is_listing(x, title))
        return fail(x, err, XH_E_ACCES, x->reply.status,
                    "this is a directory: the server sent a web page%s with its listing, from %.100s. Name a file "
                    "in it", quoted, host);
    say_how(x, how, sizeof how);
    if (o->opened)
        return fail(x, err, XH_E_ACCES, x->reply.status,
                    "the session ended: in place of the file the server now sends a web page%s, from %.100s. %s", quoted, host, how);
    return fail(x, err, XH_E_ACCES, x->reply.status,
                "the server sent a web page%s, from %.100s, in place of the file: it wants a login, or has no such "
                "file. %s", quoted, host, how);
}

/* A certificate that a server does not like, nginx answers with 400 and others by breaking the handshake, whatever
 * is asked for. One that was found in /tmp must not spoil the access to public data. 1: go on without it. */
static int without_certificate(struct xh_exchange *x)
{
    struct xh_origin *o = x->job->origin;
    if (!x->cert_sent)
        return 0;
    xh_engine_lock();
    o->no_cert = 1;
    xh_engine_unlock();
    xh_trace(XH_T_ORIGIN, "certificate", "id=%p refused=1", (void *)x->request);
    return 1;
}

/* 1 when a TLS alert may be what ended |x|: a reset that follows can overtake it. Twice in a row, and nothing has come
 * from this server yet. */
static int alert_lost(const struct xh_exchange *x)
{
    const struct xh_origin *o = x->job->origin;
    xh_engine_lock();
    int stranger = !o->served;
    xh_engine_unlock();
    return stranger && x->opened > 0 && x->request->failures > 0;
}

/* How long the token is that was sent, if that may be what a server objects to; else 0. */
static size_t long_token(const struct xh_exchange *x)
{
    size_t n = x->token_sent ? strlen(x->token->value) : 0;
    return n > LONG_TOKEN_BYTES ? n : 0;
}

/* 403 with a time after which to ask again is no word on who may read. */
static int asks_too_often(const struct xh_exchange *x)
{
    return x->reply.status == 403 && x->reply.retry_after_s >= 0;
}

/* 1 when |status| says that a multi-range request was too much. */
static int too_much(int status)
{
    return status == 400 || status == 413 || status == 414 || status == 431 || status == 494;
}

/* 1 when |status| may be another one soon: of 5xx all but those that speak of the request. 520 to 527 are what a CDN says
 * of the server behind it; what is not known counts as 500 (RFC 9110, 15). */
static int is_transient(int status)
{
    return status == 408 || status == 425 || status == 429 || (status >= 500 && status != 501 && status != 505 && status != 511);
}

/* 1 when |status| of a redirect's target may mean that the redirect is over: a signed URL is refused with 400, 401, 403,
 * 404 or 410, and much else, once its time is out. What passes by itself is waited for: see judge_status. */
static int may_have_expired(const struct xh_exchange *x, int status)
{
    if (is_transient(status))
        return 0;
    return x->job->ask == XH_ASK_STAT || (status >= 400 && status != 412 && status != 416);
}

/* 1 when |x| went straight to where an earlier request had been redirected. */
static int was_remembered(const struct xh_exchange *x)
{
    return x->url != x->job->origin->url && !x->request->url;
}

static enum xh_verdict judge_416(struct xh_exchange *x, uint64_t *delay_ms, struct xh_err *err)
{
    const struct xh_content_range *c = &x->reply.range;
    char how[96];
    if (c->given && c->unsatisfied && c->total != x->dialect.size) {
        snprintf(how, sizeof how, "it had %" PRIu64 " bytes and has %" PRIu64 " now", x->dialect.size, c->total);
        return changed(x, err, 416, how);
    }
    if (x->asked > 1)
        return go_single_doubting(x, "416");
    fail(x, err, XH_E_PROTO, 416, "416 Range Not Satisfiable for bytes %" PRIu64 "-%" PRIu64 " of %" PRIu64,
         x->from, x->to - 1, x->dialect.size);
    /* An XRootD redirector says so, and no size, while no server that has the file is there. */
    return c->given ? XH_VERDICT_FAIL : later(x, (unsigned)x->job->origin->options.retries, 0, delay_ms);
}

/* 1 when XRootD's 500 means a path that goes through a file, as h5ls tries them: its text is
 * "Unable to open|locate PATH; not a directory" and an end of line (XRootD 5.8.1). */
static int goes_through_file(const struct xh_exchange *x)
{
    static const char end[] = "; not a directory";
    size_t len = x->said_len, n = sizeof end - 1;
    while (len && (x->said[len - 1] == '\n' || x->said[len - 1] == '\r'))
        len--;
    return len >= n && memcmp(x->said + len - n, end, n) == 0;
}

/* 1 when a server says so that plain HTTP came where it wants TLS: nginx, Apache, Go's and Java's servers. */
static int wants_tls(const char *said)
{
    return strstr(said, "HTTPS port") || strstr(said, "speaking plain HTTP") || strcasestr(said, "to an HTTPS server") ||
           strstr(said, "requires TLS");
}

/* A final status that is not a success. */
static enum xh_verdict judge_status(struct xh_exchange *x, uint64_t *delay_ms, struct xh_err *err)
{
    struct xh_origin *o = x->job->origin;
    int status = x->reply.status;
    enum xh_verdict v;
    if ((is_transient(status) || asks_too_often(x)) && xh_reply_retry_after_ms(&x->reply)) {
        xh_engine_lock();
        xh_endpoint_hold(x->request->endpoint, xh_reply_retry_after_ms(&x->reply));
        xh_engine_unlock();
    }
    if (status == 301 || status == 302 || status == 303 || status == 307 || status == 308)
        return judge_redirect(x, err);
    if (status == 400 && !x->url->https && wants_tls(x->said))
        return fail(x, err, XH_E_PROTO, status, "this port speaks TLS: write https:// instead of http:// in the URL");
    if (status == 400 && strstr(x->said, "SSL certificate") && without_certificate(x)) {
        xh_count(o->counters, retries, 1);
        return XH_VERDICT_AGAIN;
    }
    /* What a remembered target says of several ranges it may say of anything by now. */
    if (x->asked > 1 && too_much(status))
        return was_remembered(x) && goes_back(x) ? again(x) : shows_limit(x, 0, "too much");
    if (x->asked > 1 && status == 501)
        return shows_limit(x, 1, "501");
    if (may_have_expired(x, status) && !asks_too_often(x) && goes_back(x))
        return again(x);
    if (status == 500 && too_wide(x, &v))
        return v;
    switch (status) {
    case 401: case 403:
        if (asks_too_often(x)) {
            fail(x, err, XH_E_STATUS, status, "403 with Retry-After: the server limits how often one may ask. %" PRIu64 " retries did not help: "
                 "ask it less often, or from fewer processes", o->options.retries);
            return later(x, (unsigned)o->options.retries, xh_reply_retry_after_ms(&x->reply), delay_ms);
        }
        if (token_renewed(x)) {
            if (x->url != o->url && x->url->ticket) /* which was made out of the old one */
                from_original(x);
            return XH_VERDICT_AGAIN;
        }
        return refused(x, err);
    case 404:
        return fail(x, err, XH_E_NOENT, status, "404 Not Found: there is no such file on the server");
    case 407: /* to http: https has a CONNECT */
        if (!xh_exchange_is_proxys(x))
            break;
        xh_proxy_refused(x->proxy, x->url, status, err);
        return XH_VERDICT_FAIL;
    case 410:
        return fail(x, err, XH_E_NOENT, status, "410 Gone: the file was removed from the server");
    case 412:
        if (x->job->ask != XH_ASK_RANGES)
            break;
        if (!xh_dialect_matches(&x->dialect))
            return changed(x, err, status, "its ETag is another one now");
        /* Or the server does not know its own ETag, as some that stand behind what packs replies: their replies tell. */
        xh_engine_lock();
        o->dialect.no_match = 1;
        xh_engine_unlock();
        xh_count(o->counters, retries, 1);
        return XH_VERDICT_AGAIN;
    case 416:
        if (x->job->ask == XH_ASK_RANGES)
            return judge_416(x, delay_ms, err);
        return XH_VERDICT_DONE;
    case 400: case 413: case 431: case 494:
        if (long_token(x))
            return fail(x, err, XH_E_ACCES, status,
                        "status %d: %.160s is %zu bytes long, most likely more than this server takes. Its operator can "
                        "raise the limit (nginx: large_client_header_buffers 4 64k); a token with fewer claims is shorter",
                        status, x->token->note, long_token(x));
        break;
    case 304:
        if (x->job->ask == XH_ASK_HEAD && x->job->probe->if_none_match)
            return XH_VERDICT_DONE;
        break;
    case 500:
        if (goes_through_file(x))
            return fail(x, err, XH_E_NOENT, status,
                        "500, not a directory: there is no such file on the server, a part of the path is a file");
        if (x->token_sent && strlen(x->token->value) > REDIRECTED_TOKEN_BYTES) {
            fail(x, err, XH_E_STATUS, status,
                 "status 500, %" PRIu64 " retries did not help. %.160s is %zu bytes long: an XRootD redirector fails so when it is "
                 "longer than about 1,900 bytes", o->options.retries, x->token->note, strlen(x->token->value));
            return later(x, (unsigned)o->options.retries, 0, delay_ms);
        }
        break;
    case 501:
        if (x->job->ask == XH_ASK_STAT)
            break;
        return fail(x, err, XH_E_STATUS, status,
                    "501 Not Implemented: the server does not know what it was asked, bytes %" PRIu64 "-%" PRIu64 " of the file (GET "
                    "with a Range header). Ask its operator to switch range requests on", x->from, x->to ? x->to - 1 : 0);
    default:
        break;
    }
    if (is_transient(status)) {
        fail(x, err, XH_E_STATUS, status,
             "status %d, %" PRIu64 " retries did not help: the server is overloaded or broken", status,
             o->options.retries);
        if (was_remembered(x)) /* after the pause the first server says who has the file by then */
            from_original(x);
        return later(x, (unsigned)o->options.retries, xh_reply_retry_after_ms(&x->reply), delay_ms);
    }
    if (x->job->ask == XH_ASK_STAT) /* the prober knows what to make of it */
        return XH_VERDICT_DONE;
    return fail(x, err, XH_E_STATUS, status, "the server answered with status %d, which cannot be used here", status);
}

/* A server that has never answered http may want TLS. */
static const char *perhaps_tls(const struct xh_exchange *x)
{
    const struct xh_origin *o = x->job->origin;
    xh_engine_lock();
    int stranger = !o->served;
    xh_engine_unlock();
    return stranger && !x->url->https && x->reply.status == 0 ? ". If this port speaks TLS, write https:// in the URL" : "";
}

/* The network failed before the reply was whole. */
static enum xh_verdict judge_net(struct xh_exchange *x, const struct xh_outcome *out, uint64_t *delay_ms,
                                 struct xh_err *err)
{
    struct xh_origin *o = x->job->origin;
    unsigned retries = (unsigned)o->options.retries;
    unsigned few = retries < 2 ? retries : 2;
    char buf[XH_HANDLE_ADVICE_BYTES];
    const char *advice = xh_handle_advice(out->text, buf);
    struct xh_transfer *t = x->job->transfer;
    if (t && t->full && t->full(t)) /* a server does not wait for ever, and nobody wants more */
        return fail(x, err, XH_E_CANCELLED, 0, "the connection broke off while the stream stood still");
    if (out->net >= XH_NET_NAME && out->net <= XH_NET_HANDSHAKE && x->reply.status == 0 && goes_back(x)) {
        xh_count(o->counters, retries, 1);
        return XH_VERDICT_AGAIN;
    }
    if ((out->net == XH_NET_HANDSHAKE || out->net == XH_NET_BROKEN) && x->reply.status == 0 &&
        (strstr(out->text, "alert") || alert_lost(x)) && without_certificate(x)) {
        xh_count(o->counters, retries, 1);
        return XH_VERDICT_AGAIN;
    }
    if (out->net == XH_NET_BROKEN && x->reply.status == 0 && long_token(x)) {
        fail(x, err, XH_E_ACCES, 0,
             "the server hung up on the request. %.160s is %zu bytes long, most likely more than it takes (XRootD: 32 KiB). "
             "A token with fewer claims is shorter", x->token->note, long_token(x));
        return later(x, few, 0, delay_ms);
    }
    switch (out->net) {
    case XH_NET_NAME:
        fail(x, err, XH_E_NET, 0, "the %s name does not resolve (%s)",
             x->proxy ? "server's, or its proxy's," : "server's", out->text);
        return later(x, few, 0, delay_ms);
    case XH_NET_CONNECT:
        if (x->proxy)
            fail(x, err, XH_E_NET, 0, "no connection to the server through the proxy %.200s of %s after %u retries (%s)",
                 x->proxy->text, x->proxy->from, retries, out->text);
        else
            fail(x, err, XH_E_NET, 0, "no connection to the server after %u retries (%s)", retries, out->text);
        return later(x, retries, 0, delay_ms);
    case XH_NET_CONNECT_TIMEOUT:
        fail(x, err, XH_E_TIMEOUT, 0, "no connection to the server within %" PRIu64 " ms, after %u retries",
             o->options.connect_timeout_ms, retries);
        return later(x, retries, 0, delay_ms);
    case XH_NET_STALL:
        fail(x, err, XH_E_TIMEOUT, x->reply.status, "no byte for %" PRIu64 " ms, after %u retries",
             o->options.stall_timeout_ms, retries);
        return later(x, retries, 0, delay_ms);
    case XH_NET_CRAWL:
        fail(x, err, XH_E_TIMEOUT, x->reply.status, "only %zu bytes in %" PRIu64 " ms, after %u retries", x->pace_bytes,
             2 * o->options.stall_timeout_ms, retries);
        return later(x, retries, 0, delay_ms);
    case XH_NET_UNTRUSTED:
        if (advice)
            return fail(x, err, XH_E_TLS, 0, "the server's certificate was not accepted (%s). %s", out->text, advice);
        return fail(x, err, XH_E_TLS, 0,
                    "the server's certificate was not accepted (%s). CAs: %.160s. If the server's CA is another one, "
                    "name its PEM file with XHDF5_CA_BUNDLE",
                    out->text, o->trust.note);
    case XH_NET_HANDSHAKE:
        if (advice)
            return fail(x, err, XH_E_TLS, 0, "no TLS session with the server (%s). %s", out->text, advice);
        fail(x, err, XH_E_TLS, 0, "no TLS session with the server (%s)%s%.200s", out->text, o->cert.note[0] ? "; " : "",
             o->cert.note);
        return later(x, few, 0, delay_ms);
    case XH_NET_BAD_HTTP:
        return fail(x, err, XH_E_PROTO, 0, "the server does not speak HTTP/1.1 (%s)%s", out->text, perhaps_tls(x));
    case XH_NET_PROXY:
        if (xh_proxy_refused(x->proxy, x->url, out->proxy_status, err))
            return XH_VERDICT_FAIL;
        return later(x, few, 0, delay_ms);
    case XH_NET_TURN: /* no failure: somebody asks the proxy just now */
        *delay_ms = PROXY_TURN_MS;
        return XH_VERDICT_LATER;
    case XH_NET_LOCAL:
        return fail(x, err, XH_E_NOMEM, 0, "out of memory (%s)", out->text);
    case XH_NET_CANCELLED:
        return fail(x, err, XH_E_CANCELLED, 0, "the transfer was cancelled");
    case XH_NET_EXITING:
        return fail(x, err, XH_E_SYS, 0, "the process is exiting");
    default:
        fail(x, err, XH_E_NET, x->reply.status, "the connection broke off, also after %u retries (%s)%s", retries,
             out->text[0] ? out->text : "reply cut short", perhaps_tls(x));
        return later(x, retries, 0, delay_ms);
    }
}

/* 200 or 206 to a GET of ranges, without a fault. */
static enum xh_verdict judge_ranges(struct xh_exchange *x, const struct xh_outcome *out, uint64_t *delay_ms,
                                    struct xh_err *err)
{
    struct xh_request *r = x->request;
    if (x->reply.status == 200 && x->dialect.size > x->job->origin->options.head_bytes)
        xh_object_comes_whole(x->job->origin);
    if (x->reply.status == 206)
        r->whole_seen = 0;
    if (x->reply.status == 206 && x->dialect.whole) { /* it does now: what it sent at first was a cache that filled */
        xh_engine_lock();
        x->job->origin->dialect.whole = 0;
        xh_engine_unlock();
    }
    if (complete(x, 0)) {
        r->failures = 0;
        learn_limits(x);
        return complete(x, 1) ? XH_VERDICT_DONE : XH_VERDICT_AGAIN;
    }
    if (out->net != XH_NET_OK && !x->tail_ns)
        return judge_net(x, out, delay_ms, err);
    /* The reply was whole, in what was wanted of it, and brought less than was asked. */
    if (x->asked > 1 && x->take == XH_TAKE_RANGE)
        return shows_limit(x, 1, "one range of several");
    if (x->asked > 1 && x->fresh == 0)
        return is_nonsense(x, "an empty reply");
    if (x->fresh > 0 && r->repeats++ < 8 * x->job->origin->options.retries + 1000)
        return x->asked > 1 ? go_single_doubting(x, "ranges are missing") : again(x);
    fail(x, err, XH_E_PROTO, x->reply.status, "the reply lacks bytes that were asked for");
    return later(x, (unsigned)x->job->origin->options.retries, 0, delay_ms);
}

/* 200, 206 or 207 to a probe, without a fault. */
static enum xh_verdict judge_probe(struct xh_exchange *x, const struct xh_outcome *out, uint64_t *delay_ms,
                                   struct xh_err *err)
{
    struct xh_probe *p = x->job->probe;
    if (out->net != XH_NET_OK && !x->tail_ns)
        return judge_net(x, out, delay_ms, err);
    if (x->job->ask == XH_ASK_STAT)
        return XH_VERDICT_DONE;
    if (!p->size_known) { /* a whole body of unknown length that ended within the limit */
        p->size = p->len;
        p->size_known = 1;
    } else if (x->data_left > 0) {
        fail(x, err, XH_E_PROTO, x->reply.status, "the reply is shorter than it promised");
        return later(x, (unsigned)x->job->origin->options.retries, 0, delay_ms);
    }
    return XH_VERDICT_DONE;
}

/* A request worked: at the end of redirects, later ones go there at once. When data comes from another server than
 * before, or than the date, its copy may be of another version, which XRootD's replies do not tell. Where the servers
 * that have the data refuse PROPFIND and the first one answers it, there is no date of a copy: to ask for it whenever
 * data comes from where the date did not would be to ask with each reply. */
static void remember_server(struct xh_exchange *x)
{
    struct xh_origin *o = x->job->origin;
    struct xh_request *r = x->request;
    int data = x->job->ask != XH_ASK_STAT;
    if (x->job->probe)
        x->job->probe->server_hash = xh_url_server_hash(x->url);
    xh_engine_lock();
    if (!data && r->returns > 0 && x->url == o->url)
        o->dates_at_first = 1;
    if (data && r->url && o->target != r->url) {
        xh_url_unref(o->target);
        o->target = xh_url_ref(r->url);
    }
    if ((data || !o->dates_at_first) && (!o->served || !xh_url_same_server(o->served, x->url))) {
        o->check_due = data && o->served && o->opened && !o->closing && !o->dates_at_first;
        xh_url_unref(o->served);
        o->served = xh_url_ref(x->url);
        if (o->check_due)
            xh_probe_revalidate(o);
    }
    xh_engine_unlock();
}

static enum xh_verdict judge(struct xh_exchange *x, const struct xh_outcome *out, uint64_t *delay_ms, struct xh_err *err)
{
    int status = x->reply.status;
    if (out->net == XH_NET_EXITING || out->net == XH_NET_CANCELLED)
        return judge_net(x, out, delay_ms, err);
    if (x->fault != XH_FAULT_NONE)
        return judge_fault(x, delay_ms, err);
    if (!x->reply.over)
        return judge_net(x, out, delay_ms, err);
    if (x->page || (x->take == XH_TAKE_DOUBT && out->net == XH_NET_OK)) /* the latter: without a byte */
        return judge_page(x, err);
    if (x->job->ask == XH_ASK_STAT ? status != 207 : status != 206 && status != 200)
        return judge_status(x, delay_ms, err);
    remember_server(x);
    if (x->job->probe)
        return judge_probe(x, out, delay_ms, err);
    return judge_ranges(x, out, delay_ms, err);
}

/* Whatever a server did behind the last byte that was wanted: a slice of which nothing is missing is done. */
enum xh_verdict xh_exchange_judge(struct xh_exchange *x, const struct xh_outcome *out, uint64_t *delay_ms,
                                  struct xh_err *err)
{
    enum xh_verdict v = judge(x, out, delay_ms, err);
    int repeats = v == XH_VERDICT_AGAIN || v == XH_VERDICT_LATER;
    return repeats && x->job->ask == XH_ASK_RANGES && complete(x, 1) ? XH_VERDICT_DONE : v;
}
