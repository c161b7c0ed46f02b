/* The caller: see caller.h. */
#include "caller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "base/wipe.h"
#include "libcurl.h"
#include "s3keys.h"
#include "s3metadata.h"

/* ---- S3 */

/* 1 when |u| is at the server of |endpoint|; |virtual|: or at a bucket's own host there. */
static int is_at(const struct xh_url *u, const char *endpoint, int virtual)
{
    struct xh_url *e = NULL;
    if (!*endpoint || xh_url_parse(endpoint, &e, NULL) != 0)
        return 0;
    const char *host = xh_url_host(u->server), *its = xh_url_host(e->server);
    size_t n = strlen(host), k = strlen(its);
    int below = virtual && n > k + 1 && host[n - k - 1] == '.' && strcmp(host + n - k, its) == 0;
    int same = u->https == e->https && (strcmp(host, its) == 0 || below);
    xh_url_unref(e);
    return same;
}

int xh_caller_list_url(const char *name, const char *token, const struct xh_options *o, struct xh_url **out,
                       struct xh_err *err)
{
    struct xh_s3_settings s;
    struct xh_s3_place p;
    char *text = NULL;
    int named = xh_s3_is_name(name), rc = xh_s3_settings_find(o, named, &s, err);
    if (rc == 0 && named) {
        struct xh_s3_where where = {.endpoint = s.endpoint, .region = s.region, .style = s.style};
        rc = token ? xh_s3_list_address(name, token, &where, &text, err) : xh_s3_address(name, &where, &text, err);
    }
    struct xh_url *u = NULL;
    rc = rc ? rc : xh_url_parse(named ? text : name, &u, err);
    free(text);
    if (rc)
        return rc;
    int amazon = xh_s3_place(u, &p), virtual = s.style == XH_S3_VIRTUAL;
    int is = named || (s.rule == XH_S3_RULE_AUTO && (amazon || is_at(u, s.endpoint, virtual))) ||
                                          s.rule == XH_S3_RULE_ON;
    if (is && !u->user) {
        if (!named && !s.region[0] && !(amazon && p.region[0]))
            xh_s3_settings_find(o, 1, &s, NULL);
        const char *region = amazon && p.region[0] ? p.region : s.region[0] ? s.region : XH_S3_REGION_USUAL;
        rc = xh_s3_is_region(region)
                 ? xh_s3_take(u, region, err)
                 : xh_err_set(err, XH_E_INVAL, 0, "the S3 region %.60s is none: regions are like eu-west-1", region);
    }
    if (rc)
        xh_url_unref(u);
    else
        *out = u;
    return rc;
}

int xh_caller_url(const char *name, const struct xh_options *o, struct xh_url **out, struct xh_err *err)
{
    return xh_caller_list_url(name, NULL, o, out, err);
}

/* The keys for |c->url|, of S3. None where they may not go: a file that names others' buckets runs no program. */
static int take_keys(struct xh_caller *c, struct xh_err *err)
{
    struct xh_s3_settings s;
    if (c->o->namer.by_file && !xh_caller_trusts(c, c->url))
        return 0;
    int rc = xh_s3_settings_find(c->o, 0, &s, err);
    s.unsigned_ |= s.rule == XH_S3_RULE_OFF;
    rc = rc ? rc : xh_s3_keys_find(c->o, &s, xh_s3_metadata_fetch, &c->token, err);
    if (rc == 0 && c->token->value && !xh_libcurl_signs())
        rc = xh_err_set(err, XH_E_INVAL, 0,
                        "%.200s: the libcurl that is here makes no signatures for S3: it is older than 7.88, or built "
                        "with --disable-aws. Without keys (aws_no_sign_request=on) it reads what is public",
                        c->url->shown);
    return rc;
}

/* ---- all servers */

/* The user's name and password, of the URL or, if the option says so, of the netrc file. Returns 0 or a negative
 * code. */
