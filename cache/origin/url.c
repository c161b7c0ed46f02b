/* URLs: see url.h. Pure: no network, no lock. The text of a URL is hostile input, from
 * a user's file as much as from a Location header. */
#include "url.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/escape.h"
#include "base/hash.h"
#include "base/letters.h"
#include "base/number.h"
#include "base/wipe.h"

#define URL_MAX_BYTES 16384u /* redirects carry tokens of several KiB in their query */
#define HOST_MAX_BYTES 255u
#define TICKET_NAME_BYTES 64 /* longer than any parameter that is_ticket_name knows */

struct view { /* not NUL-terminated */
    const char *p;
    size_t n;
};

struct parts {
    int https;
    struct view user_info; /* p NULL: none */
    struct view host;      /* brackets of IPv6 included */
    unsigned port;
    struct view rest; /* path and query; may be empty or begin with '?' */
};

static int has_control(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return 1;
    return 0;
}

/* Copies |v| percent-decoded; NULL without memory or with a decoded NUL or control. */
static char *decoded(struct view v)
{
    int n = 0;
    char *plain = v.n ? curl_easy_unescape(NULL, v.p, (int)v.n, &n) : NULL; /* length 0 means strlen */
    int good = plain && strlen(plain) == (size_t)n && !has_control(plain);
    char *out = v.n == 0 ? strdup("") : good ? strdup(plain) : NULL;
    if (plain)
        explicit_bzero(plain, (size_t)n);
    curl_free(plain);
    return out;
}

/* Copies |v| with spaces and bytes above 0x7e percent-encoded: no server needs them raw. So is a % in the path that
 * encodes nothing: it is one of the file's name. A query is its server's own. */
static char *encoded(struct view v)
{
    char *out = malloc(3 * v.n + 1);
    if (!out)
        return NULL;
    const char *query = memchr(v.p, '?', v.n);
    size_t used = 0, path = query ? (size_t)(query - v.p) : v.n;
    for (size_t i = 0; i < v.n; i++) {
        unsigned char c = (unsigned char)v.p[i];
        int bare = c == '%' && i < path &&
                   (path - i < 3 || xh_hex_digit(v.p[i + 1]) < 0 || xh_hex_digit(v.p[i + 2]) < 0);
        if (c <= 0x20 || c >= 0x7f || bare)
            used += (size_t)sprintf(out + used, "%%%02X", c);
        else
            out[used++] = (char)c;
    }
    out[used] = '\0';
    return out;
}

static int host_is_plain(struct view h)
{
    if (h.n == 0 || h.n > HOST_MAX_BYTES)
        return 0;
    if (h.p[0] == '[')
        return h.n >= 4 && h.p[h.n - 1] == ']' && strspn(h.p + 1, XH_DIGITS "abcdefABCDEF:.") == h.n - 2;
    return strspn(h.p, XH_LETTERS XH_DIGITS ".-_") >= h.n;
}

/* Parses ":port", ":" (RFC 3986, 3.2.3) or nothing. Returns the port, or 0 when it is none. */
static unsigned port_of(const char *p, const char *end, unsigned usual)
{
    if (p == end || (*p == ':' && p + 1 == end))
        return usual;
    char *behind;
    uint64_t port;
    return *p == ':' && xh_digits(p + 1, &behind, &port) == 0 && behind == end && port <= 65535 ? (unsigned)port : 0;
}

const char *xh_url_authority(const char *s, unsigned default_port, struct xh_authority *out)
{
    const char *end = s + strcspn(s, "/?#"), *at = memrchr(s, '@', (size_t)(end - s)), *host = at ? at + 1 : s;
    memset(out, 0, sizeof *out);
    if (at) {
        out->user_info = s;
        out->user_info_len = (size_t)(at - s);
    }
    const char *bracket = *host == '[' ? memchr(host, ']', (size_t)(end - host)) : NULL;
    const char *colon = *host == '[' ? NULL : memchr(host, ':', (size_t)(end - host));
    const char *host_end = bracket ? bracket + 1 : colon ? colon : end;
    out->host = host;
    out->host_len = (size_t)(host_end - host);
    if (out->host_len == 0)
        return "it names no host";
    if (!host_is_plain((struct view){host, out->host_len}))
        return "its host is not a plain name or address (international names: write them in xn-- form)";
    out->port = port_of(host_end, end, default_port);
    return out->port ? NULL : "its port is not a number from 1 to 65535";
}

/* Splits |s|. Returns NULL, or what is wrong with it. Not by curl_url: that takes what browsers take, by version more
 * or less of it (one slash or three, a backslash before the @, escapes in the host's name, port 0), and here is decided
 * where credentials go. */
