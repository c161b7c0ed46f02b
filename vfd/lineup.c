/* See lineup.h. */
#include "lineup.h"

#include <stdlib.h>
#include <string.h>

int xh_lineup_init(struct xh_lineup *o, struct xh_names *names)
{
    *o = (struct xh_lineup){.names = *names, .name = calloc(names->n, sizeof *o->name)};
    *names = (struct xh_names){0};
    if (!o->name) {
        xh_lineup_free(o);
        return -1;
    }
    const char *p = o->names.text;
    for (size_t i = 0; i < o->names.n; i++, p += strlen(p) + 1) {
        struct xh_lineup_name *first;
        o->name[i].text = p;
        HASH_FIND_STR(o->table, p, first);
        if (!first) /* without memory it is not found later: a hint less */
            HASH_ADD_KEYPTR(hh, o->table, p, strlen(p), &o->name[i]);
    }
    return 0;
}

void xh_lineup_free(struct xh_lineup *o)
{
    HASH_CLEAR(hh, o->table);
    free(o->names.text);
    free(o->name);
    free(o->prefix);
    *o = (struct xh_lineup){0};
}

int xh_lineup_is(const struct xh_lineup *o, const struct xh_names *names)
{
    return o->names.bytes == names->bytes && memcmp(o->names.text, names->text, names->bytes) == 0;
}

/* Returns the index of the name that |url| is, or that it ends with behind a slash; o->names.n when there is none. Of
 * several such names the next one is meant, else the first. */
static size_t find(const struct xh_lineup *o, const char *url)
{
    size_t first = o->names.n;
    for (const char *tail = url, *slash;; tail = slash + 1) {
        struct xh_lineup_name *e;
        if (o->next < o->names.n && strcmp(tail, o->name[o->next].text) == 0)
            return o->next;
        HASH_FIND_STR(o->table, tail, e);
        if (e && (size_t)(e - o->name) < first)
            first = (size_t)(e - o->name);
        if ((slash = strchr(tail, '/')) == NULL)
            return first;
    }
}

size_t xh_lineup_behind(const struct xh_lineup *o, const char *url)
{
    size_t i = find(o, url);
    return i < o->names.n ? o->names.n - i - 1 : 0;
}

size_t xh_lineup_opened(struct xh_lineup *o, const char *url, size_t *first)
{
    size_t i = find(o, url);
    if (i == o->names.n)
        return 0;
    size_t before = strlen(url) - strlen(o->name[i].text);
    int there = o->prefix && strlen(o->prefix) == before && memcmp(url, o->prefix, before) == 0;
    int follows = there && i == o->next;
    o->anew = !follows;
    if (there && i + 1 == o->next) { /* the same one again */
        o->anew = 0;
        return 0;
    }
    if (!follows) {
        free(o->prefix);
        o->prefix = strndup(url, before);
        o->foreseen = o->row = 0;
    }
    o->next = i + 1;
    o->row++;
    o->soon = o->row < 2 ? i == 0 : o->row < 4 ? (size_t)1 << (o->row - 1) : XH_LINEUP_SOON;
    if (!o->prefix)
        return 0;
    size_t end = o->names.n - o->next < XH_EXPECTED_MOST ? o->names.n : o->next + XH_EXPECTED_MOST;
    *first = o->foreseen > o->next ? o->foreseen : o->next;
    o->foreseen = end > o->foreseen ? end : o->foreseen;
    return end > *first ? end - *first : 0;
}
