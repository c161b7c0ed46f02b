/* What header lines tell of a cache: see front.h. */
#include "front.h"

#include <stdio.h>
#include <string.h>

#include "../../cache/base/letters.h"

#define SECONDS_MOST 4000000000 /* of an age: more is nonsense */

struct text {
    const char *at;
    size_t len;
};

static struct text trimmed(const char *p, const char *end)
{
    while (p < end && strchr(" \t\r\n", *p))
        p++;
    while (end > p && strchr(" \t\r\n", end[-1]))
        end--;
    return (struct text){p, (size_t)(end - p)};
}

static int is(struct text t, const char *word)
{
    return t.len == strlen(word) && xh_strncasecmp(t.at, word, t.len) == 0;
}

/* Takes the part before the first |sign| outside quotes off |rest|. Returns 0 when there was none left. */
static int next_part(struct text *rest, char sign, struct text *part)
{
    const char *end = rest->at + rest->len, *p = rest->at;
    int quoted = 0;
    if (!rest->at)
        return 0;
    for (; p < end && (quoted || *p != sign); p++)
        quoted ^= *p == '"';
    *part = trimmed(rest->at, p);
    *rest = p < end ? (struct text){p + 1, (size_t)(end - p - 1)} : (struct text){NULL, 0};
    return 1;
}

/* The last member of a list: each cache adds its own behind those before it. */
static struct text last_member(struct text list)
{
    struct text member = {list.at, 0};
    while (next_part(&list, ',', &member))
        ;
    return member;
}

/* A number of seconds; -1: it is none. */
static int64_t seconds(struct text t)
{
    int64_t n = 0;
    for (size_t i = 0; i < t.len; i++) {
        if (t.at[i] < '0' || t.at[i] > '9' || n > SECONDS_MOST)
            return -1;
        n = 10 * n + (t.at[i] - '0');
    }
    return t.len ? n : -1;
}

/* Cache-Status: name; parameters. */
static enum xh_front_kept by_status(struct text list)
{
    struct text rest = last_member(list), part;
    enum xh_front_kept kept = XH_FRONT_MISS;
    next_part(&rest, ';', &part);
    while (next_part(&rest, ';', &part))
        if (is(part, "hit") || is(part, "hit=?1"))
            return XH_FRONT_HIT;
        else if (is(part, "fwd=bypass") || is(part, "fwd=method") || is(part, "fwd=request"))
            kept = XH_FRONT_PASSED;
    return kept;
}

/* "HIT", "Miss from cloudfront", "TCP_MEM_HIT from …": what the first word has in it. */
static enum xh_front_kept by_word(struct text list)
{
    static const struct {
        const char *word;
        enum xh_front_kept kept;
    } words[] = {{"hit", XH_FRONT_HIT}, {"stale", XH_FRONT_HIT}, {"updating", XH_FRONT_HIT},
                 {"revalidated", XH_FRONT_HIT}, {"miss", XH_FRONT_MISS}, {"expired", XH_FRONT_MISS},
                 {"bypass", XH_FRONT_PASSED}, {"pass", XH_FRONT_PASSED}, {"dynamic", XH_FRONT_PASSED}};
    struct text rest = last_member(list), first = rest;
    next_part(&rest, ' ', &first);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (xh_memcasestr(first.at, first.len, words[i].word))
            return words[i].kept;
    return XH_FRONT_SILENT;
}

/* Cache-Control's s-maxage, which goes before max-age. */
static int64_t fresh_of(struct text list)
{
    int64_t shared = -1, any = -1;
    struct text part;
    while (next_part(&list, ',', &part)) {
        if (part.len > 9 && xh_strncasecmp(part.at, "s-maxage=", 9) == 0)
            shared = seconds((struct text){part.at + 9, part.len - 9});
        else if (part.len > 8 && xh_strncasecmp(part.at, "max-age=", 8) == 0)
            any = seconds((struct text){part.at + 8, part.len - 8});
        else if (is(part, "no-cache") || is(part, "no-store"))
            return 0;
    }
    return shared >= 0 ? shared : any;
}

static void note(struct xh_front *f, struct text name, struct text value)
{
    size_t used = strlen(f->said);
    snprintf(f->said + used, sizeof f->said - used, "%s%.*s: %.*s", used ? ", " : "", (int)name.len, name.at,
             (int)(value.len < sizeof f->said ? value.len : sizeof f->said), value.at);
    f->proxy = 1;
}

void xh_front_init(struct xh_front *f)
{
    *f = (struct xh_front){.age_s = -1, .fresh_s = -1};
}

void xh_front_line(struct xh_front *f, const char *line, size_t len)
{
    static const struct {
        const char *name;
        enum xh_front_kept (*read)(struct text);
        unsigned rank;
    } told[] = {{"Cache-Status", by_status, 3}, {"X-Cache-Status", by_word, 2}, {"CF-Cache-Status", by_word, 2},
                {"X-Cache", by_word, 1}};
    if (len >= 5 && memcmp(line, "HTTP/", 5) == 0)
        xh_front_init(f);
    const char *colon = memchr(line, ':', len);
    if (!colon)
        return;
    struct text name = {line, (size_t)(colon - line)}, value = trimmed(colon + 1, line + len);
    if (is(name, "Cache-Control")) {
        f->fresh_s = fresh_of(value);
    } else if (is(name, "Via")) {
        note(f, name, value);
    } else if (is(name, "Age") && seconds(value) >= 0) {
        note(f, name, value);
        f->cache = 1;
        f->age_s = seconds(value);
    }
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        if (!is(name, told[i].name))
            continue;
        enum xh_front_kept kept = told[i].read(value);
        note(f, name, value);
        f->cache = 1;
        if (kept != XH_FRONT_SILENT && told[i].rank >= f->rank) {
            f->kept = kept;
            f->rank = told[i].rank;
        }
    }
}
