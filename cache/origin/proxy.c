/* Proxies: see proxy.h.
 *
 * Invariant: user and password go to libcurl and nowhere else; what is shown is scheme, host and port, and those only
 * of a proxy that could be read: of one that could not, anything may be the password. */
#include "proxy.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/letters.h"
#include "base/now.h"
#include "base/number.h"
#include "base/wipe.h"

#define REFUSED_LASTS_NS (60u * UINT64_C(1000000000)) /* a login that was refused is not tried again for so long */
#define ROWS 32u /* logins at proxies, and servers that proxies forbid, that a process remembers */

/* ---- one proxy */

/* Takes |p| apart: [scheme://][user[:password]@]host[:port][/…]. Returns 0 or -1 without memory. */
static int read_proxy(struct xh_proxy *p, const char *text, const char *from)
{
    static const char *const schemes[] = {"http", "https", "socks4", "socks4a", "socks5", "socks5h"};
    const char *colon = strstr(text, "://"), *rest = colon ? colon + 3 : text, *scheme = colon ? NULL : "http";
    struct xh_authority a;
    p->from = from;
    if (colon && (size_t)(colon - text) == 5 && xh_strncasecmp(text, "socks", 5) == 0) /* as libcurl takes it */
        scheme = "socks4";
    for (size_t i = 0; colon && !scheme && i < sizeof schemes / sizeof *schemes; i++)
        if (xh_strncasecmp(text, schemes[i], strlen(schemes[i])) == 0 && text + strlen(schemes[i]) == colon)
            scheme = schemes[i];
    if (!scheme) {
        p->why = "it does not begin with http://, https:// or socks5h://";
        return 0;
    }
    if (strchr(rest + strcspn(rest, "/?#"), '@')) { /* what looks like host and port may be name and half a password */
        p->why = "it has an @ behind a / ? or #";
        return 0;
    }
    p->why = xh_url_authority(rest, strcmp(scheme, "https") == 0 ? 443 : 1080, &a);
    if (p->why)
        return 0;
    if (asprintf(&p->text, "%s://%.*s:%u", scheme, (int)a.host_len, a.host, a.port) < 0) {
        p->text = NULL;
        return -1;
    }
    if (a.user_info && xh_url_login(a.user_info, a.user_info_len, &p->user, &p->password) != 0)
        p->why = "its user name or password holds a control character";
    return 0;
}

/* Continues |h| with |s|, NULL allowed, and its end. */
static uint64_t add(uint64_t h, const char *s)
{
    return xh_hash_text(xh_hash_text(h, s ? s : ""), "\n");
}

int xh_proxies_read(struct xh_proxies *out, const struct xh_env *env, struct xh_err *err)
{
    static const char *const names[2][4] = {{"http_proxy", "all_proxy", "ALL_PROXY", NULL},
                                            {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}};
    const char *except = xh_env_get(env, "no_proxy");
    memset(out, 0, sizeof *out);
    except = except ? except : xh_env_get(env, "NO_PROXY");
    int bad = !(out->except = strdup(except ? except : ""));
    for (int https = 0; https < 2; https++) {
        struct xh_proxy *p = &out->of[https];
        const char *value = NULL;
        for (int i = 0; i < 4 && !value && names[https][i]; i++)
            if ((value = xh_env_get(env, names[https][i])) != NULL)
                bad |= read_proxy(p, value, names[https][i]) != 0;
        if (!p->text)
            bad |= !(p->text = strdup(""));
        p->key = add(add(add(XH_HASH_START, p->text), p->user), p->password);
    }
    return bad ? xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a proxy") : 0;
}

void xh_proxies_free(struct xh_proxies *p)
{
    for (int i = 0; i < 2; i++) {
        struct xh_proxy *x = &p->of[i];
        free(x->text);
        free(x->user);
        xh_wipe(x->password);
    }
    free(p->except);
    memset(p, 0, sizeof *p);
}

/* ---- no_proxy */

/* 1 when |token| (of |n| bytes) is an address, or a net with its bits behind a slash, that has |host|, which is an
 * address. */
