/* S3's addresses: see s3.h. All text is hostile: names come from files, regions and errors from servers. */
#include "s3.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/letters.h"
#include "response.h"
#include "url.h"

#define BUCKET_MOST      63u   /* of one that can stand in a host's name */
#define KEY_MOST         1024u /* S3's own limit */
#define PARAMETER_BYTES  64

int xh_s3_is_name(const char *name)
{
    return xh_strncasecmp(name, "s3://", 5) == 0;
}

static int is_unreserved(unsigned char c)
{
    return xh_isalnum(c) || (c && strchr("-._~", c) != NULL);
}

/* What a path is, before it is written. */
enum path_of { OF_NAME /* a key as it is */, OF_URL, OF_AMAZON /* a URL's, where + is a blank, as Amazon reads it */,
               OF_VALUE /* a query's value, with no slash in it */ };

/* Writes |n| bytes of a path as signatures have them: unreserved characters and slashes as they are, all else
 * percent-encoded. Escapes of a URL are undone first. |to| has room for 3 n + 1 bytes. */
static char *write_path(char *to, const char *from, size_t n, enum path_of of)
{
    for (const char *end = from + n; from < end;) {
        int blank = of == OF_AMAZON && *from == '+';
        unsigned char c = of == OF_URL || of == OF_AMAZON ? xh_unescape(&from, end) : (unsigned char)*from++;
        c = blank ? ' ' : c;
        if (is_unreserved(c) || (c == '/' && of != OF_VALUE))
            *to++ = (char)c;
        else
            to += sprintf(to, "%%%02X", c);
    }
    *to = '\0';
    return to;
}

/* ---- s3:// */

/* 1 when the bucket can be the first part of a host's name that a wildcard certificate covers. */
static int is_host_part(const char *bucket, size_t n)
{
    return n >= 3 && n <= BUCKET_MOST && bucket[0] != '-' && bucket[n - 1] != '-' &&
           strspn(bucket, "abcdefghijklmnopqrstuvwxyz" XH_DIGITS "-") >= n;
}

/* What is wrong with |name|; NULL: nothing. */
static const char *fault_of(const char *bucket, size_t n, const char *key, size_t key_len)
{
    if (n == 0 || n >= XH_S3_BUCKET_BYTES || !xh_isalnum((unsigned char)bucket[0]) ||
        strspn(bucket, XH_LETTERS XH_DIGITS "-._") < n)
        return "what stands behind s3:// is no bucket's name (it is written s3://bucket/key; access points and tenants "
               "have https URLs)";
    if (key_len > KEY_MOST)
        return "a key has at most 1,024 bytes";
    for (size_t i = 0; i < key_len; i++)
        if ((unsigned char)key[i] < 0x20 || key[i] == 0x7f)
            return "it holds a control character, perhaps the end of a line: take it away";
    return memchr(key, '?', key_len) || memchr(key, '#', key_len)
               ? "a ? or # in a key is written in an https URL, as %3F or %23"
               : NULL;
}

/* Splits "https://host[:port][/path]" of an endpoint. Returns 0, or -1. */
static int split_endpoint(const char *endpoint, int *https, const char **host, size_t *host_len, size_t *path_len)
{
    *https = xh_strncasecmp(endpoint, "https://", 8) == 0;
    if (!*https && xh_strncasecmp(endpoint, "http://", 7) != 0)
        return -1;
    *host = endpoint + (*https ? 8 : 7);
    *host_len = strcspn(*host, "/?#");
    *path_len = strlen(*host + *host_len);
    if (*host_len == 0 || strpbrk(*host, "?#@ \t\r\n"))
        return -1;
    while (*path_len && (*host)[*host_len + *path_len - 1] == '/')
        --*path_len;
    return 0;
}

static int name_fault(const char *name, const char *wrong, struct xh_err *err)
{
    return xh_err_set(err, XH_E_INVAL, 0, "cannot use the name %s: %s", xh_shown(name, 512), wrong);
}

