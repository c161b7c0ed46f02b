/* Proxies: which one a request goes through, said without its user info, and how one that refuses is treated. */
#ifndef XH_PROXY_H
#define XH_PROXY_H

#include "base/env.h"
#include "base/err.h"
#include "url.h"

/* One proxy. Constant once read. */
struct xh_proxy {
    char *text;           /* "scheme://host:port" for libcurl, without user info; "": none */
    char *user, *password; /* percent-decoded, or NULL; shown to nobody */
    const char *from;     /* the variable that named it; static */
    const char *why;      /* what is wrong with it, static; NULL: nothing */
    uint64_t key;         /* of proxy, user and password, for xh_proxy_turn */
};

struct xh_proxies {
    struct xh_proxy of[2]; /* of http, of https */
    char *except;          /* no_proxy's list; never NULL */
};

/* Reads |env| by curl's rules: http_proxy, or https_proxy, HTTPS_PROXY, else all_proxy, ALL_PROXY; no_proxy, NO_PROXY.
 * (HTTP_PROXY is what a web server sets from a request's header.) A value that cannot be used is no failure here: see
 * xh_proxy_check. Returns 0 or XH_E_NOMEM. Owns: the caller frees them, also after a failure. */
int xh_proxies_read(struct xh_proxies *out, const struct xh_env *env, struct xh_err *err);
void xh_proxies_free(struct xh_proxies *p); /* zeroed ones allowed */

/* The proxy that stands before |u|, or NULL: none, or no_proxy names its host. */
const struct xh_proxy *xh_proxy_for(const struct xh_proxies *p, const struct xh_url *u);

/* Returns 0, or XH_E_INVAL when |u| is to be asked through a proxy that cannot be used; the text says why, and not
 * what it is. */
int xh_proxy_check(const struct xh_proxies *p, const struct xh_url *u, struct xh_err *err);

/* Where |from| sends a request on to by |location|: xh_url_resolve, and the check of its proxy. Returns 0, or a
 * negative code. Owns: the caller unrefs |*to|. */
int xh_proxy_follow(const struct xh_proxies *p, const struct xh_url *from, const char *location, struct xh_url **to,
                    struct xh_err *err);

/* 1 when |list| (no_proxy's: names, .domains, addresses, nets as 10.0.0.0/8; or *) has |host|, which has no port and
 * no brackets. Pure. Source: curl(1), NO_PROXY. */
int xh_proxy_excepts(const char *list, const char *host);

/* 1 when |p|, NULL or not, only connects: what answers a request is the server. Else it does so for https alone. */
int xh_proxy_is_socks(const struct xh_proxy *p);

/* What a proxy that answered CONNECT with |status| (or 407 to a request for http; SOCKS as CONNECT would) means: sets
 * |err| and returns 1 when trying again helps nobody, 0 when it may. */
int xh_proxy_refused(const struct xh_proxy *p, const struct xh_url *u, int status, struct xh_err *err);

/* A name and password that a proxy refuses lock an account after some tries. So the first connection with them is
 * opened alone, and what was refused is not tried again for a minute. Nor is a server that the proxy forbids: some
 * proxies count these tries too. */
enum xh_proxy_turn {
    XH_PROXY_GO,      /* open: the caller says what came of it, by xh_proxy_heard */
    XH_PROXY_FREE,    /* the proxy has taken them before, or wants none */
    XH_PROXY_WAIT,    /* somebody else finds out: ask again soon */
    XH_PROXY_REFUSED, /* 407 was the answer */
    XH_PROXY_FORBIDDEN, /* 403 was the answer, to a connection to this server */
};

/* Whether |u| may be asked for through |p|, which may be NULL: no proxy. Threads: any; takes a lock of its own, a
 * leaf. */
enum xh_proxy_turn xh_proxy_turn(const struct xh_proxy *p, const struct xh_url *u);

/* What |p|, which may be NULL, did with a request for |u| that had |turn|: |status| is 407 or 403 where it refused, 200
 * where it let it through, else nothing is known. A 407 counts without GO, too: the login was good once.
 * Threads: any. */
void xh_proxy_heard(const struct xh_proxy *p, const struct xh_url *u, enum xh_proxy_turn turn, int status);

/* The same for a fork's child. */
void xh_proxy_after_fork(void);

#endif
