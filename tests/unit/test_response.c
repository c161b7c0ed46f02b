/* Suite response: status lines, headers, Content-Range, Link, multipart/byteranges, PROPFIND and
 * the dialect's hint, against generated, split and hostile input. */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "origin/dialect.h"
#include "origin/response.h"

static uint64_t seed;

static uint64_t dice(uint64_t n) /* splitmix64 */
{
    uint64_t z = seed += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return n ? (z ^ z >> 31) % n : 0;
}

/* Feeds a block of header lines separated by '\n'. Returns what the last line gave. */
static int feed(struct xh_reply *r, const char *lines)
{
    int over = 0;
    if (r->over && strncmp(lines, "HTTP/", 5) == 0) /* another reply, and no trailer */
        xh_reply_init(r);
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        over = xh_reply_line(r, lines, n + 1, 1000000);
        lines += n + 1;
    }
    return over;
}

static int range_of(const char *s, struct xh_content_range *r)
{
    return xh_content_range_parse(s, strlen(s), r);
}

/* ---- Content-Range */

Test(response, content_range_in_its_three_forms)
{
    struct xh_content_range r;
    cr_assert_eq(range_of("bytes 10-19/100", &r), 0);
    cr_assert(r.given && !r.unsatisfied && r.total_known && r.first == 10 && r.last == 19 && r.total == 100);
    cr_assert_eq(range_of(" bytes 0-0/*", &r), 0);
    cr_assert(!r.total_known && r.first == 0 && r.last == 0);
    cr_assert_eq(range_of("bytes */7\r", &r), 0);
    cr_assert(r.unsatisfied && r.total_known && r.total == 7);
    cr_assert_eq(range_of("BYTES 9223372036854775805-9223372036854775806/9223372036854775807", &r), 0);
    cr_assert_eq(r.last, (uint64_t)INT64_MAX - 1);
}

Test(response, content_range_refuses_what_cannot_be)
{
    static const char *const bad[] = {
        "", "bytes", "bytes ", "bytes 1", "bytes 1-", "bytes 1-2", "bytes 1-2/", "bytes -2/9", "bytes 3-2/9",
        "bytes 0-9/9", "bytes 0-10/9", "bytes +1-2/9", "bytes 1-2/-9", "bytes 1-2/9x", "bytes 1-2/9, 3-4/9",
        "bytes */*", "bytes 0x1-2/9", "items 1-2/9", "bytes1-2/9", "bytes 1--2/9", "bytes 1-2//9",
        "bytes 0-9223372036854775808/9223372036854775809", "bytes 0-1/99999999999999999999999999999999999",
        "bytes 18446744073709551615-18446744073709551616/*", "bytes 1-2/9 3",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct xh_content_range r = {.first = 77};
        cr_expect_eq(range_of(bad[i], &r), -1, "accepted: %s", bad[i]);
        cr_expect_eq(r.first, 77, "touched for: %s", bad[i]);
    }
}

Test(response, content_range_survives_random_bytes)
{
    static const char alphabet[] = "bytes 0123456789-/*\t\r";
    struct xh_content_range r;
    seed = 1;
    for (int i = 0; i < 200000; i++) {
        char s[48] = "bytes ";
        size_t from = dice(2) ? 6 : 0, n = from + dice(40);
        for (size_t k = from; k < n; k++)
            s[k] = alphabet[dice(sizeof alphabet - 1)];
        if (xh_content_range_parse(s, n, &r) == 0 && !r.unsatisfied) {
            cr_assert_leq(r.first, r.last);
            if (r.total_known)
                cr_assert_lt(r.last, r.total);
        }
    }
}

/* ---- headers */

Test(response, reply_of_nginx_and_of_xrootd)
{
    struct xh_reply r;
    xh_reply_init(&r);
    cr_assert_eq(feed(&r, "HTTP/1.1 206 Partial Content\r\nServer: nginx/1.26.3\r\nContent-Length: 10\r\n"
                          "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: \"6b01-11e1\"\r\n"
                          "Content-Range: bytes 0-9/300\r\n\r\n"), 1);
    cr_assert(r.status == 206 && r.over && !r.contradictory && r.length_given && r.length == 10);
    cr_assert_str_eq(r.etag, "\"6b01-11e1\"");
    cr_assert_str_eq(r.last_modified, "Sun, 06 Nov 1994 08:49:37 GMT");
    cr_assert_eq(r.range.total, 300);
    cr_assert_eq(feed(&r, "HTTP/1.1 206 Partial Content\nContent-type: multipart/byteranges; boundary=123456\n\n"), 1);
    cr_assert(r.multipart && !r.etag[0] && !r.length_given && !r.range.given);
    cr_assert_str_eq(r.boundary, "123456");
}

Test(response, boundary_in_every_writing)
{
    static const char *const good[] = {
        "multipart/byteranges; boundary=B_1", "Multipart/ByteRanges;boundary=\"B_1\"",
        "multipart/byteranges; charset=x; boundary=B_1; more=y", "multipart/byteranges ; Boundary=B_1",
    };
    static const char *const bad[] = {
        "multipart/byteranges", "multipart/byteranges; boundary=", "multipart/byteranges; boundary=\"\"",
        "multipart/mixed; boundary=B_1", "multipart/byteranges; xboundary=B_1", "multipart/byteranges;", "",
    };
    char line[256];
    struct xh_reply r;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        xh_reply_init(&r);
        snprintf(line, sizeof line, "HTTP/1.1 206 OK\nContent-Type: %s\n\n", good[i]);
        feed(&r, line);
        cr_expect(r.multipart, "%s", good[i]);
        cr_expect_str_eq(r.boundary, "B_1", "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        xh_reply_init(&r);
        snprintf(line, sizeof line, "HTTP/1.1 206 OK\nContent-Type: %s\n\n", bad[i]);
        feed(&r, line);
        cr_expect(!r.multipart, "%s", bad[i]);
    }
}

Test(response, an_interim_reply_leaves_nothing_behind)
{
    struct xh_reply r;
    xh_reply_init(&r);
    cr_assert_eq(feed(&r, "HTTP/1.1 103 Early Hints\nETag: \"early\"\nContent-Length: 5\n\n"), 0);
    cr_assert(!r.over);
    cr_assert_eq(feed(&r, "HTTP/1.1 200 OK\n\n"), 1);
    cr_assert(r.status == 200 && !r.etag[0] && !r.length_given);
}

