/* Requests: their states, what each asks for, and the sending of it. See request.h.
 *
 * Invariant: a credential goes over TLS alone, to the server that the user named; token and
 * certificate also to those that he listed; whatever a redirect says. A URL that is a ticket
 * itself gets no Authorization beside it. */
#include "request.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/now.h"
#include "watch/timeline.h"
#include "watch/trace.h"
#include "endpoint.h"
#include "object.h"

#define TOKEN_EARLY_S 60            /* how long before its end a token is looked for anew */
#define TOKEN_LOOK_NS 2000000000u   /* and how often at most */

static const char *const state_names[] = {"new", "queued", "bound", "running", "delayed", "over"};

void xh_request_enter(struct xh_request *r, enum xh_request_state state)
{
    static const unsigned char allowed[] = {
        [XH_REQ_NEW] = 1u << XH_REQ_QUEUED | 1u << XH_REQ_BOUND | 1u << XH_REQ_OVER,
        [XH_REQ_QUEUED] = 1u << XH_REQ_BOUND | 1u << XH_REQ_OVER,
        [XH_REQ_BOUND] = 1u << XH_REQ_RUNNING | 1u << XH_REQ_OVER,
        [XH_REQ_RUNNING] = 1u << XH_REQ_QUEUED | 1u << XH_REQ_DELAYED | 1u << XH_REQ_OVER,
        [XH_REQ_DELAYED] = 1u << XH_REQ_QUEUED | 1u << XH_REQ_OVER,
        [XH_REQ_OVER] = 0,
    };
    assert(allowed[r->state] & 1u << state);
    xh_trace(XH_T_ORIGIN, "request", "id=%p from=%s to=%s ask=%d speculative=%d slice=%zu-%zu", (void *)r,
             state_names[r->state], state_names[state], (int)r->job->ask, r->job->speculative, r->first, r->end);
    r->state = state;
    if (state == XH_REQ_QUEUED)
        r->queued_ns = xh_timeline_on() ? xh_now_ns() : 0;
}

/* How many ranges |r| may have in one HTTP request now. */
static struct xh_limits limits_of(const struct xh_request *r)
{
    struct xh_limits *l = &r->endpoint->limits, mine;
    xh_limits_look(l, xh_now_ns());
    mine = *l;
    if (!r->job->origin->options.multirange)
        mine.max_ranges = 1;
    else if (r->most_ranges && r->most_ranges < mine.max_ranges)
        mine.max_ranges = r->most_ranges;
    return mine;
}

void xh_request_weigh(struct xh_request *r)
{
    const struct xh_job *j = r->job;
    unsigned max = limits_of(r).max_ranges;
    uint64_t ranges = 0;
    r->queued_bytes = j->probe ? j->probe->want_bytes : 0;
    if (j->transfer)
        for (size_t i = r->first; i < r->end; i++)
            if (j->got[i] < j->transfer->ranges[i].len) {
                r->queued_bytes += j->transfer->ranges[i].len - j->got[i];
                ranges++;
            }
    r->queued_requests = ranges ? (ranges + max - 1) / max : 1;
}

struct xh_url *xh_request_url(const struct xh_request *r)
{
    const struct xh_origin *o = r->job->origin;
    if (r->url)
        return r->url;
    /* PROPFIND too: the date is to be of the copy that is read. A target that is good for GET alone refuses it, and
     * the original URL is asked, from then on at once. */
    if (r->job->ask == XH_ASK_STAT && o->dates_at_first)
        return o->url;
    return r->from_original || !o->target ? o->url : o->target;
}

static size_t digits(uint64_t v)
{
    size_t n = 1;
    while (v >= 10) {
        v /= 10;
        n++;
    }
    return n;
}

/* Chooses the ranges of this exchange: unfinished ones from the front of the slice, as
 * many as the dialect allows. */
