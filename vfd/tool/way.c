/* The doctor's check of the path to the file: name, connection, TLS, credentials, redirects, first reply. */
#include "exam.h"

#include <inttypes.h>
#include <string.h>

#include "../../cache/origin/login.h"
#include "../../cache/origin/s3.h"
#include "../../cache/origin/tls_advice.h"
#include "tool.h"

#define NAME_SLOW_MS 200.0
#define CERTIFICATE_SOON_S (3L * 86400)
#define A_FILE_IN_IT "Name a file in it"

enum xh_state xh_doctor_name(struct doctor *d)
{
    struct xh_report *r = &d->report;
    struct xh_err err = {0};
    double took_ms = 0;
    const struct xh_proxy *proxy = xh_proxy_for(&d->caller.proxies, d->named);
    if (proxy) /* the proxy resolves names and connects */
        return xh_report_as(r, XH_STATE_UNTRIED, "the proxy %s (%s) resolves names and connects", proxy->text,
                            proxy->from);
    int n = xh_connect_resolve(d->host, d->port, d->address, &took_ms, &err);
    xh_report_text(r, "host", d->host);
    xh_report_number(r, "ms", took_ms);
    if (n < 0) {
        xh_report_say(r, "%s: %s", d->host, err.text);
        xh_report_advise(r,
                         "check the spelling of the host; /etc/resolv.conf and the network of this machine (getent "
                         "hosts %s); a proxy may have to be set (https_proxy)",
                         d->host);
        return XH_STATE_FAILED;
    }
    d->addresses = (unsigned)n;
    if (strcmp(d->host, d->address[0].text) == 0)
        return xh_report_as(r, XH_STATE_OK, "%s is an address", d->host);
    for (unsigned i = 0; i < d->addresses; i++)
        xh_report_say(r, i ? "%s" : "%s has the address %s", i ? d->address[i].text : d->host, d->address[i].text);
    xh_report_text(r, "address", d->address[0].text);
    xh_report_say(r, "%.1f ms", took_ms);
    if (took_ms > NAME_SLOW_MS)
        xh_report_advise(r, "name resolution is slow, and each program waits for it when it opens: a caching resolver "
                            "(systemd-resolved, nscd) helps");
    return XH_STATE_OK;
}

enum xh_state xh_doctor_connection(struct doctor *d)
{
    struct xh_report *r = &d->report;
    unsigned answered;
    if (d->addresses == 0)
        return XH_STATE_UNTRIED;
    answered = xh_connect_connect(d->address, d->addresses, d->port);
    for (unsigned i = 0; i < d->addresses; i++) {
        const struct xh_connected *a = &d->address[i];
        if (a->connect_ms >= 0)
            xh_report_say(r, "%s port %s in %.1f ms", a->text, d->port, a->connect_ms);
        else
            xh_report_say(r, "%s port %s: %s", a->text, d->port, strerror(a->error));
        if (a->connect_ms >= 0 && (d->connect_ms <= 0 || a->connect_ms < d->connect_ms))
            d->connect_ms = a->connect_ms;
    }
    xh_report_count(r, "addresses", d->addresses);
    xh_report_count(r, "answered", answered);
    if (answered)
        xh_report_number(r, "ms", d->connect_ms);
    if (answered == 0) {
        xh_report_advise(r, "is the port right, and the server up? \"Connection timed out\" is most often a firewall, "
                            "here or there; a cluster's nodes may need a proxy (https_proxy)");
        return XH_STATE_FAILED;
    }
    if (answered < d->addresses)
        xh_report_advise(r, "some addresses do not answer: each opening may lose time on them. Have them mended, or "
                            "taken out of the name");
    return XH_STATE_OK;
}

/* ---- TLS ------------------------------------------------------------------------------------ */

static void ask(struct doctor *d, const struct xh_url *u, int fresh, struct xh_answer *out)
{
    const struct xh_question q = {.range = "bytes=0-0", .fresh = fresh, .most_bytes = XH_WORDS_MOST_BYTES};
    xh_dial_ask(d->dial, u, &q, out);
}

