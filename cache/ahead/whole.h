/* A small file is fetched whole, as soon as something of it is missed that opening did not bring. */
#ifndef XH_WHOLE_H
#define XH_WHOLE_H

#include "observer.h"
#include "policy.h"

extern const struct xh_observer xh_whole_bulk_observer, xh_whole_observer;

/* What xh_policy_is_whole decides by. Threads: any. */
void xh_whole_facts(struct xh_file *f, struct xh_opened *out);

/* |f| is about to be closed: the server's other files profit from what became of it. */
void xh_whole_end(struct xh_file *f);

#endif
