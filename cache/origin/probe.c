/* The prober: opening an origin.
 *
 * What is asked, in order: with a hint, whether its version is still there (one cheap
 * request); else the head. A reply without validator needs the date that PROPFIND tells, as
 * at XRootD: only then is it asked for. A server that is known to need it is asked for both at once, the date
 * first. Proofs by falling strength: strong ETag, Last-Modified, weak ETag, PROPFIND's mtime, size alone. */
#include "origin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/now.h"
#include "watch/trace.h"
#include "endpoint.h"
#include "learn.h"
#include "loop.h"
#include "question.h"
#include "s3regions.h"

/* What a server can send before it waits for the first acknowledgement: ten segments, less
 * what headers and TLS take. A longer head costs a second round trip. */
#define FIRST_FLIGHT_BYTES 12288u
/* How often the head is asked for where the answer is that of an empty file, and it is none. */
#define EMPTY_TRIES 3

/* Takes proof and size from the reply in |p|. */
static void learn(struct xh_dialect *d, const struct xh_probe *p)
{
    d->size = p->size;
    d->whole = p->status == 200 && p->size > p->want_bytes;
    xh_dialect_learn(d, p->etag, p->last_modified, p->date);
}

/* 1 when the reply in |p| shows the version that |d| has. */
static int same_version(const struct xh_dialect *d, const struct xh_probe *p)
{
    int shows = xh_dialect_shows(d, p->etag, p->last_modified, NULL, 0);
    if (p->status == 304) /* which may leave the ETag out */
        return shows || !p->etag[0];
    return p->size_known && p->size == d->size && shows;
}

static size_t usual_bytes(const struct xh_origin *o)
{
    return xh_min64(o->options.head_bytes, FIRST_FLIGHT_BYTES);
}

/* How many bytes the opening is to bring. */
static size_t head_bytes(const struct xh_origin *o)
{
    xh_engine_lock();
    const struct xh_endpoint *e = xh_endpoint_find(o->url->server);
    size_t bytes = xh_control_opens_with(e ? &e->link : NULL, &(struct xh_first){
        .usual = usual_bytes(o), .whole = o->options.likely_bytes, .room = o->options.likely_room,
        .proves = e && e->dates == XH_DATES_IN_REPLIES, .hurried = o->patience != NULL});
    xh_engine_unlock();
    return bytes;
}

/* What PROPFIND told. */
struct dated {
    int known; /* 1: date and size came */
    int gone;  /* 1: there is no such file */
    char date[XH_HEADER_BYTES];
    uint64_t size;
    uint64_t server_hash; /* whose word it is */
    uint64_t came_ns;
};

/* 1 when |own| says that PROPFIND is not for us at this server, rather than that it failed this time: an overloaded
 * server must not pass for one that has no dates, or an older version's bytes would pass for this one's. */
static int is_refusal(const struct xh_err *own)
{
    int status = own->status;
    return own->code == XH_E_NOENT || own->code == XH_E_ACCES || status == 501 || status == 505 ||
           (status >= 300 && status < 500 && status != 408 && status != 429);
}

/* Reads PROPFIND's answer |p|, which failed with |own| if that has a code. Returns 1 when date and
 * size came, 0 when the server has no such thing, or a negative code. */
static int read_stat(const struct xh_probe *p, const struct xh_err *own, struct dated *out, struct xh_err *err)
{
    if (own->code != 0 && !is_refusal(own)) {
        if (err)
            *err = *own;
        return own->code;
    }
    out->gone = own->code == XH_E_NOENT;
    out->server_hash = p->server_hash;
    out->came_ns = p->came_ns;
    out->known = own->code == 0 && p->status == 207 &&
                 xh_propfind_parse((struct xh_xml){(const char *)p->bytes, p->len}, out->date, sizeof out->date,
                                   &out->size);
    return out->known;
}

/* Waits for PROPFIND's answer to |q|; where that is NULL, or empty, asks first. Returns as read_stat does. */
static int stat_origin(struct xh_origin *o, struct xh_question *q, struct dated *out, struct xh_err *err)
{
    struct xh_probe p = {0};
    struct xh_err own = {0};
    if (q && q->tries[0]) {
        xh_engine_lock();
        xh_question_wait(o, q, &p, &own);
        xh_engine_unlock();
    } else {
        xh_question_put(o, XH_ASK_STAT, &p, &own);
    }
    int rc = read_stat(&p, &own, out, err);
    free(p.bytes);
    return rc;
}

