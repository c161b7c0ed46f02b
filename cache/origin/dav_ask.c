/* One request of a writer, until its answer is there: its lines, its way through redirects and proxies, what a refusal
 * means. See dav_impl.h.
 *
 * Invariants: no request has Content-Range; what a MOVE or PUT did is unknown when its reply was lost, and is never
 * asked again here; no word of the server's that may hold a credential reaches an error. */
#include "dav_impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/letters.h"
#include "base/now.h"
#include "base/waits.h"
#include "watch/timeline.h"
#include "watch/trace.h"
#include "endpoint.h"
#include "engine.h"
#include "loop.h"
#include "tls_advice.h"
#include "verdict.h"

/* How long an answer's text may take once its head has said what became of the request. It mostly comes with it; a new
 * connection costs less than a second nearly everywhere. */
#define TEXT_NS         1000000000u
#define SAID_SHOWN      160u /* bytes of the server's words in an error */
#define ECHO_BYTES      12u  /* of a token, in a row: so many are none by chance */
#define TOLD_BYTES      (64u << 20) /* how often the log hears of a long upload */

/* ---- what comes and goes */

/* 1 when the head of the answer is there, and says what became of the request. A refusal may come before the end. */
static int is_told(const struct xh_dav *d)
{
    return d->reply.over && (d->reply.status >= 300 || !d->source || d->sent == d->source->size);
}

static int on_line(void *ctx, const char *line, size_t len)
{
    struct xh_dav *d = ctx;
    if (xh_reply_line(&d->reply, line, len, time(NULL)))
        d->over_ns = xh_now_ns();
    return 0;
}

static int on_body(void *ctx, const uint8_t *data, size_t len)
{
    struct xh_dav *d = ctx;
    size_t room = d->body_room - d->body_len, keep = len < room ? len : room;
    if (keep)
        memcpy(d->body + d->body_len, data, keep);
    d->body_len += keep;
    d->body_over |= keep < len;
    d->ignored += len - keep;
    return d->ignored > XH_WORDS_MOST_BYTES ? -1 : 0; /* a little more costs less than another connection */
}

static ptrdiff_t on_read(void *ctx, char *buf, size_t len)
{
    struct xh_dav *d = ctx;
    if (!d->source || d->sent == d->source->size)
        return 0;
    if (len > d->source->size - d->sent)
        len = (size_t)(d->source->size - d->sent);
    ptrdiff_t got = d->source->read(d->source->ctx, d->sent, buf, len, &d->source_err);
    if (got <= 0)
        return -1;
    d->sent += (uint64_t)got;
    if (d->sent - d->told >= TOLD_BYTES) {
        d->told = d->sent;
        xh_trace(XH_T_ORIGIN, "upload", "url=%s sent=%" PRIu64 " of=%" PRIu64, d->url->shown, d->sent, d->source->size);
    }
    return got;
}

static int on_seek(void *ctx, uint64_t off)
{
    struct xh_dav *d = ctx;
    if (!d->source || off > d->source->size)
        return -1;
    d->sent = d->told = off;
    return 0;
}

/* Hangs up when the user wants it, or when all that matters is there. */
static int on_tick(void *ctx)
{
    struct xh_dav *d = ctx;
    if (d->source && d->source->tick)
        d->source->tick(d->source->ctx);
    /* Only what is sent is given up so: other requests may be half of a step that must not be left. */
    if (d->source && (xh_interrupted(&d->wait) || atomic_load_explicit(&d->gives_up, memory_order_relaxed))) {
        xh_interrupt_error(&d->source_err, d->url->shown);
        return -1;
    }
    return d->words && is_told(d) && xh_now_ns() - d->over_ns > TEXT_NS ? -1 : 0;
}

static const struct xh_client_events events = {
    .line = on_line, .body = on_body, .read = on_read, .seek = on_seek, .tick = on_tick};

/* For a connection that asks nothing by itself. */
static const struct xh_client_events no_events = {0};

