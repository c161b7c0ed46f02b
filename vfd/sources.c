/* URLs that files name: see sources.h. */
#include "sources.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../cache/cache.h"
#include "../cache/base/hash.h"
#include "../cache/base/hdf5.h"
#include "../cache/base/now.h"
#include "family.h"
#include "fapl.h"
#include "h5err.h"
#include "literal.h"
#include "remote.h"

#define LINES_MOST 20 /* of a kind, in a process */

/* Kinds of lines. Files that do not exist must not use up the lines of those that fail, for which nothing else may
 * speak. */
enum { MISSING, FAILING, KINDS };

/* Returns 1 the first time for each |url|. Sets |*last| when it is the last line of |kind|. */
static int is_news(int kind, const char *url, int *last)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct told {
        uint64_t hash[LINES_MOST];
        unsigned n;
    } kinds[KINDS]; /* under |lock| */
    struct told *told = &kinds[kind];
    uint64_t hash = xh_hash_text(XH_HASH_START, url);
    if (pthread_mutex_trylock(&lock))
        return 1; /* another thread holds it, or held it at a fork: a line too many is better than a wait */
    unsigned i = 0;
    while (i < told->n && told->hash[i] != hash)
        i++;
    int news = i == told->n && told->n < LINES_MOST;
    if (news)
        told->hash[told->n++] = hash;
    *last = news && told->n == LINES_MOST;
    pthread_mutex_unlock(&lock);
    return news;
}

static void say(int kind, const char *url, const char *text)
{
    int last = 0;
    if (is_news(kind, url, &last))
        xh_say("%s%s", text, last ? " (no more lines of this kind will follow)" : "");
}

void xh_source_say(const char *url, const struct xh_err *err)
{
    say(FAILING, url, err->text);
}

/* What this thread knows of the last failure. */
static _Thread_local struct {
    uint64_t by;    /* the file that names what failed; 0: none */
    const void *in; /* the call of HDF5, see xh_h5_entry */
    struct xh_err err;
    uint64_t kept[2]; /* two openings of one file that stays open; 0: none */
    const void *kept_in; /* likewise */
} last;

uint64_t xh_sources_file(const struct xh_namer *names)
{
    uint64_t hash = xh_hash_text(XH_HASH_START ^ names->family, names->parent);
    return hash ? hash : 1;
}

void xh_sources_opened(uint64_t file)
{
    if (last.by == file)
        last.by = 0;
}

void xh_sources_kept(struct xh_h5 *h5, uint64_t one, uint64_t other)
{
    last.kept[0] = one;
    last.kept[1] = other;
    last.kept_in = xh_h5_entry(h5);
}

void xh_sources_failed(struct xh_h5 *h5, uint64_t by, const struct xh_err *err)
{
    last.by = by;
    last.in = xh_h5_entry(h5);
    /* Without a call that it belongs to, the failure will not be heeded: see xh_sources_heed. */
    if (!last.in || ((last.kept[0] == by || last.kept[1] == by) && last.kept_in == last.in))
        xh_source_say(err->text, err);
    last.err = *err;
}

int xh_sources_heed(struct xh_h5 *h5, uint64_t file, struct xh_err *err)
{
    if (last.by != file || !last.in || last.in != xh_h5_entry(h5))
        return 0;
    last.by = 0;
    *err = last.err;
    return 1;
}

int xh_source_is_afterthought(const char *url, const struct xh_namer *by)
{
    for (const char *p = strchr(strstr(url, "://") + 3, '/'); p; p = strchr(p + 1, '/')) {
        char *key = xh_cache_is_url(p + 1) ? xh_family_key(by, p + 1) : NULL;
        int missing = key && xh_family_look(by->family, key, XH_IGNORED) == XH_KIN_MISSING;
        free(key);
        if (missing)
            return 1;
    }
    return 0;
}

size_t xh_source_name_at(const char *relative, const char *url)
{
    size_t n = strlen(relative), len = strlen(url);
    return n && len > n && url[len - n - 1] == '/' && strcmp(url + len - n, relative) == 0 ? len - n : SIZE_MAX;
}

