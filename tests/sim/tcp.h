/* Links and the connections over them: how bytes that a server writes come to the client, and when.
 *
 * A link is a bottleneck towards the client: a rate, a queue that drops at its tail, loss, and half a round trip each
 * way; what goes to the server is small and has no queue. A connection is TCP as its sender sees it: windows, slow
 * start, acknowledgements, retransmissions, and a congestion control. Packets stand for several segments
 * (packet_bytes), as network cards hand them over.
 *
 * Threads: as baton.h. Nothing is ever freed: a simulation is a short process. */
#ifndef XH_SIM_TCP_H
#define XH_SIM_TCP_H

#include <stdint.h>

#define SIM_MSS 1448u

enum sim_control { SIM_RENO, SIM_CUBIC, SIM_BBR, SIM_CONTROLS };

struct sim_link {
    /* Set before use: */
    uint64_t rtt_ns, jitter_ns;
    double rate;          /* bytes per ns */
    uint64_t queue_bytes;
    double loss;          /* of each segment, towards the client; of what the client sends, as one, the other way */
    unsigned segments;    /* in a packet */
    uint64_t receive_most, send_most; /* what the two ends let be under way on a connection, bytes */
    uint64_t loses;       /* bit n: the n-th packet that it carries is lost; for tests */
    enum sim_control control;
    uint64_t dies_ns;     /* of connections that there are by then nothing arrives any more, as where the client's
                           * address has changed; 0: never */
    uint64_t back_ns;     /* from then until this time none can be made */
    double connection_rate; /* the server sends no faster on each; 0: as it can */
    /* Its state: */
    uint64_t busy_until_ns, last_ns;
    uint64_t carried, dropped, lost, sent_bytes;
};

struct sim_conn;

struct sim_conn_events {
    void (*arrived)(void *ctx); /* more can be read, or the end was reached */
    void *ctx;
};

/* A connection whose handshake is over. */
struct sim_conn *sim_conn_new(struct sim_link *l, const struct sim_conn_events *events);

/* The client opens one: the server's answer comes through the link's queue. |arrived| is called when it is there. */
struct sim_conn *sim_conn_open(struct sim_link *l, const struct sim_conn_events *events);

/* The server writes |bytes| more; |ends|: and then closes. Called at the server's time, that is, from an event. */
void sim_conn_write(struct sim_conn *c, uint64_t bytes, int ends);

/* How many bytes have come in order and were not read; and 1 if nothing will follow those. */
uint64_t sim_conn_readable(const struct sim_conn *c, int *ended);

/* The client has read |bytes|. */
void sim_conn_read(struct sim_conn *c, uint64_t bytes);

/* The client is gone: nothing arrives any more. */
void sim_conn_close(struct sim_conn *c);

/* When what the client sends now over a connection, in one segment, is at the server. */
uint64_t sim_link_up(struct sim_link *l);

#endif