/* Asks PROPFIND beside the head. When it cannot be asked now, |q| stays empty: it will be asked when it is needed. */
static void stat_beside(struct xh_origin *o, struct xh_question *q)
{
    static const struct xh_probe stat = {0};
    if (xh_loop_enter(&o->options, NULL) != 0)
        return;
    xh_origin_object_adopt(o);
    xh_question_ask(o, q, XH_ASK_STAT, &stat);
    xh_engine_unlock();
}

/* The head: size, validator, bytes. */
static int open_head(struct xh_origin *o, struct xh_probe *p, struct xh_err *err)
{
    p->want_bytes = head_bytes(o);
    p->usual_bytes = usual_bytes(o);
    p->whole_bytes = o->options.whole_file_bytes;
    p->insists = 1;
    p->if_none_match = NULL;
    for (int tries = 0; tries < EMPTY_TRIES; tries++) {
        int rc = xh_question_put(o, XH_ASK_HEAD, p, err);
        if (rc != 0 || p->status != 416 || (p->size_known && p->size == 0))
            return rc;
        if (p->size_known)
            break;
        /* XRootD says no more than that of an empty file, and a redirector of one that it has not found, or that no
         * server has which is there now: it has waited for one before it answered. */
        struct dated s = {0};
        rc = stat_origin(o, NULL, &s, err);
        if (rc < 0)
            return rc;
        if (s.gone)
            return xh_err_set(err, XH_E_NOENT, 404, "%.200s: 404 Not Found: there is no such file on the server",
                              o->url->shown);
        p->size = s.size;
        p->size_known = rc == 1;
        if (rc == 1 && s.size == 0)
            return 0;
    }
    return xh_err_set(err, XH_E_PROTO, 416,
                      "%.200s: the server refuses to send the first bytes of the file (416 Range Not Satisfiable)",
                      o->url->shown);
}

/* Settles the dialect from the head's reply |p|, and from PROPFIND's where that has no validator: that of |q|, else a
 * new one. |*early|: the head was not asked for after its date, which proves only what was. */
static int settle(struct xh_origin *o, const struct xh_probe *p, struct xh_question *q, int *early,
                  struct xh_err *err)
{
    struct xh_dialect d = o->dialect;
    struct dated s = {0};
    learn(&d, p);
    if (d.proof == XH_BY_SIZE) {
        int rc = stat_origin(o, q, &s, err);
        /* Redirected to two servers: the date is to be of the copy that is read. */
        if (rc == 1 && s.server_hash != p->server_hash)
            rc = stat_origin(o, NULL, &s, err);
        if (rc < 0)
            return rc;
        if (rc == 1 && s.size != d.size)
            return xh_err_set(err, XH_E_CHANGED, 0,
                              "%.200s: the file is being changed on the server (%" PRIu64 " bytes, then %" PRIu64 ")",
                              o->url->shown, d.size, s.size);
        if (rc == 1)
            xh_dialect_learn_propfind(&d, s.date, time(NULL));
    }
    *early = d.proof == XH_BY_PROPFIND && p->sent_ns < s.came_ns;
    xh_engine_lock();
    o->dialect = d;
    o->checked_ns = xh_now_ns();
    struct xh_endpoint *e = xh_endpoint_find(o->url->server);
    if (e)
        e->dates = d.proof == XH_BY_PROPFIND ? XH_DATES_APART : XH_DATES_IN_REPLIES;
    xh_engine_unlock();
    if (d.whole)
        xh_learn_whole(o);
    return 0;
}

/* Head and validator. |*early| as of settle. */
static int open_once(struct xh_origin *o, struct xh_probe *p, int *early, struct xh_err *err)
{
    struct xh_question q = {0};
    xh_engine_lock();
    const struct xh_endpoint *e = xh_endpoint_find(o->url->server);
    enum xh_dates dates = e ? e->dates : XH_DATES_UNKNOWN;
    xh_engine_unlock();
    if (dates == XH_DATES_APART && !o->options.doubtful) /* XRootD hangs up behind each refusal */
        stat_beside(o, &q);
    int rc = open_head(o, p, err);
    if (rc == 0)
        rc = settle(o, p, &q, early, err);
    xh_engine_lock();
    xh_question_leave(o, &q);
    xh_engine_unlock();
    return rc;
}

/* Opens without a usable hint. One more try when the file changes under the eyes. */
static int open_afresh(struct xh_origin *o, struct xh_probe *p, int *early, struct xh_err *err)
{
    int rc = XH_E_CHANGED;
    for (int i = 0; i < 2 && rc == XH_E_CHANGED; i++)
        rc = open_once(o, p, early, err);
    return rc;
}

