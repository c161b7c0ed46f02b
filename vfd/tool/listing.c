/* Listings: see listing.h. Pure. */
#include "listing.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cache/base/date.h"
#include "../../cache/base/err.h"
#include "../../cache/base/escape.h"
#include "../../cache/base/letters.h"
#include "../../cache/base/table.h"
#include "../../cache/origin/response.h"
#include "../../cache/origin/s3.h"
#include "../../cache/origin/xml.h"

#define TITLE_WITHIN 1024u /* so early a page says that it is a listing */
#define KEY_BYTES    4096u /* longest key that is read: S3's own limit, in any writing */

int xh_entries_add(struct xh_entries *to, const struct xh_entry *e)
{
    char *copy = strdup(e->name);
    if (!copy || xh_grow(to->of, to->room, to->n + 1)) {
        free(copy);
        return -1;
    }
    to->of[to->n] = *e;
    to->of[to->n++].name = copy;
    return 0;
}

void xh_entries_free(struct xh_entries *e)
{
    for (size_t i = 0; i < e->n; i++)
        free(e->of[i].name);
    free(e->of);
    *e = (struct xh_entries){0};
}

/* 1 when a directory may show |name|. */
static int may_show(const char *name)
{
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > XH_ENTRY_NAME_BYTES)
        return 0;
    for (size_t n; *name; name += n)
        if (*name == '/' || (n = xh_utf8_length(name)) == 0)
            return 0;
    return 1;
}

int xh_listing_name(const char *text, size_t n, char out[XH_ENTRY_NAME_BYTES + 1])
{
    size_t len = 0;
    for (const char *end = text + n; text < end;) {
        int c = xh_unescape(&text, end);
        if (len == XH_ENTRY_NAME_BYTES || c == 0)
            return -1;
        out[len++] = (char)c;
    }
    out[len] = '\0';
    return may_show(out) ? 0 : -1;
}

char *xh_listing_url(const char *base, const char *name, const char *end)
{
    static const char plain[] = XH_LETTERS XH_DIGITS "-._~";
    size_t path = strcspn(base, "?#"), query = strcspn(base, "#");
    char coded[3 * XH_ENTRY_NAME_BYTES + 1] = "", *url = NULL;
    size_t len = 0;
    int as_it_is = xh_s3_is_name(base);
    if (as_it_is && strpbrk(name, "?#"))
        return NULL;
    for (; *name && len + 3 < sizeof coded; name++)
        len += (size_t)snprintf(coded + len, sizeof coded - len, as_it_is || strchr(plain, *name) ? "%c" : "%%%02X",
                                (unsigned char)*name);
    return *name || asprintf(&url, "%.*s%s%s%.*s", (int)path, base, coded, end, (int)(query - path), base + path) < 0
               ? NULL
               : url;
}

/* Adds the last part of |path| as |e|, of a directory if it ends in a slash. Returns 0, or -1 without memory. */
static int add_last(struct xh_xml path, struct xh_entry e, struct xh_entries *out)
{
    char name[XH_ENTRY_NAME_BYTES + 1], plain[3 * XH_ENTRY_NAME_BYTES + 1];
    size_t n = path.len;
    if (n && path.at[n - 1] == '/') {
        e.directory = 1;
        n--;
    }
    size_t from = n;
    while (from && path.at[from - 1] != '/')
        from--;
    n = xh_xml_plain((struct xh_xml){path.at + from, n - from}, plain, sizeof plain);
    if (xh_listing_name(plain, n, name) != 0)
        return 0;
    e.name = name;
    e.told &= !e.directory;
    return xh_entries_add(out, &e);
}

/* ---- WebDAV */

/* The path of a URL or a path. XRootD writes names into it as they are, so "?" and "#" are a part of it. */
static struct xh_xml path_of(struct xh_xml text)
{
    const char *slashes = text.len > 7 ? memmem(text.at, text.len, "://", 3) : NULL, *end = text.at + text.len;
    if (!slashes || text.at[0] == '/')
        return text;
    const char *path = memchr(slashes + 3, '/', (size_t)(end - slashes - 3));
    return path ? (struct xh_xml){path, (size_t)(end - path)} : (struct xh_xml){end, 0};
}

/* 1 when both are the same path, percent-encoded as they may be. */
static int same_path(const char *a, size_t na, const char *b, size_t nb)
{
    const char *a_end = a + na, *b_end = b + nb;
    while (a_end > a && a_end[-1] == '/')
        a_end--;
    while (b_end > b && b_end[-1] == '/')
        b_end--;
    while (a < a_end && b < b_end)
        if (xh_unescape(&a, a_end) != xh_unescape(&b, b_end))
            return 0;
    return a == a_end && b == b_end;
}

