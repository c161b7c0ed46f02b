/* curl handles: see handle.h.
 *
 * Invariants: curl follows no redirect and decides about no credential: that is caller.c's business; nothing secret
 * stays in memory once a request is over. */
#include "handle.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#include "base/now.h"
#include "base/wipe.h"
#include "libcurl.h"
#include "proxy.h"

#define UPLOAD_BUFFER_BYTES (512L << 10)
#define BUFFER_BYTES        (512L << 10) /* of socket reads over plain http; TLS brings 16 KiB records anyway */
/* What OpenSSL receives at once: two records of 16 KiB, each with its header, tag and padding. Before each record it
 * moves all that it holds to the buffer's beginning, so that room for n records costs (n - 1) / 2 further copies of
 * each byte. Copies a byte in libssl (test `copies`) and calls of recv a MB: 128 KiB 4.4 and 18, four records 2.2 and
 * 26, three 1.8 and 33, two 1.3 and 43, one 1.0 and 65. */
#define TLS_BUFFER_BYTES    (2u * (SSL3_RT_HEADER_LENGTH + SSL3_RT_MAX_PLAIN_LENGTH + SSL3_RT_MAX_ENCRYPTED_OVERHEAD))
#define SHA256_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define CA_KEPT_S           86400L /* building the store of authorities is slow */
#define NAP_MS              100    /* TLS may want to read to go on sending, or the other way round */
#define DIGEST_TIMES        10u    /* after its last byte a server may be at work on a file for so many quiet times */

/* TLS 1.3 suites in the order of their cost here: AES-128 is a quarter cheaper than AES-256 at both
 * ends where the processor has AES, and ChaCha20 is where it has not. All three are as good as
 * unbreakable; which one is taken is the server's choice. */
static const char *tls13_suites(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    int aes = __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
    int aes = (getauxval(AT_HWCAP) & HWCAP_AES) != 0;
#else
    int aes = 0;
#endif
    return aes ? "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
               : "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384";
}

/* Lets OpenSSL take from the socket what is there, more than one record at once: else each record costs two system
 * calls. Not where libcurl would wait for what OpenSSL has taken already. */
static CURLcode on_tls(CURL *easy, void *tls, void *ctx)
{
    if (!xh_libcurl_reads_all_records())
        return CURLE_OK;
    SSL_CTX_set_default_read_buffer_len(tls, TLS_BUFFER_BYTES);
    SSL_CTX_set_read_ahead(tls, 1);
    return CURLE_OK;
}

void xh_handle_dress(void *e)
{
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    xh_libcurl_set_protocols(e, 0);
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(e, CURLOPT_USERAGENT, XH_HANDLE_USER_AGENT);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(e, CURLOPT_TLS13_CIPHERS, tls13_suites()); /* some TLS libraries know none */
    if (xh_libcurl_has_our_openssl())
        curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_tls);
    xh_libcurl_keep_ca(e, CA_KEPT_S);
    curl_easy_setopt(e, CURLOPT_COOKIEFILE, ""); /* parses cookies. Which are sent, each request says */
}

/* What a proxy refused the last request's connection with, as a status of 400 or more; 0: none did. */
static int proxy_status(void *e)
{
    long status = 0, socks = CURLPX_OK;
    curl_easy_getinfo(e, CURLINFO_HTTP_CONNECTCODE, &status);
    curl_easy_getinfo(e, CURLINFO_PROXY_ERROR, &socks);
    if (status >= 400)
        return (int)status;
    return socks == CURLPX_USER_REJECTED || socks == CURLPX_NO_AUTH ? 407 : socks == CURLPX_REPLY_NOT_ALLOWED ? 403 : 0;
}

/* Says which proxy the handle is to go through to a server of |https| or http, and to which hosts it is not: libcurl
 * looks into the environment for neither then. */
