/* For the code that ends claims. Taking claims is in shadow.h. */
#ifndef XH_SHADOW_CLAIM_H
#define XH_SHADOW_CLAIM_H

#include "impl.h"

/* Notes that |n| claims of this process have ended. */
void xh_claims_over(struct xh_shadow *s, uint64_t n);

#endif
