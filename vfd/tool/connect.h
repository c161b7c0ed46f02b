/* Resolves names and makes connections, before any HTTP. */
#ifndef XH_CONNECT_H
#define XH_CONNECT_H

#include "../../cache/base/err.h"

#define XH_CONNECT_MOST 8u

struct xh_connected {
    char text[64];     /* the address */
    double connect_ms; /* -1: no connection within the time */
    int error;         /* errno of a connection that failed, or 0 */
};

/* Resolves |host| (a name, or an address without brackets) for |port|. Waits at most XH_DIAL_MOST_MS. Returns the
 * number of addresses in |out|, in the resolver's order, with |*took_ms|; or XH_E_NET, XH_E_TIMEOUT, XH_E_NOMEM with
 * |err|. Blocks. A resolver that hangs keeps its thread. */
int xh_connect_resolve(const char *host, const char *port, struct xh_connected out[XH_CONNECT_MOST], double *took_ms,
                       struct xh_err *err);

/* Connects to all |n| addresses at once, and closes the connections again. Returns how many answered. Blocks, at most
 * XH_DIAL_MOST_MS. */
unsigned xh_connect_connect(struct xh_connected *r, unsigned n, const char *port);

#endif
