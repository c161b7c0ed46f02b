/* Verdicts on what S3 refuses: regions, keys, clocks. Pure. */
#ifndef XH_VERDICT_S3_H
#define XH_VERDICT_S3_H

#include "attempt.h"

/* Judges a final status that is not a success, of a request to S3. Returns 1 when that decides: v->next and all else
 * are set. 0: the rules for all servers hold. */
int xh_verdict_s3(const struct xh_attempt *a, struct xh_verdict *v);

#endif
