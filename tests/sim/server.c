/* Servers: see server.h. */
#include "server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "baton.h"

#define PERIOD 1000003u /* of an object's content: prime, so that no page or block has the bytes of another */
#define RANGES_MOST 4096
#define HEADERS_MOST 8192 /* nginx's limit of a line of headers, about */

const char *const sim_fault_names[SIM_FAULTS] = {"refused", "503", "429", "500", "dropped", "cut", "silent", "stall", "trickle", "redirect",
                                                 "total", "changed"};

/* ---- content */

static const uint8_t *content(void)
{
    static uint8_t *table;
    if (!table) {
        uint64_t x = 88172645463325252u;
        table = malloc(2 * PERIOD);
        if (!table)
            abort();
        for (size_t i = 0; i < PERIOD; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            table[i] = table[i + PERIOD] = (uint8_t)(x >> 32);
        }
    }
    return table;
}

/* The next segment that reaches beyond |off|, or NULL. */
static const struct sim_segment *segment_at(const struct sim_object *o, uint64_t off)
{
    size_t low = 0, high = o->segments;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (o->segment[mid].off + o->segment[mid].len <= off)
            low = mid + 1;
        else
            high = mid;
    }
    return low < o->segments ? &o->segment[low] : NULL;
}

static void lay_over(const struct sim_object *o, uint64_t off, uint8_t *out, size_t len)
{
    const struct sim_segment *s = o->segments ? segment_at(o, off) : NULL;
    for (; s && s < o->segment + o->segments && s->off < off + len; s++) {
        uint64_t from = s->off > off ? s->off : off, end = s->off + s->len < off + len ? s->off + s->len : off + len;
        memcpy(out + (from - off), s->bytes + (from - s->off), (size_t)(end - from));
    }
}

void sim_content(const struct sim_object *o, unsigned version, uint64_t at_off, uint8_t *to, size_t all)
{
    const uint8_t *from = content();
    uint64_t off = at_off;
    uint8_t *out = to;
    size_t len = all;
    for (uint64_t shift = version * 7919u + o->salt; len;) {
        size_t at = (size_t)((off + shift) % PERIOD), n = len < PERIOD ? len : PERIOD;
        memcpy(out, from + at, n);
        out += n;
        off += n;
        len -= n;
    }
    lay_over(o, at_off, to, all);
}

size_t sim_content_differs(const struct sim_object *o, unsigned version, uint64_t off, const uint8_t *got, size_t len)
{
    static uint8_t should[65536];
    for (size_t i = 0, n; i < len; i += n) {
        n = len - i < sizeof should ? len - i : sizeof should;
        sim_content(o, version, off + i, should, n);
        if (memcmp(got + i, should, n) != 0) {
            for (n = 0; got[i + n] == should[n];)
                n++;
            return i + n;
        }
    }
    return len;
}

size_t sim_content_wrong(const struct sim_object *o, unsigned *version, uint64_t off, const uint8_t *got, size_t len)
{
    if (*version)
        return sim_content_differs(o, *version, off, got, len);
    unsigned last = 0, alike = 0;
    for (unsigned v = 1; v <= o->version; v++)
        if (sim_content_differs(o, v, off, got, len) == len) {
            last = v;
            alike++;
        }
    if (alike == 1)
        *version = last;
    return alike ? len : sim_content_differs(o, o->version, off, got, len);
}

/* ---- replies */

static void on_hello_done(void *ctx, uint64_t arg)
{
    sim_conn_write(ctx, SIM_HELLO_BYTES, 0);
}

struct hello {
    struct sim_server *server;
    struct sim_conn *conn;
};

static void on_hello(void *ctx, uint64_t arg)
{
    struct hello *h = ctx;
    struct sim_server *s = h->server;
    s->accepted_ns = (s->accepted_ns > sim_now() ? s->accepted_ns : sim_now()) + s->accept_ns;
    sim_at(s->accepted_ns, on_hello_done, h->conn, 0);
}

void sim_hello(struct sim_server *s, struct sim_conn *c)
{
    struct hello *h = malloc(sizeof *h);
    if (!h)
        abort();
    *h = (struct hello){.server = s, .conn = c};
    sim_at(sim_link_up(s->link), on_hello, h, 0);
}

int sim_hello_is_over(struct sim_conn *c)
{
    int ended, is = sim_conn_readable(c, &ended) >= SIM_HELLO_BYTES;
    if (is)
        sim_conn_read(c, SIM_HELLO_BYTES);
    return is;
}