/* The ETag as it is kept of a reply that has it in the header |line|. */
static const char *etag_of(struct xh_reply *r, const char *line)
{
    xh_reply_init(r);
    feed(r, "HTTP/1.1 206 OK\n");
    feed(r, line);
    feed(r, "\n");
    return r->etag;
}

Test(response, an_etag_is_never_absent_because_it_is_odd)
{
    struct xh_reply r, s;
    char line[1000];
    cr_assert_str_eq(etag_of(&r, "ETag: \"a\"\n"), "\"a\"");
    cr_assert_str_eq(etag_of(&r, "ETag: \"a-gzip\"\n"), "\"a\"");
    cr_assert_str_eq(etag_of(&r, "ETag: W/\"a-br\"\n"), "W/\"a\"");
    cr_assert_str_eq(etag_of(&r, "ETag: \"-gzip\"\n"), "\"-gzip\"");
    cr_assert_str_eq(etag_of(&r, "ETag: abc-gzip\n"), "abc-gzip");
    cr_assert_str_eq(etag_of(&r, "ETag:\n"), "");
    static const char *const weak[] = {"ETag: abc\n", "ETag: W/\"a\"\n", "ETag: w/\"a\"\n", "ETag: \"abc\n",
                                       "ETag: \"a\"b\"\n", "ETag: \"\"\n",
                                       "ETag: #s3-00\n", "ETag: a b\n", "ETag: \"\n", "ETag: \xe9\n", "ETag: a\x01\n"};
    for (size_t i = 0; i < sizeof weak / sizeof *weak; i++)
        cr_expect(etag_of(&r, weak[i])[0] && !xh_etag_is_strong(r.etag), "%s: %s", weak[i], r.etag);
    cr_assert(xh_etag_is_strong(etag_of(&r, "ETag: \"\xe9\"\n")), "%s", r.etag);
    for (size_t n = 200; n < 600; n += 7) {
        snprintf(line, sizeof line, "ETag: \"%0*d\"\n", (int)n, 1);
        cr_assert(xh_etag_is_strong(etag_of(&r, line)) && strlen(r.etag) < XH_HEADER_BYTES);
        snprintf(line, sizeof line, "ETag: \"%0*d-gzip\"\n", (int)n, 1);
        cr_assert_str_eq(etag_of(&s, line), r.etag, "%zu", n);
        snprintf(line, sizeof line, "ETag: \"%0*d\"\n", (int)n, 2);
        cr_assert_str_neq(etag_of(&s, line), r.etag);
        snprintf(line, sizeof line, "ETag: W/\"%0*d\"\n", (int)n, 1);
        cr_assert(!xh_etag_is_strong(etag_of(&s, line)) && strlen(s.etag) < XH_WEAK_TAG_BYTES);
    }
    cr_assert(!r.contradictory);
    etag_of(&r, "ETag: \"a\"\nETag: \"a-gzip\"\n");
    cr_assert(!r.contradictory);
    etag_of(&r, "ETag: \"a\"\nETag: \"b\"\n");
    cr_assert(r.contradictory);
}

Test(response, date_and_type_of_a_reply)
{
    struct xh_reply r;
    etag_of(&r, "Date: Sun, 06 Nov 1994 08:49:37 GMT\nContent-Type: Text/HTML; charset=utf-8\n");
    cr_assert(r.date == 784111777 && r.html);
    etag_of(&r, "Date: now\nContent-Type: text/htmlx\n");
    cr_assert(r.date == -1 && !r.html);
    etag_of(&r, "Content-Type: application/xhtml+xml\n");
    cr_assert(r.date == -1 && r.html);
}

Test(response, a_trailer_changes_nothing)
{
    struct xh_reply r;
    xh_reply_init(&r);
    feed(&r, "HTTP/1.1 206 OK\nETag: \"a\"\n\n");
    feed(&r, "ETag: \"b\"\nContent-Range: bytes 0-1/2\n\n");
    cr_assert_str_eq(r.etag, "\"a\"");
    cr_assert(!r.range.given);
}

Test(response, two_meanings_of_one_header_are_a_contradiction)
{
    struct xh_reply r;
    xh_reply_init(&r);
    feed(&r, "HTTP/1.1 206 OK\nContent-Length: 5\nContent-Length: 5\n\n");
    cr_assert(!r.contradictory);
    feed(&r, "HTTP/1.1 206 OK\nContent-Length: 5\nContent-Length: 6\n\n");
    cr_assert(r.contradictory);
    feed(&r, "HTTP/1.1 206 OK\nContent-Range: bytes 0-1/9\nContent-Range: bytes 2-3/9\n\n");
    cr_assert(r.contradictory);
    feed(&r, "HTTP/1.1 206 OK\nContent-Length: -1\n\n");
    cr_assert(r.contradictory);
    feed(&r, "HTTP/1.1 206 OK\nContent-Length: 99999999999999999999\n\n");
    cr_assert(r.contradictory && !r.length_given);
    feed(&r, "HTTP/1.1 206 OK\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\n"
             "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\n\n");
    cr_assert(!r.contradictory);
    feed(&r, "HTTP/1.1 206 OK\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\n"
             "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT\n\n");
    cr_assert(r.contradictory);
}

Test(response, of_several_encodings_each_one_counts)
{
    struct xh_reply r;
    xh_reply_init(&r);
    feed(&r, "HTTP/1.1 206 OK\nContent-Encoding: gzip\nContent-Encoding: identity\n\n");
    cr_assert(r.encoded);
    cr_assert_str_eq(r.encoding, "gzip");
    feed(&r, "HTTP/1.1 206 OK\nContent-Encoding: identity\nContent-Encoding: gzip\n\n");
    cr_assert(r.encoded);
    feed(&r, "HTTP/1.1 206 OK\nContent-Encoding: gzip\nContent-Encoding:\n\n");
    cr_assert(r.encoded);
    feed(&r, "HTTP/1.1 206 OK\nContent-Encoding: identity\nContent-Encoding: identity\n\n");
    cr_assert(!r.encoded);
}