static int has_address(const char *token, size_t n, const char *host)
{
    unsigned char a[16], b[16];
    char text[INET6_ADDRSTRLEN + 8];
    int family = strchr(host, ':') ? AF_INET6 : AF_INET;
    uint64_t most = family == AF_INET ? 32 : 128, bits = most;
    if (n >= 2 && token[0] == '[' && token[n - 1] == ']') {
        token++;
        n -= 2;
    }
    if (n >= sizeof text || inet_pton(family, host, a) != 1)
        return 0;
    memcpy(text, token, n);
    text[n] = '\0';
    char *slash = strchr(text, '/');
    if (slash) {
        *slash = '\0';
        if (xh_whole_number(slash + 1, 0, most, &bits))
            return 0;
    }
    if (inet_pton(family, text, b) != 1)
        return 0;
    unsigned whole = (unsigned)bits / 8, rest = (unsigned)bits % 8;
    return memcmp(a, b, whole) == 0 && (rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0);
}

static size_t undotted(const char *s, size_t n)
{
    return n && s[n - 1] == '.' ? n - 1 : n;
}

int xh_proxy_excepts(const char *list, const char *host)
{
    static const char separators[] = ", \t";
    unsigned char ignored[16];
    int is_address = inet_pton(AF_INET, host, ignored) == 1 || inet_pton(AF_INET6, host, ignored) == 1;
    size_t name = undotted(host, strlen(host));
    if (strcmp(list, "*") == 0)
        return 1;
    for (const char *p = list; *(p += strspn(p, separators)); p += strcspn(p, separators)) {
        const char *token = p;
        size_t n = undotted(p, strcspn(p, separators));
        if (is_address) {
            if (has_address(token, n, host))
                return 1;
            continue;
        }
        if (n && *token == '.') {
            token++;
            n--;
        }
        if (n && n <= name && (n == name || host[name - n - 1] == '.') &&
            xh_strncasecmp(host + name - n, token, n) == 0)
            return 1;
    }
    return 0;
}

const struct xh_proxy *xh_proxy_for(const struct xh_proxies *p, const struct xh_url *u)
{
    char host[260];
    const struct xh_proxy *x = &p->of[u->https];
    if (!x->why && !x->text[0])
        return NULL;
    xh_url_host_name(u, host, sizeof host);
    return xh_proxy_excepts(p->except, host) ? NULL : x;
}

int xh_proxy_check(const struct xh_proxies *p, const struct xh_url *u, struct xh_err *err)
{
    const struct xh_proxy *x = xh_proxy_for(p, u);
    if (!x || !x->why)
        return 0;
    return xh_err_set(err, XH_E_INVAL, 0,
                      "%.200s: the proxy that %s names cannot be used: %s. It is written http://host:port or "
                      "http://user:password@host:port "
                      "(of a password write / ? # @ : %% as %%2F %%3F %%23 %%40 %%3A %%25)",
                      u->shown, x->from, x->why);
}

/* ---- one that refuses */

int xh_proxy_is_socks(const struct xh_proxy *p)
{
    return p && p->text && strncmp(p->text, "socks", 5) == 0;
}

int xh_proxy_follow(const struct xh_proxies *p, const struct xh_url *from, const char *location, struct xh_url **to,
                    struct xh_err *err)
{
    struct xh_url *next = NULL;
    int rc = xh_url_resolve(from, location, &next, err);
    rc = rc ? rc : xh_proxy_check(p, next, err);
    if (rc)
        xh_url_unref(next);
    else
        *to = next;
    return rc;
}

