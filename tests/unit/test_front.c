/* vfd/tool/front.c: what header lines tell of a cache. */
#include "../../vfd/tool/front.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

static struct xh_front told(const char *lines)
{
    struct xh_front f;
    xh_front_init(&f);
    while (*lines) {
        size_t n = strcspn(lines, "\n") + 1;
        /* from a place of its own, so that a read behind it is seen */
        char *copy = malloc(n);
        memcpy(copy, lines, n - 1);
        copy[n - 1] = '\n';
        xh_front_line(&f, copy, n);
        free(copy);
        lines += strlen(lines) < n ? n - 1 : n;
    }
    return f;
}

Test(front, caches_are_known_by_their_own_words)
{
    static const struct {
        const char *lines;
        int cache;
        enum xh_front_kept kept;
        int age, fresh;
    } c[] = {
        {"Server: nginx\nETag: \"a\"\nX-Cached-By-Nobody: HIT", 0, XH_FRONT_SILENT, -1, -1},
        {"Via: 1.1 box (proxy)", 0, XH_FRONT_SILENT, -1, -1},
        /* Squid 6 */
        {"Cache-Status: localhost;detail=mismatch\nVia: 1.1 localhost (squid/6.13)", 1, XH_FRONT_MISS, -1, -1},
        {"Age: 0\nCache-Status: localhost;hit;detail=match", 1, XH_FRONT_HIT, 0, -1},
        /* Squid 4 */
        {"X-Cache: MISS from hit.example.org\nX-Cache-Lookup: HIT from there:3128", 1, XH_FRONT_MISS, -1, -1},
        {"X-Cache-Status: HIT", 1, XH_FRONT_HIT, -1, -1},
        {"x-cache-status: expired", 1, XH_FRONT_MISS, -1, -1},
        {"X-Cache-Status: BYPASS", 1, XH_FRONT_PASSED, -1, -1},
        {"X-Cache-Status: -", 1, XH_FRONT_SILENT, -1, -1},
        {"X-Cache: Hit from cloudfront\nAge: 77\nCache-Control: public, max-age=300", 1, XH_FRONT_HIT, 77, 300},
        {"X-Cache: RefreshHit from cloudfront", 1, XH_FRONT_HIT, -1, -1},
        {"X-Cache: Error from cloudfront", 1, XH_FRONT_SILENT, -1, -1},
        /* Fastly: the shield's, then the edge's */
        {"X-Cache: HIT, MISS", 1, XH_FRONT_MISS, -1, -1},
        {"X-Cache: MISS, HIT", 1, XH_FRONT_HIT, -1, -1},
        {"X-Cache: TCP_MEM_HIT from a1.deploy.example.net (AkamaiGHost/1)", 1, XH_FRONT_HIT, -1, -1},
        {"CF-Cache-Status: DYNAMIC", 1, XH_FRONT_PASSED, -1, -1},
        {"Cache-Control: max-age=9, s-maxage=60", 0, XH_FRONT_SILENT, -1, 60},
        {"Cache-Control: no-cache", 0, XH_FRONT_SILENT, -1, 0},
        /* RFC 9211: the last member is the reader's */
        {"Cache-Status: far; hit, \"near, or; not\"; fwd=uri-miss; stored", 1, XH_FRONT_MISS, -1, -1},
        {"Cache-Status: far; fwd=miss, near; hit; ttl=5", 1, XH_FRONT_HIT, -1, -1},
        {"Cache-Status: near; fwd=bypass", 1, XH_FRONT_PASSED, -1, -1},
        /* the standard's word goes before another, wherever it stands */
        {"Cache-Status: near; hit\nX-Cache: MISS from far", 1, XH_FRONT_HIT, -1, -1},
        {"X-Cache: MISS from far\nCache-Status: near; hit", 1, XH_FRONT_HIT, -1, -1},
        /* what came before the status line is of an interim reply */
        {"X-Cache: HIT\nHTTP/1.1 206 Partial Content", 0, XH_FRONT_SILENT, -1, -1},
        {"Age: -1\nAge: 99999999999999999999\nAge:\nAge", 0, XH_FRONT_SILENT, -1, -1},
        {"Cache-Status:\nX-Cache: ,,\nX-Cache-Status: ; \"", 1, XH_FRONT_MISS, -1, -1},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        struct xh_front f = told(c[i].lines);
        cr_expect(f.cache == c[i].cache && f.kept == c[i].kept && f.age_s == c[i].age && f.fresh_s == c[i].fresh,
                  "%s: %d %d %d %d", c[i].lines, f.cache, (int)f.kept, (int)f.age_s, (int)f.fresh_s);
    }
}

Test(front, long_lines_are_cut)
{
    char line[1 << 16];
    struct xh_front f;
    xh_front_init(&f);
    memset(line, 'a', sizeof line);
    snprintf(line, sizeof line, "Via: 1.1");
    line[strlen(line)] = ' ';
    for (int i = 0; i < 3; i++)
        xh_front_line(&f, line, sizeof line);
    cr_expect(f.proxy && !f.cache && strlen(f.said) == sizeof f.said - 1);
}
