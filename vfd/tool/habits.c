/* The doctor's check of how a server answers, and how fast: ranges, version, round trip, throughput. */
#include "exam.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/base/letters.h"
#include "../../cache/origin/dialect.h"
#include "speed.h"
#include "tool.h"

#define SPACING_BYTES 4096u     /* between ranges: servers join ranges that lie close together */
/* of a part, as nginx counts it; nginx refuses a request whose reply is larger than the file */
#define OVERHEAD_BYTES 256u
#define RANGES_MOST 2000u
#define PAD_WANTED 8192u        /* enough for a long token and the other headers */
#define ASKED 7u
#define SERVER_SLOW_MS 20.0
#define MOST_BYTES (8u << 20)

/* ---- ranges --------------------------------------------------------------------------------- */

/* Returns "bytes=0-0,4096-4096,…" with |n| ranges. Owns: free(). */
static char *ranges_text(unsigned n, uint64_t spacing)
{
    size_t room = 16 + n * (size_t)42;
    char *text = malloc(room);
    size_t used = text ? (size_t)snprintf(text, room, "bytes=") : 0;
    for (unsigned i = 0; text && i < n; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%" PRIu64 "-%" PRIu64, i ? "," : "", i * spacing,
                                 i * spacing);
    return text;
}

/* Asks for |n| ranges. Returns 1 when all came. Sets |*header| to the length of the Range header's value. */
static int ask_ranges(struct doctor *d, unsigned n, uint64_t spacing, size_t *header, struct xh_answer *a)
{
    char *text = ranges_text(n, spacing);
    const struct xh_question q = {.range = text, .most_bytes = MOST_BYTES};
    if (!text)
        return 0;
    *header = strlen(text);
    xh_dial_ask(d->dial, d->at, &q, a);
    free(text);
    return a->end == XH_NET_OK && a->reply.status == 206 && a->reply.multipart && a->parts == n;
}

static void say_refusal(struct xh_report *r, unsigned n, size_t header, const struct xh_answer *a)
{
    if (a->reply.over && a->reply.status == 206)
        xh_report_say(r, "%u (%zu bytes) brought a reply that was not what was asked for", n, header);
    else if (a->reply.over)
        xh_report_say(r, "%u (%zu bytes) brought status %d", n, header, a->reply.status);
    else
        xh_report_say(r, "at %u (%zu bytes) the connection broke", n, header);
}

/* Returns the longest of some header lengths that the server accepts. */
static size_t header_limit(struct doctor *d)
{
    static const size_t pads[] = {3900, 7900, 16000, 32000, 64000};
    struct xh_answer a;
    size_t good = 0;
    for (unsigned i = 0; i < sizeof pads / sizeof *pads; i++) {
        const struct xh_question q = {.range = "bytes=0-0", .pad_bytes = pads[i], .most_bytes = MOST_BYTES};
        xh_dial_ask(d->dial, d->at, &q, &a);
        if (a.end != XH_NET_OK || a.reply.status != 206)
            break;
        good = pads[i];
    }
    return good;
}

enum xh_state xh_doctor_ranges(struct doctor *d)
{
    static const unsigned tries[] = {2, 50, XH_RANGES_AT_FIRST, 400, 1000, RANGES_MOST};
    struct xh_report *r = &d->report;
    struct xh_answer a = {0};
    unsigned good = 1, refused = 0;
    size_t header = 0, good_header = 0;
    if (d->named->region) {
        xh_report_count(r, "ranges_in_one_request", 1);
        return xh_report_as(r, XH_STATE_OK, "one range in a request, as S3 has it");
    }
    for (size_t i = 0; i < sizeof tries / sizeof *tries && !refused; i++) {
        uint64_t spacing = d->size / tries[i];
        if (spacing < 2 * OVERHEAD_BYTES)
            break; /* a server may refuse this for such a small file */
        if (ask_ranges(d, tries[i], spacing < SPACING_BYTES ? spacing : SPACING_BYTES, &header, &a)) {
            good = tries[i];
            good_header = header;
        } else {
            refused = tries[i];
        }
    }
    size_t limit = header_limit(d);
    xh_report_count(r, "ranges_in_one_request", good);
    xh_report_count(r, "header_bytes", limit);
    if (good > 1)
        xh_report_say(r, "%u ranges in one request (%zu bytes)%s", good, good_header,
                      good >= XH_RANGES_AT_FIRST ? ", the driver asks for 200 at most" : "");
    else
        xh_report_say(r, refused ? "one range in a request" : "the file is too small to ask for several ranges");
    if (refused)
        say_refusal(r, refused, header, &a);
    xh_report_say(r, limit == 64000 ? "headers of %zu bytes and more" : "headers of up to %zu bytes", limit);
    if (refused && refused <= XH_RANGES_AT_FIRST && good < 50)
        xh_report_advise(r, "scattered small reads cost a request each. nginx (max_ranges), Apache (MaxRanges) and "
                            "XRootD can do more; what stands before them may not: ask the server's owner");
    if (limit < PAD_WANTED - 300)
        xh_report_advise(
            r, "long tokens will not fit into a request's header: large_client_header_buffers 4 64k on nginx");
    return XH_STATE_OK;
}

