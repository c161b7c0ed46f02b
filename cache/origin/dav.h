/* Writing at the origin: PUT, MOVE, MKCOL, DELETE, and the questions that go with them. One request at a time, on
 * the caller's thread; reading's engine knows nothing of it.
 *
 * A client belongs to one URL over https. Names are that URL with |suffix| behind it: "" is the file itself,
 * ".xhdf5-lock/" something beside it. Credentials go where they go in reading: to that server, to those that the user
 * listed, over TLS alone.
 * Threads: one at a time for each client. Source: RFC 9110, RFC 4918. */
#ifndef XH_DAV_H
#define XH_DAV_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "watch/account.h"
#include "base/options.h"
#include "dialect.h"

struct xh_dav;

/* Blocks for nothing but small files. Returns 0, or XH_E_INVAL (no https, or a query in the URL), XH_E_TLS (no CAs),
 * XH_E_NOMEM, XH_E_SYS.
 * Owns: the caller closes |*out|. */
int xh_dav_open(const char *url, const struct xh_options *o, struct xh_dav **out, struct xh_err *err);
void xh_dav_close(struct xh_dav *d); /* NULL allowed */

/* Its requests are counted on |c|, and their time is charged to |a|: on the thread that asks, beside whatever else it
 * is charged for. Both outlive the client. Without a call nothing is counted. */
void xh_dav_count(struct xh_dav *d, struct xh_counters *c, struct xh_account *a);
struct xh_account *xh_dav_account(const struct xh_dav *d); /* |a|, or NULL */

/* What |from| has learned of the server, for another client of the same URL. */
void xh_dav_learn(struct xh_dav *d, const struct xh_dav *from);

/* With |gives_up| what |d| sends, now on another thread or later, is interrupted; without it no more. Threads: any. */
void xh_dav_give_up(struct xh_dav *d, int gives_up);

const char *xh_dav_shown(const struct xh_dav *d); /* the URL as it may be shown */
const char *xh_dav_text(const struct xh_dav *d);  /* without user name and password */

/* Sets |err|, and returns its code: the URL names a directory. |status|: of the reply that told it, or 0. */
int xh_dav_is_directory(const struct xh_dav *d, int status, struct xh_err *err);

/* What the server says of a name. */
struct xh_dav_stat {
    int there;
    int directory;       /* 1: PROPFIND told that it is one */
    uint64_t size;
    long long mtime_s;   /* by the server's clock, seconds since 1970; 0: it does not say */
    char validator[XH_VALIDATOR_TEXT_BYTES]; /* as xh_cache_validator has it */
};

/* 1 when two validators tell one version, or both are "": there is no file. */
int xh_dav_is_same(const char *a, const char *b);

/* Every function below returns 0 or a negative code with |err| set, and its status where the server gave one:
 * XH_E_NOENT (404), XH_E_ACCES (401, 403), XH_E_NOSPACE (413, 507), XH_E_STATUS (others), XH_E_NET, XH_E_TIMEOUT,
 * XH_E_TLS, XH_E_SYS (the process is exiting). All block. Those that may be asked twice are asked again when the
 * network fails, as often as the option retries says; put and move are not. */

/* A name that is not there is no failure. */
int xh_dav_stat(struct xh_dav *d, const char *suffix, struct xh_dav_stat *out, struct xh_err *err);

/* The whole of a small file: at most |size| bytes, |*len| of them came. */
int xh_dav_get(struct xh_dav *d, const char *suffix, char *buf, size_t size, size_t *len, struct xh_err *err);

/* Exactly the bytes [off, off + len). */
int xh_dav_get_range(struct xh_dav *d, const char *suffix, uint64_t off, char *buf, size_t len, struct xh_err *err);

/* Where the bytes of a PUT come from: |read| fills |buf| from |off| on with |len| > 0 bytes, and returns |len|, or a
 * negative code with |err| set: shorter pieces would be shorter TLS records, and XRootD waits for ever where the last
 * one lies across a MiB (docs/upstream.md). |tick|, unless it is NULL, is called at least every second or so until the
 * reply is there, also while nothing moves. Both may use other clients meanwhile, never this one. */
struct xh_dav_source {
    uint64_t size;
    ptrdiff_t (*read)(void *ctx, uint64_t off, char *buf, size_t len, struct xh_err *err);
    void (*tick)(void *ctx);
    void *ctx;
};

/* Never with Content-Range: XRootD would replace the file by the fragment. */
int xh_dav_put(struct xh_dav *d, const char *suffix, const struct xh_dav_source *s, struct xh_err *err);
int xh_dav_put_text(struct xh_dav *d, const char *suffix, const char *text, struct xh_err *err);

/* Directories' names end in '/'. Without |overwrite| a server may refuse, or replace a file all the same (XRootD); a
 * directory that is not empty is replaced by none. */
int xh_dav_move(struct xh_dav *d, const char *from, const char *to, int overwrite, struct xh_err *err);
int xh_dav_moves(int status); /* 1 when a reply to MOVE with this status says that it was done */
int xh_dav_mkcol(struct xh_dav *d, const char *suffix, struct xh_err *err);
int xh_dav_delete(struct xh_dav *d, const char *suffix); /* one that is not there is deleted. Why not, nobody asks */

/* Opens the connection that the next function needs, or asks whether it still is there. Returns 1 when this server
 * takes several requests as one piece (see piece.h), as far as is known: nginx, not XRootD. */
int xh_dav_begin_quick(struct xh_dav *d);
void xh_dav_end_quick(struct xh_dav *d);

/* Moves the file to |aside|, and |from| to the file's name, neither over anything that is there, in one piece; then
 * looks at both: |was| is what lies at |aside|, |now| at the file's name. |placed| is the status of the reply to the
 * move of |from|: where that was done, a cache may still show another file there. Returns 0, or -1: that is not known.
 * Behind xh_dav_begin_quick; SIGPIPE is to be blocked. */
int xh_dav_exchange(struct xh_dav *d, const char *from, const char *aside, struct xh_dav_stat *was,
                    struct xh_dav_stat *now, int *placed);

/* 1 when put makes the directories of a name, as far as is known (XRootD; not nginx). */
int xh_dav_makes_dirs(const struct xh_dav *d);

/* 1 when the server has sent a request to another one. Requests that change something do not follow it there
 * (XH_E_INVAL). */
int xh_dav_is_elsewhere(const struct xh_dav *d);

/* 1 when a file named the URL, and credentials do not go to its server: nothing is to be changed there. */
int xh_dav_is_foreign(const struct xh_dav *d);

/* 1 when its last connection is open: the next request needs no handshake, unless the server hangs up meanwhile. */
int xh_dav_is_warm(const struct xh_dav *d);

/* Opens a connection, and learns whose it is: by asking for the directory of the file, which the redirector of a
 * cluster answers by sending the client to a data server, also where the file is not there yet. What else the answer
 * says does not matter. */
void xh_dav_greet(struct xh_dav *d);

/* 1 when delete removes a directory with what is in it, as far as is known (nginx; not XRootD). */
int xh_dav_removes_trees(const struct xh_dav *d);

#endif
