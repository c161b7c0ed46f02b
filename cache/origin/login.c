/* Logins by redirect: see login.h.
 *
 * Invariant: a login is found by name and port; a host that is listed gets no other host's. */
#include "login.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth.h"
#include "base/letters.h"
#include "base/wipe.h"
#include "url.h"

#define BLANKS     " \t;"
#define HTTPS_PORT 443

int xh_login_is_host(const char *hosts, const char *server)
{
    const char *host = xh_url_host(server);
    size_t whole = strlen(host), name = (size_t)(strrchr(host, ':') - host);
    int usual = strtoul(host + name + 1, NULL, 10) == HTTPS_PORT;
    for (const char *p = hosts; *(p += strspn(p, BLANKS)); p += strcspn(p, BLANKS)) {
        size_t n = strcspn(p, BLANKS);
        if ((n == whole || (usual && n == name)) && xh_strncasecmp(host, p, n) == 0)
            return strncmp(server, "https:", 6) == 0;
    }
    return 0;
}

/* Takes the entry |word| of login_hosts: its "https://host:port" and its host for the netrc file. Returns 0, XH_E_INVAL
 * or XH_E_NOMEM. Owns: the caller frees |*server|. */
static int take_host(const char *word, char host[256], char **server, struct xh_err *err)
{
    struct xh_authority a;
    const char *wrong = word[strcspn(word, "/?#@")] ? "it is no host, nor host:port" : NULL;
    if (!wrong && word[0] == '.')
        wrong = "a domain is not taken, as a password is sent there: name its hosts";
    if (!wrong)
        wrong = xh_url_authority(word, HTTPS_PORT, &a);
    if (wrong) {
        return xh_err_set(err, XH_E_INVAL, 0, "the option login_hosts (XHDF5_LOGIN_HOSTS) has %s: %s",
                          xh_shown(word, 100), wrong);
    }
    int brackets = a.host[0] == '[';
    snprintf(host, 256, "%.*s", (int)a.host_len - 2 * brackets, a.host + brackets);
    if (asprintf(server, "https://%.*s:%u", (int)a.host_len, a.host, a.port) >= 0) {
        for (char *c = *server; *c; c++)
            *c = (char)xh_tolower((unsigned char)*c);
        return 0;
    }
    *server = NULL;
    return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a login");
}

int xh_logins_find(const struct xh_env *env, const char *hosts, struct xh_logins *out, struct xh_err *err)
{
    *out = (struct xh_logins){0};
    for (const char *p = hosts; *(p += strspn(p, BLANKS)); p += strcspn(p, BLANKS)) {
        char word[512], host[256];
        struct xh_login l = {0};
        struct xh_login *more = realloc(out->of, (out->n + 1) * sizeof *more);
        if (!more)
            return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a login");
        out->of = more;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(p, BLANKS), p);
        int rc = take_host(word, host, &l.server, err);
        rc = rc ? rc : xh_netrc_find(env, host, 0, &l.user, &l.password, err);
        if (rc == 1)
            more[out->n++] = l;
        else
            free(l.server);
        if (rc < 0)
            return rc;
    }
    return 0;
}

void xh_logins_free(struct xh_logins *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->of[i].server);
        free(l->of[i].user);
        xh_wipe(l->of[i].password);
    }
    free(l->of);
    *l = (struct xh_logins){0};
}

const struct xh_login *xh_logins_for(const struct xh_logins *l, const char *server)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->of[i].server, server) == 0)
            return &l->of[i];
    return NULL;
}

const char *xh_login_error(const char *url)
{
    static const char *const words[] = {"invalid_request", "unauthorized_client", "access_denied",
                                        "unsupported_response_type", "invalid_scope", "server_error",
                                        "temporarily_unavailable"};
    static const char name[] = "error=";
    for (const char *p = strchr(url, '?'); p; p = strpbrk(p, "&;")) {
        p++;
        if (strncmp(p, name, sizeof name - 1) != 0)
            continue;
        const char *value = p + sizeof name - 1;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strlen(words[i]) == strcspn(value, "&;") && strncmp(value, words[i], strlen(words[i])) == 0)
                return words[i];
    }
    return NULL;
}

int xh_login_is_earthdata(const char *server)
{
    /* The two domains below which NASA's archives serve what Earthdata Login guards. */
    return strncmp(server, "https:", 6) == 0 &&
           xh_auth_listed(".earthdata.nasa.gov .earthdatacloud.nasa.gov", server);
}
