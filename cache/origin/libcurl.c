/* What libcurl's versions differ in: see libcurl.h. */
#include "libcurl.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <curl/curl.h>
#include <openssl/opensslv.h>

#define TEXT_OF(number)   #number
#define TEXT(macro)       TEXT_OF(macro)
#define OPENSSL_MAJOR     TEXT(OPENSSL_VERSION_MAJOR) "."

#if LIBCURL_VERSION_NUM < 0x074c00
#error "xhdf5 needs libcurl 7.76 or newer"
#endif

int xh_libcurl_has_our_openssl(void)
{
    static const char ours[] = "OpenSSL/" OPENSSL_MAJOR;
    const char *tls = curl_version_info(CURLVERSION_NOW)->ssl_version;
    return tls && strncmp(tls, ours, sizeof ours - 1) == 0;
}

int xh_libcurl_is(enum xh_libcurl_version least)
{
    return curl_version_info(CURLVERSION_NOW)->version_num >= (unsigned)least;
}

int xh_libcurl_signs(void)
{
    CURL *e = curl_easy_init();
    int signs = xh_libcurl_is(XH_LIBCURL_SIGNS_HEADERS) && e &&
                curl_easy_setopt(e, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3") == CURLE_OK;
    curl_easy_cleanup(e);
    return signs;
}

void xh_libcurl_default_ca(const char **file, const char **dir)
{
    const curl_version_info_data *v = curl_version_info(CURLVERSION_NOW);
    *file = v->age >= CURLVERSION_SEVENTH ? v->cainfo : NULL;
    *dir = v->age >= CURLVERSION_SEVENTH ? v->capath : NULL;
}

static int is_pipe_pending(void)
{
    sigset_t set;
    return sigpending(&set) == 0 && sigismember(&set, SIGPIPE) == 1;
}

void xh_libcurl_hush(struct xh_libcurl_hush *out)
{
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &out->old);
    out->pending = is_pipe_pending();
}

void xh_libcurl_unhush(const struct xh_libcurl_hush *h)
{
    static const struct timespec now = {0};
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    while (!h->pending && is_pipe_pending())
        if (sigtimedwait(&pipe, NULL, &now) < 0 && errno != EINTR)
            break;
    pthread_sigmask(SIG_SETMASK, &h->old, NULL);
}

void xh_libcurl_set_protocols(void *easy, int https)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, https ? "https" : "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, https ? (long)CURLPROTO_HTTPS : (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

void xh_libcurl_keep_ca(void *easy, long s)
{
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, s);
#endif
}

void xh_libcurl_leave_resolver(void *easy, int leave)
{
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, (long)leave);
#endif
}

#if LIBCURL_VERSION_NUM >= 0x075000
static int on_sent(void *ctx, char *remote, char *local, int remote_port, int local_port)
{
    const struct xh_libcurl_sent *sent = ctx;
    return sent->tell(sent->ctx, remote, (unsigned)local_port) ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

void xh_libcurl_on_sent(void *easy, struct xh_libcurl_sent *sent)
{
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_sent);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, sent);
}
#else
/* It sees all that goes out: also what asks a proxy for a tunnel. No request of ours begins like that. */
static int on_sent(CURL *easy, curl_infotype type, char *data, size_t len, void *ctx)
{
    static const char tunnel[] = "CONNECT ";
    const struct xh_libcurl_sent *sent = ctx;
    const char *remote = NULL;
    long port = 0;
    if (type != CURLINFO_HEADER_OUT || (len >= sizeof tunnel - 1 && memcmp(data, tunnel, sizeof tunnel - 1) == 0))
        return 0;
    curl_easy_getinfo(easy, CURLINFO_LOCAL_PORT, &port);
    curl_easy_getinfo(easy, CURLINFO_PRIMARY_IP, &remote);
    sent->tell(sent->ctx, remote ? remote : "", (unsigned)port);
    return 0;
}

void xh_libcurl_on_sent(void *easy, struct xh_libcurl_sent *sent)
{
    curl_easy_setopt(easy, CURLOPT_DEBUGFUNCTION, on_sent);
    curl_easy_setopt(easy, CURLOPT_DEBUGDATA, sent);
    curl_easy_setopt(easy, CURLOPT_VERBOSE, 1L);
}
#endif
