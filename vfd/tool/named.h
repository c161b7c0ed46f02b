/* What a file names: sources of its virtual datasets, targets of its external links; and what each of them answers.
 * Names come from the file: there may be any number of them, with any bytes. */
#ifndef XH_NAMED_H
#define XH_NAMED_H

#include <stddef.h>
#include <stdint.h>

#include "../../cache/base/options.h"

#define XH_SOURCES_SHOWN 16u

struct xh_sources { /* flat: it goes through a pipe */
    uint64_t named;             /* different names, as many as were kept */
    uint64_t local, pattern;    /* of them, paths, which are not tried; and with %b, which stand for many */
    uint64_t tried, failed;     /* URLs */
    int more;                   /* there are more names, or there was no time for all */
    unsigned shown;             /* those that failed, the first ones; of a few, all */
    struct {
        int code, status; /* 0: it opens */
        char url[400], text[768];
    } source[XH_SOURCES_SHOWN];
};

/* The names so far. Owns: xh_names_free. */
struct xh_names {
    char **at;
    size_t n, room, bytes;
    int more; /* there were others, for which there was no room */
};

/* Adds |name|, once. */
void xh_names_add(struct xh_names *names, const char *name);
void xh_names_free(struct xh_names *names);

/* Opens each as the driver does for the file at |url| that names it, one after the other, without retries and for |most_ms| in
 * all. Blocks. */
void xh_sources_try(const struct xh_names *names, const char *url, const struct xh_options *o, unsigned most_ms, struct xh_sources *out);

#endif
