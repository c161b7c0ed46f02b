/* Exchanges: a reply's headers, judged against what was asked and against the opened version. See exchange_impl.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "watch/trace.h"
#include "exchange_impl.h"

/* So many bytes that nobody asked for a reply may have beside those that were: gaps that a server joins, boundaries,
 * headers of parts. Where much is asked for, a part of that. */
#define UNWANTED_BYTES (1u << 20)
#define UNWANTED_PART  4u

#define CONTRADICTORY "two Content-Length, Content-Range, ETag or Last-Modified that differ, or a malformed one"
#define COMPRESSED    "the server compressed a reply that was to be sent as it is (Content-Encoding: %.40s)"
#define NO_TOTAL      "the server does not say how large the file is (Content-Range: …/*)"
#define LENGTHS       "Content-Range promises %" PRIu64 " bytes, Content-Length %" PRIu64

int xh_exchange_fault(struct xh_exchange *x, enum xh_fault f, const char *fmt, ...)
{
    va_list ap;
    if (x->fault == XH_FAULT_NONE) {
        x->fault = f;
        va_start(ap, fmt);
        vsnprintf(x->why, sizeof x->why, fmt, ap);
        va_end(ap);
    }
    return -1;
}

/* The reply's validator against the opened version. */
static int check_version(struct xh_exchange *x)
{
    char how[sizeof x->why];
    if (xh_dialect_shows(&x->dialect, x->reply.etag, x->reply.last_modified, how, sizeof how))
        return 0;
    return xh_exchange_fault(x, XH_FAULT_CHANGED, "%s", how);
}

/* 1 when a web page comes in place of the file that is open: a login that has ended, or a word to somebody who reads. A
 * server that calls the file so shows the version with it, or its size. If text is packed, its bytes tell nothing. */
static int is_page_instead(const struct xh_exchange *x)
{
    const struct xh_reply *r = &x->reply;
    if (!r->html && !(r->encoded && r->text))
        return 0;
    if (!xh_dialect_shows(&x->dialect, r->etag, r->last_modified, NULL, 0))
        return 1;
    return r->status == 206  ? r->range.given && r->range.total_known && r->range.total != x->dialect.size
           : r->length_given ? r->length != x->dialect.size
                             : x->dialect.proof != XH_BY_ETAG;
}

int xh_exchange_check_total(struct xh_exchange *x, const struct xh_content_range *range)
{
    if (!range->total_known)
        return xh_exchange_fault(x, XH_FAULT_PROTO, NO_TOTAL);
    if (range->total != x->dialect.size)
        return xh_exchange_fault(x, XH_FAULT_CHANGED, "it had %" PRIu64 " bytes and has %" PRIu64 " now",
                                 x->dialect.size, range->total);
    return 0;
}

uint64_t xh_exchange_unwanted_most(const struct xh_exchange *x)
{
    uint64_t part = x->asked_bytes / UNWANTED_PART;
    return (part > UNWANTED_BYTES ? part : UNWANTED_BYTES) + (x->doubled ? x->asked_bytes : 0);
}

/* How many of the bytes [first, end) were asked for and are still missing. */
static uint64_t wanted_in(const struct xh_exchange *x, uint64_t first, uint64_t end)
{
    uint64_t n = 0;
    for (size_t i = x->asked_first; i < x->asked_end; i++) {
        const struct xh_range *r = &x->transfer->ranges[i];
        uint64_t a = r->off + x->got[i] > first ? r->off + x->got[i] : first,
                 b = r->off + r->len < end ? r->off + r->len : end;
        n += b > a ? b - a : 0;
    }
    return n;
}

/* Bytes [first, last] follow, plain. */
static void take_range(struct xh_exchange *x, uint64_t first, uint64_t bytes)
{
    x->take = XH_TAKE_RANGE;
    x->data_off = first;
    x->data_left = bytes;
}

