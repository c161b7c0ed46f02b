/* The dialect: what is known of one object at one server, and its one-line text; and what one server bears: of several
 * ranges in a request, of requests at once, and in a time. Pure: the caller tells the time. */
#ifndef XH_DIALECT_H
#define XH_DIALECT_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "response.h"

#define XH_VALIDATOR_TEXT_BYTES 400 /* longest xh_dialect_validator, with its NUL */

/* So much older than the reply a file's date must be to prove bytes to a later opening: a file may be changed twice in
 * the second of its date. RFC 9110, 8.8.2.2 wants a second. A file system's clock lags a few milliseconds behind that of
 * Date, so a file that is one second older may still get the same date. */
#define XH_SETTLING_S 2
/* The same, where two clocks that differ may have a part in it. RFC 7232, 2.2.2 wanted a minute. */
#define XH_SETTLED_S 60

enum xh_youth {
    XH_OLD,      /* XH_SETTLED_S; of an ETag also: not told */
    XH_SETTLING, /* XH_SETTLING_S, but not XH_SETTLED_S */
    XH_YOUNG,    /* the same proof may be another version's; of a date also: not told */
};

/* What proves that the object has not changed. */
enum xh_proof {
    XH_BY_SIZE,      /* nothing but the size in each Content-Range */
    XH_BY_ETAG,      /* strong ETag: sent as If-Match if it came whole, compared in each reply */
    XH_BY_WEAK_ETAG, /* weak, or without quotes: compared in each reply, never sent as If-Match */
    XH_BY_DATE,      /* Last-Modified, and the weak ETag beside it: compared in each reply */
    XH_BY_PROPFIND,  /* XRootD: getlastmodified, asked for from time to time */
};

struct xh_dialect {
    enum xh_proof proof;
    char value[XH_HEADER_BYTES]; /* ETag (as response.h has it) or date; "" for XH_BY_SIZE */
    char tag[XH_HEADER_BYTES];   /* XH_BY_DATE: the weak ETag beside it, without its W/; "": there is none */
    enum xh_youth youth;            /* how old the file was when this was first seen, or xh_dialect_age'd */
    time_t changed;                 /* when the file was changed, by the clock that wrote that; -1: not told */
    int no_match;                   /* XH_BY_ETAG: the server refuses it as If-Match, though it is the one it sends */
    uint64_t size;                  /* bytes of the object */
    int whole;                      /* the server sends no parts of it: 200 and all of it, whatever is asked for */
};

#define XH_RANGES_AT_FIRST 200u        /* Apache's default limit; nginx and XRootD take more */
#define XH_RANGE_HEADER_AT_FIRST 3900u /* safe on every server known (davix's choice) */

/* Nothing known yet. */
void xh_dialect_init(struct xh_dialect *d);

/* Sets proof and value when |value| is printable, short enough, and of |proof|'s form. Returns 1 if it was. */
int xh_dialect_set_proof(struct xh_dialect *d, enum xh_proof proof, const char *value);

/* Takes the strongest proof that a reply brings: |etag| as response.h has it, |last_modified|, |date| of the reply (-1:
 * not given). An ETag without the two is believed: its server says that it is strong. */
void xh_dialect_learn(struct xh_dialect *d, const char *etag, const char *last_modified, time_t date);

/* Takes PROPFIND's |date|, which came at |now| by this machine's clock, as the server tells none. */
void xh_dialect_learn_propfind(struct xh_dialect *d, const char *date, time_t now);

/* The version is there still, and it is |now| by the server's Date (-1: not told), or by this machine's clock for
 * XH_BY_PROPFIND: it may be young no longer. What was fetched before keeps the youth that it had. */
void xh_dialect_age(struct xh_dialect *d, time_t now);

/* 1 when a reply with these shows the version that |d| has, or need not show any. Else 0, and |how| says what differs:
 * a reply without what was there before shows another version. |how| may be NULL. */
int xh_dialect_shows(const struct xh_dialect *d, const char *etag, const char *last_modified, char *how, size_t size);

/* 1 when If-Match goes with requests; if not, the replies alone show the version. */
static inline int xh_dialect_matches(const struct xh_dialect *d)
{
    return d->proof == XH_BY_ETAG && d->value[0] == '"' && !d->no_match;
}

/* 1 when the same proof in two openings is none of the same bytes: nothing may be kept under it for longer than the
 * file is open. A date that replies bring proves least, with a weak ETag beside it or not, as does any proof for a file
 * that |is_written|: what is read may be published. */
static inline int xh_dialect_is_fleeting(const struct xh_dialect *d, int is_written)
{
    int strict = d->proof == XH_BY_DATE || is_written;
    return d->proof == XH_BY_SIZE || d->proof == XH_BY_WEAK_ETAG || d->youth >= (strict ? XH_SETTLING : XH_YOUNG);
}

/* Printable, never empty: "etag:…;size:…", "mtime:…;size:…", the same with ";tag:…" behind it, "size:…". Returns its
 * length, or 0. */
size_t xh_dialect_validator(const struct xh_dialect *d, char *buf, size_t size);