static int take_login(struct xh_caller *c, struct xh_url *u, struct xh_err *err)
{
    char host[256];
    if (u->user || u->ticket || !c->o->netrc || !xh_caller_trusts(c, u))
        return 0;
    xh_url_host_name(u, host, sizeof host);
    c->login = "the user name and password of the netrc file";
    int rc = xh_netrc_find(c->o->env, host, 1, &u->user, &u->password, err);
    return rc < 0 ? rc : 0;
}

/* Appends |s| with its NUL; NULL is told from "". */
static void add(char *text, size_t *used, const char *s)
{
    text[(*used)++] = s ? '+' : '-';
    size_t n = s ? strlen(s) + 1 : 0;
    memcpy(text + *used, s ? s : "", n);
    *used += n;
}

/* Hashes what the user is known by. Returns 1, or 0 without memory. */
static int identify(struct xh_caller *c)
{
    const char *named[] = {c->url->user, c->url->password, c->token ? c->token->value : NULL, c->cert.path};
    size_t bytes = 0, used = 0;
    uint8_t sha[32];
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        bytes += 2 + (named[i] ? strlen(named[i]) : 0);
    for (size_t i = 0; i < c->logins.n; i++)
        bytes += 6 + strlen(c->logins.of[i].server) + strlen(c->logins.of[i].user) + strlen(c->logins.of[i].password);
    char *text = malloc(bytes);
    if (!text)
        return 0;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        add(text, &used, named[i]);
    for (size_t i = 0; i < c->logins.n; i++) {
        add(text, &used, c->logins.of[i].server);
        add(text, &used, c->logins.of[i].user);
        add(text, &used, c->logins.of[i].password);
    }
    int ok = xh_sha256(text, used, sha);
    xh_wipe_bytes(text, used);
    if (ok)
        xh_hex(sha, sizeof sha, c->identity);
    return ok;
}

/* What redirects to a login need: the passwords of login hosts, and a place for cookies. For a URL that a file named,
 * only where it gets the other credentials too: a file starts no login with its reader's password. */
static int take_logins(struct xh_caller *c, struct xh_err *err)
{
    int rc = 0;
    if (!xh_caller_trusts(c, c->url))
        return 0;
    if (c->o->netrc)
        rc = xh_logins_find(c->o->env, c->o->login_hosts, &c->logins, err);
    if (rc == 0 && identify(c))
        c->session = xh_session_of(c->identity);
    if (!c->session) /* without memory nobody logs in */
        xh_logins_free(&c->logins);
    return rc;
}

/* 1 when a file names |u|, and lies elsewhere. */
static int is_foreign(const struct xh_namer *n, const struct xh_url *u)
{
    struct xh_url *parent = NULL;
    if (!n->by_file)
        return 0;
    int same = n->remote && xh_url_parse(n->parent, &parent, NULL) == 0 && xh_url_same_server(parent, u);
    xh_url_unref(parent);
    return !same;
}

int xh_caller_find(struct xh_caller *c, const struct xh_options *o, struct xh_url *url, struct xh_err *err)
{
    const char *file, *dir;
    struct xh_err none;
    int rc;
    *c = (struct xh_caller){.o = o, .url = url, .login = "the user name and password in the URL",
                            .foreign = is_foreign(&o->namer, url)};
    if (o->offline)
        return xh_err_set(err, XH_E_NET, 0, "%.300s: with offline=on no server is asked", url->shown);
    rc = xh_proxies_read(&c->proxies, o->env, err);
    rc = rc ? rc : xh_proxy_check(&c->proxies, url, err);
    if (rc)
        return rc;
    xh_libcurl_default_ca(&file, &dir);
    /* http may lead to https: then their lack is an error, but not before. */
    if (xh_trust_find(o, file, dir, &c->trust, &none) != 0) {
        if (url->https)
            rc = xh_err_set(err, none.code, 0, "%s", none.text);
        c->trust = (struct xh_trust){0};
        snprintf(c->trust.note, sizeof c->trust.note, "none (%.500s)", none.text);
    }
    if (rc || !url->https)
        return rc;
    if (url->region) {
        rc = url->ticket ? xh_token_find(o->env, &c->token, err) : take_keys(c, err);
    } else {
        rc = xh_token_of_earthdata(o->env, url->server, &c->token, err);
        rc = rc < 0 ? rc : rc == 1 ? 0 : xh_token_find(o->env, &c->token, err);
        rc = rc ? rc : take_login(c, url, err);
    }
    xh_cert_find(o->env, &c->cert);
    return rc ? rc : take_logins(c, err);
}

