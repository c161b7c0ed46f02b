/* The origin: one remote object at an http(s) URL, read by range requests.
 *
 * Hides everything of HTTP: dialects of servers, redirects, tokens, TLS, retries,
 * validators. Knows nothing of pages, shadows or HDF5. Runs on engine threads of its
 * own, which never call back into HDF5. Bytes are handed over only after their status,
 * Content-Range, length, total and validator agreed with what was opened. */
#ifndef XH_ORIGIN_H
#define XH_ORIGIN_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/extent.h"
#include "base/options.h"
#include "watch/stats.h"

struct xh_origin;

/* What an attempt that failed must have brought to count as progress: it is no failure in a row then. */
#define XH_PROGRESS_BYTES 65536u

struct xh_origin_info {
    uint64_t size;           /* bytes of the object */
    const char *validator;   /* printable, never empty: "etag:…", "mtime:…;size:…", "size:…" */
    long long changed_s;     /* when it was changed, by the clock that wrote that, since 1970; -1: not told */
    int apart;               /* 1: its server tells its date by PROPFIND alone */
    int fleeting;            /* 1: another opening's same validator does not prove the same bytes */
    int unsettled;           /* 1: it proves them to readers alone, not to who opens the file to write */
    const char *url_shown;   /* without query and user info */
    unsigned max_ranges;     /* most ranges one request may carry now; 1: no multi-range */
    size_t max_range_header; /* most bytes of the Range header's value, at least 64 */
    unsigned connections;    /* how many a long range is spread over now, at least 1 */
    int far;                 /* files side by side have a stream each: xh_control_is_far */
    unsigned allowed;        /* how many all processes together may have now, at least 1 */
    unsigned paying;         /* how many would be, were there no cap; 0: unknown */
    unsigned scattered;      /* how many transfers of small ranges run at once, of speculative ones one fewer; at least
                              * 1 */
    uint64_t rtt_ns;         /* from request to first byte; 0: unknown */
    uint64_t trip_bytes;     /* what one connection brought in that time, of late; 0: unknown */
    uint64_t second_bytes;   /* what all of them brought in a second, of late; 0: unknown */
    uint64_t flight_bytes;   /* what one of those that are there brings in a round trip by now, about */
    int young;               /* 1 while those that are there have not found their speed */
    int in_vain;             /* 1: the last of the server's files that came whole was hardly read */
    int changed;             /* 1: the server was seen to have another version: every request fails */
    unsigned open, idle;     /* connections that are there, and those of them that wait for work, but for young ones
                              * where as many others have found their speed */
    unsigned streaming;      /* how many transfers with |full| the server's streams use together */
    unsigned streams;        /* how many transfers with |full| may be begun now; 0: none */
    int whole;               /* 1: the server sends no parts of it: whatever is asked for, all of it comes */
    unsigned warm;           /* connections that are there and are not, or soon no longer, a stream's */
};

/* What the first request brought. */
struct xh_origin_head {
    uint8_t *bytes; /* [0, len) of the object; NULL when the hint was confirmed. The caller frees it. */
    size_t len;
    int confirmed; /* 1: the hint's version is still the origin's; no body was sent */
    int unverified;     /* 1: the bytes, of one reply, were sent before the validator was known, so maybe of an
                    * older version. What a transfer brings is not; the caller proves them by that. */
};

/* 1 when two URLs have one server: scheme, host and port. Of what is no URL, or cannot be used, 0. */
int xh_origin_have_one_server(const char *url, const char *other);

/* 1 when token and certificate may go to |url|'s own server, by what |o| says: over https, and where a file named
 * |url|, only to a server that o->namer or the option credential_hosts admits. Then |server|, of |size| bytes, is that
 * server as xh_namer has it. */
int xh_origin_trusted(const char *url, const struct xh_options *o, char *server, size_t size);

/* What |url| names, whatever lets its reader in and whichever way leads there: two URLs of the same are kept as one.
 * NULL without memory. Owns: the caller frees it. May read small files; threads as xh_origin_open. */
char *xh_origin_object(const char *url, const struct xh_options *o);

/* Starts the threads, if that was not done yet. To be called by a thread of the program's before any other opens for
 * it: libcurl and its TLS read variables of their own then (SSLKEYLOGFILE, OPENSSL_CONF). Returns 0, SYS or NOMEM.
 * Does not block. */
int xh_origin_ready(const struct xh_options *o, struct xh_err *err);

/* What tells readers with other rights, or another trust, apart: hexadecimal. A token is in it as a hash. */
#define XH_READER_BYTES 65
/* Writes who this process is to |url|'s origin. Returns 1, or 0 and "": not to be told, as with a password. */
int xh_origin_reader(const char *url, const struct xh_options *o, char out[XH_READER_BYTES]);

/* Of who has other ways than one server: then a failure there is not tried again for long, and |ends| is asked every
 * few milliseconds, without a lock; when it says 1, the opening ends at once with CANCELLED. */
struct xh_patience {
    int (*ends)(void *ctx);
    void *ctx;
};

/* Opens |url|: with |hint| (text from xh_origin_hint of an earlier open, untrusted; NULL or
 * "" for none) one cheap request asks whether the version is still the same; else, or when
 * it is not, a GET of the head. Always asks with the caller's own authorisation, unless |vouched|: then the hint's
 * version was asked for on this reader's behalf just now, and is believed.
 * |counters| must outlive the origin. |patience|: NULL where there is no other way.
 * Returns 0 or NOENT, ACCES, NET, TLS, TIMEOUT, PROTO, STATUS, INVAL, NOMEM. Owns: the caller closes it and frees
 * head->bytes. Blocks. */
