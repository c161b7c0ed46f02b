/* Errors of the cache: see err.h. */
#include "err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

const char *xh_behind_login(const char *from)
{
    const char *at = memrchr(from, '@', strcspn(from, "/?#")), *host = at ? at + 1 : from;
    size_t n = strcspn(host, "/?#"), name = strcspn(host, ":/?#");
    int good = *host == '[' || name == n || is_port(host + name + 1, n - name - 1);
    const char *last = good ? NULL : strrchr(host, '@');
    return last ? last + 1 : host;
}

char *xh_url_shown(const char *url, char *out, size_t size)
{
    static const char cut[] = "...";
    if (size == 0)
        return out;
    const char *authority = strstr(url, "://"), *from = authority ? authority + 3 : url;
    const char *host = xh_behind_login(from);
    size_t n = (size_t)snprintf(out, size, "%.*s%.*s", (int)(from - url), url, (int)strcspn(host, "?#"), host);
    if (n >= size && size > sizeof cut)
        memcpy(out + size - sizeof cut, cut, sizeof cut);
    return xh_text_plain(out);
}