void xh_caller_free(struct xh_caller *c)
{
    xh_token_unref(c->token);
    xh_proxies_free(&c->proxies);
    xh_logins_free(&c->logins);
    c->token = NULL;
}

int xh_caller_trusts(const struct xh_caller *c, const struct xh_url *u)
{
    /* A bucket that lies in another region has another host there. */
    int moved = c->url->region && xh_s3_same_bucket(c->url, u) && xh_auth_trusts(c->o, c->url, c->url);
    return (u->https && moved) || xh_auth_trusts(c->o, c->url, u);
}

const struct xh_login *xh_caller_login(const struct xh_caller *c, const struct xh_url *u)
{
    return xh_url_same_server(u, c->url) ? NULL : xh_logins_for(&c->logins, u->server);
}

int xh_caller_keeps_cookies(const struct xh_caller *c, const struct xh_url *u)
{
    return c->session && u->https && !u->region && (!u->ticket || xh_url_same_server(u, c->url));
}

enum xh_again xh_caller_renew(const struct xh_token *old, uint64_t since_ns, struct xh_token **found)
{
    *found = NULL;
    enum xh_again again = xh_token_again(old, since_ns, found);
    if (again != XH_AGAIN_FOUND)
        return again;
    if (!(*found)->value) { /* it is just being written, or gone: the old one may be good for a while */
        xh_token_unref(*found);
        *found = NULL;
        return XH_AGAIN_NOTHING;
    }
    return !old->value || strcmp((*found)->value, old->value) != 0 ? XH_AGAIN_FOUND : XH_AGAIN_NOTHING;
}

void xh_caller_send(const struct xh_caller *c, const struct xh_token *t, const struct xh_url *u, struct xh_send *s)
{
    int trusted = xh_caller_trusts(c, u);
    /* The netrc file was asked for trusted servers alone; what stands in the URL is for that URL's server, whoever
     * wrote it. */
    int own = c->url->user && c->url->https && !u->ticket && xh_url_same_server(u, c->url);
    s->url = u->text;
    s->https = u->https;
    s->proxies = &c->proxies;
    int foreign = c->foreign || !xh_url_same_server(u, c->url); /* where a proxy connects, it decides itself */
    s->foreign = foreign && !xh_auth_listed(c->o->credential_hosts, u->server) && !xh_proxy_for(&c->proxies, u);
    s->ca_file = c->trust.file;
    s->ca_dir = c->trust.dir;
    s->connect_timeout_ms = c->o->connect_timeout_ms;
    s->user = own ? c->url->user : NULL;
    s->password = own ? c->url->password : NULL;
    s->bearer = trusted && !u->ticket && !c->url->user && t && !t->s3 ? t->value : NULL;
    s->region = s->session = NULL;
    if (trusted && u->region && !u->ticket && !c->url->user && t && t->s3 && t->value) {
        s->region = u->region;
        s->user = t->s3->id;
        s->password = t->s3->secret;
        s->session = t->s3->session;
    }
    s->client_cert = trusted && c->cert.path[0] ? c->cert.path : NULL;
    s->client_key = s->client_cert ? c->cert.key : NULL;
    if (t && t->earthdata && !xh_login_is_earthdata(u->server))
        s->bearer = NULL;
}
