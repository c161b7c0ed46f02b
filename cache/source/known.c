/* Directories and their sidecars: see known.h. */
#include "known.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/now.h"
#include "base/table.h"
#include "shadow/shadow.h"

#define ROWS 64u
#define LASTS_S 600u

struct row {
    char *name;
    uint64_t at_ns;
    enum xh_known is;
    UT_hash_handle hh; /* by |name| */
};
/* By directory; by URL, what was warned of. In the order in which they were added: the oldest is forgotten. */
static struct row *directories, *warned;
/* Guards them. A leaf, and only tried: a fork may leave it locked for ever, and not knowing costs only a request. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* How much of |url| names its directory, "/" included; a query may belong to one file. */
static size_t directory(const char *url)
{
    size_t n = strcspn(url, "?#");
    while (n && url[n - 1] != '/')
        n--;
    return n;
}

void xh_known_options(struct xh_options *out, const struct xh_options *o)
{
    *out = *o;
    xh_env_hold(out);
    out->whole_file_bytes = o->head_bytes; /* a server that sends no parts has none to offer */
    out->stats = 0;
    out->retries = o->retries != 0; /* without it the reader does as well */
    out->endpoints[0] = '\0';
    snprintf(out->sidecar, sizeof out->sidecar, "off");
}

char *xh_known_url(const char *url, const char *suffix)
{
    size_t n = strcspn(url, "?#");
    char *out = NULL;
    return asprintf(&out, "%.*s%s%s", (int)n, url, suffix, url + n) < 0 ? NULL : out;
}

/* Lock held, as in the next two. NULL: there is none. */
static struct row *row_of(struct row *table, const char *name, size_t n)
{
    struct row *r;
    HASH_FIND(hh, table, name, n, r);
    return r;
}

static void drop(struct row **table, struct row *r)
{
    HASH_DEL(*table, r);
    free(r->name);
    free(r);
}

/* Without memory nothing is noted. */
static void add(struct row **table, const char *name, size_t n, enum xh_known is)
{
    struct row *old = row_of(*table, name, n), *r = calloc(1, sizeof *r);
    if (old)
        drop(table, old);
    else if (HASH_COUNT(*table) == ROWS)
        drop(table, *table);
    if (!r || !(r->name = strndup(name, n)))
        return free(r);
    r->at_ns = xh_now_ns();
    r->is = is;
    HASH_ADD_KEYPTR(hh, *table, r->name, n, r); // NOLINT(clang-analyzer-unix.Malloc): drop() moves the head
    if (!xh_in_table(r)) {
        free(r->name);
        free(r);
    }
}

static enum xh_known known(const char *url, size_t n)
{
    const struct row *r = row_of(directories, url, n);
    return r && xh_now_ns() - r->at_ns < LASTS_S * UINT64_C(1000000000) ? r->is : XH_KNOWN_NOTHING;
}

enum xh_known xh_known_of(const char *url, const struct xh_options *o)
{
    size_t n = directory(url);
    enum xh_known is = XH_KNOWN_NOTHING;
    if (pthread_mutex_trylock(&lock) == 0) {
        is = known(url, n);
        pthread_mutex_unlock(&lock);
    }
    if (is != XH_KNOWN_NOTHING)
        return is;
    char *dir = strndup(url, n);
    if (dir && xh_shadow_lacks(dir, o, LASTS_S))
        is = XH_KNOWN_NONE;
    free(dir);
    return is;
}

void xh_known_note(const char *url, const struct xh_options *o, enum xh_known is)
{
    size_t n = directory(url);
    if (pthread_mutex_trylock(&lock))
        return;
    int keeps = known(url, n) == XH_KNOWN_SOME && is == XH_KNOWN_NONE;
    if (!keeps)
        add(&directories, url, n, is);
    pthread_mutex_unlock(&lock);
    char *dir = strndup(url, n);
    if (dir && !keeps)
        xh_shadow_note_lack(dir, o, is == XH_KNOWN_NONE);
    free(dir);
}

int xh_known_first(const char *url)
{
    size_t n = strlen(url);
    if (pthread_mutex_trylock(&lock))
        return 1;
    int first = !row_of(warned, url, n);
    if (first)
        add(&warned, url, n, XH_KNOWN_NOTHING);
    pthread_mutex_unlock(&lock);
    return first;
}
