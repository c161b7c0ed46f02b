/* The sum of a page: tells published bytes from any others. Pure. */
#ifndef XH_SHADOW_SUM_H
#define XH_SHADOW_SUM_H

#include <stddef.h>
#include <stdint.h>

/* Returns the sum of the |len| bytes of page |idx| of the shadow |whose|; it is always odd. Both are part of it, so
 * that no page is taken for another, nor for another shadow's. Pure. */
uint64_t xh_sum_page(uint64_t whose, uint64_t idx, const void *bytes, size_t len);

#endif
