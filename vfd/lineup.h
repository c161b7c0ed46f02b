/* The order in which the files that one file names are opened: which come next. Pure.
 *
 * Names are those of a virtual dataset's mapping; URLs, what HDF5 makes of them. How it looks for a name (prefixes, the parent's directory)
 * need not be known: a URL that ends with a name tells what stands before the next ones. */
#ifndef XH_LINEUP_H
#define XH_LINEUP_H

#include <stddef.h>

#include "mapping.h"

#define XH_LINEUP_AHEAD 8 /* most files that are foreseen beyond the last one that was opened */

struct xh_lineup {
    struct xh_names names;
    const char **at;  /* each name */
    char *prefix;     /* what stood before the last one's; NULL: none was opened yet */
    size_t next;      /* the one behind it */
    size_t row;       /* so many were opened one behind the other */
    size_t foreseen;  /* up to here they were told of */
};

/* Takes over |names|, which has two or more. Returns 0, or -1 without memory: then they are freed. */
int xh_lineup_init(struct xh_lineup *o, struct xh_names *names);
void xh_lineup_free(struct xh_lineup *o);

/* 1 when it is of the same names. */
int xh_lineup_is(const struct xh_lineup *o, const struct xh_names *names);

/* |url| was opened. Returns how many names from |*first| on are expected to be opened next, behind o->prefix, and have not been told
 * of before: two once two neighbours were opened, twice as many with each that follows, XH_LINEUP_AHEAD at most. */
size_t xh_lineup_opened(struct xh_lineup *o, const char *url, size_t *first);

#endif
