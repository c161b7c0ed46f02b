/* Writing at the origin: opening, and what can be asked. See dav.h; how one thing is asked, dav_ask.c says. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dav_impl.h"

/* ---- opening */

const char *xh_dav_shown(const struct xh_dav *d)
{
    return d->url->shown;
}

const char *xh_dav_text(const struct xh_dav *d)
{
    return d->url->text;
}

int xh_dav_open(const char *url, const struct xh_options *o, struct xh_dav **out, struct xh_err *err)
{
    struct xh_dav *d = calloc(1, sizeof *d);
    if (!d)
        return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a connection");
    d->o = *o;
    xh_env_hold(&d->o);
    int rc = xh_caller_url(url, &d->o, &d->url, err);
    if (rc == 0 && d->url->region)
        rc = xh_err_set(err, XH_E_READONLY, 0,
                        "%.200s: objects of S3 are read, and not written: open it for reading only, write a local "
                        "file and copy it there (aws s3 cp)",
                        d->url->shown);
    if (rc == 0 && !d->url->https)
        rc = xh_err_set(err, XH_E_INVAL, 0, "%.200s: files are written over https alone", d->url->shown);
    if (rc == 0 && strpbrk(d->url->text, "?#"))
        rc = xh_err_set(err, XH_E_INVAL, 0, "%.200s: a URL with a query cannot be written to", d->url->shown);
    if (rc == 0 && d->url->text[strlen(d->url->text) - 1] == '/')
        rc = xh_dav_is_directory(d, 0, err);
    rc = rc ? rc : xh_caller_find(&d->caller, &d->o, d->url, err);
    rc = rc ? rc : xh_dav_client(d, 0, &d->client, err);
    if (rc) {
        xh_dav_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void xh_dav_count(struct xh_dav *d, struct xh_counters *c, struct xh_account *a)
{
    d->counters = c;
    d->account = a;
}

struct xh_account *xh_dav_account(const struct xh_dav *d)
{
    return d->account;
}

void xh_dav_close(struct xh_dav *d)
{
    if (!d)
        return;
    xh_dav_end_quick(d);
    xh_client_free(d->client);
    xh_caller_free(&d->caller);
    xh_url_unref(d->url);
    xh_env_release(&d->o);
    free(d);
}

void xh_dav_learn(struct xh_dav *d, const struct xh_dav *from)
{
    d->by_propfind |= from->by_propfind;
    d->redirected |= from->redirected;
    d->elsewhere |= from->elsewhere;
    d->makes_dirs |= from->makes_dirs;
}

/* ---- what can be asked */

int xh_dav_stat(struct xh_dav *d, const char *suffix, struct xh_dav_stat *out, struct xh_err *err)
{
    struct xh_dav_asked head = {.method = "HEAD", .suffix = suffix, .again = 1};
    struct xh_dav_asked find = {.method = "PROPFIND", .suffix = suffix, .again = 1, .depth = 1};
    struct xh_dialect v;
    char date[XH_HEADER_BYTES];
    uint64_t size;
    *out = (struct xh_dav_stat){0};
    int rc = d->by_propfind ? 0 : xh_dav_ask(d, &head, err);
    if (rc)
        return rc == XH_E_NOENT ? 0 : rc;
    if (!d->by_propfind && xh_dav_from_head(&d->reply, out)) {
        out->there = 1;
        return 0;
    }
    if (!d->by_propfind && d->reply.status == 200 && d->reply.html)
        return xh_dav_web_page(d, &head, d->url, err);
    d->by_propfind = 1; /* XRootD: no date and no ETag, or one that says nothing of the contents */
    rc = xh_dav_ask(d, &find, err);
    if (rc)
        return rc == XH_E_NOENT ? 0 : rc;
    out->there = 1;
    xh_dialect_init(&v);
    const struct xh_xml found = {d->said, d->body_len};
    if (!xh_propfind_parse(found, date, sizeof date, &size) ||
        !xh_dialect_set_proof(&v, XH_BY_PROPFIND, date))
        return xh_err_set(
            err, XH_E_PROTO, d->reply.status,
            "%.200s: the server tells neither ETag nor date: who changes files there cannot be told apart",
            d->url->shown);
    v.size = out->size = size;
    out->directory = xh_propfind_is_directory(found);
    time_t t = xh_http_date(date);
    out->mtime_s = t > 0 ? (long long)t : 0;
    xh_dialect_validator(&v, out->validator, sizeof out->validator);
    return 0;
}

int xh_dav_is_same(const char *a, const char *b)
{
    return xh_dialect_is_same(a, b);
}

int xh_dav_get(struct xh_dav *d, const char *suffix, char *buf, size_t size, size_t *len, struct xh_err *err)
{
    struct xh_dav_asked a = {.method = "GET", .suffix = suffix, .again = 1, .body = buf, .room = size};
    int rc = xh_dav_ask(d, &a, err);
    if (rc == 0 && d->body_over)
        rc = xh_err_set(err, XH_E_PROTO, d->reply.status, "%.200s: a file beside it is longer than it should be",
                        d->url->shown);
    *len = rc ? 0 : d->body_len;
    return rc;
}

int xh_dav_get_range(struct xh_dav *d, const char *suffix, uint64_t off, char *buf, size_t len, struct xh_err *err)
{
    char range[64];
    snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, off, off + len - 1);
    struct xh_dav_asked a = {.method = "GET", .suffix = suffix, .again = 1, .body = buf, .room = len, .range = range};
    int rc = xh_dav_ask(d, &a, err);
    const struct xh_content_range *c = &d->reply.range;
    if (rc == 0 && d->reply.status == 200 && off == 0 && d->body_len == len && !d->body_over)
        return 0; /* the whole file */
    if (rc == 0 && (d->reply.status != 206 || !c->given || c->first != off || d->body_len != len || d->body_over))
        rc = xh_err_set(err, XH_E_PROTO, d->reply.status, "%.200s: the server's reply to a range makes no sense",
                        d->url->shown);
    return rc;
}

int xh_dav_put(struct xh_dav *d, const char *suffix, const struct xh_dav_source *s, struct xh_err *err)
{
    struct xh_dav_asked a = {.method = "PUT", .suffix = suffix, .source = s};
    return xh_dav_ask(d, &a, err);
}

static ptrdiff_t read_text(void *ctx, uint64_t off, char *buf, size_t len, struct xh_err *err)
{
    memcpy(buf, (const char *)ctx + off, len);
    return (ptrdiff_t)len;
}

int xh_dav_put_text(struct xh_dav *d, const char *suffix, const char *text, struct xh_err *err)
{
    struct xh_dav_source s = {.size = strlen(text), .read = read_text, .ctx = (void *)text};
    struct xh_dav_asked a = {.method = "PUT", .suffix = suffix, .source = &s, .again = 1};
    return xh_dav_ask(d, &a, err);
}

int xh_dav_move(struct xh_dav *d, const char *from, const char *to, int overwrite, struct xh_err *err)
{
    struct xh_dav_asked a = {.method = "MOVE", .suffix = from, .destination = to, .overwrite = overwrite};
    return xh_dav_ask(d, &a, err);
}

int xh_dav_mkcol(struct xh_dav *d, const char *suffix, struct xh_err *err)
{
    struct xh_dav_asked a = {.method = "MKCOL", .suffix = suffix, .again = 1};
    return xh_dav_ask(d, &a, err);
}

int xh_dav_delete(struct xh_dav *d, const char *suffix)
{
    struct xh_dav_asked a = {.method = "DELETE", .suffix = suffix, .again = 1};
    int rc = xh_dav_ask(d, &a, XH_IGNORED);
    return rc == XH_E_NOENT ? 0 : rc;
}

int xh_dav_makes_dirs(const struct xh_dav *d)
{
    return d->makes_dirs;
}

int xh_dav_is_elsewhere(const struct xh_dav *d)
{
    return d->elsewhere;
}

int xh_dav_is_foreign(const struct xh_dav *d)
{
    return d->o.namer.by_file && !xh_caller_trusts(&d->caller, d->url);
}

int xh_dav_is_warm(const struct xh_dav *d)
{
    return xh_client_is_open(d->client);
}

void xh_dav_greet(struct xh_dav *d)
{
    struct xh_dav_asked a = {.method = "PROPFIND", .suffix = "", .above = 1, .depth = 1};
    xh_dav_ask(d, &a, XH_IGNORED);
}

int xh_dav_removes_trees(const struct xh_dav *d)
{
    return !d->by_propfind;
}