/* Writes the URL of |path|, written as a path's, in the bucket of |n| bytes, with |query| behind it. */
static int address(const char *bucket, size_t n, const char *path, const char *query, const struct xh_s3_where *w,
                   char **out, struct xh_err *err)
{
    int https = 1, own = w->endpoint && *w->endpoint;
    const char *host = NULL, *region = w->region && *w->region ? w->region : NULL;
    size_t host_len = 0, path_len = 0;
    if (own && split_endpoint(w->endpoint, &https, &host, &host_len, &path_len) != 0)
        return xh_err_set(err, XH_E_INVAL, 0,
                          "the S3 endpoint %.200s is no URL of a server: it is written https://host or "
                          "https://host:port",
                          xh_shown(w->endpoint, 512));
    if (region && !xh_s3_is_region(region))
        return xh_err_set(err, XH_E_INVAL, 0, "the S3 region %.60s is none: regions are like eu-west-1", region);
    int virtual = w->style == XH_S3_VIRTUAL || (w->style == XH_S3_AUTO && !own && is_host_part(bucket, n));
    char amazon[XH_S3_REGION_BYTES + 32];
    snprintf(amazon, sizeof amazon, "s3%s%s.amazonaws.com%s", region ? "." : "", region ? region : "",
             region && strncmp(region, "cn-", 3) == 0 ? ".cn" : "");
    int rc = asprintf(out, "http%s://%.*s%s%.*s%.*s%s%.*s/%s%s", https ? "s" : "", virtual ? (int)n : 0, bucket,
                      virtual ? "." : "", (int)(own ? host_len : strlen(amazon)), own ? host : amazon,
                      own ? (int)path_len : 0, own ? host + host_len : "", virtual ? "" : "/", virtual ? 0 : (int)n,
                      bucket, path, query);
    if (rc < 0) {
        *out = NULL;
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a URL");
    }
    return 0;
}

int xh_s3_address(const char *name, const struct xh_s3_where *w, char **out, struct xh_err *err)
{
    static const char version[] = "?versionId=";
    const char *bucket = name + 5, *key = bucket + strcspn(bucket, "/"), *query = strstr(name, version);
    size_t n = (size_t)(key - bucket);
    key += *key == '/';
    size_t key_len = query && query >= key ? (size_t)(query - key) : strlen(key);
    const char *wrong = fault_of(bucket, n, key, key_len);
    if (!wrong && key_len == 0)
        wrong = "it names no object: write s3://bucket/key";
    if (!wrong && query && query[sizeof version - 1 + strspn(query + sizeof version - 1, XH_LETTERS XH_DIGITS "-._~")])
        wrong = "what follows versionId= is no version of S3";
    if (wrong)
        return name_fault(name, wrong, err);
    char *path = malloc(3 * key_len + 1);
    if (!path)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a URL");
    write_path(path, key, key_len, OF_NAME);
    int rc = address(bucket, n, path, query ? query : "", w, out, err);
    free(path);
    return rc;
}

const char *xh_s3_prefix(const char *name)
{
    const char *p = name + 5 + strcspn(name + 5, "/");
    return p + (*p == '/');
}

int xh_s3_list_address(const char *name, const char *token, const struct xh_s3_where *w, char **out,
                       struct xh_err *err)
{
    const char *bucket = name + 5, *prefix = xh_s3_prefix(name);
    size_t n = strcspn(bucket, "/"), len = strlen(prefix), token_len = strlen(token);
    const char *wrong = fault_of(bucket, n, prefix, len);
    if (wrong)
        return name_fault(name, wrong, err);
    char *query = NULL, *coded = malloc(3 * (len + token_len) + 2);
    if (!coded)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a URL");
    char *coded_token = write_path(coded, prefix, len, OF_VALUE) + 1;
    write_path(coded_token, token, token_len, OF_VALUE);
    /* In the order that a signature wants: older libcurls do not sort. */
    int rc = asprintf(&query, "?%s%s%sdelimiter=%%2F&encoding-type=url&list-type=2&prefix=%s",
                      token_len ? "continuation-token=" : "", coded_token, token_len ? "&" : "", coded) < 0
                 ? xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a URL")
                 : address(bucket, n, "", query, w, out, err);
    free(query);
    free(coded);
    return rc;
}

/* ---- hosts of Amazon */

