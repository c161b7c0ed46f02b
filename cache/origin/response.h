/* Replies: status line, headers, Content-Range, multipart/byteranges, PROPFIND's XML.
 *
 * Pure: bytes in, facts out; no I/O, no memory, no locks. All input is hostile: every
 * number is bounded, every buffer has a limit, and what is too long counts as absent. */
#ifndef XH_RESPONSE_H
#define XH_RESPONSE_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/date.h"
#include "xml.h"

#define XH_HOPS_MOST 10u               /* redirects that one request follows: more are a loop */
#define XH_WORDS_MOST_BYTES 65536u     /* of a reply's body that is read for what it says, as PROPFIND's */
#define XH_LOCATION_BYTES 8192 /* redirects may carry a token in their query */
#define XH_HEADER_BYTES 256    /* longest ETag, date or Server kept, with its NUL */
#define XH_TYPE_BYTES 64       /* longest Content-Type or Content-Encoding kept, with its NUL */
#define XH_WEAK_TAG_BYTES 96   /* longest weak ETag kept as it came: it may have to stand beside a date */
#define XH_BOUNDARY_BYTES 201  /* RFC 2046 allows 70; some servers write more */

struct xh_content_range {
    int given;            /* the header was there and well-formed */
    int unsatisfied;      /* "bytes * /total", a 416's form: first and last mean nothing */
    int total_known;      /* not "*" */
    uint64_t first, last; /* inclusive, first <= last < total */
    uint64_t total;
};

struct xh_reply {
    int status;            /* 0: no status line yet */
    int over;              /* the empty line after a final (not 1xx) status was seen */
    int contradictory;     /* two different Content-Length, Content-Range, ETag or Last-Modified, or a malformed one of
                            * the first two */
    int length_given;
    uint64_t length;       /* Content-Length */
    struct xh_content_range range;
    int multipart;         /* Content-Type: multipart/byteranges with a usable boundary */
    int encoded;           /* a Content-Encoding other than identity; |encoding| is the last one of these */
    int html;              /* Content-Type: a web page */
    int text;              /* Content-Type: text of any kind */
    int proxys;            /* there is a Proxy-Authenticate: a 407 is a proxy's (RFC 9110, 11.7.1) */
    int64_t date;          /* the server's clock (Date), seconds; -1: not given */
    long retry_after_s;    /* -1: not given. A date counts from the server's own Date, without one from |now|; at most a
                            * day */
    int64_t retry_at;      /* that date as it comes; -1: none */
    char type[XH_TYPE_BYTES];     /* Content-Type without parameters; "": not given */
    char encoding[XH_TYPE_BYTES]; /* "": not encoded, or by a word that is too long */
    char boundary[XH_BOUNDARY_BYTES];
    char etag[XH_HEADER_BYTES]; /* see below; "": not given */
    char last_modified[XH_HEADER_BYTES];
    char server[XH_HEADER_BYTES];
    char reason[XH_HEADER_BYTES]; /* WWW-Authenticate's error_description; no word of it is as long as a secret */
    char location[XH_LOCATION_BYTES];
    char bucket_region[XH_TYPE_BYTES]; /* S3: where the bucket lies; "": not given */
};

/* An ETag is never absent because it is odd. It is kept in one of these forms:
 *   "…"      a strong one, as it came, but without Apache's -gzip or -br before the last quote: that names the form in
 *            which the bytes were sent at some place, and these here are sent as they are. Servers take If-Match
 *            without it.
 *   #s… #w…  length and hash of one that is too long, or not of printable ASCII; #w also of one that only begins with a
 *            quote
 *   others   weak: W/"…" as it came, or one without quotes, which nobody may send back
 * RFC 9110, 8.8.3: two that are the same string are the same version, byte for byte if both are strong. */
static inline int xh_etag_is_strong(const char *etag)
{
    return etag[0] == '"' || (etag[0] == '#' && etag[1] == 's');
}

void xh_reply_init(struct xh_reply *r);

/* Takes one header line, line end included or not. A new status line starts afresh, so that interim replies leave
 * nothing behind. What comes behind the headers of a final reply is its trailer, whatever it looks like: nothing of it
 * is taken. |now| is for Retry-After dates. Returns 1 when this line ended the headers of a final reply, else 0. */
int xh_reply_line(struct xh_reply *r, const char *line, size_t len, time_t now);

/* How long, in ms, the server wants to be left alone, at most two minutes: one that wants more is asked then. 0: it
 * does not say. Pure. */