static const char *split(const char *s, struct parts *out)
{
    if (strlen(s) > URL_MAX_BYTES)
        return "it is too long";
    if (has_control(s))
        return "it holds a control character, perhaps the end of a line: take it away";
    memset(out, 0, sizeof *out);
    out->https = xh_strncasecmp(s, "https://", 8) == 0;
    if (!out->https && xh_strncasecmp(s, "http://", 7) != 0)
        return "it begins with neither https://, http:// nor s3://";
    const char *authority = s + (out->https ? 8 : 7);
    struct xh_authority a;
    const char *end = authority + strcspn(authority, "/?#");
    if (memchr(authority, '\\', (size_t)(end - authority))) /* browsers take it for a slash */
        return "it holds a backslash where the server's name is";
    const char *wrong = xh_url_authority(authority, out->https ? 443 : 80, &a);
    if (wrong && end > authority && xh_behind_login(authority) > end)
        return "its user name or password holds a / ? or #: write them as %2F %3F %23 (and @ : % as %40 %3A %25)";
    if (wrong)
        return wrong;
    if (a.user_info)
        out->user_info = (struct view){a.user_info, a.user_info_len};
    out->host = (struct view){a.host, a.host_len};
    out->port = a.port;
    out->rest = (struct view){end, strcspn(end, "#")};
    return NULL;
}

/* 1 when the parameter |name| of a query is what a server lets its bearer in by: signatures of S3, Google, CloudFront,
 * OSS and COS, Azure's and Swift's, XRootD's and dCache's token, RFC 6750's, Backblaze's. */
static int is_ticket_name(const char *name)
{
    static const char *const names[] = {"sig", "temp_url_sig", "authz", "access_token", "x-amz-credential",
                                        "x-goog-credential", "x-amz-security-token", "authorization"};
    static const char signature[] = "signature"; /* whole, or behind a dash: X-Amz-Signature, q-signature */
    size_t n = strlen(name), end = sizeof signature - 1;
    if (n >= end && xh_strcasecmp(name + n - end, signature) == 0 && (n == end || name[n - end - 1] == '-'))
        return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (xh_strcasecmp(name, names[i]) == 0)
            return 1;
    return 0;
}

/* 1 when the query of |rest| has such a parameter, with a value. */
static int has_ticket(struct view rest)
{
    const char *p = memchr(rest.p, '?', rest.n), *end = rest.p + rest.n;
    while (p && p < end) {
        const char *from = p + 1, *equals;
        p = from;
        while (p < end && *p != '&' && *p != ';')
            p++;
        equals = memchr(from, '=', (size_t)(p - from));
        if (!equals || equals + 1 == p)
            continue;
        char name[TICKET_NAME_BYTES];
        size_t n = 0;
        while (from < equals && n + 1 < sizeof name)
            name[n++] = (char)xh_unescape(&from, equals);
        name[n] = '\0';
        if (from == equals && is_ticket_name(name))
            return 1;
    }
    return 0;
}

/* Fills the strings of |u| from |p|. Returns 0 or -1 without memory. */
static int fill(struct xh_url *u, const struct parts *p)
{
    u->https = p->https;
    u->ticket = has_ticket(p->rest);
    char *rest = encoded(p->rest);
    if (!rest)
        return -1;
    int slash = rest[0] != '/';
    int rc = -1;
    if (asprintf(&u->server, "%s://%.*s:%u", p->https ? "https" : "http", (int)p->host.n, p->host.p,
                 p->port) < 0) {
        u->server = NULL;
        goto end;
    }
    for (char *c = u->server; *c; c++)
        *c = (char)xh_tolower((unsigned char)*c);
    int default_port = p->port == (p->https ? 443u : 80u);
    size_t server_bytes = strlen(u->server);
    if (default_port)
        server_bytes = (size_t)(strrchr(u->server, ':') - u->server);
    if (asprintf(&u->text, "%.*s%s%s", (int)server_bytes, u->server, slash ? "/" : "", rest) < 0) {
        u->text = NULL;
        goto end;
    }
    size_t shown_bytes = strlen(u->text) + sizeof "...";
    u->shown = malloc(shown_bytes);
    if (!u->shown)
        goto end;
    xh_url_shown(u->text, u->shown, shown_bytes);
    rc = 0;
end:
    free(rest);
    return rc;
}

int xh_url_login(const char *info, size_t len, char **user, char **password)
{
    const char *colon = memchr(info, ':', len);
    size_t name = colon ? (size_t)(colon - info) : len;
    *user = decoded((struct view){info, name});
    *password = decoded(colon ? (struct view){colon + 1, len - name - 1} : (struct view){info + len, 0});
    return *user && *password ? 0 : -1;
}

static int refuse(const char *s, const char *wrong, struct xh_err *err)
{
    return xh_err_set(err, XH_E_INVAL, 0, "cannot use the URL %s: %s", xh_shown(s, 256), wrong);
}

int xh_url_parse(const char *s, struct xh_url **out, struct xh_err *err)
{
    struct parts p;
    const char *wrong = split(s, &p);
    if (!wrong && p.user_info.p && !p.https)
        wrong = "it carries a user name over http, where anyone could read it: use https";
    if (wrong)
        return refuse(s, wrong, err);
    struct xh_url *u = calloc(1, sizeof *u);
    if (!u)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a URL");
    atomic_init(&u->refs, 1);
    int rc =
        fill(u, &p) != 0 || (p.user_info.p && xh_url_login(p.user_info.p, p.user_info.n, &u->user, &u->password) != 0)
            ? xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a URL")
            : 0;
    if (rc == 0 && strlen(u->text) > URL_MAX_BYTES) /* percent-encoding makes three bytes of one */
        rc = refuse(s, "it is too long", err);
    if (rc) {
        xh_url_unref(u);
        return rc;
    }
    *out = u;
    return 0;
}