int sim_strikes(struct sim_server *s, enum sim_fault kind)
{
    if (s->lies)
        return s->lie.fault == kind;
    if (s->faults_left == 0 || s->met < s->faults_from || s->fault[kind] <= 0 || !sim_chance(s->fault[kind]))
        return 0;
    s->faults_left--;
    s->struck[kind]++;
    sim_trace("fault %s", sim_fault_names[kind]);
    return 1;
}

static void add_text(struct sim_reply *r, const char *text)
{
    r->piece = realloc(r->piece, (r->pieces + 1) * sizeof *r->piece);
    char *copy = strdup(text);
    if (!r->piece || !copy)
        abort();
    r->piece[r->pieces++] = (struct sim_piece){.text = copy, .len = strlen(text)};
}

static void add_bytes(struct sim_reply *r, uint64_t off, uint64_t len)
{
    r->piece = realloc(r->piece, (r->pieces + 1) * sizeof *r->piece);
    if (!r->piece)
        abort();
    r->piece[r->pieces++] = (struct sim_piece){.off = off, .len = len};
}

static const char *header(const char *const *headers, const char *name)
{
    size_t n = strlen(name);
    for (; *headers; headers++)
        if (strncasecmp(*headers, name, n) == 0 && (*headers)[n] == ':')
            return *headers + n + 1 + strspn(*headers + n + 1, " ");
    return NULL;
}

struct span {
    uint64_t first, end;
};

/* Reads "bytes=a-b,…". Returns how many, 0: it is none; -1: none of them lies in the object. */
static int ranges_of(const char *value, uint64_t size, struct span *out)
{
    int n = 0, seen = 0;
    if (strncmp(value, "bytes=", 6) != 0)
        return 0;
    for (const char *p = value + 6; n < RANGES_MOST;) {
        char *q;
        uint64_t first = strtoull(p, &q, 10), last;
        if (q == p || *q++ != '-')
            return 0;
        last = strtoull(q, (char **)&p, 10);
        if (p == q)
            last = size - 1;
        seen = 1;
        if (first < size)
            out[n++] = (struct span){first, (last < size ? last : size - 1) + 1};
        if (*p != ',')
            break;
        p++;
    }
    return seen && n == 0 ? -1 : n;
}

static void etag_of(const struct sim_object *o, char *out, size_t size)
{
    snprintf(out, size, "\"%x-%" PRIx64 "\"", 0x65000000 + o->version, o->size);
}

/* The headers that all replies of |s| have. */
static void head(struct sim_reply *r, const struct sim_server *s, const char *status, const struct sim_object *o, uint64_t len,
                 const char *more)
{
    char text[4096], etag[64] = "", tags[160] = "";
    int xrootd = s->dialect == SIM_XROOTD;
    if (o && !xrootd) {
        etag_of(o, etag, sizeof etag);
        snprintf(tags, sizeof tags, "ETag: %s\r\nLast-Modified: Sun, %02u Nov 2025 08:49:37 GMT\r\n", etag, 1 + o->version % 28);
    }
    r->ends = xrootd && *status >= '4'; /* XRootD hangs up behind a refusal */
    snprintf(text, sizeof text, "HTTP/1.1 %s\r\nServer: %s\r\nContent-Length: %" PRIu64 "\r\n%s%s%s\r\n", status,
             xrootd ? "XrootD/v5.8.1" : "nginx/1.26.3", len, tags,
             !xrootd   ? "Connection: keep-alive\r\nDate: Thu, 01 Jan 2026 01:00:00 GMT\r\n"
             : r->ends ? "Connection: Close\r\n"
                       : "Connection: Keep-Alive\r\n",
             more);
    add_text(r, text);
    /* Before the body. */
    struct sim_piece first = r->piece[r->pieces - 1];
    memmove(r->piece + 1, r->piece, (r->pieces - 1) * sizeof first);
    r->piece[0] = first;
}

static uint64_t body_len(const struct sim_reply *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->pieces; i++)
        n += r->piece[i].len;
    return n;
}

static void plain(struct sim_reply *r, const struct sim_server *s, const char *status, const char *more)
{
    add_text(r, "<html><body>sorry</body></html>\n");
    char headers[1024];
    snprintf(headers, sizeof headers, "Content-Type: text/html\r\n%s", more);
    head(r, s, status, NULL, body_len(r), headers);
}

