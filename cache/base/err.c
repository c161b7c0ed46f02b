/* Errors of the cache: see err.h. */
#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "letters.h"
#include "number.h"

/* Of each code, by its number below zero, the name and the errno. */
static const struct {
    const char *name;
    int sys_errno;
} codes[] = {
    {"XH_OK", 0}, {"XH_E_INVAL", EINVAL}, {"XH_E_NOMEM", ENOMEM}, {"XH_E_NOENT", ENOENT}, {"XH_E_ACCES", EACCES},
    {"XH_E_CHANGED", ESTALE}, {"XH_E_NET", EIO}, {"XH_E_TLS", EPROTO}, {"XH_E_TIMEOUT", ETIMEDOUT},
    {"XH_E_PROTO", EIO}, {"XH_E_STATUS", EIO}, {"XH_E_NOSPACE", ENOSPC}, {"XH_E_CANCELLED", ECANCELED},
    {"XH_E_READONLY", EROFS}, {"XH_E_RANGE", ERANGE}, {"XH_E_SYS", EIO}, {"XH_E_INTR", EINTR},
};

static int is_code(int code)
{
    return code <= 0 && code > -(int)(sizeof codes / sizeof *codes);
}

size_t xh_utf8_length(const char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *p = (const unsigned char *)text;
    unsigned n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0x80)
        return p[0] >= 0x20 && p[0] < 0x7f;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    uint32_t c = p[0] & (0x7fu >> n);
    for (unsigned i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3fu);
    }
    int harmful =
        c < 0xa0 || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || (c >= 0xd800 && c < 0xe000);
    return c < least[n] || c > 0x10ffff || harmful ? 0 : n;
}

char *xh_text_plain(char *text)
{
    for (char *p = text; *p;) {
        size_t n = xh_utf8_length(p);
        if (!n)
            *p = *p == '\t' || *p == '\n' || *p == '\r' ? ' ' : '?';
        p += n ? n : 1;
    }
    return text;
}

#define SAID_BYTES 4096 /* an error's text, a URL and a path, and some words */

void xh_say(const char *fmt, ...)
{
    char text[SAID_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dprintf(STDERR_FILENO, "xhdf5: %s\n", xh_text_plain(text));
}

int(xh_err_set)(struct xh_err *err, int code, int status, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        xh_text_plain(err->text);
        err->code = code;
        err->status = status;
        err->sys_errno = is_code(code) ? codes[-code].sys_errno : EIO;
        err->directory = 0;
    }
    return code;
}

const char *xh_err_name(int code)
{
    return is_code(code) ? codes[-code].name : "XH_E_?";
}

/* A URL behind its "://", taken apart as it stands. */
struct behind {
    const char *host;       /* behind the user info, as far as that is written as it must be */
    const char *port, *end; /* behind the name: a colon and what may be a port, or nothing; and behind that */
    const char *at;         /* the last @ from |host| on; NULL: none */
    int sound;              /* 1: a name or an address, with a port or none */
};

static int is_host_byte(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c && strchr(".-_", c)) || (c & 0x80);
}

static struct behind take_apart(const char *from)
{
    struct behind b;
    uint64_t port = 1;
    char *end;
    from += strspn(from, "/\\"); /* where no host is named, a login may still be */
    const char *at = memrchr(from, '@', strcspn(from, "/?#"));
    b.host = at ? at + 1 : from;
    b.end = b.host + strcspn(b.host, "/?#");
    b.port = *b.host == '[' ? b.end : b.host + strcspn(b.host, ":/?#");
    b.sound = b.end - b.port < 2 || (xh_digits(b.port + 1, &end, &port) == 0 && end == b.end && port - 1 < 65535);
    for (const char *p = b.host; *b.host != '[' && p < b.port; p++)
        b.sound &= is_host_byte(*p);
    b.at = strrchr(b.host, '@');
    return b;
}

const char *xh_behind_login(const char *from)
{
    struct behind b = take_apart(from);
    return b.sound || !b.at ? b.host : b.at + 1;
}

size_t xh_url_server_bytes(const char *url)
{
    const char *host = strstr(url, "://");
    return host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?#") : 0;
}

size_t xh_url_directory_bytes(const char *url)
{
    const char *slash = memrchr(url, '/', strcspn(url, "?#"));
    return slash && slash >= url + xh_url_server_bytes(url) ? (size_t)(slash + 1 - url) : 0;
}

struct text {
    char *at;
    size_t size, n;
};

static void add(struct text *t, const char *p, size_t n)
{
    size_t room = t->size - 1 - t->n, some = n < room ? n : room;
    memcpy(t->at + t->n, p, some);
    t->n += some;
    t->at[t->n] = '\0';
    if (some < n && t->size > 3)
        memcpy(t->at + t->size - 4, "...", 4);
}

