/* The order in which the files that one file names are opened, and which of them come next. Pure.
 *
 * A name is from a virtual dataset's mapping; a URL is what HDF5 makes of it. The rules by which HDF5 does that
 * (prefixes, the parent's directory) are not needed here: when a URL ends with a name, what stands before the name also
 * stands before the next names. */
#ifndef XH_LINEUP_H
#define XH_LINEUP_H

#include <stddef.h>

#include "../cache/base/table.h"
#include "../cache/cache.h"
#include "mapping.h"

#define XH_LINEUP_SOON 8u  /* most of them that are about to be opened, by the openings alone */

struct xh_lineup_name {
    const char *text; /* points into names.text */
    UT_hash_handle hh;
};

struct xh_lineup {
    struct xh_names names;
    struct xh_lineup_name *name;  /* an array of names.n */
    struct xh_lineup_name *table; /* the same by text; of equal names the first one */
    char *prefix;     /* what stood before the last opened name; NULL: none was opened yet */
    size_t next;      /* the name behind the last opened one */
    size_t row;       /* number of names opened one behind the other */
    size_t foreseen;  /* names before this one were already returned as expected */
    size_t soon;      /* of the next names, those that are about to be opened */
    int anew;         /* the last opening began the order anew */
};

/* Takes over |names|, which has two or more. Returns 0, or -1 when out of memory; |names| is then freed. */
int xh_lineup_init(struct xh_lineup *o, struct xh_names *names);
void xh_lineup_free(struct xh_lineup *o);

/* Returns 1 when |o| has the same names. */
int xh_lineup_is(const struct xh_lineup *o, const struct xh_names *names);

/* Returns how many names follow the one that |url| ends with; 0 also when it ends with none. */
size_t xh_lineup_behind(const struct xh_lineup *o, const char *url);

/* |url| was opened. Returns how many names from |*first| on are expected to be opened next, with o->prefix before
 * them, and were not returned before: of XH_EXPECTED_MOST. Sets o->soon: 2 after two neighbours were opened, twice as
 * many with each that follows, at most XH_LINEUP_SOON; after one 0, as that shows no order, but 1 after the first. */
size_t xh_lineup_opened(struct xh_lineup *o, const char *url, size_t *first);

#endif