/* The same as confirm() where PROPFIND tells the version. XRootD answers that to those as well who may not read the
 * file, so a byte is read too, with the reader's own credentials, at the same time. */
static int confirm_dated(struct xh_origin *o, const struct xh_dialect *d, struct xh_probe *p, struct xh_err *err)
{
    struct dated s = {0};
    struct xh_question q = {0};
    stat_beside(o, &q);
    p->want_bytes = p->usual_bytes = p->whole_bytes = 1;
    p->if_none_match = NULL;
    int rc = xh_question_put(o, XH_ASK_HEAD, p, err);
    int may_read = rc == 0 || (rc == XH_E_PROTO && p->ranges_refused); /* a whole file: more than was to come */
    int same = p->status == 416 ? d->size == 0 : !p->size_known || p->size == d->size;
    if (may_read)
        rc = stat_origin(o, &q, &s, err);
    xh_engine_lock();
    xh_question_leave(o, &q);
    xh_engine_unlock();
    if (rc < 0)
        return rc;
    return rc == 1 && same && s.size == d->size && strcmp(s.date, d->value) == 0;
}

/* Asks whether the hinted version |d| is still there, and whether this reader may have it: what a shadow holds is
 * given to nobody else. Returns 1 when it is, 0 when the head is to be fetched, 2 when |p| has the head of another
 * version already, or a negative code. A 304 is an answer to those alone who would get the bytes. */
static int confirm(struct xh_origin *o, const struct xh_dialect *d, struct xh_probe *p, struct xh_err *err)
{
    if (d->proof == XH_BY_PROPFIND)
        return confirm_dated(o, d, p, err);
    /* With an ETag the same request brings the new head when there is one. A date is not
     * asked with If-Modified-Since: an older file put in its place would pass. */
    int etag = xh_dialect_matches(d);
    p->want_bytes = p->usual_bytes = etag ? usual_bytes(o) : 1; /* some send it all the same */
    p->whole_bytes = etag ? o->options.whole_file_bytes : 1;
    p->if_none_match = etag ? d->value : NULL;
    int rc = xh_question_put(o, XH_ASK_HEAD, p, err);
    if (rc == XH_E_PROTO && p->ranges_refused) /* a small file, whole, but larger than one byte */
        return same_version(d, p);
    if (rc != 0)
        return rc;
    if (same_version(d, p))
        return 1;
    return etag && p->size_known && (p->status == 206 || p->status == 200) ? 2 : 0;
}

/* What xh_origin_hint wrote, or anything. */
struct hinted {
    struct xh_dialect dialect;
    double rtt_ns; /* of the URL's own server, when it was written; 0: unknown */
};

/* Returns 0, or -1: it makes no sense. */
static int read_hint(struct hinted *h, const char *text)
{
    unsigned rtt_us;
    int n = 0;
    if (sscanf(text, XH_ROUND_TRIP "%9u %n", &rtt_us, &n) != 1 || n == 0)
        return -1;
    h->rtt_ns = rtt_us * 1e3;
    return xh_dialect_from_hint(&h->dialect, text + n);
}

/* Takes the version |d|, which is known to be there now. |rtt_ns|: the round trip that the process found which asked
 * just now; 0: this one asked. */
static void believe(struct xh_origin *o, const struct xh_dialect *d, double rtt_ns)
{
    xh_engine_lock();
    o->dialect = *d;
    o->checked_ns = xh_now_ns();
    xh_endpoint_tell(o->url->server, rtt_ns);
    xh_engine_unlock();
}

static int open_hinted(struct xh_origin *o, const struct xh_dialect *hinted, struct xh_probe *p, int *confirmed,
                       int *early, struct xh_err *err)
{
    int rc = confirm(o, hinted, p, err);
    if (rc < 0)
        return rc;
    *confirmed = rc == 1;
    xh_trace(XH_T_ORIGIN, "hint", "url=%s confirmed=%d", o->url->shown, *confirmed);
    if (rc == 1) {
        /* A reader takes what was fetched while the file was young; a writer leaves it. */
        struct xh_dialect d = *hinted;
        if (o->options.is_written)
            xh_dialect_age(&d, d.proof == XH_BY_PROPFIND ? time(NULL) : p->date);
        believe(o, &d, 0);
        return 0;
    }
    return rc == 2 ? settle(o, p, NULL, early, err) : open_afresh(o, p, early, err);
}

void xh_origin_tell_apart(const char *url)
{
    struct xh_url *u = NULL;
    if (xh_url_parse(url, &u, NULL) != 0) /* of S3 none is */
        return;
    xh_engine_lock();
    xh_endpoint_tell_apart(u->server);
    xh_engine_unlock();
    xh_url_unref(u);
}

