/* Names that were to be URLs: see mistaken.h. */
#include "mistaken.h"

#include <stdio.h>
#include <string.h>

#include "cache.h"
#include "base/err.h"
#include "base/letters.h"

#define WORKS "xhdf5 reads https://, http:// and s3://"

#define HOST_SHOWN 100 /* bytes of a server's name that are shown twice in one sentence */

/* What others' schemes are here. */
static const struct {
    const char *schemes, *say;
} others[] = {
    {"s3", "an object of S3 is written s3://BUCKET/KEY. pathlib.Path() makes one slash of two: give it as a string"},
    {"s3a s3n", WORKS ": write s3://BUCKET/KEY"},
    {"gs gcs", WORKS ": write the object's https:// address (https://storage.googleapis.com/BUCKET/KEY), presigned "
                     "where it is private"},
    {"az abfs abfss", WORKS ": write the blob's https:// address, with its signature where it is private"},
    {"davs", "davs:// is WebDAV over https: write https:// instead"},
    {"webdavs", "webdavs:// is WebDAV over https: write https:// instead"},
    {"dav", "dav:// is WebDAV over http: write https://, or http:// instead"},
    {"webdav", "webdav:// is WebDAV over http: write https://, or http:// instead"},
    {"root roots xroot xroots", WORKS ": XRootD servers serve the same paths over https, mostly on another port "
                                      "(https://HOST:PORT/PATH)"},
    {"ftp ftps sftp gsiftp hdfs", WORKS ": has the server an https:// address, too?"},
    {"osdf pelican", WORKS ": write the https:// address of an origin or a cache"},
    {"file", "a local file is named by its path alone, without file://"},
};

/* Returns what to say of the first |n| bytes of |scheme|; NULL: it is not known. */
static const char *known(const char *scheme, size_t n)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (const char *p = others[i].schemes; *p; p += strcspn(p, " "), p += strspn(p, " "))
            if (strcspn(p, " ") == n && xh_strncasecmp(p, scheme, n) == 0)
                return others[i].say;
    return NULL;
}

static size_t scheme_length(const char *name)
{
    size_t n = 0;
    if (!xh_isalpha((unsigned char)*name))
        return 0;
    while (xh_isalnum((unsigned char)name[n]) || (name[n] && strchr("+-._", name[n])))
        n++;
    return name[n] == ':' ? n : 0;
}

/* Returns the URL in |name| behind what fsspec calls a chain (simplecache::https://…), or NULL. */
static const char *behind_chain(const char *name)
{
    const char *p = name;
    for (size_t n; (n = scheme_length(p)) && p[n + 1] == ':';)
        p += n + 2;
    return p != name && xh_cache_is_url(p) ? p : NULL;
}

/* What stands around a URL that was copied out of a text: blanks, quotes and brackets, in UTF-8 too. Returns how many
 * bytes of it |name| begins with; sets |quote| to 1 where more than blanks are among them. */
static size_t around(const char *name, int *quote)
{
    static const char *const blanks[] = {" ", "\t", "\r", "\n", "\xc2\xa0", "\xef\xbb\xbf" /* byte order mark */,
                                         "\xe2\x80\x8b"};
    static const char *const quotes[] = {"\"", "'", "<", "(", "`", "\xe2\x80\x9c", "\xe2\x80\x98", "\xe2\x80\x9e",
                                         "\xc2\xab"};
    size_t n = 0;
    *quote = 0;
    for (size_t before = 1; before != n;) {
        before = n;
        for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++)
            if (strncmp(name + n, blanks[i], strlen(blanks[i])) == 0)
                n += strlen(blanks[i]);
        for (size_t i = 0; i < sizeof quotes / sizeof *quotes; i++)
            if (strncmp(name + n, quotes[i], strlen(quotes[i])) == 0) {
                n += strlen(quotes[i]);
                *quote = 1;
            }
    }
    return n;
}

/* |name| begins with a scheme of |n| bytes and a colon. */
static void say_scheme(const char *name, size_t n, char *out, size_t size)
{
    const char *after = name + n + 1, *say = known(name, n);
    size_t slashes = strspn(after, "/\\"), marks = strspn(after, ":/\\");
    char rest[250], shown[280];
    int http = (n == 4 || n == 5) && xh_strncasecmp(name, "https", n) == 0, web = !http ? 0 : n == 5 ? 1 : 2;
    snprintf(shown, sizeof shown, "%s://%s", web == 2 ? "http" : "https",
             xh_name_shown(after + marks, 0, rest, sizeof rest));
    if (web)
        snprintf(out, size, "a URL has two slashes behind %s:, this name has %s: write %s. pathlib.Path() makes one "
                            "slash of two: give the URL as a string",
                 web == 2 ? "http" : "https", marks == 0 ? "none" : marks == 1 && slashes == 1 ? "one" : "others", shown);
    else if (say && slashes)
        snprintf(out, size, "%s", say);
    else if ((slashes >= 2 || (slashes == 1 && n >= 4)) && strspn(name, "htpsHTPS") == n)
        snprintf(out, size, "%.*s:%s is no scheme: write %s", (int)n, name, slashes >= 2 ? "//" : "/", shown);
    else if (slashes >= 2)
        snprintf(out, size, "%.*s:// is no scheme that is known here: " WORKS, (int)(n < 40 ? n : 40), name);
    else if (slashes == 1 && n > 1)
        snprintf(out, size, "HOST:/PATH is how scp and rsync name a file: if that server serves it over https, "
                            "write https://%.*s/…",
                 (int)(n < HOST_SHOWN ? n : HOST_SHOWN), name);
}

