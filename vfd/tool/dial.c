/* The tool's HTTP requests: see dial.h. */
#include "dial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/ssl.h>

#include "../../cache/base/letters.h"
#include "../../cache/base/table.h"
#include "../../cache/origin/client.h"
#include "../../cache/origin/s3.h"
#include "tool.h"

struct xh_dial {
    const struct xh_caller *c;
    struct xh_client *client;
    /* Valid during a request. */
    const struct xh_question *q;
    struct xh_answer *a;
    char region[XH_S3_REGION_BYTES]; /* that an answer of the caller's server named; "": none did */
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

static void on_tls(void *ctx, void *tls)
{
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, on_certificate);
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

static int on_line(void *ctx, const char *p, size_t n)
{
    struct xh_dial *d = ctx;
    SSL *ssl = d->a->tls ? NULL : xh_client_tls(d->client);
    if (ssl)
        note_tls(d->a, ssl);
    static const char chunked[] = "Transfer-Encoding: chunked";
    if (n >= 5 && memcmp(p, "HTTP/", 5) == 0)
        d->a->chunked = 0;
    if (!d->a->reply.over) /* what comes behind the headers is a trailer */
        xh_front_line(&d->a->front, p, n);
    d->a->chunked |= n >= sizeof chunked - 1 && xh_strncasecmp(p, chunked, sizeof chunked - 1) == 0;
    if (xh_reply_line(&d->a->reply, p, n, time(NULL)) && d->a->reply.multipart)
        xh_multipart_init(&d->multipart, d->a->reply.boundary);
    return 0;
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

static int on_body(void *ctx, const uint8_t *bytes, size_t n)
{
    struct xh_dial *d = ctx;
    const struct xh_multipart_sink sink = {on_part, on_part_data, d};
    int status = d->a->reply.status;
    if (status != 206) {
        size_t used = strlen(d->a->said), room = sizeof d->a->said - 1 - used;
        memcpy(d->a->said + used, bytes, n < room ? n : room);
    }
    int wanted = status == 206 || status == 207 || (d->q->whole && status == 200);
    uint64_t most = wanted || d->q->most_bytes < XH_WORDS_MOST_BYTES ? d->q->most_bytes : XH_WORDS_MOST_BYTES;
    d->a->body_bytes += n;
    if (d->a->body_bytes > most)
        return -1;
    if (status == 206 && d->a->reply.multipart && xh_multipart_feed(&d->multipart, bytes, n, &sink) != 0) {
        snprintf(d->a->why, sizeof d->a->why, "malformed multipart/byteranges");
        return -1;
    }
    return wanted && d->q->body && d->q->body(d->q->ctx, bytes, n) ? -1 : 0;
}

static int on_tick(void *ctx)
{
    struct xh_dial *d = ctx;
    return d->q->tick && d->q->tick(d->q->ctx) ? -1 : 0;
}

static const struct xh_client_events events = {.line = on_line, .body = on_body, .tick = on_tick, .tls = on_tls};

/* ---- requests */

struct xh_dial *xh_dial_new(const struct xh_caller *c)
{
    struct xh_dial *d = calloc(1, sizeof *d);
    if (!d || !(d->client = xh_client_new(&events, d, 0))) {
        free(d);
        return NULL;
    }
    d->c = c;
    return d;
}

void xh_dial_free(struct xh_dial *d)
{
    if (d)
        xh_client_free(d->client);
    free(d);
}

/* The header lines of a request, but for credentials. */
struct lines {
    const char *line[8];
    char *destination, *range, *pad;
};

/* Returns 0, or -1 without memory. */
static int lines_of(const struct xh_question *q, struct lines *l)
{
    size_t n = 0;
    int bad = 0;
    *l = (struct lines){0};
    if (q->method && strcmp(q->method, "PROPFIND") == 0)
        l->line[n++] = q->depth ? "Depth: 1" : "Depth: 0";
    if (q->destination) {
        bad |= asprintf(&l->destination, "Destination: %s", q->destination) < 0;
        l->line[n++] = l->destination;
        l->line[n++] = "Overwrite: F";
    }
    if (q->only_cached)
        l->line[n++] = "Cache-Control: only-if-cached";
    if (q->range) {
        bad |= asprintf(&l->range, "Range: %s", q->range) < 0;
        l->line[n++] = l->range;
    }
    if (q->pad_bytes) {
        bad |= asprintf(&l->pad, "X-Padding: %0*d", (int)q->pad_bytes, 0) < 0;
        l->line[n++] = l->pad;
    }
    return bad ? -1 : 0;
}

static uint64_t at_most(uint64_t ms)
{
    return ms < XH_DIAL_MOST_MS ? ms : XH_DIAL_MOST_MS;
}

void xh_dial_ask(struct xh_dial *d, const struct xh_url *u, const struct xh_question *q, struct xh_answer *a)
{
    const struct xh_options *o = d->c->o;
    struct xh_client_ask ask = {.fresh = q->fresh,
                                .bodiless = q->bodiless,
                                .most_ms = q->whole     ? 0
                                           : q->most_ms ? q->most_ms
                                                        : at_most(o->stall_timeout_ms),
                                .quiet_ms = q->whole ? o->stall_timeout_ms : 0};
    struct xh_outcome out = {.net = XH_NET_LOCAL, .text = "out of memory"};
    struct xh_client_times times;
    struct xh_err refused;
    struct lines lines;
    memset(a, 0, sizeof *a);
    xh_reply_init(&a->reply);
    xh_front_init(&a->front);
    d->q = q;
    d->a = handshake = a;
    if (lines_of(q, &lines) == 0) {
        ask.send = (struct xh_send){.method = q->method, .headers = lines.line};
        xh_caller_send(d->c, d->c->token, u, &ask.send);
        ask.send.connect_timeout_ms = at_most(ask.send.connect_timeout_ms);
        xh_client_ask(d->client, &ask, &out);
    }
    handshake = NULL;
    free(lines.destination);
    free(lines.range);
    free(lines.pad);
    /* What made us cut it off was the reply itself. */
    a->end = out.net == XH_NET_CUT && a->why[0] ? XH_NET_BAD_HTTP : out.net;
    if (out.net == XH_NET_PROXY) {
        xh_proxy_refused(xh_proxy_for(&d->c->proxies, u), u, out.proxy_status, &refused);
        snprintf(a->why, sizeof a->why, "%s", refused.text);
        a->end = XH_NET_CONNECT;
    } else if (!a->why[0]) {
        xh_tool_name(out.text, a->why, sizeof a->why);
    }
    xh_client_times(d->client, &times);
    a->opened = out.opened > 0;
    a->connect_ms = times.connect_ms;
    a->tls_ms = times.tls_ms;
    a->first_ms = times.first_ms;
    snprintf(a->address, sizeof a->address, "%s", times.address);
}

int xh_dial_next(struct xh_dial *d, const struct xh_url *named, const struct xh_url *at, unsigned hops,
                 const struct xh_answer *a, struct xh_url **next, struct xh_err *err)
{
    const struct xh_reply *r = &a->reply;
    struct xh_s3_error e;
    xh_s3_error(a->said, strlen(a->said), &e);
    const char *region = xh_s3_elsewhere(at, r, &e);
    if (!region && !xh_reply_redirects(r))
        return 0;
    if (hops == XH_HOPS_MOST)
        return xh_err_set(err, XH_E_PROTO, r->status, "%.200s: redirected more than %u times: a loop on the server",
                          named->shown, XH_HOPS_MOST);
    if (!region && !r->location[0])
        return xh_err_set(err, XH_E_PROTO, r->status, "%.200s: a redirect without a Location", at->shown);
    int rc = region ? xh_s3_in_region(at, region, next, err)
                    : xh_proxy_follow(&d->c->proxies, at, r->location, next, err);
    if (rc == 0)
        xh_s3_follow(named, *next);
    if (rc == 0 && region && xh_url_same_server(at, d->c->url))
        snprintf(d->region, sizeof d->region, "%s", region);
    return rc ? rc : 1;
}

int xh_dial_follow(struct xh_dial *d, struct xh_url *named, const struct xh_question *q, struct xh_answer *a,
                   struct xh_err *err)
{
    struct xh_url *at = NULL, *next = NULL;
    int rc = 1;
    int knows = d->region[0] && named->region && xh_url_same_server(named, d->c->url);
    if (!knows || xh_s3_in_region(named, d->region, &at, NULL) != 0)
        at = xh_url_ref(named);
    for (unsigned hops = 0; rc == 1; hops++) {
        xh_dial_ask(d, at, q, a);
        rc = xh_dial_next(d, named, at, hops, a, &next, err);
        if (rc == 1) {
            xh_url_unref(at);
            at = next;
        }
    }
    xh_url_unref(at);
    return rc;
}

int xh_body_keep(void *ctx, const uint8_t *p, size_t len)
{
    struct xh_body *b = ctx;
    if (xh_grow(b->at, b->room, b->len + len))
        return -1;
    memcpy(b->at + b->len, p, len);
    b->len += len;
    return 0;
}

int xh_asker_begin(struct xh_asker *k, struct xh_url *u, const struct xh_options *o, struct xh_err *err)
{
    *k = (struct xh_asker){.u = u, .a = calloc(1, sizeof *k->a)};
    int rc = xh_caller_find(&k->caller, o, u, err);
    if (rc == 0 && (!k->a || !(k->dial = xh_dial_new(&k->caller))))
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a connection");
    return rc;
}

void xh_asker_end(struct xh_asker *k)
{
    free(k->a);
    xh_dial_free(k->dial);
    xh_caller_free(&k->caller);
    xh_url_unref(k->u);
}