void xh_dav_give_up(struct xh_dav *d, int gives_up)
{
    atomic_store_explicit(&d->gives_up, gives_up, memory_order_relaxed);
}

int xh_dav_client(struct xh_dav *d, int silent, struct xh_client **out, struct xh_err *err)
{
    /* libcurl is initialised by it, and its exit handler tells when it is too late. */
    int rc = xh_loop_enter(&d->o, err);
    if (rc)
        return rc;
    xh_engine_unlock();
    *out = xh_client_new(silent ? &no_events : &events, d, 1);
    return *out ? 0 : xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a connection");
}

/* ---- one request */

/* 1 when |method| changes nothing. Only such requests are redirected to another server: the steps of a commit are of
 * one file system, and rename directories; that a cluster does all of them at one data server has not been shown. */
static int only_reads(const char *method)
{
    static const char *const reads[] = {"HEAD", "GET", "PROPFIND", "OPTIONS", NULL};
    return xh_is_one_of(method, reads);
}

/* "Destination: https://host/path": at the server that |to| is of. NULL without memory. */
static char *destination_line(const struct xh_dav *d, const struct xh_url *to, const char *suffix)
{
    const char *path = strchr(xh_url_host(d->url->text), '/');
    const char *host = xh_url_host(to->text);
    char *line = NULL;
    int n = (int)strcspn(host, "/");
    return asprintf(&line, "Destination: https://%.*s%s%s", n, host, path ? path : "/", suffix) < 0 ? NULL : line;
}

int xh_dav_lines(const struct xh_dav *d, const struct xh_dav_asked *a, const struct xh_url *to, struct xh_dav_lines *l)
{
    size_t n = 0;
    l->destination = NULL;
    if (only_reads(a->method))
        l->line[n++] = "Cache-Control: no-cache"; /* what is there now, not what a proxy remembers */
    if (a->depth)
        l->line[n++] = "Depth: 0";
    if (a->source)
        l->line[n++] = "Content-Type: application/octet-stream";
    if (a->source &&
        !d->redirected) /* a round trip; it pays where a refusal or a redirection is likely, and those come at MKCOL */
        l->line[n++] = "Expect:";
    if (a->range) {
        snprintf(l->range, sizeof l->range, "Range: bytes=%s", a->range);
        l->line[n++] = l->range;
    }
    if (a->destination) {
        if (!(l->destination = destination_line(d, to, a->destination)))
            return -1;
        l->line[n++] = l->destination;
        l->line[n++] = a->overwrite ? "Overwrite: T" : "Overwrite: F";
    }
    l->line[n] = NULL;
    return 0;
}

static int net_error(struct xh_dav *d, const struct xh_dav_asked *a, const struct xh_outcome *out, struct xh_err *err)
{
    char buf[XH_TLS_ADVICE_BYTES];
    const char *plain = out->text, *advice = xh_tls_advice(plain, (long long)time(NULL), buf);
    enum xh_net net = out->net;
    if (d->source_err.code) {
        if (err)
            *err = d->source_err;
        return d->source_err.code;
    }
    /* The server hung up in the handshake: it had enough to do, or is gone. It may be there again. */
    if (net == XH_NET_HANDSHAKE && !strstr(plain, "alert") && !advice)
        net = XH_NET_CONNECT;
    switch (net) {
    case XH_NET_PROXY: {
        int refused = out->proxy_status;
        xh_proxy_refused(xh_proxy_for(&d->caller.proxies, d->url), d->url, refused, err);
        return refused == 407 || refused == 403 ? XH_E_ACCES : XH_E_NET;
    }
    case XH_NET_UNTRUSTED:
    case XH_NET_HANDSHAKE:
        if (advice)
            return xh_err_set(err, XH_E_TLS, 0, "%.200s: no TLS session with the server (%s). %s", d->url->shown, plain,
                              advice);
        return xh_err_set(err, XH_E_TLS, 0, "%.200s: no TLS session with the server (%s). CAs: %.160s", d->url->shown,
                          plain, d->caller.trust.note);
    case XH_NET_CUT:
        return xh_err_set(err, XH_E_PROTO, 0,
                          "%.200s: the answer to %s came before all was sent, and has more than %u bytes",
                          d->url->shown, a->method, XH_WORDS_MOST_BYTES);
    case XH_NET_STALL:
    case XH_NET_CONNECT_TIMEOUT:
        return xh_err_set(err, XH_E_TIMEOUT, 0,
                          "%.200s: no answer to %s for too long (stall_timeout_ms is %" PRIu64 ")", d->url->shown,
                          a->method, d->o.stall_timeout_ms);
    case XH_NET_CRAWL:
        return xh_err_set(err, XH_E_TIMEOUT, 0,
                          "%.200s: the answer to %s came too slowly: %s (stall_timeout_ms is %" PRIu64 ")",
                          d->url->shown, a->method, plain, d->o.stall_timeout_ms);
    case XH_NET_LOCAL: return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a request");
    default:
        return xh_err_set(err, XH_E_NET, 0, "%.200s: the connection failed at %s (%s)", d->url->shown, a->method,
                          plain);
    }
}

