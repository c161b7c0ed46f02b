/* A client that asks one thing at a time: see client.h. */
#include "client.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <curl/curl.h>

#include "base/now.h"
#include "handle.h"
#include "libcurl.h"

#define UPLOAD_BUFFER_BYTES (512L << 10)
#define NAP_MS              100 /* TLS may want to read to go on sending, or the other way round */
#define DIGEST_TIMES        10u /* after its last byte a server may be at work on a file for so many quiet times */

struct xh_client {
    CURL *easy;
    const struct xh_client_events *events;
    void *ctx;
    int cut; /* a callback made curl stop */
    /* Of the request under way: */
    const struct xh_client_ask *ask;
    enum xh_net bound;           /* what of ours it has exceeded; OK: nothing */
    size_t header_bytes;         /* of interim replies and trailers too */
    uint64_t moved, paced;       /* bytes both ways: all, and when XH_PACE_BYTES were full last */
    uint64_t moved_ns, paced_ns; /* since when: of these, and of headers */
    int foreign, near, asked; /* as in struct xh_send; all addresses were; one was not */
    char error[CURL_ERROR_SIZE];
};

/* An event that began at |begun| is over: what it took was not the other end's time. */
static void pardon(struct xh_client *h, uint64_t begun)
{
    uint64_t took = xh_now_ns() - begun;
    h->moved_ns += took;
    h->paced_ns += took;
}

static size_t on_line(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_client *h = ctx;
    h->moved_ns = xh_now_ns(); /* not the pace: headers are few, and must all have come by then */
    h->header_bytes += size * n;
    if (h->header_bytes > XH_HEADERS_MOST_BYTES)
        h->bound = XH_NET_BAD_HTTP;
    h->cut |= h->events->line && h->events->line(h->ctx, p, size * n) != 0;
    return h->cut || h->bound != XH_NET_OK ? 0 : size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_client *h = ctx;
    uint64_t begun = xh_now_ns();
    h->cut |= h->events->body && h->events->body(h->ctx, (const uint8_t *)p, size * n) != 0;
    pardon(h, begun);
    return h->cut ? 0 : size * n;
}

