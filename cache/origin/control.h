/* How many connections to a server are worth having, for streams and for all other requests. Pure: the facts come in,
 * the decision comes out; no lock, no clock. */
#ifndef XH_CONTROL_H
#define XH_CONTROL_H

#include <stdint.h>

#include "link.h"

/* Returns how many connections to a server the user of a file allows all processes together: the option |connections|.
 * Where that is 0, the usual number for one file. Of |files| that are read side by side each has equally many, as all
 * are wanted in each turn; together they have at least what one file's streams have, and one more is left for what
 * cannot wait. With fewer than one each, a request is for one file, and costs its connection a round trip: 32 sources of
 * 64 MiB at 0.47, 0.66, 0.41 of one file's speed (50 and 160 ms, stock; 160 ms, tuned), with one each 1.03, 1.57, 1.03
 * (`sim --workload V1 --sources 32`). Other programs have one for each open file, too. */
unsigned xh_control_allowed(unsigned option, unsigned files);

/* Returns how many of |all| connections one of |processes| may have that read at once. */
unsigned xh_control_share(unsigned all, unsigned processes);

/* Returns how many transfers the streams from one server use together, where |most| connections may be used: all but
 * one, which is left for what cannot wait. */
unsigned xh_control_streams(unsigned most);

/* 1 where the round trip is so long that files which are read side by side have a stream each. Else they come in parts:
 * the round trip before each costs less than streams that make each other lose packets. At 1 ms and 1 Gbit/s, 4, 8, 16
 * and 32 sources: parts 1.62, 2.16, 1.36, 1.16 of one file's speed, streams 0.88, 1.54, 1.35, 0.85. At 10 ms,
 * unlimited, parts 0.89, 0.78, 0.79, 0.87, streams 1.08, 0.96, 0.98, 0.98 (stock windows, `sim --workload V1`). */
int xh_control_is_far(double rtt_ns);

/* ---- requests that are no streams */

/* How many connections pay for large ones, as trials have shown. All zero at first. */
struct xh_trial {
    unsigned paying;                /* 0: no round trip has been measured yet */
    double fewer_rate;              /* bytes per ns with half as many */
    uint64_t trial_ns, trial_bytes; /* the trial's begin, 0: none; what had arrived then */
    uint64_t settled_ns;            /* when more did not pay */
};

/* What is under way to a server, and what waits. */
struct xh_load {
    unsigned sockets;        /* connections that are open */
    unsigned active;         /* requests that have one, or a thread that gives them one */
    unsigned streams;        /* of these, streams */
    unsigned opening;        /* of the others, those that have a new connection */
    unsigned guesses;        /* of these, speculative ones that are no streams */
    uint64_t active_bytes;   /* what they are to bring; nothing is counted of streams */
    uint64_t queued_requests, queued_bytes; /* the same of those that wait */
    uint64_t arrived;        /* bytes that all connections have brought so far */
    uint64_t waiting;        /* of those that wait, requests that are no streams */
    uint64_t waited_ns;      /* how long requests that are no streams have waited, in all, since one got a new connection */
};

/* One request. */
struct xh_asked {
    uint64_t bytes;
    int stream;
    int question; /* it asks for a file's version, and with it for its first bytes, or all */
    unsigned files; /* it is an opening's, of so many files that are wanted for one read; 0: it is not */
    uint64_t waited_ns; /* somebody has waited for it for so long, and it may have a connection more; 0: not */
};

/* Returns how many connections pay for large requests. */
unsigned xh_control_paying(const struct xh_trial *t);

/* A server's round trip is known: |rtt_ns|. */
void xh_control_begin(struct xh_trial *t, double rtt_ns);

/* A request has ended at |now|, and is no longer counted in |load|. Tries twice as many connections once all are busy
 * and work waits, and stays with them if all together bring more than before; else goes back, and tries again much
 * later. Returns 1 where the number may have changed. */
int xh_control_weigh(struct xh_trial *t, const struct xh_link *l, const struct xh_load *load, unsigned share,
                     uint64_t now);

