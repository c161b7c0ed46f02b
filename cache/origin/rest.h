/* Rests: what is left of a reply that nobody wants any more, and that is on its way. It is read to its end, for its
 * connection's sake: to hang up would cost the next file's first request the opening of another one.
 *
 * A rest belongs to no file: the request's owner is told at once, and its file may be closed meanwhile. */
#ifndef XH_REST_H
#define XH_REST_H

#include "engine.h"
#include "request.h"

/* Of |r|, RUNNING on |t| and to be ended by it, takes what is left over, if that is worth it (control.h), and ends |r|
 * itself. Returns 1, or 0: it is to be cut off. Lock held. Threads: |t| alone. */
int xh_rest_begin(struct xh_thread *t, struct xh_request *r);

/* The exchange of a rest is over. Returns 0, when |x| is none, or 1: it was, and |x| alone is left of it. Takes the
 * lock. */
int xh_rest_over(struct xh_exchange *x, const struct xh_outcome *out);

#endif
