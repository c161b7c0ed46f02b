/* What the header lines of a reply tell of a cache, or another proxy, that it came through.
 *
 * Pure. All input is hostile: values are bounded, and what is too long is cut. Only what a line says is taken for true:
 * no line at all says nothing. Sources: RFC 9110, 7.6.3 (Via); RFC 9111, 5.1 (Age); RFC 9211 (Cache-Status); X-Cache,
 * X-Cache-Status and CF-Cache-Status as their makers document them. */
#ifndef XH_FRONT_H
#define XH_FRONT_H

#include <stddef.h>
#include <stdint.h>

enum xh_front_kept {
    XH_FRONT_SILENT, /* no line says it */
    XH_FRONT_HIT,    /* the reply came from a copy, or from one that the origin has just confirmed */
    XH_FRONT_MISS,   /* the origin was asked for it */
    XH_FRONT_PASSED, /* the same, and such replies are not kept */
};

struct xh_front {
    int proxy;               /* 1: it came through something */
    int cache;               /* 1: that is a cache, as Via alone does not say */
    enum xh_front_kept kept; /* by the cache that is nearest to the reader */
    unsigned rank;           /* of the line that said so: a standard one goes before the others */
    int64_t age_s;           /* how old the copy is; -1: not said */
    int64_t fresh_s;         /* so long caches may show it unasked (Cache-Control); -1: not said */
    char said[320];          /* those lines, joined by ", "; not safe to print */
};

void xh_front_init(struct xh_front *f);

/* Takes one header line, line end included or not. A status line starts afresh. */
void xh_front_line(struct xh_front *f, const char *line, size_t len);

#endif
