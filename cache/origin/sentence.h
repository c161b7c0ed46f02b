/* What a verdict says when it ends a request: what was asked, what came, what the user can do. Pure. No sentence shows
 * a token, a password or a query. */
#ifndef XH_SENTENCE_H
#define XH_SENTENCE_H

#include "attempt.h"

/* Sets |err|: "URL: …", or "URL (sent on to URL): …". Each returns |code|. */
__attribute__((format(printf, 5, 6))) int xh_sentence(const struct xh_attempt *a, struct xh_err *err, int code,
                                                      int status, const char *fmt, ...);

/* 401 or 403: what was sent, and what may have been wrong with it. */
int xh_sentence_refused(const struct xh_attempt *a, struct xh_err *err);

/* A web page in place of the file. */
int xh_sentence_page(const struct xh_attempt *a, struct xh_err *err);

/* Sends its reader on to |to|, to log in, for which there is no login. */
int xh_sentence_no_login(const struct xh_attempt *a, const struct xh_url *to, struct xh_err *err);

/* Why a login failed, without the URL before it. The first: what the login host answers, but for redirects; returns 1
 * when it says that the application is to be approved. The second: to |to| again, right after a login. The third: what
 * the server answers to what comes from there. */
int xh_sentence_login(const struct xh_attempt *a, char why[XH_LOGIN_WHY_BYTES]);
void xh_sentence_login_again(const struct xh_url *to, char why[XH_LOGIN_WHY_BYTES]);
void xh_sentence_login_back(const struct xh_attempt *a, char why[XH_LOGIN_WHY_BYTES]);

/* 200 without a length and without a byte. */
int xh_sentence_nothing(const struct xh_attempt *a, struct xh_err *err);

#define XH_CAME_BYTES 160u /* longest xh_sentence_came, with its NUL */
/* Writes what a reply's body is by its headers: its type, or that it has none, and how it is packed. Returns |out|. */
const char *xh_sentence_came(const struct xh_reply *r, char *out, size_t size);

/* The reply's status is none that a read can use, and none that passes. */
int xh_sentence_unusable(const struct xh_attempt *a, struct xh_err *err);

/* The network failed; |advice| is xh_tls_advice's, or NULL. Of a proxy's refusal xh_proxy_refused tells. */
int xh_sentence_net(const struct xh_attempt *a, const char *advice, struct xh_err *err);

#endif
