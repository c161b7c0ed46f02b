/* Verdicts: what a finished exchange leads to: what to do with its request, when, and what was learnt. Pure: no lock,
 * no clock, no network, and nothing that it is given is changed. learn.h carries out what it says. */
#ifndef XH_VERDICT_H
#define XH_VERDICT_H

#include "attempt.h"

/* How often a request looks whether the proxy has taken the login that another one shows it, or whether a new token is
 * there. */
#define XH_PROXY_TURN_MS 20u

/* Judges |a|. Fills |v| and returns its |next|. Threads: any. Does not block. */
enum xh_next xh_verdict(const struct xh_attempt *a, struct xh_verdict *v);

#endif
