/* The files that a file names: see named.h. */
#include "named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/cache.h"
#include "../../cache/base/now.h"
#include "../../cache/base/table.h"

#define NAMES_MOST 10000u
#define NAMES_MOST_BYTES (4u << 20) /* one name may have 64 KiB */
#define EACH_MOST_MS 5000u /* bound for connecting, and for waiting without a byte */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void xh_names_add(struct xh_names *names, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "") == 0) /* the file itself */
        return;
    /* neighbours often have the same name; other duplicates are removed when all names are known */
    for (size_t i = names->n; i-- > 0 && i + 64 >= names->n;)
        if (strcmp(names->at[i], name) == 0)
            return;
    size_t bytes = strlen(name) + 1;
    names->more |= names->n == NAMES_MOST || bytes > NAMES_MOST_BYTES - names->bytes;
    names->more |= !names->more && xh_grow(names->at, names->room, names->n + 1);
    char *copy = names->more ? NULL : strdup(name);
    names->more |= !copy;
    if (!copy)
        return;
    names->at[names->n++] = copy;
    names->bytes += bytes;
}

void xh_names_free(struct xh_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->at[i]);
    free(names->at);
}

/* Returns the URL that HDF5 tries for |name| in the file at |url|, or NULL. Owns: free(). */
static char *url_of(const char *name, const char *url)
{
    char *out = NULL;
    if (xh_cache_is_url(name))
        return strdup(name);
    /* if an absolute path does not exist, HDF5 looks for its last part beside the file */
    const char *last = name[0] == '/' ? strrchr(name, '/') + 1 : name;
    size_t n = xh_url_directory_bytes(url), server = xh_url_server_bytes(url);
    return asprintf(&out, "%.*s%s%s", (int)(n ? n : server), url, n ? "" : "/", last) < 0 ? NULL : out;
}

/* Sets the timeouts of |o| to those of |from|, but at most to |left_ns| and EACH_MOST_MS. */
static void hurry(struct xh_options *o, const struct xh_options *from, uint64_t left_ns)
{
    uint64_t left_ms = left_ns / 1000000 + 1, most = left_ms < EACH_MOST_MS ? left_ms : EACH_MOST_MS;
    o->connect_timeout_ms = from->connect_timeout_ms < most ? from->connect_timeout_ms : most;
    o->stall_timeout_ms = from->stall_timeout_ms < most ? from->stall_timeout_ms : most;
}

static void try_one(const char *url, const struct xh_options *o, struct xh_sources *out)
{
    struct xh_err err = {0};
    struct xh_file *f = NULL;
    int rc = xh_cache_open(url, o, &f, &err);
    xh_cache_close(f);
    out->tried++;
    out->failed += rc != 0;
    if (!rc || out->shown == XH_SOURCES_SHOWN)
        return;
    out->source[out->shown].code = rc;
    out->source[out->shown].status = err.status;
    xh_url_shown(url, out->source[out->shown].url, sizeof out->source->url);
    snprintf(out->source[out->shown].text, sizeof out->source->text, "%s", err.text);
    out->shown++;
}

void xh_sources_try(const struct xh_names *names, const char *url, const struct xh_options *o, unsigned most_ms,
                    struct xh_sources *out)
{
    uint64_t until = xh_now_ns() + most_ms * UINT64_C(1000000);
    struct xh_options quick = *o;
    quick.retries = 0;
    quick.readahead = quick.shadow = quick.stats = 0;
    quick.head_bytes = 4096;
    snprintf(quick.sidecar, sizeof quick.sidecar, "off");
    xh_cache_names(url, o, &quick.namer);
    out->more = names->more;
    if (names->n)
        qsort(names->at, names->n, sizeof *names->at, by_text);
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->at[i];
        if (i && strcmp(name, names->at[i - 1]) == 0)
            continue;
        out->named++;
        if (strstr(name, "%b")) {
            out->pattern++;
            continue;
        }
        out->local += name[0] == '/';
        char *source = url_of(name, url);
        uint64_t now = xh_now_ns();
        if (source && now < until) {
            hurry(&quick, o, until - now);
            try_one(source, &quick, out);
        } else {
            out->more = 1;
        }
        free(source);
    }
}