uint64_t xh_reply_retry_after_ms(const struct xh_reply *r);

/* Parses a Content-Range value: "bytes a-b/t", "bytes a-b/ *", "bytes * /t" (no spaces at
 * the stars). Returns 0, or -1 when malformed, inconsistent or beyond 2^63-1.
 * Source: RFC 9110, 14.4. */
int xh_content_range_parse(const char *s, size_t len, struct xh_content_range *out);

/* ---- multipart/byteranges, read by its lengths. The boundary is looked for in the data, too: there it shows that a
 * part is shorter than it says. Bare LF is taken for CRLF. Source: RFC 9110, 14.6; XrdHttp's habits. */

enum xh_multipart_state {
    XH_MP_PREAMBLE,  /* before the first delimiter */
    XH_MP_HEADERS,   /* of a part; to DATA at the empty line, if Content-Range was there */
    XH_MP_DATA,      /* left_bytes of the part remain; to BETWEEN when they are in */
    XH_MP_BETWEEN,   /* line end, then delimiter (to HEADERS) or close delimiter (to END) */
    XH_MP_END,       /* whatever follows is ignored */
    XH_MP_BROKEN,    /* every further feed fails */
};

struct xh_multipart {
    enum xh_multipart_state state;
    struct xh_content_range range; /* of the part at hand */
    uint64_t off, left_bytes;      /* where the next byte of data belongs; what remains */
    unsigned lines;                /* lines seen in this state, bounded */
    int crlf;                      /* 1: the lines of the part's headers end in CR LF */
    size_t line_bytes;
    char line[1024];
    char end[XH_BOUNDARY_BYTES + 3]; /* what a part ends with: "\n--boundary"; a CR may stand before it */
    size_t held_bytes;
    char held[XH_BOUNDARY_BYTES + 4]; /* the last bytes of data, which may be the beginning of that */
};

/* What the parser hands over. Either may return non-zero to stop: feed returns that. */
struct xh_multipart_sink {
    int (*part)(void *ctx, const struct xh_content_range *range);
    int (*data)(void *ctx, uint64_t off, const uint8_t *p, size_t len);
    void *ctx;
};

void xh_multipart_init(struct xh_multipart *m, const char *boundary);

/* Feeds bytes split anywhere. Returns 0, -1 when they are not a multipart, or what the
 * sink returned. A delimiter within a part is an error, and no byte of it is handed over: the
 * part is shorter than it says. */
int xh_multipart_feed(struct xh_multipart *m, const uint8_t *p, size_t len, const struct xh_multipart_sink *sink);

/* ---- PROPFIND */

/* Finds getlastmodified and getcontentlength in a 207's XML, whatever their prefix.
 * |date| gets the text ("" when absent or too long). Returns 1 when both are there. */
int xh_propfind_parse(struct xh_xml xml, char *date, size_t date_size, uint64_t *length);

/* 1 when a 207's XML says that what was asked for is a directory. */
int xh_propfind_is_directory(struct xh_xml xml);

/* Finds the next of several resources in a 207's XML (Depth: 1), and moves |xml| behind it. |path| is its href as it
 * stands there, |of| what the functions above are asked about it. Returns 1, or 0: there are no more. */
int xh_propfind_next(struct xh_xml *xml, struct xh_xml *path, struct xh_xml *of);

/* 1 when the bytes |said| of a body begin as a web page does: "<!doctype html" or "<html", in any case, behind blanks
 * and a byte order mark; of one that is called |html|, "<" will do. 0: they do not. -1: there are too few to tell. */
int xh_reply_begins_page(const char *said, size_t len, int html);

/* 1 when HDF5's signature is in the first |len| bytes of a body, where HDF5 looks for it: at 0, 512, 1024, and so on.
 * Before it stands a user block, which may begin as anything. */
int xh_reply_has_signature(const void *body, size_t len);

/* 1 when the reply calls its body text and the bytes |said| of it are: not empty, and no control characters in them but
 * blanks and ends of lines. */
int xh_reply_is_text(const struct xh_reply *r, const char *said, size_t len);

/* 1 when the text |said| is XRootD's page of a directory, which it sends without a Content-Type. */
int xh_reply_is_listing(const char *said);

/* 1 when |r| sends the request on to its Location. */
static inline int xh_reply_redirects(const struct xh_reply *r)
{
    return r->status == 301 || r->status == 302 || r->status == 303 || r->status == 307 || r->status == 308;
}

#endif