static size_t on_read(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_client *h = ctx;
    uint64_t begun = xh_now_ns();
    ptrdiff_t got = h->events->read ? h->events->read(h->ctx, p, size * n) : 0;
    pardon(h, begun);
    h->cut |= got < 0;
    return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

static int on_seek(void *ctx, curl_off_t off, int origin)
{
    struct xh_client *h = ctx;
    int may = origin == SEEK_SET && off >= 0 && h->events->seek && h->events->seek(h->ctx, (uint64_t)off) == 0;
    return may ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_CANTSEEK;
}

/* How long nothing may move. */
static uint64_t quiet_ns(const struct xh_client *h, uint64_t up)
{
    const struct xh_client_ask *a = h->ask;
    uint64_t times = a->uploads && up >= a->upload_bytes ? DIGEST_TIMES : 1;
    return (a->quiet_ms * times + a->send.connect_timeout_ms) * 1000000u;
}

/* Keeps the clocks of the request, of which |down| and |up| bytes have gone. Returns which bound is exceeded. */
static enum xh_net keep_pace(struct xh_client *h, uint64_t down, uint64_t up)
{
    uint64_t now = xh_now_ns(), most = quiet_ns(h, up);
    if (down + up < h->moved) { /* libcurl sends it anew: the connection that it had kept broke before an answer */
        h->paced = 0;
        h->paced_ns = now;
    }
    if (down + up != h->moved) {
        h->moved = down + up;
        h->moved_ns = now;
    }
    if (h->moved >= h->paced + XH_PACE_BYTES) {
        h->paced = h->moved;
        h->paced_ns = now;
    }
    if (!h->ask->quiet_ms)
        return XH_NET_OK;
    return now > h->moved_ns + most ? XH_NET_STALL : now > h->paced_ns + 2 * most ? XH_NET_CRAWL : XH_NET_OK;
}

static int on_tick(void *ctx, curl_off_t all_down, curl_off_t down, curl_off_t all_up, curl_off_t up)
{
    struct xh_client *h = ctx;
    uint64_t begun = xh_now_ns();
    h->cut |= h->events->tick && h->events->tick(h->ctx) != 0;
    pardon(h, begun);
    if (!h->cut && h->bound == XH_NET_OK)
        h->bound = keep_pace(h, (uint64_t)down, (uint64_t)up);
    return h->cut || h->bound != XH_NET_OK;
}

/* What to say of the bound that was exceeded. */
static void tell_bound(const struct xh_client *h, struct xh_outcome *out)
{
    uint64_t ms = quiet_ns(h, h->moved) / 1000000u;
    switch (h->bound) {
    case XH_NET_STALL: snprintf(out->text, sizeof out->text, "nothing came for %" PRIu64 " ms", ms); break;
    case XH_NET_CRAWL:
        snprintf(out->text, sizeof out->text, "only %" PRIu64 " bytes in %" PRIu64 " ms", h->moved - h->paced, 2 * ms);
        break;
    default: snprintf(out->text, sizeof out->text, "headers of more than %u bytes", XH_HEADERS_MOST_BYTES);
    }
}

static curl_socket_t on_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct xh_client *h = ctx;
    int near = h->foreign && xh_handle_is_near(&a->addr);
    h->asked |= !near;
    h->near = !h->asked;
    int fd = near ? -1 : xh_handle_socket(a->family, a->socktype, a->protocol);
    if (fd >= 0 && h->ask->quiet_ms)
        xh_handle_bounds(fd, h->ask->quiet_ms);
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static CURLcode on_tls(CURL *easy, void *tls, void *ctx)
{
    struct xh_client *h = ctx;
    xh_handle_read_ahead(tls);
    h->events->tls(h->ctx, tls);
    return CURLE_OK;
}

struct xh_client *xh_client_new(const struct xh_client_events *events, void *ctx, int https)
{
    struct xh_client *h = calloc(1, sizeof *h);
    if (!h || !(h->easy = curl_easy_init())) {
        free(h);
        return NULL;
    }
    CURL *e = h->easy;
    h->events = events;
    h->ctx = ctx;
    xh_handle_dress(e);
    if (https)
        xh_libcurl_set_protocols(e, 1);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, h->error);
    curl_easy_setopt(e, CURLOPT_DNS_CACHE_TIMEOUT, 0L); /* its connections are few, and the name may lead elsewhere */
    curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER_BYTES);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_line);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, h);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, h);
    curl_easy_setopt(e, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(e, CURLOPT_READDATA, h);
    curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(e, CURLOPT_SEEKDATA, h);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, h);
    curl_easy_setopt(e, CURLOPT_XFERINFOFUNCTION, on_tick);
    curl_easy_setopt(e, CURLOPT_XFERINFODATA, h);
    curl_easy_setopt(e, CURLOPT_NOPROGRESS, 0L);
    if (events->tls && xh_libcurl_has_our_openssl()) {
        curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_tls);
        curl_easy_setopt(e, CURLOPT_SSL_CTX_DATA, h);
    }
    return h;
}

void xh_client_free(struct xh_client *h)
{
    struct xh_libcurl_hush hush;
    if (!h)
        return;
    xh_libcurl_hush(&hush);
    curl_easy_cleanup(h->easy);
    xh_libcurl_unhush(&hush);
    free(h);
}

