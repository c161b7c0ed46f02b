/* The choice: which of several sites gets a transfer. Pure. */
#ifndef XH_CHOICE_H
#define XH_CHOICE_H

#include <stddef.h>
#include <stdint.h>

struct xh_choice {
    int usable;
    double rate;     /* bytes per ns that it brings while busy; 0: unknown, as the others' mean */
    uint64_t owed;   /* bytes asked of it that have not come */
    uint64_t rtt_ns; /* 0: unknown */
};

#define XH_CHOICE_NONE (-1)
#define XH_CHOICE_WAIT (-2)

/* What |i| brings, as far as is known, in bytes per ns. */
double xh_choice_rate(const struct xh_choice *c, size_t n, size_t i);

/* When |bytes| more would be there that |i| of the |n| sites is asked for now, in ns from now. */
double xh_choice_finish_ns(const struct xh_choice *c, size_t n, size_t i, uint64_t bytes);

/* The site where |bytes| are there first. With |may_wait|, XH_CHOICE_WAIT when that one is asked for as much as it
 * brings for a while: what is given late, goes by what has been seen of speeds by then. XH_CHOICE_NONE: none is
 * usable. */
int xh_choose(const struct xh_choice *c, size_t n, uint64_t bytes, int may_wait);

#endif