/* The request itself, counted and drawn. The source's own work within it is charged to where that says. */
static void perform(struct xh_dav *d, const struct xh_dav_asked *a, const struct xh_client_ask *ask,
                    struct xh_outcome *out)
{
    uint64_t entered = 0, waits = 0;
    if (d->account) {
        entered = xh_account_enter(d->account, XH_COPYING);
        waits = xh_account_enter(d->account, XH_NETWORK);
    }
    uint64_t begun = xh_timeline_on() ? xh_now_ns() : 0;
    xh_client_ask(d->client, ask, out);
    if (begun)
        xh_timeline_slice(0, a->method, begun, xh_now_ns(), "name=%s status=%d sent=%" PRIu64, a->suffix,
                          d->reply.status, d->sent);
    if (!d->account)
        return;
    xh_account_leave(d->account, XH_NETWORK, waits);
    xh_account_leave(d->account, XH_COPYING, entered);
    xh_count(d->counters, requests, 1);
    xh_count(d->counters, connections, out->opened);
    xh_count(d->counters, bytes_fetched, d->body_len);
}

int xh_dav_wait(struct xh_dav *d, const struct xh_url *to, struct xh_err *err)
{
    for (uint64_t turn_ns = 0;;) {
        int rc = xh_loop_enter(&d->o, err);
        if (rc)
            return rc;
        uint64_t wait = xh_endpoint_turn_ns(to->server, &turn_ns);
        xh_engine_unlock();
        if (!wait)
            return 0;
        xh_pause_ns(xh_min64(wait, XH_INTERRUPT_LOOK_NS)); /* at exit nothing waits for longer */
    }
}

/* The server has said when it may be asked again: that holds for all of this process, reading too. */
static void heed_retry_after(struct xh_dav *d, const struct xh_url *to)
{
    uint64_t ms = xh_reply_retry_after_ms(&d->reply);
    int status = d->reply.status;
    if (!ms || (status != 403 && status != 408 && status != 425 && status != 429 && status < 500) ||
        xh_loop_enter(&d->o, XH_IGNORED))
        return;
    xh_endpoint_hold_server(to->server, ms);
    for (unsigned i = 0; i < xh_engine_threads(); i++)
        xh_engine_wake(xh_engine_thread(i));
    xh_engine_unlock();
}