int xh_s3_is_region(const char *region)
{
    size_t n = strspn(region, XH_LETTERS XH_DIGITS "-_");
    return n > 0 && n < XH_S3_REGION_BYTES && region[n] == '\0' && region[0] != '-';
}

/* The last label of host[0, *n), which is cut off with its dot. */
static const char *last_label(const char *host, size_t *n, size_t *len)
{
    size_t from = *n;
    while (from && host[from - 1] != '.')
        from--;
    *len = *n - from;
    *n = from ? from - 1 : 0;
    return host + from;
}

static int label_is(const char *label, size_t len, const char *word)
{
    return len == strlen(word) && xh_strncasecmp(label, word, len) == 0;
}

/* Takes |label| as a region of Amazon's. Returns 1 when it may be one. */
static int take_region(struct xh_s3_place *out, const char *label, size_t len)
{
    if (len >= sizeof out->region || len < 4 || !memchr(label, '-', len) || !isdigit((unsigned char)label[len - 1]))
        return 0;
    memcpy(out->region, label, len);
    out->region[len] = '\0';
    return xh_s3_is_region(out->region);
}

/* Reads the labels of host[0, n), without Amazon's domain. Returns how many bytes before them are the bucket, or -1. */
static int read_labels(struct xh_s3_place *out, const char *host, size_t n)
{
    size_t len;
    const char *label = last_label(host, &n, &len);
    if (label_is(label, len, "dualstack") && n) { /* s3-accelerate.dualstack */
        label = last_label(host, &n, &len);
        out->fixed = 1;
        return label_is(label, len, "s3-accelerate") ? (int)n : -1;
    }
    if (label_is(label, len, "s3"))
        return (int)n;
    if (label_is(label, len, "s3-accelerate")) {
        out->fixed = 1;
        return (int)n;
    }
    if (len > 3 && xh_strncasecmp(label, "s3-", 3) == 0) /* s3-us-west-2, as it was once */
        return take_region(out, label + 3, len - 3) && strncmp(out->region, "website", 7) != 0 ? (int)n : -1;
    if (!take_region(out, label, len) || n == 0)
        return -1;
    label = last_label(host, &n, &len);
    if (label_is(label, len, "dualstack") && n) {
        out->dualstack = 1;
        label = last_label(host, &n, &len);
    }
    out->names = label_is(label, len, "s3-accesspoint") ? 3 : 0;
    out->fixed = label_is(label, len, "s3-fips") || out->names;
    return label_is(label, len, "s3") || out->fixed ? (int)n : -1;
}

int xh_s3_place(const struct xh_url *u, struct xh_s3_place *out)
{
    static const char domain[] = ".amazonaws.com", cn[] = ".cn";
    const char *host = xh_url_host(u->server), *path = strchr(xh_url_host(u->text), '/');
    size_t n = (size_t)(strrchr(host, ':') - host), d = sizeof domain - 1;
    memset(out, 0, sizeof *out);
    if (n > 3 && memcmp(host + n - 3, cn, 3) == 0) {
        out->china = 1;
        n -= 3;
    }
    if (n <= d || memcmp(host + n - d, domain, d) != 0)
        return 0;
    int bucket = read_labels(out, host, n - d);
    if (bucket < 0 || bucket >= XH_S3_BUCKET_BYTES)
        return 0;
    out->names += out->china ? 1 : strncmp(out->region, "us-gov-", 7) == 0 ? 2 : 0;
    out->by_path = bucket == 0;
    const char *from = bucket ? host : path + 1;
    size_t len = bucket ? (size_t)bucket : strcspn(from, "/?");
    if (len == 0 || len >= XH_S3_BUCKET_BYTES)
        return 0;
    memcpy(out->bucket, from, len);
    out->bucket[len] = '\0';
    out->key = bucket ? path + 1 : from + len + (from[len] == '/');
    return 1;
}

int xh_s3_same_bucket(const struct xh_url *a, const struct xh_url *b)
{
    struct xh_s3_place x, y;
    return xh_s3_place(a, &x) && xh_s3_place(b, &y) && a->https == b->https && x.names == y.names &&
           strcmp(x.bucket, y.bucket) == 0;
}