static int set_proxy(void *e, const struct xh_proxies *p, int https)
{
    const struct xh_proxy *x = &p->of[https];
    int bad = curl_easy_setopt(e, CURLOPT_PROXY, x->text) != CURLE_OK; /* "": none, and none of the environment's */
    bad |= curl_easy_setopt(e, CURLOPT_NOPROXY, p->except) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_PROXYUSERNAME, x->user) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_PROXYPASSWORD, x->password) != CURLE_OK;
    return bad ? -1 : 0;
}

static const char *or_null(const char *s)
{
    return s && *s ? s : NULL;
}

/* Frees |list|, and wipes what was secret in it. */
static void free_headers(struct curl_slist *list)
{
    for (struct curl_slist *l = list; l; l = l->next)
        explicit_bzero(l->data, strlen(l->data));
    curl_slist_free_all(list);
}

/* Appends |line|. Returns 0 or -1. */
static int append(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    *list = longer ? longer : *list;
    return longer ? 0 : -1;
}

/* Appends the line "|name| |secret|". Returns 0 or -1. */
static int append_secret(struct curl_slist **list, const char *name, const char *secret)
{
    char *line = NULL;
    if (asprintf(&line, "%s %s", name, secret) < 0)
        return -1;
    int bad = append(list, line);
    xh_wipe(line);
    return bad;
}

char *xh_handle_login(const char *user, const char *password)
{
    static const char kind[] = "Basic ";
    size_t n = strlen(user) + 1 + strlen(password);
    char *plain = calloc(n + 1, 1), *coded = calloc(sizeof kind + (n + 2) / 3 * 4, 1);
    if (plain && coded) {
        sprintf(plain, "%s:%s", user, password);
        EVP_EncodeBlock((unsigned char *)stpcpy(coded, kind), (unsigned char *)plain, (int)n);
    } else {
        free(coded);
        coded = NULL;
    }
    xh_wipe(plain);
    return coded;
}

/* Appends the line of |s|'s name and password. Returns 0 or -1.
 * Not by CURLOPT_USERNAME: libcurl 8.14 makes that line before it asks a proxy for a tunnel, and when it gets none, it
 * keeps the line on the handle and sends it with the next request, whichever host that is for. */
static int append_login(struct curl_slist **list, const struct xh_send *s)
{
    char *login = xh_handle_login(s->user, s->password);
    int bad = login ? append_secret(list, "Authorization:", login) : -1;
    xh_wipe(login);
    return bad;
}

/* The header lines of |s|, with its token or login. NULL without memory. What is signed holds all of them:
 * Accept-Encoding, which proxies rewrite, is left out there. S3 wants the sum of the body, of which there is none;
 * libcurl 7.88 does not add it. */
static struct curl_slist *headers_of(const struct xh_send *s)
{
    struct curl_slist *list = NULL;
    int bad = append(&list, s->region ? "x-amz-content-sha256: " SHA256_OF_NOTHING : "Accept-Encoding: identity");
    for (const char *const *h = s->headers; h && *h; h++)
        bad |= append(&list, *h);
    if (s->bearer)
        bad |= append_secret(&list, "Authorization: Bearer", s->bearer);
    else if (s->user && s->password && !s->region)
        bad |= append_login(&list, s);
    if (s->region && s->session)
        bad |= append_secret(&list, "x-amz-security-token:", s->session);
    if (!bad)
        return list;
    free_headers(list);
    return NULL;
}

/* Makes |lines| all the cookies that the handle has. Returns 0 or -1. */
static int set_cookies(CURL *e, const char *lines)
{
    int bad = 0;
    curl_easy_setopt(e, CURLOPT_COOKIELIST, "ALL"); /* forgets them; without cookies in libcurl there are none */
    for (size_t n; lines && *lines; lines += n + (lines[n] != '\0')) {
        n = strcspn(lines, "\n");
        char *line = strndup(lines, n);
        bad |= !line || curl_easy_setopt(e, CURLOPT_COOKIELIST, line) == CURLE_OUT_OF_MEMORY;
        xh_wipe(line);
    }
    return bad ? -1 : 0;
}

