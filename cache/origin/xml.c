/* Elements of XML: see xml.h. */
#include "xml.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/letters.h"

#define ENTITY_BYTES 9 /* longest that is read */

/* When a tag of local name |name| begins at |p|, behind "<" or "</", returns the end of its name. */
static const char *names(const char *p, const char *end, const char *name)
{
    const char *q = p;
    while (q < end && *q != '<' && *q != '>' && *q != '/' && !xh_isspace((unsigned char)*q))
        q++;
    const char *colon = memchr(p, ':', (size_t)(q - p));
    const char *local = colon ? colon + 1 : p;
    return (size_t)(q - local) == strlen(name) && memcmp(local, name, strlen(name)) == 0 ? q : NULL;
}

/* The next tag |name| from |p| on, |closing| an element or not; |*after| is the end of its name. NULL: none. */
static const char *tag(const char *p, const char *end, const char *name, int closing, const char **after)
{
    for (; p < end && (p = memchr(p, '<', (size_t)(end - p))) != NULL; p++) {
        if (closing && (end - p < 2 || p[1] != '/'))
            continue;
        if ((*after = names(p + 1 + closing, end, name)) != NULL)
            return p;
    }
    return NULL;
}

/* Where the inside of the next element |name| that has one begins. NULL: there is none. No byte is looked at twice. */
static const char *opening(const char *p, const char *end, const char *name)
{
    const char *q;
    while (tag(p, end, name, 0, &q) && (p = memchr(q, '>', (size_t)(end - q))) != NULL)
        if (p[-1] != '/')
            return p + 1;
    return NULL;
}

int xh_xml_has(struct xh_xml in, const char *name)
{
    const char *after;
    return tag(in.at, in.at + in.len, name, 0, &after) != NULL;
}

int xh_xml_next(struct xh_xml *in, const char *name, struct xh_xml *inside)
{
    const char *end = in->at + in->len, *after;
    const char *from = opening(in->at, end, name);
    const char *to = from ? tag(from, end, name, 1, &after) : NULL;
    if (!to)
        return 0;
    *inside = (struct xh_xml){from, (size_t)(to - from)};
    *in = (struct xh_xml){after, (size_t)(end - after)};
    return 1;
}

int xh_xml_text(struct xh_xml in, const char *name, struct xh_xml *text)
{
    const char *end = in.at + in.len, *from = opening(in.at, end, name);
    const char *to = from ? memchr(from, '<', (size_t)(end - from)) : NULL;
    if (!to)
        return 0;
    while (from < to && xh_isspace((unsigned char)*from))
        from++;
    while (to > from && xh_isspace((unsigned char)to[-1]))
        to--;
    *text = (struct xh_xml){from, (size_t)(to - from)};
    return 1;
}

/* The character that an entity at |p| stands for; |*n| is its length. 0: it is none that is known. */
static char entity(const char *p, const char *end, size_t *n)
{
    static const struct {
        const char *name;
        char is;
    } known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    const char *stop = memchr(p, ';', end - p < ENTITY_BYTES ? (size_t)(end - p) : ENTITY_BYTES);
    char text[ENTITY_BYTES], *over;
    if (!stop)
        return 0;
    *n = (size_t)(stop - p) + 1;
    memcpy(text, p + 1, *n - 2);
    text[*n - 2] = '\0';
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (strcmp(text, known[k].name) == 0)
            return known[k].is;
    if (text[0] != '#' || !isxdigit((unsigned char)text[1 + (text[1] == 'x')]))
        return 0;
    long code = strtol(text + 1 + (text[1] == 'x'), &over, text[1] == 'x' ? 16 : 10);
    return *over == '\0' && code < 0x80 ? (char)code : 0;
}

size_t xh_xml_plain(struct xh_xml text, char *out, size_t room)
{
    size_t len = 0;
    for (size_t i = 0, n, step; i < text.len; i += step) {
        char c = text.at[i], of = c == '&' ? entity(text.at + i, text.at + text.len, &n) : 0;
        step = of ? n : 1;
        c = of ? of : c;
        if (len == room)
            return 0;
        out[len++] = c;
    }
    return len;
}
