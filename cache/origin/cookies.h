/* Cookies: what libcurl tells of a server's cookies, kept in memory.
 *
 * libcurl parses Set-Cookie, and decides which cookie goes to which path and until when. Here are its lines (Netscape's
 * format: domain, subdomains, path, secure, expiry, name, value, separated by tabs), each with an end of line, in one
 * text a server. A server gets back what itself has set, whatever domain that is for: so no list of public suffixes is
 * needed, and no cookie goes to another host. Pure: no I/O, no lock, no clock. */
#ifndef XH_COOKIES_H
#define XH_COOKIES_H

#include <stddef.h>

#define XH_COOKIES_MOST_BYTES 65536u /* kept of one server: more is no login. Ten cookies of libcurl's longest */
#define XH_COOKIES_MOST_SERVERS 64u  /* in one jar */

struct xh_jar {
    struct xh_jar_of {
        char *server; /* xh_url's "https://host:port" */
        char *lines;
    } *of;
    size_t n;
};

/* What |after| has beside |before|, both libcurl's lines: each new or changed cookie, and each that is gone as one that
 * has expired. Returns a text, "" when nothing changed, or NULL without memory. Owns: the caller; xh_wipe. */
char *xh_cookies_changes(const char *before, const char *after);

/* The lines of |server|; "": there are none. */
const char *xh_jar_lines(const struct xh_jar *j, const char *server);

/* Puts |changes| to the lines of |server|. |keeps_gone|: cookies that are gone stay as lines that have expired, so that
 * they can be taken from another jar. Returns 0, or -1 without memory or where there would be too many: then nothing
 * was changed. */
int xh_jar_take(struct xh_jar *j, const char *server, const char *changes, int keeps_gone);

void xh_jar_free(struct xh_jar *j); /* zeroed ones allowed; wipes it and leaves it empty */

#endif