Test(response, the_framing_of_an_upload_is_no_encoding_of_what_comes)
{
    static const char *const plain[] = {"aws-chunked", "AWS-Chunked", "aws-chunked,", "identity, aws-chunked", " , "};
    static const char *const packed[] = {"aws-chunked,gzip", "gzip, aws-chunked", "aws-chunked2", "aws", "x, identity"};
    char text[128];
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        struct xh_reply r;
        xh_reply_init(&r);
        snprintf(text, sizeof text, "HTTP/1.1 206 OK\nContent-Encoding: %s\n\n", plain[i]);
        feed(&r, text);
        cr_expect(!r.encoded, "%s", plain[i]);
        snprintf(text, sizeof text, "HTTP/1.1 206 OK\nContent-Encoding: %s\n\n", packed[i]);
        feed(&r, text);
        cr_expect(r.encoded, "%s", packed[i]);
        cr_expect_str_eq(r.encoding, packed[i]);
    }
}

Test(response, what_is_too_long_counts_as_absent)
{
    struct xh_reply r;
    static char line[20000];
    xh_reply_init(&r);
    feed(&r, "HTTP/1.1 302 Found\n");
    int n = sprintf(line, "Location: https://h/");
    memset(line + n, 'l', XH_LOCATION_BYTES);
    sprintf(line + n + XH_LOCATION_BYTES, "\n");
    feed(&r, line);
    cr_assert_str_eq(r.location, "");
    feed(&r, "Location: https://h/a\x01" "b\n");
    cr_assert_str_eq(r.location, "");
}

/* A server may write into a trailer what it likes, and a proxy may have left a whole reply there. */
Test(response, a_trailer_is_never_a_status_line)
{
    static const char *const lines[] = {"HTTP/1.1 206 Partial Content\r\n", "HTTP/1.1 100 Continue\r\n",
                                        "Content-Length: 7\r\n",
                                        "ETag: \"other\"\r\n", "\r\n", "HTTP/1.1 500 No\r\n", "\r\n"};
    struct xh_reply r;
    xh_reply_init(&r);
    cr_assert_eq(feed(&r, "HTTP/1.1 206 OK\nETag: \"a\"\nContent-Range: bytes 0-9/100\nTransfer-Encoding: chunked\n\n"),
                 1);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        cr_assert_eq(xh_reply_line(&r, lines[i], strlen(lines[i]), 0), 0, "%s", lines[i]);
        cr_assert(r.over && r.status == 206 && r.range.last == 9 && !r.length_given && strcmp(r.etag, "\"a\"") == 0);
    }
}