char *xh_handle_cookies(void *e)
{
    struct curl_slist *list = NULL;
    size_t bytes = 1, used = 0;
    curl_easy_getinfo(e, CURLINFO_COOKIELIST, &list);
    for (const struct curl_slist *l = list; l; l = l->next)
        bytes += strlen(l->data) + 1;
    char *out = malloc(bytes);
    for (const struct curl_slist *l = list; out && l; l = l->next)
        used += (size_t)sprintf(out + used, "%s\n", l->data);
    if (out)
        out[used] = '\0';
    free_headers(list);
    return out;
}

/* Makes libcurl sign for S3, or not. A login is a header of ours. */
static int set_signature(void *e, const struct xh_send *s)
{
    char scheme[128];
    /* else libcurl (8.14) does not sign; see xh_s3_take */
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, s->region ? 0L : 1L);
    snprintf(scheme, sizeof scheme, "aws:amz:%.64s:s3", s->region ? s->region : "");
    CURLcode code = curl_easy_setopt(e, CURLOPT_AWS_SIGV4, s->region ? scheme : NULL); /* some libcurls know none */
    int bad = curl_easy_setopt(e, CURLOPT_USERNAME, s->region ? s->user : NULL) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_PASSWORD, s->region ? s->password : NULL) != CURLE_OK;
    return bad || (s->region && code != CURLE_OK) ? -1 : 0;
}

void *xh_handle_set_up(void *e, const struct xh_send *s)
{
    struct curl_slist *headers = headers_of(s);
    int bad = !headers || curl_easy_setopt(e, CURLOPT_URL, s->url) != CURLE_OK;
    bad |= set_signature(e, s) != 0;
    bad |= curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_HTTPGET, 1L) != CURLE_OK; /* ends what the last request was */
    bad |= curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, s->method) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_CAINFO, or_null(s->ca_file)) != CURLE_OK;
    curl_easy_setopt(e, CURLOPT_CAPATH, or_null(s->ca_dir));        /* some TLS libraries know none */
    curl_easy_setopt(e, CURLOPT_PROXY_CAINFO, or_null(s->ca_file)); /* the same */
    curl_easy_setopt(e, CURLOPT_PROXY_CAPATH, or_null(s->ca_dir));
    bad |= set_proxy(e, s->proxies, s->https) != 0;
    bad |= set_cookies(e, s->cookies) != 0;
    bad |= curl_easy_setopt(e, CURLOPT_SSLCERT, or_null(s->client_cert)) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_SSLKEY, or_null(s->client_key)) != CURLE_OK;
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)s->connect_timeout_ms);
    if (!bad)
        return headers;
    xh_handle_rest(e, headers);
    return NULL;
}

void xh_handle_rest(void *e, void *headers)
{
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, NULL);
    curl_easy_setopt(e, CURLOPT_COOKIELIST, "ALL");
    free_headers(headers);
}

int xh_handle_is_near(const void *address)
{
    const struct sockaddr *sa = address;
    const struct sockaddr_in *v4 = address;
    const struct sockaddr_in6 *v6 = address;
    static const unsigned char metadata[] = {0xfd, 0x00, 0x0e, 0xc2};
    if (sa->sa_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 16 == 0xa9fe; /* 169.254/16: RFC 3927 */
    if (sa->sa_family != AF_INET6)
        return 0;
    const unsigned char *a = v6->sin6_addr.s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return a[12] == 169 && a[13] == 254;
    return IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) || memcmp(a, metadata, sizeof metadata) == 0;
}

int xh_handle_says_near(const char *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
        return xh_handle_is_near(&v4);
    return inet_pton(AF_INET6, address, &v6.sin6_addr) == 1 && xh_handle_is_near(&v6);
}

