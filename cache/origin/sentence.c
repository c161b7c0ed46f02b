/* Sentences of verdicts: see sentence.h. */
#include "sentence.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/letters.h"
#include "login.h"
#include "tls_advice.h"

#define TITLE_BYTES      81u /* of a page, in an error */
#define TITLE_WORD_BYTES 20u /* a server that repeats the token must not make us show it */

int xh_sentence(const struct xh_attempt *a, struct xh_err *err, int code, int status, const char *fmt, ...)
{
    char said[sizeof err->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(said, sizeof said, fmt, ap);
    va_end(ap);
    if (a->x->url == a->first)
        return xh_err_set(err, code, status, "%.200s: %s", a->first->shown, said);
    return xh_err_set(err, code, status, "%.120s (sent on to %.100s): %s", a->first->shown, a->x->url->shown, said);
}

/* |code| is that of a directory's URL. Returns |code|. */
static int is_directory(struct xh_err *err, int code)
{
    if (err)
        err->directory = 1;
    return code;
}

int xh_sentence_refused(const struct xh_attempt *a, struct xh_err *err)
{
    const struct xh_exchange *x = a->x;
    int status = x->reply.status;
    const char *what = status == 401 ? "401 Unauthorized" : "403 Forbidden";
    char cert[400] = "", why[160] = "";
    if (x->url->ticket && x->url == a->first)
        return xh_sentence(
            a, err, XH_E_ACCES, status,
            "%s: the URL carries its own authorisation in its query, so nothing else was sent beside it, and it was "
            "refused: most likely it has expired. Get a new one",
            what);
    if (x->url->ticket) /* made by the first server, XRootD's out of the token */
        return xh_sentence(a, err, XH_E_ACCES, status,
                           "%s: the server sent us there with an authorisation of its own in the URL, which was "
                           "refused; it had made it for %.160s%s",
                           what, x->token && x->token->value ? x->token->note : "a reader without a token", a->tells);
    if (status == 403 && xh_url_is_directory(x->url) && xh_url_same_server(x->url, a->first))
        return is_directory(err, xh_sentence(a, err, XH_E_ACCES, status,
                                             "%s: this is the URL of a directory, and the server does not show "
                                             "what is in it. Name a file in it",
                                             what));
    if (a->first->user && !xh_url_same_server(x->url, a->first))
        return xh_sentence(a, err, XH_E_ACCES, status,
                           "%s: %s were not sent there, as the URL does not name that server. Open its own URL if it "
                           "may have them",
                           what, a->login);
    if (a->first->user)
        return xh_sentence(a, err, XH_E_ACCES, status, "%s: %s were refused", what, a->login);
    if (!a->first->https)
        return xh_sentence(a, err, XH_E_ACCES, status, "%s: no token is sent over http; use https", what);
    const struct xh_token *t = x->token;
    int by_file = x->options->namer.by_file != 0, have = (t && t->value) || a->cert_path[0];
    if (by_file && (have || x->options->netrc) && !a->trusted)
        return xh_sentence(a, err, XH_E_ACCES, status, XH_AUTH_WITHHELD, what, x->options->namer.parent);
    if (have && !a->trusted)
        return xh_sentence(
            a, err, XH_E_ACCES, status,
            "%s: no token or certificate is sent to a server that the URL does not name. If it may have them, "
            "name its host in XHDF5_CREDENTIAL_HOSTS",
            what);
    if (x->cert_sent || a->no_cert)
        snprintf(cert, sizeof cert, "; the certificate %.120s was offered%s", a->cert_path,
                 a->no_cert ? ", and the server would not talk to its owner" : " too");
    else if (a->cert_note[0])
        snprintf(cert, sizeof cert, "; %.380s", a->cert_note);
    if (x->reply.reason[0])
        snprintf(why, sizeof why, "; the server says: %.120s", x->reply.reason);
    if (t && t->value && x->token_sent)
        return xh_sentence(
            a, err, XH_E_ACCES, status,
            "%s: %.160s was refused%s%s%s. Get one that is valid, meant for this server, and covers this path", what,
            t->note, a->tells, why, cert);
    int elsewhere = !xh_url_same_server(x->url, a->first);
    const char *on = x->options->netrc && a->trusted_first
                         ? ", and the netrc file has no user name with a password for the URL's host"
                         : "";
    return xh_sentence(a, err, XH_E_ACCES, status, "%s: no token was found (%.200s)%s%s%s. Set %s%s", what,
                       t ? t->note : "", on, why, cert,
                       xh_login_is_earthdata(x->url->server)
                           ? "EARTHDATA_TOKEN to a token of yours, or XHDF5_NETRC=on"
                       : x->options->netrc ? "BEARER_TOKEN_FILE to a file with one"
                                           : "BEARER_TOKEN_FILE to a file with one, or XHDF5_NETRC=on for a name and "
                                             "password of the netrc file",
                       elsewhere && status == 401 ? ". If you log in at that host, name it in XHDF5_LOGIN_HOSTS" : "");
}

/* Copies what stands from |p| to |end|, for an error; "" when p is NULL, or a word is as long as a secret. */
static void take_words(const char *p, const char *end, char *out, size_t size)
{
    size_t used = 0, word = 0;
    out[0] = '\0';
    for (; p && p < end && used + 1 < size; p++) {
        int blank = strchr(" \t\r\n", *p) != NULL;
        if (blank && (used == 0 || out[used - 1] == ' '))
            continue;
        if ((word = blank ? 0 : word + 1) > TITLE_WORD_BYTES) {
            out[0] = '\0';
            return;
        }
        out[used++] = blank ? ' ' : *p;
        out[used] = '\0';
    }
}

/* Copies the title of the page that came. */
static void take_title(const struct xh_exchange *x, char *out, size_t size)
{
    const char *p = xh_strcasestr(x->said, "<title"), *from = p ? strchr(p, '>') : NULL,
               *end = from ? strchr(from, '<') : NULL;
    take_words(end ? from + 1 : NULL, end, out, size);
}

/* Copies the JSON string error_description of what came, if it has one. */
static void take_description(const struct xh_exchange *x, char *out, size_t size)
{
    static const char name[] = "\"error_description\"";
    const char *p = strstr(x->said, name);
    p = p ? p + sizeof name - 1 : NULL;
    p = p ? p + strspn(p, " \t\r\n:") : NULL;
    const char *end = p && *p == '"' ? strchr(p + 1, '"') : NULL;
    take_words(end ? p + 1 : NULL, end, out, size);
}

/* 1 when the login host speaks of an application that the user has not approved. */
static int wants_approval(const struct xh_exchange *x)
{
    return xh_strcasestr(x->said, "approv") || strstr(x->url->shown, "approv") || strstr(x->said, "resolution_url");
}

int xh_sentence_login(const struct xh_attempt *a, char why[XH_LOGIN_WHY_BYTES])
{
    const struct xh_exchange *x = a->x;
    const char *host = xh_url_host(x->url->server);
    char says[TITLE_BYTES], quoted[TITLE_BYTES + 24] = "";
    int approve = wants_approval(x), status = x->reply.status;
    take_description(x, says, sizeof says);
    if (!says[0])
        take_title(x, says, sizeof says);
    if (says[0])
        snprintf(quoted, sizeof quoted, " (it says: %s)", says);
    if (approve)
        snprintf(why, XH_LOGIN_WHY_BYTES,
                 "the login at %.100s failed: your account there has not approved the application that these files "
                 "belong to%s. Open the URL in a browser once, or approve the application in your profile there",
                 host, quoted);
    else if (status == 401 || status == 403)
        snprintf(why, XH_LOGIN_WHY_BYTES,
                 "the login at %.100s failed: %d, the name and password of the netrc file were refused%s. Correct "
                 "them; if they are right, approve the application in your profile there",
                 host, status, quoted);
    else
        snprintf(why, XH_LOGIN_WHY_BYTES,
                 "the login at %.100s failed: it answered with status %d and did not send us back%s. Check the name "
                 "and password of the netrc file; if they are right, approve the application in your profile there",
                 host, status, quoted);
    return approve;
}

void xh_sentence_login_again(const struct xh_url *to, char why[XH_LOGIN_WHY_BYTES])
{
    snprintf(why, XH_LOGIN_WHY_BYTES,
             "the login at %.100s failed: behind it the server asks for a login again, a loop: it does not take what "
             "the login brings, or its cookie is for another host. If a browser can open the URL, tell the operator",
             xh_url_host(to->server));
}

void xh_sentence_login_back(const struct xh_attempt *a, char why[XH_LOGIN_WHY_BYTES])
{
    const struct xh_exchange *x = a->x;
    const char *error = xh_login_error(x->url->text);
    snprintf(why, XH_LOGIN_WHY_BYTES,
             "the login%s%.100s failed: it sent us back%s%s, and the server answered with status %d%s. Open the URL in "
             "a browser once, or approve the application in your profile there",
             a->leads ? " at " : "", a->leads ? xh_url_host(a->leads) : "", error ? " with error=" : "",
             error ? error : "", x->reply.status, x->reply.html ? " and a web page" : "");
}

int xh_sentence_no_login(const struct xh_attempt *a, const struct xh_url *to, struct xh_err *err)
{
    const struct xh_exchange *x = a->x;
    const struct xh_token *t = x->token;
    const char *host = xh_url_host(to->server);
    char sent[480] = "", name[256];
    snprintf(name, sizeof name, "%.*s", (int)(strrchr(host, ':') - host), host);
    if (!a->first->https)
        return xh_sentence(a, err, XH_E_ACCES, x->reply.status,
                           "the server wants a login at %.100s, and no password is sent for a URL of http: use https",
                           host);
    if (x->options->namer.by_file && !a->trusted_first)
        return xh_sentence(a, err, XH_E_ACCES, x->reply.status, "the server wants a login at %.100s" XH_AUTH_WITHHELD,
                           host, "", x->options->namer.parent);
    if (x->token_sent)
        snprintf(sent, sizeof sent, " (%.120s was sent, and not accepted%.199s)", t->note, a->tells);
    const char *token = xh_login_is_earthdata(a->first->server) ? "Set EARTHDATA_TOKEN to a token of yours, or "
                                                                : "To log in, ";
    return xh_sentence(a, err, XH_E_ACCES, x->reply.status,
                       "the server wants a login at %.100s%s. %sset XHDF5_NETRC=on%s and put \"machine %.100s login "
                       "NAME password PASSWORD\" into ~/.netrc (chmod 600)",
                       host, sent, token, x->options->netrc ? " (it is)" : "", name);
}

const char *xh_sentence_came(const struct xh_reply *r, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s%s", r->type[0] ? r->type : "without a type", r->encoded ? ", packed (" : "",
             r->encoded ? r->encoding : "", r->encoded ? ")" : "");
    return out;
}

int xh_sentence_nothing(const struct xh_attempt *a, struct xh_err *err)
{
    const struct xh_exchange *x = a->x;
    const char *type = x->reply.type;
    return xh_sentence(a, err, XH_E_PROTO, x->reply.status,
                       "the server sent nothing: status %d, no length, %s%s, no byte, from %.100s, also after %" PRIu64
                       " retries. That is no file",
                       x->reply.status, type[0] ? "type " : "no type", type, xh_url_host(x->url->server),
                       x->options->retries);
}

/* 1 when the page is a directory's listing. */
static int is_listing(const struct xh_attempt *a, const char *title)
{
    static const char *const begins[] = {"Index of ", "Directory listing", "Listing of", "Directory: "};
    int found = xh_url_is_directory(a->first) || xh_reply_is_listing(a->x->said);
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        found |= xh_strncasecmp(title, begins[i], strlen(begins[i])) == 0;
    return found;
}

/* How to be let in, and what was sent for it. */
static void say_how(const struct xh_attempt *a, char *out, size_t size)
{
    const struct xh_exchange *x = a->x;
    const struct xh_token *t = x->token;
    if (!a->first->https)
        snprintf(out, size,
                 "No token is sent over http: use https, and set BEARER_TOKEN_FILE to a file with one. If the network "
                 "that this machine is in wants a login, open any web page in a browser here");
    else if (a->first->ticket)
        snprintf(out, size,
                 "The URL carries its own authorisation in its query: most likely that has expired, get a new one");
    else if (a->first->user)
        snprintf(out, size, "What was sent, %.100s, did not help", a->login);
    else if (!a->trusted_first && ((t && t->value) || a->cert_path[0]))
        snprintf(out, size,
                 "No token or certificate is sent there, as not the program names this URL: if the server may have "
                 "them, name its host in XHDF5_CREDENTIAL_HOSTS");
    else if (t && t->value)
        snprintf(out, size, "What was sent, %.120s%.199s, did not help: get one that is valid for this server", t->note,
                 a->tells);
    else
        snprintf(out, size,
                 "No token was found (%.160s): set BEARER_TOKEN_FILE to a file with one, or "
                 "XHDF5_NETRC=on for a name and password%s",
                 t ? t->note : "",
                 xh_url_same_server(x->url, a->first) ? "" : ". If you log in at that host, name it in "
                                                             "XHDF5_LOGIN_HOSTS");
}

int xh_sentence_page(const struct xh_attempt *a, struct xh_err *err)
{
    const struct xh_exchange *x = a->x;
    char title[TITLE_BYTES], quoted[TITLE_BYTES + 4] = "", came[XH_CAME_BYTES], how[420];
    take_title(x, title, sizeof title);
    if (title[0])
        snprintf(quoted, sizeof quoted, " \"%s\"", title);
    const char *host = xh_url_host(x->url->server);
    if (is_listing(a, title))
        return is_directory(
            err, xh_sentence(
                     a, err, XH_E_ACCES, x->reply.status,
                     "this is a directory: the server sent a web page%s with its listing, from %.100s. Name a file "
                     "in it",
                     quoted, host));
    say_how(a, how, sizeof how);
    int page = x->reply.html || xh_reply_begins_page(x->said, x->said_len, 0) == 1;
    const char *what = page ? "web page" : "text";
    xh_sentence_came(&x->reply, came, sizeof came);
    if (a->opened)
        return xh_sentence(a, err, XH_E_ACCES, x->reply.status,
                           "the session ended: in place of the file the server now sends a %s%s, %s, from %.100s. %s",
                           what, quoted, came, host, how);
    return xh_sentence(
        a, err, XH_E_ACCES, x->reply.status,
        "the server sent a %s%s%s%s, from %.100s, in place of the file: it wants a login, or has no such file. %s",
        what, quoted, page ? "" : ", ", page ? "" : came, host, how);
}

int xh_sentence_unusable(const struct xh_attempt *a, struct xh_err *err)
{
    static const struct {
        int status;
        const char *means;
    } known[] = {
        {202, "Accepted: the server has begun to get the file, perhaps from tape. Open it again later"},
        {423, "Locked: somebody changes the file. Open it again later"},
        {451, "Unavailable For Legal Reasons: the server may not give this file to you, or to your country"},
        {511, "Network Authentication Required: the network that this machine is in wants a login. Open any web page "
              "in a browser on this machine, and log in there"},
    };
    int status = a->x->reply.status;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].status == status)
            return xh_sentence(a, err, XH_E_STATUS, status, "%d %s", status, known[i].means);
    return xh_sentence(a, err, XH_E_STATUS, status, "the server answered with status %d, which cannot be used here",
                       status);
}

