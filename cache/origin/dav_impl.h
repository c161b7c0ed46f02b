/* Writing at the origin: what its files share. For dav*.c alone. */
#ifndef XH_DAV_IMPL_H
#define XH_DAV_IMPL_H

#include <stdatomic.h>

#include "base/interrupt.h"
#include "caller.h"
#include "dav.h"
#include "client.h"
#include "response.h"

struct xh_dav {
    struct xh_options o;
    struct xh_url *url;
    struct xh_caller caller;
    struct xh_client *client;
    struct xh_client *quick; /* the connection of xh_dav_exchange, or NULL */
    struct xh_counters *counters; /* both or none */
    struct xh_account *account;
    int by_propfind; /* HEAD does not tell the version here */
    int redirected;  /* the server has sent a request elsewhere */
    int elsewhere;   /* to another server */
    int makes_dirs;  /* it says that it is an XRootD: its PUT makes directories */
    int answered;    /* it has answered once, whatever */
    int lost;        /* the last request had no connection */
    _Atomic int gives_up; /* relaxed: a tick late is soon enough */
    /* Of the request at hand: */
    struct xh_reply reply;
    const struct xh_dav_source *source;
    uint64_t sent, told;    /* bytes of |source| */
    struct xh_err source_err;
    struct xh_wait wait;    /* while |source| is sent, its caller may be interrupted */
    char *body;             /* where the reply's body goes */
    size_t body_room, body_len;
    int body_over;          /* there was more of it */
    uint64_t ignored;       /* bytes of that */
    int words;              /* its body says nothing that must be known */
    uint64_t over_ns;       /* when the reply's head was there */
    char said[XH_WORDS_MOST_BYTES + 1];
};

/* What is asked. */
struct xh_dav_asked {
    const char *method;
    const char *suffix;
    const char *destination; /* MOVE: a suffix */
    int overwrite;
    int depth;               /* PROPFIND */
    const char *range;       /* "a-b" */
    const struct xh_dav_source *source;
    char *body;              /* NULL: kept in |said| */
    size_t room;
    int again;               /* it may be asked again */
    int above;               /* not the file, but the directory in which it lies */
};

/* The header lines of a request, but for credentials. */
struct xh_dav_lines {
    const char *line[8];
    char *destination; /* Owns: the caller frees it */
    char range[64];
};

/* Fills |l| for the request |a| to |to|. Returns 0, or -1 without memory. */
int xh_dav_lines(const struct xh_dav *d, const struct xh_dav_asked *a, const struct xh_url *to, struct xh_dav_lines *l);

/* Makes a client for |d|, which asks by itself or, |silent|, only connects. Returns 0, XH_E_NOMEM or XH_E_SYS. */
int xh_dav_client(struct xh_dav *d, int silent, struct xh_client **out, struct xh_err *err);

/* Waits until |to|'s server need not be left alone any more, and for |d|'s turn where requests go out one by one.
 * Returns 0, or XH_E_SYS: the process is exiting. Blocks. */
int xh_dav_wait(struct xh_dav *d, const struct xh_url *to, struct xh_err *err);

/* Asks, as often as it may be asked again. Returns 0 with the reply in |d|, or a negative code: see dav.h. Blocks. */
int xh_dav_ask(struct xh_dav *d, const struct xh_dav_asked *a, struct xh_err *err);

/* A login page came from |from| in answer to |a|: sets |err| and returns its code. */
int xh_dav_web_page(const struct xh_dav *d, const struct xh_dav_asked *a, const struct xh_url *from,
                    struct xh_err *err);

/* Version and date from the reply to HEAD. Returns 1 when it has both. */
int xh_dav_from_head(const struct xh_reply *r, struct xh_dav_stat *out);

#endif