static void choose_ranges(struct xh_request *r, struct xh_exchange *x)
{
    const struct xh_job *j = r->job;
    const struct xh_range *ranges = j->transfer->ranges;
    struct xh_limits lim = limits_of(r);
    size_t bytes = strlen("bytes=");
    size_t i = r->first;
    for (; i < r->end; i++) {
        uint64_t from = ranges[i].off + j->got[i], to = ranges[i].off + ranges[i].len;
        if (from == to)
            continue;
        size_t more = digits(from) + digits(to - 1) + 2;
        if (x->asked > 0 && (x->asked == lim.max_ranges || bytes + more > lim.max_range_header))
            break;
        if (x->asked++ == 0) {
            x->asked_first = i;
            x->from = from;
        }
        x->to = to;
        x->asked_bytes += to - from;
        bytes += more;
        x->asked_end = i + 1;
    }
    x->range_bytes = bytes;
    x->cursor = x->open = x->asked_first;
    assert(x->asked > 0); /* xh_exchange_judge sends nothing again of which nothing is missing */
}

/* 1 when [from, end) of |j|'s ranges holds an unfinished one. */
static int unfinished(const struct xh_job *j, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++)
        if (j->got[i] < j->transfer->ranges[i].len)
            return 1;
    return 0;
}

void xh_request_prepare(struct xh_request *r, struct xh_exchange *x, struct xh_request **rest)
{
    struct xh_job *j = r->job;
    struct xh_origin *o = j->origin;
    *rest = NULL;
    x->request = r;
    x->job = j;
    x->url = xh_url_ref(xh_request_url(r));
    x->token = xh_token_ref(o->token);
    x->token_sent = 0;
    x->proxy = xh_proxy_for(&o->proxies, x->url);
    x->turn = XH_PROXY_FREE;
    x->cert_sent = o->cert.path[0] && !o->no_cert && xh_object_trusts(o, x->url);
    x->dialect = o->dialect;
    x->asked = 0;
    x->asked_first = x->asked_end = x->cursor = x->open = r->first;
    x->from = x->to = x->asked_bytes = 0;
    x->take = XH_TAKE_NOTHING;
    x->fault = XH_FAULT_NONE;
    x->why[0] = '\0';
    x->page = 0;
    x->said[0] = '\0';
    x->said_len = 0;
    x->data_off = x->data_left = x->part_fresh = x->fresh = x->body_bytes = 0;
    x->stale_parts = 0;
    x->sent_ns = x->first_ns = x->last_ns = x->quiet_ns = x->pace_ns = x->tail_ns = x->tail_bytes = 0;
    x->pace_bytes = x->header_bytes = 0;
    x->stands = 0;
    x->lane = NULL;
    xh_reply_init(&x->reply);
    if (j->probe) {
        j->probe->len = 0;
        return;
    }
    choose_ranges(r, x);
    if (r->twin || !unfinished(j, x->asked_end, r->end)) /* a pair's slice stays on its thread */
        return;
    struct xh_request *more = calloc(1, sizeof *more);
    if (!more) /* no matter: this request comes back for them */
        return;
    more->job = j;
    more->first = x->asked_end;
    more->end = r->end;
    more->most_ranges = r->most_ranges;
    more->failed_ranges = r->failed_ranges;
    xh_ring_init(&more->link);
    xh_ring_put_last(&j->requests, &more->in_job);
    r->end = x->asked_end;
    *rest = more;
}

/* Writes "Range: bytes=…" for what |x| asks. Returns its length. */
static size_t write_range(const struct xh_exchange *x, char *buf, size_t size)
{
    const struct xh_job *j = x->job;
    size_t n = (size_t)snprintf(buf, size, "Range: bytes=");
    if (j->ask == XH_ASK_HEAD)
        return n + (size_t)snprintf(buf + n, size - n, "0-%zu", j->probe->want_bytes - 1);
    const char *comma = "";
    for (size_t i = x->asked_first; i < x->asked_end; i++) {
        const struct xh_range *range = &j->transfer->ranges[i];
        if (j->got[i] == range->len)
            continue;
        n += (size_t)snprintf(buf + n, size - n, "%s%" PRIu64 "-%" PRIu64, comma, range->off + j->got[i],
                              range->off + range->len - 1);
        comma = ",";
    }
    assert(n < size);
    return n;
}

