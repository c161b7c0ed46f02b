/* URLs: checked, split, resolved against each other, and shown without secrets. */
#ifndef XH_URL_H
#define XH_URL_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

/* One URL. Constant once made; counted references, so that a request can hold the
 * target that it was sent to while the origin goes on to another. */
struct xh_url {
    atomic_int refs;
    int https;
    int ticket;   /* its query carries an authorisation of its own, so no other may go with it (S3 answers 400) */
    char *text;   /* without user info and fragment; what HTTP is asked for */
    char *server; /* "https://host:port" in lower case, the port always written */
    char *user;   /* user info, percent-decoded, or NULL; shown to nobody */
    char *password;
    char *shown; /* without query and user info */
    char *region; /* of an object of S3: what requests are signed for; NULL: it is none (s3.h) */
};

/* Checks and splits |s|: scheme http or https, a plain host name or [IPv6], a port in
 * 1–65535, no control characters. Spaces and bytes above 0x7e in path and query are
 * percent-encoded, and a % in the path without two hexadecimal digits. User info is taken on https only.
 * Returns 0, or XH_E_INVAL (the text says what is wrong), or XH_E_NOMEM.
 * Owns: the caller unrefs |*out|. Threads: any. Source: RFC 3986, section 3. */
int xh_url_parse(const char *s, struct xh_url **out, struct xh_err *err);

/* Resolves a Location header's value against the URL that it was the reply to.
 * Refuses what xh_url_parse refuses, user info, and https -> http (XH_E_PROTO).
 * Source: RFC 3986, section 5.2. */
int xh_url_resolve(const struct xh_url *base, const char *location, struct xh_url **out, struct xh_err *err);

/* "user:password@host:port", taken apart, in place. */
struct xh_authority {
    const char *user_info; /* NULL: none */
    size_t user_info_len;
    const char *host; /* brackets of IPv6 included */
    size_t host_len;
    unsigned port;
};

/* Takes apart what stands at |s| up to the first of "/?#" or the end. Returns NULL, or what is wrong with it: a static
 * text that shows nothing of it. Pure. */
const char *xh_url_authority(const char *s, unsigned default_port, struct xh_authority *out);

/* Copies name and password out of |info|, percent-decoded. Returns 0, or -1 without memory or with a control character
 * in one. Owns: the caller frees both, also after a failure. */
int xh_url_login(const char *info, size_t len, char **user, char **password);

/* The host's name of |url|, which has a scheme, and all that follows it. */
static inline const char *xh_url_host(const char *url)
{
    return strstr(url, "://") + 3;
}

/* Copies the host's name alone: an address without its brackets. What does not fit is cut off. */
void xh_url_host_name(const struct xh_url *u, char *out, size_t size);

/* 1 when scheme, host and port are the same: the only place a credential may go to. */
int xh_url_same_server(const struct xh_url *a, const struct xh_url *b);

/* The same for those that are, most likely another for others. */
uint64_t xh_url_server_hash(const struct xh_url *u);

/* 1 when |u| ends as a directory's URL does: servers send to that whoever asks for the directory without the slash. */
int xh_url_is_directory(const struct xh_url *u);

/* 1 when |u| is most likely one of THREDDS' or Hyrax' OPeNDAP service, which serves no files. */
int xh_url_is_opendap(const struct xh_url *u);

struct xh_url *xh_url_ref(struct xh_url *u); /* NULL allowed */
void xh_url_unref(struct xh_url *u);         /* NULL allowed */

#endif