int xh_source_beside(const struct xh_namer *by, const char *relative, const char *url, char **out,
                     struct xh_err *err)
{
    size_t at = xh_source_name_at(relative, url);
    *out = NULL;
    if (at == SIZE_MAX || !memchr(url, '?', at))
        return 0;
    /* The server with a login that the URL may have; the path as the file was opened, which may have been put right
     * itself. */
    const char *parent = strstr(by->parent, "://");
    const char *path = parent ? strchr(parent + 3, '/') : NULL, *slash = path ? strrchr(path, '/') : NULL;
    size_t server = xh_url_server_bytes(url);
    if (!server || strlen(by->parent) + 1 >= sizeof by->parent) /* it may have been cut */
        return xh_err_set(err, XH_E_INVAL, 0,
                          "%s names the file %.200s relative to itself, and its URL is too long for that: use a URL",
                          by->parent, relative);
    if (asprintf(out, "%.*s%.*s/%s", (int)server, url, slash ? (int)(slash - path) : 0, slash ? path : "",
                 relative) >= 0)
        return 0;
    *out = NULL;
    return xh_err_set(err, XH_E_NOMEM, 0, "out of memory for a URL");
}

/* Returns what is behind the directory |dir|, of |n| bytes, in |path|; NULL: it is not in there. Slashes that follow
 * each other count as one. */
static const char *behind(const char *path, const char *dir, size_t n)
{
    for (const char *end = dir + n; dir < end;) {
        size_t a = strspn(path, "/"), b = strspn(dir, "/");
        if (!a != !b || (!a && *path != *dir))
            return NULL;
        path += a ? a : 1;
        dir += b ? b : 1;
    }
    return path;
}

char *xh_source_below(const struct xh_namer *by, const char *path, size_t *at)
{
    const char *host = by->remote ? strstr(path, "://") : NULL, *parent = strstr(by->parent, "://");
    const char *slash = host ? memrchr(path, '/', (size_t)(host - path)) : NULL;
    if (!slash || !parent || !xh_cache_is_url(slash + 1) || strlen(by->parent) + 1 >= sizeof by->parent ||
        !xh_cache_have_one_server(slash + 1, by->parent))
        return NULL;
    const char *url = slash + 1, *from = strchr(host + 3, '/'), *dir = strchr(parent + 3, '/');
    for (const char *p = from; p; p = strchr(p + 1, '/'))
        if (xh_cache_is_url(p + 1)) /* what is below is a URL itself */
            return NULL;
    if (!from || !dir)
        return NULL;
    size_t n = (size_t)(strrchr(dir, '/') - dir) + 1;
    const char *below = behind(from, dir, n);
    /* The parent as the program named it. HDF5 asks for what is beside its URL by itself, and two slashes behind its
     * name are of its query, which is a secret. */
    if (below == from + n)
        return NULL;
    if (!below && !strstr(dir, "//")) {
        /* HDF5 knows the parent itself by such a path, as the user has set it: by .. or an escape. */
        below = strstr(from, "//");
        dir = from;
        n = below ? (size_t)(below - from) + 1 : 0;
        below = below && !memchr(from, '?', n) ? from + n + strspn(from + n, "/") : NULL;
    }
    char *out = NULL;
    if (!below || asprintf(&out, "%.*s%.*s%s", (int)(from - url), url, (int)n, dir, below) < 0)
        return NULL;
    *at = (size_t)(from - url) + n;
    return out;
}

void xh_source_prefix_cut(const char *path)
{
    struct xh_err err;
    const char *prefixes = getenv("HDF5_EXT_PREFIX"), *url = prefixes ? strstr(prefixes, "://") : NULL;
    size_t n = strcspn(path, "/");
    if (!url || (size_t)(url - prefixes) < n || strncmp(url - n, path, n) != 0)
        return;
    xh_err_set(&err, XH_E_INVAL, 0,
               "HDF5_EXT_PREFIX has a URL, which HDF5 divides at its colons: it looks for links' targets in pieces of "
               "it. H5Pset_elink_prefix takes a URL");
    xh_source_say("HDF5_EXT_PREFIX", &err);
}

static int missing_is_error(struct xh_h5 *h5, hid_t fapl, struct xh_err *err)
{
    struct xh_options *o = xh_fapl_options_new(h5, fapl, err);
    int is = !o || strcmp(o->missing_sources, "error") == 0;
    free(o);
    return is;
}

