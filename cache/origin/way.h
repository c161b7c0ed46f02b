/* Making way: streams leave their connections to others, mostly those that stand still.
 *
 * While its reader has enough, which may be for ever, a stream's connection is of no use to anybody. Where all that may
 * be open are taken, those whose streams have stood still for longest are closed, and these ask for the rest when their
 * reader goes on: XH_NEXT_STAND. Lock held, all of it. */
#ifndef XH_WAY_H
#define XH_WAY_H

#include <stdint.h>

struct xh_endpoint;

/* How many streams of |e| would make way now, where opening a connection takes |opening_ns| and |most| may be open. */
unsigned xh_way_free(const struct xh_endpoint *e, double opening_ns, unsigned most);

/* Lets |wanted| of them make way, those that have stood for longest; those that do already count. Returns 0, or how
 * long (ns) until another one may; UINT64_MAX: none stands still. */
uint64_t xh_way_make(const struct xh_endpoint *e, double opening_ns, unsigned most, unsigned wanted);

/* Lets one of them make way at once, also if it goes on, where the server serves no more than these: rather one that
 * stands still, else one that nobody waits for. Its reader fetches what it wants. */
void xh_way_force(const struct xh_endpoint *e);

#endif
