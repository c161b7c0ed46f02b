/* Verdicts: see verdict.h.
 *
 * Order of judgement: a web page in place of the file; a fault found in the reply; a status other than success; the
 * bytes that came; the network. Every path either makes progress, counts a failure (bounded by the option retries),
 * asks for fewer ranges (bounded by 1) or goes by the original URL again (bounded): so each request ends. */
#include "verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "login.h"
#include "tls_advice.h"
#include "sentence.h"
#include "verdict_s3.h"

#define RETURNS_MAX      4u
#define HASTY_RETRIES    1u
#define BACKOFF_FIRST_MS 100u
#define BACKOFF_MAX_MS   10000u
#define SCRAPS_MOST      1000u /* a server that sends a byte a reply would else hold a read for ever */
#define NONSENSE_MOST    2u    /* so often a request of several ranges is sent before its ranges are asked for singly */
#define LONG_TOKEN_BYTES 4096u /* servers bear headers of 8 KiB and more */
#define REDIRECTED_TOKEN_BYTES 1500u

/* Ends the request with a sentence. */
#define FAIL(...) (xh_sentence(a, &v->err, __VA_ARGS__), XH_NEXT_FAIL)

static unsigned retries_of(const struct xh_attempt *a)
{
    return (unsigned)a->x->options->retries;
}

uint64_t xh_backoff_ms(unsigned failures, uint32_t dice)
{
    uint64_t ms = BACKOFF_FIRST_MS;
    for (unsigned i = 1; i < failures && ms < BACKOFF_MAX_MS; i++)
        ms *= 2;
    if (ms > BACKOFF_MAX_MS)
        ms = BACKOFF_MAX_MS;
    return ms / 2 + dice % (ms / 2 + 1);
}

/* Forgets where the request was redirected to: the original URL decides anew. */
static void from_original(struct xh_verdict *v)
{
    v->forgets = 1;
    v->tries.hops = 0;
    v->tries.login = XH_LOGIN_NOWHERE;
    v->tries.from_original = 1;
}

/* A redirect's target failed: 1 when the original URL is to be asked again instead. Once
 * while opening; more often later, as what worked before has most likely expired. */
static int goes_back(const struct xh_attempt *a, struct xh_verdict *v)
{
    if (a->x->url == a->first || v->tries.returns >= (a->opened ? RETURNS_MAX : 1))
        return 0;
    v->tries.returns++;
    from_original(v);
    return 1;
}

/* 1 when |a| looks for what most likely does not exist: nothing waits because of it, and it is not asked for again. */
static int is_mere_look(const struct xh_attempt *a)
{
    return a->x->options->doubtful && !a->opened;
}

/* One more failure worth retrying: LATER, or FAIL with the error, which the caller has set. */
static enum xh_next later(const struct xh_attempt *a, struct xh_verdict *v, unsigned retries, uint64_t at_least_ms)
{
    struct xh_tries *t = &v->tries;
    if (a->hasty) {
        retries = retries > HASTY_RETRIES ? HASTY_RETRIES : retries;
        if (at_least_ms)
            return XH_NEXT_FAIL;
    }
    /* A server that wants to be left alone is not asked again for what nobody waits for. */
    if ((at_least_ms && a->speculative) || (a->x->reply.status >= 400 && is_mere_look(a)))
        return XH_NEXT_FAIL;
    if (a->x->fresh >= XH_PROGRESS_BYTES)
        t->failures = 0;
    if (t->failures++ == 0)
        t->row_ns = a->x->begun_ns ? a->x->begun_ns : a->now_ns;
    t->repeats++;
    int waits = v->waits && retries && a->now_ns - t->row_ns < a->x->options->stall_timeout_ms * 1000000u;
    if ((t->failures > retries && !waits) || t->repeats > 8 * retries + 8)
        return XH_NEXT_FAIL;
    if (a->redirected)
        from_original(v);
    v->delay_ms = xh_backoff_ms(waits && t->failures > retries ? retries : t->failures, a->dice);
    if (v->delay_ms < at_least_ms)
        v->delay_ms = at_least_ms;
    v->retries++;
    return XH_NEXT_LATER;
}

/* A server, or what is before it, has refused |a|'s request or the connection for it, beside |others| that are there
 * (0: this says nothing of how many there may be). If bytes of a file came over those since it last refused this one,
 * that is no failure in a row: the row begins anew, in its midst, lest pauses become short again. If some came
 * meanwhile, too, it serves no more at once than those: a single refusal may be a bad moment. Returns 1 where the row
 * begins anew. */
static int pardon(const struct xh_attempt *a, struct xh_verdict *v, unsigned others)
{
    struct xh_tries *t = &v->tries;
    unsigned midst = retries_of(a) / 2;
    int serves = t->refused_since_ns && a->heard_ns > t->refused_since_ns;
    if (serves || !t->refused_since_ns)
        t->refused_since_ns = a->now_ns;
    if (others && serves && a->heard_ns > a->x->begun_ns)
        xh_limits_serves(&v->limits, others, a->now_ns);
    if (serves)
        t->row_ns = a->x->begun_ns ? a->x->begun_ns : a->now_ns;
    if (serves && t->failures > midst)
        t->failures = midst;
    return serves;
}