/* Returns how many connections may be busy, besides streams, with requests like |a|; one of them is for demand
 * alone. At least 1. */
unsigned xh_control_most(const struct xh_trial *t, const struct xh_link *l, const struct xh_load *load,
                         const struct xh_asked *a, unsigned share);

/* The same of a server that nothing was sent to yet. */
unsigned xh_control_unknown(unsigned share);

/* Returns how many speculative requests may run where |most| in all may. */
unsigned xh_control_guesses(unsigned most);

/* 1 when a request like |a| is not to begin before another has ended, where |most| may be busy, and |share| with
 * streams: never one that only streams would have to make way for, as those may wait for the very reader who waits for
 * it. */
int xh_control_has_to_wait(const struct xh_load *load, const struct xh_asked *a, unsigned most, unsigned share);

/* 1 when |bytes| that nobody wants any more are read to their end, for the connection's sake: what it has in flight
 * comes, or is lost on the way, all the same; more would be sent in vain, and the next request is rather sent over a
 * new connection. */
int xh_control_may_run_out(const struct xh_link *l, uint64_t bytes);

/* A file that is about to be opened. Bytes. */
struct xh_first {
    uint64_t usual; /* that an opening brings */
    uint64_t whole; /* that the file has, most likely, if all of it will be read; else 0 */
    uint64_t room;  /* its part of what may lie before its reader, if others come beside it */
    int proves;     /* its answers say of which version they are; else they are fetched once more */
    int hurried;    /* another server is asked if this one takes long */
};

/* Returns how many bytes the opening brings, over |l|, NULL: unknown. All of the file if one connection brings that in
 * about a round trip: more of them would gain less than the round trip that it saves. */
uint64_t xh_control_opens_with(const struct xh_link *l, const struct xh_first *f);

/* Returns how long (ns) somebody who has waited for a request for |waited_ns| has still to wait until a connection
 * of its own would have been there, had it been opened at once. What was expected of the busy ones then has not come
 * by that time: the link is not theirs alone. */
uint64_t xh_control_patience_left(const struct xh_link *l, uint64_t waited_ns);

/* 1 when waiting for the busy connections takes longer than opening one more for |a|: until the first of them is
 * free, and until they have worked off the queue; or, for a small one, when all that wait, or did, do so for as
 * long together, each a little: a connection that had been opened at once would have paid. */
int xh_control_is_worth_opening(const struct xh_link *l, const struct xh_load *load, const struct xh_asked *a);

/* One of the threads that a request may go to: how far its connections have come (xh_link_grown), and how many
 * requests it has. */
struct xh_choice {
    double grown;
    unsigned active;
};

/* 1 when |a|, one of the openings of several files for one read, is to have a new connection, even if others idle: each
 * file's stream will want one, and all wait for the last. That is so where the connections that there were before would
 * bring the openings, one after another, later than new ones do. */
int xh_control_opens_own(const struct xh_link *l, const struct xh_load *load, const struct xh_asked *a);

/* 1 when |a| suits |r| better than |b|. Connections that have found their speed are for what is large, and where
 * |streams| run or wait young ones for what is small; else the thread that has less to do is better. */
int xh_control_suits(const struct xh_choice *a, const struct xh_choice *b, const struct xh_asked *r, int streams);

/* 1 when what can wait for those of |best| is not to begin with |l|: on a young connection it would keep its reader
 * waiting for longer. So no part of a large read is for |l| where |best| idles. */
int xh_control_is_too_young(const struct xh_choice *l, const struct xh_choice *best);

/* ---- streams */

/* 1 when a stream that waits for a connection may have one, of |most|. |last|: also the one that is left for what cannot
 * wait. */
int xh_control_may_stream(const struct xh_load *load, unsigned most, int last);

/* Returns how long (ns) a stream is to have stood still before its connection is another's, where opening one takes
 * |opening_ns| and its file's streams have |streams| of |most|: as long as that where they have half, so that files
 * which are read in turns keep their parts; sooner where they have more. */
uint64_t xh_control_stands_for(double opening_ns, unsigned streams, unsigned most);

#endif