static int try_open(struct xh_h5 *h5, const char *url, unsigned flags, hid_t fapl, struct xh_remote **out,
                    struct xh_err *err)
{
    if (xh_remote_wants_writing(flags))
        return xh_remote_edit(h5, url, flags, fapl, out, err);
    int rc = xh_remote_refuse_flags(url, flags, err);
    return rc ? rc : xh_remote_open(h5, url, fapl, NULL, out, err);
}

/* The file does not exist: does what HDF5 does, and reports it. */
static int missing(struct xh_h5 *h5, const char *url, const struct xh_namer *by)
{
    char shown[512], line[2048];
    xh_url_shown(url, shown, sizeof shown);
    snprintf(line, sizeof line,
             "%s does not exist, and %s names it: HDF5 gives fill values in place of a virtual data set's source, and "
             "cannot follow an external link. XHDF5_MISSING_SOURCES=error makes an error of both",
             shown, by->parent);
    say(MISSING, url, line);
    return xh_fail(h5, XH_E_NOENT, "%s does not exist, errno = %d, error message = '%s'", shown, ENOENT,
                   strerror(ENOENT));
}

/* |path| exists but may not be read, and |url|, which HDF5 tries instead, does not exist. */
static int refuse(struct xh_h5 *h5, const char *url, const struct xh_namer *by, const char *path,
                  struct xh_remote **out)
{
    struct xh_err err;
    xh_err_set(&err, XH_E_ACCES, 0,
               "%.200s names the local file %.150s: files at URLs may not name local files, but with the option "
               "local_sources. %s, which HDF5 tries in its place, does not exist",
               by->parent, path, xh_shown(url, 256));
    *out = xh_remote_unopened(h5, url, &err);
    return *out ? 0 : xh_fail_cache(h5, &err);
}

/* |url| is open, with the settings of |fapl|. The files that follow it in the mapping of a virtual dataset are
 * expected, by the same rules: each opening would cost the program a round trip. They are opened ahead once the program
 * asks for one before it has read another, once the openings show that it takes them in that order, or once the cache
 * comes to the end of what is before them. */
static void expect_next(struct xh_h5 *h5, const char *url, hid_t fapl, const struct xh_namer *by)
{
    struct xh_foreseen next;
    xh_family_foresees(by->family, by, url, &next);
    if (next.anew)
        xh_cache_expect_none(by->family);
    struct xh_options *o = next.n ? xh_fapl_options_new(h5, fapl, XH_IGNORED) : NULL;
    for (size_t i = 0; i < next.n; i++) {
        char *literal = o && xh_cache_is_url(next.url[i]) && !xh_source_is_afterthought(next.url[i], by)
                            ? xh_literal_url(next.url[i], next.name_at[i])
                            : NULL;
        if (literal) {
            o->followers = xh_family_behind(by->family, next.url[i]);
            xh_cache_expect(literal, o);
        }
        free(literal);
        free(next.url[i]);
    }
    free(o);
    if (next.soon)
        xh_cache_expect_soon(by->family, next.soon);
}

void xh_sources_forget(uint64_t family)
{
    xh_cache_expect_none(family);
}

/* Returns 1 when the server has an HDF5 file at |url|. Asks once: a server that fails for such a name has no file. */
static int is_there(struct xh_h5 *h5, const char *url, hid_t fapl)
{
    unsigned char head[XH_HDF5_SIGNATURE_BYTES];
    struct xh_extent e = {.len = sizeof head, .buf = head};
    struct xh_file *f = NULL;
    struct xh_err err;
    struct xh_options *o = xh_fapl_options_new(h5, fapl, &err);
    if (!o)
        return 0;
    o->retries = 0;
    o->stats = 0;
    snprintf(o->sidecar, sizeof o->sidecar, "off");
    int rc = xh_cache_open(url, o, &f, &err);
    free(o);
    if (rc)
        return 0;
    int there = xh_cache_size(f) >= sizeof head && xh_cache_read(f, XH_KIND_META, &e, 1, &err) == 0 &&
                xh_hdf5_is_signed(head);
    xh_cache_close(f);
    return there;
}

