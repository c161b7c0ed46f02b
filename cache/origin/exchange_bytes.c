/* Exchanges: how long one may take, and the handing out of a reply's bytes. See exchange.h.
 *
 * Invariants: no byte is handed over before status, Content-Range, total and validator
 * agreed with the opened version; got[i] only grows, and bytes() is called for exactly
 * the bytes that it grows by; what one exchange touches belongs to its thread. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/now.h"
#include "base/table.h"
#include "watch/timeline.h"
#include "watch/trace.h"
#include "exchange_impl.h"

#define IGNORED_BODY_MAX 65536u /* what nobody wants is read to its end up to here; then it is cheaper to hang up */
#define PROBE_LEAST      65536u /* room that a probe's body gets at first */
/* In what begins as a web page HDF5's signature is looked for up to here: behind a user block of at most half of it. */
#define DOUBT_BYTES      65536u

int xh_exchange_sent(struct xh_exchange *x, unsigned port)
{
    if (x->take == XH_TAKE_REST) /* its connection was dead: nothing is asked anew for nobody, with no secret */
        return -1;
    x->port = port;
    x->sent_ns = x->last_ns = x->pace_ns = xh_now_ns();
    if (x->turn == XH_PROXY_GO &&
        (x->url->https || xh_proxy_is_socks(x->proxy))) { /* it connected. Of http the reply tells */
        xh_proxy_heard(x->proxy, x->url, x->turn, 200);
        x->turn = XH_PROXY_FREE;
    }
    return 0;
}

int xh_exchange_is_proxys(const struct xh_exchange *x)
{
    return x->reply.status == 407 && x->reply.proxys && x->proxy && !x->url->https && !xh_proxy_is_socks(x->proxy);
}

void xh_exchange_over(struct xh_exchange *x, const struct xh_outcome *out)
{
    x->lane = NULL;
    x->opened = out->opened;
    int status = out->net == XH_NET_PROXY ? out->proxy_status : x->reply.over ? x->reply.status : 0;
    if (out->net != XH_NET_PROXY && status) /* a 407 that does not say whose it is says nothing */
        status = status != 407 ? 200 : x->turn == XH_PROXY_GO && xh_exchange_is_proxys(x) ? 407 : 0;
    xh_proxy_heard(x->proxy, x->url, x->turn, status);
}

void xh_exchange_resume(struct xh_exchange *x)
{
    if (!xh_exchange_stands(x))
        return;
    x->last_ns = x->pace_ns = xh_now_ns();
    atomic_store_explicit(&x->stands_ns, 0, memory_order_relaxed);
    xh_trace(XH_T_ORIGIN, "goes-on", "id=%p", (void *)x->request);
    xh_wire_resume(x->lane);
}

/* The clocks of a reply run from the moment the request went out, one from each byte, one from each XH_PACE_BYTES;
 * before that the connection has its own time. For what nobody wants any more it is not waited long. */
uint64_t xh_exchange_deadline(const struct xh_exchange *x, enum xh_net *why)
{
    *why = XH_NET_CONNECT_TIMEOUT;
    if (xh_exchange_stands(x))
        return UINT64_MAX;
    if (x->last_ns == 0)
        return x->begun_ns + x->connect_most_ns;
    if (x->tail_until_ns) {
        *why = XH_NET_CUT;
        return x->tail_until_ns;
    }
    uint64_t stall = x->last_ns + x->stall_most_ns, crawl = x->pace_ns + 2 * x->stall_most_ns;
    *why = crawl < stall ? XH_NET_CRAWL : XH_NET_STALL;
    return crawl < stall ? crawl : stall;
}

uint64_t xh_exchange_left(const struct xh_exchange *x)
{
    const struct xh_reply *r = &x->reply;
    if (!r->over)
        return x->asked_bytes;
    if (r->status != 206 || x->fault != XH_FAULT_NONE || (r->length_given && r->length < x->body_bytes))
        return UINT64_MAX;
    return r->length_given ? r->length - x->body_bytes : x->asked_bytes - x->fresh;
}

void xh_exchange_run_out(struct xh_exchange *x, uint64_t left, uint64_t until_ns)
{
    x->transfer = NULL;
    x->got = NULL;
    x->options = NULL;
    x->counters = NULL;
    x->proxy = NULL;
    x->finds = 0;
    x->take = XH_TAKE_REST;
    x->data_left = left + IGNORED_BODY_MAX; /* headers of parts, and gaps between them */
    x->tail_until_ns = until_ns;
}