static enum xh_state untrusted(struct doctor *d, const struct xh_answer *a)
{
    struct xh_report *r = &d->report;
    char buf[XH_TLS_ADVICE_BYTES];
    const char *advice = xh_tls_advice(a->why, time(NULL), buf);
    xh_report_say(r, "%s", a->why);
    if (a->issuer[0])
        xh_report_say(r, "the certificate of %s was signed by %s", a->subject, a->issuer);
    xh_report_say(r, "trusted is what %s holds", d->caller.trust.note);
    xh_report_text(r, "issuer", a->issuer);
    xh_report_text(r, "trusted", d->caller.trust.note);
    if (advice)
        xh_report_advise(r, "%s", advice);
    else
        xh_report_advise(r, "if that issuer is your site's: give its certificate by XHDF5_CA_BUNDLE=/path/ca.pem (or "
                            "XHDF5_CA_DIR; grid CAs lie in /etc/grid-security/certificates)");
    return XH_STATE_FAILED;
}

/* Returns what failed before a reply; NULL when neither TLS nor the connection failed. */
static const char *broken_way(const struct xh_answer *a)
{
    switch (a->end) {
    case XH_NET_NAME: case XH_NET_CONNECT: return "the connection could not be made";
    case XH_NET_HANDSHAKE: return "the TLS handshake failed";
    case XH_NET_CONNECT_TIMEOUT: return a->tls_ms > 0 ? NULL : "no handshake within the time";
    default: return NULL;
    }
}

enum xh_state xh_doctor_tls(struct doctor *d)
{
    struct xh_report *r = &d->report;
    struct xh_answer *a = &d->first, again;
    const char *broken;
    char date[32], buf[XH_TLS_ADVICE_BYTES];
    time_t now = time(NULL);
    struct tm tm;
    if (!d->named->https) { /* a redirect may lead to https; then the CAs that were found are used */
        ask(d, d->at, 0, a);
        return xh_report_as(r, XH_STATE_UNTRIED,
                            "none: the URL is http://, so what comes is not protected, and no token is sent");
    }
    if (d->caller_err.code == XH_E_TLS) {
        xh_report_say(r, "%s", d->caller_err.text);
        xh_report_advise(r, "name a file of trusted certificates: XHDF5_CA_BUNDLE=/path/ca.pem; most systems have one "
                            "in the package ca-certificates");
        return XH_STATE_FAILED;
    }
    ask(d, d->at, 0, a);
    if (a->end == XH_NET_UNTRUSTED)
        return untrusted(d, a);
    if ((broken = broken_way(a))) {
        xh_report_say(r, "%s: %s", broken, a->why);
        const char *advice = xh_tls_advice(a->why, now, buf);
        if (advice)
            xh_report_advise(r, "%s", advice);
        /* a proxy's refusal says what to do */
        else if (!xh_proxy_for(&d->caller.proxies, d->at) || a->end != XH_NET_CONNECT)
            xh_report_advise(r,
                             "does the server speak https on port %s? TLS 1.2 is the least; a server that wants a "
                             "certificate of yours says so here (X509_USER_PROXY, docs/access.md)",
                             d->port);
        return XH_STATE_FAILED;
    }
    xh_report_number(r, "handshake_ms", a->tls_ms);
    if (!a->tls)
        return xh_report_as(r, XH_STATE_OK, "handshake in %.1f ms; its details cannot be seen with this libcurl",
                            a->tls_ms);
    ask(d, d->at, 1, &again);
    gmtime_r(&a->until, &tm);
    strftime(date, sizeof date, "%Y-%m-%d", &tm);
    xh_report_say(r, "%s, %s, handshake in %.1f ms", a->protocol, a->cipher, a->tls_ms);
    xh_report_say(r, again.resumed ? "a second connection resumed the first one's session"
                                   : "a second connection had to make a full handshake");
    xh_report_say(r, "certificate of %s (%s), signed by %s, until %s", a->subject, a->key, a->issuer, date);
    xh_report_say(r, "trusted by %s", d->caller.trust.note);
    xh_report_text(r, "protocol", a->protocol);
    xh_report_text(r, "cipher", a->cipher);
    xh_report_text(r, "resumed", again.resumed ? "yes" : "no");
    xh_report_text(r, "subject", a->subject);
    xh_report_text(r, "issuer", a->issuer);
    xh_report_text(r, "root", a->root);
    xh_report_text(r, "until", date);
    xh_report_text(r, "trusted", d->caller.trust.note);
    if (a->until && a->until - now < CERTIFICATE_SOON_S)
        xh_report_advise(r, "the certificate ends in %ld days: tell the server's owner",
                         (long)((a->until - now) / 86400));
    return XH_STATE_OK;
}

