/* Credentials and trust: which token, which client certificate, which password, which CAs,
 * to whom they may go, and how to say where each came from without showing it. */
#ifndef XH_AUTH_H
#define XH_AUTH_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/env.h"
#include "base/err.h"
#include "base/options.h"

#define XH_TOKEN_MAX_BYTES 65536u
#define XH_AUTH_PATH_BYTES 1024
#define XH_TOKEN_EARLY_S 60 /* how long before its end a token, or a key, is looked for anew */
/* For so long a failure to log in, or to get a key, is the answer for others: many files want the same, and a user who
 * is asked to approve something is not asked again meanwhile. */
#define XH_FAILURE_LASTS_NS UINT64_C(10000000000)

struct xh_s3_keys;

/* A bearer token, or a key of S3, or the knowledge that there is none. Constant once made. */
struct xh_token {
    atomic_int refs;
    char *value;    /* NULL: no token. Of a key all of it in one text, to be compared: it is sent nowhere */
    struct xh_s3_keys *s3; /* NULL: it is no key of S3 */
    long long expires; /* a JWT's "exp", seconds since 1970; 0: it does not say */
    char *file;     /* where it came from, to be read again; NULL: from the environment, or from nowhere */
    const char *source; /* of |file|, for the note; static */
    int named;      /* the user pointed at |file| */
    int earthdata;  /* it is for NASA's Earthdata alone */
    char note[512]; /* "the token of BEARER_TOKEN_FILE (/path)", or where none was found; never the value */
};

/* A token without a value, to be filled. NULL without memory. */
struct xh_token *xh_token_new(void);

/* Appends to its note, behind "; " where that says something already. */
void xh_token_note(struct xh_token *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Looks for a token: $BEARER_TOKEN, $BEARER_TOKEN_FILE, $XDG_RUNTIME_DIR/bt_u<uid>,
 * /tmp/bt_u<uid>; the first that is set decides. A file must be regular, at most 64 KiB,
 * and this user's (one named by BEARER_TOKEN_FILE may be root's). What is found but
 * unusable is no token, and the note says why; of a text that is none a line on standard error tells too, once.
 * |env|: of the opening, see env.h.
 * Returns 0, or XH_E_NOMEM. Owns: the caller unrefs |*out|. Reads a small file.
 * Source: WLCG Bearer Token Discovery 1.0; RFC 6750, 2.1. */
int xh_token_find(const struct xh_env *env, struct xh_token **out, struct xh_err *err);

/* The token of $EARTHDATA_TOKEN, if that is set and |server| is one of NASA's Earthdata (login.h): there it stands for
 * the others. Returns 1 with |*out|, 0, or XH_E_NOMEM. Owns: as xh_token_find.
 * Source: NASA's pages on Earthdata Login's user tokens. */
int xh_token_of_earthdata(const struct xh_env *env, const char *server, struct xh_token **out, struct xh_err *err);

/* What comes of looking for a token again. */
enum xh_again {
    XH_AGAIN_NOTHING, /* there is nowhere to look */
    XH_AGAIN_FOUND,   /* a token, which may hold no value, and may be the same */
    XH_AGAIN_SOON,    /* another thread looks: ask again in a moment. It takes minutes at most */
};

/* Looks again where |old| (NULL allowed) came from; the environment, which belongs to the program's threads, it does
 * not touch. A file is read at once. Of a key of S3, what a look found that began at |since_ns| (base/now.h) or later
 * is handed out; else SOON. FOUND sets |*out|, which the caller unrefs. Threads: any. Does not block but for a small
 * file. */
enum xh_again xh_token_again(const struct xh_token *old, uint64_t since_ns, struct xh_token **out);

/* Says what a JWT tells of itself and a refusal may come from: " (it expired at …)" when that is before |now|, else
 * " (its audience is "…", its scope "…")"; "" when it tells nothing. */
void xh_token_describe(const struct xh_token *t, long long now, char *out, size_t size);

struct xh_token *xh_token_ref(struct xh_token *t); /* NULL allowed */
void xh_token_unref(struct xh_token *t);           /* NULL allowed */

