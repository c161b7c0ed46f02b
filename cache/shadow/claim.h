/* Claims: for those that end one. Taking one is in shadow.h. */
#ifndef XH_SHADOW_CLAIM_H
#define XH_SHADOW_CLAIM_H

#include "impl.h"

/* |n| claims of this process are over. */
void xh_claims_over(struct xh_shadow *s, uint64_t n);

#endif