/* 1 when two of these tell one version. So do a date with a weak ETag and, later, that ETag as a strong one, as Apache
 * has it of a file that was changed in this second (RFC 9110, 8.8.3.2). Both "": 1. */
int xh_dialect_is_same(const char *a, const char *b);

/* One line for a later opening. No secrets. Returns its length, or 0 when it does not fit. */
size_t xh_dialect_hint(const struct xh_dialect *d, char *buf, size_t size);

/* Reads such a line, which anyone may have written. Returns 0, or -1 and |d| untouched. */
int xh_dialect_from_hint(struct xh_dialect *d, const char *text);

/* What one server bears, for all its files. It is narrowed only by what shows a limit, or by the same failure again and
 * again, and is widened again as time goes on: a limit may have been another machine's behind the same name, or is
 * gone. */
struct xh_limits {
    unsigned max_ranges;     /* most ranges in one request; 1: no multi-range */
    size_t max_range_header; /* most bytes of the Range header's value, at least 64 */
    uint64_t changed_ns;     /* when one of these two was last narrowed or widened; 0: they are as wide as at first */
    unsigned doubts;         /* in a row, none understood between them: see xh_limits_doubt */
    unsigned worked;         /* so many ranges worked where more had failed twice with a 500; 0: no such thing lately */
    uint64_t worked_ns;      /* when that was asked */
    unsigned connections;    /* most requests, or connections, that it serves at once; 0: no such limit is known */
    uint64_t refused_ns;     /* when it last refused another one, or that was widened */
    uint64_t gap_ns;         /* least time from one request to the next; 0: no such limit is known */
    uint64_t counted_ns;     /* when the next three began to count; 0: what they say is not used */
    unsigned answered, refused;
    uint64_t wanted_ns;      /* for so long some request was wanted */
    uint64_t heard_ns;       /* when the last one was answered or refused */
};

/* A narrowed limit is widened after so long, to four times as much: one refused request a minute at a server that is as
 * it was, and 200 ranges again four minutes after the last refusal. */
#define XH_WIDEN_NS 60000000000u
#define XH_WIDEN_TIMES 4u
/* So many doubts in a row are no accident. */
#define XH_DOUBTS_MOST 3u

void xh_limits_init(struct xh_limits *l);

/* Widens what was narrowed long ago, and forgets a gap that no refusal has confirmed for as long. To be called before
 * |l| is looked at. */
void xh_limits_look(struct xh_limits *l, uint64_t now);

/* A request of |nranges| in |header_bytes| was refused for its size: at most half of both is asked for next. Down to 1
 * range it goes in a few steps; the header is never bound to less than 64. */
void xh_limits_halve(struct xh_limits *l, unsigned nranges, size_t header_bytes, uint64_t now);

/* The server serves |n| requests, or connections, and has refused another one. */
void xh_limits_serves(struct xh_limits *l, unsigned n, uint64_t now);

/* The server has answered a request that was wanted since |wanted_ns|; or refused one, sent at |sent_ns|, while it had
 * no other or brought nothing for others. If it refused one of five for a while, it limits how many come in a time:
 * requests go out about as often as it answered these while any was wanted. A refusal now and then is a bad moment. The
 * gap is an eighth longer at first, and shrinks with each answer, as the limit may be another one by now: so one of 15
 * requests is refused. With that one it is as long as each answer took since, at most twice what it was, as the reader
 * may have had nothing to ask for. Fewer than XH_PACED_LEAST answers since show that it is of no help. */
void xh_limits_answers(struct xh_limits *l, uint64_t wanted_ns, uint64_t now);
void xh_limits_refuses(struct xh_limits *l, uint64_t wanted_ns, uint64_t sent_ns, uint64_t now);
#define XH_PACED_LEAST 4u           /* answers, and refusals */
#define XH_PACED_TIMES 4u           /* answers for each refusal: a first pause, 0.05 to 0.1 s, makes so many at 50/s */
#define XH_GAP_SHRINKS 64u          /* by this part of it */
#define XH_GAP_LEAST_NS 1000000u    /* pauses are in milliseconds, and a gap sends requests one by one */
#define XH_GAP_MOST_NS 2000000000u  /* a server that answers less often than that: each request has pauses of its own */

/* At most |nranges| are asked for next. */
void xh_limits_cap(struct xh_limits *l, unsigned nranges, uint64_t now);

/* A request of several ranges was answered by nonsense, more than once; or by a 416, or without all of its ranges. */
void xh_limits_doubt(struct xh_limits *l, uint64_t now);

/* A request of |nranges| > 1, sent at |sent_ns|, was answered as it should be. */
void xh_limits_good(struct xh_limits *l, unsigned nranges, uint64_t sent_ns);

/* A request of |nranges|, sent at |sent_ns|, worked where more had failed twice with a 500: which may be a limit
 * (XRootD 5.5 says so), or the end of whatever it was. */
void xh_limits_worked(struct xh_limits *l, unsigned nranges, uint64_t sent_ns);

/* A request of |nranges|, sent at |sent_ns|, failed with a 500. Returns 1 when that is a limit, as fewer worked before
 * it was sent: |l| is narrowed to those. */
int xh_limits_failed(struct xh_limits *l, unsigned nranges, uint64_t sent_ns, uint64_t now);

#endif