/* ---- credentials ---------------------------------------------------------------------------- */

enum xh_state xh_doctor_credentials(struct doctor *d)
{
    struct xh_report *r = &d->report;
    const struct xh_token *t = d->caller.token;
    char more[400] = "";
    if (!d->named->https)
        return xh_report_as(r, XH_STATE_OK, "none are sent over http");
    if (d->caller_err.code) { /* the driver opens nothing then */
        xh_report_say(r, "%s", d->caller_err.text);
        xh_report_advise(r, "mend the file, or do without it: XHDF5_NETRC=off");
        return XH_STATE_FAILED;
    }
    if (t && t->value)
        xh_token_describe(t, time(NULL), more, sizeof more);
    if (t)
        xh_report_say(r, "%s%s%s", t->value ? "" : t->s3 ? "no key: " : "no token: ", t->note, more);
    xh_report_text(r, "token", t && t->value ? "found" : "none");
    xh_report_text(r, "token_from", t ? t->note : NULL);
    if (d->caller.cert.path[0])
        xh_report_say(r, "certificate %s", d->caller.cert.path);
    else if (d->caller.cert.note[0])
        xh_report_say(r, "%s", d->caller.cert.note);
    xh_report_text(r, "certificate", d->caller.cert.path[0] ? d->caller.cert.path : NULL);
    if (d->named->user)
        xh_report_say(r, d->has_user ? "user name and password of the URL" : "user name and password of .netrc");
    if (t && t->value && t->expires && t->expires <= time(NULL))
        xh_report_advise(r, "the token is over: get a new one (oidc-token, htgettoken, your site's way)");
    return XH_STATE_OK;
}

/* ---- redirects ------------------------------------------------------------------------------ */

/* The server sends its readers to |next|, to log in. That is done when the file is opened. */
static enum xh_state to_login(struct doctor *d, const struct xh_url *next)
{
    struct xh_report *r = &d->report;
    const char *host = xh_url_host(next->server);
    int known = xh_caller_login(&d->caller, next) != NULL;
    xh_report_say(r, "to a login at %s%s", host, known ? ", for which the netrc file has a name and a password" : "");
    xh_report_text(r, "login", next->server);
    d->behind_login = 1;
    if (known)
        return XH_STATE_OK;
    xh_report_advise(r,
                     "set XHDF5_NETRC=on%s, with an entry for that host in ~/.netrc (chmod 600)%s; docs/access.md, "
                     "logins by redirect",
                     d->o->netrc ? " (it is)" : "",
                     xh_login_is_earthdata(d->named->server) ? ", or EARTHDATA_TOKEN to a token of yours" : "");
    return XH_STATE_FAILED;
}

enum xh_state xh_doctor_redirects(struct doctor *d)
{
    struct xh_report *r = &d->report;
    struct xh_err err = {0};
    struct xh_url *next = NULL;
    unsigned hops = 0;
    int leads;
    while ((leads = xh_dial_next(d->dial, d->named, d->at, hops, &d->first, &next, &err)) == 1) {
        int other = !xh_url_same_server(next, d->at);
        if (xh_login_is_host(d->o->login_hosts, next->server) && !xh_url_same_server(next, d->named)) {
            enum xh_state state = to_login(d, next);
            xh_url_unref(next);
            return state;
        }
        xh_report_say(r, "%s%s%s", next->shown, next->region ? ", region " : "", next->region ? next->region : "");
        xh_url_unref(d->at);
        d->at = next;
        hops++;
        ask(d, d->at, 0, &d->first);
        if (d->first.end == XH_NET_UNTRUSTED)
            return untrusted(d, &d->first);
        if (broken_way(&d->first)) {
            xh_report_say(r, "%s: %s", broken_way(&d->first), d->first.why);
            xh_report_advise(r, "the redirector sends readers to a server that cannot be reached from here: a "
                                "firewall, or a name of its inner network");
            return XH_STATE_FAILED;
        }
        if (other)
            d->connect_ms = d->first.connect_ms;
        if (other && d->caller.token && d->caller.token->value && !xh_caller_trusts(&d->caller, d->at))
            xh_report_say(r, "(token and certificate do not go there: it is not in credential_hosts)");
    }
    if (leads < 0) {
        xh_report_say(r, "status %d leads nowhere: %s", d->first.reply.status, err.text);
        xh_report_advise(r, "the server is set up wrongly; on XRootD redirectors http.desthttps yes keeps to https");
        return XH_STATE_FAILED;
    }
    xh_report_count(r, "hops", hops);
    if (hops)
        xh_report_text(r, "to", d->at->shown);
    else
        xh_report_say(r, "none");
    return XH_STATE_OK;
}