int xh_listing_propfind(const char *xml, size_t len, const char *path, struct xh_entries *out)
{
    struct xh_xml rest = {xml, len}, own = path_of((struct xh_xml){path, strcspn(path, "?#")}), href, of;
    char date[XH_DATE_BYTES];
    if (!xh_xml_has(rest, "multistatus"))
        return -1;
    while (xh_propfind_next(&rest, &href, &of)) {
        struct xh_xml at = path_of(href);
        struct xh_entry e = {.directory = xh_propfind_is_directory(of)};
        if (same_path(at.at, at.len, own.at, own.len))
            continue;
        if (xh_propfind_parse(of, date, sizeof date, &e.size) && (e.changed_s = xh_http_date(date)) >= 0)
            e.told = 1;
        if (add_last(at, e, out) != 0)
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
            const char *date = json_string_value(json_object_get(one, "mtime"));
            const json_t *size = json_object_get(one, "size");
            struct xh_entry e = {.name = (char *)name, .directory = type && strcmp(type, "directory") == 0};
            e.changed_s = date ? xh_http_date(date) : -1;
            e.told = !e.directory && e.changed_s >= 0 && json_is_integer(size) && json_integer_value(size) >= 0;
            e.size = e.told ? (uint64_t)json_integer_value(size) : 0;
            if (rc == 0 && name && may_show(name))
                rc = xh_entries_add(out, &e);
        }
    json_decref(all);
    return rc;
}

/* ---- S3 */

/* Reads |text|, a key or a prefix, without |prefix|; |coded|: it is percent-encoded. Returns what follows |prefix|, in
 * |room|, or NULL. */
static const char *below(struct xh_xml text, int coded, const char *prefix, char room[KEY_BYTES])
{
    size_t n = xh_xml_plain(text, room, KEY_BYTES - 1), len = 0, own = strlen(prefix);
    for (const char *p = room, *end = room + n; p < end;) {
        int blank = coded && *p == '+';
        char c = coded ? (char)xh_unescape(&p, end) : *p++;
        if (c == 0)
            return NULL;
        room[len++] = blank ? ' ' : c;
    }
    room[len] = '\0';
    return len > own && memcmp(room, prefix, own) == 0 ? room + own : NULL;
}

/* Adds |name| as |e|, if s3:// can name it: a mark of a directory, which is an object with a name of no bytes, is not
 * shown. Returns 0, or -1 without memory. */
static int add_s3(char *name, struct xh_entry e, struct xh_entries *out)
{
    e.name = name;
    return may_show(name) && !strpbrk(name, "?#") ? xh_entries_add(out, &e) : 0;
}

static int copy_text(struct xh_xml in, const char *name, char *out, size_t room)
{
    struct xh_xml text = {0};
    size_t n = xh_xml_text(in, name, &text) ? xh_xml_plain(text, out, room - 1) : 0;
    out[n] = '\0';
    return n > 0 && !memchr(out, '\0', n);
}

int xh_listing_s3(const char *xml, size_t len, const char *prefix, struct xh_entries *out,
                  char token[XH_LISTING_TOKEN_BYTES])
{
    struct xh_xml all = {xml, len}, list, rest, one, key;
    char room[KEY_BYTES], word[64], *end;
    token[0] = '\0';
    if (!xh_xml_next(&all, "ListBucketResult", &list))
        return -1;
    int coded = copy_text(list, "EncodingType", word, sizeof word) && strcmp(word, "url") == 0;
    for (rest = list; xh_xml_next(&rest, "Contents", &one);) {
        const char *name = xh_xml_text(one, "Key", &key) ? below(key, coded, prefix, room) : NULL;
        struct xh_entry e = {0};
        if (!name)
            continue;
        if (copy_text(one, "Size", word, sizeof word) && isdigit((unsigned char)word[0])) {
            e.size = strtoull(word, &end, 10);
            e.told = *end == '\0' && e.size <= INT64_MAX;
        }
        e.changed_s = copy_text(one, "LastModified", word, sizeof word) ? xh_iso_date(word) : 0;
        e.told &= e.changed_s > 0;
        if (add_s3((char *)name, e, out) != 0)
            return -1;
    }
    for (rest = list; xh_xml_next(&rest, "CommonPrefixes", &one);) {
        char *name = xh_xml_text(one, "Prefix", &key) ? (char *)below(key, coded, prefix, room) : NULL;
        size_t n = name ? strlen(name) : 0;
        if (n < 2 || name[n - 1] != '/')
            continue;
        name[n - 1] = '\0';
        if (add_s3(name, (struct xh_entry){.directory = 1}, out) != 0)
            return -1;
    }
    if (copy_text(list, "IsTruncated", word, sizeof word) && strcmp(word, "true") == 0 &&
        !copy_text(list, "NextContinuationToken", token, XH_LISTING_TOKEN_BYTES))
        return -1; /* a part of a listing is none */
    return 0;
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
        /* "?C=N;O=D" sorts, "/" and "https:" lead elsewhere; nginx writes "./" before names with a colon */
        int plain = stop - p > 2 && memcmp(p, "./", 2) == 0;
        p += plain ? 2 : 0;
        size_t n = (size_t)(stop - p), name = n && p[n - 1] == '/' ? n - 1 : n;
        int here = name && !memchr(p, '/', name) &&
                   (plain || (!memchr(p, '?', name) && !memchr(p, '#', name) && !memchr(p, ':', name)));
        if (here && add_last((struct xh_xml){p, n}, (struct xh_entry){0}, out) != 0)
            return -1;
        p = stop;
    }
    return 0;
}