static int ranges_206(struct xh_exchange *x)
{
    const struct xh_reply *r = &x->reply;
    const struct xh_content_range *c = &r->range;
    if (r->contradictory)
        return xh_exchange_fault(x, x->asked > 1 ? XH_FAULT_MULTI : XH_FAULT_PROTO, CONTRADICTORY);
    if (check_version(x) != 0)
        return -1;
    if (r->encoded)
        return xh_exchange_fault(x, XH_FAULT_PROTO, COMPRESSED, r->encoding);
    if (r->multipart) {
        x->take = XH_TAKE_PARTS;
        xh_multipart_init(&x->multipart, r->boundary);
        return 0;
    }
    if (!c->given || c->unsatisfied)
        return xh_exchange_fault(x, x->asked > 1 ? XH_FAULT_MULTI : XH_FAULT_PROTO,
                                 "status 206 without a usable Content-Range");
    if (xh_exchange_check_total(x, c) != 0)
        return -1;
    uint64_t bytes = c->last - c->first + 1;
    if (r->length_given && r->length != bytes)
        return xh_exchange_fault(x, XH_FAULT_PROTO, LENGTHS, bytes, r->length);
    /* A server may send less than asked, never other than asked. */
    if (x->asked == 1 && (c->first != x->from || c->last >= x->to))
        return xh_exchange_fault(x, XH_FAULT_PROTO, "asked for bytes %" PRIu64 "-%" PRIu64 ", got %" PRIu64 "-%" PRIu64,
                                 x->from, x->to - 1, c->first, c->last);
    if (x->asked > 1 && bytes - wanted_in(x, c->first, c->last + 1) > xh_exchange_unwanted_most(x))
        return xh_exchange_fault(x, XH_FAULT_LIMIT,
                                 "bytes %" PRIu64 "-%" PRIu64 " in one piece for %u ranges of %" PRIu64 " bytes",
                                 c->first, c->last, x->asked, x->asked_bytes);
    take_range(x, c->first, bytes);
    return 0;
}

/* 1 when the whole file is taken where a part of it was asked for: it is small; or the server sends nothing else, and
 * has been asked twice. */
static int takes_whole(const struct xh_exchange *x)
{
    const struct xh_options *opt = x->options;
    uint64_t size = x->dialect.size;
    return size <= opt->whole_file_bytes &&
           (size <= opt->head_bytes || (x->asked == 1 && (x->dialect.whole || x->whole_seen)));
}

/* 200: the whole file. What is not taken must be cut off. */
static int ranges_200(struct xh_exchange *x)
{
    const struct xh_reply *r = &x->reply;
    if (check_version(x) != 0)
        return -1;
    if (r->length_given && !r->encoded && r->length != x->dialect.size && x->dialect.proof != XH_BY_ETAG)
        return xh_exchange_fault(x, XH_FAULT_CHANGED, "it had %" PRIu64 " bytes and has %" PRIu64 " now",
                                 x->dialect.size, r->length);
    int all =
        r->length_given ? r->length == x->dialect.size : x->dialect.proof == XH_BY_ETAG; /* of chunks the ETag tells */
    if (!r->encoded && !r->contradictory && all && takes_whole(x)) {
        take_range(x, 0, x->dialect.size);
        return 0;
    }
    return xh_exchange_fault(x, x->asked > 1 ? XH_FAULT_LIMIT : XH_FAULT_NO_RANGES, "status 200 instead of 206");
}

static int head_206(struct xh_exchange *x)
{
    const struct xh_reply *r = &x->reply;
    const struct xh_content_range *c = &r->range;
    struct xh_probe *p = x->probe;
    assert(p);
    if (r->multipart || !c->given || c->unsatisfied)
        return xh_exchange_fault(x, XH_FAULT_PROTO, "status 206 without a usable Content-Range");
    if (!c->total_known)
        return xh_exchange_fault(x, XH_FAULT_PROTO, NO_TOTAL);
    uint64_t bytes = c->last - c->first + 1;
    if (r->length_given && r->length != bytes)
        return xh_exchange_fault(x, XH_FAULT_PROTO, LENGTHS, bytes, r->length);
    if (c->first != 0 || bytes > p->want_bytes)
        return xh_exchange_fault(x, XH_FAULT_PROTO, "asked for bytes 0-%zu, got %" PRIu64 "-%" PRIu64,
                                 p->want_bytes - 1, c->first, c->last);
    p->size = c->total;
    p->size_known = 1;
    x->data_left = bytes;
    x->take = XH_TAKE_PROBE;
    return 0;
}