Test(response, retry_after_in_seconds_and_as_a_date)
{
    struct xh_reply r;
    xh_reply_init(&r);
    feed(&r, "HTTP/1.1 503 Busy\nRetry-After: 7\n\n");
    cr_assert_eq(r.retry_after_s, 7);
    feed(&r, "HTTP/1.1 503 Busy\nRetry-After: Mon, 12 Jan 1970 13:46:50 GMT\n\n"); /* 1,000,010 s */
    cr_assert_eq(r.retry_after_s, 10);
    feed(&r, "HTTP/1.1 503 Busy\nRetry-After: Thu, 01 Jan 1970 00:00:01 GMT\n\n");
    cr_assert_eq(r.retry_after_s, 0);
    feed(&r, "HTTP/1.1 503 Busy\nRetry-After: 999999999999\n\n");
    cr_assert_eq(r.retry_after_s, 86400);
    feed(&r, "HTTP/1.1 503 Busy\nRetry-After: soon\n\n");
    cr_assert_eq(r.retry_after_s, -1);
    /* Both are the server's word, whatever the time is here. */
    feed(&r, "HTTP/1.1 503 Busy\nRetry-After: Sun, 06 Nov 1994 08:50:37 GMT\nDate: Sun, 06 Nov 1994 08:49:37 GMT\n\n");
    cr_assert_eq(r.retry_after_s, 60);
    feed(&r, "HTTP/1.1 503 Busy\nDate: Sun, 06 Nov 1994 08:51:37 GMT\nRetry-After: Sun, 06 Nov 1994 08:50:37 GMT\n\n");
    cr_assert_eq(r.retry_after_s, 0);
    feed(&r, "HTTP/1.1 503 Busy\nDate: now\nRetry-After: Mon, 12 Jan 1970 13:46:50 GMT\n\n");
    cr_assert_eq(r.retry_after_s, 10);
    cr_assert_eq(xh_http_date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
    cr_assert_eq(xh_http_date("Sun, 36 Nov 1994 08:49:37 GMT"), -1);
    cr_assert_eq(xh_http_date("Sunday, 06-Nov-94 08:49:37 GMT"), -1);
}

Test(response, random_header_lines_do_no_harm)
{
    struct xh_reply r;
    static const char *const names[] = {"Content-Range:", "Content-Length:", "Content-Type: multipart/byteranges;",
                                        "HTTP/1.1 ",      "Retry-After:",    "ETag:", ""};
    seed = 2;
    xh_reply_init(&r);
    for (int i = 0; i < 200000; i++) {
        char line[128];
        size_t n = (size_t)sprintf(line, "%s", names[dice(7)]);
        size_t end = n + dice(sizeof line - n);
        for (; n < end; n++)
            line[n] = dice(3) ? (char)dice(256) : "bytes=;\"boundary 0123456789-/*"[dice(30)];
        /* A copy of exact length, for the address sanitizer. */
        char *exact = malloc(n ? n : 1);
        memcpy(exact, line, n);
        xh_reply_line(&r, exact, n, 5);
        free(exact);
        cr_assert(r.status == 0 || (r.status >= 100 && r.status <= 999));
    }
}

/* ---- multipart */

#define OBJECT_BYTES 4096

static uint8_t object[OBJECT_BYTES];
static uint8_t seen[OBJECT_BYTES]; /* how often each byte came */

static int on_part(void *ctx, const struct xh_content_range *r)
{
    (*(int *)ctx)++;
    return r->total == OBJECT_BYTES ? 0 : 5;
}

static int on_data(void *ctx, uint64_t off, const uint8_t *p, size_t len)
{
    cr_assert(len > 0 && off < OBJECT_BYTES && len <= OBJECT_BYTES - off);
    cr_assert_eq(memcmp(object + off, p, len), 0);
    for (size_t i = 0; i < len; i++)
        seen[off + i]++;
    return 0;
}

static size_t put(char *out, size_t used, const char *s)
{
    size_t n = strlen(s);
    memcpy(out + used, s, n);
    return used + n;
}

/* Writes a multipart of |n| random parts; marks their bytes in |want|. */
static size_t generate(char *out, size_t n, const char *boundary, uint8_t *want)
{
    char line[300];
    const char *nl = dice(2) ? "\r\n" : "\n";
    size_t used = 0;
    if (dice(3) == 0)
        used = put(out, used, "a preamble that nobody reads\r\n");
    for (size_t i = 0; i < n; i++) {
        uint64_t off = dice(OBJECT_BYTES), len = 1 + dice(dice(4) ? 60 : OBJECT_BYTES);
        if (len > OBJECT_BYTES - off)
            len = OBJECT_BYTES - off;
        if (i > 0 || dice(2))
            used = put(out, used, nl);
        snprintf(line, sizeof line, "--%s%s%s", boundary, dice(4) ? "" : "  ", nl);
        used = put(out, used, line);
        if (dice(2)) {
            snprintf(line, sizeof line, "Content-type: text/plain; charset=UTF-8%s", nl);
            used = put(out, used, line);
        }
        snprintf(line, sizeof line, "Content-range: bytes %" PRIu64 "-%" PRIu64 "/%d%s%s", off, off + len - 1,
                 OBJECT_BYTES, nl, nl);
        used = put(out, used, line);
        memcpy(out + used, object + off, len);
        used += len;
        for (uint64_t k = off; k < off + len; k++)
            want[k]++;
    }
    snprintf(line, sizeof line, "%s--%s--", nl, boundary);
    used = put(out, used, line);
    if (dice(2))
        used = put(out, used, nl);
    else if (dice(2))
        used = put(out, used, "\r\nan epilogue\r\n--and more");
    return used;
}

static void fill_object(const char *boundary)
{
    char delimiter[300];
    for (size_t i = 0; i < OBJECT_BYTES; i++)
        object[i] = (uint8_t)dice(256);
    /* The data is full of what begins like delimiters. */
    snprintf(delimiter, sizeof delimiter, "\r\n--%s", boundary);
    for (int i = 0; i < 80; i++) {
        size_t n = 1 + dice(strlen(delimiter) - 1), from = dice(2);
        memcpy(object + dice(OBJECT_BYTES - 300), delimiter + from, n > from ? n - from : 0);
    }
    for (uint8_t *p; (p = memmem(object, sizeof object, delimiter + 1, strlen(delimiter) - 1)) != NULL;)
        p[1] = 'x';
}

/* Feeds in pieces of at most |most| bytes (0: random). Each piece has its own memory. */
static int feed_multipart(const char *text, size_t n, const char *boundary, size_t most, int *parts)
{
    struct xh_multipart m;
    struct xh_multipart_sink sink = {on_part, on_data, parts};
    int rc = 0;
    xh_multipart_init(&m, boundary);
    memset(seen, 0, sizeof seen);
    *parts = 0;
    for (size_t at = 0; at < n && rc == 0;) {
        size_t piece = most ? most : 1 + dice(200);
        if (piece > n - at)
            piece = n - at;
        uint8_t *exact = malloc(piece);
        memcpy(exact, text + at, piece);
        rc = xh_multipart_feed(&m, exact, piece, &sink);
        free(exact);
        at += piece;
    }
    return rc;
}

Test(response, multipart_split_anywhere_gives_every_part_once)
{
    static char text[200000];
    static uint8_t want[OBJECT_BYTES];
    seed = 3;
    for (int round = 0; round < 300; round++) {
        int parts;
        const char *boundary = round % 2 ? "123456" : "00000000000000000017";
        size_t n = 1 + dice(12);
        fill_object(boundary);
        memset(want, 0, sizeof want);
        size_t bytes = generate(text, n, boundary, want);
        for (size_t most = 0; most < 4; most++) {
            cr_assert_eq(feed_multipart(text, bytes, boundary, most, &parts), 0, "round %d", round);
            cr_assert_eq(parts, (int)n);
            cr_assert_eq(memcmp(seen, want, sizeof seen), 0);
        }
        cr_assert_eq(feed_multipart(text, bytes, boundary, bytes, &parts), 0);
        cr_assert_eq(parts, (int)n);
    }
}

Test(response, multipart_split_at_each_single_place)
{
    static char text[100000];
    static uint8_t want[OBJECT_BYTES];
    struct xh_multipart m;
    int parts;
    struct xh_multipart_sink sink = {on_part, on_data, &parts};
    seed = 4;
    fill_object("B");
    memset(want, 0, sizeof want);
    size_t n = generate(text, 4, "B", want);
    for (size_t cut = 0; cut <= n; cut++) {
        parts = 0;
        memset(seen, 0, sizeof seen);
        xh_multipart_init(&m, "B");
        cr_assert_eq(xh_multipart_feed(&m, (const uint8_t *)text, cut, &sink), 0);
        cr_assert_eq(xh_multipart_feed(&m, (const uint8_t *)text + cut, n - cut, &sink), 0);
        cr_assert_eq(parts, 4);
        cr_assert_eq(m.state, XH_MP_END);
        cr_assert_eq(memcmp(seen, want, sizeof seen), 0);
    }
}

static int feed_text(const char *text)
{
    int parts;
    return feed_multipart(text, strlen(text), "B", 3, &parts);
}

Test(response, multipart_refuses_what_lies)
{
    static char text[100000];
    memset(object, 'x', sizeof object);
    cr_expect_eq(feed_text("--B\nContent-Range: bytes 0-1/4096\n\nxx\n--B--\n"), 0);
    cr_expect_eq(feed_text("--B\n\nxx\n--B--\n"), -1, "a part without Content-Range");
    cr_expect_eq(feed_text("--B\nContent-Range: bytes 0-1/4096\n\nxxx\n--B--\n"), -1, "a part longer than it said");
    cr_expect_eq(feed_text("--B\nContent-Range: bytes 0-1/4096\nContent-Range: bytes 2-3/4096\n\n"), -1, "two ranges");
    cr_expect_eq(feed_text("--B\nContent-Range: bytes */4096\n\n"), -1, "no range at all");
    cr_expect_eq(feed_text("--B\nContent-Range: bytes 1-0/4096\n\n"), -1, "backwards");
    cr_expect_eq(feed_text("--B\nContent-Range: bytes 0-99999999999999999999/4096\n\n"), -1, "overflow");
    cr_expect_eq(feed_text("--B\nContent-Range: bytes 0-1/5000\n\n"), 5, "the sink's refusal comes back");
    cr_expect_eq(feed_text("--B\nContent-Range: bytes 0-1/4096\n\nxx\n--C\n"), -1, "another boundary");
    strcpy(text, "--B\n");
    for (int i = 0; i < 100; i++)
        strcat(text, "X-Header: for ever\n");
    cr_expect_eq(feed_text(text), -1, "headers without end");
    memset(text, 'h', 5000);
    text[5000] = '\0';
    cr_expect_eq(feed_text(text), -1, "a line without end");
    text[0] = '\0';
    for (int i = 0; i < 100; i++)
        strcat(text, "preamble\n");
    cr_expect_eq(feed_text(text), -1, "a preamble without end");
}

/* By as few bytes as the end of a line has, or its first half: no byte of a delimiter comes as data. (A part that is
 * longer is told by what stands behind it.) */
Test(response, a_part_that_is_shorter_than_it_says_is_told)
{
    static char text[200000];
    int parts;
    seed = 6;
    for (int round = 0; round < 3000; round++) {
        const char *nl = dice(2) ? "\r\n" : "\n", *boundary = dice(2) ? "B" : "00000000000000000017";
        size_t off[2], len[2], used = 0, lacks = 1 + dice(dice(2) ? 3 : 60), bad = dice(2);
        fill_object(boundary);
        for (size_t i = 0; i < 2; i++) {
            len[i] = 61 + dice(300);
            off[i] = dice(OBJECT_BYTES - 400);
            if (i == bad && dice(2)) /* by chance it ends as a delimiter begins */
                memcpy(object + off[i] + len[i] - lacks - 1, "\r", 1);
        }
        for (size_t i = 0; i < 2; i++) {
            used += (size_t)sprintf(text + used, "%s--%s%sContent-Range: bytes %zu-%zu/%d%s%s", nl, boundary, nl,
                                    off[i], off[i] + len[i] - 1, OBJECT_BYTES, nl, nl);
            size_t n = len[i] - (i == bad ? lacks : 0);
            memcpy(text + used, object + off[i], n);
            used += n;
        }
        used += (size_t)sprintf(text + used, "%s--%s--%s", nl, boundary, nl);
        /* on_data compares what comes */
        cr_assert_eq(feed_multipart(text, used, boundary, dice(4), &parts), -1, "round %d: %zu bytes are missing",
                     round, lacks);
    }
}

Test(response, a_broken_multipart_stays_broken)
{
    struct xh_multipart m;
    int parts = 0;
    struct xh_multipart_sink sink = {on_part, on_data, &parts};
    xh_multipart_init(&m, "B");
    cr_assert_eq(xh_multipart_feed(&m, (const uint8_t *)"--B\n\n", 5, &sink), -1);
    const char *good = "--B\nContent-Range: bytes 0-1/4096\n\nxx";
    cr_assert_eq(xh_multipart_feed(&m, (const uint8_t *)good, strlen(good), &sink), -1);
    cr_assert_eq(parts, 0);
}

static int any_part(void *ctx, const struct xh_content_range *r)
{
    cr_assert_leq(r->first, r->last);
    return 0;
}

static int any_data(void *ctx, uint64_t off, const uint8_t *p, size_t len)
{
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < len; i++)
        sum = (uint8_t)(sum + p[i]);
    return 0;
}

