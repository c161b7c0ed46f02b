/* Replies: status line, headers, Content-Range, PROPFIND. See response.h.
 *
 * Invariants: no number is taken that does not fit 63 bits; a header that comes twice
 * with two meanings is a contradiction, never a choice. */
#include "response.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/hdf5.h"
#include "base/letters.h"
#include "base/sha256.h"

#define RETRY_AFTER_MAX_MS 120000u /* a server that wants to be left alone for longer is asked after this */
#define TAG_HASH_BYTES 16u /* of SHA-256: no two versions share them by chance */
#define DAY_S 86400

/* Reads a decimal at |*p|, at least one digit, at most 2^63-1; moves |*p| past it. */
static int number(const char **p, const char *end, uint64_t *out)
{
    const char *s = *p;
    uint64_t v = 0;
    if (s == end || !isdigit((unsigned char)*s))
        return -1;
    for (; s < end && isdigit((unsigned char)*s); s++) {
        unsigned d = (unsigned)(*s - '0');
        if (v > ((uint64_t)INT64_MAX - d) / 10)
            return -1;
        v = v * 10 + d;
    }
    *p = s;
    *out = v;
    return 0;
}

static void skip_blanks(const char **p, const char *end)
{
    while (*p < end && (**p == ' ' || **p == '\t'))
        (*p)++;
}

int xh_content_range_parse(const char *s, size_t len, struct xh_content_range *out)
{
    const char *p = s, *end = s + len;
    struct xh_content_range r = {.given = 1};
    skip_blanks(&p, end);
    if (end - p < 6 || xh_strncasecmp(p, "bytes", 5) != 0 || (p[5] != ' ' && p[5] != '\t' && p[5] != '='))
        return -1;
    p += 6;
    skip_blanks(&p, end);
    if (p < end && *p == '*') {
        r.unsatisfied = 1;
        p++;
    } else {
        if (number(&p, end, &r.first) || p == end || *p++ != '-' || number(&p, end, &r.last) || r.last < r.first)
            return -1;
    }
    skip_blanks(&p, end);
    if (p == end || *p++ != '/')
        return -1;
    skip_blanks(&p, end);
    if (p < end && *p == '*') {
        if (r.unsatisfied)
            return -1;
        p++;
    } else {
        if (number(&p, end, &r.total))
            return -1;
        r.total_known = 1;
        if (!r.unsatisfied && r.last >= r.total)
            return -1;
    }
    while (p < end && xh_isspace((unsigned char)*p))
        p++;
    if (p != end)
        return -1;
    *out = r;
    return 0;
}

void xh_reply_init(struct xh_reply *r)
{
    /* Not the whole struct: the long strings need only their first byte. */
    r->status = r->over = r->contradictory = r->length_given = r->multipart = r->encoded = r->html = r->text =
        r->proxys = 0;
    r->length = 0;
    r->range = (struct xh_content_range){0};
    r->retry_after_s = -1;
    r->retry_at = r->date = -1;
    r->boundary[0] = r->etag[0] = r->last_modified[0] = r->server[0] = r->location[0] = r->reason[0] = '\0';
    r->type[0] = r->encoding[0] = r->bucket_region[0] = '\0';
}

/* Copies a value; one that is too long or holds control characters counts as absent. */
static void keep(char *to, size_t size, const char *v, size_t n)
{
    to[0] = '\0';
    if (n >= size)
        return;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)v[i] < 0x20 || v[i] == 0x7f)
            return;
    memcpy(to, v, n);
    to[n] = '\0';
}

static void take_length(struct xh_reply *r, const char *v, size_t n)
{
    const char *p = v;
    uint64_t length;
    if (number(&p, v + n, &length) || p != v + n || (r->length_given && r->length != length)) {
        r->contradictory = 1;
        return;
    }
    r->length = length;
    r->length_given = 1;
}

static void take_range(struct xh_reply *r, const char *v, size_t n)
{
    struct xh_content_range range = {0};
    if (xh_content_range_parse(v, n, &range) ||
        (r->range.given && (range.first != r->range.first || range.last != r->range.last ||
                            range.total != r->range.total || range.total_known != r->range.total_known ||
                            range.unsatisfied != r->range.unsatisfied))) {
        r->contradictory = 1;
        return;
    }
    r->range = range;
}