/* The client certificate: $X509_USER_PROXY, else $X509_USER_CERT with $X509_USER_KEY, else
 * /tmp/x509up_u<uid>: files that are regular and ours, the key's not open to others and without
 * a passphrase, the certificate not expired. The first that is set decides. */
struct xh_cert {
    char path[XH_AUTH_PATH_BYTES]; /* PEM; "": none */
    char key[XH_AUTH_PATH_BYTES];  /* the same file for a proxy */
    char note[512];                /* why one that exists is not used, or "" */
};
void xh_cert_find(const struct xh_env *env, struct xh_cert *out);

/* A login of ~/.netrc or of the file $NETRC, for |host| (no port; a name, or an address without
 * brackets); with |defaults| also that of its entry "default". The file must be ours and closed to others.
 * Returns 1 with |*user| and |*password|, 0 when there is none for |host|, XH_E_ACCES when the
 * file cannot be used, or XH_E_NOMEM. Owns: the caller frees both. Reads a small file.
 * Source: ftp(1), "THE .netrc FILE"; curl's quoted values. */
int xh_netrc_find(const struct xh_env *env, const char *host, int defaults, char **user, char **password,
                  struct xh_err *err);

/* 1 when |server| (xh_url's "https://host:port") is in |hosts|: "name", "name:port" or ".domain", separated by
 * blanks or semicolons. */
int xh_auth_listed(const char *hosts, const char *server);

/* 1 when token and certificate may go to |u|, for a file that was named as |named| and is opened with |o|: over TLS, to
 * that server or to one of the option credential_hosts. Where a file named it, to that server only when it is the one
 * that o->namer admits: a file must not send its reader's credentials to whom it likes. */
struct xh_url;
int xh_auth_trusts(const struct xh_options *o, const struct xh_url *named, const struct xh_url *u);

/* What is said of a refusal, and of the file that named the URL, where credentials were kept back for that. */
#define XH_AUTH_WITHHELD                                                                                           \
    "%s: no token, certificate or password is sent there, as not the program but the file %.120s names this URL. " \
    "If the server may have them, name its host in XHDF5_CREDENTIAL_HOSTS"

/* The CAs that TLS trusts. At least one of the paths is set. */
struct xh_trust {
    char file[XH_AUTH_PATH_BYTES]; /* PEM bundle, or "" */
    char dir[XH_AUTH_PATH_BYTES];  /* directory by hash, or "" */
    char note[1200];               /* "/path (from SSL_CERT_FILE)" */
};

/* Chooses, in this order: option ca_bundle, $CURL_CA_BUNDLE, $SSL_CERT_FILE, option ca_dir,
 * $X509_CERT_DIR, |default_file| and |default_dir| (libcurl's; NULL allowed), the
 * well-known places, certifi where we are part of a Python package. Options given both are used both.
 * Returns 0, or XH_E_TLS when a named one cannot be read, or when there is none at all. */
int xh_trust_find(const struct xh_options *o, const char *default_file, const char *default_dir,
                  struct xh_trust *out, struct xh_err *err);

/* Writes a hash of what an origin knows a reader by (|u|, which may carry a signature, and the region that it is signed
 * for; token, what is in certificate and key, |session|'s identity), and of whom he trusts; |withheld|: 1 when the
 * origin is shown neither token nor certificate. An "s3://" name stands for different |u| where profiles name different
 * endpoints. Returns 1, or 0: it cannot be told. */
int xh_auth_reader(const struct xh_url *u, const struct xh_token *t, const struct xh_cert *c, const char *session,
                   const struct xh_trust *trust, int withheld, char hex[65]);

/* ---- for the files of auth alone */

/* Reads the file |path| of at most 1 MiB without waiting for a FIFO's writer, and checks type and owner; |named|: the
 * user pointed at it, so it may be a link, or root's; |private_|: other users must have no access. Returns its text,
 * with a NUL behind it, and sets |*len|; NULL: |*why|, and errno of the opening. Owns: the caller wipes and frees
 * it. */
char *xh_auth_read(const char *path, int named, int private_, size_t *len, const char **why);

#endif