Test(response, multipart_survives_damaged_input)
{
    static char text[200000];
    static uint8_t want[OBJECT_BYTES];
    struct xh_multipart_sink sink = {any_part, any_data, NULL};
    seed = 5;
    for (int round = 0; round < 3000; round++) {
        struct xh_multipart m;
        fill_object("B");
        size_t n = generate(text, 1 + dice(5), "B", want);
        for (uint64_t k = 1 + dice(10); k > 0; k--)
            text[dice(n)] = dice(2) ? (char)dice(256) : "0123456789-\r\n/*"[dice(15)];
        xh_multipart_init(&m, "B");
        for (size_t at = 0; at < n;) {
            size_t piece = 1 + dice(300);
            if (piece > n - at)
                piece = n - at;
            if (xh_multipart_feed(&m, (const uint8_t *)text + at, piece, &sink) != 0)
                break;
            at += piece;
        }
    }
}

/* ---- PROPFIND */

static const char xrootd_xml[] =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\" "
    "xmlns:ns1=\"http://apache.org/dav/props/\">\n"
    "<D:response><D:href>/big.bin</D:href><D:propstat><D:prop><lp1:getcontentlength>300000000</lp1:getcontentlength>\n"
    "<lp1:getlastmodified> Sat, 21 Nov 2026 07:18:57 GMT</lp1:getlastmodified></D:prop></D:propstat></D:response>";

static struct xh_xml all_of(const char *text)
{
    return (struct xh_xml){text, strlen(text)};
}

static int is(struct xh_xml part, const char *text)
{
    return part.len == strlen(text) && memcmp(part.at, text, part.len) == 0;
}

Test(response, propfind_of_a_directory_finds_each_resource)
{
    static const char text[] =
        "<D:multistatus><D:response xmlns:lp1=\"DAV:\"><D:href>/d/</D:href><lp1:resourcetype><D:collection/>"
        "</lp1:resourcetype></D:response><D:response/><D:response><no/></D:response>"
        "<x:response><x:href> /d/a&amp;b.h5\n</x:href><x:getcontentlength>7</x:getcontentlength>"
        "<x:getlastmodified>Sat</x:getlastmodified></x:response><D:response><D:href>/d/cut</D:href>";
    struct xh_xml rest = all_of(text), path, of;
    char date[32], plain[16];
    uint64_t length;
    cr_assert(xh_propfind_next(&rest, &path, &of) && is(path, "/d/"));
    cr_expect(xh_propfind_is_directory(of) && !xh_propfind_parse(of, date, sizeof date, &length));
    cr_assert(xh_propfind_next(&rest, &path, &of) && is(path, "/d/a&amp;b.h5"));
    cr_expect(!xh_propfind_is_directory(of) && xh_propfind_parse(of, date, sizeof date, &length) && length == 7);
    cr_expect_eq(xh_xml_plain(path, plain, sizeof plain), 9);
    cr_expect_eq(memcmp(plain, "/d/a&b.h5", 9), 0);
    cr_expect_eq(xh_xml_plain(path, plain, 8), 0);
    cr_expect_not(xh_propfind_next(&rest, &path, &of));
    for (size_t n = 0; n < sizeof text; n++) { /* no byte behind the end is looked at */
        char *copy = malloc(n ? n : 1);
        memcpy(copy, text, n);
        for (struct xh_xml some = {copy, n}; xh_propfind_next(&some, &path, &of);)
            cr_expect(of.at >= copy && of.at + of.len <= copy + n && path.at + path.len <= of.at + of.len);
        free(copy);
    }
}

