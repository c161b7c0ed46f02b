/* A server's status line and headers. */
#include <string.h>

#include "fuzz.h"
#include "origin/dialect.h"
#include "origin/response.h"

static void check(const struct xh_reply *r)
{
    const struct xh_content_range *c = &r->range;
    hold(!r->range.given || c->unsatisfied || c->first <= c->last, "a range that ends before it begins");
    hold(!c->given || c->unsatisfied || !c->total_known || c->last < c->total, "a range beyond the total");
    hold(!c->given || c->last <= INT64_MAX, "an offset that no file has");
    hold(r->status >= 0 && r->status <= 999, "a status that is none");
    hold(strlen(r->etag) < sizeof r->etag && strlen(r->last_modified) < sizeof r->last_modified &&
             strlen(r->server) < sizeof r->server && strlen(r->location) < sizeof r->location,
         "a text without an end");
    hold(!r->multipart || (r->boundary[0] && strlen(r->boundary) < sizeof r->boundary), "a boundary that is none");
}

/* What is learnt from a reply is shown by it, can be told on, and fits. */
static void learn(const struct xh_reply *r)
{
    struct xh_dialect d, again;
    char text[XH_VALIDATOR_TEXT_BYTES], hint[1024], back[1024], how[64];
    xh_dialect_init(&d);
    xh_dialect_learn(&d, r->etag, r->last_modified, r->date);
    hold(!r->etag[0] || d.proof != XH_BY_SIZE, "an ETag that is there and counts for nothing");
    hold(xh_dialect_shows(&d, r->etag, r->last_modified, NULL, 0), "a reply that does not show its own version");
    hold(d.proof == XH_BY_SIZE || !xh_dialect_shows(&d, "", "", how, sizeof how), "a reply without a validator that "
                                                                                  "shows the version");
    hold(xh_dialect_validator(&d, text, sizeof text) != 0, "a validator that does not fit");
    hold(!xh_dialect_matches(&d) || !strpbrk(d.value, "\r\n"), "an If-Match of two lines");
    hold(xh_dialect_hint(&d, hint, sizeof hint) && xh_dialect_from_hint(&again, hint) == 0 &&
             xh_dialect_hint(&again, back, sizeof back) && strcmp(hint, back) == 0 &&
             xh_dialect_is_fleeting(&d, 0) == xh_dialect_is_fleeting(&again, 0),
         "its own hint is read as another");
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t size)
{
    struct xh_reply r;
    xh_reply_init(&r);
    for (size_t at = 0; at < size;) {
        const uint8_t *eol = memchr(p + at, '\n', size - at);
        size_t len = eol ? (size_t)(eol - p) + 1 - at : size - at;
        int over = r.over, status = r.status, ends = xh_reply_line(&r, (const char *)p + at, len, 1700000000);
        hold(!ends || (r.over && r.status >= 200), "the end of what is no final reply");
        hold(!over || (!ends && r.over && r.status == status), "a trailer that changes the reply");
        hold(r.retry_after_s >= -1 && r.retry_after_s <= 86400, "a pause of more than a day");
        check(&r);
        if (ends)
            learn(&r);
        at += len;
    }
    /* The body, piece by piece: once it is told what it begins as, more bytes change nothing. */
    const struct xh_reply called_text = {.text = 1};
    int begins = -1, text = 1, html = size & 1;
    for (size_t n = 0; n <= size && n < 64; n++) {
        int now = xh_reply_begins_page((const char *)p, n, html);
        int is = n == 0 || xh_reply_is_text(&called_text, (const char *)p, n);
        hold(begins < 0 || now == begins, "a page that is none a byte later, or the other way round");
        hold(text || !is, "text behind what is none");
        begins = now;
        text = is;
    }
    struct xh_content_range c;
    if (xh_content_range_parse((const char *)p, size, &c) == 0)
        hold(c.given && (c.unsatisfied || c.first <= c.last), "a range that is none");
    return 0;
}
