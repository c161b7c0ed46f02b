/* The files that a file names (sources of its virtual datasets, targets of its external links), and whether each can be
 * opened. Hostile input: a file may name any number of files, with any bytes. */
#ifndef XH_NAMED_H
#define XH_NAMED_H

#include <stddef.h>
#include <stdint.h>

#include "../../cache/base/options.h"

#define XH_SOURCES_SHOWN 16u

struct xh_sources { /* flat: it is sent through a pipe */
    uint64_t named;             /* different names that were kept */
    uint64_t local, pattern;    /* of them: paths, which are not tried; names with %b, which stand for many files */
    uint64_t tried, failed;     /* URLs */
    int more;                   /* 1: there are more names, or there was no time for all */
    unsigned shown;             /* entries in |source|, failed ones first */
    struct {
        int code, status; /* 0: it can be opened */
        char url[400], text[768];
    } source[XH_SOURCES_SHOWN];
};

/* The names found so far. Owns: xh_names_free. */
struct xh_names {
    char **at;
    size_t n, room, bytes;
    int more; /* 1: there were more names than room */
};

/* Adds |name|, once. A duplicate of an old name may be added. */
void xh_names_add(struct xh_names *names, const char *name);
void xh_names_free(struct xh_names *names);

/* Opens each name as the driver does for the file at |url|, one after the other, without retries, for at most |most_ms|
 * in total. Blocks. */
void xh_sources_try(const struct xh_names *names, const char *url, const struct xh_options *o, unsigned most_ms,
                    struct xh_sources *out);

#endif
