/* Sending a request: see send.h. Which credentials go where, caller.c says. */
#include "send.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/now.h"
#include "base/wipe.h"
#include "watch/trace.h"
#include "engine.h"
#include "origin_object.h"
#include "request.h"

#define TOKEN_LOOK_NS 2000000000u /* how often a token that ends soon is looked for anew */

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

/* A token that is about to expire is looked for anew: whoever renews it has put the next one there, or a program prints
 * it. Meanwhile it is good; one that has expired, or was refused, is waited for: TURN. */
static enum xh_net renew_token(struct xh_exchange *x)
{
    struct xh_origin *o = x->job->origin;
    struct xh_tries *tries = &x->request->tries;
    long long left_s = x->token && x->token->expires ? x->token->expires - (long long)time(NULL) : XH_TOKEN_EARLY_S + 1;
    if (!tries->refused_ns && left_s > XH_TOKEN_EARLY_S)
        return XH_NET_OK;
    xh_engine_lock();
    uint64_t looked_ns = o->token_ns;
    xh_engine_unlock();
    enum xh_again again = XH_AGAIN_NOTHING;
    if (tries->refused_ns || xh_now_ns() - looked_ns >= TOKEN_LOOK_NS)
        again = xh_origin_object_renew_token(o, x->token, tries->refused_ns ? tries->refused_ns : looked_ns);
    if (again == XH_AGAIN_SOON)
        return tries->refused_ns || left_s <= 0 ? XH_NET_TURN : XH_NET_OK;
    tries->refused_ns = 0;
    if (again == XH_AGAIN_FOUND)
        xh_trace(XH_T_ORIGIN, "token", "id=%p renewed=1", (void *)x->request);
    xh_origin_object_take_token(o, x);
    return XH_NET_OK;
}

/* |x| is to go to a login host: 0 when it may. */
static enum xh_net take_login_turn(struct xh_exchange *x)
{
    struct xh_request *r = x->request;
    const struct xh_origin *o = x->job->origin;
    if (r->leads)
        return XH_NET_OK;
    x->login_turn = xh_session_turn(o->caller.session, o->url->server, x->url->server, r->tries.login_seen,
                                    &x->login_failure);
    if (x->login_turn == XH_LOGIN_WAIT)
        return XH_NET_TURN;
    if (x->login_turn != XH_LOGIN_GO)
        return XH_NET_LOGIN;
    r->leads = xh_url_ref(x->url);
    xh_trace(XH_T_ORIGIN, "login", "id=%p url=%s at=%s", (void *)r, o->url->shown, x->url->server);
    return XH_NET_OK;
}

/* For how long (s) a connection may have idled that |x| goes over; 0: any time. */
static uint64_t idle_s(const struct xh_exchange *x)
{
    uint64_t since = x->doubt_ns ? (xh_now_ns() - x->doubt_ns) / 1000000000u : 0;
    return x->doubt_ns && since < 2 ? 1 : since ? since - 1 : 0; /* whole seconds, of which libcurl drops the rest */
}

/* How old (s) may be what is known of the server's name; 0: any age. */
static uint64_t name_s(const struct xh_exchange *x)
{
    uint64_t since = x->lost_ns ? (xh_now_ns() - x->lost_ns) / 1000000000u : 0;
    return x->lost_ns && since < 1 ? 1 : since;
}

enum xh_net xh_request_send(struct xh_exchange *x, struct xh_wire *w, atomic_uint *sockets)
{
    const struct xh_job *j = x->job;
    const struct xh_origin *o = j->origin;
    enum xh_net net = x->waits ? XH_NET_TURN : XH_NET_OK;
    if (net == XH_NET_OK && xh_caller_trusts(&o->caller, x->url) && !x->url->ticket && !o->url->user)
        net = renew_token(x);
    if (net != XH_NET_OK)
        return net;
    x->turn = xh_proxy_turn(x->proxy, x->url);
    if (x->turn == XH_PROXY_WAIT)
        return XH_NET_TURN;
    if (x->turn == XH_PROXY_REFUSED || x->turn == XH_PROXY_FORBIDDEN)
        return XH_NET_PROXY;
    net = x->at_login ? take_login_turn(x) : XH_NET_OK;
    if (net != XH_NET_OK)
        return net;
    char range[XH_RANGE_HEADER_AT_FIRST + 64], match[XH_HEADER_BYTES + 32];
    const char *headers[8];
    size_t n = 0;
    if (j->ask == XH_ASK_STAT) {
        headers[n++] = "Depth: 0";
    } else if (!x->at_login) { /* the file is not there */
        write_range(x, range, sizeof range);
        headers[n++] = range;
    }
    if (j->ask == XH_ASK_RANGES && !x->at_login && xh_dialect_matches(&x->dialect)) {
        snprintf(match, sizeof match, "If-Match: %s", x->dialect.value);
        headers[n++] = match;
    } else if (j->ask == XH_ASK_HEAD && !x->at_login && j->probe->if_none_match) {
        snprintf(match, sizeof match, "If-None-Match: %s", j->probe->if_none_match);
        headers[n++] = match;
    }
    headers[n] = NULL;
    struct xh_send s = {
        .method = j->ask == XH_ASK_STAT ? "PROPFIND" : NULL, .headers = headers, .sockets = sockets,
        .fresh = (int)x->request->fresh, .idle_s = idle_s(x), .name_s = name_s(x)};
    xh_caller_send(&o->caller, x->key_spoilt ? NULL : x->token, x->url, &s);
    const struct xh_login *login = x->at_login ? xh_caller_login(&o->caller, x->url) : NULL;
    if (login) {
        s.user = login->user;
        s.password = login->password;
        s.bearer = NULL;
    }
    char *cookies = NULL;
    if (xh_caller_keeps_cookies(&o->caller, x->url)) {
        x->login_seen = xh_session_seen(o->caller.session, o->url->server);
        cookies = xh_session_cookies(o->caller.session, &x->request->chain, x->url->server);
    }
    s.cookies = cookies;
    x->cookies_sent = cookies && cookies[0];
    if (!x->cert_sent)
        s.client_cert = s.client_key = NULL;
    x->cert_sent = s.client_cert != NULL;
    x->token_sent = s.bearer || s.region;
    x->begun_ns = xh_now_ns();
    x->connect_most_ns = o->options.connect_timeout_ms * 1000000u;
    x->stall_most_ns = o->options.stall_timeout_ms * 1000000u;
    x->lane = xh_wire_start(w, x, &s);
    xh_wipe(cookies);
    if (!x->lane)
        return XH_NET_LOCAL;
    xh_count(o->counters, requests, 1);
    xh_count(o->counters, ranges, j->ask == XH_ASK_HEAD ? 1 : x->asked);
    if (x->asked > 1)
        xh_count(o->counters, multirange_requests, 1);
    xh_trace(XH_T_ORIGIN, "send", "id=%p url=%s method=%s ranges=%u from=%" PRIu64 " to=%" PRIu64, (void *)x->request,
             x->url->shown, s.method ? s.method : "GET", x->asked, x->from, x->to);
    return XH_NET_OK;
}