/* Something came. */
static void heard(struct xh_exchange *x)
{
    uint64_t now = xh_now_ns();
    if (x->last_ns && now - x->last_ns > x->quiet_ns)
        x->quiet_ns = now - x->last_ns;
    x->last_ns = now;
}

int xh_exchange_line(struct xh_exchange *x, const char *line, size_t len)
{
    heard(x);
    if (!x->first_ns)
        x->first_ns = x->last_ns;
    if (len > XH_HEADERS_MOST_BYTES - x->header_bytes)
        return xh_exchange_fault(x, XH_FAULT_PROTO, "headers of more than %u bytes", XH_HEADERS_MOST_BYTES);
    x->header_bytes += len;
    if (!xh_reply_line(&x->reply, line, len, time(NULL)))
        return 0;
    x->pace_ns = x->last_ns;
    if (x->take == XH_TAKE_REST) /* no more than was asked for */
        return x->reply.status == 206 && (!x->reply.length_given || x->reply.length <= x->data_left) ? 0 : -1;
    if (x->turn == XH_PROXY_GO && x->reply.status != 407) { /* the body may stand still for long */
        xh_proxy_heard(x->proxy, x->url, x->turn, 200);
        x->turn = XH_PROXY_FREE;
    }
    return xh_exchange_judge(x);
}

/* ---- the reply's body */

/* Hands over what is wanted of [off, off+len), which the reply says are these bytes. */
static int deliver(struct xh_exchange *x, uint64_t off, const uint8_t *p, size_t len)
{
    struct xh_transfer *t = x->transfer;
    assert(t);
    while (len > 0) {
        while (x->cursor < x->asked_end && t->ranges[x->cursor].off + t->ranges[x->cursor].len <= off)
            x->cursor++;
        if (x->cursor == x->asked_end)
            return 0; /* a gap, to the end */
        const struct xh_range *range = &t->ranges[x->cursor];
        uint64_t wanted = range->off + x->got[x->cursor]; /* next byte wanted, or the range's end */
        uint64_t end = range->off + range->len;
        if (off < wanted || off >= end) { /* a gap, or bytes that came before */
            uint64_t skip = (off < wanted ? wanted : end) - off;
            if (skip >= len)
                return 0;
            off += skip;
            p += skip;
            len -= (size_t)skip;
            continue;
        }
        if (off > wanted)
            return xh_exchange_fault(x, x->asked > 1 ? XH_FAULT_MULTI : XH_FAULT_PROTO,
                                     "bytes from %" PRIu64 " on were skipped", wanted);
        size_t n = len < end - off ? len : (size_t)(end - off);
        t->bytes(t, off, p, n);
        x->got[x->cursor] += n;
        x->fresh += n;
        off += n;
        p += n;
        len -= n;
    }
    return 0;
}

/* Sink of the multipart parser: a part begins. */
static int on_part(void *ctx, const struct xh_content_range *range)
{
    struct xh_exchange *x = ctx;
    const struct xh_transfer *t = x->transfer;
    if (xh_exchange_check_total(x, range) != 0)
        return -1;
    /* The first asked range that ends behind the part's beginning. */
    const struct xh_range *asked = t->ranges + x->asked_first;
    size_t low = x->asked_first + xh_count_before(i, x->asked_end - x->asked_first,
                                                  asked[i].off + asked[i].len <= range->first);
    x->cursor = low;
    for (size_t i = low; i < x->asked_end && t->ranges[i].off <= range->last; i++)
        if (x->got[i] < t->ranges[i].len && t->ranges[i].off + x->got[i] <= range->last)
            return 0;
    /* Each range once: what a twin has brought meanwhile was asked for all the same. */
    if (x->doubled && low < x->asked_end && t->ranges[low].off <= range->last && x->stale_parts++ < x->asked)
        return 0;
    return xh_exchange_fault(x, XH_FAULT_MULTI, "a part with bytes %" PRIu64 "-%" PRIu64 " that were not asked for",
                             range->first, range->last);
}

static int on_data(void *ctx, uint64_t off, const uint8_t *p, size_t len)
{
    return deliver(ctx, off, p, len);
}

static int is_too_long(struct xh_exchange *x)
{
    int whole = x->reply.status == 200;
    x->probe->ranges_refused |= whole;
    return xh_exchange_fault(x, whole ? XH_FAULT_NO_RANGES : XH_FAULT_PROTO, "the body is longer than it should be");
}

