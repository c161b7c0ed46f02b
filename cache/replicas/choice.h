/* Chooses which of several sites gets a transfer. Pure. */
#ifndef XH_CHOICE_H
#define XH_CHOICE_H

#include <stddef.h>
#include <stdint.h>

struct xh_choice {
    int usable;
    double rate;     /* bytes per ns that it brings while busy; 0: unknown, the others' mean is assumed */
    uint64_t owed;   /* bytes asked of it that have not come */
    uint64_t rtt_ns; /* 0: unknown */
};

#define XH_CHOICE_NONE (-1)
#define XH_CHOICE_WAIT (-2)

/* Returns the expected rate of site |i| in bytes per ns. */
double xh_choice_rate(const struct xh_choice *c, size_t n, size_t i);

/* Returns when |bytes| would be there if site |i| of |n| were asked for them now, in ns from now. */
double xh_choice_finish_ns(const struct xh_choice *c, size_t n, size_t i, uint64_t bytes);

/* Returns the index of the site where |bytes| are there first. With |may_wait| returns XH_CHOICE_WAIT when that site
 * has enough to do for a while: a transfer that is assigned later is assigned by newer measurements. Returns
 * XH_CHOICE_NONE when no site is usable. */
int xh_choose(const struct xh_choice *c, size_t n, uint64_t bytes, int may_wait);

#endif
