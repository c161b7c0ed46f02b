/* Writing at the origin: see dav.h.
 *
 * Invariants: a credential goes over TLS alone, to the server that the user named or to one that he listed, whatever a
 * redirect says; no request has Content-Range; what a MOVE or PUT did is unknown when its reply was lost, and is
 * never asked again here; no word of the server's that may hold a credential reaches an error. */
#include "dav.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <curl/curl.h>

#include "base/now.h"
#include "watch/timeline.h"
#include "watch/trace.h"
#include "auth.h"
#include "dialect.h"
#include "endpoint.h"
#include "engine.h"
#include "handle.h"
#include "piece.h"
#include "proxy.h"
#include "response.h"
#include "url.h"

#define HOPS_MAX 10
#define BACKOFF_MOST_MS 2000u
#define PROXY_TURN_MS 20u        /* as the engine's */
#define HELD_NAP_MS 100u        /* at exit nothing waits for longer */
#define BODY_BYTES 65536u       /* of a reply that is kept */
#define UPLOAD_BUFFER (512L << 10)
#define DIGEST_TIMES 10u        /* after its last byte a server may be at work on a file for so many stall time-outs */
#define SAID_SHOWN 160u         /* bytes of the server's words in an error */
#define ECHO_BYTES 12u          /* of a token, in a row: so many are none by chance */
#define TOLD_BYTES (64u << 20)  /* how often the log hears of a long upload */

struct xh_dav {
    struct xh_options o;
    struct xh_url *url;
    struct xh_trust trust;
    struct xh_token *token;
    struct xh_cert cert;
    struct xh_proxies proxies;
    CURL *easy;
    CURL *quick;     /* the connection of xh_dav_exchange, or NULL */
    struct xh_counters *counters; /* both or none */
    struct xh_account *account;
    int by_propfind; /* HEAD does not tell the version here */
    int redirected;  /* the server has sent a request elsewhere */
    int elsewhere;   /* to another server */
    int makes_dirs;  /* it says that it is an XRootD: its PUT makes directories */
    char error[CURL_ERROR_SIZE];
    /* Of the request at hand: */
    struct xh_reply reply;
    const struct xh_dav_source *source;
    uint64_t sent, told;    /* bytes of |source| */
    struct xh_err source_err;
    char *body;             /* where the reply's body goes */
    size_t body_room, body_len;
    int body_over;          /* there was more of it */
    uint64_t moved_ns;      /* when the last byte went either way */
    curl_off_t moved_up, moved_down;
    int stalled;
    char said[BODY_BYTES + 1];
};

/* What is asked. */
struct asked {
    const char *method;
    const char *suffix;
    const char *destination; /* MOVE: a suffix */
    int overwrite;
    int depth;               /* PROPFIND */
    const char *range;       /* "a-b" */
    const struct xh_dav_source *source;
    char *body;              /* NULL: kept in |said| */
    size_t room;
    int again;               /* it may be asked again */
    int above;               /* not the file, but the directory in which it lies */
};

/* ---- opening */

const char *xh_dav_shown(const struct xh_dav *d)
{
    return d->url->shown;
}

const char *xh_dav_text(const struct xh_dav *d)
{
    return d->url->text;
}

/* The login of the netrc file, when the user wants that. */
static int take_login(struct xh_dav *d, struct xh_err *err)
{
    char host[256];
    if (d->url->user || !d->o.netrc || !xh_auth_trusts(&d->o, d->url, d->url))
        return 0;
    const char *from = strstr(d->url->server, "://") + 3;
    size_t n = (size_t)(strrchr(from, ':') - from);
    int brackets = *from == '[';
    snprintf(host, sizeof host, "%.*s", (int)n - 2 * brackets, from + brackets);
    int rc = xh_netrc_find(d->o.env, host, &d->url->user, &d->url->password, err);
    return rc < 0 ? rc : 0;
}

static size_t on_header(char *p, size_t size, size_t n, void *ctx);
static size_t on_body(char *p, size_t size, size_t n, void *ctx);
static size_t on_read(char *p, size_t size, size_t n, void *ctx);
static int on_seek(void *ctx, curl_off_t offset, int origin);
static int on_tick(void *ctx, curl_off_t all_down, curl_off_t down, curl_off_t all_up, curl_off_t up);

static int dress(struct xh_dav *d, struct xh_err *err)
{
    int rc = xh_engine_enter(&d->o, err); /* libcurl is initialised by it, and its exit handler tells when it is too late */
    if (rc)
        return rc;
    xh_engine_unlock();
    if (!(d->easy = curl_easy_init()))
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a connection");
    CURL *e = d->easy;
    xh_handle_dress(e);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, d->error);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, d);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, d);
    curl_easy_setopt(e, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(e, CURLOPT_READDATA, d);
    curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(e, CURLOPT_SEEKDATA, d);
    curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_tick);
    curl_easy_setopt(e, CURLOPT_XFERINFODATA, d);
    curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
    return 0;
}