/* What PROPFIND is answered with, by XRootD. */
static void dated(struct sim_reply *r, const struct sim_server *s, const struct sim_object *o)
{
    char xml[1024];
    snprintf(xml, sizeof xml,
             "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\" xmlns:ns1=\"http://apache.org/dav/props/\" "
             "xmlns:ns0=\"DAV:\">\n<D:response xmlns:lp1=\"DAV:\" xmlns:lp2=\"http://apache.org/dav/props/\" xmlns:lp3=\"LCGDM:\">\n"
             "<D:href>%s</D:href>\n<D:propstat>\n<D:prop>\n<lp1:getcontentlength>%" PRIu64 "</lp1:getcontentlength>\n"
             "<lp1:getlastmodified>Tue, %02u Nov 2023 22:13:20 GMT</lp1:getlastmodified>\n<lp1:resourcetype/>\n</D:prop>\n"
             "<D:status>HTTP/1.1 200 OK</D:status>\n</D:propstat>\n</D:response>\n</D:multistatus>\n",
             o->path, o->size, 1 + o->version % 28);
    add_text(r, xml);
    head(r, s, "207 Multi-Status", NULL, body_len(r), "Content-Type: text/xml; charset=\"utf-8\"\r\n");
}

static void parts(struct sim_reply *r, struct sim_server *s, const struct sim_object *o, const struct span *a, int n)
{
    char text[512];
    uint64_t total = o->size + (sim_strikes(s, SIM_F_TOTAL) ? 1 : 0);
    if (n == 1) {
        add_bytes(r, a->first, a->end - a->first);
        snprintf(text, sizeof text, "Content-Range: bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64 "\r\n%s", a->first, a->end - 1, total,
                 s->dialect == SIM_XROOTD ? "" : "Content-Type: application/octet-stream\r\n");
        head(r, s, "206 Partial Content", o, body_len(r), text);
        return;
    }
    int xrootd = s->dialect == SIM_XROOTD;
    const char *boundary = xrootd ? "123456" : "00000000000000000042";
    for (int i = 0; i < n; i++) {
        const struct span *p = !s->shuffles || i == 0 ? &a[i] : i == 1 ? &a[n - 1] : &a[i - 1];
        if (xrootd) /* the last header's line ends as it does there */
            snprintf(text, sizeof text, "\r\n--%s\r\nContent-type: text/plain; charset=UTF-8\r\nContent-range: bytes %" PRIu64 "-%" PRIu64
                     "/%" PRIu64 "\r\n\r\n", boundary, p->first, p->end - 1, total);
        else
            snprintf(text, sizeof text, "\r\n--%s\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes %" PRIu64 "-%" PRIu64
                     "/%" PRIu64 "\r\n\r\n", boundary, p->first, p->end - 1, total);
        add_text(r, text);
        add_bytes(r, p->first, p->end - p->first);
    }
    snprintf(text, sizeof text, "\r\n--%s--\r\n", boundary);
    add_text(r, text);
    snprintf(text, sizeof text, "Content-Type: multipart/byteranges; boundary=%s\r\n", boundary);
    head(r, s, "206 Partial Content", o, body_len(r), text);
}

static struct sim_object *find(struct sim_server *s, const char *path)
{
    size_t n = strcspn(path, "?");
    for (size_t i = 0; i < s->objects; i++)
        if (strlen(s->object[i].path) == n && strncmp(path, s->object[i].path, n) == 0)
            return &s->object[i];
    return NULL;
}

/* A status that comes in place of the answer; 1: one came. */
static int refuses(struct sim_server *s, struct sim_reply *r, const char *path)
{
    char more[512];
    if (s->serves && s->served > s->serves) {
        plain(r, s, "429 Too Many Requests", "");
        return 1;
    }
    if (sim_strikes(s, SIM_F_503) || sim_strikes(s, SIM_F_429)) {
        int told = sim_chance(0.5);
        snprintf(more, sizeof more, "Retry-After: %" PRIu64 "\r\n", sim_between(1, 3));
        plain(r, s, sim_chance(0.5) ? "503 Service Unavailable" : "429 Too Many Requests", told ? more : "");
        return 1;
    }
    if (sim_strikes(s, SIM_F_500)) {
        plain(r, s, "500 Internal Server Error", "");
        return 1;
    }
    if (s->lie.expired > 1) {
        snprintf(more, sizeof more, "Location: %s%.*s\r\n", s->name, (int)strcspn(path, "?"), path);
        plain(r, s, "302 Found", more);
        return 1;
    }
    if (s->lie.expired) {
        plain(r, s, "403 Forbidden", "");
        return 1;
    }
    if (!strchr(path, '?') && (s->lie.moves || sim_strikes(s, SIM_F_REDIRECT))) {
        unsigned n = s->lie.moves ? s->lie.moves : 1;
        snprintf(more, sizeof more, "Location: %s%.400s?moved=%u\r\n", s->other, path, n);
        plain(r, s, "302 Found", more);
        return 1;
    }
    return 0;
}