Test(response, entities_of_xml_are_read_and_what_is_none_stays)
{
    static const char text[] = "&amp;&lt;&gt;&quot;&apos;&#39;&#34;&#x26;&#xe9;&#300;&nbsp;&#;&#x;&;& &amp";
    static const char want[] = "&<>\"''\"&&#xe9;&#300;&nbsp;&#;&#x;&;& &amp";
    char out[128];
    size_t n = xh_xml_plain(all_of(text), out, sizeof out);
    cr_expect_eq(n, sizeof want - 1);
    cr_expect_eq(memcmp(out, want, sizeof want - 1), 0, "%.*s", (int)n, out);
    for (size_t i = 0; i < sizeof text; i++) { /* no byte behind the end is looked at */
        char *copy = malloc(i ? i : 1);
        memcpy(copy, text, i);
        xh_xml_plain((struct xh_xml){copy, i}, out, sizeof out);
        free(copy);
    }
}

Test(response, propfind_of_xrootd)
{
    char date[XH_HEADER_BYTES];
    uint64_t length = 0;
    cr_assert_eq(xh_propfind_parse(all_of(xrootd_xml), date, sizeof date, &length), 1);
    cr_assert_str_eq(date, "Sat, 21 Nov 2026 07:18:57 GMT");
    cr_assert_eq(length, 300000000);
}

Test(response, propfind_refuses_halves_and_survives_damage)
{
    static const char *const bad[] = {
        "", "<", "<a", "<getcontentlength>", "<getcontentlength>5", "<getcontentlength>5</getcontentlength>",
        "<getcontentlength>-5</getcontentlength><getlastmodified>x</getlastmodified>",
        "<getcontentlength/><getlastmodified>x</getlastmodified>",
        "<getcontentlength>5</getcontentlength><getlastmodified></getlastmodified>",
        "<xgetcontentlength>5</xgetcontentlength><getlastmodified>x</getlastmodified>",
        "<getcontentlength>99999999999999999999</getcontentlength><getlastmodified>x</getlastmodified>",
    };
    char date[32];
    uint64_t length;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_eq(xh_propfind_parse(all_of(bad[i]), date, sizeof date, &length), 0, "%s", bad[i]);
    seed = 6;
    for (int i = 0; i < 20000; i++) {
        size_t n = dice(sizeof xrootd_xml);
        char *copy = malloc(n ? n : 1);
        memcpy(copy, xrootd_xml, n);
        for (uint64_t k = dice(8); n && k > 0; k--)
            copy[dice(n)] = (char)dice(256);
        xh_propfind_parse((struct xh_xml){copy, n}, date, sizeof date, &length);
        free(copy);
    }
}