/* 1 when |v| is "text", or "text;…". */
static int is_type(const char *v, size_t n, const char *type)
{
    size_t k = strlen(type);
    return n >= k && xh_strncasecmp(v, type, k) == 0 && (n == k || v[k] == ';' || v[k] == ' ' || v[k] == '\t');
}

/* "multipart/byteranges; boundary=xyz", quoted or not, parameters in any order. */
static void take_type(struct xh_reply *r, const char *v, size_t n)
{
    static const char type[] = "multipart/byteranges";
    static const char key[] = "boundary=";
    const char *p = v, *end = v + n;
    size_t bare = 0;
    while (bare < n && v[bare] != ';' && v[bare] != ' ' && v[bare] != '\t')
        bare++;
    keep(r->type, sizeof r->type, v, bare);
    r->multipart = 0;
    r->html = is_type(v, n, "text/html") || is_type(v, n, "application/xhtml+xml");
    r->text = r->html || (n > 5 && xh_strncasecmp(v, "text/", 5) == 0) || is_type(v, n, "application/json") ||
              is_type(v, n, "application/xml");
    if (n < sizeof type - 1 || xh_strncasecmp(p, type, sizeof type - 1) != 0)
        return;
    for (p += sizeof type - 1; p < end; p++) {
        if (*p != ';')
            continue;
        p++;
        skip_blanks(&p, end);
        if ((size_t)(end - p) < sizeof key || xh_strncasecmp(p, key, sizeof key - 1) != 0) {
            p--; /* the loop looks for the next ';' from here */
            continue;
        }
        p += sizeof key - 1;
        const char *from = p;
        if (*p == '"') {
            from = ++p;
            while (p < end && *p != '"')
                p++;
        } else {
            while (p < end && *p != ';' && *p != ' ' && *p != '\t')
                p++;
        }
        keep(r->boundary, sizeof r->boundary, from, (size_t)(p - from));
        r->multipart = r->boundary[0] != '\0';
        return;
    }
}

/* "…", without a quote inside, and not empty, which tells nothing. */
static int is_strong(const char *v, size_t n)
{
    return n > 2 && v[0] == '"' && v[n - 1] == '"' && !memchr(v + 1, '"', n - 2);
}

static int is_plain(const char *v, size_t n, char least)
{
    for (size_t i = 0; i < n; i++)
        if (v[i] < least || v[i] > 0x7e)
            return 0;
    return 1;
}

/* Writes the hash of |v|. Returns 0, or -1 without memory. */
static int hash_tag(char out[XH_HEADER_BYTES], int strong, const char *v, size_t n)
{
    uint8_t sha[32];
    if (!xh_sha256(v, n, sha))
        return -1;
    size_t used = (size_t)snprintf(out, XH_HEADER_BYTES, "#%c%zu-", strong ? 's' : 'w', n);
    xh_hex(sha, TAG_HASH_BYTES, out + used);
    return 0;
}

static void take_etag(struct xh_reply *r, const char *v, size_t n)
{
    static const char *const forms[] = {"-gzip\"", "-br\""};
    char tag[XH_HEADER_BYTES] = "";
    size_t form = 0;
    if (n == 0)
        return;
    int strong = is_strong(v, n);
    for (size_t i = 0; i < sizeof forms / sizeof *forms && !form; i++) {
        size_t k = strlen(forms[i]);
        if (n > k + 1 && memcmp(v + n - k, forms[i], k) == 0)
            form = k;
    }
    size_t kept = form ? n - form + 1 : n;
    if (strong ? kept < sizeof tag && is_plain(v, n, ' ')
               : kept < XH_WEAK_TAG_BYTES && is_plain(v, n, '!') && v[0] != '"' && v[0] != '#') {
        memcpy(tag, v, kept);
        if (form)
            tag[kept - 1] = '"';
    } else if (hash_tag(tag, strong, v, n - (form ? form : (size_t)strong)) != 0) {
        r->contradictory = 1;
        return;
    }
    r->contradictory |= r->etag[0] && strcmp(r->etag, tag) != 0;
    memcpy(r->etag, tag, sizeof tag);
}

