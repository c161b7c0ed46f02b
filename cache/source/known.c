/* Directories and their sidecars: see known.h. */
#include "known.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"
#include "base/env.h"
#include "base/now.h"
#include "base/table.h"
#include "shadow/shadow.h"

#define NS_A_S UINT64_C(1000000000)
#define LASTS_S 600u /* so soon what is published beside a file is noticed */
/* So long a server in trouble, or a network that wants a login, is spared: what passes is no word on what is there. */
#define TROUBLE_S 10u
/* A server without sidecars in so many directories is taken for one that has none. */
#define NONES_ENOUGH 4u

struct row {
    char *name;
    uint64_t until_ns;
    enum xh_known is;
    UT_hash_handle hh; /* by |name| */
};
/* By directory; by URL, what was warned of. In the order in which they were added: the oldest is forgotten. */
static struct row *directories, *warned;
/* Guards them. A leaf, and only tried: a fork may leave it locked for ever, and not knowing costs only a request. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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
    if (n <= xh_url_server_bytes(url)) /* what came behind the server's name would make it another server's */
        return NULL;
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
static void add(struct row **table, const char *name, size_t n, enum xh_known is, unsigned lasts_s)
{
    struct row *old = row_of(*table, name, n), *r = calloc(1, sizeof *r);
    if (old)
        drop(table, old);
    else if (HASH_COUNT(*table) == XH_REMEMBERED)
        drop(table, *table);
    if (!r || !(r->name = strndup(name, n)))
        return free(r);
    r->until_ns = xh_now_ns() + lasts_s * NS_A_S;
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
    return r && xh_now_ns() < r->until_ns ? r->is : XH_KNOWN_NOTHING;
}

/* 1 when all directories of |url|'s server that were asked have none, and they are enough; trouble is not counted. Lock
 * held. */
static int lacks_all(const char *url)
{
    size_t n = xh_url_server_bytes(url), nones = 0;
    uint64_t now_ns = xh_now_ns();
    for (const struct row *r = directories; r; r = r->hh.next)
        if (strncmp(r->name, url, n) == 0 && r->name[n] == '/') {
            if (r->is == XH_KNOWN_SOME)
                return 0;
            nones += r->until_ns > now_ns + TROUBLE_S * NS_A_S;
        }
    return nones >= NONES_ENOUGH;
}

static int is_noted(const char *url, size_t n, const struct xh_options *o)
{
    char *name = strndup(url, n);
    int lacks = name && xh_shadow_lacks(name, o, LASTS_S);
    free(name);
    return lacks;
}

static void note(const char *url, size_t n, const struct xh_options *o, int lacks, unsigned lasts_s)
{
    char *name = strndup(url, n);
    if (name)
        xh_shadow_note_lack(name, o, lacks, LASTS_S - lasts_s);
    free(name);
}

enum xh_known xh_known_of(const char *url, const struct xh_options *o)
{
    size_t n = xh_url_directory_bytes(url);
    enum xh_known is = XH_KNOWN_NOTHING;
    if (pthread_mutex_trylock(&lock) == 0) {
        is = known(url, n);
        pthread_mutex_unlock(&lock);
    }
    if (is != XH_KNOWN_NOTHING)
        return is;
    return is_noted(url, n, o) || is_noted(url, xh_url_server_bytes(url), o) ? XH_KNOWN_NONE : XH_KNOWN_NOTHING;
}

/* 1 when a refusal with |status| may be none soon. 403 is what S3 says of what is not there to a reader that may not
 * list. */
static int passes(int status)
{
    return status < 400 || status >= 500 || status == 401 || status == 407 || status == 408 || status == 425 ||
           status == 429;
}

void xh_known_opened(const char *url, const struct xh_options *o, int rc, int status)
{
    size_t n = xh_url_directory_bytes(url);
    int some = rc == 0, none = rc == XH_E_NOENT || rc == XH_E_ACCES || rc == XH_E_STATUS;
    unsigned lasts_s = rc == XH_E_NOENT || some || !passes(status) ? LASTS_S : TROUBLE_S;
    if ((!some && !none) || pthread_mutex_trylock(&lock))
        return;
    int keeps = none && known(url, n) == XH_KNOWN_SOME;
    if (!keeps)
        add(&directories, url, n, some ? XH_KNOWN_SOME : XH_KNOWN_NONE, lasts_s);
    int all = lacks_all(url);
    pthread_mutex_unlock(&lock);
    if (!keeps)
        note(url, n, o, none, lasts_s);
    if ((all && lasts_s == LASTS_S) || some)
        note(url, xh_url_server_bytes(url), o, all, LASTS_S);
}

void xh_known_forget(const char *url, const struct xh_options *o)
{
    size_t n = xh_url_directory_bytes(url);
    if (pthread_mutex_trylock(&lock))
        return;
    int none = known(url, n) == XH_KNOWN_NONE;
    if (none)
        drop(&directories, row_of(directories, url, n));
    pthread_mutex_unlock(&lock);
    if (none) {
        note(url, n, o, 0, LASTS_S);
        note(url, xh_url_server_bytes(url), o, 0, LASTS_S);
    }
}

void xh_known_warn(const char *url, const char *why)
{
    size_t n = strlen(url);
    int first = 1;
    if (pthread_mutex_trylock(&lock) == 0) {
        first = !row_of(warned, url, n);
        if (first)
            add(&warned, url, n, XH_KNOWN_NOTHING, 0);
        pthread_mutex_unlock(&lock);
    }
    if (first && !xh_crypto_is_over()) /* what an ending process cannot sum up is not damaged */
        xh_say("%.900s is ignored: %s", xh_shown(url, 1024), why);
}
