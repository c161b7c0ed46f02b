/* Fetching whole files: see whole.h. */
#include "whole.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "../../cache/base/files.h"
#include "dial.h"

struct sink {
    int fd;
    int bad; /* errno; 0: all was written */
    uint8_t first; /* first byte that is not a blank; 0: none yet */
};

static int write_piece(void *ctx, const uint8_t *p, size_t len)
{
    struct sink *s = ctx;
    for (size_t i = 0; i < len && !s->first; i++)
        s->first = p[i] == ' ' || p[i] == '\t' || p[i] == '\r' || p[i] == '\n' ? 0 : p[i];
    s->bad = xh_write(s->fd, p, len) ? errno : 0;
    return s->bad ? -1 : 0;
}

/* Judges the reply |a| for |u|. Returns 0 or a negative code. */
static int judge(const struct xh_url *u, const struct xh_answer *a, const struct sink *s, struct xh_err *err)
{
    const struct xh_reply *r = &a->reply;
    if (s->bad)
        return xh_err_set(err, XH_E_SYS, 0, "what has come cannot be written: %s", strerror(s->bad));
    if (!r->over)
        return xh_err_set(err, XH_E_NET, 0, "%.200s: %.300s", u->shown, a->why[0] ? a->why : "no reply");
    if (r->status != 200)
        return xh_err_set(err, r->status == 401 || r->status == 403 ? XH_E_ACCES
                             : r->status == 404                     ? XH_E_NOENT : XH_E_STATUS, r->status,
                          "%.200s: the server answered with status %d where all of the file was asked for", u->shown,
                          r->status);
    if (r->html && s->first == '<')
        return xh_err_set(err, XH_E_ACCES, 200,
                          "%.200s: the server sent a web page in place of the file: it wants a login, or has no such "
                          "file",
                          u->shown);
    if (r->encoded || r->contradictory)
        return xh_err_set(err, XH_E_PROTO, 200, "%.200s: the server's reply is compressed, or contradicts itself",
                          u->shown);
    if (!r->length_given && !a->chunked)
        return xh_err_set(
            err, XH_E_PROTO, 200,
            "%.200s: the server does not say how long the file is, so nothing tells whether it came whole", u->shown);
    if (a->end != XH_NET_OK || (r->length_given && a->body_bytes != r->length))
        return xh_err_set(err, XH_E_NET, 200,
                          "%.200s: %" PRIu64 " bytes came, and then it broke off (%.200s): begin anew", u->shown,
                          a->body_bytes, a->why);
    return 0;
}

int xh_tool_whole(const char *url, const struct xh_options *o, int fd, uint64_t *bytes, struct xh_err *err)
{
    struct xh_asker k = {0};
    struct xh_url *named = NULL;
    struct sink s = {.fd = fd};
    const struct xh_question q = {.whole = 1, .most_bytes = UINT64_MAX, .body = write_piece, .ctx = &s};
    int rc = xh_caller_url(url, o, &named, err);
    rc = rc ? rc : xh_asker_begin(&k, named, o, err);
    rc = rc ? rc : xh_dial_follow(k.dial, named, &q, k.a, err);
    rc = rc ? rc : judge(named, k.a, &s, err);
    if (rc == 0)
        *bytes = k.a->body_bytes;
    xh_asker_end(&k);
    return rc;
}
