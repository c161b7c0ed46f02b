/* Sending a request: what it is shown of the reader's credentials, its headers, and the wire. */
#ifndef XH_SEND_H
#define XH_SEND_H

#include "exchange.h"

/* Sends |x| over |w|, whose open sockets to that server are counted in |sockets|. No lock.
 * Returns XH_NET_OK, or why it was not sent: LOCAL (out of memory), TURN, or PROXY: the proxy has refused our login
 * before. */
enum xh_net xh_request_send(struct xh_exchange *x, struct xh_wire *w, atomic_uint *sockets);

#endif