static void answer(struct sim_server *s, struct sim_reply *r, const char *method, const char *path, const char *const *headers)
{
    static struct span a[RANGES_MOST];
    struct sim_object *o = find(s, path);
    const char *range = header(headers, "Range"), *match = header(headers, "If-Match"), *none = header(headers, "If-None-Match");
    char etag[64], text[128];
    if (refuses(s, r, path))
        return;
    if (!o) {
        plain(r, s, "404 Not Found", "");
        return;
    }
    r->object = o;
    r->version = o->version;
    if (strcmp(method, "PROPFIND") == 0) {
        if (s->dialect == SIM_XROOTD)
            dated(r, s, o);
        else
            plain(r, s, "405 Not Allowed", "");
        return;
    }
    etag_of(o, etag, sizeof etag);
    if (s->dialect != SIM_XROOTD && match && strcmp(match, etag) != 0) {
        plain(r, s, "412 Precondition Failed", "");
        return;
    }
    if (s->dialect != SIM_XROOTD && none && strcmp(none, etag) == 0) {
        head(r, s, "304 Not Modified", o, 0, "");
        return;
    }
    int n = range && s->dialect != SIM_WHOLE ? ranges_of(range, o->size, a) : 0;
    uint64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i].end - a[i].first;
    if (n < 0) {
        snprintf(text, sizeof text, "Content-Range: bytes */%" PRIu64 "\r\n", o->size);
        plain(r, s, "416 Requested Range Not Satisfiable", text);
    } else if (range && strlen(range) > HEADERS_MOST) {
        plain(r, s, "400 Bad Request", "");
    } else if (n == 0 || (s->dialect == SIM_NGINX && sum > o->size)) {
        add_bytes(r, 0, o->size);
        head(r, s, "200 OK", o, o->size, s->dialect == SIM_XROOTD ? "" : "Content-Type: application/octet-stream\r\n");
    } else {
        parts(r, s, o, a, n);
    }
}

struct sim_reply *sim_answer(struct sim_server *s, const char *method, const char *path, const char *const *headers)
{
    struct sim_reply *r = calloc(1, sizeof *r);
    if (!r)
        abort();
    s->met++;
    if (s->lies) {
        const char *range = header(headers, "Range");
        s->lie = s->lies(path, range ? range : "");
        r->lie = s->lie;
    }
    if (s->objects && sim_strikes(s, SIM_F_CHANGED))
        s->object[sim_below(s->objects)].version++;
    if (sim_strikes(s, SIM_F_DROPPED)) {
        r->ends = 1;
        return r;
    }
    if (sim_strikes(s, SIM_F_SILENT))
        return r;
    answer(s, r, method, path, headers);
    r->len = r->sent_len = body_len(r);
    uint64_t body = r->len - r->piece[0].len;
    if (body > 0 && sim_strikes(s, SIM_F_CUT)) {
        r->sent_len = r->piece[0].len + sim_below(body);
        r->ends = 1;
    } else if (body > 0 && sim_strikes(s, SIM_F_STALL)) {
        r->sent_len = r->piece[0].len + sim_below(body);
    } else if (body > 0 && sim_strikes(s, SIM_F_TRICKLE)) {
        r->sent_len = r->piece[0].len;
        r->lie = (struct sim_lie){.halts = 1, .step_bytes = 1, .step_ns = 50 * SIM_MS};
    } else if (r->lie.halts) {
        r->sent_len = r->piece[0].len + body / 2;
    }
    return r;
}

size_t sim_reply_bytes(const struct sim_reply *r, uint64_t pos, uint8_t *out, size_t len)
{
    const struct sim_piece *p = r->piece;
    while (pos >= p->len)
        pos -= p++->len;
    if (len > p->len - pos)
        len = (size_t)(p->len - pos);
    if (p->text)
        memcpy(out, p->text + pos, len);
    else
        sim_content(r->object, r->version, p->off + pos, out, len);
    return len;
}