/* Sent again at once, in another way. */
static enum xh_next again(struct xh_verdict *v)
{
    v->retries++;
    return XH_NEXT_AGAIN;
}

/* The same, which the trace tells of. */
static enum xh_next again_for(struct xh_verdict *v, const char *event, const char *why)
{
    v->event = event;
    v->why = why;
    return again(v);
}

/* The answer to several ranges shows that this server does not do them, or not so many: all its files are read by fewer
 * for a while. |nranges| 0: half as many as were asked for. */
static enum xh_next shows_limit(const struct xh_attempt *a, struct xh_verdict *v, unsigned nranges, const char *why)
{
    if (nranges)
        xh_limits_cap(&v->limits, nranges, a->now_ns);
    else
        xh_limits_halve(&v->limits, a->x->asked, a->x->range_bytes, a->now_ns);
    return again_for(v, "limit", why);
}

/* Single ranges from now on for this request; it says nothing of others. */
static enum xh_next go_single(struct xh_verdict *v, const char *why)
{
    v->tries.most_ranges = 1;
    return again_for(v, "single", why);
}

/* The same. What was wrong may have been this answer's fault alone, or the server's. */
static enum xh_next go_single_doubting(const struct xh_attempt *a, struct xh_verdict *v, const char *why)
{
    xh_limits_doubt(&v->limits, a->now_ns);
    return go_single(v, why);
}

/* An answer to several ranges that was none: the same once more, then single ranges. */
static enum xh_next is_nonsense(const struct xh_attempt *a, struct xh_verdict *v, const char *why)
{
    if (++v->tries.nonsense >= NONSENSE_MOST)
        return go_single_doubting(a, v, why);
    return again_for(v, "nonsense", why);
}

/* 1 when |x| asked for so much of a small file that a server may rather send all of it: nginx does where the ranges and
 * some 256 bytes for each come to more than the file has. That says nothing of other files. */
static int asks_for_most(const struct xh_exchange *x)
{
    return x->asked_bytes + 256u * x->asked > x->dialect.size / 2;
}

/* A 500 to several ranges, or a hang-up, is a limit (XRootD 5.5; a server that trips over them) or a bad moment, which
 * a pause helps: so first a pause; if it comes again, half as many for this request; and when these worked and a later
 * request of more fails, it is a limit.
 * Returns 1 when fewer are to be asked for at once. */
static int too_wide(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    if (x->asked < 2)
        return 0;
    int limit = xh_limits_failed(&v->limits, x->asked, x->sent_ns, a->now_ns);
    if (!limit && v->tries.wide_failures++ == 0 && x->options->retries)
        return 0;
    v->tries.most_ranges = x->asked / 2;
    v->tries.failed_ranges = x->asked;
    return 1;
}

/* All came that was asked for. */
static void learn_limits(const struct xh_attempt *a, struct xh_verdict *v)
{
    if (a->x->asked < 2 && !v->tries.failed_ranges)
        return;
    if (v->tries.failed_ranges)
        xh_limits_worked(&v->limits, a->x->asked, a->x->sent_ns);
    else
        xh_limits_good(&v->limits, a->x->asked, a->x->sent_ns);
    v->tries.failed_ranges = v->tries.wide_failures = 0;
}

/* 1 when another ETag came with the date that the file had: so machines that share a name answer where they do not
 * agree on ETags. */
static int keeps_its_date(const struct xh_exchange *x)
{
    const struct xh_dialect *d = &x->dialect;
    return d->proof == XH_BY_ETAG && d->changed != (time_t)-1 && xh_http_date(x->reply.last_modified) == d->changed &&
           !xh_dialect_shows(d, x->reply.etag, x->reply.last_modified, NULL, 0);
}

static enum xh_next changed(const struct xh_attempt *a, struct xh_verdict *v, int status, const char *how)
{
    v->changed = 1;
    const struct xh_exchange *x = a->x;
    char came[XH_CAME_BYTES];
    if (x->reply.encoded && (status == 200 || status == 206))
        return FAIL(XH_E_CHANGED, status,
                    "the file was changed on the server while it was open (%s), or something else comes in its place: "
                    "a reply, %s, from %.100s. Close and open it again",
                    how, xh_sentence_came(&x->reply, came, sizeof came), xh_url_host(x->url->server));
    if (keeps_its_date(x))
        return FAIL(XH_E_CHANGED, status,
                    "the file was changed on the server while it was open (%s; its date is as before). Close and open "
                    "it again. If that comes again, several machines answer under this name, each with an ETag of its "
                    "own for the same file: tell their operator",
                    how);
    return FAIL(XH_E_CHANGED, status,
                "the file was changed on the server while it was open (%s). Close and open it again", how);
}

