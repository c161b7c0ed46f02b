/* A file's name as a part of a URL: see literal.h. Pure. */
#include "literal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cache/base/escape.h"
#include "../cache/base/letters.h"

/* 1 when |p|, a %, begins an escape. */
static int is_escape(const char *p)
{
    return xh_hex_digit(p[1]) >= 0 && xh_hex_digit(p[2]) >= 0;
}

/* Takes . and .. out of |path|, in place. Not by curl_url, as origin/url.c does it for redirects: that takes %2e for a
 * dot, in newer versions, but in a key of S3 it is none, and a blank or a byte above 0x7f is an error to it. */
static void resolve_dots(char *path)
{
    char *to = path;
    for (const char *p = path; *p == '/';) {
        size_t n = strcspn(p + 1, "/");
        int dots = (n == 1 || n == 2) && strncmp(p + 1, "..", n) == 0;
        int last = p[n + 1] == '\0';
        if (!dots) {
            memmove(to, p, n + 1);
            to += n + 1;
        }
        if (dots && n == 2)
            while (to > path && *--to != '/')
                ;
        p += n + 1;
        if (dots && last)
            *to++ = '/';
    }
    *to = '\0';
}

char *xh_literal_url(const char *url, size_t name_at)
{
    const char *authority = strstr(url, "://"), *path = authority ? strchr(authority + 3, '/') : NULL;
    if (!path)
        return strdup(url);
    int s3 = xh_strncasecmp(url, "s3://", 5) == 0;
    char *out = malloc((size_t)(path - url) + 3 * strlen(path) + 1);
    if (!out)
        return NULL;
    memcpy(out, url, (size_t)(path - url));
    char *to = out + (path - url), *begins = to;
    for (const char *p = path; *p; p++) {
        int named = (size_t)(p - url) >= name_at;
        int encode = *p == '#' || (*p == '?' && named) || (*p == '%' && (named || !is_escape(p)));
        if (encode && !s3)
            to += sprintf(to, "%%%02X", (unsigned)*p);
        else
            *to++ = *p;
    }
    *to = '\0';
    if (name_at != SIZE_MAX && !strchr(begins, '?') && strstr(begins, "/."))
        resolve_dots(begins);
    return out;
}