int xh_proxy_refused(const struct xh_proxy *p, const struct xh_url *u, int status, struct xh_err *err)
{
    const char *text = p && p->text ? p->text : "", *from = p ? p->from : "no variable";
    int socks = xh_proxy_is_socks(p);
    if (status == 407) {
        xh_err_set(err, XH_E_ACCES, status,
                   p && p->user
                   ? "%.200s: the proxy %.200s refused the user name and password of %s%s. They are not tried again, "
                     "as some tries lock an account. Correct %s, or name the server in no_proxy"
                   : "%.200s: the proxy %.200s of %s wants a user name and a password%s: "
                     "%s=http://user:password@host:port, or name the server in no_proxy",
                   u->shown, text, from, socks ? "" : " (407 Proxy Authentication Required)", from);
        return 1;
    }
    if (status == 403) {
        xh_err_set(err, XH_E_ACCES, status,
                   "%.200s: the proxy %.200s of %s does not let this machine connect to that server%s. "
                   "Ask its operator, or name the server in no_proxy if it can be reached without",
                   u->shown, text, from, socks ? "" : " (403 Forbidden)");
        return 1;
    }
    int interim = status < 200, login = (status < 400 && !interim) || status == 511;
    xh_err_set(err, XH_E_NET, status, "%.200s: the proxy %.200s of %s made no connection to the server (it answered %d)%s",
               u->shown, text, from, status,
               login     ? ". A network that wants a login by a browser does so"
               : interim ? ". libcurl takes an answer before the last one (1xx) for a refusal. Ask the proxy's "
                           "operator to switch that off, or name the server in no_proxy"
                         : "");
    return !login && status < 500 && status != 408 && status != 429;
}

/* ---- whose turn it is to show a login */

enum answer { UNKNOWN, TRYING, TAKEN, REFUSED };

static struct row {
    uint64_t key; /* 0: free */
    enum answer is;
    uint64_t at_ns;
} rows[ROWS];
static unsigned next_row;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards them; a leaf */

/* Lock held. */
static struct row *find_row(uint64_t key)
{
    for (unsigned i = 0; i < ROWS; i++)
        if (rows[i].key == key)
            return &rows[i];
    return NULL;
}

/* Lock held. */
static struct row *row_of(uint64_t key)
{
    struct row *r = find_row(key);
    if (!r) {
        r = &rows[next_row++ % ROWS];
        *r = (struct row){.key = key, .is = UNKNOWN};
    }
    return r;
}

/* Lock held. */
static void note(uint64_t key, enum answer is)
{
    struct row *r = row_of(key);
    r->is = is;
    r->at_ns = xh_now_ns();
}

/* Lock held. */
static int is_refused(const struct row *r)
{
    return r && r->is == REFUSED && xh_now_ns() - r->at_ns <= REFUSED_LASTS_NS;
}

static uint64_t server_key(const struct xh_proxy *p, const struct xh_url *u)
{
    return add(p->key, u->server);
}

enum xh_proxy_turn xh_proxy_turn(const struct xh_proxy *p, const struct xh_url *u)
{
    enum xh_proxy_turn turn = XH_PROXY_WAIT;
    if (!p)
        return XH_PROXY_FREE;
    pthread_mutex_lock(&lock);
    int forbidden = is_refused(find_row(server_key(p, u)));
    struct row *r = forbidden || !p->user ? NULL : row_of(p->key);
    if (r && r->is == REFUSED && !is_refused(r))
        r->is = UNKNOWN;
    if (forbidden)
        turn = XH_PROXY_FORBIDDEN;
    else if (!r || r->is == TAKEN)
        turn = XH_PROXY_FREE;
    else if (r->is == REFUSED)
        turn = XH_PROXY_REFUSED;
    else if (r->is == UNKNOWN) {
        r->is = TRYING;
        turn = XH_PROXY_GO;
    }
    pthread_mutex_unlock(&lock);
    return turn;
}

void xh_proxy_heard(const struct xh_proxy *p, const struct xh_url *u, enum xh_proxy_turn turn, int status)
{
    if (!p)
        return;
    pthread_mutex_lock(&lock);
    if (status == 403 && turn != XH_PROXY_FORBIDDEN)
        note(server_key(p, u), REFUSED);
    if (turn == XH_PROXY_GO || (turn == XH_PROXY_FREE && status == 407 && p->user))
        note(p->key, status == 407 ? REFUSED : status == 200 ? TAKEN : UNKNOWN);
    pthread_mutex_unlock(&lock);
}

void xh_proxy_after_fork(void)
{
    pthread_mutex_init(&lock, NULL);
    for (unsigned i = 0; i < ROWS; i++)
        if (rows[i].is == TRYING) /* a thread of the parent's */
            rows[i].is = UNKNOWN;
}
