/* The tool's HTTP requests: see dial.h. */
#include "dial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>
#include <openssl/ssl.h>

#include "../../cache/origin/handle.h"
#include "tool.h"

#define HEADERS_MOST 131072u
#define TLS_BUFFER_BYTES (128u << 10)

struct xh_dial {
    const struct xh_caller *c;
    CURL *easy;
    char error[CURL_ERROR_SIZE];
    /* Valid during a request. */
    const struct xh_question *q;
    struct xh_answer *a;
    size_t header_bytes;
    struct xh_multipart multipart;
};

/* ---- TLS */

static void name_text(const X509_NAME *name, char *out, size_t size)
{
    BIO *b = BIO_new(BIO_s_mem());
    char *text = NULL, raw[1024];
    long n = b && name && X509_NAME_print_ex(b, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) >= 0
                 ? BIO_get_mem_data(b, &text)
                 : 0;
    size_t len = n <= 0 ? 0 : (size_t)n < sizeof raw ? (size_t)n : sizeof raw - 1;
    if (len)
        memcpy(raw, text, len);
    raw[len] = '\0';
    xh_tool_name(raw, out, size);
    BIO_free(b);
}

/* The answer of the handshake that this thread makes. Only here the name of a refused certificate can be seen. */
static _Thread_local struct xh_answer *handshake;

static int on_certificate(int good, X509_STORE_CTX *ctx)
{
    X509 *cert = X509_STORE_CTX_get_current_cert(ctx);
    if (!good && handshake && cert) {
        name_text(X509_get_subject_name(cert), handshake->subject, sizeof handshake->subject);
        name_text(X509_get_issuer_name(cert), handshake->issuer, sizeof handshake->issuer);
    }
    return good;
}

static CURLcode on_tls(CURL *easy, void *tls, void *ctx)
{
    SSL_CTX_set_default_read_buffer_len(tls, TLS_BUFFER_BYTES);
    SSL_CTX_set_read_ahead(tls, 1);
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, on_certificate);
    return CURLE_OK;
}

static void note_tls(struct xh_answer *a, SSL *ssl)
{
    X509 *leaf = SSL_get0_peer_certificate(ssl);
    STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
    const SSL_CIPHER *cipher = SSL_get_current_cipher(ssl);
    struct tm until;
    a->tls = 1;
    a->resumed = SSL_session_reused(ssl);
    snprintf(a->protocol, sizeof a->protocol, "%s", SSL_get_version(ssl));
    snprintf(a->cipher, sizeof a->cipher, "%s", cipher ? SSL_CIPHER_get_name(cipher) : "?");
    if (!leaf)
        return;
    EVP_PKEY *key = X509_get0_pubkey(leaf);
    if (key)
        snprintf(a->key, sizeof a->key, "%s, %d bits", EVP_PKEY_get0_type_name(key), EVP_PKEY_get_bits(key));
    name_text(X509_get_subject_name(leaf), a->subject, sizeof a->subject);
    name_text(X509_get_issuer_name(leaf), a->issuer, sizeof a->issuer);
    if (chain && sk_X509_num(chain) > 0)
        name_text(X509_get_subject_name(sk_X509_value(chain, sk_X509_num(chain) - 1)), a->root, sizeof a->root);
    if (ASN1_TIME_to_tm(X509_get0_notAfter(leaf), &until) == 1)
        a->until = timegm(&until);
}

/* ---- callbacks */

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_dial *d = ctx;
    struct curl_tlssessioninfo *info = NULL;
    d->header_bytes += n;
    if (d->header_bytes > HEADERS_MOST) {
        snprintf(d->a->why, sizeof d->a->why, "headers of more than %u bytes", HEADERS_MOST);
        return 0;
    }
    if (!d->a->tls && xh_handle_has_our_openssl() &&
        curl_easy_getinfo(d->easy, CURLINFO_TLS_SSL_PTR, &info) == CURLE_OK && info &&
        info->backend == CURLSSLBACKEND_OPENSSL && info->internals)
        note_tls(d->a, info->internals);
    static const char chunked[] = "Transfer-Encoding: chunked";
    if (n >= 5 && memcmp(p, "HTTP/", 5) == 0)
        d->a->chunked = 0;
    d->a->chunked |= n >= sizeof chunked - 1 && strncasecmp(p, chunked, sizeof chunked - 1) == 0;
    if (xh_reply_line(&d->a->reply, p, n, time(NULL)) && d->a->reply.multipart)
        xh_multipart_init(&d->multipart, d->a->reply.boundary);
    return n;
}

static int on_part(void *ctx, const struct xh_content_range *range)
{
    return 0;
}

