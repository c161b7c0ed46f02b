/* See lineup.h. */
#include "lineup.h"

#include <stdlib.h>
#include <string.h>

int xh_lineup_init(struct xh_lineup *o, struct xh_names *names)
{
    *o = (struct xh_lineup){.names = *names, .at = malloc(names->n * sizeof *o->at)};
    *names = (struct xh_names){0};
    if (!o->at) {
        xh_lineup_free(o);
        return -1;
    }
    const char *p = o->names.text;
    for (size_t i = 0; i < o->names.n; i++, p += strlen(p) + 1)
        o->at[i] = p;
    return 0;
}

void xh_lineup_free(struct xh_lineup *o)
{
    free(o->names.text);
    free(o->at);
    free(o->prefix);
    *o = (struct xh_lineup){0};
}

int xh_lineup_is(const struct xh_lineup *o, const struct xh_names *names)
{
    return o->names.bytes == names->bytes && memcmp(o->names.text, names->text, names->bytes) == 0;
}

/* 1 when |url|, of |len| bytes, is |name|, or ends with "/" and |name|. */
static int ends_with(const char *url, size_t len, const char *name)
{
    size_t n = strlen(name);
    return n <= len && memcmp(url + len - n, name, n) == 0 && (n == len || url[len - n - 1] == '/');
}

/* Returns the index of the name that |url| ends with; o->names.n when there is none. */
static size_t find(const struct xh_lineup *o, const char *url)
{
    size_t len = strlen(url), i = 0;
    if (o->next < o->names.n && ends_with(url, len, o->at[o->next]))
        return o->next;
    while (i < o->names.n && !ends_with(url, len, o->at[i]))
        i++;
    return i;
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
    size_t before = strlen(url) - strlen(o->at[i]);
    int follows = o->prefix && i == o->next && strlen(o->prefix) == before && memcmp(url, o->prefix, before) == 0;
    if (!follows) {
        free(o->prefix);
        o->prefix = strndup(url, before);
        o->foreseen = o->row = 0;
    }
    o->next = i + 1;
    o->row++;
    o->soon = o->row < 2 ? 0 : o->row < 4 ? (size_t)1 << (o->row - 1) : XH_LINEUP_SOON;
    if (!o->prefix)
        return 0;
    size_t end = o->names.n - o->next < XH_LINEUP_AHEAD ? o->names.n : o->next + XH_LINEUP_AHEAD;
    *first = o->foreseen > o->next ? o->foreseen : o->next;
    o->foreseen = end > o->foreseen ? end : o->foreseen;
    return end > *first ? end - *first : 0;
}
