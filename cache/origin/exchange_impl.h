/* Exchanges: what their files share. For exchange_*.c alone. */
#ifndef XH_EXCHANGE_IMPL_H
#define XH_EXCHANGE_IMPL_H

#include "exchange.h"

/* Notes what is wrong with the reply, if nothing was before. Returns -1. */
__attribute__((format(printf, 3, 4))) int xh_exchange_fault(struct xh_exchange *x, enum xh_fault f, const char *fmt,
                                                            ...);

/* The headers are in: decides what becomes of the body. Returns 0, or -1: hang up. */
int xh_exchange_judge(struct xh_exchange *x);

/* The same of a reply to XH_ASK_HEAD that is no web page. */
int xh_exchange_take_head(struct xh_exchange *x);

/* A Content-Range, of the reply or of a part, against the opened version. Returns 0 or -1. */
int xh_exchange_check_total(struct xh_exchange *x, const struct xh_content_range *range);

/* Most bytes of a reply that nobody asked for. Where two exchanges ask for the same slice, what the other has brought
 * was asked for all the same. */
uint64_t xh_exchange_unwanted_most(const struct xh_exchange *x);

#endif