/* One exchange with |to|. Returns 0 when there is a reply, in d->reply. */
static int exchange(struct xh_dav *d, const struct xh_dav_asked *a, const struct xh_url *to, struct xh_err *err)
{
    struct xh_dav_lines lines;
    struct xh_outcome out;
    struct xh_client_ask ask = {.bodiless = strcmp(a->method, "HEAD") == 0,
                                .uploads = a->source != NULL,
                                .upload_bytes = a->source ? a->source->size : 0,
                                .quiet_ms = d->o.stall_timeout_ms};
    const struct xh_proxy *proxy = xh_proxy_for(&d->caller.proxies, to);
    assert(!d->source); /* a source asks other clients */
    int rc = xh_dav_wait(d, to, err);
    if (rc)
        return rc;
    if (xh_dav_lines(d, a, to, &lines))
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a request");
    xh_reply_init(&d->reply);
    d->sent = d->told = 0;
    d->source_err = (struct xh_err){0};
    d->wait = (struct xh_wait){0};
    d->body = a->body ? a->body : d->said;
    d->body_room = a->body ? a->room : XH_WORDS_MOST_BYTES;
    d->body_len = 0;
    d->body_over = 0;
    d->ignored = 0;
    d->words = !only_reads(a->method);
    enum xh_proxy_turn turn;
    while ((turn = xh_proxy_turn(proxy, to)) == XH_PROXY_WAIT)
        xh_pause_ns(XH_PROXY_TURN_MS * UINT64_C(1000000));
    if (turn == XH_PROXY_REFUSED || turn == XH_PROXY_FORBIDDEN) {
        free(lines.destination);
        xh_proxy_refused(proxy, to, turn == XH_PROXY_REFUSED ? 407 : 403, err);
        return XH_E_ACCES;
    }
    ask.send = (struct xh_send){.method = a->method, .headers = lines.line};
    xh_caller_send(&d->caller, d->caller.token, to, &ask.send);
    d->source = a->source;
    perform(d, a, &ask, &out);
    free(lines.destination);
    xh_proxy_heard(proxy, to, turn, out.net == XH_NET_PROXY ? out.proxy_status : d->reply.over ? 200 : 0);
    int told = is_told(d) && !d->source_err.code && (d->reply.status >= 300 || out.net == XH_NET_CUT);
    d->source = NULL;
    d->makes_dirs |= xh_strncasecmp(d->reply.server, "XrootD", 6) == 0;
    xh_trace(XH_T_ORIGIN, "dav", "url=%s name=\"%s\" method=%s status=%d net=%d sent=%" PRIu64, d->url->shown,
             a->suffix, a->method, d->reply.status, (int)out.net, d->sent);
    /* The connection may break behind a refusal, and we cut off what has no end. */
    d->answered |= d->reply.over;
    d->lost = xh_lacks_connection(&out, d->reply.status != 0);
    if (out.net != XH_NET_OK && !told)
        return net_error(d, a, &out, err);
    heed_retry_after(d, to);
    return 0;
}

/* The server's own words of a refusal, if they are words. */
static const char *words(struct xh_dav *d)
{
    size_t n = d->body == d->said ? d->body_len : 0;
    d->said[n] = '\0';
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)d->said[i] < 0x20 || (unsigned char)d->said[i] > 0x7e)
            d->said[i] = ' ';
    while (n && d->said[n - 1] == ' ')
        d->said[--n] = '\0';
    return d->said[0] == '<' ? "" : d->said; /* a page of HTML says nothing that the status does not */
}

/* 1 when |said| may have a piece of what proves who asks: a server may send back what it was sent. */
static int echoes(const struct xh_dav *d, const char *said)
{
    char piece[ECHO_BYTES + 1];
    const char *token = d->caller.token && d->caller.token->value ? d->caller.token->value : "";
    if (d->url->user)
        return 1;
    for (size_t i = 0, n = strlen(said); *token && i + ECHO_BYTES <= n && i < SAID_SHOWN; i++) {
        snprintf(piece, sizeof piece, "%s", said + i);
        if (strstr(token, piece))
            return 1;
    }
    return *token && strlen(token) < ECHO_BYTES && strstr(said, token);
}