static int take_probe(struct xh_exchange *x, const uint8_t *data, size_t len)
{
    struct xh_probe *p = x->probe;
    if (len > x->data_left)
        return is_too_long(x);
    if (len > p->room - p->len) {
        /* By what has come, not by what is promised. */
        size_t most = p->len + x->data_left, room = 2 * (p->len + len) > PROBE_LEAST ? 2 * (p->len + len) : PROBE_LEAST;
        room = room < most ? room : most;
        uint8_t *bytes = realloc(p->bytes, room);
        if (!bytes)
            return xh_exchange_fault(x, XH_FAULT_LOCAL, "out of memory for %zu bytes", room);
        p->bytes = bytes;
        p->room = room;
    }
    memcpy(p->bytes + p->len, data, len);
    p->len += len;
    if (x->reply.status == 200) /* no less may be asked for in its place */
        atomic_store_explicit(&p->heard_ns, x->pace_ns, memory_order_relaxed);
    x->data_left -= len;
    return 0;
}

static int take_parts(struct xh_exchange *x, const uint8_t *data, size_t len)
{
    struct xh_multipart_sink sink = {on_part, on_data, x};
    if (xh_multipart_feed(&x->multipart, data, len, &sink) == 0)
        return 0;
    return xh_exchange_fault(x, XH_FAULT_MULTI, "malformed multipart/byteranges");
}

/* Keeps how a refusal's text begins. */
static void hear(struct xh_exchange *x, const uint8_t *data, size_t len)
{
    size_t room = sizeof x->said - 1 - x->said_len;
    size_t n = len < room ? len : room;
    memcpy(x->said + x->said_len, data, n);
    x->said_len += n;
    x->said[x->said_len] = '\0';
}

/* The first bytes of what may be a web page or another text, or a file whose user block begins as one: that has HDF5's
 * signature behind it. Nothing is decided until enough of it came; then the bytes go as the probe's. */
static int doubt(struct xh_exchange *x, const uint8_t *data, size_t len)
{
    struct xh_probe *p = x->probe;
    x->data_left = DOUBT_BYTES - p->len;
    size_t n = len < x->data_left ? len : (size_t)x->data_left;
    hear(x, data, len);
    if (take_probe(x, data, n) != 0)
        return -1;
    int may = xh_reply_begins_page(x->said, x->said_len, x->reply.html) != 0 ||
              xh_reply_is_text(&x->reply, x->said, x->said_len);
    if (may && !xh_reply_has_signature(p->bytes, p->len)) {
        x->page = p->len == DOUBT_BYTES;
        return x->page ? -1 : 0; /* heard enough */
    }
    if (xh_exchange_take_head(x) != 0)
        return -1;
    if (p->len > x->data_left)
        return is_too_long(x);
    x->data_left -= p->len;
    return take_probe(x, data + n, len - n);
}

/* 1 when every byte that |x| asked for has come, by it or by its twin. */
static int is_whole(struct xh_exchange *x)
{
    while (x->open < x->asked_end && x->got[x->open] == x->transfer->ranges[x->open].len)
        x->open++;
    return x->open == x->asked_end;
}

/* 1 when nothing more that is wanted can come of |x|'s reply. */
static int has_come(struct xh_exchange *x)
{
    switch (x->take) {
    case XH_TAKE_RANGE: return x->data_off >= x->to || is_whole(x);
    case XH_TAKE_PARTS: return x->multipart.state == XH_MP_END || is_whole(x);
    case XH_TAKE_PROBE:
        return x->data_left == 0 && x->ask == XH_ASK_HEAD && (x->reply.length_given || x->reply.status == 206);
    default: return 0;
    }
}

/* Bytes were taken: may more come? What follows the last wanted one is read for the connection's sake alone, if it is
 * little; the deadline sees to it that it comes soon. Returns 0, or -1: hang up. */
static int goes_on(struct xh_exchange *x)
{
    if (!has_come(x)) {
        uint64_t unwanted = x->body_bytes - x->fresh;
        if (x->probe || x->reply.status != 206 || unwanted <= xh_exchange_unwanted_most(x))
            return 0;
        return xh_exchange_fault(x, x->asked > 1 ? XH_FAULT_MULTI : XH_FAULT_PROTO,
                                 "%" PRIu64 " bytes that nobody asked for", unwanted);
    }
    if (!x->tail_until_ns) {
        x->tail_until_ns = x->last_ns + XH_TAIL_NS;
        x->tail_bytes = x->body_bytes;
    }
    uint64_t left = x->take != XH_TAKE_PARTS                                   ? x->data_left
                    : x->reply.length_given && x->reply.length > x->body_bytes ? x->reply.length - x->body_bytes
                                                                               : 0;
    return left + (x->body_bytes - x->tail_bytes) > IGNORED_BODY_MAX ? -1 : 0;
}