int xh_dav_open(const char *url, const struct xh_options *o, struct xh_dav **out, struct xh_err *err)
{
    const char *file, *dir;
    struct xh_dav *d = calloc(1, sizeof *d);
    if (!d)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a connection");
    d->o = *o;
    xh_env_hold(&d->o);
    int rc = xh_url_parse(url, &d->url, err);
    if (rc == 0 && !d->url->https)
        rc = xh_err_set(err, XH_E_INVAL, 0, "%.200s: files are written over https alone", d->url->shown);
    if (rc == 0 && strpbrk(d->url->text, "?#"))
        rc = xh_err_set(err, XH_E_INVAL, 0, "%.200s: a URL with a query cannot be written to", d->url->shown);
    if (rc == 0 && d->url->text[strlen(d->url->text) - 1] == '/')
        rc = xh_err_set(err, XH_E_INVAL, 0, "%.200s: that is a directory", d->url->shown);
    if (rc == 0) {
        xh_handle_default_ca(&file, &dir);
        rc = xh_trust_find(&d->o, file, dir, &d->trust, err);
    }
    rc = rc ? rc : xh_token_find(d->o.env, &d->token, err);
    rc = rc ? rc : take_login(d, err);
    rc = rc ? rc : xh_proxies_read(&d->proxies, d->o.env, err);
    rc = rc ? rc : xh_proxy_check(&d->proxies, d->url, err);
    if (rc == 0)
        xh_cert_find(d->o.env, &d->cert);
    rc = rc ? rc : dress(d, err);
    if (rc) {
        xh_dav_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void xh_dav_count(struct xh_dav *d, struct xh_counters *c, struct xh_account *a)
{
    d->counters = c;
    d->account = a;
}

struct xh_account *xh_dav_account(const struct xh_dav *d)
{
    return d->account;
}

void xh_dav_close(struct xh_dav *d)
{
    if (!d)
        return;
    xh_dav_end_quick(d);
    if (d->easy)
        curl_easy_cleanup(d->easy);
    xh_token_unref(d->token);
    xh_url_unref(d->url);
    xh_proxies_free(&d->proxies);
    xh_env_release(&d->o);
    free(d);
}

void xh_dav_learn(struct xh_dav *d, const struct xh_dav *from)
{
    d->by_propfind |= from->by_propfind;
    d->redirected |= from->redirected;
    d->elsewhere |= from->elsewhere;
    d->makes_dirs |= from->makes_dirs;
}

/* ---- libcurl's callbacks */

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_dav *d = ctx;
    xh_reply_line(&d->reply, p, size * n, time(NULL));
    return size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_dav *d = ctx;
    size_t len = size * n, room = d->body_room - d->body_len;
    size_t keep = len < room ? len : room;
    if (keep)
        memcpy(d->body + d->body_len, p, keep);
    d->body_len += keep;
    d->body_over |= keep < len;
    return len;
}

static size_t on_read(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_dav *d = ctx;
    size_t len = size * n;
    if (!d->source || d->sent == d->source->size)
        return 0;
    if (len > d->source->size - d->sent)
        len = (size_t)(d->source->size - d->sent);
    ptrdiff_t got = d->source->read(d->source->ctx, d->sent, p, len, &d->source_err);
    d->moved_ns = xh_now_ns();
    if (got <= 0)
        return CURL_READFUNC_ABORT;
    d->sent += (uint64_t)got;
    if (d->sent - d->told >= TOLD_BYTES) {
        d->told = d->sent;
        xh_trace(XH_T_ORIGIN, "upload", "url=%s sent=%" PRIu64 " of=%" PRIu64, d->url->shown, d->sent, d->source->size);
    }
    return (size_t)got;
}

static int on_seek(void *ctx, curl_off_t offset, int origin)
{
    struct xh_dav *d = ctx;
    if (origin != SEEK_SET || !d->source || offset < 0 || (uint64_t)offset > d->source->size)
        return CURL_SEEKFUNC_CANTSEEK;
    d->sent = d->told = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* Hangs up when nothing has moved for too long. */
static int on_tick(void *ctx, curl_off_t all_down, curl_off_t down, curl_off_t all_up, curl_off_t up)
{
    struct xh_dav *d = ctx;
    if (d->source && d->source->tick) {
        uint64_t begun = xh_now_ns();
        d->source->tick(d->source->ctx);
        d->moved_ns += xh_now_ns() - begun; /* it asks on its own account, and may have to wait */
    }
    uint64_t now = xh_now_ns(), most = d->o.stall_timeout_ms * 1000000u;
    if (d->source && d->sent == d->source->size)
        most *= DIGEST_TIMES;
    if (down != d->moved_down || up != d->moved_up) {
        d->moved_down = down;
        d->moved_up = up;
        d->moved_ns = now;
    }
    d->stalled = now > d->moved_ns && now - d->moved_ns > most + d->o.connect_timeout_ms * 1000000u;
    return d->stalled;
}

/* ---- one request */

static const char *or_null(const char *s)
{
    return s && *s ? s : NULL;
}

static int append(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (!longer)
        return -1;
    *list = longer;
    return 0;
}

/* 1 when |method| changes nothing. Only such requests are redirected to another server: the steps of a commit are of one file
 * system, and rename directories; that a cluster does all of them at one data server has not been shown. */
static int only_reads(const char *method)
{
    static const char *const reads[] = {"HEAD", "GET", "PROPFIND", "OPTIONS"};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        if (strcmp(method, reads[i]) == 0)
            return 1;
    return 0;
}

/* "Destination: https://host/path": at the server that |to| is of. NULL without memory. */
static char *destination_line(const struct xh_dav *d, const struct xh_url *to, const char *suffix)
{
    const char *path = strchr(strstr(d->url->text, "://") + 3, '/');
    const char *host = strstr(to->text, "://") + 3;
    char *line = NULL;
    if (asprintf(&line, "Destination: https://%.*s%s%s", (int)strcspn(host, "/"), host, path ? path : "/", suffix) < 0)
        return NULL;
    return line;
}

static int headers_of(const struct xh_dav *d, const struct asked *a, const struct xh_url *to, int trusted,
                      struct curl_slist **list)
{
    int bad = append(list, "Accept-Encoding: identity");
    if (only_reads(a->method))
        bad |= append(list, "Cache-Control: no-cache"); /* what is there now, not what a proxy remembers */
    if (a->depth)
        bad |= append(list, "Depth: 0");
    if (a->source)
        bad |= append(list, "Content-Type: application/octet-stream");
    if (a->source && !d->redirected) /* a round trip; it pays where a refusal or a redirection is likely, and those come at MKCOL */
        bad |= append(list, "Expect:");
    if (a->destination) {
        char *line = destination_line(d, to, a->destination);
        bad |= !line || append(list, line) || append(list, a->overwrite ? "Overwrite: T" : "Overwrite: F");
        free(line);
    }
    if (trusted && !to->ticket && !d->url->user && d->token && d->token->value) {
        char *line = NULL;
        bad |= asprintf(&line, "Authorization: Bearer %s", d->token->value) < 0 || append(list, line);
        if (line)
            explicit_bzero(line, strlen(line));
        free(line);
    }
    return bad;
}

/* Forgets the bearer's line. */
static void free_headers(struct curl_slist *list)
{
    for (struct curl_slist *l = list; l; l = l->next)
        explicit_bzero(l->data, strlen(l->data));
    curl_slist_free_all(list);
}

static int set_up(struct xh_dav *d, CURL *e, const struct asked *a, const struct xh_url *to, struct curl_slist *headers, int trusted)
{
    const char *user = !to->ticket && xh_url_same_server(to, d->url) ? d->url->user : NULL; /* both https; see take_login */
    int cert = trusted && d->cert.path[0];
    int bad = curl_easy_setopt(e, CURLOPT_URL, to->text) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_HTTPGET, 1L) != CURLE_OK; /* ends what the last request was */
    bad |= curl_easy_setopt(e, CURLOPT_UPLOAD, a->source ? 1L : 0L) != CURLE_OK;
    if (a->source)
        bad |= curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)a->source->size) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_NOBODY, strcmp(a->method, "HEAD") == 0 ? 1L : 0L) != CURLE_OK;
    if (!a->source && strcmp(a->method, "HEAD") != 0)
        bad |= curl_easy_setopt(e, CURLOPT_HTTPGET, 1L) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, a->source || strcmp(a->method, "HEAD") == 0 ? NULL : a->method) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_RANGE, a->range) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_USERNAME, user) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_PASSWORD, user ? d->url->password : NULL) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_CAINFO, or_null(d->trust.file)) != CURLE_OK;
    curl_easy_setopt(e, CURLOPT_CAPATH, or_null(d->trust.dir)); /* some TLS libraries know none */
    curl_easy_setopt(e, CURLOPT_PROXY_CAINFO, or_null(d->trust.file));
    curl_easy_setopt(e, CURLOPT_PROXY_CAPATH, or_null(d->trust.dir));
    bad |= xh_handle_set_proxy(e, &d->proxies, to->https) != 0;
    bad |= curl_easy_setopt(e, CURLOPT_SSLCERT, cert ? d->cert.path : NULL) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_SSLKEY, cert ? d->cert.key : NULL) != CURLE_OK;
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)d->o.connect_timeout_ms);
    return bad;
}