Test(response, propfind_tells_a_directory)
{
    static const char *const yes[] = {"<lp1:resourcetype><D:collection/></lp1:resourcetype>", "<collection></collection>",
                                      "<x:collection />"};
    static const char *const no[] = {"", "<", "<iscollection>0</iscollection>", "<collections/>", "collection",
                                     "<a:b collection/>", "</D:collection>"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        cr_expect(xh_propfind_is_directory(all_of(yes[i])), "%s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        cr_expect_not(xh_propfind_is_directory(all_of(no[i])), "%s", no[i]);
    cr_expect_not(xh_propfind_is_directory(all_of(xrootd_xml)));
    for (size_t n = 0; n < strlen(yes[0]); n++) { /* no byte behind the end is looked at */
        char *copy = malloc(n ? n : 1);
        memcpy(copy, yes[0], n);
        xh_propfind_is_directory((struct xh_xml){copy, n});
        free(copy);
    }
}

/* ---- the dialect */

Test(dialect, a_hint_comes_back_as_it_went)
{
    static const struct {
        enum xh_proof proof;
        const char *value;
    } proofs[] = {{XH_BY_SIZE, ""},
                  {XH_BY_ETAG, "\"6b01 x-11\""},
                  {XH_BY_ETAG, "#s400-00ff"},
                  {XH_BY_WEAK_ETAG, "W/\"a\""},
                  {XH_BY_WEAK_ETAG, "unquoted"},
                  {XH_BY_DATE, "Sun, 06 Nov 1994 08:49:37 GMT"},
                  {XH_BY_PROPFIND, "Sun, 06 Nov 1994 08:49:37 GMT"}};
    for (size_t i = 0; i < sizeof proofs / sizeof *proofs; i++) {
        struct xh_dialect d, back;
        char hint[1024], validator[512];
        xh_dialect_init(&d);
        d.size = 123456789012;
        cr_assert(xh_dialect_set_proof(&d, proofs[i].proof, proofs[i].value));
        d.youth = d.proof != XH_BY_SIZE && d.proof != XH_BY_WEAK_ETAG ? XH_YOUNG : XH_OLD;
        if (d.proof == XH_BY_DATE)
            snprintf(d.tag, sizeof d.tag, "\"a\"");
        cr_assert_gt(xh_dialect_hint(&d, hint, sizeof hint), 0);
        cr_assert_gt(xh_dialect_validator(&d, validator, sizeof validator), 0);
        cr_assert_eq(xh_dialect_from_hint(&back, hint), 0, "%s", hint);
        cr_assert(back.proof == d.proof && back.size == d.size && strcmp(back.value, d.value) == 0 &&
                  back.youth == d.youth && strcmp(back.tag, d.tag) == 0);
        cr_assert_eq(xh_dialect_hint(&d, hint, 20), 0);
    }
}

Test(dialect, a_weak_etag_beside_a_date_is_the_strong_one_that_it_becomes)
{
    static const char date[] = "mtime:Sun, 06 Nov 1994 08:49:37 GMT;size:12";
    static const struct {
        const char *tag, *etag; /* behind |date|; and the other */
        int same;
    } pairs[] = {{";tag:\"a\"", "etag:\"a\";size:12", 1},    {";tag:\"a\"", "etag:\"b\";size:12", 0},
                 {";tag:\"a\"", "etag:\"a\";size:123", 0},   {";tag:\"a\"", "etag:\"a\";size:1", 0},
                 {";tag:\"a\"", "etag:\"aa\";size:12", 0},   {"", "etag:;size:12", 0},
                 {";tag:\"a\"", "", 0},                      {"", "size:12", 0},
                 {";tag:\"a;size:12\"", "etag:\"a;size:12\";size:12", 1}};
    char dated[200];
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        snprintf(dated, sizeof dated, "%s%s", date, pairs[i].tag);
        cr_expect_eq(xh_dialect_is_same(dated, pairs[i].etag), pairs[i].same, "%s and %s", dated, pairs[i].etag);
        cr_expect_eq(xh_dialect_is_same(pairs[i].etag, dated), pairs[i].same);
        cr_expect(xh_dialect_is_same(dated, dated));
    }
    cr_expect(xh_dialect_is_same("", ""));
}

Test(dialect, a_forged_hint_is_refused)
{
    static const char *const bad[] = {
        "", "rubbish", "xhdf5-origin-3", "xhdf5-origin-3 size=-1 whole=0 young=0 changed=-1 tag= proof=size value=",
        "xhdf5-origin-3 size=99999999999999999999 whole=0 young=0 changed=-1 tag= proof=size value=",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag= proof=faith value=",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag= proof=etag value=",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag= proof=etag value=unquoted",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag= proof=etag value=\"a\"b\"",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag= proof=etag value=\"a\"\r\nEvil: header",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag= proof=size value=something",
        "xhdf5-origin-2 size=1 whole=0 young=0 tag= proof=size value=",
        "xhdf5-origin-3 size=1 whole=0 young=3 changed=-1 tag= proof=date value=x",
        "xhdf5-origin-3 size=1 whole=0 young=1 changed=-1 tag= proof=weak value=W/\"a\"",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag=\"a\" proof=size value=",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag=a\tb proof=date value=x",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag= proof=weak value=\"a\"",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag= proof=weak value=W/\"a b\"",
        "xhdf5-origin-3 size=1 whole=0 young=0 changed=-1 tag= proof=etag value=#w3-00",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct xh_dialect d = {.size = 42};
        cr_expect_eq(xh_dialect_from_hint(&d, bad[i]), -1, "accepted: %s", bad[i]);
        cr_expect_eq(d.size, 42);
    }
}

/* The dialect of a reply. */
static void learn(struct xh_dialect *d, const char *etag, const char *modified, time_t date)
{
    xh_dialect_init(d);
    xh_dialect_learn(d, etag, modified, date);
}

Test(dialect, a_date_proves_bytes_once_it_is_a_minute_old)
{
    static const char old[] = "Sun, 06 Nov 1994 08:49:37 GMT";
    time_t t = xh_http_date(old);
    struct xh_dialect d;
    learn(&d, "", old, t + XH_SETTLED_S);
    cr_assert(d.proof == XH_BY_DATE && !xh_dialect_is_fleeting(&d, 0));
    learn(&d, "", old, t + XH_SETTLED_S - 1);
    cr_assert(d.proof == XH_BY_DATE && xh_dialect_is_fleeting(&d, 0));
    learn(&d, "", old, -1);
    cr_assert(xh_dialect_is_fleeting(&d, 0), "a server without a clock");
    learn(&d, "", "yesterday", t + 1000);
    cr_assert(d.proof == XH_BY_DATE && xh_dialect_is_fleeting(&d, 0));
    learn(&d, "W/\"a\"", "", t);
    cr_assert(d.proof == XH_BY_WEAK_ETAG && xh_dialect_is_fleeting(&d, 0));
    learn(&d, "", "", t);
    cr_assert(d.proof == XH_BY_SIZE && xh_dialect_is_fleeting(&d, 0));
}

Test(dialect, a_strong_etag_proves_bytes_once_the_date_beside_it_is_two_seconds_old)
{
    static const char old[] = "Sun, 06 Nov 1994 08:49:37 GMT";
    const struct {
        const char *modified;
        int64_t age_s; /* -1000: no Date */
        int fleeting; /* 2: to a reader; 1: to a writer alone, which may publish it */
    } table[] = {{old, 0, 2},  {old, 1, 2},   {old, 2, 1},     {old, 59, 1},        {old, 60, 0},
                 {old, -9, 2}, {old, 999, 0}, {old, -1000, 0}, {"yesterday", 0, 0}, {"", 0, 0}}; /* no time is told */
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct xh_dialect d;
        learn(&d, "\"a\"", table[i].modified, table[i].age_s == -1000 ? -1 : xh_http_date(old) + table[i].age_s);
        cr_expect(d.proof == XH_BY_ETAG && xh_dialect_is_fleeting(&d, 0) == (table[i].fleeting > 1) &&
                  xh_dialect_is_fleeting(&d, 1) == (table[i].fleeting > 0), "%zu", i);
    }
}

Test(dialect, a_date_by_propfind_proves_bytes_by_our_clock_to_a_writer_a_minute_later)
{
    static const char old[] = "Sun, 06 Nov 1994 08:49:37 GMT";
    time_t t = xh_http_date(old);
    struct xh_dialect d;
    xh_dialect_init(&d);
    xh_dialect_learn_propfind(&d, old, t + XH_SETTLED_S);
    cr_assert(d.proof == XH_BY_PROPFIND && !xh_dialect_is_fleeting(&d, 1));
    xh_dialect_learn_propfind(&d, old, t + XH_SETTLED_S - 1);
    cr_assert(xh_dialect_is_fleeting(&d, 1) && !xh_dialect_is_fleeting(&d, 0));
    xh_dialect_learn_propfind(&d, old, t + XH_SETTLING_S);
    cr_assert(!xh_dialect_is_fleeting(&d, 0));
    xh_dialect_learn_propfind(&d, old, t + XH_SETTLING_S - 1);
    cr_assert(xh_dialect_is_fleeting(&d, 0));
    xh_dialect_learn_propfind(&d, "yesterday", t + 1000);
    cr_assert(d.proof == XH_BY_PROPFIND && xh_dialect_is_fleeting(&d, 0));
}

