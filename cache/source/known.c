/* Directories and their sidecars: see known.h. */
#include "known.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/now.h"
#include "shadow/shadow.h"

#define ROWS 64u
#define LASTS_S 600u
#define LASTS_NS (LASTS_S * UINT64_C(1000000000))

/* The table forgets the oldest. A hash that two directories share costs one of them its sidecars, or a request. */
static struct row {
    uint64_t hash, at_ns; /* at_ns 0: a free row */
    enum xh_known is;
} rows[ROWS];
static uint64_t warned[ROWS];
static unsigned next_row, next_warned;
/* Guards them; a leaf, and only tried: a fork may leave it locked for ever, and not to know costs a request. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(const char *p, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)p[i]) * 0x100000001b3u;
    return h;
}

/* How much of |url| names its directory, "/" included; a query may belong to one file. */
static size_t directory(const char *url)
{
    size_t n = strcspn(url, "?#");
    while (n && url[n - 1] != '/')
        n--;
    return n;
}

char *xh_known_url(const char *url, const char *suffix)
{
    size_t n = strcspn(url, "?#");
    char *out = NULL;
    return asprintf(&out, "%.*s%s%s", (int)n, url, suffix, url + n) < 0 ? NULL : out;
}

/* Lock held. NULL: nothing is known. */
static struct row *row_of(uint64_t hash)
{
    uint64_t now = xh_now_ns();
    for (unsigned i = 0; i < ROWS; i++)
        if (rows[i].at_ns && rows[i].hash == hash && now - rows[i].at_ns < LASTS_NS)
            return &rows[i];
    return NULL;
}

enum xh_known xh_known_of(const char *url, const struct xh_options *o)
{
    size_t n = directory(url);
    enum xh_known is = XH_KNOWN_NOTHING;
    if (pthread_mutex_trylock(&lock) == 0) {
        const struct row *r = row_of(hash_of(url, n));
        is = r ? r->is : is;
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
    uint64_t hash = hash_of(url, n);
    if (pthread_mutex_trylock(&lock))
        return;
    struct row *r = row_of(hash);
    int keeps = r && r->is == XH_KNOWN_SOME && is == XH_KNOWN_NONE;
    if (!r)
        r = &rows[next_row++ % ROWS];
    if (!keeps)
        *r = (struct row){hash, xh_now_ns(), is};
    pthread_mutex_unlock(&lock);
    char *dir = strndup(url, n);
    if (dir && !keeps)
        xh_shadow_note_lack(dir, o, is == XH_KNOWN_NONE);
    free(dir);
}

int xh_known_first(const char *url)
{
    uint64_t hash = hash_of(url, strlen(url));
    int first = 1;
    if (pthread_mutex_trylock(&lock))
        return 1;
    for (unsigned i = 0; i < ROWS; i++)
        first &= warned[i] != hash;
    if (first)
        warned[next_warned++ % ROWS] = hash;
    pthread_mutex_unlock(&lock);
    return first;
}