enum xh_net xh_client_ask(struct xh_client *h, const struct xh_client_ask *a, struct xh_outcome *out)
{
    CURL *e = h->easy;
    *out = (struct xh_outcome){.net = XH_NET_LOCAL, .text = "no request could be made"};
    h->cut = h->near = h->asked = 0;
    h->ask = a;
    h->bound = XH_NET_OK;
    h->header_bytes = 0;
    h->moved = h->paced = 0;
    h->moved_ns = h->paced_ns = xh_now_ns();
    h->foreign = a->send.foreign;
    h->error[0] = '\0';
    void *headers = xh_handle_set_up(e, &a->send);
    if (!headers)
        return XH_NET_LOCAL;
    int bad = curl_easy_setopt(e, CURLOPT_UPLOAD, (long)a->uploads) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, a->uploads ? (curl_off_t)a->upload_bytes : -1) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_NOBODY, (long)a->bodiless) != CURLE_OK;
    if (!a->uploads && !a->bodiless)
        bad |= curl_easy_setopt(e, CURLOPT_HTTPGET, 1L) != CURLE_OK;
    if (a->uploads || a->bodiless)
        bad |= curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, NULL) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, (long)a->fresh) != CURLE_OK;
    if (a->quiet_ms) { /* so it is found out, too, while nothing is on its way: a server may be at work on a file */
        curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, (long)(a->quiet_ms / 2000 + 1));
        curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, (long)(a->quiet_ms / 2000 + 1));
    }
    bad |= curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, (long)a->connects_only) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)a->most_ms) != CURLE_OK;
    if (!bad) {
        struct xh_libcurl_hush hush;
        xh_libcurl_hush(&hush);
        CURLcode code = curl_easy_perform(e);
        xh_libcurl_unhush(&hush);
        enum xh_net net = code == CURLE_OK         ? XH_NET_OK
                          : h->cut                 ? XH_NET_CUT
                          : h->bound != XH_NET_OK  ? h->bound
                          : h->near                ? XH_NET_NEAR
                                                   : xh_handle_net((int)code);
        xh_handle_outcome(e, net, (int)code, h->error, out);
        if (out->net == h->bound && h->bound != XH_NET_OK)
            tell_bound(h, out);
    }
    xh_handle_rest(e, headers);
    return out->net;
}

/* Its connection, or -1. */
static curl_socket_t socket_of(const struct xh_client *h)
{
    curl_socket_t s = CURL_SOCKET_BAD;
    return curl_easy_getinfo(h->easy, CURLINFO_ACTIVESOCKET, &s) == CURLE_OK ? s : CURL_SOCKET_BAD;
}

int xh_client_is_open(const struct xh_client *h)
{
    return socket_of(h) != CURL_SOCKET_BAD;
}

void xh_client_times(const struct xh_client *h, struct xh_client_times *out)
{
    curl_off_t connect = 0, tls = 0, sent = 0, first = 0;
    const char *ip = NULL;
    curl_easy_getinfo(h->easy, CURLINFO_CONNECT_TIME_T, &connect);
    curl_easy_getinfo(h->easy, CURLINFO_APPCONNECT_TIME_T, &tls);
    curl_easy_getinfo(h->easy, CURLINFO_PRETRANSFER_TIME_T, &sent);
    curl_easy_getinfo(h->easy, CURLINFO_STARTTRANSFER_TIME_T, &first);
    curl_easy_getinfo(h->easy, CURLINFO_PRIMARY_IP, &ip);
    out->connect_ms = (double)connect / 1e3;
    out->tls_ms = tls > connect ? (double)(tls - connect) / 1e3 : 0;
    out->first_ms = first > sent ? (double)(first - sent) / 1e3 : 0;
    snprintf(out->address, sizeof out->address, "%s", ip ? ip : "");
}

void *xh_client_tls(const struct xh_client *h)
{
    struct curl_tlssessioninfo *info = NULL;
    int ours = xh_libcurl_has_our_openssl() && curl_easy_getinfo(h->easy, CURLINFO_TLS_SSL_PTR, &info) == CURLE_OK &&
               info && info->backend == CURLSSLBACKEND_OPENSSL;
    return ours ? info->internals : NULL;
}

int xh_client_put(struct xh_client *h, const char *text, size_t len, size_t *n)
{
    struct xh_libcurl_hush hush;
    xh_libcurl_hush(&hush);
    CURLcode code = curl_easy_send(h->easy, text, len, n);
    xh_libcurl_unhush(&hush);
    return code == CURLE_OK ? 0 : code == CURLE_AGAIN ? 1 : -1;
}

int xh_client_take(struct xh_client *h, char *buf, size_t len, size_t *n)
{
    CURLcode code = curl_easy_recv(h->easy, buf, len, n);
    return code == CURLE_OK && *n > 0 ? 0 : code == CURLE_AGAIN ? 1 : -1;
}

void xh_client_wait(const struct xh_client *h, int sending)
{
    struct pollfd p = {socket_of(h), sending ? POLLOUT : POLLIN, 0};
    poll(&p, 1, NAP_MS);
}
