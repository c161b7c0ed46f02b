/* Sessions: what logins by redirect left in this process, for one user each: the cookies of each server, who logs in
 * just now, and what failed. They are in memory alone, and last as long as the process; a fork's child has its copy.
 *
 * One login serves all: while a request is on its way through a login, others that were sent there too wait for what
 * comes of it. Threads: any; a lock of its own, a leaf. */
#ifndef XH_SESSION_H
#define XH_SESSION_H

#include "cookies.h"

struct xh_session;

#define XH_LOGIN_WHY_BYTES 400

/* What became of a login. */
enum xh_login_end {
    XH_LOGIN_NONE,    /* nothing is known of it yet, or it did not get so far */
    XH_LOGIN_GOOD,    /* the server took what came of it */
    XH_LOGIN_BAD,     /* not: others need not try for ten seconds */
    XH_LOGIN_REFUSED, /* the login host took not even the password: nor for a minute, at any server that sends there */
};

/* How many logins at a server were over when a request was sent there. */
struct xh_login_seen {
    unsigned good, ended; /* by XH_LOGIN_GOOD; otherwise */
};

enum xh_login_turn {
    XH_LOGIN_GO,     /* log in, and call xh_session_over once */
    XH_LOGIN_WAIT,   /* another request does: ask again soon */
    XH_LOGIN_DONE,   /* another one has since: ask the server again */
    XH_LOGIN_FAILED, /* another one has tried in vain: |why| says how */
};

struct xh_login_failure {
    enum xh_login_end end; /* NONE: trying again may help */
    int code, status;      /* of its error */
    char why[XH_LOGIN_WHY_BYTES];
};

/* The session of the user that |identity| stands for, or NULL without memory. It is never freed. */
struct xh_session *xh_session_of(const char identity[65]);

/* The cookies that a request to |server| goes out with: the session's, with those of the request's own |chain| behind
 * them. Returns a text for struct xh_send, "" when there are none, or NULL without memory. Owns: as
 * xh_cookies_changes. */
char *xh_session_cookies(struct xh_session *s, const struct xh_jar *chain, const char *server);

/* The session takes what |chain| has. */
void xh_session_take(struct xh_session *s, const struct xh_jar *chain);

/* Forgets the cookies of |server|, if nobody has logged in for |first| within the last minute: those are not the fault.
 * Returns 1 when there were any. */
int xh_session_doubt(struct xh_session *s, const char *first, const char *server);

/* What is known now of logins at |first|, the server that the user named. */
struct xh_login_seen xh_session_seen(struct xh_session *s, const char *first);

/* A request for |first|, sent when |seen| was so, is to go to |login|: whose turn is it? FAILED fills |why|. */
enum xh_login_turn xh_session_turn(struct xh_session *s, const char *first, const char *login,
                                   struct xh_login_seen seen, struct xh_login_failure *why);

/* After GO: it ended so; |why| unless it was good. NULL: its request was given up. */
void xh_session_over(struct xh_session *s, const char *first, const char *login, enum xh_login_end end,
                     const struct xh_login_failure *why);

/* The same for a fork's child: those who logged in are not here. */
void xh_session_after_fork(void);

#endif
