/* The simulated wire: what of it the world sets. The rest is cache/origin/wire.h, which simwire.c makes in wire.c's
 * place. */
#ifndef XH_SIM_SIMWIRE_H
#define XH_SIM_SIMWIRE_H

#include "server.h"

struct sim_net {
    struct sim_server *server;
    size_t servers;
    double client_ns_byte;  /* work of an engine's thread for each byte that comes */
    uint64_t client_ns;     /* and for each look at its sockets that found something */
};

extern struct sim_net sim_net;

/* Of all connections and requests. */
struct sim_sums {
    uint64_t connections, requests, bytes, open, open_most;
    uint64_t refused;    /* connections and requests, as the server has no more than so many at once */
    uint64_t longest_ns; /* that a read of HDF5's took */
};

extern struct sim_sums sim_sums;

#endif