static int net_error(struct xh_dav *d, const struct asked *a, CURLcode code, struct xh_err *err)
{
    const char *text = d->error[0] ? d->error : curl_easy_strerror(code);
    char plain[160];
    snprintf(plain, sizeof plain, "%.150s", text);
    for (char *p = plain; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    if (d->source_err.code) {
        if (err)
            *err = d->source_err;
        return d->source_err.code;
    }
    int refused = xh_handle_proxy_status(d->easy);
    if (refused) {
        const struct xh_proxy *p = xh_proxy_for(&d->proxies, d->url);
        xh_proxy_refused(p, d->url, refused, err);
        return refused == 407 || refused == 403 ? XH_E_ACCES : XH_E_NET;
    }
    char buf[XH_HANDLE_ADVICE_BYTES];
    const char *advice = xh_handle_advice(plain, buf);
    if (code == CURLE_SSL_CONNECT_ERROR && !strstr(plain, "alert") && !advice)
        code = CURLE_COULDNT_CONNECT; /* the server hung up in the handshake: it had enough to do, or is gone. It may be there again */
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION: case CURLE_SSL_CACERT_BADFILE: case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CERTPROBLEM: case CURLE_SSL_CONNECT_ERROR:
        if (advice)
            return xh_err_set(err, XH_E_TLS, 0, "%.200s: no TLS session with the server (%s). %s", d->url->shown, plain, advice);
        return xh_err_set(err, XH_E_TLS, 0, "%.200s: no TLS session with the server (%s). CAs: %.160s", d->url->shown, plain,
                          d->trust.note);
    case CURLE_ABORTED_BY_CALLBACK: case CURLE_OPERATION_TIMEDOUT:
        return xh_err_set(err, XH_E_TIMEOUT, 0, "%.200s: no answer to %s for too long (stall_timeout_ms is %" PRIu64 ")",
                          d->url->shown, a->method, d->o.stall_timeout_ms);
    case CURLE_OUT_OF_MEMORY:
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a request");
    default:
        return xh_err_set(err, XH_E_NET, 0, "%.200s: the connection failed at %s (%s)", d->url->shown, a->method, plain);
    }
}

