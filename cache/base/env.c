/* The environment: see env.h. All variables are read here, except XHDF5_* (options.c) and HDF5's own. */
#include "env.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

static const char *const names[] = {
    "BEARER_TOKEN", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR", "EARTHDATA_TOKEN",    /* tokens */
    "X509_USER_PROXY", "X509_USER_CERT", "X509_USER_KEY",                         /* certificates */
    "CURL_CA_BUNDLE", "SSL_CERT_FILE", "X509_CERT_DIR",                           /* CAs */
    "NETRC", "HOME",                                                              /* logins */
    "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
};
#define NAMES (sizeof names / sizeof *names)

struct xh_env {
    atomic_int refs;
    char *value[NAMES]; /* NULL: unset or empty */
};

static const char *now(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static void unref(struct xh_env *e)
{
    /* acq_rel: the thread that frees |e| has seen what the others did with it. */
    if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < NAMES; i++) {
        if (e->value[i])
            explicit_bzero(e->value[i], strlen(e->value[i]));
        free(e->value[i]);
    }
    free(e);
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
        good = !v || (e->value[i] = strdup(v));
    }
    if (good)
        return e;
    unref(e);
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
        if (x ? !y || strcmp(x, y) != 0 : y != NULL)
            return 0;
    }
    return 1;
}

void xh_env_hold(struct xh_options *o)
{
    if (o->env)
        atomic_fetch_add_explicit(&o->env->refs, 1, memory_order_relaxed);
    else
        o->env = take();
}

void xh_env_release(struct xh_options *o)
{
    unref(o->env);
    o->env = NULL;
}
