/* Errors of the cache: see err.h. */
#include "err.h"

#include <errno.h>
#include <stdarg.h>
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
    default: return EIO;
    }
}

int xh_err_set(struct xh_err *err, int code, int status, const char *fmt, ...)
{
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        err->code = code;
        err->status = status;
        err->sys_errno = errno_of(code);
    }
    return code;
}

const char *xh_err_name(int code)
{
    static const char *const names[] = {
        "XH_OK", "XH_E_INVAL", "XH_E_NOMEM", "XH_E_NOENT", "XH_E_ACCES", "XH_E_CHANGED",
        "XH_E_NET", "XH_E_TLS", "XH_E_TIMEOUT", "XH_E_PROTO", "XH_E_STATUS", "XH_E_NOSPACE",
        "XH_E_CANCELLED", "XH_E_READONLY", "XH_E_RANGE", "XH_E_SYS",
    };
    int i = -code;
    return i >= 0 && i < (int)(sizeof names / sizeof *names) ? names[i] : "XH_E_?";
}

char *xh_url_shown(const char *url, char *out, size_t size)
{
    static const char cut[] = "...";
    if (size == 0)
        return out;
    const char *authority = strstr(url, "://");
    const char *from = authority ? authority + 3 : url;
    size_t all = strcspn(from, "?#");
    size_t host = strcspn(from, "/?#");
    const char *at = memrchr(from, '@', host);
    size_t used = 0;
    if (authority)
        for (const char *p = url; p < from && used + 1 < size; p++)
            out[used++] = *p;
    const char *p = at ? at + 1 : from;
    const char *end = from + all;
    for (; p < end && used + 1 < size; p++)
        out[used++] = (unsigned char)*p < 0x20 || *p == 0x7f ? '?' : *p;
    if (p < end && size > sizeof cut) {
        used = size - sizeof cut;
        memcpy(out + used, cut, sizeof cut - 1);
        used += sizeof cut - 1;
    }
    out[used] = '\0';
    return out;
}