static int refused(struct xh_dav *d, const struct xh_dav_asked *a, struct xh_err *err)
{
    int status = d->reply.status, code = XH_E_STATUS;
    const char *name = "", *what = "";
    char tells[300] = "";
    /* lighttpd, and whatever else has files but no WebDAV, looks for a directory before it looks at the method. */
    static const char nowhere[] = ", as where there is no such directory, or nothing may be written";
    const char *said = words(d);
    int full = strstr(said, "no space") || strstr(said, "No space") || strstr(said, "quota");
    if (echoes(d, said))
        said = "";
    if ((status == 401 || status == 403) && d->o.namer.by_file && !d->url->user &&
        !xh_caller_trusts(&d->caller, d->url)) {
        char refusal[32];
        snprintf(refusal, sizeof refusal, "%d at %s", status, a->method);
        return xh_err_set(err, XH_E_ACCES, status, "%.200s: " XH_AUTH_WITHHELD, d->url->shown, refusal,
                          d->o.namer.parent);
    }
    if (status == 401 || status == 403) {
        if (d->caller.token && d->caller.token->value)
            xh_token_describe(d->caller.token, (long long)time(NULL), tells, sizeof tells);
        return xh_err_set(
            err, XH_E_ACCES, status,
            "%.200s: %d at %s: %.160s%s may not write there. A token needs the right to modify (storage.modify)",
            d->url->shown, status, a->method,
            d->url->user                                ? "this user name"
            : d->caller.token && d->caller.token->value ? d->caller.token->note
                                                        : "a client without a token",
            tells);
    }
    if (status == 404 || status == 410) {
        code = XH_E_NOENT;
        name = " Not Found";
        what = strcmp(a->method, "MKCOL") == 0 ? nowhere : "";
    } else if (status == 409 && strcmp(a->method, "MKCOL") == 0) { /* RFC 4918, 9.3.1 */
        code = XH_E_NOENT;
        name = " Conflict";
        what = ": the directory of the file does not exist there. Make it, and send the file again";
    } else if (status == 405 || status == 501) {
        what = ": the server does not do it there (nginx: dav_methods)";
    } else if (status == 413 || status == 507 || full) {
        code = XH_E_NOSPACE;
        what = status == 413 ? ": the server does not take so large a file (nginx: client_max_body_size)"
                             : ": there is no room at the server";
    }
    return xh_err_set(err, code, status, "%.200s: %d%s at %s%s%s%.160s", d->url->shown, status, name, a->method, what,
                      *said ? ": " : "", said);
}

/* A token that was renewed since: looked for once. Of S3, where another thread may have to look, nothing is written. */
static int renew(struct xh_dav *d)
{
    struct xh_token *found = NULL;
    int differs = !d->url->user && xh_caller_renew(d->caller.token, xh_now_ns(), &found) == XH_AGAIN_FOUND;
    if (found) {
        xh_token_unref(d->caller.token);
        d->caller.token = found;
    }
    return differs;
}

int xh_dav_web_page(const struct xh_dav *d, const struct xh_dav_asked *a, const struct xh_url *from, struct xh_err *err)
{
    return xh_err_set(err, XH_E_ACCES, d->reply.status,
                      "%.200s: in answer to %s came a web page, from %.100s: the server wants a login. Set "
                      "BEARER_TOKEN_FILE to a file with a token that may write there",
                      d->url->shown, a->method, xh_url_host(from->server));
}

int xh_dav_is_directory(const struct xh_dav *d, int status, struct xh_err *err)
{
    return xh_err_set(err, XH_E_INVAL, status, "%.200s: this is a directory. Name a file in it", d->url->shown);
}

/* 1 when |to| is |from| with a slash behind it: |from| is a directory's. */
static int adds_slash(const struct xh_url *from, const struct xh_url *to)
{
    size_t n = strlen(from->text);
    return strncmp(to->text, from->text, n) == 0 && strcmp(to->text + n, "/") == 0;
}

int xh_dav_moves(int status)
{
    return status / 100 == 2 && status != 202 && status != 207;
}

/* Asks, follows redirects, and renews the token. 2xx: returns 0; of a MOVE 202 (not yet) and 207 (a part failed, RFC
 * 4918, 9.9.4) are refusals. */
