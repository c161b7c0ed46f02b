/* The caller: see caller.h. */
#include "caller.h"

#include <stdio.h>
#include <string.h>

#include "handle.h"

/* The user's name and password, of the URL or, if the option says so, of the netrc file. Returns 0 or a negative
 * code. */
static int take_login(struct xh_caller *c, struct xh_url *u, struct xh_err *err)
{
    char host[256];
    if (u->user || u->ticket || !c->o->netrc || !xh_caller_trusts(c, u))
        return 0;
    const char *from = strstr(u->server, "://") + 3;
    size_t n = (size_t)(strrchr(from, ':') - from);
    int brackets = *from == '[';
    snprintf(host, sizeof host, "%.*s", (int)n - 2 * brackets, from + brackets);
    c->login = "the user name and password of the netrc file";
    int rc = xh_netrc_find(c->o->env, host, &u->user, &u->password, err);
    return rc < 0 ? rc : 0;
}

int xh_caller_find(struct xh_caller *c, const struct xh_options *o, struct xh_url *url, struct xh_err *err)
{
    const char *file, *dir;
    struct xh_err none;
    int rc;
    *c = (struct xh_caller){.o = o, .url = url, .login = "the user name and password in the URL"};
    rc = xh_proxies_read(&c->proxies, o->env, err);
    rc = rc ? rc : xh_proxy_check(&c->proxies, url, err);
    if (rc)
        return rc;
    xh_handle_default_ca(&file, &dir);
    /* http may lead to https: then their lack is an error, but not before. */
    if (xh_trust_find(o, file, dir, &c->trust, &none) != 0) {
        if (url->https)
            rc = xh_err_set(err, none.code, 0, "%s", none.text);
        c->trust = (struct xh_trust){0};
        snprintf(c->trust.note, sizeof c->trust.note, "none (%.500s)", none.text);
    }
    if (rc || !url->https)
        return rc;
    rc = xh_token_find(o->env, &c->token, err);
    rc = rc ? rc : take_login(c, url, err);
    xh_cert_find(o->env, &c->cert);
    return rc;
}

void xh_caller_free(struct xh_caller *c)
{
    xh_token_unref(c->token);
    xh_proxies_free(&c->proxies);
    c->token = NULL;
}

int xh_caller_trusts(const struct xh_caller *c, const struct xh_url *u)
{
    return xh_auth_trusts(c->o, c->url, u);
}

int xh_caller_renew(const struct xh_token *old, struct xh_token **found)
{
    *found = NULL;
    if (!xh_token_again(old, found))
        return 0;
    if (!(*found)->value) { /* it is just being written, or gone: the old one may be good for a while */
        xh_token_unref(*found);
        *found = NULL;
        return 0;
    }
    return !old->value || strcmp((*found)->value, old->value) != 0;
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
    s->ca_file = c->trust.file;
    s->ca_dir = c->trust.dir;
    s->connect_timeout_ms = c->o->connect_timeout_ms;
    s->user = own ? c->url->user : NULL;
    s->password = own ? c->url->password : NULL;
    s->bearer = trusted && !u->ticket && !c->url->user && t ? t->value : NULL;
    s->client_cert = trusted && c->cert.path[0] ? c->cert.path : NULL;
    s->client_key = s->client_cert ? c->cert.key : NULL;
}
