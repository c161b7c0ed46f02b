/* AWS's files of profiles: see profile.h. */
#include "profile.h"

#include <stdio.h>
#include <string.h>

#define BLANKS " \t\r"

/* Drops blanks at both ends of [*from, *to). */
static void trim(const char **from, const char **to)
{
    while (*from < *to && strchr(BLANKS, **from))
        ++*from;
    while (*to > *from && strchr(BLANKS, (*to)[-1]))
        --*to;
}

static int is(const char *from, const char *to, const char *word, size_t n)
{
    return (size_t)(to - from) == n && memcmp(from, word, n) == 0;
}

/* 1 when the line [from, to) is "[section]": then |*ours| says whether it is |section|. */
static int is_head(const char *from, const char *to, const char *section, int *ours)
{
    if (from == to || *from != '[')
        return 0;
    const char *end = memchr(from, ']', (size_t)(to - from));
    from++;
    *ours = 0;
    if (!end)
        return 1;
    trim(&from, &end);
    *ours = is(from, end, section, strlen(section));
    if (!*ours && strncmp(section, "profile ", 8) == 0 && end - from > 8 && memcmp(from, "profile", 7) == 0) {
        const char *name = from + 7; /* blanks between the two may be others */
        trim(&name, &end);
        *ours = name > from + 7 && is(name, end, section + 8, strlen(section + 8));
    }
    return 1;
}

/* Where the value in [from, to) ends, before a comment. */
static const char *before_comment(const char *from, const char *to)
{
    for (const char *p = from; p + 1 < to; p++)
        if (strchr(BLANKS, *p) && (p[1] == '#' || p[1] == ';'))
            return p;
    return to;
}

int xh_profile_get(const char *text, const char *section, const char *name, char *out, size_t size)
{
    const char *dot = strchr(name, '.');
    size_t outer = dot ? (size_t)(dot - name) : 0;
    int ours = 0, inside = 0, found = 0;
    out[0] = '\0';
    for (const char *line = text, *next; *line; line = next) {
        const char *from = line, *to = line + strcspn(line, "\n");
        int indented = *line == ' ' || *line == '\t';
        next = *to ? to + 1 : to;
        trim(&from, &to);
        if (from < to && *from == '[')
            inside = 0;
        if (from == to || *from == '#' || *from == ';' || is_head(from, to, section, &ours) || !ours)
            continue;
        const char *equals = memchr(from, '=', (size_t)(to - from)), *end = equals, *value = equals ? equals + 1 : NULL;
        if (!equals)
            continue;
        trim(&from, &end);
        to = before_comment(value, to);
        trim(&value, &to);
        if (!indented)
            inside = dot && value == to && is(from, end, name, outer);
        if (dot ? !indented || !inside || !is(from, end, dot + 1, strlen(dot + 1))
                : indented || !is(from, end, name, strlen(name)))
            continue;
        found = value < to && (size_t)(to - value) < size;
        snprintf(out, size, "%.*s", found ? (int)(to - value) : 0, value);
    }
    return found;
}

int xh_profile_has(const char *text, const char *section)
{
    int ours = 0;
    for (const char *line = text; *line && !ours; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *from = line, *to = line + strcspn(line, "\n");
        trim(&from, &to);
        is_head(from, to, section, &ours);
    }
    return ours;
}

int xh_profile_words(char *line, char **words, int most)
{
    int n = 0;
    for (char *p = line; *(p += strspn(p, " \t\r\n"));) {
        char *to = p, quote = '\0';
        if (n + 1 >= most)
            return -1;
        words[n++] = to;
        for (; *p && (quote || !strchr(" \t\r\n", *p)); p++) {
            if (*p == quote && quote)
                quote = '\0';
            else if (!quote && (*p == '\'' || *p == '"'))
                quote = *p;
            else if (*p == '\\' && quote != '\'' && p[1] && (!quote || strchr("\"\\", p[1])))
                *to++ = *++p;
            else
                *to++ = *p;
        }
        if (quote)
            return -1;
        p += *p != '\0';
        *to = '\0';
    }
    words[n] = NULL;
    return n;
}