int xh_source_never_ends(struct xh_h5 *h5, const char *url, hid_t fapl, const struct xh_namer *by, struct xh_err *err)
{
    char *absurd = xh_family_absurd(by->family, url), shown[200];
    int there = absurd && is_there(h5, absurd, fapl);
    if (there) {
        xh_family_is_endless(by->family);
        xh_err_set(err, XH_E_PROTO, 0,
                   "%.150s names files with %%b, which stands for any number: HDF5 reads as many as there are, one "
                   "after the other, and this server has a file for each name, as for %s, so it would never end. The "
                   "server has to answer 404 for files that are not there; or name the files one by one",
                   by->parent, xh_url_shown(absurd, shown, sizeof shown));
    }
    free(absurd);
    return there ? XH_E_PROTO : 0;
}

/* |key|: the family's key of |asked|. */
static int open_known(struct xh_h5 *h5, const char *asked, const char *url, const char *key, unsigned flags, hid_t fapl,
                      const struct xh_namer *by, const char *path, struct xh_remote **out)
{
    struct xh_err err = {0};
    enum xh_kin kin = xh_family_look(by->family, key, &err);
    if (kin != XH_KIN_FAILED && kin != XH_KIN_MISSING && !xh_remote_wants_writing(flags))
        xh_cache_expect_beside(by->family);
    uint64_t began_ns = xh_now_ns();
    int rc = kin == XH_KIN_FAILED    ? err.code
             : kin == XH_KIN_MISSING ? XH_E_NOENT
                                     : try_open(h5, url, flags, fapl, out, &err);
    if (rc == 0 && kin == XH_KIN_UNKNOWN && (rc = xh_source_never_ends(h5, url, fapl, by, &err))) {
        xh_remote_close(*out);
        *out = NULL;
    }
    uint64_t took_ns = xh_now_ns() - began_ns;
    if (rc == 0) {
        xh_family_note(by->family, key, XH_KIN_OPENED, NULL, 0);
        if (!xh_remote_wants_writing(flags))
            expect_next(h5, asked, fapl, by);
        return 0;
    }
    if (rc == XH_E_NOENT && *path && access(path, F_OK) == 0)
        return refuse(h5, url, by, path, out);
    if (kin == XH_KIN_MISSING)
        return missing(h5, url, by);
    if (rc == XH_E_NOENT && kin == XH_KIN_OPENED) {
        xh_err_set(&err, XH_E_NOENT, err.status,
                   "%s is no longer there: it was when %s first named it. Open that file again to read it without",
                   xh_shown(url, 512), by->parent);
    } else if (rc == XH_E_NOENT && err.status && kin == XH_KIN_UNKNOWN && !missing_is_error(h5, fapl, &err)) {
        /* without a status the 404 is about something else, such as a sidecar */
        xh_family_note(by->family, key, XH_KIN_MISSING, &err, took_ns);
        xh_family_lose(by->family, XH_KIN_MISSING, took_ns);
        return missing(h5, url, by);
    }
    if (rc == XH_E_READONLY && (flags & XH_ACC_RDWR)) {
        size_t n = strlen(err.text);
        snprintf(err.text + n, sizeof err.text - n, ". It is named by %.200s, which is open for writing", by->parent);
    }
    if (kin != XH_KIN_FAILED && rc != XH_E_INTR) {
        if (rc != XH_E_READONLY) /* the file may be opened for reading later */
            xh_family_note(by->family, key, XH_KIN_FAILED, &err, took_ns);
        xh_family_lose(by->family, XH_KIN_FAILED, took_ns);
    }
    *out = xh_remote_unopened(h5, url, &err);
    if (!*out)
        xh_source_say(url, &err); /* HDF5 does not report it */
    return *out ? 0 : xh_fail_cache(h5, &err);
}

int xh_source_open(struct xh_h5 *h5, const char *asked, const char *url, unsigned flags, hid_t fapl,
                   const struct xh_namer *by, const char *path, struct xh_remote **out)
{
    if (xh_source_is_afterthought(asked, by))
        return xh_fail(h5, XH_E_NOENT, "a URL behind another, errno = %d, error message = '%s'", ENOENT,
                       strerror(ENOENT));
    char *key = xh_family_key(by, asked);
    if (!key)
        return xh_fail(h5, XH_E_NOMEM, "out of memory for a file that another one names");
    int rc = open_known(h5, asked, url, key, flags, fapl, by, path, out);
    free(key);
    return rc;
}