Test(dialect, a_version_that_is_seen_again_is_as_old_as_it_is_then)
{
    static const char old[] = "Sun, 06 Nov 1994 08:49:37 GMT";
    time_t t = xh_http_date(old);
    struct xh_dialect d, told;
    char hint[1024];
    learn(&d, "\"a\"", old, t + XH_SETTLING_S);
    cr_assert(xh_dialect_hint(&d, hint, sizeof hint) && xh_dialect_from_hint(&told, hint) == 0);
    xh_dialect_age(&told, -1);
    cr_expect(xh_dialect_is_fleeting(&told, 1), "a reply without Date");
    xh_dialect_age(&told, t + XH_SETTLED_S - 1);
    cr_expect(xh_dialect_is_fleeting(&told, 1));
    xh_dialect_age(&told, t + XH_SETTLED_S);
    cr_expect(!xh_dialect_is_fleeting(&told, 1));
    xh_dialect_age(&told, t);
    cr_expect(!xh_dialect_is_fleeting(&told, 1), "nothing gets younger");
    learn(&d, "\"a\"", "", t);
    xh_dialect_age(&d, t);
    cr_expect(!xh_dialect_is_fleeting(&d, 1), "no time was told");
}

Test(dialect, a_reply_without_what_was_there_before_shows_another_version)
{
    static const char old[] = "Sun, 06 Nov 1994 08:49:37 GMT", other[] = "Sun, 06 Nov 1994 08:49:38 GMT";
    struct xh_dialect d;
    char how[100];
    learn(&d, "\"a\"", old, -1);
    cr_assert(xh_dialect_shows(&d, "\"a\"", other, NULL, 0), "the ETag is the stronger one");
    cr_assert(!xh_dialect_shows(&d, "", old, how, sizeof how) && strstr(how, "without"), "%s", how);
    cr_assert(!xh_dialect_shows(&d, "W/\"a\"", old, how, sizeof how) && strstr(how, "is W/"), "%s", how);
    learn(&d, "", old, -1);
    cr_assert(xh_dialect_shows(&d, "\"a\"", old, NULL, 0));
    cr_assert(!xh_dialect_shows(&d, "", other, how, sizeof how) && strstr(how, other), "%s", how);
    cr_assert(!xh_dialect_shows(&d, "", "", NULL, 0));
    learn(&d, "W/\"a\"", old, -1);
    cr_assert(xh_dialect_shows(&d, "W/\"a\"", old, NULL, 0) && xh_dialect_shows(&d, "\"a\"", old, NULL, 0));
    cr_assert(!xh_dialect_shows(&d, "W/\"b\"", old, NULL, 0) && !xh_dialect_shows(&d, "", old, NULL, 0));
    learn(&d, "W/", "", -1);
    cr_assert(d.proof == XH_BY_WEAK_ETAG && !xh_dialect_shows(&d, "", "", NULL, 0));
    learn(&d, "W/\"a\"", "", -1);
    cr_assert(xh_dialect_shows(&d, "\"a\"", "", NULL, 0) && !xh_dialect_shows(&d, "", "", NULL, 0));
    learn(&d, "", "", -1);
    cr_assert(xh_dialect_shows(&d, "\"a\"", old, NULL, 0));
}

#define SECOND 1000000000ull

Test(limits, halving_ends_at_single_ranges)
{
    struct xh_limits l;
    xh_limits_init(&l);
    unsigned steps = 0;
    for (; l.max_ranges > 1; steps++) {
        unsigned before = l.max_ranges;
        xh_limits_halve(&l, l.max_ranges, l.max_range_header, SECOND);
        cr_assert_lt(l.max_ranges, before);
        cr_assert_geq(l.max_range_header, 64);
    }
    cr_assert_leq(steps, 8);
}

Test(limits, a_limit_is_tried_again_later_and_found_again_at_once)
{
    struct xh_limits l;
    uint64_t now = SECOND;
    xh_limits_init(&l);
    xh_limits_cap(&l, 1, now);
    xh_limits_look(&l, now + XH_WIDEN_NS - 1);
    cr_assert_eq(l.max_ranges, 1);
    xh_limits_look(&l, now += XH_WIDEN_NS);
    cr_assert_eq(l.max_ranges, XH_WIDEN_TIMES);
    xh_limits_halve(&l, l.max_ranges, 100, now);
    xh_limits_halve(&l, l.max_ranges, 100, now);
    cr_assert_eq(l.max_ranges, 1);
    for (int minutes = 0; minutes < 5; minutes++)
        xh_limits_look(&l, now += XH_WIDEN_NS);
    cr_assert_eq(l.max_ranges, XH_RANGES_AT_FIRST);
    cr_assert_eq(l.max_range_header, XH_RANGE_HEADER_AT_FIRST);
    cr_assert_eq(l.changed_ns, 0, "there is nothing left to be widened");
}

Test(limits, nonsense_is_a_limit_only_when_it_comes_again_and_again)
{
    struct xh_limits l;
    xh_limits_init(&l);
    for (unsigned i = 0; i < 10; i++) {
        xh_limits_doubt(&l, SECOND);
        xh_limits_doubt(&l, SECOND);
        cr_assert_eq(l.max_ranges, XH_RANGES_AT_FIRST);
        xh_limits_good(&l, 2, SECOND);
    }
    for (unsigned i = 0; i < XH_DOUBTS_MOST; i++)
        xh_limits_doubt(&l, SECOND);
    cr_assert_eq(l.max_ranges, 1);
}

Test(limits, a_500_is_a_limit_only_when_fewer_ranges_worked_before_it)
{
    struct xh_limits l;
    xh_limits_init(&l);
    cr_assert_not(xh_limits_failed(&l, 100, 1 * SECOND, 2 * SECOND), "nothing worked yet");
    xh_limits_worked(&l, 50, 3 * SECOND);
    cr_assert_not(xh_limits_failed(&l, 100, 2 * SECOND, 4 * SECOND), "it was asked before, in the same bad moment");
    xh_limits_good(&l, 100, 4 * SECOND);
    cr_assert_not(xh_limits_failed(&l, 100, 5 * SECOND, 6 * SECOND), "so many have worked since");
    cr_assert_eq(l.max_ranges, XH_RANGES_AT_FIRST);
    xh_limits_worked(&l, 50, 7 * SECOND);
    cr_assert(xh_limits_failed(&l, 100, 8 * SECOND, 9 * SECOND));
    cr_assert_eq(l.max_ranges, 50);
    cr_assert_not(xh_limits_failed(&l, 50, 10 * SECOND, 11 * SECOND), "fewer may be the limit: that is found out anew");
    xh_limits_worked(&l, 25, 12 * SECOND);
    cr_assert(xh_limits_failed(&l, 50, 13 * SECOND, 14 * SECOND));
    cr_assert_eq(l.max_ranges, 25);
}
