/* Verdicts: what a finished exchange leads to: what to do with its request, when, and what was learnt. Pure: no lock,
 * no clock, no network, and nothing that it is given is changed. learn.h carries out what it says. */
#ifndef XH_VERDICT_H
#define XH_VERDICT_H

#include "attempt.h"

/* How often a request looks whether the proxy has taken the login that another one shows it, or whether a new token is
 * there. */
#define XH_PROXY_TURN_MS 20u

/* How long (ms) to wait after the last of |failures| > 0 in a row: twice as long as after the one before it, up to ten
 * seconds; half of it by the random |dice|, so that clients do not come back in step. */
uint64_t xh_backoff_ms(unsigned failures, uint32_t dice);

/* 1 when no connection could be made for what went as |out|, or it was of no use: it broke before any answer.
 * |answered|: the head of one came. */
int xh_lacks_connection(const struct xh_outcome *out, int answered);

/* Judges |a|. Fills |v| and returns its |next|. Threads: any. Does not block. */
enum xh_next xh_verdict(const struct xh_attempt *a, struct xh_verdict *v);

#endif
