/* The caller: on whose behalf a URL is asked, and what of it a server is shown. Found once, when a URL is opened;
 * reading, writing and the tool go by the same rules. */
#ifndef XH_CALLER_H
#define XH_CALLER_H

#include "auth.h"
#include "login.h"
#include "proxy.h"
#include "session.h"
#include "url.h"
#include "net.h"

/* Constant once found, but for |token|, which its owner may renew. */
struct xh_caller {
    const struct xh_options *o;
    const struct xh_url *url; /* as the user wrote it; its user and password are the login */
    const char *login;        /* where the login is from, for errors; static */
    struct xh_trust trust;    /* of http, which may lead to https, maybe none: the note says why */
    struct xh_token *token;   /* NULL over http */
    struct xh_cert cert;
    struct xh_proxies proxies;
    struct xh_logins logins;     /* for hosts of login_hosts; none where this URL gets no credentials */
    int foreign;                 /* a file names the URL, and it is at another server than that file */
    char identity[65];           /* a hash of what this user is known by, certificates apart */
    struct xh_session *session;  /* the cookies of that user; NULL: none are kept for this URL */
};

/* Makes |*out| of the name |name| of a file: a URL, or "s3://bucket/key", which stands for one. |region| of those that
 * are of S3 by |o| is set. Returns as xh_url_parse, and XH_E_INVAL for what S3's settings hold. Owns: the caller unrefs
 * |*out|. May read small files. Threads: the program's own, unless o->env is held. */
int xh_caller_url(const char *name, const struct xh_options *o, struct xh_url **out, struct xh_err *err);

/* Makes |*out| of the URL that lists what is below |name|, "s3://bucket/prefix/", from |token| on (see s3.h); NULL: of
 * |name| itself, as xh_caller_url. Else as that. */
int xh_caller_list_url(const char *name, const char *token, const struct xh_options *o, struct xh_url **out,
                       struct xh_err *err);

/* Finds the CAs, the proxies and, over https, the credentials for |url|; a login of the netrc file is set in |url|. |o|
 * and |url| outlive it.
 * Returns 0, or XH_E_NET (the option offline), XH_E_TLS (no CAs, over https), XH_E_INVAL (a proxy that cannot be used),
 * XH_E_ACCES (the netrc file), XH_E_NOMEM. Owns: the caller frees |c| in any case. Reads small files. Threads: the
 * program's own, unless o->env is held. */
int xh_caller_find(struct xh_caller *c, const struct xh_options *o, struct xh_url *url, struct xh_err *err);
void xh_caller_free(struct xh_caller *c); /* zeroed ones allowed */

/* 1 when token and certificate may go to |u|: over TLS, to the server that the user named or to one that is listed. */
int xh_caller_trusts(const struct xh_caller *c, const struct xh_url *u);

/* Looks for the token again that |old| (NULL allowed) was, as xh_token_again. Returns FOUND when it is another one,
 * SOON, or NOTHING when it is not or cannot be read. |*found| is what is to be used from now on, or NULL: |old|. Owns:
 * the caller unrefs |*found|. May read a small file. */
enum xh_again xh_caller_renew(const struct xh_token *old, uint64_t since_ns, struct xh_token **found);

/* The login for |u|, to which a redirect led that began at the caller's URL; NULL: it is no login host, or there is
 * none for it. */
const struct xh_login *xh_caller_login(const struct xh_caller *c, const struct xh_url *u);

/* 1 when cookies are sent to |u|, and kept of it: over TLS, for a URL that gets the user's credentials. A target that
 * carries an authorisation of its own gets none. */
int xh_caller_keeps_cookies(const struct xh_caller *c, const struct xh_url *u);

/* Sets in |s| where a request for |u| goes, by which proxy, which CAs it trusts, how long its connection may take, and
 * which credentials go with it: |t| is the token (NULL allowed). A credential goes over TLS alone, to the server that
 * the user named; token and certificate also to those that are listed; whatever a redirect says. A URL that is a ticket
 * itself gets no Authorization beside it. |s| is valid as long as |c|, |t| and |u| are. */
void xh_caller_send(const struct xh_caller *c, const struct xh_token *t, const struct xh_url *u, struct xh_send *s);

#endif
