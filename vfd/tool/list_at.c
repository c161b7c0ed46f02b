/* Asking for a listing: see list_at.h. */
#include "list_at.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/base/thread.h"
#include "../../cache/origin/s3.h"
#include "dial.h"

#define PARTS_MOST      1000u /* of a listing of S3: a million names */
#define NAMES_MOST      1000000u /* if its parts are longer than Amazon's */
#define LISTING_MOST_BYTES (16u << 20) /* longest listing that is read */
#define LOOKS_AT_ONCE   8u

/* ---- requests */

struct asker {
    struct xh_asker by;
    struct xh_body b;
};

static void asker_free(struct asker *k)
{
    free(k->b.at);
    xh_asker_end(&k->by);
}

/* Asks |q| at |from|, and where that sends it. Returns 0 with the reply in k->by.a, or a negative code. */
static int ask(struct asker *k, struct xh_url *from, const struct xh_question *q, struct xh_err *err)
{
    const struct xh_answer *a = k->by.a;
    k->b.len = 0;
    int rc = xh_dial_follow(k->by.dial, from, q, k->by.a, err);
    int late = a->end == XH_NET_CONNECT_TIMEOUT || a->end == XH_NET_STALL || a->end == XH_NET_CRAWL;
    if (rc == 0 && (!a->reply.over || (late && a->reply.status < 300)))
        rc = xh_err_set(err, late ? XH_E_TIMEOUT : XH_E_NET, 0, "%.200s: %.300s", from->shown,
                        a->why[0] ? a->why : "no reply");
    return rc;
}

/* Asks |method| for a listing at |u|. */
static int ask_listing(struct asker *k, struct xh_url *u, const char *method, struct xh_err *err)
{
    const struct xh_question q = {.method = method, .depth = 1, .whole = 1, .most_bytes = LISTING_MOST_BYTES,
                                  .body = xh_body_keep, .ctx = &k->b};
    return ask(k, u, &q, err);
}

/* 1 when all of a reply with |status| came. */
static int came(const struct asker *k, int status)
{
    return k->by.a->end == XH_NET_OK && k->by.a->reply.status == status && k->b.len > 0;
}

/* What is wrong with a reply that is no listing. */
static int fault(const struct asker *k, struct xh_err *err)
{
    int status = k->by.a->reply.status;
    if (status == 401 || status == 403)
        return xh_err_set(err, XH_E_ACCES, status, "%.200s: the server does not list this directory (status %d): only "
                          "what was opened by name is shown", k->by.u->shown, status);
    if (status == 404)
        return xh_err_set(err, XH_E_NOENT, status, "%.200s: there is no such directory on the server (404)",
                          k->by.u->shown);
    return xh_err_set(err, XH_E_PROTO, status, "%.200s: the server lists no names in a form that is known (status %d): "
                      "only what was opened by name is shown", k->by.u->shown, status);
}

/* ---- S3 */

/* Adds what |url|, of s3://, lists, at most |parts| of it. Returns 0 or a negative code. */
static int list_s3(const char *url, unsigned parts, const struct xh_options *o, struct xh_entries *out,
                   struct xh_err *err)
{
    char token[XH_LISTING_TOKEN_BYTES] = "";
    struct asker k = {0};
    unsigned part = 0;
    int rc;
    do {
        struct xh_url *at = NULL;
        rc = xh_caller_list_url(url, token, o, &at, err);
        if (rc == 0 && part == 0)
            rc = xh_asker_begin(&k.by, xh_url_ref(at), o, err);
        rc = rc ? rc : ask_listing(&k, at, NULL, err);
        xh_url_unref(at);
        if (rc == 0 && (!came(&k, 200) || xh_listing_s3((char *)k.b.at, k.b.len, xh_s3_prefix(url), out, token) != 0))
            rc = fault(&k, err);
        part++;
    } while (rc == 0 && token[0] && part < parts && out->n <= NAMES_MOST);
    if (rc == 0 && token[0] && parts == PARTS_MOST)
        rc = xh_err_set(err, XH_E_PROTO, 0, "%.200s: it lists more than a million names: only what was opened by name "
                        "is shown", k.by.u->shown);
    if (rc == 0 && out->n == 0 && *xh_s3_prefix(url))
        rc = xh_err_set(err, XH_E_NOENT, 404, "%.200s: there is nothing below this name on the server", url);
    asker_free(&k);
    return rc;
}