static enum xh_next judge_fault(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    int status = x->reply.status;
    switch (x->fault) {
    case XH_FAULT_CHANGED: return changed(a, v, status, x->why);
    case XH_FAULT_MULTI:
        if (x->asked > 1)
            return is_nonsense(a, v, x->why);
        break;
    case XH_FAULT_LIMIT: return asks_for_most(x) ? go_single(v, x->why) : shows_limit(a, v, 1, x->why);
    case XH_FAULT_NO_RANGES:
        xh_sentence(a, &v->err, XH_E_PROTO, status,
                    "the server does not do range requests (it answers 200 with the whole file), so only files up to "
                    "%" PRIu64 " bytes can be read from it (the option whole_file_bytes). `xhdf5 get` fetches this one "
                    "to a disk; or ask the server's operator to switch range requests on",
                    x->options->whole_file_bytes);
        /* Some caches answer so only while they fill: one more try. A whole of another length is no answer to us, but
         * what an earlier reply left on the connection. */
        if (x->probe && !x->probe->insists)
            return XH_NEXT_FAIL;
        int seen = v->tries.whole_seen; /* whatever else has failed before: a server that is busy may do so too */
        int strange = !x->probe && x->reply.length_given && x->reply.length != x->dialect.size;
        v->tries.whole_seen = 1;
        return seen && !strange ? XH_NEXT_FAIL : later(a, v, retries_of(a), 0);
    case XH_FAULT_LOCAL: return FAIL(XH_E_NOMEM, 0, "%s", x->why);
    default: break;
    }
    return FAIL(XH_E_PROTO, status, "the server's reply makes no sense: %s", x->why);
}

/* 1 when |x| went straight to where an earlier request had been redirected. */
static int was_remembered(const struct xh_attempt *a)
{
    return a->x->url != a->first && !a->redirected;
}

static enum xh_next judge_redirect(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    int status = x->reply.status;
    if (x->reply.location[0] == '\0')
        return FAIL(XH_E_PROTO, status, "status %d without a usable Location", status);
    if (++v->tries.hops > XH_HOPS_MOST)
        return FAIL(XH_E_PROTO, status, "redirected more than %u times: a loop on the server", XH_HOPS_MOST);
    v->tries.sent_away |= x->ask == XH_ASK_STAT && was_remembered(a);
    /* A target that sends elsewhere is over. The original URL has what a target never knew: dCache's pools take a
     * ticket from one connection, and send others back to the door, without the macaroon that it wants. */
    if (x->ask == XH_ASK_RANGES && was_remembered(a) && goes_back(a, v)) {
        v->bounced = 1;
        return again(v);
    }
    if (xh_proxy_follow(a->proxies, x->url, x->reply.location, &v->to, &v->err) == 0) {
        xh_s3_follow(a->first, v->to);
        return XH_NEXT_AGAIN;
    }
    v->err.status = status;
    return XH_NEXT_FAIL;
}

/* 1 when a web page came in place of the file: by its type; by its first bytes, where it does not show the opened
 * version; or a text that does not, with 200, as some logins have it. An HDF5 file that is served as text is none, but
 * for a user block, behind which its signature is. */
static int is_page(const struct xh_attempt *a)
{
    const struct xh_exchange *x = a->x;
    int status = x->reply.status;
    int begins = xh_reply_begins_page(x->said, x->said_len, x->reply.html);
    if (x->ask == XH_ASK_HEAD)
        return x->page || (x->take == XH_TAKE_DOUBT && a->out->net == XH_NET_OK &&
                           (begins == 1 || x->reply.html || xh_reply_is_text(&x->reply, x->said, x->said_len)));
    if (x->ask != XH_ASK_RANGES || x->fault == XH_FAULT_NONE || (status != 200 && status != 206) ||
        xh_reply_has_signature(x->said, x->said_len))
        return 0;
    return x->page || begins == 1 || (status == 200 && xh_reply_is_text(&x->reply, x->said, x->said_len));
}

/* Of 401, of 403 as XRootD has it, and of a web page: the token may have been renewed since it was read. 1: it was; try
 * again. */
static int token_renewed(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    /* A page is a login's, elsewhere perhaps; a redirect's ticket was made by the first server, out of the token. */
    int at_first = is_page(a) || x->url->ticket;
    const struct xh_url *to = at_first ? a->first : x->url;
    if (!(at_first ? a->trusted_first : a->trusted) || to->ticket || a->first->user || v->tries.token_reread)
        return 0;
    v->tries.token_reread = 1;
    v->looks = a->looked == XH_LOOK_NOT;
    return a->looked == XH_LOOK_OTHER || a->looked == XH_LOOK_SOON;
}

/* The server refuses although cookies were sent, or shows a page: they may have expired. 1: try again without, once. */
static int doubts_session(const struct xh_attempt *a, struct xh_verdict *v)
{
    if (!a->x->cookies_sent || v->tries.doubted || a->tries.login >= XH_LOGIN_BACK || a->x->ask == XH_ASK_STAT)
        return 0;
    v->tries.doubted = 1;
    v->doubts_session = 1;
    from_original(v);
    return 1;
}

