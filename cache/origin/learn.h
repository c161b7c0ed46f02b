/* What replies teach of a file, beside their bytes: kept in its object and at its server. */
#ifndef XH_LEARN_H
#define XH_LEARN_H

#include "origin_object.h"
#include "verdict.h"

/* The server sends no parts of |o|, which is small enough to be read whole: says so once for each server, on standard
 * error. Takes the lock. */
void xh_learn_whole(struct xh_origin *o);

/* Queues the PROPFIND that looks for a change, when it is due. Lock held. */
void xh_learn_check(struct xh_origin *o);

/* |o| was opened. Where another open file of its URL has another date from the same server, each is asked for its own
 * at once: copies at several servers may differ for good. Takes the lock. */
void xh_learn_date(struct xh_origin *o);

/* Wanted bytes have come of |x|, whose |finds| is set: that its URL is good is remembered, with the cookies and the
 * login that led there, long before a stream ends. Thread of |x|; takes the lock. */
void xh_learn_found(struct xh_exchange *x);

/* Judges the finished |x|, and keeps what was learnt: tries, limits, target, token, poison. Fills |v| and returns its
 * |next|, which is never XH_NEXT_LOOK. Thread of |x|; takes the lock. May read a small file. */
enum xh_next xh_learn_verdict(struct xh_exchange *x, const struct xh_outcome *out, struct xh_verdict *v);

#endif