/* A server that has never answered http may want TLS. */
static const char *perhaps_tls(const struct xh_attempt *a)
{
    int may = a->stranger && !a->x->url->https && a->x->reply.status == 0;
    return may ? ". If this port speaks TLS, write https:// in the URL" : "";
}

/* A connection more failed, where there are others to the server, and bytes came over them meanwhile. */
static const char *perhaps_fewer(const struct xh_attempt *a)
{
    return a->sockets > 0 && a->x->reply.status == 0 && a->heard_ns > a->tries.row_ns
               ? ". There are other connections to it: if it, or a firewall, takes no more of this machine, set "
                 "XHDF5_CONNECTIONS to fewer"
               : "";
}

int xh_sentence_net(const struct xh_attempt *a, const char *advice, struct xh_err *err)
{
    const struct xh_exchange *x = a->x;
    const struct xh_options *o = x->options;
    const char *said = a->out->text;
    unsigned tries = (unsigned)o->retries;
    switch (a->out->net) {
    case XH_NET_NAME:
        return xh_sentence(a, err, XH_E_NET, 0, "the %s name does not resolve (%s)",
                           x->proxy ? "server's, or its proxy's," : "server's", said);
    case XH_NET_CONNECT:
        if (x->proxy)
            return xh_sentence(a, err, XH_E_NET, 0,
                               "no connection to the server through the proxy %.200s of %s after %u retries (%s)",
                               x->proxy->text, x->proxy->from, tries, said);
        return xh_sentence(a, err, XH_E_NET, 0, "no connection to the server after %u retries (%s)%s", tries, said,
                           perhaps_fewer(a));
    case XH_NET_CONNECT_TIMEOUT:
        return xh_sentence(a, err, XH_E_TIMEOUT, 0,
                           "no connection to the server within %" PRIu64 " ms, after %u retries%s",
                           o->connect_timeout_ms, tries, perhaps_fewer(a));
    case XH_NET_STALL:
        return xh_sentence(a, err, XH_E_TIMEOUT, x->reply.status, "no byte for %" PRIu64 " ms, after %u retries",
                           o->stall_timeout_ms, tries);
    case XH_NET_CRAWL:
        return xh_sentence(a, err, XH_E_TIMEOUT, x->reply.status, "only %zu bytes in %" PRIu64 " ms, after %u retries",
                           x->pace_bytes, 2 * o->stall_timeout_ms, tries);
    case XH_NET_UNTRUSTED:
        if (a->out->no_cas)
            return xh_sentence(a, err, XH_E_TLS, 0,
                               "the server's certificate cannot be checked: %.250s cannot be read as certificates in "
                               "PEM form. It has none, or this process has as many files open as it may (ulimit -n)",
                               a->trust_note);
        if (advice)
            return xh_sentence(a, err, XH_E_TLS, 0, "the server's certificate was not accepted (%s). %s", said, advice);
        return xh_sentence(a, err, XH_E_TLS, 0,
                           "the server's certificate was not accepted (%s). CAs: %.160s. If the server's CA is another "
                           "one, name its PEM file with XHDF5_CA_BUNDLE",
                           said, a->trust_note);
    case XH_NET_HANDSHAKE:
        if (!xh_tls_is_spoken(said) && (x->proxy || !a->stranger))
            return xh_sentence(a, err, XH_E_TLS, 0,
                               "no TLS session with the server (%s). Something on the way answers for it%s%.200s. "
                               "A network that wants a login by a browser does so",
                               said, x->proxy ? ", the proxy " : "", x->proxy ? x->proxy->text : "");
        if (advice)
            return xh_sentence(a, err, XH_E_TLS, 0, "no TLS session with the server (%s). %s", said, advice);
        return xh_sentence(a, err, XH_E_TLS, 0, "no TLS session with the server (%s)%s%.200s", said,
                           a->cert_note[0] ? "; " : "", a->cert_note);
    case XH_NET_BAD_HTTP:
        return xh_sentence(a, err, XH_E_PROTO, 0, "the server does not speak HTTP/1.1 (%s)%s", said, perhaps_tls(a));
    case XH_NET_LOCAL: return xh_sentence(a, err, XH_E_NOMEM, 0, "out of memory (%s)", said);
    case XH_NET_CANCELLED: return xh_sentence(a, err, XH_E_CANCELLED, 0, "the transfer was cancelled");
    case XH_NET_NEAR:
        return xh_sentence(a, err, XH_E_ACCES, 0,
                           "it is not asked: not the program but a file or a redirect names %.100s, whose address is "
                           "link-local, where metadata services of clouds are. If it may be read, name its host in "
                           "XHDF5_CREDENTIAL_HOSTS",
                           xh_url_host(x->url->server));
    case XH_NET_EXITING: return xh_sentence(a, err, XH_E_SYS, 0, "the process is exiting");
    default:
        return xh_sentence(a, err, XH_E_NET, x->reply.status,
                           "the connection broke off, also after %u retries (%s)%s%s", tries,
                           said[0] ? said : "reply cut short", perhaps_tls(a), a->x->opened ? perhaps_fewer(a) : "");
    }
}