static void take_last_modified(struct xh_reply *r, const char *v, size_t n)
{
    char date[sizeof r->last_modified];
    keep(date, sizeof date, v, n);
    r->contradictory |= r->last_modified[0] && strcmp(r->last_modified, date) != 0;
    memcpy(r->last_modified, date, sizeof date);
}

static int64_t date_of(const char *v, size_t n)
{
    char date[32];
    keep(date, sizeof date, v, n);
    return xh_http_date(date);
}

static long seconds_until(int64_t at, int64_t now)
{
    return at <= now ? 0 : at - now < DAY_S ? (long)(at - now) : DAY_S;
}

uint64_t xh_reply_retry_after_ms(const struct xh_reply *r)
{
    uint64_t ms = r->retry_after_s > 0 ? (uint64_t)r->retry_after_s * 1000 : 0;
    return ms < RETRY_AFTER_MAX_MS ? ms : RETRY_AFTER_MAX_MS;
}

static void take_retry_after(struct xh_reply *r, const char *v, size_t n)
{
    const char *p = v;
    uint64_t s;
    if (number(&p, v + n, &s) == 0 && p == v + n)
        r->retry_after_s = s < DAY_S ? (long)s : DAY_S;
    else
        r->retry_at = date_of(v, n);
}

/* The error_description of a bearer challenge (RFC 6750, 3). A text with long words is dropped: a server that repeats
 * the token must not make us show it. */
static void take_challenge(struct xh_reply *r, const char *v, size_t n)
{
    static const char key[] = "error_description=\"";
    const char *p = memmem(v, n, key, sizeof key - 1), *end = v + n;
    if (!p)
        return;
    p += sizeof key - 1;
    const char *close = memchr(p, '"', (size_t)(end - p));
    if (!close)
        return;
    size_t word = 0;
    for (const char *q = p; q < close; q++)
        if ((word = *q == ' ' ? 0 : word + 1) > 20)
            return;
    keep(r->reason, sizeof r->reason, p, (size_t)(close - p));
}

/* 1 when the |n| bytes at |v| name no packing. aws-chunked is how an S3 client frames what it uploads (AWS's command
 * does from 2.23 on). S3 undoes it and forgets the word. Others (Ceph, NooBaa, versitygw) undo it and say it of the
 * object for ever. */
static int packs_nothing(const char *v, size_t n)
{
    return n == 0 || (n == 8 && xh_strncasecmp(v, "identity", n) == 0) ||
           (n == 11 && xh_strncasecmp(v, "aws-chunked", n) == 0);
}

static void take_encoding(struct xh_reply *r, const char *v, size_t n)
{
    /* A list, which may come in several lines (RFC 9110, 5.3): this one takes none of the others back. */
    for (const char *p = v, *end = v + n, *to; p < end; p = to + (to < end)) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        to = comma ? comma : end;
        skip_blanks(&p, to);
        const char *last = to;
        while (last > p && (last[-1] == ' ' || last[-1] == '\t'))
            last--;
        if (packs_nothing(p, (size_t)(last - p)))
            continue;
        r->encoded = 1;
        keep(r->encoding, sizeof r->encoding, v, n);
    }
}

static void take_header(struct xh_reply *r, const char *name, size_t name_bytes, const char *v, size_t n)
{
#define IS(s) (name_bytes == sizeof(s) - 1 && xh_strncasecmp(name, s, sizeof(s) - 1) == 0)
    if (IS("Content-Length"))
        take_length(r, v, n);
    else if (IS("Content-Range"))
        take_range(r, v, n);
    else if (IS("Content-Type"))
        take_type(r, v, n);
    else if (IS("Content-Encoding"))
        take_encoding(r, v, n);
    else if (IS("ETag"))
        take_etag(r, v, n);
    else if (IS("Last-Modified"))
        take_last_modified(r, v, n);
    else if (IS("Server"))
        keep(r->server, sizeof r->server, v, n);
    else if (IS("Location"))
        keep(r->location, sizeof r->location, v, n);
    else if (IS("x-amz-bucket-region"))
        keep(r->bucket_region, sizeof r->bucket_region, v, n);
    else if (IS("Proxy-Authenticate"))
        r->proxys = 1;
    else if (IS("WWW-Authenticate"))
        take_challenge(r, v, n);
    else if (IS("Retry-After"))
        take_retry_after(r, v, n);
    else if (IS("Date"))
        r->date = date_of(v, n);
#undef IS
}