/* 1 when a part of the path |p| is . or .. */
static int has_dots(const char *p)
{
    for (; *p == '/'; p += strcspn(p, "/?")) {
        size_t n = strcspn(++p, "/?");
        if ((n == 1 || n == 2) && strncmp(p, "..", n) == 0)
            return 1;
    }
    return 0;
}

int xh_s3_take(struct xh_url *u, const char *region, struct xh_err *err)
{
    const char *path = strchr(xh_url_host(u->text), '/');
    size_t before = (size_t)(path - u->text), n = strcspn(path, "?");
    char *copy = strdup(region), *text = malloc(before + 3 * n + strlen(path + n) + 1);
    if (!copy || !text) {
        free(copy);
        free(text);
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a URL");
    }
    memcpy(text, u->text, before);
    struct xh_s3_place p;
    enum path_of of = xh_s3_place(u, &p) ? OF_AMAZON : OF_URL;
    memcpy(write_path(text + before, path, n, of), path + n, strlen(path + n) + 1);
    if (!u->ticket && has_dots(text + before)) {
        free(copy);
        free(text);
        return xh_err_set(err, XH_E_INVAL, 0,
                          "%.200s: a key of S3 with . or .. between two slashes can be read by a presigned URL alone",
                          u->shown);
    }
    free(u->region);
    u->region = copy;
    if (u->ticket) { /* it is signed as it is written */
        free(text);
        return 0;
    }
    free(u->text);
    u->text = text;
    return 0;
}

int xh_s3_in_region(const struct xh_url *u, const char *region, struct xh_url **out, struct xh_err *err)
{
    struct xh_s3_place p;
    struct xh_url *to = NULL;
    char *text = NULL;
    if (!xh_s3_is_region(region))
        return xh_err_set(err, XH_E_INVAL, 0, "%.200s: the server names a region that is none", u->shown);
    int moves = xh_s3_place(u, &p) && !p.fixed && strcmp(strrchr(u->server, ':'), u->https ? ":443" : ":80") == 0;
    int n = moves ? asprintf(&text, "http%s://%s%ss3.%s%s.amazonaws.com%s/%s%s%s", u->https ? "s" : "",
                             p.by_path ? "" : p.bucket, p.by_path ? "" : ".", p.dualstack ? "dualstack." : "", region,
                             p.china ? ".cn" : "", p.by_path ? p.bucket : "", p.by_path ? "/" : "", p.key)
                  : asprintf(&text, "%s", u->text);
    if (n < 0)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a URL");
    int rc = xh_url_parse(text, &to, err);
    free(text);
    if (rc == 0 && moves && !xh_s3_same_bucket(u, to)) /* what is no region of Amazon's makes no host of its S3 */
        rc = xh_err_set(err, XH_E_INVAL, 0, "%.200s: the server names a region that is none", u->shown);
    rc = rc ? rc : xh_s3_take(to, region, err);
    if (rc)
        xh_url_unref(to);
    if (rc == 0)
        *out = to;
    return rc;
}

void xh_s3_follow(const struct xh_url *named, struct xh_url *to)
{
    struct xh_s3_place p;
    if (named->region && !to->ticket && xh_s3_same_bucket(named, to) && xh_s3_place(to, &p))
        xh_s3_take(to, p.region[0] ? p.region : named->region, NULL); /* if not, it is not signed, and refused */
}

/* ---- the object */

/* 1 when the parameter |name| belongs to a signature that lets a URL's bearer in, and names no object. Some are words
 * that others use too: it is asked of a URL with a signature alone. */
static int is_of_signature(const char *name)
{
    static const char *const always[] = {"AWSAccessKeyId", "GoogleAccessId", "OSSAccessKeyId", "Key-Pair-Id",
                                         "temp_url_sig", "temp_url_expires", "authz", "access_token", "Signature",
                                         "Authorization"};
    static const char *const beside[] = {"Expires", "Policy", "sig", "sv", "ss", "srt", "st", "se", "sr", "sp", "spr",
                                         "sip", "skoid", "sktid", "skt", "ske", "sks", "skv", "sdd", NULL};
    if (xh_strncasecmp(name, "X-Amz-", 6) == 0 || xh_strncasecmp(name, "X-Goog-", 7) == 0 ||
        xh_strncasecmp(name, "q-", 2) == 0)
        return 1;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (xh_strcasecmp(name, always[i]) == 0)
            return 1;
    return xh_is_one_of(name, beside);
}