/* ---- the first reply ------------------------------------------------------------------------ */

static enum xh_state refused(struct doctor *d)
{
    struct xh_report *r = &d->report;
    const struct xh_reply *p = &d->first.reply;
    const struct xh_token *t = d->caller.token;
    int limited = p->status == 429 || p->status == 503 || (p->status == 403 && p->retry_after_s >= 0);
    struct xh_s3_error e = {0};
    if (d->at->region)
        xh_s3_error(d->first.said, strlen(d->first.said), &e);
    xh_report_say(r, "status %d%s%s", p->status, e.code[0] ? " " : "", e.code);
    if (p->reason[0])
        xh_report_say(r, "the server says: %s", p->reason);
    if (p->status == 404 || p->status == 410)
        xh_report_advise(r, "the server has no file at this path: check its spelling; the path on the server's disk "
                            "and that of its URLs mostly begin differently");
    else if (limited)
        xh_report_advise(r, "the server is busy or limits how often it may be asked: try again later%s, with fewer "
                            "processes",
                         p->retry_after_s > 0 ? " (it says when)" : "");
    else if (p->status == 403 && xh_url_is_directory(d->at))
        xh_report_advise(r,
                         "this is the URL of a directory, and the server does not show what is in it. " A_FILE_IN_IT);
    else if (p->status == 400 && !d->at->https && xh_tls_is_wanted(d->first.said))
        xh_report_advise(r, "this port speaks TLS: write https:// instead of http:// in the URL");
    else if (!d->at->https && (p->status == 401 || p->status == 403))
        xh_report_advise(r, "no token is sent over http: use https");
    else if (d->at->region && (p->status == 400 || p->status == 401 || p->status == 403))
        xh_report_advise(r, "S3 lets nobody read this with the key above, or without one; it says the same where there "
                            "is no such object: docs/s3.md");
    else if (p->status == 401 && !(t && t->value))
        xh_report_advise(r, "the server wants to know who you are, and no token was sent (credentials, above, says "
                            "why): set BEARER_TOKEN_FILE, or give a certificate (X509_USER_PROXY); docs/access.md");
    else if (p->status == 401 || p->status == 403)
        xh_report_advise(r, "this token or certificate does not open this file: see above until when it holds, for "
                            "what audience and scope; ask the server's owner who may read it");
    else if (p->status == 416)
        xh_report_advise(r, "the file is empty, or the server is still looking for it (XRootD redirectors): try again");
    else if (p->status >= 500)
        xh_report_advise(r, "an error of the server's: its log says more");
    else
        xh_report_advise(r, "no answer that a file server gives: is this the URL of a file?");
    return XH_STATE_FAILED;
}

/* 1 when |p|, which came for the first byte, says that there is none. Without a size a 416 does not: see refused(). */
static int is_empty(const struct xh_reply *p)
{
    const struct xh_content_range *c = &p->range;
    return !p->contradictory && !p->encoded &&
           ((p->status == 200 && p->length_given && p->length == 0) ||
            (p->status == 416 && c->given && c->unsatisfied && c->total_known && c->total == 0));
}