/* The request itself, counted and drawn. The source's own work within it is charged to where that says. */
static CURLcode perform(struct xh_dav *d, const struct asked *a)
{
    long opened = 0;
    uint64_t entered = 0, waits = 0;
    if (d->account) {
        entered = xh_account_enter(d->account, XH_COPYING);
        waits = xh_account_enter(d->account, XH_NETWORK);
    }
    uint64_t begun = xh_timeline_on() ? xh_now_ns() : 0;
    CURLcode code = curl_easy_perform(d->easy);
    if (begun)
        xh_timeline_slice(0, a->method, begun, xh_now_ns(), "name=%s status=%d sent=%" PRIu64, a->suffix, d->reply.status, d->sent);
    if (!d->account)
        return code;
    xh_account_leave(d->account, XH_NETWORK, waits);
    xh_account_leave(d->account, XH_COPYING, entered);
    curl_easy_getinfo(d->easy, CURLINFO_NUM_CONNECTS, &opened);
    xh_count(d->counters, requests, 1);
    xh_count(d->counters, connections, opened);
    xh_count(d->counters, bytes_fetched, d->body_len);
    return code;
}

static void pause_ms(uint64_t ms)
{
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

/* Waits until |to|'s server need not be left alone any more. Returns 0, or XH_E_SYS: the process is exiting. */
static int wait_for_leave(struct xh_dav *d, const struct xh_url *to, struct xh_err *err)
{
    for (;;) {
        int rc = xh_engine_enter(&d->o, err);
        if (rc)
            return rc;
        uint64_t held = xh_endpoint_held_ns(to->server);
        xh_engine_unlock();
        if (!held)
            return 0;
        pause_ms(held / 1000000u < HELD_NAP_MS ? held / 1000000u + 1 : HELD_NAP_MS);
    }
}

/* The server has said when it may be asked again: that holds for all of this process, reading too. */
static void heed_retry_after(struct xh_dav *d, const struct xh_url *to)
{
    uint64_t ms = xh_reply_retry_after_ms(&d->reply);
    struct xh_err ignored;
    int status = d->reply.status;
    if (!ms || (status != 403 && status != 408 && status != 425 && status != 429 && status < 500) || xh_engine_enter(&d->o, &ignored))
        return;
    xh_endpoint_hold_server(to->server, ms);
    for (unsigned i = 0; i < xh_engine_threads(); i++)
        xh_engine_wake(xh_engine_thread(i));
    xh_engine_unlock();
}

/* One exchange with |to|. Returns 0 when there is a reply, in d->reply. */
static int exchange(struct xh_dav *d, const struct asked *a, const struct xh_url *to, struct xh_err *err)
{
    struct curl_slist *headers = NULL;
    int trusted = xh_auth_trusts(&d->o, d->url, to);
    const struct xh_proxy *proxy = xh_proxy_for(&d->proxies, to);
    assert(!d->source); /* a source asks other clients */
    int rc = wait_for_leave(d, to, err);
    if (rc)
        return rc;
    xh_reply_init(&d->reply);
    d->source = a->source;
    d->sent = d->told = 0;
    d->source_err = (struct xh_err){0};
    d->body = a->body ? a->body : d->said;
    d->body_room = a->body ? a->room : BODY_BYTES;
    d->body_len = 0;
    d->body_over = d->stalled = 0;
    d->moved_ns = xh_now_ns();
    d->moved_up = d->moved_down = 0;
    d->error[0] = '\0';
    enum xh_proxy_turn turn;
    while ((turn = xh_proxy_turn(proxy)) == XH_PROXY_WAIT)
        pause_ms(PROXY_TURN_MS);
    if (turn == XH_PROXY_REFUSED) {
        d->source = NULL;
        xh_proxy_refused(proxy, to, 407, err);
        return XH_E_ACCES;
    }
    if (headers_of(d, a, to, trusted, &headers) || set_up(d, d->easy, a, to, headers, trusted)) {
        if (turn == XH_PROXY_GO)
            xh_proxy_turn_over(proxy, -1);
        d->source = NULL;
        free_headers(headers);
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a request");
    }
    CURLcode code = perform(d, a);
    int login_refused = xh_handle_proxy_status(d->easy) == 407;
    if (turn == XH_PROXY_GO)
        xh_proxy_turn_over(proxy, login_refused ? 0 : d->reply.over ? 1 : -1);
    else if (login_refused && proxy && proxy->user)
        xh_proxy_turn_over(proxy, 0);
    curl_easy_setopt(d->easy, CURLOPT_HTTPHEADER, NULL);
    curl_easy_setopt(d->easy, CURLOPT_RANGE, NULL);
    free_headers(headers);
    d->source = NULL;
    d->makes_dirs |= strncasecmp(d->reply.server, "XrootD", 6) == 0;
    xh_trace(XH_T_ORIGIN, "dav", "url=%s name=\"%s\" method=%s status=%d code=%d sent=%" PRIu64, d->url->shown, a->suffix,
             a->method, d->reply.status, (int)code, d->sent);
    /* A refusal may come before all was sent, and the connection break then. */
    if (code != CURLE_OK && !(d->reply.over && d->reply.status >= 300 && !d->source_err.code))
        return net_error(d, a, code, err);
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
    const char *token = d->token && d->token->value ? d->token->value : "";
    if (d->url->user)
        return 1;
    for (size_t i = 0, n = strlen(said); *token && i + ECHO_BYTES <= n && i < SAID_SHOWN; i++) {
        snprintf(piece, sizeof piece, "%s", said + i);
        if (strstr(token, piece))
            return 1;
    }
    return *token && strlen(token) < ECHO_BYTES && strstr(said, token);
}

static int refused(struct xh_dav *d, const struct asked *a, struct xh_err *err)
{
    int status = d->reply.status;
    char tells[300] = "";
    const char *said = words(d);
    int full = strstr(said, "no space") || strstr(said, "No space") || strstr(said, "quota");
    if (echoes(d, said))
        said = "";
    const char *colon = *said ? ": " : "";
    if (status == 404 || status == 410)
        return xh_err_set(err, XH_E_NOENT, status, "%.200s: %d Not Found at %s%s%.160s", d->url->shown, status, a->method, colon, said);
    if ((status == 401 || status == 403) && d->o.namer.by_file && !d->url->user && !xh_auth_trusts(&d->o, d->url, d->url)) {
        char what[32];
        snprintf(what, sizeof what, "%d at %s", status, a->method);
        return xh_err_set(err, XH_E_ACCES, status, "%.200s: " XH_AUTH_WITHHELD, d->url->shown, what, d->o.namer.parent);
    }
    if (status == 401 || status == 403) {
        if (d->token && d->token->value)
            xh_token_describe(d->token, (long long)time(NULL), tells, sizeof tells);
        return xh_err_set(err, XH_E_ACCES, status,
                          "%.200s: %d at %s: %.160s%s may not write there. A token needs the right to modify (storage.modify)",
                          d->url->shown, status, a->method,
                          d->url->user ? "this user name" : d->token && d->token->value ? d->token->note : "nobody without a token",
                          tells);
    }
    if (status == 413 || status == 507)
        return xh_err_set(err, XH_E_NOSPACE, status, "%.200s: %d at %s: %s%s%.160s", d->url->shown, status, a->method,
                          status == 413 ? "the server does not take so large a file (nginx: client_max_body_size)"
                                        : "there is no room at the server",
                          colon, said);
    if (status == 405 || status == 501)
        return xh_err_set(err, XH_E_STATUS, status,
                          "%.200s: %d at %s: the server does not do it there (nginx: dav_methods)%s%.160s", d->url->shown, status,
                          a->method, colon, said);
    if (full)
        return xh_err_set(err, XH_E_NOSPACE, status, "%.200s: %d at %s: there is no room at the server%s%.160s", d->url->shown, status,
                          a->method, colon, said);
    return xh_err_set(err, XH_E_STATUS, status, "%.200s: %d at %s%s%.160s", d->url->shown, status, a->method, colon, said);
}

/* A token that was renewed since: looked for once. */
static int renew(struct xh_dav *d)
{
    struct xh_token *found = NULL;
    if (d->url->user || !xh_token_again(d->token, &found))
        return 0;
    int differs = found->value && (!d->token->value || strcmp(found->value, d->token->value) != 0);
    if (differs) {
        xh_token_unref(d->token);
        d->token = found;
    } else {
        xh_token_unref(found);
    }
    return differs;
}

/* A login page, where it sent us. */
static int web_page(const struct xh_dav *d, const struct asked *a, const struct xh_url *from, struct xh_err *err)
{
    return xh_err_set(err, XH_E_ACCES, d->reply.status,
                      "%.200s: in answer to %s came a web page, from %.100s: the server wants a login. Set "
                      "BEARER_TOKEN_FILE to a file with a token "
                      "that may write there", d->url->shown, a->method, strstr(from->server, "://") + 3);
}

/* Asks, follows redirects, and renews the token. 2xx: returns 0. */
static int ask_once(struct xh_dav *d, const struct asked *a, struct xh_err *err)
{
    struct xh_url *to = NULL, *next = NULL;
    char *text = NULL;
    int renewed = 0;
    int whole = (int)strlen(d->url->text), dir = (int)(strrchr(d->url->text, '/') + 1 - d->url->text);
    if (asprintf(&text, "%.*s%s", a->above ? dir : whole, d->url->text, a->suffix) < 0)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a request");
    int rc = xh_url_parse(text, &to, err);
    free(text);
    for (int hops = 0; rc == 0; hops++) {
        rc = xh_proxy_check(&d->proxies, to, err); /* no_proxy may name this server and not the one before */
        rc = rc ? rc : exchange(d, a, to, err);
        if (rc)
            break;
        int status = d->reply.status;
        if (status == 200 && d->reply.html && !xh_url_same_server(to, d->url)) {
            rc = web_page(d, a, to, err);
            break;
        }
        if (status >= 200 && status < 300)
            break;
        if ((status == 401 || status == 403) && !renewed && renew(d)) {
            renewed = 1;
            continue;
        }
        if (status < 300 || status > 308 || status == 304 || !d->reply.location[0]) {
            rc = refused(d, a, err);
        } else if (hops == HOPS_MAX) {
            rc = xh_err_set(err, XH_E_PROTO, status, "%.200s: redirected more than %d times", d->url->shown, HOPS_MAX);
        } else if ((rc = xh_url_resolve(to, d->reply.location, &next, err)) == 0) {
            xh_url_unref(to);
            to = next;
            d->redirected = 1;
            d->elsewhere |= !xh_url_same_server(to, d->url);
            if (d->elsewhere && !only_reads(a->method))
                rc = xh_err_set(err, XH_E_INVAL, status,
                                "%.200s: the server sends %s to another one (%.100s), as the redirector of a cluster does. "
                                "Files are written at one server alone: open them by that server's URL", d->url->shown, a->method,
                                to->server);
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

static int ask(struct xh_dav *d, const struct asked *a, struct xh_err *err)
{
    uint64_t ms = 100;
    for (uint64_t tries = 0;; tries++) {
        int rc = ask_once(d, a, err);
        int worth = rc == XH_E_NET || rc == XH_E_TIMEOUT || (rc == XH_E_STATUS && is_passing(d->reply.status));
        if (rc == 0 || !worth || !a->again || tries >= d->o.retries)
            return rc;
        if (d->counters)
            xh_count(d->counters, retries, 1);
        xh_trace(XH_T_ORIGIN, "dav-again", "url=%s method=%s", d->url->shown, a->method);
        pause_ms(ms);
        ms = 2 * ms < BACKOFF_MOST_MS ? 2 * ms : BACKOFF_MOST_MS;
    }
}

/* ---- what can be asked */

/* Version and date from the reply to HEAD. Returns 1 when it has both. */
static int from_head(const struct xh_reply *r, struct xh_dav_stat *out)
{
    struct xh_dialect v;
    xh_dialect_init(&v);
    v.size = out->size = r->length;
    time_t t = xh_http_date(r->last_modified);
    out->mtime_s = t > 0 ? (long long)t : 0;
    xh_dialect_learn(&v, r->etag, r->last_modified, r->date);
    int good = v.proof == XH_BY_ETAG || v.proof == XH_BY_DATE;
    return r->length_given && good && !r->contradictory && out->mtime_s && xh_dialect_validator(&v, out->validator, sizeof out->validator) > 0;
}

int xh_dav_stat(struct xh_dav *d, const char *suffix, struct xh_dav_stat *out, struct xh_err *err)
{
    struct asked head = {.method = "HEAD", .suffix = suffix, .again = 1};
    struct asked find = {.method = "PROPFIND", .suffix = suffix, .again = 1, .depth = 1};
    struct xh_dialect v;
    char date[XH_VALIDATOR_BYTES];
    uint64_t size;
    *out = (struct xh_dav_stat){0};
    int rc = d->by_propfind ? 0 : ask(d, &head, err);
    if (rc)
        return rc == XH_E_NOENT ? 0 : rc;
    if (!d->by_propfind && from_head(&d->reply, out)) {
        out->there = 1;
        return 0;
    }
    if (!d->by_propfind && d->reply.status == 200 && d->reply.html)
        return web_page(d, &head, d->url, err);
    d->by_propfind = 1; /* XRootD: no date and no ETag, or one that says nothing of the contents */
    rc = ask(d, &find, err);
    if (rc)
        return rc == XH_E_NOENT ? 0 : rc;
    out->there = 1;
    xh_dialect_init(&v);
    if (!xh_propfind_parse(d->said, d->body_len, date, sizeof date, &size) || !xh_dialect_set_proof(&v, XH_BY_PROPFIND, date))
        return xh_err_set(err, XH_E_PROTO, d->reply.status,
                          "%.200s: the server tells neither ETag nor date: who changes files there cannot be told apart", d->url->shown);
    v.size = out->size = size;
    time_t t = xh_http_date(date);
    out->mtime_s = t > 0 ? (long long)t : 0;
    xh_dialect_validator(&v, out->validator, sizeof out->validator);
    return 0;
}

int xh_dav_get(struct xh_dav *d, const char *suffix, char *buf, size_t size, size_t *len, struct xh_err *err)
{
    struct asked a = {.method = "GET", .suffix = suffix, .again = 1, .body = buf, .room = size};
    int rc = ask(d, &a, err);
    if (rc == 0 && d->body_over)
        rc = xh_err_set(err, XH_E_PROTO, d->reply.status, "%.200s: a file beside it is longer than it should be", d->url->shown);
    *len = rc ? 0 : d->body_len;
    return rc;
}

int xh_dav_get_range(struct xh_dav *d, const char *suffix, uint64_t off, char *buf, size_t len, struct xh_err *err)
{
    char range[64];
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, off, off + len - 1);
    struct asked a = {.method = "GET", .suffix = suffix, .again = 1, .body = buf, .room = len, .range = range};
    int rc = ask(d, &a, err);
    const struct xh_content_range *c = &d->reply.range;
    if (rc == 0 && d->reply.status == 200 && off == 0 && d->body_len == len && !d->body_over)
        return 0; /* the whole file */
    if (rc == 0 && (d->reply.status != 206 || !c->given || c->first != off || d->body_len != len || d->body_over))
        rc = xh_err_set(err, XH_E_PROTO, d->reply.status, "%.200s: the server's reply to a range makes no sense", d->url->shown);
    return rc;
}

int xh_dav_put(struct xh_dav *d, const char *suffix, const struct xh_dav_source *s, struct xh_err *err)
{
    struct asked a = {.method = "PUT", .suffix = suffix, .source = s};
    return ask(d, &a, err);
}

static ptrdiff_t read_text(void *ctx, uint64_t off, char *buf, size_t len, struct xh_err *err)
{
    memcpy(buf, (const char *)ctx + off, len);
    return (ptrdiff_t)len;
}

int xh_dav_put_text(struct xh_dav *d, const char *suffix, const char *text, struct xh_err *err)
{
    struct xh_dav_source s = {.size = strlen(text), .read = read_text, .ctx = (void *)text};
    struct asked a = {.method = "PUT", .suffix = suffix, .source = &s, .again = 1};
    return ask(d, &a, err);
}

int xh_dav_move(struct xh_dav *d, const char *from, const char *to, int overwrite, struct xh_err *err)
{
    struct asked a = {.method = "MOVE", .suffix = from, .destination = to, .overwrite = overwrite};
    return ask(d, &a, err);
}

int xh_dav_mkcol(struct xh_dav *d, const char *suffix, struct xh_err *err)
{
    struct asked a = {.method = "MKCOL", .suffix = suffix, .again = 1};
    return ask(d, &a, err);
}

int xh_dav_delete(struct xh_dav *d, const char *suffix, struct xh_err *err)
{
    struct asked a = {.method = "DELETE", .suffix = suffix, .again = 1};
    int rc = ask(d, &a, err);
    return rc == XH_E_NOENT ? 0 : rc;
}

int xh_dav_makes_dirs(const struct xh_dav *d)
{
    return d->makes_dirs;
}

int xh_dav_is_elsewhere(const struct xh_dav *d)
{
    return d->elsewhere;
}

int xh_dav_is_warm(const struct xh_dav *d)
{
    curl_socket_t s = CURL_SOCKET_BAD;
    return curl_easy_getinfo(d->easy, CURLINFO_ACTIVESOCKET, &s) == CURLE_OK && s != CURL_SOCKET_BAD;
}

void xh_dav_greet(struct xh_dav *d)
{
    struct asked a = {.method = "PROPFIND", .suffix = "", .above = 1, .depth = 1};
    struct xh_err ignored;
    ask(d, &a, &ignored);
}

int xh_dav_removes_trees(const struct xh_dav *d)
{
    return !d->by_propfind;
}

/* ---- requests in one piece */

#define PIECE_MOST 4
#define BASE64 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

struct text {
    char at[XH_PIECE_BYTES + 1];
    size_t n;
    int bad; /* it was too long */
};

static void add(struct text *t, const char *s, size_t n)
{
    t->bad |= n > XH_PIECE_BYTES - t->n;
    if (!t->bad) {
        memcpy(t->at + t->n, s, n);
        t->n += n;
    }
}

static void add_line(struct text *t, const char *s)
{
    add(t, s, strlen(s));
    add(t, "\r\n", 2);
}

/* "Authorization: Basic …". Source: RFC 7617. */
static void add_login(struct text *t, const char *user, const char *password)
{
    char plain[1024];
    int n = snprintf(plain, sizeof plain, "%s:%s", user, password ? password : "");
    t->bad |= n < 0 || n >= (int)sizeof plain;
    add(t, "Authorization: Basic ", strlen("Authorization: Basic "));
    for (int i = 0; i < n && !t->bad; i += 3) {
        uint32_t three = (uint32_t)(unsigned char)plain[i] << 16;
        three |= i + 1 < n ? (uint32_t)(unsigned char)plain[i + 1] << 8 : 0;
        three |= i + 2 < n ? (uint32_t)(unsigned char)plain[i + 2] : 0;
        char four[4] = {BASE64[three >> 18], BASE64[three >> 12 & 63], i + 1 < n ? BASE64[three >> 6 & 63] : '=',
                        i + 2 < n ? BASE64[three & 63] : '='};
        add(t, four, 4);
    }
    explicit_bzero(plain, sizeof plain);
    add_line(t, "");
}

/* Adds the request |a| as it goes over the wire, to the server of the URL itself. */
static void add_request(const struct xh_dav *d, const struct asked *a, struct text *t)
{
    struct curl_slist *headers = NULL;
    const char *host = strstr(d->url->text, "://") + 3, *path = strchr(host, '/');
    t->bad |= headers_of(d, a, d->url, xh_auth_trusts(&d->o, d->url, d->url), &headers);
    add(t, a->method, strlen(a->method));
    add(t, " ", 1);
    add(t, path, strlen(path));
    add(t, a->suffix, strlen(a->suffix));
    add_line(t, " HTTP/1.1");
    add(t, "Host: ", 6);
    add(t, host, (size_t)(path - host));
    add_line(t, "");
    add_line(t, "User-Agent: " XH_HANDLE_USER_AGENT);
    for (const struct curl_slist *l = headers; l; l = l->next)
        add_line(t, l->data);
    if (d->url->user && !d->url->ticket)
        add_login(t, d->url->user, d->url->password);
    add_line(t, "");
    free_headers(headers);
}

/* Asks all of |a| in one piece. Returns 0 when all replies came. */
static int ask_quickly(struct xh_dav *d, const struct asked *a, size_t n, struct xh_piece_reply *r)
{
    size_t came = 0;
    struct text *t = calloc(1, sizeof *t);
    if (!t)
        return -1;
    for (size_t i = 0; i < n; i++) {
        add_request(d, &a[i], t);
        r[i].bodiless = strcmp(a[i].method, "HEAD") == 0;
    }
    int bad = t->bad || xh_piece_ask(d->quick, t->at, t->n, r, n, d->o.stall_timeout_ms + d->o.connect_timeout_ms, &came);
    explicit_bzero(t, sizeof *t);
    free(t);
    for (size_t i = 0; i < came && i < n; i++) {
        xh_trace(XH_T_ORIGIN, "dav-quick", "url=%s name=\"%s\" method=%s status=%d", d->url->shown, a[i].suffix, a[i].method, r[i].head.status);
        if (d->counters)
            xh_count(d->counters, requests, 1);
    }
    return bad ? -1 : 0;
}

void xh_dav_end_quick(struct xh_dav *d)
{
    if (d->quick)
        curl_easy_cleanup(d->quick);
    d->quick = NULL;
}

int xh_dav_begin_quick(struct xh_dav *d)
{
    struct asked head = {.method = "HEAD", .suffix = ""};
    struct xh_err ignored;
    const struct xh_proxy *proxy = xh_proxy_for(&d->proxies, d->url);
    struct xh_piece_reply *r = calloc(1, sizeof *r);
    int trusted = xh_auth_trusts(&d->o, d->url, d->url), good = 0;
    if (!r || !strchr(strstr(d->url->text, "://") + 3, '/') || d->by_propfind || d->makes_dirs || d->redirected ||
        (proxy && proxy->user) || wait_for_leave(d, d->url, &ignored))
        goto out;
    if (!d->quick) {
        if (!(d->quick = curl_easy_init()))
            goto out;
        xh_handle_dress(d->quick);
        curl_easy_setopt(d->quick, CURLOPT_PROTOCOLS_STR, "https");
        if (set_up(d, d->quick, &head, d->url, NULL, trusted) || curl_easy_setopt(d->quick, CURLOPT_CONNECT_ONLY, 1L) != CURLE_OK ||
            curl_easy_setopt(d->quick, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) != CURLE_OK || curl_easy_perform(d->quick) != CURLE_OK)
            goto out;
        if (d->counters)
            xh_count(d->counters, connections, 1);
    }
    /* Who hangs up behind each reply, or has to be asked in another way, is no server for this. */
    good = ask_quickly(d, &head, 1, r) == 0 && !r->closes && (r->head.status == 200 || r->head.status == 404) &&
           strncasecmp(r->head.server, "XrootD", 6) != 0;
out:
    if (!good)
        xh_dav_end_quick(d);
    free(r);
    return good;
}

static int from_reply(const struct xh_reply *r, struct xh_dav_stat *out)
{
    *out = (struct xh_dav_stat){0};
    if (r->status == 404)
        return 0;
    out->there = r->status == 200 && from_head(r, out);
    return out->there ? 0 : -1;
}

int xh_dav_exchange(struct xh_dav *d, const char *from, const char *aside, struct xh_dav_stat *was, struct xh_dav_stat *now)
{
    const struct asked a[PIECE_MOST] = {
        {.method = "MOVE", .suffix = "", .destination = aside},
        {.method = "MOVE", .suffix = from, .destination = ""},
        {.method = "HEAD", .suffix = aside},
        {.method = "HEAD", .suffix = ""},
    };
    struct xh_piece_reply *r = d->quick ? calloc(PIECE_MOST, sizeof *r) : NULL;
    int bad = !r || ask_quickly(d, a, PIECE_MOST, r) || from_reply(&r[2].head, was) || from_reply(&r[3].head, now);
    if (bad)
        xh_dav_end_quick(d);
    free(r);
    return bad ? -1 : 0;
}
