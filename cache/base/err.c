/* Errors of the cache: see err.h. */
#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static int errno_of(int code)
{
    switch (code) {
    case XH_OK: return 0;
    case XH_E_INVAL: return EINVAL;
    case XH_E_NOMEM: return ENOMEM;
    case XH_E_NOENT: return ENOENT;
    case XH_E_ACCES: return EACCES;
    case XH_E_CHANGED: return ESTALE;
    case XH_E_TLS: return EPROTO;
    case XH_E_TIMEOUT: return ETIMEDOUT;
    case XH_E_NOSPACE: return ENOSPC;
    case XH_E_CANCELLED: return ECANCELED;
    case XH_E_READONLY: return EROFS;
    case XH_E_RANGE: return ERANGE;
    case XH_E_INTR: return EINTR;
    default: return EIO;
    }
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
        err->sys_errno = errno_of(code);
        err->directory = 0;
    }
    return code;
}

const char *xh_err_name(int code)
{
    static const char *const names[] = {
        "XH_OK", "XH_E_INVAL", "XH_E_NOMEM", "XH_E_NOENT", "XH_E_ACCES", "XH_E_CHANGED",
        "XH_E_NET", "XH_E_TLS", "XH_E_TIMEOUT", "XH_E_PROTO", "XH_E_STATUS", "XH_E_NOSPACE",
        "XH_E_CANCELLED", "XH_E_READONLY", "XH_E_RANGE", "XH_E_SYS",
        "XH_E_INTR",
    };
    int i = -code;
    return i >= 0 && i < (int)(sizeof names / sizeof *names) ? names[i] : "XH_E_?";
}

/* 1 when the |n| bytes behind a colon can be a port; nothing is the usual one. */
static int is_port(const char *p, size_t n)
{
    unsigned port = 0;
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9' || (port = port * 10 + (unsigned)(p[i] - '0')) > 65535)
            return 0;
    return n == 0 || port > 0;
}

/* A URL behind its "://", taken apart as it stands. */
struct behind {
    const char *host; /* behind the user info, as far as that is written as it must be */
    size_t host_len;  /* with the port */
    size_t name_len;  /* without */
    int sound;        /* 1: a name or an address, with a port or none */
    const char *at;   /* the last @ from |host| on; NULL: none */
};

static int is_host_byte(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (c && strchr(".-_", c)) || (c & 0x80);
}

static struct behind take_apart(const char *from)
{
    struct behind b;
    from += strspn(from, "/\\"); /* where no host is named, a login may still be */
    const char *at = memrchr(from, '@', strcspn(from, "/?#"));
    b.host = at ? at + 1 : from;
    b.host_len = strcspn(b.host, "/?#");
    b.name_len = *b.host == '[' ? b.host_len : strcspn(b.host, ":/?#");
    b.sound = *b.host == '[' || b.name_len == b.host_len ||
              is_port(b.host + b.name_len + 1, b.host_len - b.name_len - 1);
    for (size_t i = 0; i < b.name_len && *b.host != '['; i++)
        b.sound &= is_host_byte(b.host[i]);
    b.at = strrchr(b.host, '@');
    return b;
}

const char *xh_behind_login(const char *from)
{
    struct behind b = take_apart(from);
    return b.sound || !b.at ? b.host : b.at + 1;
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
    const char *end = p + strcspn(p, "?#"), *cut = strcasestr(p, "%3F");
    int is_query = cut && cut < end && (memchr(cut, '=', (size_t)(end - cut)) || strcasestr(cut, "%3D"));
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

/* 1 when |name| is a server's, most likely, and no user's: an address, localhost, or of three parts and more. */
static int is_server_name(const char *name, size_t n)
{
    const char *dot = memchr(name, '.', n);
    return *name == '[' || (n == 9 && strncasecmp(name, "localhost", n) == 0) ||
           (dot && memchr(dot + 1, '.', n - (size_t)(dot + 1 - name)));
}

/* Returns 1 when what looks like a port and a path may be a password in which / ? or # stand as they are: an @ comes
 * behind it, and then a path. Sets |rest| to that @, or to NULL where it is unclear which one it is. A file's name, or
 * a query's value, may have an @; so may a directory's, at what is a server for certain. */
static int may_be_password(const struct behind *b, const char **rest)
{
    const char *port = b->host + b->name_len, *end = b->host + b->host_len, *path_end = end + strcspn(end, "?#");
    const char *at = memrchr(end, '@', (size_t)(path_end - end));
    *rest = NULL;
    if (end - port < 2 || !b->at || is_server_name(b->host, b->name_len))
        return 0;
    if (b->at > path_end && (path_end == end || !memchr(path_end, '=', (size_t)(b->at - path_end))))
        return 1;
    if (at && memchr(at, '/', (size_t)(path_end - at)))
        *rest = at;
    return *rest != NULL;
}

static void add_behind(struct text *t, const char *from)
{
    struct behind b = take_apart(from);
    const char *first = strchr(b.host, '@'), *rest;
    add(t, from, strspn(from, "/\\"));
    if (b.sound && may_be_password(&b, &rest)) {
        add(t, b.host, b.name_len);
        add(t, "...", 3);
        add_path(t, rest ? rest : "");
    } else if (b.sound || (!first && b.name_len == b.host_len)) {
        add(t, b.host, b.host_len);
        add_path(t, b.host + b.host_len);
    } else if (!first || memchr(first, '?', (size_t)(b.at - first)) || memchr(first, '#', (size_t)(b.at - first))) {
        add(t, b.host, first ? 0 : b.name_len);
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
