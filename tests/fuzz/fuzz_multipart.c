/* A multipart/byteranges body: |boundary| newline |body|. Fed whole and in pieces, both must come to the same. */
#include <string.h>

#include "fuzz.h"
#include "origin/response.h"

struct seen {
    struct xh_content_range part;
    uint64_t next, bytes, sum;
    unsigned parts;
};

static int on_part(void *ctx, const struct xh_content_range *c)
{
    struct seen *s = ctx;
    hold(c->given && !c->unsatisfied && c->first <= c->last, "a part that is no range");
    s->part = *c;
    s->next = c->first;
    s->parts++;
    return s->parts > 1000;
}

static int on_data(void *ctx, uint64_t off, const uint8_t *p, size_t len)
{
    struct seen *s = ctx;
    hold(s->parts && off == s->next, "bytes out of order");
    hold(len && len - 1 <= s->part.last - off, "more bytes than the part has");
    for (size_t i = 0; i < len; i++)
        s->sum = s->sum * 31 + p[i];
    s->next += len;
    s->bytes += len;
    return 0;
}

static int feed(const char *boundary, const uint8_t *p, size_t size, size_t step, struct seen *s)
{
    struct xh_multipart m;
    struct xh_multipart_sink sink = {on_part, on_data, s};
    memset(s, 0, sizeof *s);
    xh_multipart_init(&m, boundary);
    int rc = 0;
    for (size_t at = 0, n; at < size && !rc; at += n, step = step % 7 + 1) {
        n = size - at < step ? size - at : step;
        rc = xh_multipart_feed(&m, p + at, n, &sink);
    }
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    char boundary[XH_BOUNDARY_BYTES];
    const uint8_t *eol = memchr(p, '\n', size);
    size_t n = eol ? (size_t)(eol - p) : 0;
    struct seen whole, pieces;
    if (!eol || n == 0 || n >= sizeof boundary || memchr(p, '\0', n))
        return 0;
    memcpy(boundary, p, n);
    boundary[n] = '\0';
    int a = feed(boundary, p + n + 1, size - n - 1, SIZE_MAX, &whole);
    int b = feed(boundary, p + n + 1, size - n - 1, 3, &pieces);
    hold(a == b, "what is taken depends on how it is cut");
    hold(a || (whole.bytes == pieces.bytes && whole.sum == pieces.sum && whole.parts == pieces.parts),
         "other bytes, cut otherwise");
    return 0;
}
