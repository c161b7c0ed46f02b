/* multipart/byteranges as an incremental state machine. See response.h.
 *
 * Invariants: in XH_MP_DATA left_bytes > 0, and only so many bytes are handed over;
 * a line is looked at only when it is whole and shorter than the line buffer; the number
 * of lines in a state is bounded, so that a hostile reply cannot feed headers for ever. */
#include "response.h"

#include <string.h>
#include <strings.h>

#define LINES_MAX 64u /* headers of a part, or lines of preamble */

void xh_multipart_init(struct xh_multipart *m, const char *boundary)
{
    size_t n = strnlen(boundary, sizeof m->boundary - 1);
    m->state = XH_MP_PREAMBLE;
    m->range = (struct xh_content_range){0};
    m->off = m->left_bytes = 0;
    m->lines = 0;
    m->line_bytes = 0;
    memcpy(m->boundary, boundary, n);
    m->boundary[n] = '\0';
}

static void enter(struct xh_multipart *m, enum xh_multipart_state state)
{
    m->state = state;
    m->lines = 0;
    m->line_bytes = 0;
}

/* 0: not a delimiter, 1: a delimiter, 2: the close delimiter. */
static int delimiter(const struct xh_multipart *m)
{
    size_t n = strlen(m->boundary);
    const char *p = m->line;
    if (m->line_bytes < n + 2 || p[0] != '-' || p[1] != '-' || memcmp(p + 2, m->boundary, n) != 0)
        return 0;
    p += n + 2;
    const char *end = m->line + m->line_bytes;
    int closes = end - p >= 2 && p[0] == '-' && p[1] == '-';
    if (closes)
        p += 2;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p != end ? 0 : closes ? 2 : 1;
}

/* A whole line outside the data. Returns 0, -1, or what the sink returned. */
static int take_line(struct xh_multipart *m, const struct xh_multipart_sink *sink)
{
    static const char name[] = "content-range:";
    if (m->line_bytes > 0 && m->line[m->line_bytes - 1] == '\r')
        m->line_bytes--;
    if (++m->lines > LINES_MAX)
        return -1;
    if (m->state != XH_MP_HEADERS) {
        int d = delimiter(m);
        if (d == 0 && m->state == XH_MP_BETWEEN && m->line_bytes > 0)
            return -1; /* the part was longer than its Content-Range said */
        if (d == 2)
            enter(m, XH_MP_END);
        else if (d == 1) {
            m->range = (struct xh_content_range){0};
            enter(m, XH_MP_HEADERS);
        }
        return 0;
    }
    if (m->line_bytes >= sizeof name - 1 && strncasecmp(m->line, name, sizeof name - 1) == 0) {
        if (m->range.given)
            return -1;
        return xh_content_range_parse(m->line + sizeof name - 1, m->line_bytes - (sizeof name - 1), &m->range);
    }
    if (m->line_bytes > 0)
        return 0;
    if (!m->range.given || m->range.unsatisfied)
        return -1;
    m->off = m->range.first;
    m->left_bytes = m->range.last - m->range.first + 1; /* both below 2^63: no wrap */
    enter(m, XH_MP_DATA);
    return sink->part(sink->ctx, &m->range);
}

int xh_multipart_feed(struct xh_multipart *m, const uint8_t *p, size_t len, const struct xh_multipart_sink *sink)
{
    int rc = 0;
    while (len > 0 && rc == 0) {
        size_t n = len;
        if (m->state == XH_MP_END)
            return 0;
        if (m->state == XH_MP_BROKEN)
            return -1;
        if (m->state == XH_MP_DATA) {
            if (n > m->left_bytes)
                n = (size_t)m->left_bytes;
            uint64_t off = m->off;
            m->off += n;
            m->left_bytes -= n;
            if (m->left_bytes == 0)
                enter(m, XH_MP_BETWEEN);
            rc = sink->data(sink->ctx, off, p, n);
        } else {
            const uint8_t *lf = memchr(p, '\n', len);
            size_t body = lf ? (size_t)(lf - p) : len;
            n = lf ? body + 1 : len;
            if (body > sizeof m->line - m->line_bytes) {
                rc = -1;
                break;
            }
            memcpy(m->line + m->line_bytes, p, body);
            m->line_bytes += body;
            if (lf) {
                rc = take_line(m, sink);
                m->line_bytes = 0;
            }
        }
        p += n;
        len -= n;
    }
    if (rc != 0)
        m->state = XH_MP_BROKEN;
    return rc;
}
