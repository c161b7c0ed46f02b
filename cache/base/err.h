/* Errors of the cache: a negative code and one sentence for a person.
 *
 * The text says what was asked, what came and what the user can do. It never
 * holds a token, a user's password or a URL's query string; xh_url_shown()
 * makes the part of a URL that may be shown. What a server or a file wrote
 * cannot steer a terminal from there: xh_text_plain(). */
#ifndef XH_ERR_H
#define XH_ERR_H

#include <stddef.h>

enum xh_code {
    XH_OK = 0,
    XH_E_INVAL = -1,      /* a bad option, URL or argument */
    XH_E_NOMEM = -2,      /* out of memory */
    XH_E_NOENT = -3,      /* 404, 410 */
    XH_E_ACCES = -4,      /* 401, 403 */
    XH_E_CHANGED = -5,    /* the origin is another version than the one opened */
    XH_E_NET = -6,        /* name, connect or connection failure after all retries */
    XH_E_TLS = -7,        /* certificate or handshake failure (not retried) */
    XH_E_TIMEOUT = -8,    /* connect or stall time-out after all retries */
    XH_E_PROTO = -9,      /* a reply that contradicts HTTP or itself */
    XH_E_STATUS = -10,    /* any other HTTP status */
    XH_E_NOSPACE = -11,   /* the shadow is full: not an error for the reader */
    XH_E_CANCELLED = -12, /* the transfer was cancelled by its owner */
    XH_E_READONLY = -13,  /* a URL was to be written */
    XH_E_RANGE = -14,     /* an extent outside the file */
    XH_E_SYS = -15,       /* a system call failed; the text names it */
};

struct xh_err {
    int code;       /* enum xh_code; 0 when nothing failed */
    int status;     /* HTTP status of the reply that decided, or 0 */
    int sys_errno;  /* errno that fits the code for POSIX-minded callers: ENOENT, EACCES, … or 0 */
    char text[768]; /* one sentence or two, NUL-terminated, without newline */
};

/* Sets |err| (which may be NULL) and returns |code|, so that a caller can write
 * `return xh_err_set(err, XH_E_NET, 0, "…")`. sys_errno is derived from the code.
 * Threads: any, on distinct |err|. */
int xh_err_set(struct xh_err *err, int code, int status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Length of the UTF-8 character at |text|; 0 when it is none, a control one (C1 included), or one that changes the
 * direction of writing, which could make a line say something else. */
size_t xh_utf8_length(const char *text);

/* Replaces each byte of |text| that is no such character by '?', and blanks of other kinds by a blank. Returns
 * |text|. */
char *xh_text_plain(char *text);

/* Name of a code, like "XH_E_NET"; never NULL. */
const char *xh_err_name(int code);

/* Copies |url| to |out| without user info, query and fragment, made plain,
 * cut to |size| with "…". Returns |out|. */
char *xh_url_shown(const char *url, char *out, size_t size);

#endif
