/* The list of endpoints: see list.h. */
#include "list.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/letters.h"
#include "origin/url.h"

#define SEPARATORS ",; \t\r\n"

enum { HTTP, HTTPS, S3 }; /* what stands before "://": the last two are as safe as each other */

struct place { /* a URL or an endpoint, in parts that are not NUL-terminated */
    int https;
    const char *authority; /* with user info; of S3 the bucket */
    size_t authority_len;
    const char *path; /* to the end of the URL; an endpoint's has no slashes at its end */
    size_t path_len;
    char server[XH_SERVER_BYTES]; /* "https://host:port" in lower case; "s3://bucket" */
};

/* Skips the scheme at |*s|. Returns HTTPS, HTTP or S3, or -1 for any other. */
static int scheme(const char **s, const char *end)
{
    static const char *const as_https[] = {"https://", "root://", "roots://", "xroot://", "xroots://"};
    size_t n = (size_t)(end - *s);
    for (size_t i = 0; i < sizeof as_https / sizeof *as_https; i++)
        if (n >= strlen(as_https[i]) && xh_strncasecmp(*s, as_https[i], strlen(as_https[i])) == 0) {
            *s += strlen(as_https[i]);
            return HTTPS;
        }
    if (n >= 7 && xh_strncasecmp(*s, "http://", 7) == 0) {
        *s += 7;
        return HTTP;
    }
    if (n >= 5 && xh_strncasecmp(*s, "s3://", 5) == 0) {
        *s += 5;
        return S3;
    }
    for (const char *p = *s; p + 2 < end && *p != '/'; p++)
        if (strncmp(p, "://", 3) == 0)
            return -1;
    return HTTPS;
}

static const char *scheme_of(int https)
{
    return https == S3 ? "s3" : https ? "https" : "http";
}

static int split(const char *s, size_t len, struct place *out)
{
    const char *end = s + len, *host = s;
    int https = scheme(&host, end);
    const char *path = host;
    while (path < end && !strchr("/?#", *path))
        path++;
    const char *at = memrchr(host, '@', (size_t)(path - host)), *name = at ? at + 1 : host, *colon = path;
    while (colon > name && isdigit((unsigned char)colon[-1]))
        colon--;
    int port = colon > name && colon[-1] == ':';
    if (https < 0 || name == path || path - name > 255)
        return 0;
    *out = (struct place){https, host, (size_t)(path - host), path, (size_t)(end - path), ""};
    snprintf(out->server, sizeof out->server, "%s://%.*s%s", scheme_of(https), (int)(path - name), name,
             port || https == S3 ? "" : https ? ":443" : ":80");
    if (https == S3) /* a bucket is what it is */
        return 1;
    for (char *p = out->server; *p; p++)
        *p = (char)xh_tolower((unsigned char)*p);
    return 1;
}

/* 1 for what can be asked: a server's name, and perhaps a port. */
static int is_server(const struct place *p)
{
    char text[1024];
    struct xh_authority a;
    snprintf(text, sizeof text, "%.*s", (int)p->authority_len, p->authority);
    return p->https == S3 || (p->authority_len < sizeof text && !xh_url_authority(text, 1, &a));
}

enum entry { LAST, USABLE, UNSAFE /* http, where the URL is https */, NO_ADDRESS };

/* Takes the next endpoint from |*list|; |*s| and |*len| are its text. LAST: there is none. */
static enum entry next(const char **list, const struct place *url, struct place *out, const char **s, size_t *len)
{
    *s = *list + strspn(*list, SEPARATORS);
    *len = strcspn(*s, SEPARATORS);
    *list = *s + *len;
    if (*len == 0)
        return LAST;
    if (!split(*s, *len, out) || !is_server(out) || memchr(out->path, '?', out->path_len))
        return NO_ADDRESS;
    while (out->path_len && out->path[out->path_len - 1] == '/')
        out->path_len--;
    return url->https && !out->https ? UNSAFE : USABLE;
}

/* Returns 1 when |url| is at the endpoint |e|. */
static int begins_with(const struct place *url, const struct place *e)
{
    return strcmp(url->server, e->server) == 0 && url->path_len >= e->path_len &&
           memcmp(url->path, e->path, e->path_len) == 0 &&
           (url->path_len == e->path_len || strchr("/?#", url->path[e->path_len]));
}

size_t xh_list_sites(const char *url, const char *list, char *out[XH_SITES_MAX], const char **bad, size_t *bad_len)
{
    struct place whole, e;
    const char *s, *rest = NULL;
    size_t n = 0, len;
    enum entry kind;
    *bad = NULL;
    if (!(out[n++] = strdup(url)))
        return 0;
    if (!split(url, strlen(url), &whole))
        return n;
    for (const char *at = list; (kind = next(&at, &whole, &e, &s, &len)) != LAST;)
        if (kind == USABLE && begins_with(&whole, &e) && (!rest || whole.path + e.path_len > rest))
            rest = whole.path + e.path_len;
    for (const char *at = list; (kind = next(&at, &whole, &e, &s, &len)) != LAST;) {
        int applies = rest && n < XH_SITES_MAX;
        if (!*bad && (kind == NO_ADDRESS || (kind == UNSAFE && applies))) { /* the first is one for no file */
            *bad = s;
            *bad_len = len;
        }
        if (!applies || kind != USABLE || begins_with(&whole, &e))
            continue;
        if (asprintf(&out[n], "%s://%.*s%.*s%s", scheme_of(e.https), (int)e.authority_len, e.authority,
                     (int)e.path_len, e.path, rest) < 0) {
            while (n)
                free(out[--n]);
            return 0;
        }
        size_t k = 0;
        while (strcmp(out[k], out[n]) != 0)
            k++;
        if (k < n)
            free(out[n]);
        else
            n++;
    }
    return n;
}

void xh_list_server(const char *url, char *out, size_t size)
{
    struct place p;
    snprintf(out, size, "%s", split(url, strlen(url), &p) ? p.server : "");
}