static int ask_once(struct xh_dav *d, const struct xh_dav_asked *a, struct xh_err *err)
{
    struct xh_url *to = NULL, *next = NULL;
    char *text = NULL;
    int renewed = 0;
    int whole = (int)strlen(d->url->text), dir = (int)(strrchr(d->url->text, '/') + 1 - d->url->text);
    if (asprintf(&text, "%.*s%s", a->above ? dir : whole, d->url->text, a->suffix) < 0)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a request");
    int rc = xh_url_parse(text, &to, err);
    free(text);
    for (unsigned hops = 0; rc == 0; hops++) {
        if ((rc = exchange(d, a, to, err)) != 0)
            break;
        int status = d->reply.status;
        if (status == 200 && d->reply.html && !xh_url_same_server(to, d->url)) {
            rc = xh_dav_web_page(d, a, to, err);
            break;
        }
        if (status >= 200 && status < 300 && (!a->destination || xh_dav_moves(status)))
            break;
        if ((status == 401 || status == 403) && !renewed && renew(d)) {
            renewed = 1;
            continue;
        }
        if (!xh_reply_redirects(&d->reply) || !d->reply.location[0]) {
            rc = refused(d, a, err);
        } else if (hops == XH_HOPS_MOST) {
            rc = xh_err_set(err, XH_E_PROTO, status, "%.200s: redirected more than %u times", d->url->shown, XH_HOPS_MOST);
        } else if ((rc = xh_proxy_follow(&d->caller.proxies, to, d->reply.location, &next, err)) == 0) {
            if (!a->suffix[0] && only_reads(a->method) && adds_slash(to, next))
                rc = xh_dav_is_directory(d, status, err);
            xh_url_unref(to);
            to = next;
            d->redirected = 1;
            d->elsewhere |= !xh_url_same_server(to, d->url);
            if (rc == 0 && d->elsewhere && !only_reads(a->method))
                rc = xh_err_set(
                    err, XH_E_INVAL, status,
                    "%.200s: the server sends %s to another one (%.100s), as the redirector of a cluster does. "
                    "Files are written at one server alone: open them by that server's URL",
                    d->url->shown, a->method, to->server);
        }
    }
    xh_url_unref(to);
    return rc;
}

/* 423: somebody else has the file open, at XRootD: who reads an owner's file meets the owner who writes it anew. */
static int is_passing(int status)
{
    return status == 423 || status == 429 || status == 502 || status == 503 || status == 504;
}

int xh_dav_ask(struct xh_dav *d, const struct xh_dav_asked *a, struct xh_err *err)
{
    const unsigned most = (unsigned)d->o.retries;
    const uint64_t begun = xh_now_ns();
    for (unsigned tries = 0;; tries++) {
        int rc = ask_once(d, a, err);
        int worth = rc == XH_E_NET || rc == XH_E_TIMEOUT || (rc == XH_E_STATUS && is_passing(d->reply.status));
        /* It was there: as of a file that is read (verdict.c), it is waited for as long as where it is silent. */
        int waits = rc == XH_E_NET && d->lost && d->answered && most &&
                    xh_now_ns() - begun < d->o.stall_timeout_ms * 1000000u;
        if (rc == 0 || !worth || !a->again || (tries >= most && !waits))
            return rc;
        if (d->counters)
            xh_count(d->counters, retries, 1);
        xh_trace(XH_T_ORIGIN, "dav-again", "url=%s method=%s", d->url->shown, a->method);
        xh_pause_ns(xh_backoff_ms(tries < most ? tries + 1 : most, (uint32_t)xh_now_ns()) * UINT64_C(1000000));
    }
}

int xh_dav_from_head(const struct xh_reply *r, struct xh_dav_stat *out)
{
    struct xh_dialect v;
    xh_dialect_init(&v);
    v.size = out->size = r->length;
    time_t t = xh_http_date(r->last_modified);
    out->mtime_s = t > 0 ? (long long)t : 0;
    xh_dialect_learn(&v, r->etag, r->last_modified, r->date);
    int good = v.proof == XH_BY_ETAG || v.proof == XH_BY_DATE;
    return r->length_given && good && !r->contradictory && out->mtime_s &&
           xh_dialect_validator(&v, out->validator, sizeof out->validator) > 0;
}