/* Adds a path up to its query, also where the ? of that was written %3F. In the path may be other URLs, as HDF5 makes
 * of a name behind a directory's: their logins are left out. */
static void add_path(struct text *t, const char *p)
{
    const char *end = p + strcspn(p, "?#"), *cut = xh_strcasestr(p, "%3F");
    int is_query = cut && cut < end && (memchr(cut, '=', (size_t)(end - cut)) || xh_strcasestr(cut, "%3D"));
    end = is_query ? cut : end;
    while (p < end) {
        const char *slash = memchr(p + 1, '/', (size_t)(end - p - 1)), *to = slash ? slash : end;
        const char *at = memrchr(p, '@', (size_t)(to - p));
        if (at && memchr(p, ':', (size_t)(at - p))) {
            add(t, "/...", *p == '/' ? 4 : 0);
            p = at;
        }
        add(t, p, (size_t)(to - p));
        p = to;
    }
    add(t, "...", is_query ? 3 : 0);
}

/* How many dots are in the |n| bytes at |p|. */
static unsigned dots(const char *p, size_t n)
{
    unsigned k = 0;
    for (size_t i = 0; i < n; i++)
        k += p[i] == '.';
    return k;
}

/* 1 for four numbers with dots between. */
static int is_address(const char *p, size_t n)
{
    return dots(p, n) == 3 && strspn(p, XH_DIGITS ".") >= n;
}

/* 1 when the |n| bytes at |p|, which stand behind an @, look like a server's name: with a port, an address, or of two
 * parts and more, the last one a word. */
static int may_be_server(const char *p, size_t n)
{
    const char *last = memrchr(p, '.', n);
    size_t word = last ? strspn(last + 1, XH_LETTERS) : 0;
    return memchr(p, ':', n) || is_address(p, n) || (word > 1 && last + 1 + word == p + n);
}

/* 1 when what stands before a port is a server's name, most likely, and no user's: localhost, an address, or a name of
 * three parts and more; a user may have such a name, too, so not where a server's name stands behind the |at|. */
static int is_server_name(const struct behind *b, const char *at)
{
    size_t n = (size_t)(b->port - b->host);
    if ((n == strlen("localhost") && xh_strncasecmp(b->host, "localhost", n) == 0) || is_address(b->host, n))
        return 1;
    return dots(b->host, n) > 1 && !(at && may_be_server(at + 1, strcspn(at + 1, "/?#")));
}

/* What looks like a port and a path may be a password in which / ? or # stand as they are: an @ comes behind it, and
 * then a path. A file's name, or a query's value, may have an @; so may a directory's, at what is a server for certain.
 * Returns what may be shown behind that password: the @ and what follows, or "", where it is unclear which @ ends it;
 * NULL: it is none. */
static const char *behind_password(const struct behind *b)
{
    const char *query = b->end + strcspn(b->end, "?#"), *at = memrchr(b->end, '@', (size_t)(query - b->end));
    if (b->end - b->port < 2 || !b->at || is_server_name(b, at))
        return NULL;
    if (b->at > query && (query == b->end || !memchr(query, '=', (size_t)(b->at - query))))
        return "";
    return at && memchr(at, '/', (size_t)(query - at)) ? at : NULL;
}

static void add_behind(struct text *t, const char *from)
{
    struct behind b = take_apart(from);
    const char *first = strchr(b.host, '@');
    const char *rest = b.sound ? behind_password(&b) : b.at || b.port == b.end ? NULL : "";
    add(t, from, strspn(from, "/\\"));
    if (rest) {
        add(t, b.host, (size_t)(b.port - b.host));
        add(t, "...", 3);
        add_path(t, rest);
    } else if (b.sound || !b.at) {
        add(t, b.host, (size_t)(b.end - b.host));
        add_path(t, b.end);
    } else if (first + strcspn(first, "?#") < b.at) {
        add(t, "...", 3);
    } else {
        size_t host = strcspn(b.at + 1, "/?#");
        add(t, b.at + 1, host);
        add_path(t, b.at + 1 + host);
    }
}

char *xh_name_shown(const char *name, size_t scheme, char *out, size_t size)
{
    struct text t = {out, size, 0};
    if (size == 0)
        return out;
    *out = '\0';
    add(&t, name, scheme);
    add_behind(&t, name + scheme);
    return xh_text_plain(out);
}

char *xh_url_shown(const char *url, char *out, size_t size)
{
    const char *authority = strstr(url, "://");
    int begins = authority && strcspn(url, "/?#@") == (size_t)(authority + 1 - url);
    return xh_name_shown(url, begins ? (size_t)(authority + 3 - url) : 0, out, size);
}