/* ---- version -------------------------------------------------------------------------------- */

/* Asks for the date with PROPFIND, when the reply to GET has no version. Returns 1 and sets |date|. */
static int ask_date(struct doctor *d, char *date, size_t size)
{
    struct xh_body x = {0};
    struct xh_answer a;
    uint64_t length;
    const struct xh_question q = {
        .method = "PROPFIND", .most_bytes = XH_WORDS_MOST_BYTES, .body = xh_body_keep, .ctx = &x};
    xh_dial_ask(d->dial, d->at, &q, &a);
    int found = a.end == XH_NET_OK && a.reply.status == 207 && x.len &&
                xh_propfind_parse((struct xh_xml){(char *)x.at, x.len}, date, size, &length) && length == d->size;
    free(x.at);
    return found;
}

enum xh_state xh_doctor_version(struct doctor *d)
{
    struct xh_report *r = &d->report;
    const struct xh_reply *p = &d->first.reply;
    char date[XH_HEADER_BYTES] = "";
    int strong = xh_etag_is_strong(p->etag);
    const char *proof = strong                           ? "etag"
                        : p->last_modified[0]            ? "date"
                        : p->etag[0]                     ? "weak etag"
                        : ask_date(d, date, sizeof date) ? "propfind"
                                                         : "size";
    time_t told = xh_http_date(p->last_modified[0] ? p->last_modified : date);
    d->date_s = told > 0 ? told : 0;
    xh_report_text(r, "proof", proof);
    xh_report_text(r, "etag", p->etag[0] ? p->etag : NULL);
    xh_report_text(r, "date", p->last_modified[0] ? p->last_modified : date[0] ? date : NULL);
    if (strong)
        xh_report_say(r, "strong ETag %s: every reply proves that the file is still the same", p->etag);
    else if (p->etag[0])
        xh_report_say(r, "weak ETag %s%s%s in every reply", p->etag, p->last_modified[0] ? ", and Last-Modified " : "",
                      p->last_modified);
    else if (p->last_modified[0])
        xh_report_say(r, "no ETag; Last-Modified %s in every reply", p->last_modified);
    else if (date[0])
        xh_report_say(r, "no ETag; PROPFIND tells the date, %s, asked for at opening and every %" PRIu64 " s", date,
                      d->o->revalidate_ms / 1000);
    else
        xh_report_advise(r, "the server names no version, neither ETag nor date: a change is noticed by the size "
                            "alone. Publish new versions under new names, or have ETag switched on (nginx: etag on)");
    if (!p->etag[0] && !p->last_modified[0] && !date[0])
        xh_report_say(r, "nothing but the size");
    if (p->etag[0] && !strong && !p->last_modified[0])
        xh_report_advise(r, "a weak ETag proves no bytes: processes do not share what they fetch. A strong one "
                            "(\"…\" without W/), or Last-Modified, lets them");
    return XH_STATE_OK;
}

/* ---- a cache in front ------------------------------------------------------------------------ */

/* 1 when an XRootD answers out of a cache of its own (XCache). Its replies do not name one. But where all of a file is
 * in the cache they have an Age, and only there a demand for what is in the cache can be refused. */
static int is_xcache(struct doctor *d, const struct xh_answer *a)
{
    const struct xh_question q = {.range = "bytes=0-0", .only_cached = 1, .most_bytes = XH_WORDS_MOST_BYTES};
    struct xh_answer refused;
    if (xh_strncasecmp(a->reply.server, "XrootD", 6) != 0 || a->reply.status != 206)
        return 0;
    if (a->front.age_s >= 0)
        return 1;
    xh_dial_ask(d->dial, d->at, &q, &refused);
    return refused.reply.over && refused.reply.status == 504;
}