int xh_origin_open(const char *url, const struct xh_options *o, const char *hint, int vouched,
                   struct xh_counters *counters, const struct xh_patience *patience, struct xh_origin **out,
                   struct xh_origin_head *head, struct xh_err *err);

/* |url|'s server tells files' dates by PROPFIND alone, as was found before (|apart| of xh_origin_info): it is asked for
 * that beside the head from now on. After xh_origin_ready. Does not block. */
void xh_origin_tell_apart(const char *url);

/* Opens |url| as another process of the same job told: |hint| is its xh_origin_hint after it had
 * opened, a fact and no question, so nothing is sent. A version that is gone shows in the first transfer.
 * Returns 0 or INVAL (|hint| is none), NOMEM, TLS, ACCES (what is found out without the network).
 * Owns: the caller closes it. Does not block. */
int xh_origin_open_told(const char *url, const struct xh_options *o, const char *hint,
                        struct xh_counters *counters, struct xh_origin **out, struct xh_err *err);

/* Current facts; max_ranges may shrink as the server shows its limits. Threads: any. */
void xh_origin_get_info(struct xh_origin *o, struct xh_origin_info *out);

/* |processes| of this machine read the object at once: they share the connections that the option allows. |yields|: one
 * of the others waits for what it wants now, so that speculation here keeps to one connection. */
void xh_origin_share(struct xh_origin *o, unsigned processes, int yields);

/* The object came whole, or would have: little of it was read, or much. */
void xh_origin_came_in_vain(struct xh_origin *o, int vain);

/* So many |files| of this process are read side by side from now on, with the object one of them. */
void xh_origin_beside(struct xh_origin *o, unsigned files);

/* Text of one line, shorter than |size|, for a later xh_origin_open's |hint|: round trip, size, validator,
 * dialect. No secrets. Returns its length, 0 when it does not fit. */
size_t xh_origin_hint(struct xh_origin *o, char *buf, size_t size);

/* Returns |changed_s| of xh_origin_info as |hint| has it; -1: it has none, or is no hint. */
long long xh_origin_hint_changed_s(const char *hint);

/* One transfer: |nranges| sorted, disjoint, non-empty ranges inside the object, fetched by one
 * HTTP request where the dialect allows, by several where not (that is the origin's business).
 * The caller owns the struct and the ranges until done() has returned. */
struct xh_transfer {
    const struct xh_range *ranges;
    size_t nranges;
    int speculative; /* 0: demand, served before everything speculative */
    void *ctx;
    /* Some wanted bytes, verified in place: called on an engine thread, in any order across
     * ranges, ascending within one range; each wanted byte is delivered exactly once before a
     * done() without error. Must not block. |data| is valid during the call only. */
    void (*bytes)(struct xh_transfer *t, uint64_t off, const uint8_t *data, size_t len);
    /* Exactly once, on an engine thread; |err| is NULL on success. After it the origin touches
     * neither the transfer nor anything it points to. Must not block; may submit: what is
     * submitted while the origin closes is cancelled. */
    void (*done)(struct xh_transfer *t, const struct xh_err *err);
    /* NULL, or asked before bytes are taken from the connection: when it says 1 they stay where they
     * are, and the server waits, until xh_origin_resume. Such a transfer may be long; it takes a
     * connection of its own. When its connection breaks while it is full, or is left to others, the rest is asked for
     * at xh_origin_resume. Called on an engine thread, without a lock; must not block; may submit, and cancel, also
     * |t|. */
    int (*full)(struct xh_transfer *t);
    int goes_on;                 /* 1: full() never says 1: it is hedged as what has none */
    int patient;                 /* 1: one with |full| waits for a connection that is there, and as fast as others,
                                  * behind what was asked for before */
    int last;                    /* 1: a patient one may have the connection that is left for what cannot wait */
    _Atomic int hasty;           /* 1: a failure is tried again once, soon: there are other ways to the bytes. Relaxed:
                                  * it may change while the transfer is under way */
    void *origin_private;        /* for origin/ alone; NULL before submit */
    struct xh_transfer *link;    /* for origin/ alone */
};

/* Queues transfers; never blocks on the network. Returns 0, or XH_E_NOMEM / XH_E_SYS: then none
 * was queued and no callback comes. Threads: any. After fork the child's first submit builds the
 * child's own engine. */
int xh_origin_submit(struct xh_origin *o, struct xh_transfer *const *ts, size_t n, struct xh_err *err);

/* Asks that |t| end soon; done() still comes, with XH_E_CANCELLED unless it was complete.
 * Safe until done() was called: the caller must know that it was not. */
void xh_origin_cancel(struct xh_origin *o, struct xh_transfer *t);

/* Cancels a speculative |t| of which nothing has been asked for yet. Returns 1 when it has, and done() will follow.
 * Between submit and done() only, as cancel. */
int xh_origin_withdraw(struct xh_origin *o, struct xh_transfer *t);

/* Makes a speculative |t| a demand: a reader waits for it now. Safe until done() was called. */
void xh_origin_promote(struct xh_origin *o, struct xh_transfer *t);

/* |t|, whose full() said 1, may go on. Safe until done() was called. */
void xh_origin_resume(struct xh_origin *o, struct xh_transfer *t);

/* Cancels what is queued or under way, and waits (short: no network) until every done() was called; what is submitted
 * from then on fails likewise. Else |o| is as it was, for callbacks of others that ask it for facts. */
void xh_origin_stop(struct xh_origin *o);

/* Closes: stops it, if that was not done, and frees it. In a fork's child: abandons the parent's sockets without a TLS
 * close. |o| may be NULL. */
void xh_origin_close(struct xh_origin *o);

#endif