static enum xh_state no_reply(struct doctor *d)
{
    const struct xh_answer *a = &d->first;
    const char *what = a->end == XH_NET_CONNECT_TIMEOUT    ? "no reply within the time"
                       : a->end == XH_NET_BAD_HTTP ? "what came is not HTTP"
                                                    : "the connection broke off";
    if (a->end == XH_NET_NEAR) {
        xh_report_say(&d->report, "not asked: a redirect leads to a link-local address");
        xh_report_advise(&d->report, "metadata services of clouds are at such ones. If it may be read, name its "
                                     "host in XHDF5_CREDENTIAL_HOSTS");
        return XH_STATE_FAILED;
    }
    xh_report_say(&d->report, "%s: %s", what, a->why[0] ? a->why : "no reply");
    if (!d->at->https && a->reply.status == 0)
        xh_report_advise(&d->report, "if this port speaks TLS, write https:// in the URL");
    xh_report_advise(&d->report, "try again; if it stays, the server or what stands between (proxy, firewall, "
                                 "balancer) is to blame: its log says more");
    return XH_STATE_FAILED;
}

enum xh_state xh_doctor_reply(struct doctor *d)
{
    struct xh_report *r = &d->report;
    const struct xh_answer *a = &d->first;
    const struct xh_reply *p = &a->reply;
    xh_report_count(r, "status", (uint64_t)p->status);
    xh_report_text(r, "server", p->server[0] ? p->server : NULL);
    if (p->server[0])
        xh_report_say(r, "%s", p->server);
    if (!p->over || (p->status < 300 && a->end != XH_NET_OK && a->end != XH_NET_CUT))
        return no_reply(d);
    if (is_empty(p)) {
        xh_report_say(r, "status %d: the file is empty, it has 0 bytes", p->status);
        xh_report_advise(r, "nothing was written to it, or nothing has come of it yet: look at where it comes from");
        return XH_STATE_FAILED;
    }
    if (p->status == 200 && (xh_reply_is_listing(a->said) || (p->html && xh_url_is_directory(d->at)))) {
        xh_report_say(r, "status 200, and a page with a directory's listing in place of the file");
        xh_report_advise(r, "this is the URL of a directory. " A_FILE_IN_IT);
        return XH_STATE_FAILED;
    }
    if (p->status == 200 && p->html) {
        xh_report_say(r, "status 200, and a web page (text/html) in place of the file");
        xh_report_advise(r, "the server wants a login (docs/access.md: BEARER_TOKEN_FILE and others), shows a "
                            "directory, or shows this for whatever it does not have: look at the URL in a browser");
        return XH_STATE_FAILED;
    }
    if (p->status == 200) {
        uint64_t most = d->o->whole_file_bytes > d->o->head_bytes ? d->o->whole_file_bytes : d->o->head_bytes;
        d->comes_whole = 1;
        d->size = p->length_given ? p->length : 0;
        xh_report_say(r, "status 200: it sends the whole file where a piece was asked for");
        if (d->size)
            xh_report_say(r, "a file of %s (%" PRIu64 " bytes)", xh_size(d->size), d->size);
        xh_report_advise(r, "this server, or what stands before it, does not know ranges. Files of up to %s "
                            "(whole_file_bytes) are read whole, larger ones cannot be read there: xhdf5 get fetches "
                            "them to a disk. nginx, XRootD, Apache know ranges; a proxy may have to be told to pass "
                            "them on", xh_size(most));
        return d->size > most ? XH_STATE_FAILED : XH_STATE_NOTE;
    }
    if (p->status != 206)
        return refused(d);
    if (!p->range.given || !p->range.total_known || p->range.first != 0 || p->contradictory || p->encoded) {
        xh_report_say(r, p->encoded
                             ? "it compressed the reply"
                             : "its Content-Range is missing, contradicts itself, or does not tell the file's size");
        xh_report_advise(r, "the server, or a proxy before it, is set up wrongly");
        return XH_STATE_FAILED;
    }
    d->size = p->range.total;
    xh_report_say(r, "status 206, a file of %s (%" PRIu64 " bytes)", xh_size(d->size), d->size);
    if (d->o->endpoints[0])
        xh_report_say(r, "of the endpoints that are set only this one is looked at");
    xh_report_count(r, "size", d->size);
    return XH_STATE_OK;
}
