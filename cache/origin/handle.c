/* curl handles: see handle.h.
 *
 * Invariants: curl follows no redirect and decides about no credential: that is caller.c's business; nothing secret
 * stays in memory once a request is over. */
#include "handle.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#include "base/files.h"
#include "base/wipe.h"
#include "libcurl.h"
#include "proxy.h"

#define BUFFER_BYTES        (512L << 10) /* of socket reads over plain http; TLS brings 16 KiB records anyway */
/* What OpenSSL receives at once: two records of 16 KiB, each with its header, tag and padding. Before each record it
 * moves all that it holds to the buffer's beginning, so that room for n records costs (n - 1) / 2 further copies of
 * each byte. Copies a byte in libssl (test `copies`) and calls of recv a MB: 128 KiB 4.4 and 18, four records 2.2 and
 * 26, three 1.8 and 33, two 1.3 and 43, one 1.0 and 65. */
#define TLS_BUFFER_BYTES    (2u * (SSL3_RT_HEADER_LENGTH + SSL3_RT_MAX_PLAIN_LENGTH + SSL3_RT_MAX_ENCRYPTED_OVERHEAD))
#define SHA256_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define CA_KEPT_S           86400 /* building the store of authorities is slow */

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

void xh_handle_read_ahead(void *tls)
{
    if (!xh_libcurl_is(XH_LIBCURL_READS_ALL_RECORDS))
        return;
    SSL_CTX_set_default_read_buffer_len(tls, TLS_BUFFER_BYTES);
    SSL_CTX_set_read_ahead(tls, 1);
}

static CURLcode on_tls(CURL *easy, void *tls, void *ctx)
{
    xh_handle_read_ahead(tls);
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
    curl_easy_setopt(e, CURLOPT_COOKIEFILE, ""); /* parses cookies. Which are sent, each request says */
}

/* What a proxy refused the last request's connection with, as a status other than 2xx; 0: none did. */
static int proxy_status(void *e)
{
    long status = 0, socks = CURLPX_OK;
    curl_easy_getinfo(e, CURLINFO_HTTP_CONNECTCODE, &status);
    curl_easy_getinfo(e, CURLINFO_PROXY_ERROR, &socks);
    if (status / 100 != 2 && status)
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

/* For how long (s) curl may keep the store that it has built of the authorities in |file|: since that was changed last.
 * What it built before is older, so who is named there now is trusted, and nobody else. */
static long ca_kept_s(const char *file)
{
    struct stat st;
    if (!file || !*file || stat(file, &st) != 0)
        return CA_KEPT_S;
    long long s = (long long)time(NULL) - st.st_ctime - 1; /* whole seconds */
    return s < 0 ? 0 : s < CA_KEPT_S ? (long)s : CA_KEPT_S;
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
    xh_libcurl_keep_ca(e, ca_kept_s(s->ca_file));
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

/* This thread's last socket could not be made, as the process has as many files open as it may. */
static _Thread_local int too_many_files;

int xh_handle_socket(int family, int type, int protocol)
{
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);
    too_many_files = fd < 0 && (errno == EMFILE || errno == ENFILE);
    return xh_move_up(fd);
}

void xh_handle_bounds(int fd, uint64_t ms)
{
    unsigned most = ms < INT_MAX ? (unsigned)ms : INT_MAX;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &most, sizeof most);
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
    case CURLE_OUT_OF_MEMORY: return xh_libcurl_is(XH_LIBCURL_TELLS_TOO_LARGE) ? XH_NET_LOCAL : XH_NET_BAD_HTTP;
    case CURLE_FAILED_INIT:
    case CURLE_NOT_BUILT_IN: return XH_NET_LOCAL;
    default: return XH_NET_BROKEN;
    }
}

void xh_handle_outcome(void *e, enum xh_net net, int code, const char *said, struct xh_outcome *out)
{
    long fresh = 0, why = 0;
    *out = (struct xh_outcome){.net = net, .no_cas = code == CURLE_SSL_CACERT_BADFILE};
    if (net == XH_NET_CONNECT && too_many_files)
        said = "this process has as many files open as it may: raise that limit (ulimit -n), or close files";
    if (net != XH_NET_OK && net != XH_NET_CUT && code != CURLE_OK)
        snprintf(out->text, sizeof out->text, "%.190s",
                 code == CURLE_OUT_OF_MEMORY && net == XH_NET_BAD_HTTP ? "a header line is too long, or memory is short"
                 : said[0]                                             ? said
                                                                       : curl_easy_strerror((CURLcode)code));
    /* Whether there is no network, or nobody listens: libcurl's words are the same. */
    if (net == XH_NET_CONNECT && curl_easy_getinfo(e, CURLINFO_OS_ERRNO, &why) == CURLE_OK && why > 0) {
        size_t used = strlen(out->text);
        char buf[64];
        snprintf(out->text + used, sizeof out->text - used, ": %.60s", strerror_r((int)why, buf, sizeof buf));
    }
    for (char *p = out->text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    if (net != XH_NET_OK && net != XH_NET_CUT && net != XH_NET_CANCELLED && (out->proxy_status = proxy_status(e)) != 0)
        out->net = XH_NET_PROXY;
    curl_easy_getinfo(e, CURLINFO_NUM_CONNECTS, &fresh);
    out->opened = fresh > 0 ? (unsigned)fresh : 0;
}