/* Nobody wants these bytes. */
static int drop(struct xh_exchange *x, size_t len)
{
    heard(x);
    x->body_bytes += len;
    atomic_fetch_add_explicit(x->arrived, len, memory_order_relaxed);
    if (len > x->data_left)
        return -1;
    x->data_left -= len;
    return 0;
}

int xh_exchange_body(struct xh_exchange *x, const uint8_t *data, size_t len)
{
    if (x->take == XH_TAKE_REST)
        return drop(x, len);
    struct xh_transfer *t = x->transfer;
    int rc = 0;
    if (t && t->full && x->take != XH_TAKE_NOTHING && !x->tail_until_ns && t->full(t)) {
        atomic_store_explicit(&x->stands_ns, xh_now_ns(), memory_order_relaxed);
        xh_trace(XH_T_ORIGIN, "stands", "id=%p bytes=%" PRIu64, (void *)x->request, x->body_bytes);
        return 1;
    }
    heard(x);
    x->pace_bytes += len;
    if (x->pace_bytes >= XH_PACE_BYTES) {
        x->pace_ns = x->last_ns;
        x->pace_bytes = 0;
    }
    x->body_bytes += len;
    atomic_fetch_add_explicit(x->arrived, len, memory_order_relaxed);
    if (x->take != XH_TAKE_NOTHING) /* the text of a refusal is no sign that others are served */
        atomic_store_explicit(x->heard_ns, x->last_ns, memory_order_relaxed);
    xh_count(x->counters, bytes_fetched, len);
    if (atomic_load_explicit(x->speculative, memory_order_relaxed))
        xh_count(x->counters, bytes_speculative, len);
    uint64_t off = x->data_off;
    switch (x->take) {
    case XH_TAKE_RANGE:
        if (len > x->data_left)
            return xh_exchange_fault(x, XH_FAULT_PROTO, "the body is longer than its Content-Range");
        x->data_off += len;
        x->data_left -= len;
        rc = deliver(x, off, data, len);
        break;
    case XH_TAKE_PARTS: rc = take_parts(x, data, len); break;
    case XH_TAKE_PROBE: rc = take_probe(x, data, len); break;
    case XH_TAKE_DOUBT: rc = doubt(x, data, len); break;
    case XH_TAKE_NOTHING:
        hear(x, data, len);
        if (x->fault != XH_FAULT_NONE && !x->page &&
            xh_reply_begins_page(x->said, x->said_len, x->reply.html) == 0 &&
            !xh_reply_is_text(&x->reply, x->said, x->said_len))
            return -1; /* heard enough */
        return x->body_bytes > IGNORED_BODY_MAX ? -1 : 0;
    case XH_TAKE_REST: break; /* it was dropped above */
    }
    return rc ? rc : goes_on(x);
}

/* ---- on the time line */

void xh_exchange_draw(const struct xh_exchange *x, const struct xh_outcome *out, const char *kind)
{
    char name[32];
    if (x->sent_ns == 0) /* no connection was had */
        return;
    uint64_t track = xh_timeline_connection(x->port), last = x->last_ns, first = x->first_ns ? x->first_ns : last;
    if (x->queued_ns && x->queued_ns < x->sent_ns)
        xh_timeline_beside("queued", x->queued_ns, x->sent_ns);
    snprintf(name, sizeof name, "%s%s", kind, x->doubled == 2 ? ", again" : "");
    xh_timeline_slice(track, name, x->sent_ns, last,
                      "url=%s status=%d ranges=%u first=%" PRIu64 " end=%" PRIu64 " bytes=%" PRIu64
                      " queued_us=%" PRIu64 " result=\"%s\"",
                      x->url->shown, x->reply.status, x->asked, x->from, x->to, x->body_bytes,
                      x->queued_ns && x->queued_ns < x->sent_ns ? (x->sent_ns - x->queued_ns) / 1000 : 0,
                      out->net == XH_NET_OK          ? "whole"
                      : out->net == XH_NET_CANCELLED ? "cancelled"
                      : out->net == XH_NET_LEFT      ? "left"
                                                     : "cut or failed");
    xh_timeline_slice(track, "first byte", x->sent_ns, first, "port=%u", x->port);
    if (last > first)
        xh_timeline_slice(track, "body", first, last, "port=%u", x->port);
}
