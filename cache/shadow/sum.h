/* The sum of a page: tells bytes that were published from any others. Pure. */
#ifndef XH_SHADOW_SUM_H
#define XH_SHADOW_SUM_H

#include <stddef.h>
#include <stdint.h>

/* The sum of a page's |len| bytes; odd. |idx| counts, so that a page is not taken for another. Pure. */
uint64_t xh_sum_page(uint64_t idx, const void *bytes, size_t len);

#endif
