/* Asking for a listing: see list_at.h. */
#include "list_at.h"

#include <stdlib.h>
#include <string.h>

#include "dial.h"

struct body {
    char *text;
    size_t len;
};

static int take(void *ctx, const uint8_t *p, size_t len)
{
    struct body *b = ctx;
    char *more = len <= XH_LISTING_MOST_BYTES - b->len ? realloc(b->text, b->len + len) : NULL;
    if (!more)
        return -1;
    memcpy(more + b->len, p, len);
    b->text = more;
    b->len += len;
    return 0;
}

/* Asks |method| at |from|, and where that sends it. Returns 0 with the reply in |a|, or a negative code. */
static int ask(struct xh_dial *dial, const struct xh_caller *c, struct xh_url *from, const char *method,
               struct xh_answer *a, struct body *b, struct xh_err *err)
{
    const struct xh_question q = {
        .method = method, .depth = 1, .whole = 1, .most_bytes = XH_LISTING_MOST_BYTES, .body = take, .ctx = b};
    struct xh_url *at = xh_url_ref(from), *next = NULL;
    int rc = 0;
    for (unsigned hops = 0; rc == 0; hops++) {
        b->len = 0;
        xh_dial_ask(dial, at, &q, a);
        if (!xh_reply_redirects(&a->reply))
            break;
        if (hops == XH_HOPS_MOST)
            rc = xh_err_set(err, XH_E_PROTO, a->reply.status, "%.200s: redirected more than %u times", from->shown,
                            XH_HOPS_MOST);
        else
            rc = xh_proxy_follow(&c->proxies, at, a->reply.location, &next, err);
        xh_url_unref(at);
        at = next;
        next = NULL;
    }
    xh_url_unref(at);
    if (rc == 0 && !a->reply.over)
        rc = xh_err_set(err, a->end == XH_NET_CONNECT_TIMEOUT ? XH_E_TIMEOUT : XH_E_NET, 0, "%.200s: %.300s",
                        from->shown, a->why[0] ? a->why : "no reply");
    return rc;
}

static int judge(const struct xh_url *u, const struct xh_answer *a, const struct body *b, struct xh_entries *out,
                 struct xh_err *err)
{
    int status = a->reply.status;
    if (status == 401 || status == 403)
        return xh_err_set(err, XH_E_ACCES, status, "%.200s: the server does not list this directory (status %d): only "
                          "what was opened by name is shown", u->shown, status);
    if (status == 404)
        return xh_err_set(err, XH_E_NOENT, status, "%.200s: there is no such directory on the server (404)", u->shown);
    if (a->end == XH_NET_OK && status == 200 && b->len &&
        (xh_listing_json(b->text, b->len, out) == 0 || xh_listing_page(b->text, b->len, out) == 0))
        return 0;
    return xh_err_set(err, XH_E_PROTO, status, "%.200s: the server lists no names in a form that is known (status %d): "
                      "only what was opened by name is shown", u->shown, status);
}

int xh_list_at(const char *url, const struct xh_options *o, struct xh_entries *out, struct xh_err *err)
{
    struct xh_caller c = {0};
    struct xh_url *u = NULL;
    struct xh_dial *dial = NULL;
    struct body b = {0};
    struct xh_answer *a = calloc(1, sizeof *a);
    int rc = a ? xh_url_parse(url, &u, err) : xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a reply");
    rc = rc ? rc : xh_caller_find(&c, o, u, err);
    if (rc == 0 && !(dial = xh_dial_new(&c)))
        rc = xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a connection");
    rc = rc ? rc : ask(dial, &c, u, "PROPFIND", a, &b, err);
    if (rc == 0 && (a->reply.status != 207 || a->end != XH_NET_OK || !b.len ||
                    xh_listing_propfind(b.text, b.len, u->text, out) != 0)) {
        rc = ask(dial, &c, u, NULL, a, &b, err);
        rc = rc ? rc : judge(u, a, &b, out, err);
    }
    free(b.text);
    free(a);
    xh_dial_free(dial);
    xh_caller_free(&c);
    xh_url_unref(u);
    return rc;
}