/* A token that is about to expire is looked for anew: whoever renews it has put the next one there. */
static void renew_token(struct xh_exchange *x)
{
    struct xh_origin *o = x->job->origin;
    if (!x->token || !x->token->expires || x->token->expires - (long long)time(NULL) > TOKEN_EARLY_S)
        return;
    xh_engine_lock();
    int due = xh_now_ns() - o->token_ns >= TOKEN_LOOK_NS;
    xh_engine_unlock();
    if (due && xh_object_renew_token(o, x->token))
        xh_trace(XH_T_ORIGIN, "token", "id=%p renewed=1", (void *)x->request);
    xh_engine_lock();
    struct xh_token *drop = x->token;
    x->token = xh_token_ref(o->token);
    xh_engine_unlock();
    xh_token_unref(drop);
}

enum xh_net xh_request_send(struct xh_exchange *x, struct xh_wire *w)
{
    const struct xh_job *j = x->job;
    const struct xh_origin *o = j->origin;
    x->turn = xh_proxy_turn(x->proxy);
    if (x->turn == XH_PROXY_WAIT || x->turn == XH_PROXY_REFUSED)
        return x->turn == XH_PROXY_WAIT ? XH_NET_TURN : XH_NET_PROXY;
    int authorised = xh_object_trusts(o, x->url) && !x->url->ticket;
    /* The netrc file was asked for trusted servers alone; what stands in the URL is for that URL's server, whoever wrote it. */
    const char *user = o->url->https && !x->url->ticket && xh_url_same_server(x->url, o->url) ? o->url->user : NULL;
    if (authorised && !o->url->user)
        renew_token(x);
    char range[XH_RANGE_HEADER_AT_FIRST + 64], match[XH_VALIDATOR_BYTES + 32];
    const char *headers[8];
    size_t n = 0;
    char *bearer = NULL;
    headers[n++] = "Accept-Encoding: identity";
    if (j->ask == XH_ASK_STAT) {
        headers[n++] = "Depth: 0";
    } else {
        write_range(x, range, sizeof range);
        headers[n++] = range;
    }
    if (j->ask == XH_ASK_RANGES && xh_dialect_matches(&x->dialect)) {
        snprintf(match, sizeof match, "If-Match: %s", x->dialect.value);
        headers[n++] = match;
    } else if (j->ask == XH_ASK_HEAD && j->probe->if_none_match) {
        snprintf(match, sizeof match, "If-None-Match: %s", j->probe->if_none_match);
        headers[n++] = match;
    }
    if (authorised && !o->url->user && x->token && x->token->value) {
        if (asprintf(&bearer, "Authorization: Bearer %s", x->token->value) < 0)
            return XH_NET_LOCAL;
        headers[n++] = bearer;
        x->token_sent = 1;
    }
    headers[n] = NULL;
    struct xh_send s = {
        .url = x->url->text,
        .method = j->ask == XH_ASK_STAT ? "PROPFIND" : NULL,
        .headers = headers,
        .user = user,
        .password = user ? o->url->password : NULL,
        .ca_file = o->trust.file,
        .ca_dir = o->trust.dir,
        .client_cert = x->cert_sent ? o->cert.path : NULL,
        .client_key = x->cert_sent ? o->cert.key : NULL,
        .connect_timeout_ms = o->options.connect_timeout_ms,
        .proxies = &o->proxies,
        .https = x->url->https,
        .sockets = xh_endpoint_sockets(x->request->endpoint, x->request->thread->index),
        .first = &x->request->endpoint->first,
    };
    x->begun_ns = xh_now_ns();
    x->connect_most_ns = o->options.connect_timeout_ms * 1000000u;
    x->stall_most_ns = o->options.stall_timeout_ms * 1000000u;
    x->lane = xh_wire_start(w, x, &s);
    if (bearer) {
        explicit_bzero(bearer, strlen(bearer));
        free(bearer);
    }
    if (!x->lane)
        return XH_NET_LOCAL;
    xh_count(o->counters, requests, 1);
    xh_count(o->counters, ranges, j->ask == XH_ASK_HEAD ? 1 : x->asked);
    if (x->asked > 1)
        xh_count(o->counters, multirange_requests, 1);
    xh_trace(XH_T_ORIGIN, "send", "id=%p url=%s method=%s ranges=%u from=%" PRIu64 " to=%" PRIu64,
             (void *)x->request, x->url->shown, s.method ? s.method : "GET", x->asked, x->from, x->to);
    return XH_NET_OK;
}
