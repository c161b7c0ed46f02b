/* Credentials and trust: which token, which client certificate, which CAs, and how to
 * say where each came from without showing it. */
#ifndef XH_AUTH_H
#define XH_AUTH_H

#include <stdatomic.h>

#include "../err.h"
#include "../options.h"

#define XH_TOKEN_MAX_BYTES 65536u
#define XH_AUTH_PATH_BYTES 1024

/* A bearer token, or the knowledge that there is none. Constant once made. */
struct xh_token {
    atomic_int refs;
    char *value;    /* NULL: no token */
    char note[512]; /* "the token of BEARER_TOKEN_FILE (/path)", or where none was found; never the value */
};

/* Looks for a token: $BEARER_TOKEN, $BEARER_TOKEN_FILE, $XDG_RUNTIME_DIR/bt_u<uid>,
 * /tmp/bt_u<uid>; the first that is set decides. A file must be regular, at most 64 KiB,
 * and this user's (one named by BEARER_TOKEN_FILE may be root's). What is found but
 * unusable is no token, and the note says why.
 * Returns 0, or XH_E_NOMEM. Owns: the caller unrefs |*out|. Reads a small file.
 * Source: WLCG Bearer Token Discovery 1.0; RFC 6750, 2.1. */
int xh_token_find(struct xh_token **out, struct xh_err *err);

/* When the token is a JWT with an "exp", writes " (it expired at …)" if that is past
 * |now|, else "". */
void xh_token_expiry(const struct xh_token *t, long long now, char *out, size_t size);

struct xh_token *xh_token_ref(struct xh_token *t); /* NULL allowed */
void xh_token_unref(struct xh_token *t);           /* NULL allowed */

/* The X.509 proxy: $X509_USER_PROXY, else /tmp/x509up_u<uid>: regular, ours, not open to
 * others, not expired. */
struct xh_proxy {
    char path[XH_AUTH_PATH_BYTES]; /* "": none */
    char note[256];                /* why one that exists is not used, or "" */
};
void xh_proxy_find(struct xh_proxy *out);

/* The CAs that TLS trusts. At least one of the paths is set. */
struct xh_trust {
    char file[XH_AUTH_PATH_BYTES]; /* PEM bundle, or "" */
    char dir[XH_AUTH_PATH_BYTES];  /* directory by hash, or "" */
    char note[1200];               /* "/path (from SSL_CERT_FILE)" */
};

/* Chooses, in this order: option ca_bundle, $CURL_CA_BUNDLE, $SSL_CERT_FILE, option ca_dir,
 * $X509_CERT_DIR, |default_file| and |default_dir| (libcurl's; NULL allowed), the
 * well-known places. Options given both are used both.
 * Returns 0, or XH_E_TLS when a named one cannot be read, or when there is none at all. */
int xh_trust_find(const struct xh_options *o, const char *default_file, const char *default_dir,
                  struct xh_trust *out, struct xh_err *err);

/* Writes a hash of what an origin knows a reader by, and of whom he trusts. Returns 1, or 0: it cannot be told. */
int xh_auth_reader(const struct xh_token *t, const struct xh_proxy *p, const struct xh_trust *trust, char hex[65]);

#endif