static void say_freshness(struct xh_report *r, const struct xh_front *f)
{
    if (f->age_s >= 0)
        xh_report_say(r, "this copy is %" PRId64 " s old", f->age_s);
    if (f->fresh_s >= 0)
        xh_report_say(r, "it may be shown for %" PRId64 " s before the origin is asked, so a change of the file may be "
                         "seen that much later", f->fresh_s);
    else
        xh_report_say(r, "a change of the file is seen once it asks the origin again; when, its owner has set");
}

static enum xh_state xcache(struct xh_report *r, const struct xh_front *f)
{
    xh_report_text(r, "cache", "XCache");
    xh_report_text(r, "kept", f->age_s >= 0 ? "yes" : "not all");
    xh_report_say(r, "an XRootD that keeps files (XCache); all of this file is %s",
                  f->age_s >= 0 ? "there" : "not there yet");
    xh_report_advise(r, "an XCache (seen of 5.8) does not ask whether a file was changed, and may mix two versions of "
                        "it: a changed file has to get another name (docs/servers.md, a cache at the site)");
    return XH_STATE_NOTE;
}

/* What of this file's first byte it said: the first time that it was asked, and now. */
enum xh_state xh_doctor_cache(struct doctor *d)
{
    struct xh_report *r = &d->report;
    const struct xh_question q = {.range = "bytes=0-0", .most_bytes = XH_WORDS_MOST_BYTES};
    struct xh_answer again;
    xh_dial_ask(d->dial, d->at, &q, &again);
    const struct xh_front *was = &d->first.front, *now = again.reply.status == 206 ? &again.front : was;
    xh_report_text(r, "headers", now->said[0] ? now->said : NULL);
    if (now->age_s >= 0)
        xh_report_count(r, "age_s", (uint64_t)now->age_s);
    if (is_xcache(d, &again))
        return xcache(r, now);
    xh_report_text(r, "cache", now->cache ? "yes" : now->proxy ? "perhaps" : "none seen");
    if (!now->proxy)
        return xh_report_as(r, XH_STATE_OK, "none seen: no Age, Via, Cache-Status or X-Cache in the replies");
    xh_report_say(r, now->cache ? "a cache stands in front (%s)" : "a proxy, perhaps a cache, stands in front (%s)",
                  now->said);
    int kept = now->kept == XH_FRONT_HIT || (now->kept == XH_FRONT_SILENT && now->age_s >= 0);
    xh_report_text(r, "kept", kept ? "yes" : now->kept == XH_FRONT_SILENT ? "not said" : "no");
    if (kept) {
        xh_report_say(r, was->kept == XH_FRONT_MISS ? "it had to ask the origin at first, and keeps what it got"
                                                    : "what was asked for came out of it");
        say_freshness(r, now);
    } else if (now->kept == XH_FRONT_SILENT) {
        xh_report_say(r, "whether it keeps anything it does not say");
    } else {
        xh_report_say(r, now->kept == XH_FRONT_PASSED ? "it passes these requests on, and keeps nothing of them"
                                                      : "it was asked twice for the same byte, and asked the origin "
                                                        "again");
        xh_report_advise(r, "it does not seem to keep this file, so all readers burden the origin. Ask its owner: "
                            "pieces of files, large files, requests with credentials, or files without a strong ETag "
                            "may be left out (docs/servers.md, a cache at the site)");
    }
    return XH_STATE_OK;
}

/* ---- round trip ----------------------------------------------------------------------------- */

