/* Several requests as one piece: see piece.h. */
#include "piece.h"

#include <string.h>
#include <time.h>

#include "base/letters.h"
#include "base/now.h"
#include "client.h"

#define LINE_BYTES 16384u /* longest header line */

struct reader {
    struct xh_client *h;
    uint64_t wait_ns, until_ns; /* for each reply; for this one */
    char buf[LINE_BYTES];
    size_t from, to; /* what is there and not taken */
};

static int send_all(const struct reader *r, const char *text, size_t len)
{
    uint64_t until_ns = xh_now_ns() + r->wait_ns;
    while (len > 0) {
        size_t n = 0;
        int rc = xh_client_put(r->h, text, len, &n);
        if (rc > 0 && xh_now_ns() < until_ns) {
            xh_client_wait(r->h, 1);
            continue;
        }
        if (rc)
            return -1;
        text += n;
        len -= n;
    }
    return 0;
}

/* Brings more; makes room by moving what is there to the front. */
static int more(struct reader *r)
{
    memmove(r->buf, r->buf + r->from, r->to - r->from);
    r->to -= r->from;
    r->from = 0;
    if (r->to == sizeof r->buf)
        return -1;
    while (xh_now_ns() < r->until_ns) {
        size_t n = 0;
        int rc = xh_client_take(r->h, r->buf + r->to, sizeof r->buf - r->to, &n);
        r->to += n;
        if (rc == 0)
            return 0;
        if (rc < 0)
            return -1;
        xh_client_wait(r->h, 0);
    }
    return -1;
}

/* 1 when the |n| bytes of |line| are the field |name|, and have |word|. */
static int says(const char *line, size_t n, const char *name, const char *word)
{
    size_t k = strlen(name);
    return n >= k && xh_strncasecmp(line, name, k) == 0 && xh_memcasestr(line + k, n - k, word);
}

/* One reply, and past its body. */
static int read_one(struct reader *r, struct xh_piece_reply *out)
{
    int chunked = 0;
    r->until_ns = xh_now_ns() + r->wait_ns; /* it is small: however slowly it comes, it is not waited for longer */
    xh_reply_init(&out->head);
    out->closes = 0;
    while (!out->head.over) {
        const char *line = r->buf + r->from, *end = memchr(line, '\n', r->to - r->from);
        if (!end) {
            if (more(r))
                return -1;
            continue;
        }
        size_t n = (size_t)(end - line) + 1;
        chunked |= says(line, n, "transfer-encoding:", "chunked");
        out->closes |= says(line, n, "connection:", "close") || says(line, n, "HTTP/1.0", "");
        xh_reply_line(&out->head, line, n, time(NULL));
        r->from += n;
    }
    int status = out->head.status;
    if (out->bodiless || status == 204 || status == 304)
        return 0;
    if (chunked || !out->head.length_given || out->head.contradictory)
        return -1; /* where it ends is not known here */
    for (uint64_t left = out->head.length; left > 0;) {
        if (r->from == r->to && more(r))
            return -1;
        size_t n = r->to - r->from < left ? r->to - r->from : (size_t)left;
        r->from += n;
        left -= n;
    }
    return 0;
}

int xh_piece_ask(struct xh_client *h, const char *text, size_t len, struct xh_piece_reply *out, size_t n,
                 uint64_t wait_ms, size_t *came)
{
    struct reader r = {.h = h, .wait_ns = wait_ms * 1000000u};
    *came = 0;
    if (!xh_client_is_open(h) || len > XH_PIECE_BYTES)
        return -1;
    if (send_all(&r, text, len))
        return -1;
    while (*came < n && read_one(&r, &out[*came]) == 0)
        (*came)++;
    return *came == n ? 0 : -1;
}