enum xh_net xh_handle_net(int code)
{
    switch ((CURLcode)code) {
    case CURLE_OK: return XH_NET_OK;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return XH_NET_NAME;
    case CURLE_COULDNT_CONNECT:
    case CURLE_INTERFACE_FAILED:
    case CURLE_PROXY: return XH_NET_CONNECT;
    case CURLE_OPERATION_TIMEDOUT: return XH_NET_CONNECT_TIMEOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CRL_BADFILE: return XH_NET_UNTRUSTED;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ENGINE_NOTFOUND: return XH_NET_HANDSHAKE;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_URL_MALFORMAT:
#if LIBCURL_VERSION_NUM >= 0x080600
    case CURLE_TOO_LARGE:
#endif
        return XH_NET_BAD_HTTP;
    case CURLE_OUT_OF_MEMORY: return xh_libcurl_tells_too_large() ? XH_NET_LOCAL : XH_NET_BAD_HTTP;
    case CURLE_FAILED_INIT:
    case CURLE_NOT_BUILT_IN: return XH_NET_LOCAL;
    default: return XH_NET_BROKEN;
    }
}

void xh_handle_outcome(void *e, enum xh_net net, int code, const char *said, struct xh_outcome *out)
{
    long fresh = 0;
    *out = (struct xh_outcome){.net = net};
    if (net != XH_NET_OK && net != XH_NET_CUT && code != CURLE_OK)
        snprintf(out->text, sizeof out->text, "%.190s",
                 code == CURLE_OUT_OF_MEMORY && net == XH_NET_BAD_HTTP ? "a header line is too long, or memory is short"
                 : said[0]                                             ? said
                                                                       : curl_easy_strerror((CURLcode)code));
    for (char *p = out->text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    if (net != XH_NET_OK && net != XH_NET_CUT && net != XH_NET_CANCELLED && (out->proxy_status = proxy_status(e)) != 0)
        out->net = XH_NET_PROXY;
    curl_easy_getinfo(e, CURLINFO_NUM_CONNECTS, &fresh);
    out->opened = fresh > 0 ? (unsigned)fresh : 0;
}

/* ---- one thing at a time */

struct xh_handle {
    CURL *easy;
    const struct xh_handle_events *events;
    void *ctx;
    int cut; /* a callback made curl stop */
    /* Of the request under way: */
    const struct xh_handle_ask *ask;
    enum xh_net bound;           /* what of ours it has exceeded; OK: nothing */
    size_t header_bytes;         /* of interim replies and trailers too */
    uint64_t moved, paced;       /* bytes both ways: all, and when XH_PACE_BYTES were full last */
    uint64_t moved_ns, paced_ns; /* since when: of these, and of headers */
    int foreign, near, asked; /* as in struct xh_send; all addresses were; one was not */
    char error[CURL_ERROR_SIZE];
};

/* An event that began at |begun| is over: what it took was not the other end's time. */
static void pardon(struct xh_handle *h, uint64_t begun)
{
    uint64_t took = xh_now_ns() - begun;
    h->moved_ns += took;
    h->paced_ns += took;
}

static size_t on_line(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_handle *h = ctx;
    h->moved_ns = xh_now_ns(); /* not the pace: headers are few, and must all have come by then */
    h->header_bytes += size * n;
    if (h->header_bytes > XH_HEADERS_MOST_BYTES)
        h->bound = XH_NET_BAD_HTTP;
    h->cut |= h->events->line && h->events->line(h->ctx, p, size * n) != 0;
    return h->cut || h->bound != XH_NET_OK ? 0 : size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_handle *h = ctx;
    uint64_t begun = xh_now_ns();
    h->cut |= h->events->body && h->events->body(h->ctx, (const uint8_t *)p, size * n) != 0;
    pardon(h, begun);
    return h->cut ? 0 : size * n;
}

static size_t on_read(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_handle *h = ctx;
    uint64_t begun = xh_now_ns();
    ptrdiff_t got = h->events->read ? h->events->read(h->ctx, p, size * n) : 0;
    pardon(h, begun);
    h->cut |= got < 0;
    return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

static int on_seek(void *ctx, curl_off_t off, int origin)
{
    struct xh_handle *h = ctx;
    int may = origin == SEEK_SET && off >= 0 && h->events->seek && h->events->seek(h->ctx, (uint64_t)off) == 0;
    return may ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_CANTSEEK;
}

/* How long nothing may move. */
static uint64_t quiet_ns(const struct xh_handle *h, uint64_t up)
{
    const struct xh_handle_ask *a = h->ask;
    uint64_t times = a->uploads && up >= a->upload_bytes ? DIGEST_TIMES : 1;
    return (a->quiet_ms * times + a->send.connect_timeout_ms) * 1000000u;
}

/* Keeps the clocks of the request, of which |down| and |up| bytes have gone. Returns which bound is exceeded. */
static enum xh_net keep_pace(struct xh_handle *h, uint64_t down, uint64_t up)
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
    struct xh_handle *h = ctx;
    uint64_t begun = xh_now_ns();
    h->cut |= h->events->tick && h->events->tick(h->ctx) != 0;
    pardon(h, begun);
    if (!h->cut && h->bound == XH_NET_OK)
        h->bound = keep_pace(h, (uint64_t)down, (uint64_t)up);
    return h->cut || h->bound != XH_NET_OK;
}

/* What to say of the bound that was exceeded. */
static void tell_bound(const struct xh_handle *h, struct xh_outcome *out)
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
    struct xh_handle *h = ctx;
    int near = h->foreign && xh_handle_is_near(&a->addr);
    h->asked |= !near;
    h->near = !h->asked;
    return near ? CURL_SOCKET_BAD : socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static CURLcode on_own_tls(CURL *easy, void *tls, void *ctx)
{
    struct xh_handle *h = ctx;
    on_tls(easy, tls, NULL);
    h->events->tls(h->ctx, tls);
    return CURLE_OK;
}

struct xh_handle *xh_handle_new(const struct xh_handle_events *events, void *ctx, int https)
{
    struct xh_handle *h = calloc(1, sizeof *h);
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
        curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_own_tls);
        curl_easy_setopt(e, CURLOPT_SSL_CTX_DATA, h);
    }
    return h;
}

