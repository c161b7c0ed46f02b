/* Listings: see listing.h. Pure. */
#include "listing.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../../cache/base/err.h"
#include "../../cache/base/table.h"

#define TITLE_WITHIN 1024u /* so early a page says that it is a listing */

int xh_entries_add(struct xh_entries *to, const char *name, int directory)
{
    char *copy = strdup(name);
    if (!copy || xh_grow(to->of, to->room, to->n + 1)) {
        free(copy);
        return -1;
    }
    to->of[to->n++] = (struct xh_entry){copy, directory};
    return 0;
}

void xh_entries_free(struct xh_entries *e)
{
    for (size_t i = 0; i < e->n; i++)
        free(e->of[i].name);
    free(e->of);
    *e = (struct xh_entries){0};
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* 1 when a directory may show |name|. */
static int may_show(const char *name)
{
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > XH_NAME_BYTES)
        return 0;
    for (size_t n; *name; name += n)
        if (*name == '/' || (n = xh_utf8_length(name)) == 0)
            return 0;
    return 1;
}

int xh_listing_name(const char *text, size_t n, char out[XH_NAME_BYTES + 1])
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)text[i];
        if (c == '%' && n - i > 2 && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
            c = hex(text[i + 1]) * 16 + hex(text[i + 2]);
            i += 2;
        }
        if (len == XH_NAME_BYTES || c == 0)
            return -1;
        out[len++] = (char)c;
    }
    out[len] = '\0';
    return may_show(out) ? 0 : -1;
}

/* Copies the |n| bytes of text in XML or HTML without its entities, of which servers write these. Returns how many
 * bytes it makes, 0 if there is no room. */
static size_t without_entities(const char *text, size_t n, char *out, size_t room)
{
    static const struct {
        const char *entity;
        char is;
    } known[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}, {"&#39;", '\''}};
    size_t len = 0;
    for (size_t i = 0, step; i < n; i += step) {
        char c = text[i];
        step = 1;
        for (size_t k = 0; c == '&' && k < sizeof known / sizeof *known; k++)
            if (strlen(known[k].entity) <= n - i && memcmp(text + i, known[k].entity, strlen(known[k].entity)) == 0) {
                c = known[k].is;
                step = strlen(known[k].entity);
                break;
            }
        if (len == room)
            return 0;
        out[len++] = c;
    }
    return len;
}

/* Adds the last part of the |n| bytes of a path, of a directory if it ends in a slash. Returns 0, or -1 without
 * memory. */
static int add_last(const char *path, size_t n, int directory, struct xh_entries *out)
{
    char name[XH_NAME_BYTES + 1], plain[3 * XH_NAME_BYTES + 1];
    if (n && path[n - 1] == '/') {
        directory = 1;
        n--;
    }
    size_t from = n;
    while (from && path[from - 1] != '/')
        from--;
    n = without_entities(path + from, n - from, plain, sizeof plain);
    if (xh_listing_name(plain, n, name) != 0)
        return 0;
    return xh_entries_add(out, name, directory);
}

/* ---- WebDAV */

/* Finds the next tag of local name |name|, from |p| on; |closing|: one that ends an element. Returns where it begins,
 * and in |*after| what follows it, or NULL. */
static const char *tag(const char *p, const char *end, const char *name, int closing, const char **after)
{
    for (; p < end && (p = memchr(p, '<', (size_t)(end - p))) != NULL; p++) {
        const char *q = p + 1, *colon;
        if ((q < end && *q == '/') != closing)
            continue;
        const char *from = q + closing, *to = from;
        while (to < end && *to != '>' && *to != '/' && !isspace((unsigned char)*to))
            to++;
        colon = to > from ? memchr(from, ':', (size_t)(to - from)) : NULL;
        from = colon ? colon + 1 : from;
        if ((size_t)(to - from) != strlen(name) || memcmp(from, name, strlen(name)) != 0)
            continue;
        const char *close = memchr(to, '>', (size_t)(end - to));
        if (!close)
            return NULL;
        *after = close + 1;
        return p;
    }
    return NULL;
}

/* The path of a URL or a path; |*n| its bytes. XRootD writes names into it as they are, so "?" and "#" are a part of
 * it. */
static const char *path_of(const char *text, size_t *n)
{
    const char *slashes = *n > 7 ? memmem(text, *n, "://", 3) : NULL;
    if (slashes && text[0] != '/') {
        const char *host = slashes + 3, *path = memchr(host, '/', (size_t)(text + *n - host));
        *n = path ? (size_t)(text + *n - path) : 0;
        text = path ? path : text;
    }
    return text;
}