/* A web page or another text in place of the file. */
static enum xh_next judge_page(const struct xh_attempt *a, struct xh_verdict *v)
{
    int remembered = a->tries.hops == 0 && a->x->url != a->first;
    if ((remembered && goes_back(a, v)) || token_renewed(a, v)) {
        if (a->redirected)
            from_original(v);
        return again(v);
    }
    if (doubts_session(a, v))
        return again(v);
    xh_sentence_page(a, &v->err);
    return XH_NEXT_FAIL;
}

/* A certificate that a server does not like, nginx answers with 400 and others by breaking the handshake, whatever
 * is asked for. One that was found in /tmp must not spoil the access to public data. 1: go on without it. */
static int without_certificate(const struct xh_attempt *a, struct xh_verdict *v)
{
    v->no_cert = a->x->cert_sent;
    v->event = v->no_cert ? "certificate" : v->event;
    v->why = "refused";
    return v->no_cert;
}

/* 1 when a TLS alert may be what ended |x|: a reset that follows can overtake it. Twice in a row, and nothing has come
 * from this server yet. */
static int alert_lost(const struct xh_attempt *a)
{
    return a->stranger && a->x->opened > 0 && a->tries.failures > 0;
}

/* How long the token is that was sent, if that may be what a server objects to; else 0. */
static size_t long_token(const struct xh_exchange *x)
{
    size_t n = x->token_sent && !x->url->region ? strlen(x->token->value) : 0;
    return n > LONG_TOKEN_BYTES ? n : 0;
}

/* 403 with a time after which to ask again is no word on who may read. */
static int asks_too_often(const struct xh_exchange *x)
{
    return x->reply.status == 403 && x->reply.retry_after_s >= 0;
}

/* When |a|'s request went out, or, if it was refused before, about when that was. */
static uint64_t wanted_since(const struct xh_attempt *a)
{
    return a->tries.refused_since_ns ? a->tries.refused_since_ns : a->x->sent_ns;
}

/* So are these statuses no word on the file. */
static int limits_readers(const struct xh_exchange *x)
{
    return x->reply.status == 429 || x->reply.status == 503 || asks_too_often(x);
}

/* 1 when |status| says that a multi-range request was too much. */
static int too_much(int status)
{
    return status == 400 || status == 413 || status == 414 || status == 431 || status == 494;
}

/* 1 when |status| may be another one soon: of 5xx all but those that speak of the request. 520 to 527 are what a CDN
 * says of the server behind it; what is not known counts as 500 (RFC 9110, 15). */
static int is_transient(int status)
{
    return status == 408 || status == 425 || status == 429 ||
           (status >= 500 && status != 501 && status != 505 && status != 511);
}

/* 1 when |status| of a redirect's target may mean that the redirect is over: a signed URL is refused with 400, 401,
 * 403, 404 or 410, and much else, once its time is out. What passes by itself is waited for: see judge_status. */
static int may_have_expired(const struct xh_exchange *x, int status)
{
    if (is_transient(status))
        return 0;
    return x->ask == XH_ASK_STAT || (status >= 400 && status != 412 && status != 416);
}

/* What a remembered target says of several ranges it may say of anything by now. So may a new one whose redirect was
 * over when it came. Returns 1 when the first server is to be asked again before |a|'s answer is believed: of new
 * targets once. */
static int is_doubted(const struct xh_attempt *a, struct xh_verdict *v)
{
    if (was_remembered(a))
        return 1;
    int before = v->tries.new_refused;
    v->tries.new_refused = 1;
    return !before;
}

/* ---- logins by redirect */

/* The login has failed, as v->failure says, and so has the request. */
static enum xh_next login_fails(const struct xh_attempt *a, struct xh_verdict *v, enum xh_login_end end, int status)
{
    v->login = end;
    v->failure.code = XH_E_ACCES;
    v->failure.status = status;
    return FAIL(XH_E_ACCES, status, "%s", v->failure.why);
}

/* Follows the redirect to |v->to|, which may lead to a login, or back from it. There is at most one login on the way
 * from the original URL: a second one would be a loop. */
static enum xh_next follow(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    struct xh_tries *t = &v->tries;
    struct xh_url *to = v->to;
    if (!xh_login_is_host(x->options->login_hosts, to->server) || xh_url_same_server(to, a->first)) {
        t->login = x->at_login ? XH_LOGIN_BACK : t->login == XH_LOGIN_BACK ? XH_LOGIN_IN : t->login;
        return XH_NEXT_AGAIN;
    }
    int known = xh_logins_for(a->logins, to->server) != NULL;
    if (x->ask != XH_ASK_STAT && known && t->login < XH_LOGIN_BACK) {
        if (!x->at_login)
            t->login_seen = x->login_seen;
        t->login = XH_LOGIN_THERE;
        return XH_NEXT_AGAIN;
    }
    v->to = NULL;
    enum xh_next next = XH_NEXT_DONE; /* a date is not worth a login: the prober does without */
    if (x->ask != XH_ASK_STAT && !known) {
        xh_sentence_no_login(a, to, &v->err);
        next = XH_NEXT_FAIL;
    } else if (x->ask != XH_ASK_STAT) {
        xh_sentence_login_again(to, v->failure.why);
        next = login_fails(a, v, XH_LOGIN_BAD, x->reply.status);
    }
    xh_url_unref(to);
    return next;
}

