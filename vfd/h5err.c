/* Errors on HDF5's stack: see h5err.h. */
#include "h5err.h"

#include <stdio.h>
#include <string.h>

/* H5E_DEFAULT; the macro itself is a plain cast of 0. */
#define DEFAULT_STACK ((hid_t)0)

/* Registers class and messages once in each life of the library. */
static int prepare(struct xh_h5 *h5)
{
    if (h5->error_class > 0)
        return 1;
    hid_t c = h5->H5Eregister_class("xhdf5", "xhdf5", "0.1.0");
    if (c < 0)
        return 0;
    h5->error_major = h5->H5Ecreate_msg(c, H5E_MAJOR, "Virtual file driver xhdf5");
    h5->error_minor = h5->H5Ecreate_msg(c, H5E_MINOR, "File could not be opened, read or written");
    if (h5->error_major < 0 || h5->error_minor < 0)
        return 0;
    h5->error_class = c;
    return 1;
}

void xh_h5err_push_text(struct xh_h5 *h5, const char *text, const char *func, unsigned line)
{
    if (h5 && prepare(h5))
        h5->H5Epush2(DEFAULT_STACK, "xhdf5", func, line, h5->error_class, h5->error_major, h5->error_minor,
                     "%s", text);
}

void xh_h5err_push(struct xh_h5 *h5, const char *what, const char *name, const struct xh_err *e,
                   const char *func, unsigned line)
{
    char text[2048], said[sizeof e->text];
    /* The form above quotes the sentence: it must not end early. */
    snprintf(said, sizeof said, "%s", e->text);
    for (char *p = said; (p = strchr(p, '\'')); p++)
        *p = '"';
    snprintf(text, sizeof text, "%s%s%s%s, errno = %d, error message = '%s'", what, name ? ": name = '" : "",
             name ? name : "", name ? "'" : "", e->sys_errno, said);
    xh_h5err_push_text(h5, text, func, line);
}

void xh_h5err_push_errno(struct xh_h5 *h5, const char *what, int sys_errno, const char *func, unsigned line)
{
    char text[2048];
    snprintf(text, sizeof text, "%s, errno = %d, error message = '%s'", what, sys_errno, strerror(sys_errno));
    xh_h5err_push_text(h5, text, func, line);
}