/* Drops the parameters of signatures from |text|, in place. */
static void drop_signature(char *text)
{
    char *query = strchr(text, '?'), *to = query;
    if (!query)
        return;
    for (const char *p = query + 1, *end; *p; p = *end ? end + 1 : end) {
        char name[PARAMETER_BYTES];
        end = p + strcspn(p, "&");
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, "=&"), p);
        if (is_of_signature(name))
            continue;
        char mark = to == query ? '?' : '&';
        size_t n = (size_t)(end - p);
        *to++ = mark;
        memmove(to, p, n);
        to += n;
    }
    *to = '\0';
}

char *xh_s3_object(const char *text)
{
    struct xh_url *u = NULL;
    struct xh_s3_place p;
    char *out = NULL;
    if (xh_url_parse(text, &u, NULL) != 0) /* opening it says what is wrong */
        return strdup(text);
    if (xh_s3_place(u, &p) && p.names == 0 && !p.fixed && strcmp(strrchr(u->server, ':'), ":443") == 0) {
        size_t n = strcspn(p.key, "?");
        char *key = malloc(3 * n + 1);
        if (key) {
            write_path(key, p.key, n, OF_AMAZON);
            if (asprintf(&out, "s3://%s/%s%s", p.bucket, key, p.key + n) < 0)
                out = NULL;
        }
        free(key);
    } else {
        out = strdup(u->ticket ? u->text : text);
    }
    if (out && u->ticket)
        drop_signature(out);
    xh_url_unref(u);
    return out;
}

/* ---- errors */

/* Copies what stands between |open| and |close|, if it has only |good| characters. */
static void between(const char *xml, size_t len, const char *open, char close, const char *good, char *out, size_t size)
{
    size_t n = strlen(open), k = 0;
    const char *from = memmem(xml, len, open, n), *end = xml + len;
    out[0] = '\0';
    for (from = from ? from + n : end; from + k < end && from[k] && strchr(good, from[k]); k++)
        ;
    if (k == 0 || k >= size || from + k == end || from[k] != close)
        return;
    memcpy(out, from, k);
    out[k] = '\0';
}

void xh_s3_error(const char *xml, size_t len, struct xh_s3_error *out)
{
    static const char words[] = XH_LETTERS XH_DIGITS "-_";
    memset(out, 0, sizeof *out);
    between(xml, len, "<Code>", '<', words, out->code, sizeof out->code);
    if (!out->code[0])
        return;
    between(xml, len, "<Region>", '<', words, out->region, sizeof out->region);
    static const char *const quotes[] = {"expecting '", "expecting &#39;", "expecting &#34;", "expecting &quot;"};
    for (size_t i = 0; i < sizeof quotes / sizeof *quotes && !out->region[0]; i++) /* versitygw 1.2 tells in words */
        if (strcmp(out->code, "AuthorizationHeaderMalformed") == 0)
            between(xml, len, quotes[i], i ? '&' : '\'', words, out->region, sizeof out->region);
    between(xml, len, "<ServerTime>", '<', "0123456789-:.TZ", out->server_time, sizeof out->server_time);
}

const char *xh_s3_elsewhere(const struct xh_url *u, const struct xh_reply *r, const struct xh_s3_error *e)
{
    static const char *const codes[] = {"AuthorizationHeaderMalformed", "IncorrectEndpoint", "PermanentRedirect",
                                        "IllegalLocationConstraintException", "", NULL};
    const char *region = r->bucket_region[0] ? r->bucket_region : e->region;
    int says = (xh_reply_redirects(r) && !r->location[0]) || (r->status == 400 && xh_is_one_of(e->code, codes));
    return u->region && says && xh_s3_is_region(region) && strcmp(region, u->region) != 0 ? region : NULL;
}