/* 1 when |s| begins with a scheme ("name:"). */
static int has_scheme(const char *s)
{
    if (!xh_isalpha((unsigned char)*s))
        return 0;
    while (xh_isalnum((unsigned char)*s) || (*s && strchr("+-.", *s)))
        s++;
    return *s == ':';
}

static const char *path_of(const char *text)
{
    return strchr(xh_url_host(text), '/');
}

/* Makes the absolute text of |ref|. One that names a server stays as it is: xh_url_parse judges the name, and the rest
 * may be signed. What only names a path is resolved by curl, and stays at the server as |base| has it: curl writes
 * addresses in another way. Returns 0, XH_E_PROTO or XH_E_NOMEM. */
static int absolute(const struct xh_url *base, const char *ref, char **out)
{
    size_t n = strcspn(ref, "#");
    const char *scheme = base->https ? "https:" : "http:";
    if (has_scheme(ref) || strncmp(ref, "//", 2) == 0)
        return asprintf(out, "%s%s", *ref == '/' ? scheme : "", ref) < 0 ? (*out = NULL, XH_E_NOMEM) : 0;
    char *plain = has_control(ref) ? NULL : encoded((struct view){ref, n}), *url = NULL;
    CURLU *h = curl_url();
    CURLUcode rc = has_control(ref) ? CURLUE_MALFORMED_INPUT : h && plain ? CURLUE_OK : CURLUE_OUT_OF_MEMORY;
    if (rc == CURLUE_OK)
        rc = curl_url_set(h, CURLUPART_URL, base->text, CURLU_PATH_AS_IS);
    if (rc == CURLUE_OK && n) /* without anything it means the base */
        rc = curl_url_set(h, CURLUPART_URL, plain, 0);
    if (rc == CURLUE_OK)
        rc = curl_url_get(h, CURLUPART_URL, &url, 0);
    curl_url_cleanup(h);
    free(plain);
    if (rc == CURLUE_OK &&
        asprintf(out, "%.*s%s", (int)(path_of(base->text) - base->text), base->text, path_of(url)) < 0) {
        *out = NULL;
        rc = CURLUE_OUT_OF_MEMORY;
    }
    curl_free(url);
    return rc == CURLUE_OK ? 0 : rc == CURLUE_OUT_OF_MEMORY ? XH_E_NOMEM : XH_E_PROTO;
}

int xh_url_resolve(const struct xh_url *base, const char *location, struct xh_url **out, struct xh_err *err)
{
    struct xh_url *u = NULL;
    char *text = NULL;
    int rc = absolute(base, location, &text);
    if (rc == 0)
        rc = xh_url_parse(text, &u, err);
    free(text);
    if (rc == XH_E_NOMEM)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a redirect");
    if (rc != 0)
        return xh_err_set(err, XH_E_PROTO, 0, "%s: redirected to a URL that cannot be used", base->shown);
    assert(u);
    if (u->user) {
        xh_url_unref(u);
        return xh_err_set(err, XH_E_PROTO, 0, "%s: redirected to a URL with a user name in it: refused",
                          base->shown);
    }
    if (base->https && !u->https) {
        rc = xh_err_set(err, XH_E_PROTO, 0,
                        "%s: redirected to %s, which is not encrypted: refused; the server must redirect "
                        "to https (XRootD: http.desthttps yes)",
                        base->shown, u->shown);
        xh_url_unref(u);
        return rc;
    }
    *out = u;
    return 0;
}

void xh_url_host_name(const struct xh_url *u, char *out, size_t size)
{
    const char *host = xh_url_host(u->server);
    int brackets = *host == '[';
    snprintf(out, size, "%.*s", (int)(strrchr(host, ':') - host) - 2 * brackets, host + brackets);
}

int xh_url_same_server(const struct xh_url *a, const struct xh_url *b)
{
    return strcmp(a->server, b->server) == 0;
}

uint64_t xh_url_server_hash(const struct xh_url *u)
{
    return xh_hash_text(XH_HASH_START, u->server);
}

int xh_url_is_directory(const struct xh_url *u)
{
    size_t n = strcspn(u->text, "?");
    return n > 0 && u->text[n - 1] == '/';
}

int xh_url_is_opendap(const struct xh_url *u)
{
    return strstr(u->shown, "/dodsC/") || strstr(u->shown, "/opendap/");
}

struct xh_url *xh_url_ref(struct xh_url *u)
{
    if (u)
        atomic_fetch_add_explicit(&u->refs, 1, memory_order_relaxed);
    return u;
}

void xh_url_unref(struct xh_url *u)
{
    /* acq_rel: whoever frees has seen all that others did with it. */
    if (!u || atomic_fetch_sub_explicit(&u->refs, 1, memory_order_acq_rel) != 1)
        return;
    free(u->text);
    free(u->server);
    free(u->user);
    xh_wipe(u->password);
    free(u->shown);
    free(u->region);
    free(u);
}