/* What can be known before any connection: the URL, the options, CAs and credentials. */
static int prepare(const char *url, const struct xh_options *options, struct xh_counters *counters,
                   struct xh_origin **out, struct xh_err *err)
{
    struct xh_origin *o = calloc(1, sizeof *o);
    if (!o)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a file");
    o->options = *options;
    xh_env_hold(&o->options);
    o->counters = counters;
    xh_ring_init(&o->jobs);
    xh_ring_init(&o->among_dated);
    xh_dialect_init(&o->dialect);
    int rc = xh_caller_url(url, &o->options, &o->url, err);
    rc = rc ? rc : xh_caller_find(&o->caller, &o->options, o->url, err);
    if (rc == 0 && o->url->region) {
        xh_engine_lock();
        o->target = xh_s3_regions_find(o->url);
        xh_engine_unlock();
    }
    o->token_ns = xh_now_ns();
    if (rc != 0) {
        xh_origin_close(o);
        return rc;
    }
    *out = o;
    return 0;
}

int xh_origin_reader(const char *url, const struct xh_options *options, char out[XH_READER_BYTES])
{
    struct xh_counters unused = {0};
    struct xh_origin *o = NULL;
    out[0] = '\0';
    if (prepare(url, options, &unused, &o, NULL) != 0)
        return 0;
    const struct xh_caller *c = &o->caller;
    int known = !o->url->user && xh_auth_reader(o->url, c->token, &c->cert, c->identity, &c->trust,
                                                !xh_caller_trusts(c, o->url), out);
    xh_origin_close(o);
    return known;
}

int xh_origin_open(const char *url, const struct xh_options *options, const char *hint, int vouched,
                   struct xh_counters *counters, const struct xh_patience *patience, struct xh_origin **out,
                   struct xh_origin_head *head, struct xh_err *err)
{
    struct xh_origin *o = NULL;
    struct hinted hinted;
    struct xh_probe p = {0};
    int confirmed = 0, early = 0;
    int rc = prepare(url, options, counters, &o, err);
    if (rc != 0)
        return rc;
    o->patience = patience;
    o->files = options->beside;
    int known = hint && *hint && read_hint(&hinted, hint) == 0;
    if (known && vouched) {
        believe(o, &hinted.dialect, hinted.rtt_ns);
        confirmed = 1;
        xh_trace(XH_T_ORIGIN, "hint", "url=%s confirmed=1 vouched=1", o->url->shown);
    } else if (known)
        rc = open_hinted(o, &hinted.dialect, &p, &confirmed, &early, err);
    else
        rc = open_afresh(o, &p, &early, err);
    if (rc == 0 && xh_dialect_validator(&o->dialect, o->validator, sizeof o->validator) == 0)
        rc = xh_err_set(err, XH_E_PROTO, 0, "%.200s: the server's validator is too long", o->url->shown);
    if (rc != 0) {
        free(p.bytes);
        xh_origin_close(o);
        return rc;
    }
    o->opened = 1;
    xh_learn_date(o);
    o->patience = NULL;
    if (confirmed || p.len == 0) {
        free(p.bytes);
        p.bytes = NULL;
        p.len = 0;
    }
    xh_trace(XH_T_ORIGIN, "open", "url=%s size=%" PRIu64 " validator=%s confirmed=%d", o->url->shown, o->dialect.size,
             o->validator, confirmed);
    head->bytes = p.bytes;
    head->len = p.len;
    head->confirmed = confirmed;
    head->unverified = early && p.len > 0;
    *out = o;
    return 0;
}

int xh_origin_open_told(const char *url, const struct xh_options *options, const char *hint,
                        struct xh_counters *counters, struct xh_origin **out, struct xh_err *err)
{
    struct xh_origin *o = NULL;
    struct hinted told;
    int rc = prepare(url, options, counters, &o, err);
    if (rc != 0)
        return rc;
    if (read_hint(&told, hint) != 0) {
        rc = xh_err_set(err, XH_E_INVAL, 0, "%.200s: what another process told of it makes no sense", o->url->shown);
        xh_origin_close(o);
        return rc;
    }
    believe(o, &told.dialect, told.rtt_ns);
    xh_dialect_validator(&o->dialect, o->validator, sizeof o->validator); /* fits: it did where it was opened */
    o->opened = 1;
    xh_learn_date(o);
    xh_trace(XH_T_ORIGIN, "told", "url=%s size=%" PRIu64 " validator=%s", o->url->shown, o->dialect.size, o->validator);
    *out = o;
    return 0;
}
