/* Errors of the cache: a negative code and one sentence for the user.
 *
 * The text says what was asked, what came and what the user can do. It never holds a token, a password or a URL's query
 * string; xh_url_shown() makes the part of a URL that may be shown. Text from a server or a file cannot control a
 * terminal: see xh_text_plain(). */
#ifndef XH_ERR_H
#define XH_ERR_H

#include <stddef.h>

enum xh_code {
    XH_OK = 0,
    XH_E_INVAL = -1,      /* a bad option, URL or argument */
    XH_E_NOMEM = -2,      /* out of memory */
    XH_E_NOENT = -3,      /* 404, 410 */
    XH_E_ACCES = -4,      /* 401, 403 */
    XH_E_CHANGED = -5,    /* the origin has another version than the one opened */
    XH_E_NET = -6,        /* name, connect or connection failure after all retries */
    XH_E_TLS = -7,        /* certificate or handshake failure (not retried) */
    XH_E_TIMEOUT = -8,    /* connect or stall timeout after all retries */
    XH_E_PROTO = -9,      /* a reply that contradicts HTTP or itself */
    XH_E_STATUS = -10,    /* any other HTTP status */
    XH_E_NOSPACE = -11,   /* the shadow is full; not an error for the reader */
    XH_E_CANCELLED = -12, /* the transfer was cancelled by its owner */
    XH_E_READONLY = -13,  /* an attempt to write to a URL */
    XH_E_RANGE = -14,     /* an extent outside the file */
    XH_E_SYS = -15,       /* a system call failed; the text names it */
    XH_E_INTR = -16,      /* the user interrupted the wait */
};

struct xh_err {
    int code;       /* enum xh_code; 0 when nothing failed */
    int status;     /* HTTP status of the reply that caused the error, or 0 */
    int sys_errno;  /* matching errno for POSIX callers: ENOENT, EACCES, … or 0 */
    int directory;  /* 1: the URL is a directory's */
    char text[768]; /* one or two sentences, NUL-terminated, without newline */
};

/* Where an error goes that nobody wants to know. */
#define XH_IGNORED (&(struct xh_err){0})

/* Sets |err|, which may be NULL. Derives sys_errno from the code. Returns |code|, so that a caller can write `return
 * xh_err_set(err, XH_E_NET, 0, "…")`. Threads: any, on distinct |err|. */
int xh_err_set(struct xh_err *err, int code, int status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#ifdef __clang_analyzer__ /* it looks at one source at a time, and must know that what comes back is no 0 */
#define xh_err_set(err, code, ...) ((void)(xh_err_set)(err, code, __VA_ARGS__), (code))
#endif

/* Returns the length of the UTF-8 character at |text|, in bytes. Returns 0 when it is not a character, is a control
 * character (also C1), or changes the direction of writing: that could make a line say something else. */
size_t xh_utf8_length(const char *text);

/* Replaces each byte of |text| that is not part of such a character by '?', and tabs and line ends by a blank. Returns
 * |text|. */
char *xh_text_plain(char *text);

/* Prints "xhdf5: ", the formatted text, made plain and cut at 4,095 bytes, and a line's end on standard error, at once:
 * what it tells may be a server's or a file's words. */
void xh_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns the name of a code, such as "XH_E_NET"; never NULL. */
const char *xh_err_name(int code);

/* Where the server's name begins in |from|, which stands behind a URL's "://": behind the user info. A password in
 * which / ? or # were not written as %xx ends at the last @: it shows as a port that is none. */
const char *xh_behind_login(const char *from);

/* How much of |url| names its server, without the "/" behind it; 0: it names none. And how much names its directory,
 * with the "/", as a query may belong to one file; 0: it has no path. */
size_t xh_url_server_bytes(const char *url);
size_t xh_url_directory_bytes(const char *url);

/* Copies |url| to |out| without user info, query and fragment, made plain. What may be a part of a password, as its
 * slash was not written %2F, shows as "...". A URL that does not fit into |size| ends with "...". Returns |out|. */
char *xh_url_shown(const char *url, char *out, size_t size);
/* The same in a buffer of |bytes| that lasts as long as the block it stands in. */
#define xh_shown(url, bytes) xh_url_shown(url, (char[bytes]){0}, bytes)

/* The same of a name that was to be a URL: its first |scheme| bytes are in place of a scheme and "://". */
char *xh_name_shown(const char *name, size_t scheme, char *out, size_t size);

#endif
