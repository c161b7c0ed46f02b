/* Errors for HDF5: see h5err.h.
 *
 * The class is registered when the first error needs it: in each libhdf5, and again in each of its lives. HDF5 drops
 * entries while it only tries to open something. */
#include "h5err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xhdf5.h"

/* Minor messages. The last one is for codes without their own. */
static const struct {
    int code;
    const char *text;
} minors[XH_H5_MINORS] = {
    {XH_E_NOENT, "No such file"},
    {XH_E_ACCES, "Access denied"},
    {XH_E_CHANGED, "The file has changed at the server"},
    {XH_E_READONLY, "URLs are read-only"},
    {XH_E_INVAL, "Bad option or argument"},
    {XH_E_NET, "Network failure"},
    {XH_E_PROTO, "Unexpected answer from the server"},
    {XH_E_SYS, "Operation failed"},
};

static size_t minor_of(int code)
{
    if (code == XH_E_TLS || code == XH_E_TIMEOUT)
        code = XH_E_NET;
    if (code == XH_E_STATUS)
        code = XH_E_PROTO;
    size_t i = 0;
    while (i < XH_H5_MINORS - 1 && minors[i].code != code)
        i++;
    return i;
}

/* Returns the class and its messages in this life of the library, and registers them when they are new; NULL on
 * failure. */
static struct xh_h5_errors *errors_of(struct xh_h5 *h5)
{
    struct xh_h5_errors *there = atomic_load_explicit(&h5->errors, memory_order_acquire);
    if (there)
        return there;
    struct xh_h5_errors *e = calloc(1, sizeof *e);
    if (!e || (e->class = h5->H5Eregister_class("xhdf5", "xhdf5", XH_VERSION)) < 0)
        goto err;
    if ((e->major = h5->H5Ecreate_msg(e->class, H5E_MAJOR, "xhdf5 virtual file driver")) < 0)
        goto err;
    for (size_t i = 0; i < XH_H5_MINORS; i++)
        if ((e->minor[i] = h5->H5Ecreate_msg(e->class, H5E_MINOR, minors[i].text)) < 0)
            goto err;
    if (atomic_compare_exchange_strong_explicit(&h5->errors, &there, e, memory_order_acq_rel,
                                                memory_order_acquire))
        return e;
    free(e);
    return there;
err:
    free(e);
    return NULL;
}

static void push(struct xh_h5 *h5, const char *file, const char *func, unsigned line, int code,
                 const char *text)
{
    struct xh_h5_errors *e = h5 ? errors_of(h5) : NULL;
    if (!e || h5->H5Epush2(H5E_DEFAULT, file, func, line, e->class, e->major, e->minor[minor_of(code)],
                           "%s", text) < 0)
        xh_say("%s", text);
}

int(xh_h5err_push)(struct xh_h5 *h5, const char *file, const char *func, unsigned line, int code,
                  const char *fmt, ...)
{
    int keep = errno;
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&text, fmt, ap) < 0)
        text = NULL;
    va_end(ap);
    /* the text may contain a name from a remote file's link */
    push(h5, file, func, line, code, text ? xh_text_plain(text) : "out of memory");
    free(text);
    errno = keep;
    return -1;
}

int xh_h5err_push_cache(struct xh_h5 *h5, const char *file, const char *func, unsigned line,
                        const struct xh_err *err)
{
    if (!err->sys_errno)
        return xh_h5err_push(h5, file, func, line, err->code, "%s", err->text);
    return xh_h5err_push(h5, file, func, line, err->code, "%s, errno = %d, error message = '%s'", err->text,
                         err->sys_errno, strerror(err->sys_errno));
}

int xh_h5err_print(struct xh_h5 *h5)
{
    H5E_auto2_t print = NULL;
    void *arg = NULL;
    if (h5->H5Eget_auto2(H5E_DEFAULT, &print, &arg) >= 0 && print)
        print(H5E_DEFAULT, arg);
    return -1;
}

int xh_h5err_code(int sys_errno)
{
    switch (sys_errno) {
    case ENOENT:
        return XH_E_NOENT;
    case EACCES:
    case EPERM:
        return XH_E_ACCES;
    default:
        return XH_E_SYS;
    }
}

static _Thread_local const void *spoken_for; /* set by H5FDxhdf5_call_for */

void H5FDxhdf5_call_for(const void *h5_function)
{
    spoken_for = h5_function;
}

struct xh_h5 *xh_h5err_enter(const void *caller)
{
    struct xh_h5 *h5 = xh_h5_of_program(spoken_for ? spoken_for : caller);
    if (h5)
        h5->H5Eclear2(H5E_DEFAULT);
    return h5;
}

void xh_h5err_quiet(struct xh_h5 *h5, struct xh_h5err_quiet *q)
{
    *q = (struct xh_h5err_quiet){0};
    q->was = h5->H5Eget_auto2(H5E_DEFAULT, &q->print, &q->arg);
    h5->H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

void xh_h5err_aloud(struct xh_h5 *h5, const struct xh_h5err_quiet *q)
{
    if (q->was >= 0)
        h5->H5Eset_auto2(H5E_DEFAULT, q->print, q->arg);
    h5->H5Eclear2(H5E_DEFAULT);
}