/* Returns the length of what |name| begins with and what looks like a server's name before a path: it has a port, or
 * ends with a dot and two letters or more. Returns 0 when it begins otherwise. */
static size_t server_length(const char *name)
{
    size_t n = 0, top = 0;
    for (; xh_isalnum(name[n]) || name[n] == '-' || (name[n] == '.' && n && name[n - 1] != '.'); n++)
        top = name[n] == '.' ? n + 1 : top;
    int is_named = top && n - top >= 2 && strspn(name + top, XH_LETTERS) == n - top;
    size_t port = n && name[n] == ':' ? strspn(name + n + 1, XH_DIGITS) : 0;
    if (port)
        n += 1 + port;
    return (port || is_named) && name[n] == '/' && name[n + 1] ? n : 0;
}

/* |name| begins with a server's name, or with a login before that. Returns the length of the server's name and sets
 * |*server|, or 0; also 0 where it is unclear which @ ends the login. */
static size_t server_of(const char *name, const char **server)
{
    *server = xh_behind_login(name);
    return *name == '/' || *name == '\\' || strchr(*server, '@') ? 0 : server_length(*server);
}

/* Returns how many bytes of |name| come before its server's name, or the login before that. */
static size_t before_server(const char *name)
{
    int quote;
    size_t from = around(name, &quote), n = scheme_length(name + from);
    const char *rest = name + from, *slash = strchr(rest, '/'), *server;
    size_t schemes = strspn(rest, XH_LETTERS XH_DIGITS "+-._:");
    if (server_of(rest, &server))
        return from;
    if (schemes && strncmp(rest + schemes - 1, "://", 3) == 0) /* one, or fsspec's chain */
        return from + schemes + strspn(rest + schemes, ":/\\");
    if (n)
        from += n + 1;
    else if (slash && slash[1] == '/') /* no scheme, but two slashes: https//, https ://, … */
        from += (size_t)(slash - rest);
    return from + strspn(name + from, ":/\\");
}

const char *xh_mistaken_shown(const char *name, char *out, size_t size)
{
    return xh_name_shown(name, before_server(name), out, size);
}

const char *xh_mistaken(const char *name, char *out, size_t size)
{
    int quote;
    size_t extra = around(name, &quote), n = scheme_length(name + extra);
    const char *at = n ? NULL : strchr(name, '@'), *rest = name + extra, *colon = strstr(rest, "://");
    const char *server, *url = behind_chain(rest);
    size_t host = server_of(rest, &server);
    out[0] = '\0';
    if (url)
        snprintf(out, size, "%.*s before a URL is fsspec's: write the URL alone, %s",
                 (int)(url - rest < HOST_SHOWN ? url - rest : HOST_SHOWN), rest,
                 xh_shown(url, 250));
    else if (extra && (xh_cache_is_url(rest) || known(rest, n)))
        snprintf(out, size, "the name begins with %s: take it away", quote ? "a quote or a bracket" : "a blank");
    else if (n)
        say_scheme(rest, n, out, size);
    else if (xh_strncasecmp(rest, "https//", 7) == 0 || xh_strncasecmp(rest, "http//", 6) == 0)
        snprintf(out, size, "a URL has a colon before its two slashes: write %.*s://…", (int)strcspn(rest, "/"), rest);
    else if (at && !memchr(name, '/', (size_t)(at - name)) && (n = scheme_length(at + 1)) > 1 && at[n + 2] == '/')
        say_scheme(at + 1, n, out, size); /* USER@HOST:/PATH */
    else if (colon && colon + 1 == strchr(rest, '/'))
        snprintf(out, size, WORKS ": the name has to begin with one of them, without blanks");
    if (!out[0] && host && host < HOST_SHOWN)
        snprintf(out, size, "if %.*s is a server, write https://%.*s/…", (int)host, server, (int)host, server);
    return out;
}

const char *xh_mistaken_no_url(const char *name, char out[XH_NO_URL_BYTES])
{
    char shown[200], say[400];
    snprintf(out, XH_NO_URL_BYTES, "\"%s\" is no URL: %s", xh_mistaken_shown(name, shown, sizeof shown),
             *xh_mistaken(name, say, sizeof say) ? say : "it begins with neither https://, http:// nor s3://");
    return out;
}