static int on_part_data(void *ctx, uint64_t off, const uint8_t *p, size_t len)
{
    struct xh_dial *d = ctx;
    d->a->parts += d->multipart.range.last + 1 == off + len;
    return 0;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct xh_dial *d = ctx;
    const struct xh_multipart_sink sink = {on_part, on_part_data, d};
    const uint8_t *bytes = (const uint8_t *)p;
    d->a->body_bytes += n;
    if (d->a->body_bytes > d->q->most_bytes)
        return 0;
    if (d->a->reply.status == 206 && d->a->reply.multipart && xh_multipart_feed(&d->multipart, bytes, n, &sink) != 0) {
        snprintf(d->a->why, sizeof d->a->why, "malformed multipart/byteranges");
        d->a->end = XH_DIAL_BAD_HTTP;
        return 0;
    }
    return (d->a->reply.status == 206 || d->a->reply.status == 207 || (d->q->whole && d->a->reply.status == 200)) &&
                   d->q->body && d->q->body(d->q->ctx, bytes, n)
               ? 0
               : n;
}

static int on_tick(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t e)
{
    struct xh_dial *d = ctx;
    return d->q->tick && d->q->tick(d->q->ctx);
}

/* ---- requests */

struct xh_dial *xh_dial_new(const struct xh_caller *c)
{
    struct xh_dial *d = calloc(1, sizeof *d);
    if (!d || !(d->easy = curl_easy_init())) {
        free(d);
        return NULL;
    }
    d->c = c;
    xh_handle_dress(d->easy);
    curl_easy_setopt(d->easy, CURLOPT_ERRORBUFFER, d->error);
    if (xh_handle_has_our_openssl())
        curl_easy_setopt(d->easy, CURLOPT_SSL_CTX_FUNCTION, on_tls);
    curl_easy_setopt(d->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(d->easy, CURLOPT_HEADERDATA, d);
    curl_easy_setopt(d->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(d->easy, CURLOPT_WRITEDATA, d);
    curl_easy_setopt(d->easy, CURLOPT_XFERINFOFUNCTION, on_tick);
    curl_easy_setopt(d->easy, CURLOPT_XFERINFODATA, d);
    curl_easy_setopt(d->easy, CURLOPT_NOPROGRESS, 0L);
    return d;
}

void xh_dial_free(struct xh_dial *d)
{
    if (d)
        curl_easy_cleanup(d->easy);
    free(d);
}

static void append(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer)
        *list = longer;
}

static struct curl_slist *headers_of(const struct xh_caller *c, const struct xh_url *u, const struct xh_question *q)
{
    struct curl_slist *list = NULL;
    char *line = NULL;
    append(&list, "Accept-Encoding: identity");
    if (q->method && strcmp(q->method, "PROPFIND") == 0)
        append(&list, "Depth: 0");
    if (q->destination && asprintf(&line, "Destination: %s", q->destination) >= 0) {
        append(&list, line);
        append(&list, "Overwrite: F");
        free(line);
    }
    if (q->range && asprintf(&line, "Range: %s", q->range) >= 0) {
        append(&list, line);
        free(line);
    }
    if (q->pad_bytes && asprintf(&line, "X-Padding: %0*d", (int)q->pad_bytes, 0) >= 0) {
        append(&list, line);
        free(line);
    }
    if (!u->ticket && c->token && c->token->value && !c->named->user && !c->user && xh_auth_trusts(c->o, c->named, u) &&
        asprintf(&line, "Authorization: Bearer %s", c->token->value) >= 0) {
        append(&list, line);
        explicit_bzero(line, strlen(line));
        free(line);
    }
    return list;
}

static const char *or_null(const char *s)
{
    return *s ? s : NULL;
}

static void set_url(struct xh_dial *d, const struct xh_url *u, const struct xh_question *q)
{
    const struct xh_caller *c = d->c;
    int own = xh_url_same_server(u, c->named) && u->https && !u->ticket;
    int cert = c->cert.path[0] && xh_auth_trusts(c->o, c->named, u);
    uint64_t connect_ms = c->o->connect_timeout_ms;
    uint64_t stall_ms = c->o->stall_timeout_ms, most_ms = stall_ms < XH_DIAL_MOST_MS ? stall_ms : XH_DIAL_MOST_MS;
    curl_easy_setopt(d->easy, CURLOPT_URL, u->text);
    curl_easy_setopt(d->easy, CURLOPT_CUSTOMREQUEST, q->method);
    curl_easy_setopt(d->easy, CURLOPT_FRESH_CONNECT, (long)q->fresh);
    curl_easy_setopt(d->easy, CURLOPT_USERNAME, own ? (c->named->user ? c->named->user : c->user) : NULL);
    curl_easy_setopt(d->easy, CURLOPT_PASSWORD, own ? (c->named->user ? c->named->password : c->password) : NULL);
    curl_easy_setopt(d->easy, CURLOPT_CAINFO, or_null(c->trust.file));
    curl_easy_setopt(d->easy, CURLOPT_CAPATH, or_null(c->trust.dir));
    curl_easy_setopt(d->easy, CURLOPT_PROXY_CAINFO, or_null(c->trust.file));
    curl_easy_setopt(d->easy, CURLOPT_PROXY_CAPATH, or_null(c->trust.dir));
    xh_handle_set_proxy(d->easy, &c->proxies, u->https);
    curl_easy_setopt(d->easy, CURLOPT_SSLCERT, cert ? c->cert.path : NULL);
    curl_easy_setopt(d->easy, CURLOPT_SSLKEY, cert ? c->cert.key : NULL);
    curl_easy_setopt(d->easy, CURLOPT_CONNECTTIMEOUT_MS,
                     (long)(connect_ms < XH_DIAL_MOST_MS ? connect_ms : XH_DIAL_MOST_MS));
    curl_easy_setopt(d->easy, CURLOPT_TIMEOUT_MS, q->whole ? 0L : (long)(q->most_ms ? q->most_ms : most_ms));
    curl_easy_setopt(d->easy, CURLOPT_LOW_SPEED_LIMIT, q->whole ? 1L : 0L);
    curl_easy_setopt(d->easy, CURLOPT_LOW_SPEED_TIME, q->whole ? (long)(stall_ms + 999) / 1000 : 0L);
}

static enum xh_dial_end end_of(const struct xh_dial *d, CURLcode code)
{
    switch (code) {
    case CURLE_OK: return XH_DIAL_OK;
    case CURLE_COULDNT_RESOLVE_HOST: case CURLE_COULDNT_RESOLVE_PROXY: return XH_DIAL_NAME;
    case CURLE_COULDNT_CONNECT: case CURLE_PROXY: return XH_DIAL_CONNECT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CERTPROBLEM: return XH_DIAL_UNTRUSTED;
    case CURLE_SSL_CONNECT_ERROR: case CURLE_SSL_CIPHER: return XH_DIAL_TLS;
    case CURLE_OPERATION_TIMEDOUT: return XH_DIAL_TIMEOUT;
    case CURLE_ABORTED_BY_CALLBACK: return XH_DIAL_CUT;
    case CURLE_WRITE_ERROR: return d->header_bytes > HEADERS_MOST || d->a->end ? XH_DIAL_BAD_HTTP : XH_DIAL_CUT;
    case CURLE_UNSUPPORTED_PROTOCOL: case CURLE_WEIRD_SERVER_REPLY:
#if LIBCURL_VERSION_NUM >= 0x080600
    case CURLE_TOO_LARGE:
#endif
        return XH_DIAL_BAD_HTTP;
    default: return XH_DIAL_BROKEN;
    }
}

static void note_times(struct xh_dial *d, struct xh_answer *a)
{
    curl_off_t connect = 0, tls = 0, sent = 0, first = 0;
    long opened = 0;
    const char *ip = NULL;
    curl_easy_getinfo(d->easy, CURLINFO_NUM_CONNECTS, &opened);
    curl_easy_getinfo(d->easy, CURLINFO_CONNECT_TIME_T, &connect);
    curl_easy_getinfo(d->easy, CURLINFO_APPCONNECT_TIME_T, &tls);
    curl_easy_getinfo(d->easy, CURLINFO_PRETRANSFER_TIME_T, &sent);
    curl_easy_getinfo(d->easy, CURLINFO_STARTTRANSFER_TIME_T, &first);
    curl_easy_getinfo(d->easy, CURLINFO_PRIMARY_IP, &ip);
    a->opened = opened > 0;
    a->connect_ms = (double)connect / 1e3;
    a->tls_ms = tls > connect ? (double)(tls - connect) / 1e3 : 0;
    a->first_ms = first > sent ? (double)(first - sent) / 1e3 : 0;
    snprintf(a->address, sizeof a->address, "%s", ip ? ip : "");
}

void xh_dial_ask(struct xh_dial *d, const struct xh_url *u, const struct xh_question *q, struct xh_answer *out)
{
    struct curl_slist *headers = headers_of(d->c, u, q);
    memset(out, 0, sizeof *out);
    xh_reply_init(&out->reply);
    d->q = q;
    d->a = handshake = out;
    d->header_bytes = 0;
    d->error[0] = '\0';
    set_url(d, u, q);
    curl_easy_setopt(d->easy, CURLOPT_HTTPHEADER, headers);
    CURLcode code = curl_easy_perform(d->easy);
    handshake = NULL;
    out->end = end_of(d, code);
    if (code != CURLE_OK && out->end != XH_DIAL_CUT && !out->why[0])
        xh_tool_plain(d->error[0] ? d->error : curl_easy_strerror(code), out->why, sizeof out->why);
    struct xh_err refused;
    int status = code == CURLE_OK ? 0 : xh_handle_proxy_status(d->easy);
    if (status) {
        xh_proxy_refused(xh_proxy_for(&d->c->proxies, u), u, status, &refused);
        snprintf(out->why, sizeof out->why, "%s", refused.text);
        out->end = XH_DIAL_CONNECT;
    }
    note_times(d, out);
    curl_easy_setopt(d->easy, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
}