/* The login host answers by something else than a redirect back. */
static enum xh_next judge_login(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    int status = x->reply.status;
    if (is_transient(status)) {
        v->hold_ms = xh_reply_retry_after_ms(&x->reply);
        xh_sentence(a, &v->err, XH_E_STATUS, status,
                    "the login host answered with status %d, %" PRIu64 " retries did not help", status,
                    x->options->retries);
        return later(a, v, retries_of(a), v->hold_ms);
    }
    int approve = xh_sentence_login(a, v->failure.why);
    return login_fails(a, v, status == 401 && !approve ? XH_LOGIN_REFUSED : XH_LOGIN_BAD, status);
}

/* Another request has logged in meanwhile, or tried. */
static enum xh_next judge_others_login(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_login_failure *f = &a->x->login_failure;
    if (a->x->login_turn == XH_LOGIN_DONE) {
        from_original(v);
        return XH_NEXT_AGAIN;
    }
    xh_sentence(a, &v->err, f->code, f->status, "%s", f->why);
    return f->end != XH_LOGIN_NONE ? XH_NEXT_FAIL : later(a, v, retries_of(a), 0);
}

/* 1 when the reply |a| to a request that comes from a login host is a refusal: of what it brings from there. */
static int return_is_refused(const struct xh_attempt *a)
{
    int status = a->x->reply.status;
    return a->tries.login == XH_LOGIN_BACK && a->x->reply.over &&
           (is_page(a) || (status >= 400 && status < 500 && !is_transient(status)));
}

/* What |v|, the verdict on a reply behind a login, says of that: who is let in there has a session. */
static void see_session(const struct xh_attempt *a, struct xh_verdict *v)
{
    int in = v->served || (a->tries.login == XH_LOGIN_IN && !is_transient(a->x->reply.status));
    if (a->tries.login >= XH_LOGIN_BACK && a->x->reply.over && v->login == XH_LOGIN_NONE && in)
        v->login = XH_LOGIN_GOOD;
}