int xh_list_is_prefix(const char *url, const struct xh_options *o)
{
    struct xh_entries found = {0};
    char *directory = xh_s3_is_name(url) ? xh_listing_url(url, "", "/") : NULL;
    int is = directory && list_s3(directory, 1, o, &found, XH_IGNORED) == 0 && found.n > 0;
    xh_entries_free(&found);
    free(directory);
    return is;
}

int xh_list_is_bucket(const char *url)
{
    return xh_s3_is_name(url) && !strchr(url + strlen("s3://"), '/');
}

/* ---- others */

static int list_http(const char *url, const struct xh_options *o, struct xh_entries *out, struct xh_err *err)
{
    struct asker k = {0};
    struct xh_url *u = NULL;
    int rc = xh_caller_url(url, o, &u, err);
    rc = rc ? rc : xh_asker_begin(&k.by, u, o, err);
    rc = rc ? rc : ask_listing(&k, u, "PROPFIND", err);
    if (rc == 0 && !(came(&k, 207) && xh_listing_propfind((char *)k.b.at, k.b.len, u->text, out) == 0)) {
        rc = ask_listing(&k, u, NULL, err);
        if (rc == 0 && !(came(&k, 200) && (xh_listing_json((char *)k.b.at, k.b.len, out) == 0 ||
                                           xh_listing_page((char *)k.b.at, k.b.len, out) == 0)))
            rc = fault(&k, err);
    }
    asker_free(&k);
    return rc;
}

int xh_list_at(const char *url, const struct xh_options *o, struct xh_entries *out, struct xh_err *err)
{
    return xh_s3_is_name(url) ? list_s3(url, PARTS_MOST, o, out, err) : list_http(url, o, out, err);
}

/* ---- sizes and dates */

struct looks {
    char *const *urls;
    size_t n;
    _Atomic size_t next; /* whoever adds 1 asks for that one; nothing else goes with it */
    const struct xh_options *o;
    struct xh_entry *out;
};

static void look(struct asker *k, struct xh_url *u, struct xh_entry *out)
{
    static const struct xh_question head = {.bodiless = 1};
    const struct xh_reply *r = &k->by.a->reply;
    if (ask(k, u, &head, XH_IGNORED) != 0 || k->by.a->end != XH_NET_OK || r->status != 200 || !r->length_given ||
        r->html || r->encoded || r->contradictory)
        return;
    out->size = r->length;
    out->changed_s = xh_http_date(r->last_modified);
    out->told = 1;
}

/* One connection's part. */
static void *look_at_some(void *arg)
{
    struct looks *l = arg;
    struct asker k = {0};
    int begun = 0, rc = 0;
    for (size_t i; rc == 0 && (i = l->next++) < l->n;) {
        struct xh_url *u = NULL;
        rc = xh_caller_url(l->urls[i], l->o, &u, XH_IGNORED);
        if (rc == 0 && !begun++)
            rc = xh_asker_begin(&k.by, xh_url_ref(u), l->o, XH_IGNORED);
        if (rc == 0)
            look(&k, u, &l->out[i]);
        xh_url_unref(u);
    }
    if (begun)
        asker_free(&k);
    return NULL;
}

void xh_list_look(char *const *urls, size_t n, const struct xh_options *o, struct xh_entry *out)
{
    struct looks l = {.urls = urls, .n = n, .o = o, .out = out};
    pthread_t others[LOOKS_AT_ONCE];
    size_t threads = 0;
    while (threads + 1 < LOOKS_AT_ONCE && threads + 1 < n && xh_thread_start(&others[threads], look_at_some, &l) == 0)
        threads++;
    look_at_some(&l);
    for (size_t i = 0; i < threads; i++)
        pthread_join(others[i], NULL);
}