void xh_handle_free(struct xh_handle *h)
{
    struct xh_libcurl_hush hush;
    if (!h)
        return;
    xh_libcurl_hush(&hush);
    curl_easy_cleanup(h->easy);
    xh_libcurl_unhush(&hush);
    free(h);
}

enum xh_net xh_handle_ask(struct xh_handle *h, const struct xh_handle_ask *a, struct xh_outcome *out)
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
static curl_socket_t socket_of(const struct xh_handle *h)
{
    curl_socket_t s = CURL_SOCKET_BAD;
    return curl_easy_getinfo(h->easy, CURLINFO_ACTIVESOCKET, &s) == CURLE_OK ? s : CURL_SOCKET_BAD;
}

int xh_handle_is_open(const struct xh_handle *h)
{
    return socket_of(h) != CURL_SOCKET_BAD;
}

void xh_handle_times(const struct xh_handle *h, struct xh_handle_times *out)
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

void *xh_handle_tls(const struct xh_handle *h)
{
    struct curl_tlssessioninfo *info = NULL;
    int ours = xh_libcurl_has_our_openssl() && curl_easy_getinfo(h->easy, CURLINFO_TLS_SSL_PTR, &info) == CURLE_OK &&
               info && info->backend == CURLSSLBACKEND_OPENSSL;
    return ours ? info->internals : NULL;
}

int xh_handle_put(struct xh_handle *h, const char *text, size_t len, size_t *n)
{
    struct xh_libcurl_hush hush;
    xh_libcurl_hush(&hush);
    CURLcode code = curl_easy_send(h->easy, text, len, n);
    xh_libcurl_unhush(&hush);
    return code == CURLE_OK ? 0 : code == CURLE_AGAIN ? 1 : -1;
}

int xh_handle_take(struct xh_handle *h, char *buf, size_t len, size_t *n)
{
    CURLcode code = curl_easy_recv(h->easy, buf, len, n);
    return code == CURLE_OK && *n > 0 ? 0 : code == CURLE_AGAIN ? 1 : -1;
}

void xh_handle_wait(const struct xh_handle *h, int sending)
{
    struct pollfd p = {socket_of(h), sending ? POLLOUT : POLLIN, 0};
    poll(&p, 1, NAP_MS);
}