/* 1 when both are the same path, percent-encoded as they may be. */
static int same_path(const char *a, size_t na, const char *b, size_t nb)
{
    size_t i = 0, k = 0;
    while (na && a[na - 1] == '/')
        na--;
    while (nb && b[nb - 1] == '/')
        nb--;
    while (i < na && k < nb) {
        int one = (unsigned char)a[i++], other = (unsigned char)b[k++];
        if (one == '%' && na - i >= 2 && hex(a[i]) >= 0 && hex(a[i + 1]) >= 0) {
            one = hex(a[i]) * 16 + hex(a[i + 1]);
            i += 2;
        }
        if (other == '%' && nb - k >= 2 && hex(b[k]) >= 0 && hex(b[k + 1]) >= 0) {
            other = hex(b[k]) * 16 + hex(b[k + 1]);
            k += 2;
        }
        if (one != other)
            return 0;
    }
    return i == na && k == nb;
}

int xh_listing_propfind(const char *xml, size_t len, const char *path, struct xh_entries *out)
{
    const char *end = xml + len, *inside, *after;
    size_t path_len = strcspn(path, "?#");
    path = path_of(path, &path_len);
    if (!tag(xml, end, "multistatus", 0, &after))
        return -1;
    for (const char *p = xml; tag(p, end, "response", 0, &inside); p = after) {
        const char *stop = tag(inside, end, "response", 1, &after), *href, *text, *over, *ignored;
        if (!stop)
            return 0;
        href = tag(inside, stop, "href", 0, &text);
        over = href ? tag(text, stop, "href", 1, &ignored) : NULL;
        if (!over)
            continue;
        while (text < over && isspace((unsigned char)*text))
            text++;
        while (over > text && isspace((unsigned char)over[-1]))
            over--;
        size_t n = (size_t)(over - text);
        const char *at = path_of(text, &n);
        if (same_path(at, n, path, path_len))
            continue;
        if (add_last(at, n, tag(inside, stop, "collection", 0, &ignored) != NULL, out) != 0)
            return -1;
    }
    return 0;
}

/* ---- nginx's autoindex_format json: [{"name": …, "type": "file" or "directory", …}, …] */

int xh_listing_json(const char *json, size_t len, struct xh_entries *out)
{
    json_t *all = json_loadb(json, len, 0, NULL), *one;
    size_t i;
    int rc = json_is_array(all) ? 0 : -1;
    if (rc == 0)
        json_array_foreach(all, i, one)
        {
            const char *name = json_string_value(json_object_get(one, "name"));
            const char *type = json_string_value(json_object_get(one, "type"));
            if (rc == 0 && name && may_show(name))
                rc = xh_entries_add(out, name, type && strcmp(type, "directory") == 0);
        }
    json_decref(all);
    return rc;
}

/* ---- a page, as nginx, Apache and others make them: its links to what lies in the directory */

int xh_listing_page(const char *html, size_t len, struct xh_entries *out)
{
    static const char *const titles[] = {"<title>Index of ", "<title>Directory listing"};
    const size_t early = len < TITLE_WITHIN ? len : TITLE_WITHIN;
    const char *end = html + len;
    int found = 0;
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        found |= memmem(html, early, titles[i], strlen(titles[i])) != NULL;
    if (!found)
        return -1;
    static const char href[] = "href=\"";
    for (const char *p = html; (p = memmem(p, (size_t)(end - p), href, sizeof href - 1)) != NULL;) {
        p += sizeof href - 1;
        const char *stop = memchr(p, '"', (size_t)(end - p));
        if (!stop)
            return 0;
        size_t n = (size_t)(stop - p), name = n && p[n - 1] == '/' ? n - 1 : n;
        /* "?C=N;O=D" sorts, "/" and "https:" lead elsewhere; nginx writes "./" before names with a colon */
        if (name > 2 && memcmp(p, "./", 2) == 0 && !memchr(p + 2, '/', name - 2)) {
            if (add_last(p + 2, n - 2, 0, out) != 0)
                return -1;
        } else if (name && !memchr(p, '/', name) && !memchr(p, '?', name) && !memchr(p, '#', name) &&
                   !memchr(p, ':', name)) {
            if (add_last(p, n, 0, out) != 0)
                return -1;
        }
        p = stop;
    }
    return 0;
}
