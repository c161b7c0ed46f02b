/* Writing at the origin: several requests in one piece, see xh_dav_exchange in dav.h. */
#include <stdlib.h>
#include <string.h>

#include "base/letters.h"
#include "base/wipe.h"
#include "watch/trace.h"
#include "dav_impl.h"
#include "handle.h"
#include "piece.h"

#define PIECE_MOST 4

struct text {
    char at[XH_PIECE_BYTES + 1];
    size_t n;
    int bad; /* it was too long */
};

static void add(struct text *t, const char *s, size_t n)
{
    t->bad |= n > XH_PIECE_BYTES - t->n;
    if (!t->bad) {
        memcpy(t->at + t->n, s, n);
        t->n += n;
    }
}

static void add_line(struct text *t, const char *s)
{
    add(t, s, strlen(s));
    add(t, "\r\n", 2);
}

static void add_login(struct text *t, const char *user, const char *password)
{
    char *login = xh_handle_login(user, password ? password : "");
    t->bad |= !login;
    add(t, "Authorization: ", strlen("Authorization: "));
    add_line(t, login ? login : "");
    xh_wipe(login);
}

/* Adds the request |a| as it goes over the wire, to the server of the URL itself. */
static void add_request(const struct xh_dav *d, const struct xh_dav_asked *a, struct text *t)
{
    struct xh_dav_lines lines;
    struct xh_send send = {0};
    const char *host = xh_url_host(d->url->text), *path = strchr(host, '/');
    t->bad |= xh_dav_lines(d, a, d->url, &lines);
    xh_caller_send(&d->caller, d->caller.token, d->url, &send);
    add(t, a->method, strlen(a->method));
    add(t, " ", 1);
    add(t, path, strlen(path));
    add(t, a->suffix, strlen(a->suffix));
    add_line(t, " HTTP/1.1");
    add(t, "Host: ", 6);
    add(t, host, (size_t)(path - host));
    add_line(t, "");
    add_line(t, "User-Agent: " XH_HANDLE_USER_AGENT);
    add_line(t, "Accept-Encoding: identity");
    for (size_t i = 0; !t->bad && lines.line[i]; i++)
        add_line(t, lines.line[i]);
    free(lines.destination);
    if (send.bearer) {
        add(t, "Authorization: Bearer ", strlen("Authorization: Bearer "));
        add_line(t, send.bearer);
    }
    if (send.user)
        add_login(t, send.user, send.password);
    add_line(t, "");
}

/* Asks all of |a| in one piece. Returns 0 when all replies came. */
static int ask_quickly(struct xh_dav *d, const struct xh_dav_asked *a, size_t n, struct xh_piece_reply *r)
{
    size_t came = 0;
    struct text *t = calloc(1, sizeof *t);
    if (!t)
        return -1;
    for (size_t i = 0; i < n; i++) {
        add_request(d, &a[i], t);
        r[i].bodiless = strcmp(a[i].method, "HEAD") == 0;
    }
    int bad =
        t->bad || xh_piece_ask(d->quick, t->at, t->n, r, n, d->o.stall_timeout_ms + d->o.connect_timeout_ms, &came);
    explicit_bzero(t, sizeof *t);
    free(t);
    for (size_t i = 0; i < came && i < n; i++) {
        xh_trace(XH_T_ORIGIN, "dav-quick", "url=%s name=\"%s\" method=%s status=%d", d->url->shown, a[i].suffix,
                 a[i].method, r[i].head.status);
        if (d->counters)
            xh_count(d->counters, requests, 1);
    }
    return bad ? -1 : 0;
}

void xh_dav_end_quick(struct xh_dav *d)
{
    xh_client_free(d->quick);
    d->quick = NULL;
}

int xh_dav_begin_quick(struct xh_dav *d)
{
    struct xh_dav_asked head = {.method = "HEAD", .suffix = ""};
    const struct xh_proxy *proxy = xh_proxy_for(&d->caller.proxies, d->url);
    struct xh_piece_reply *r = calloc(1, sizeof *r);
    int good = 0;
    if (!r || !strchr(xh_url_host(d->url->text), '/') || d->by_propfind || d->makes_dirs || d->redirected ||
        (proxy && proxy->user) || xh_dav_wait(d, d->url, XH_IGNORED))
        goto out;
    if (!d->quick) {
        struct xh_client_ask ask = {.connects_only = 1};
        struct xh_outcome out;
        xh_caller_send(&d->caller, d->caller.token, d->url, &ask.send);
        ask.send.bearer = ask.send.user = ask.send.password = NULL; /* it only connects */
        if (xh_dav_client(d, 1, &d->quick, XH_IGNORED) || xh_client_ask(d->quick, &ask, &out) != XH_NET_OK)
            goto out;
        if (d->counters)
            xh_count(d->counters, connections, 1);
    }
    /* Who hangs up behind each reply, or has to be asked in another way, is no server for this. */
    good = ask_quickly(d, &head, 1, r) == 0 && !r->closes && (r->head.status == 200 || r->head.status == 404) &&
           xh_strncasecmp(r->head.server, "XrootD", 6) != 0;
out:
    if (!good)
        xh_dav_end_quick(d);
    free(r);
    return good;
}

static int from_reply(const struct xh_reply *r, struct xh_dav_stat *out)
{
    *out = (struct xh_dav_stat){0};
    if (r->status == 404)
        return 0;
    out->there = r->status == 200 && xh_dav_from_head(r, out);
    return out->there ? 0 : -1;
}

int xh_dav_exchange(struct xh_dav *d, const char *from, const char *aside, struct xh_dav_stat *was,
                    struct xh_dav_stat *now, int *placed)
{
    const struct xh_dav_asked a[PIECE_MOST] = {
        {.method = "MOVE", .suffix = "", .destination = aside},
        {.method = "MOVE", .suffix = from, .destination = ""},
        {.method = "HEAD", .suffix = aside},
        {.method = "HEAD", .suffix = ""},
    };
    struct xh_piece_reply *r = d->quick ? calloc(PIECE_MOST, sizeof *r) : NULL;
    int bad = !r || ask_quickly(d, a, PIECE_MOST, r) || from_reply(&r[2].head, was) || from_reply(&r[3].head, now);
    if (bad)
        xh_dav_end_quick(d);
    else
        *placed = r[1].head.status;
    free(r);
    return bad ? -1 : 0;
}
