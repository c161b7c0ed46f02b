/* Logins by redirect: a server sends its reader to a login host, which knows the user by a password and sends back to
 * the server, which then sets a cookie. Here: which hosts those are, and which passwords there are for them. */
#ifndef XH_LOGIN_H
#define XH_LOGIN_H

#include <stddef.h>

#include "base/env.h"
#include "base/err.h"

struct xh_login {
    char *server; /* xh_url's "https://host:port" */
    char *user, *password;
};

/* Constant once found. */
struct xh_logins {
    struct xh_login *of;
    size_t n;
};

/* 1 when |server| (xh_url's) is in |hosts|, the option login_hosts: names, which mean port 443, or name:port, separated
 * by blanks or semicolons. No domains: a password is at stake. Pure. */
int xh_login_is_host(const char *hosts, const char *server);

/* Finds what the netrc file has for |hosts|; an entry "default" counts for none of them.
 * Returns 0, or XH_E_INVAL (|hosts| makes no sense), XH_E_ACCES (the netrc file) or XH_E_NOMEM. Owns: the caller frees
 * them, also after a failure. Reads a small file for each host. Threads: as xh_netrc_find. */
int xh_logins_find(const struct xh_env *env, const char *hosts, struct xh_logins *out, struct xh_err *err);
void xh_logins_free(struct xh_logins *l); /* zeroed ones allowed */

/* The login for |server|, or NULL. */
const struct xh_login *xh_logins_for(const struct xh_logins *l, const char *server);

/* What the query of |url| says went wrong, as RFC 6749, 4.1.2.1 has it: one of its words (static), or NULL. Pure. */
const char *xh_login_error(const char *url);

/* 1 when |server| is one of NASA's Earthdata, the only ones that EARTHDATA_TOKEN goes to. Pure. */
int xh_login_is_earthdata(const char *server);

#endif
