/* The environment: see env.h. All variables are read here, except XHDF5_* (options.c) and HDF5's own. */
#include "env.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files.h"
#include "options.h"
#include "wipe.h"

static const char *const names[] = {
    "BEARER_TOKEN", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR", "EARTHDATA_TOKEN",    /* tokens */
    "X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY",                         /* certificates */
    "CURL_CA_BUNDLE", "SSL_CERT_FILE", "X509_CERT_DIR",                           /* CAs */
    "NETRC", "HOME",                                                              /* logins */
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",            /* S3 */
    "AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_NO_SIGN_REQUEST",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_EC2_METADATA_DISABLED", "AWS_EC2_METADATA_SERVICE_ENDPOINT",
    "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
};
#define NAMES (sizeof names / sizeof *names)

/* Variables that name files which are read again later: a relative name is one of the directory at the opening. What
 * else names files is taken from the root on where it is read. */
static int names_a_file(const char *name)
{
    return strcmp(name, "NETRC") == 0 || strcmp(name, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") == 0;
}

struct xh_env {
    atomic_int refs;
    char *value[NAMES]; /* NULL: unset or empty */
    char **all;         /* the whole environment; NULL: nothing can want it */
};

static const char *now(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

struct xh_env *xh_env_ref(struct xh_env *e)
{
    if (e)
        atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
    return e;
}

void xh_env_unref(struct xh_env *e)
{
    /* acq_rel: the thread that frees |e| has seen what the others did with it. */
    if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < NAMES; i++)
        xh_wipe(e->value[i]);
    for (char **p = e->all; p && *p; p++)
        xh_wipe(*p);
    free(e->all);
    free(e);
}

/* 1 when a profile may name a program that is to be started. */
static int may_start(void)
{
    char path[4096];
    const char *home = now("HOME");
    if (now("AWS_CONFIG_FILE") || now("AWS_SHARED_CREDENTIALS_FILE"))
        return 1;
    int n = home ? snprintf(path, sizeof path, "%s/.aws", home) : 0;
    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

/* Copies the whole environment. Returns 1, or 0 without memory. */
static int take_all(struct xh_env *e)
{
    size_t n = 0;
    while (environ && environ[n])
        n++;
    e->all = calloc(n + 1, sizeof *e->all);
    for (size_t i = 0; e->all && i < n && environ[i]; i++)
        if (!(e->all[i] = strdup(environ[i])))
            return 0;
    return e->all != NULL;
}

char *const *xh_env_all(const struct xh_env *e)
{
    static char *const none[] = {NULL};
    return !e ? environ : e->all ? e->all : none;
}

/* Reads the variables. Returns NULL when out of memory. Threads: the program's own. */
static struct xh_env *take(void)
{
    struct xh_env *e = calloc(1, sizeof *e);
    int good = e != NULL;
    if (e)
        atomic_init(&e->refs, 1);
    for (size_t i = 0; good && i < NAMES; i++) {
        const char *v = now(names[i]);
        good = !v || (e->value[i] = names_a_file(names[i]) ? xh_path_from_root(v) : strdup(v));
    }
    if (good && (!may_start() || take_all(e)))
        return e;
    xh_env_unref(e);
    return NULL;
}

const char *xh_env_get(const struct xh_env *e, const char *name)
{
    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(names[i], name) == 0)
            return e ? e->value[i] : now(name);
    assert(!"a variable that env.c does not know");
    return NULL;
}

int xh_env_is_same(const struct xh_env *a, const struct xh_env *b)
{
    for (size_t i = 0; i < NAMES; i++) {
        const char *x = a->value[i], *y = b ? b->value[i] : now(names[i]);
        char *path = y && !b && names_a_file(names[i]) ? xh_path_from_root(y) : NULL;
        y = path ? path : y;
        int same = x ? y && strcmp(x, y) == 0 : !y;
        free(path);
        if (!same)
            return 0;
    }
    return 1;
}

void xh_env_hold(struct xh_options *o)
{
    o->env = o->env ? xh_env_ref(o->env) : take();
}

void xh_env_release(struct xh_options *o)
{
    xh_env_unref(o->env);
    o->env = NULL;
}