static int head_200(struct xh_exchange *x)
{
    const struct xh_reply *r = &x->reply;
    struct xh_probe *p = x->probe;
    assert(p);
    p->size_known = r->length_given;
    p->size = r->length;
    if (r->length_given && r->length > p->whole_bytes) {
        p->ranges_refused = 1;
        return xh_exchange_fault(x, XH_FAULT_NO_RANGES, "status 200 instead of 206");
    }
    x->data_left = r->length_given ? r->length : p->whole_bytes;
    x->take = XH_TAKE_PROBE;
    return 0;
}

int xh_exchange_take_head(struct xh_exchange *x)
{
    if (x->reply.encoded)
        return xh_exchange_fault(x, XH_FAULT_PROTO, COMPRESSED, x->reply.encoding);
    if (x->reply.contradictory)
        return xh_exchange_fault(x, XH_FAULT_PROTO, CONTRADICTORY);
    return x->reply.status == 206 ? head_206(x) : head_200(x);
}

/* Ranges were asked for, and what comes is not the opened version. Perhaps it is a web page that is not called so: the
 * verdict tells by its first bytes, so they are heard. Returns 0 when they are to be, else -1: hang up. */
static int may_be_page(const struct xh_exchange *x)
{
    const struct xh_reply *r = &x->reply;
    int other = x->fault == XH_FAULT_CHANGED;
    if (r->status == 200 && (x->fault == XH_FAULT_NO_RANGES || x->fault == XH_FAULT_LIMIT)) /* by size, if by anything */
        other = r->length_given ? r->length != x->dialect.size : x->dialect.proof != XH_BY_ETAG;
    int begins = r->status == 200 || (r->status == 206 && r->range.given && !r->range.unsatisfied && !r->range.first);
    return other && begins && !r->encoded && !(r->length_given && r->length == 0) ? 0 : -1;
}

int xh_exchange_judge(struct xh_exchange *x)
{
    struct xh_reply *r = &x->reply;
    struct xh_probe *p = x->probe;
    xh_trace(XH_T_ORIGIN, "reply", "id=%p status=%d", (void *)x->request, r->status);
    assert(p || x->ask == XH_ASK_RANGES);
    if (p) {
        p->status = r->status;
        p->size_known = p->ranges_refused = 0;
        memcpy(p->etag, r->etag, sizeof p->etag);
        memcpy(p->last_modified, r->last_modified, sizeof p->last_modified);
        memcpy(p->server, r->server, sizeof p->server);
        p->date = r->date;
    }
    switch (x->ask) {
    case XH_ASK_RANGES:
        x->page = (r->status == 206 || r->status == 200) && is_page_instead(x);
        if ((r->status == 206 && ranges_206(x) != 0) || (r->status == 200 && ranges_200(x) != 0))
            return x->page ? 0 : may_be_page(x);
        return 0;
    case XH_ASK_HEAD:
        if (r->status == 416 && r->range.given && r->range.unsatisfied) {
            p->size = r->range.total;
            p->size_known = 1;
        }
        if (r->status != 206 && r->status != 200)
            return 0;
        x->page = r->html && r->encoded; /* its bytes tell nothing */
        if (x->page)
            return 0;
        /* A login may be called anything, and XRootD shows a directory without saying what that is. */
        if ((r->html || r->status == 200) && !r->encoded && !(r->length_given && r->length == 0)) {
            x->take = XH_TAKE_DOUBT;
            return 0;
        }
        return xh_exchange_take_head(x);
    case XH_ASK_STAT:
        x->data_left = XH_WORDS_MOST_BYTES;
        if (r->status == 207)
            x->take = XH_TAKE_PROBE;
        return 0;
    }
    return 0;
}