int xh_reply_line(struct xh_reply *r, const char *line, size_t len, time_t now)
{
    if (r->over) /* a trailer */
        return 0;
    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        const char *p = memchr(line, ' ', len), *end = line + len;
        uint64_t status;
        xh_reply_init(r);
        if (p) {
            skip_blanks(&p, end);
            if (number(&p, end, &status) == 0 && status >= 100 && status <= 999)
                r->status = (int)status;
        }
        return 0;
    }
    if (len == 0) {
        r->over = r->status >= 200;
        if (r->retry_at >= 0)
            r->retry_after_s = seconds_until(r->retry_at, r->date >= 0 ? r->date : (int64_t)now);
        return r->over;
    }
    const char *colon = memchr(line, ':', len);
    if (!colon)
        return 0;
    const char *v = colon + 1, *end = line + len;
    skip_blanks(&v, end);
    while (end > v && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    take_header(r, line, (size_t)(colon - line), v, (size_t)(end - v));
    return 0;
}

int xh_propfind_parse(struct xh_xml xml, char *date, size_t date_size, uint64_t *length)
{
    struct xh_xml text;
    date[0] = '\0';
    if (!xh_xml_text(xml, "getcontentlength", &text))
        return 0;
    const char *p = text.at, *end = text.at + text.len;
    if (number(&p, end, length) != 0 || p != end)
        return 0;
    if (!xh_xml_text(xml, "getlastmodified", &text))
        return 0;
    keep(date, date_size, text.at, text.len);
    return date[0] != '\0';
}

int xh_propfind_is_directory(struct xh_xml xml)
{
    return xh_xml_has(xml, "collection");
}

int xh_propfind_next(struct xh_xml *xml, struct xh_xml *path, struct xh_xml *of)
{
    while (xh_xml_next(xml, "response", of))
        if (xh_xml_text(*of, "href", path))
            return 1;
    return 0;
}

int xh_reply_is_listing(const char *said)
{
    return strstr(said, "<h1>Listing of: ") != NULL;
}

int xh_reply_has_signature(const void *body, size_t len)
{
    for (size_t at = 0; at < len && len - at >= XH_HDF5_SIGNATURE_BYTES; at = at ? 2 * at : 512)
        if (xh_hdf5_is_signed((const char *)body + at))
            return 1;
    return 0;
}

int xh_reply_begins_page(const char *said, size_t len, int html)
{
    static const char bom[] = "\xef\xbb\xbf";
    static const char *const begins[] = {"<!doctype html", "<html"};
    size_t i = 0, k = len < sizeof bom - 1 ? len : sizeof bom - 1;
    if (memcmp(said, bom, k) == 0)
        i = k;
    while (i < len && (said[i] == ' ' || said[i] == '\t' || said[i] == '\r' || said[i] == '\n'))
        i++;
    if (html && i < len)
        return said[i] == '<';
    int may = html;
    for (size_t b = 0; b < sizeof begins / sizeof *begins; b++) {
        size_t n = strlen(begins[b]), have = len - i < n ? len - i : n;
        if (xh_strncasecmp(said + i, begins[b], have) != 0)
            continue;
        if (have == n)
            return 1;
        may = 1;
    }
    return may ? -1 : 0;
}

int xh_reply_is_text(const struct xh_reply *r, const char *said, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (((unsigned char)said[i] < 0x20 && !strchr("\t\r\n", said[i])) || said[i] == 0x7f || said[i] == '\0')
            return 0;
    return r->text && len > 0;
}
