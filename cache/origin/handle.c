/* curl handles: see handle.h. */
#include "handle.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <curl/curl.h>
#include <openssl/ssl.h>

#include "proxy.h"

#define BUFFER_BYTES (512L << 10) /* of socket reads over plain http; TLS brings 16 KiB records anyway */
#define TEXT_OF(number) #number
#define TEXT(macro) TEXT_OF(macro)
#define OPENSSL_MAJOR TEXT(OPENSSL_VERSION_MAJOR) "."
#define TLS_BUFFER_BYTES (128u << 10)
#define CA_KEPT_S 86400L /* building the store of authorities is slow */

void xh_handle_default_ca(const char **file, const char **dir)
{
    const curl_version_info_data *v = curl_version_info(CURLVERSION_NOW);
    *file = v->age >= CURLVERSION_SEVENTH ? v->cainfo : NULL;
    *dir = v->age >= CURLVERSION_SEVENTH ? v->capath : NULL;
}

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

const char *xh_handle_advice(const char *said, char out[XH_HANDLE_ADVICE_BYTES])
{
    static const char *const plain[] = {"wrong version number", "packet length too long", "http request", "unknown protocol", "record layer failure"};
    int over = strstr(said, "expired") != NULL;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strstr(said, plain[i]))
            return "This port speaks no TLS: write the port of its https, or http:// if what comes may be read and "
                   "changed on its way (no token is sent then)";
    if (over || strstr(said, "not yet valid")) {
        char date[32] = "?";
        time_t now = time(NULL);
        struct tm tm;
        if (gmtime_r(&now, &tm))
            strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &tm);
        snprintf(out, XH_HANDLE_ADVICE_BYTES, "Its owner has to renew it%s, unless this machine's clock is wrong: it "
                                            "says %s", over ? "" : ", or it is too new", date);
        return out;
    }
    if (strstr(said, "subject name") || strstr(said, "ostname mismatch") || strstr(said, "does not match target host"))
        return "It is made out to another host: use a name that it has, or ask its owner to add this one";
    if (strstr(said, "revoked"))
        return "Its issuer has withdrawn it: ask the server's owner";
    return NULL;
}

int xh_handle_has_our_openssl(void)
{
    static const char ours[] = "OpenSSL/" OPENSSL_MAJOR;
    const char *tls = curl_version_info(CURLVERSION_NOW)->ssl_version;
    return tls && strncmp(tls, ours, sizeof ours - 1) == 0;
}

/* Lets OpenSSL take from the socket what is there, several records at once: else each record of
 * 16 KiB costs two system calls. */
static CURLcode on_tls(CURL *easy, void *tls, void *ctx)
{
    SSL_CTX_set_default_read_buffer_len(tls, TLS_BUFFER_BYTES);
    SSL_CTX_set_read_ahead(tls, 1);
    return CURLE_OK;
}

void xh_handle_dress(void *e)
{
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(e, CURLOPT_USERAGENT, XH_HANDLE_USER_AGENT);
    curl_easy_setopt(e, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(e, CURLOPT_TLS13_CIPHERS, tls13_suites()); /* some TLS libraries know none */
    if (xh_handle_has_our_openssl())
        curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_tls);
    curl_easy_setopt(e, CURLOPT_CA_CACHE_TIMEOUT, CA_KEPT_S);
}

int xh_handle_set_proxy(void *e, const struct xh_proxies *p, int https)
{
    const struct xh_proxy *x = &p->of[https];
    int bad = curl_easy_setopt(e, CURLOPT_PROXY, x->text) != CURLE_OK; /* "": none, and none of the environment's */
    bad |= curl_easy_setopt(e, CURLOPT_NOPROXY, p->except) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_PROXYUSERNAME, x->user) != CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_PROXYPASSWORD, x->password) != CURLE_OK;
    return bad ? -1 : 0;
}

int xh_handle_proxy_status(void *e)
{
    long status = 0, socks = CURLPX_OK;
    curl_easy_getinfo(e, CURLINFO_HTTP_CONNECTCODE, &status);
    curl_easy_getinfo(e, CURLINFO_PROXY_ERROR, &socks);
    if (status >= 400)
        return (int)status;
    return socks == CURLPX_USER_REJECTED || socks == CURLPX_NO_AUTH ? 407 : socks == CURLPX_REPLY_NOT_ALLOWED ? 403 : 0;
}
