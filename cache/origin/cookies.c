/* Cookies: see cookies.h.
 *
 * Invariant: a text of lines is replaced as a whole, so that the copy in a fork's child is one or the other. */
#include "cookies.h"

#include <stdlib.h>
#include <string.h>

#include "base/wipe.h"

#define FIELDS 7 /* of a line */
#define EXPIRY 4 /* the field: seconds since 1970; 0: with the session */
#define NAME   5
#define GONE   "1" /* an expiry that is long over */

/* One line, taken apart in place. */
struct line {
    const char *text;
    size_t len; /* with its end of line */
    const char *field[FIELDS];
    size_t bytes[FIELDS];
};

/* Takes the next line with all fields from |*p|. Returns 1, or 0 at the end. */
static int next_line(const char **p, struct line *l)
{
    while (**p) {
        const char *at = *p, *end = at + strcspn(at, "\n");
        *p = *end ? end + 1 : end;
        l->text = at;
        l->len = (size_t)(*p - at);
        int n = 0;
        for (; n < FIELDS && at <= end; n++) {
            size_t bytes = n + 1 < FIELDS ? strcspn(at, "\t\n") : (size_t)(end - at);
            l->field[n] = at;
            l->bytes[n] = bytes;
            at += bytes + 1;
        }
        if (n == FIELDS && *end)
            return 1;
    }
    return 0;
}

static int same_field(const struct line *a, const struct line *b, int i)
{
    return a->bytes[i] == b->bytes[i] && memcmp(a->field[i], b->field[i], a->bytes[i]) == 0;
}

/* 1 when they are the same cookie, whatever its value: of the same domain, path and name (RFC 6265, 5.3). */
static int same_cookie(const struct line *a, const struct line *b)
{
    return same_field(a, b, 0) && same_field(a, b, 2) && same_field(a, b, NAME);
}

static int is_gone(const struct line *l)
{
    return l->bytes[EXPIRY] == sizeof GONE - 1 && memcmp(l->field[EXPIRY], GONE, sizeof GONE - 1) == 0;
}

/* Finds in |lines| the cookie that |like| is. Returns 1 with it in |*out|, or 0. */
static int find(const char *lines, const struct line *like, struct line *out)
{
    while (next_line(&lines, out))
        if (same_cookie(out, like))
            return 1;
    return 0;
}

static void put(char *text, size_t *used, const char *from, size_t len)
{
    memcpy(text + *used, from, len);
    *used += len;
    text[*used] = '\0';
}

/* Appends |l| as a cookie that has expired. It is never longer than its line by more than GONE. */
static void put_gone(char *text, size_t *used, const struct line *l)
{
    const char *expiry = l->field[EXPIRY], *rest = expiry + l->bytes[EXPIRY];
    put(text, used, l->text, (size_t)(expiry - l->text));
    put(text, used, GONE, sizeof GONE - 1);
    put(text, used, rest, (size_t)(l->text + l->len - rest));
}

static size_t lines_in(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

char *xh_cookies_changes(const char *before, const char *after)
{
    char *out = malloc(strlen(before) + lines_in(before) * sizeof GONE + strlen(after) + 1);
    struct line l, other;
    size_t used = 0;
    if (!out)
        return NULL;
    out[0] = '\0';
    for (const char *p = before; next_line(&p, &l);)
        if (!find(after, &l, &other))
            put_gone(out, &used, &l);
    for (const char *p = after; next_line(&p, &l);)
        if (!find(before, &l, &other) || other.len != l.len || memcmp(other.text, l.text, l.len) != 0)
            put(out, &used, l.text, l.len);
    return out;
}

static struct xh_jar_of *find_server(const struct xh_jar *j, const char *server)
{
    for (size_t i = 0; i < j->n; i++)
        if (strcmp(j->of[i].server, server) == 0)
            return &j->of[i];
    return NULL;
}

const char *xh_jar_lines(const struct xh_jar *j, const char *server)
{
    const struct xh_jar_of *of = find_server(j, server);
    return of ? of->lines : "";
}

/* A place for |server|. NULL without memory, or where there are too many. */
static struct xh_jar_of *place_of(struct xh_jar *j, const char *server)
{
    struct xh_jar_of *of = find_server(j, server), *more;
    if (of)
        return of;
    if (j->n == XH_COOKIES_MOST_SERVERS || !(more = realloc(j->of, (j->n + 1) * sizeof *more)))
        return NULL;
    j->of = more;
    more[j->n] = (struct xh_jar_of){strdup(server), strdup("")};
    if (more[j->n].server && more[j->n].lines)
        return &more[j->n++];
    free(more[j->n].server);
    free(more[j->n].lines);
    return NULL;
}

int xh_jar_take(struct xh_jar *j, const char *server, const char *changes, int keeps_gone)
{
    struct line l, other;
    size_t used = 0;
    if (!changes[0])
        return 0;
    struct xh_jar_of *of = place_of(j, server);
    if (!of || strlen(of->lines) + strlen(changes) > XH_COOKIES_MOST_BYTES)
        return -1;
    char *out = malloc(strlen(of->lines) + strlen(changes) + 1);
    if (!out)
        return -1;
    out[0] = '\0';
    for (const char *p = of->lines; next_line(&p, &l);)
        if (!find(changes, &l, &other))
            put(out, &used, l.text, l.len);
    for (const char *p = changes; next_line(&p, &l);)
        if (keeps_gone || !is_gone(&l))
            put(out, &used, l.text, l.len);
    xh_wipe(of->lines);
    of->lines = out;
    return 0;
}

void xh_jar_free(struct xh_jar *j)
{
    for (size_t i = 0; i < j->n; i++) {
        xh_wipe(j->of[i].lines);
        free(j->of[i].server);
    }
    free(j->of);
    *j = (struct xh_jar){0};
}