static int order(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

enum xh_state xh_doctor_round_trip(struct doctor *d)
{
    struct xh_report *r = &d->report;
    struct xh_answer a = {0};
    double ms[ASKED];
    unsigned n = 0, opened = 0;
    for (unsigned i = 0; i < ASKED + 1; i++) { /* the first one is not counted: it may have to connect */
        const struct xh_question q = {.range = "bytes=0-0", .most_bytes = XH_WORDS_MOST_BYTES};
        xh_dial_ask(d->dial, d->at, &q, &a);
        if (a.end != XH_NET_OK || a.reply.status != 206)
            break;
        if (i > 0) {
            ms[n++] = a.first_ms;
            opened += (unsigned)a.opened;
        }
    }
    if (n == 0) {
        xh_report_say(r, "the same request that was answered before failed: %s%s%d", a.why,
                      a.reply.over ? " status " : " ", a.reply.status);
        xh_report_advise(r, "the server answers now and then: its log says more");
        return XH_STATE_FAILED;
    }
    qsort(ms, n, sizeof *ms, order);
    d->rtt_ms = ms[n / 2];
    xh_report_number(r, "ms", d->rtt_ms);
    xh_report_number(r, "least_ms", ms[0]);
    xh_report_number(r, "network_ms", d->connect_ms);
    xh_report_say(r, "%.*f ms from request to first byte (least %.*f)", d->rtt_ms < 1 ? 2 : 1, d->rtt_ms,
                  ms[0] < 1 ? 2 : 1, ms[0]);
    if (d->connect_ms > 0)
        xh_report_say(r, "the way itself takes %.1f ms", d->connect_ms);
    if (opened > n / 2) {
        xh_report_say(r, "the server closes each connection");
        xh_report_advise(r, "each request waits for a new connection and its handshake: keepalive_timeout, "
                            "keepalive_requests at the server, or a proxy between");
    }
    /* The quickest, so that a busy machine here, or a pause there, is not taken for the server's habit. */
    if (d->connect_ms > 0 && ms[0] - d->connect_ms > SERVER_SLOW_MS && ms[0] > 2 * d->connect_ms)
        xh_report_advise(r,
                         "most of that the server spends itself: it is busy, or fetches the file from somewhere slow");
    return XH_STATE_OK;
}

/* ---- throughput ----------------------------------------------------------------------------- */

static void advise_throughput(struct doctor *d, const unsigned *n, const double *rate, unsigned tried)
{
    struct xh_report *r = &d->report;
    unsigned enough = 0, now = 0, most = d->o->connections ? (unsigned)d->o->connections : XH_USUAL_CONNECTIONS;
    while (enough + 1 < tried && rate[enough] < 0.9 * d->bytes_per_s)
        enough++;
    while (now + 1 < tried && n[now + 1] <= most)
        now++;
    xh_report_count(r, "enough_connections", n[enough]);
    xh_report_say(r, "%u %s enough", n[enough], n[enough] == 1 ? "is" : "are");
    if (n[enough] > most)
        xh_report_advise(
            r, "the option connections is %u: %u would bring %.1f times as much (XHDF5_CONNECTIONS=%u)",
            most, n[enough], rate[enough] / (rate[now] > 0 ? rate[now] : 1), n[enough]);
}

enum xh_state xh_doctor_throughput(struct doctor *d)
{
    static const unsigned n[] = {1, 2, 4, 8, 16};
    struct xh_report *r = &d->report;
    double rate[sizeof n / sizeof *n] = {0};
    unsigned tried = 0;
    char text[200] = "", name[32];
    struct xh_speed s = {0};
    if (d->quick || d->size < XH_SPEED_LEAST_BYTES)
        return xh_report_as(r, XH_STATE_UNTRIED, d->quick ? "not tried (--quick)" : "the file is too small to tell");
    for (; tried < sizeof n / sizeof *n; tried++) {
        if (xh_speed_measure(&d->caller, d->at, d->size, n[tried], &s) || s.served == 0)
            break;
        size_t used = strlen(text);
        rate[tried] = s.bytes_per_s;
        d->bytes_per_s = s.bytes_per_s > d->bytes_per_s ? s.bytes_per_s : d->bytes_per_s;
        snprintf(text + used, sizeof text - used, "%s%u: %.*f", used ? ", " : "", n[tried], s.bytes_per_s < 10e6,
                 s.bytes_per_s / 1e6);
        snprintf(name, sizeof name, "connections_%u", n[tried]);
        xh_report_number(r, name, s.bytes_per_s);
        if (s.served < s.asked)
            break;
    }
    if (tried == 0) {
        xh_report_say(r, "nothing came: %s%s%d", s.failed.why, s.failed.reply.over ? " status " : " ",
                      s.failed.reply.status);
        xh_report_advise(r, "short requests are answered and long ones are not: a limit of the server or of what "
                            "stands between; its log says more");
        return XH_STATE_FAILED;
    }
    xh_report_say(r, "MB/s by connections: %s", text);
    if (s.served < s.asked) {
        xh_report_say(r, "of %u connections %u brought something", s.asked, s.served);
        xh_report_advise(r,
                         "the server refuses some of many connections (limit_conn or the like): XHDF5_CONNECTIONS=%u "
                         "keeps to what it allows",
                         s.served);
    }
    if (d->rtt_ms > 5 && rate[0] < 0.6 * d->bytes_per_s)
        xh_report_say(r, "one is held up by its window, %s a round trip",
                      xh_size((uint64_t)(rate[0] * d->rtt_ms / 1e3)));
    advise_throughput(d, n, rate, tried);
    return XH_STATE_OK;
}