static enum xh_next judge_416(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    const struct xh_content_range *c = &x->reply.range;
    char how[96];
    if (c->given && c->unsatisfied && c->total != x->dialect.size) {
        snprintf(how, sizeof how, "it had %" PRIu64 " bytes and has %" PRIu64 " now", x->dialect.size, c->total);
        return changed(a, v, 416, how);
    }
    if (x->asked > 1)
        return go_single_doubting(a, v, "416");
    /* Without a size it may pass. */
    const char *who = c->given ? "" : ": an XRootD that lacks a server with it answers so, or a cache that hangs";
    xh_sentence(a, &v->err, XH_E_PROTO, 416,
                "416 Range Not Satisfiable for bytes %" PRIu64 "-%" PRIu64 " of %" PRIu64 "%s", x->from, x->to - 1,
                x->dialect.size, who);
    return c->given ? XH_NEXT_FAIL : later(a, v, retries_of(a), 0);
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

/* 401 and 403; |after_ms|: its Retry-After. */
static enum xh_next judge_refusal(const struct xh_attempt *a, struct xh_verdict *v, uint64_t after_ms)
{
    const struct xh_exchange *x = a->x;
    int status = x->reply.status;
    if (asks_too_often(x)) {
        xh_sentence(a, &v->err, XH_E_STATUS, status,
                    "403 with Retry-After: the server limits how often one may ask. %" PRIu64
                    " retries did not help: ask it less often, or from fewer processes",
                    x->options->retries);
        return later(a, v, retries_of(a), after_ms);
    }
    if (token_renewed(a, v)) {
        if (x->url != a->first && x->url->ticket) /* which was made out of the old one */
            from_original(v);
        return XH_NEXT_AGAIN;
    }
    if (status == 401 && doubts_session(a, v))
        return again(v);
    xh_sentence_refused(a, &v->err);
    return XH_NEXT_FAIL;
}

static enum xh_next judge_412(const struct xh_attempt *a, struct xh_verdict *v)
{
    if (!xh_dialect_matches(&a->x->dialect))
        return changed(a, v, 412, "its ETag is another one now");
    /* Or the server does not know its own ETag, as some that stand behind what packs replies: their replies tell. */
    v->no_match = 1;
    return again(v);
}

/* A status that may be another one soon; |after_ms|: its Retry-After. */
static enum xh_next judge_passing(const struct xh_attempt *a, struct xh_verdict *v, uint64_t after_ms)
{
    const struct xh_exchange *x = a->x;
    int status = x->reply.status;
    if (status == 500 && goes_through_file(x))
        return FAIL(XH_E_NOENT, status,
                    "500, not a directory: there is no such file on the server, a part of the path is a file");
    if (status == 500 && x->token_sent && !x->url->region && strlen(x->token->value) > REDIRECTED_TOKEN_BYTES) {
        xh_sentence(a, &v->err, XH_E_STATUS, status,
                    "status 500, %" PRIu64 " retries did not help. %.160s is %zu bytes long: an XRootD redirector "
                    "fails so when it is longer than about 1,900 bytes",
                    x->options->retries, x->token->note, strlen(x->token->value));
        return later(a, v, retries_of(a), 0);
    }
    xh_sentence(a, &v->err, XH_E_STATUS, status, "status %d, %" PRIu64 " retries did not help: %s", status,
                x->options->retries,
                status == 429 ? "the server limits how often it may be asked. Use fewer connections "
                                "(XHDF5_CONNECTIONS=2) or processes"
                              : "the server is overloaded or broken");
    if (was_remembered(a)) /* after the pause the first server says who has the file by then */
        from_original(v);
    return later(a, v, retries_of(a), after_ms);
}

/* A status that does not pass, and that says nothing of what else might be asked. */
static enum xh_next judge_last(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    int status = x->reply.status;
    if (x->ask == XH_ASK_STAT) /* the prober knows what to make of it */
        return XH_NEXT_DONE;
    if (status == 501)
        return FAIL(XH_E_STATUS, status,
                    "501 Not Implemented: the server does not know what it was asked, bytes %" PRIu64 "-%" PRIu64
                    " of the file (GET with a Range header). Ask its operator to switch range requests on",
                    x->from, x->to ? x->to - 1 : 0);
    if (x->url != a->first && v->tries.returns)
        return FAIL(XH_E_STATUS, status,
                    "the second server answered with status %d, which cannot be used here, although the first one was "
                    "asked again where the file is: %u times in a row what it names was refused",
                    status, v->tries.returns + 1);
    if (xh_url_is_opendap(a->first))
        return FAIL(XH_E_STATUS, status,
                    "status %d: this looks like the address of an OPeNDAP service, which answers no plain GET. THREDDS "
                    "has the file at the same address with /fileServer/ instead of /dodsC/; Hyrax has it only where "
                    "its owner lets files be fetched",
                    status);
    xh_sentence_unusable(a, &v->err);
    return XH_NEXT_FAIL;
}

/* A final status that is not a success. */
static enum xh_next judge_status(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    int status = x->reply.status;
    uint64_t after_ms = xh_reply_retry_after_ms(&x->reply);
    if ((is_transient(status) || asks_too_often(x)) && !is_mere_look(a))
        v->hold_ms = after_ms;
    if (limits_readers(x) && !is_mere_look(a)) {
        pardon(a, v, a->others);
        if (!a->others || a->heard_ns <= x->begun_ns) /* however little it has to do at once */
            xh_limits_refuses(&v->limits, wanted_since(a), x->sent_ns, a->now_ns);
        uint64_t gap_ms = v->limits.counted_ns == a->now_ns ? v->limits.gap_ns / 1000000u : 0;
        v->hold_ms = gap_ms > v->hold_ms ? gap_ms : v->hold_ms;
    }
    if (x->url->region && xh_verdict_s3(a, v))
        return v->next;
    if (xh_reply_redirects(&x->reply))
        return judge_redirect(a, v);
    if (status == 400 && !x->url->https && xh_tls_is_wanted(x->said))
        return FAIL(XH_E_PROTO, status, "this port speaks TLS: write https:// instead of http:// in the URL");
    if (status == 400 && strstr(x->said, "SSL certificate") && without_certificate(a, v))
        return again(v);
    if (x->asked > 1 && too_much(status))
        return is_doubted(a, v) && goes_back(a, v) ? again(v) : shows_limit(a, v, 0, "too much");
    if (x->asked > 1 && status == 501)
        return shows_limit(a, v, 1, "501");
    if (may_have_expired(x, status) && !asks_too_often(x) && goes_back(a, v))
        return again(v);
    if (status == 500 && too_wide(a, v))
        return again_for(v, "narrow", "500");
    if (status == 401 || status == 403)
        return judge_refusal(a, v, after_ms);
    if (status == 404)
        return FAIL(XH_E_NOENT, status, "404 Not Found: there is no such file on the server");
    if (status == 410)
        return FAIL(XH_E_NOENT, status, "410 Gone: the file was removed from the server");
    if (status == 407 && xh_exchange_is_proxys(x)) { /* to http: https has a CONNECT */
        xh_proxy_refused(x->proxy, x->url, status, &v->err);
        return XH_NEXT_FAIL;
    }
    if (status == 412 && x->ask == XH_ASK_RANGES)
        return judge_412(a, v);
    if (status == 416)
        return x->ask == XH_ASK_RANGES ? judge_416(a, v) : XH_NEXT_DONE;
    if (too_much(status) && status != 414 && long_token(x))
        return FAIL(XH_E_ACCES, status,
                    "status %d: %.160s is %zu bytes long, most likely more than this server takes. Its operator can "
                    "raise the limit (nginx: large_client_header_buffers 4 64k); a token with fewer claims is shorter",
                    status, x->token->note, long_token(x));
    if (status == 304 && x->ask == XH_ASK_HEAD && x->probe->if_none_match) {
        v->served = 1; /* where it is: a redirect to there holds for what is read next */
        return XH_NEXT_DONE;
    }
    return is_transient(status) ? judge_passing(a, v, after_ms) : judge_last(a, v);
}

int xh_lacks_connection(const struct xh_outcome *out, int answered)
{
    enum xh_net net = out->net;
    return (net >= XH_NET_NAME && net <= XH_NET_CONNECT_TIMEOUT) || net == XH_NET_HANDSHAKE || net == XH_NET_PROXY ||
           (net == XH_NET_UNTRUSTED && out->no_cas) || (net == XH_NET_BROKEN && !answered && out->opened > 0);
}

/* The network failed before the reply was whole. */
static enum xh_next judge_net(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    unsigned retries = retries_of(a);
    char buf[XH_TLS_ADVICE_BYTES];
    const char *advice = xh_tls_advice(a->out->text, a->now_s, buf);
    int lacks = xh_lacks_connection(a->out, x->reply.status != 0);
    /* The file was there: its server is being started anew, or this machine changes its network. It is waited for as
     * long as one that is silent, by those that somebody waits for. */
    v->waits = lacks && (a->opened || (x->probe && x->probe->again)) && !a->hasty && !a->speculative;
    /* What worked before will most likely work again. */
    unsigned few = a->stranger && retries > 2 && !v->waits ? 2 : retries;
    if (a->stands) { /* a server does not wait for ever, and nobody wants more now */
        v->drops_redirect = a->redirected; /* it may have expired when more is wanted */
        v->tries.hops = 0;
        v->tries.login = XH_LOGIN_NOWHERE;
        return XH_NEXT_STAND;
    }
    if (a->out->net == XH_NET_STUCK) { /* no attempt that failed: its time-out is still to come */
        v->drops_redirect = a->redirected; /* the redirector may know a better server by now */
        return again(v);
    }
    if (a->out->net >= XH_NET_NAME && a->out->net <= XH_NET_HANDSHAKE && x->reply.status == 0 && goes_back(a, v))
        return again(v);
    if ((a->out->net == XH_NET_HANDSHAKE || a->out->net == XH_NET_BROKEN) && x->reply.status == 0 &&
        (strstr(a->out->text, "alert") || alert_lost(a)) && without_certificate(a, v))
        return again(v);
    if (a->out->net == XH_NET_BROKEN && x->reply.status == 0 && long_token(x)) {
        xh_sentence(a, &v->err, XH_E_ACCES, 0,
                    "the server hung up on the request. %.160s is %zu bytes long, most likely more than it takes "
                    "(XRootD: 32 KiB). A token with fewer claims is shorter",
                    x->token->note, long_token(x));
        return later(a, v, few, 0);
    }
    if (a->out->net == XH_NET_BROKEN && x->reply.status == 0 && x->sent_ns && too_wide(a, v))
        return again_for(v, "narrow", "hung up");
    if (a->out->net == XH_NET_PROXY)
        return xh_proxy_refused(x->proxy, x->url, a->out->proxy_status, &v->err) ? XH_NEXT_FAIL : later(a, v, few, 0);
    /* Where there are others to the server, it, or a firewall, may take no more of us. A name that does not resolve,
     * or CAs that cannot be read, say nothing of that. */
    int local = a->out->net == XH_NET_NAME || a->out->net == XH_NET_UNTRUSTED;
    if (lacks && a->sockets > 0 && pardon(a, v, local ? 0 : a->sockets))
        v->waits = 0; /* it is there */
    xh_sentence_net(a, advice, &v->err);
    switch (a->out->net) {
    case XH_NET_NAME: return later(a, v, few, 0);
    case XH_NET_HANDSHAKE: /* a server that spoke TLS does so again, once what stands before it lets us through */
        return advice && (a->stranger || xh_tls_is_spoken(a->out->text)) ? XH_NEXT_FAIL : later(a, v, few, 0);
    case XH_NET_UNTRUSTED:
        /* CAs that were read before: the process has too many files open, or their file is being replaced. */
        return a->out->no_cas && !a->stranger ? later(a, v, retries, 0) : XH_NEXT_FAIL;
    case XH_NET_BAD_HTTP: case XH_NET_LOCAL: case XH_NET_CANCELLED: case XH_NET_EXITING:
    case XH_NET_NEAR:
        return XH_NEXT_FAIL;
    case XH_NET_TURN: /* no failure: another request asks the proxy just now, or a thread looks for a token */
        v->delay_ms = XH_PROXY_TURN_MS;
        return XH_NEXT_LATER;
    default: return later(a, v, retries, 0);
    }
}

/* 200 or 206 to a GET of ranges, without a fault. */
static enum xh_next judge_ranges(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    v->takes_whole = x->reply.status == 200 && x->dialect.size > x->options->head_bytes;
    if (x->reply.status == 206)
        v->tries.whole_seen = 0;
    /* It sends parts now: what it sent at first was a cache that filled. */
    v->sends_parts = x->reply.status == 206 && x->dialect.whole;
    if (a->asked_came) {
        v->tries.failures = 0;
        learn_limits(a, v);
        return a->all_came ? XH_NEXT_DONE : XH_NEXT_AGAIN;
    }
    if (a->out->net != XH_NET_OK && !x->tail_until_ns)
        return judge_net(a, v);
    /* The reply was whole, in what was wanted of it, and brought less than was asked. */
    if (x->asked > 1 && x->take == XH_TAKE_RANGE)
        return shows_limit(a, v, 1, "one range of several");
    if (x->asked > 1 && x->fresh == 0)
        return is_nonsense(a, v, "an empty reply");
    /* A server may send less than it was asked for (RFC 9110, 15.3.7). As long as it brings what counts for progress in
     * its time, too, it may do so for ever. */
    v->tries.scraps += x->fresh < XH_PACE_BYTES;
    if (x->fresh > 0 && v->tries.scraps <= SCRAPS_MOST)
        return x->asked > 1 ? go_single_doubting(a, v, "ranges are missing") : again(v);
    xh_sentence(a, &v->err, XH_E_PROTO, x->reply.status, "the reply lacks bytes that were asked for");
    return later(a, v, retries_of(a), 0);
}

/* 200, 206 or 207 to a probe, without a fault. */
static enum xh_next judge_probe(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    if (a->out->net != XH_NET_OK && !x->tail_until_ns)
        return judge_net(a, v);
    if (x->ask == XH_ASK_STAT)
        return XH_NEXT_DONE;
    v->measured = !x->probe->size_known;
    if (v->measured && x->probe->len == 0) {
        xh_sentence_nothing(a, &v->err);
        return later(a, v, retries_of(a), 0);
    }
    if (x->probe->size_known && x->data_left > 0) {
        xh_sentence(a, &v->err, XH_E_PROTO, x->reply.status, "the reply is shorter than it promised");
        return later(a, v, retries_of(a), 0);
    }
    return XH_NEXT_DONE;
}

static enum xh_next judge(const struct xh_attempt *a, struct xh_verdict *v)
{
    const struct xh_exchange *x = a->x;
    int status = x->reply.status;
    if (a->out->net == XH_NET_EXITING || a->out->net == XH_NET_CANCELLED || a->out->net == XH_NET_LEFT ||
        a->out->net == XH_NET_STUCK)
        return judge_net(a, v);
    if (a->out->net == XH_NET_LOGIN)
        return judge_others_login(a, v);
    if (x->reply.over && x->at_login && !xh_reply_redirects(&x->reply))
        return judge_login(a, v);
    if (return_is_refused(a)) {
        xh_sentence_login_back(a, v->failure.why);
        return login_fails(a, v, XH_LOGIN_BAD, status);
    }
    if (x->reply.over && is_page(a))
        return judge_page(a, v);
    if (x->fault != XH_FAULT_NONE)
        return judge_fault(a, v);
    if (!x->reply.over)
        return judge_net(a, v);
    if (x->ask == XH_ASK_STAT ? status != 207 : status != 206 && status != 200)
        return judge_status(a, v);
    v->served = 1;
    return x->probe ? judge_probe(a, v) : judge_ranges(a, v);
}

/* Whatever a server did behind the last byte that was wanted: a slice of which nothing is missing is done. */
enum xh_next xh_verdict(const struct xh_attempt *a, struct xh_verdict *v)
{
    *v = (struct xh_verdict){.tries = a->tries, .limits = a->limits};
    if (a->x->fresh >= XH_PROGRESS_BYTES) /* long requests may outlive many redirects */
        v->tries.returns = 0;
    v->next = judge(a, v);
    if (v->served)
        xh_limits_answers(&v->limits, wanted_since(a), a->now_ns);
    if (v->to)
        v->next = follow(a, v);
    see_session(a, v);
    if (v->looks)
        *v = (struct xh_verdict){.next = XH_NEXT_LOOK, .tries = a->tries, .limits = a->limits};
    int repeats = v->next == XH_NEXT_AGAIN || v->next == XH_NEXT_LATER || v->next == XH_NEXT_STAND;
    if (repeats && a->looked == XH_LOOK_SOON)
        v->tries.refused_ns = a->x->begun_ns;
    if (repeats && a->x->ask == XH_ASK_RANGES && a->all_came)
        v->next = XH_NEXT_DONE;
    return v->next;
}
