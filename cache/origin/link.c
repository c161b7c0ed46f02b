/* Link headers: see link.h. */
#include "link.h"

#include <string.h>
#include <strings.h>

#define PRI_LAST 999999u

struct span {
    const char *p;
    size_t len;
};

static int is(struct span s, const char *word)
{
    return s.len == strlen(word) && strncasecmp(s.p, word, s.len) == 0;
}

static const char *blanks(const char *p)
{
    return p + strspn(p, " \t");
}

/* Reads a parameter's value, quoted or not. Returns what follows it, or NULL: a quotation mark is not closed. */
static const char *value_of(const char *p, struct span *out)
{
    if (*p != '"') {
        *out = (struct span){p, strcspn(p, ";, \t")};
        return p + out->len;
    }
    const char *q = ++p;
    while (*q && *q != '"')
        q += q[0] == '\\' && q[1] ? 2 : 1;
    *out = (struct span){p, (size_t)(q - p)};
    return *q ? q + 1 : NULL;
}

/* 1 when |word| is one of those in |list|, with blanks between them. */
static int holds(struct span list, const char *word)
{
    while (list.len) {
        size_t n = 0;
        while (n < list.len && list.p[n] != ' ' && list.p[n] != '\t')
            n++;
        if (is((struct span){list.p, n}, word))
            return 1;
        n += n < list.len;
        list.p += n;
        list.len -= n;
    }
    return 0;
}

static unsigned pri_of(struct span s)
{
    unsigned n = 0;
    for (size_t i = 0; i < s.len; i++)
        if (s.p[i] < '0' || s.p[i] > '9' || (n = n * 10 + (unsigned)(s.p[i] - '0')) > PRI_LAST)
            return PRI_LAST;
    return n ? n : PRI_LAST;
}

/* What follows the next comma outside quotation marks; the end without one. */
static const char *next_value(const char *p)
{
    for (int quoted = 0; *p; p++) {
        if (quoted && p[0] == '\\' && p[1])
            p++;
        else if (*p == '"')
            quoted = !quoted;
        else if (*p == ',' && !quoted)
            return p + 1;
    }
    return p;
}

/* Reads one value, "<uri>; name=value; …". Returns what follows it, or NULL: it is malformed. */
static const char *link_of(const char *p, struct xh_link *out, int *duplicate)
{
    size_t len = *p == '<' ? strcspn(p + 1, "<> \t\"") : 0;
    int rels = 0, anchored = 0;
    if (len == 0 || p[1 + len] != '>')
        return NULL;
    *out = (struct xh_link){p + 1, len, PRI_LAST};
    *duplicate = 0;
    for (p = blanks(p + len + 2); *p == ';'; p = blanks(p)) {
        p = blanks(p + 1);
        struct span name = {p, strcspn(p, "=;, \t\"")}, value = {p, 0};
        p = blanks(p + name.len);
        if (*p == '=' && !(p = value_of(blanks(p + 1), &value)))
            return NULL;
        if (is(name, "rel") && rels++ == 0) /* of several the first goes */
            *duplicate = holds(value, "duplicate");
        else if (is(name, "pri"))
            out->pri = pri_of(value);
        else if (is(name, "anchor"))
            anchored = 1;
    }
    *duplicate &= !anchored;
    return *p == ',' || *p == '\0' ? p : NULL;
}

size_t xh_link_duplicates(const char *text, struct xh_link *out, size_t most)
{
    size_t n = 0;
    for (const char *p = text, *end; *(p += strspn(p, ", \t")); p = end ? end : next_value(p)) {
        struct xh_link l;
        int duplicate = 0;
        end = link_of(p, &l, &duplicate);
        if (!end || !duplicate)
            continue;
        size_t at = n;
        while (at && out[at - 1].pri > l.pri)
            at--;
        if (at == most)
            continue;
        n += n < most;
        memmove(out + at + 1, out + at, (n - 1 - at) * sizeof *out);
        out[at] = l;
    }
    return n;
}
