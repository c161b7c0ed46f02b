/* Advice: from what was measured of a file to the one change that would help its reader most.
 *
 * Each change is worth the time that it would have saved at most, reckoned from the facts; the largest is named when it
 * is a tenth of the wall time or more. Pure: no I/O, no clock. */
#ifndef XH_ADVICE_H
#define XH_ADVICE_H

#include <stddef.h>
#include <stdint.h>

/* Reads that asked for their bytes only when they came, and waited for them. */
struct xh_unforeseen {
    uint64_t reads, bytes, wait_ns;
};

struct xh_facts {
    uint64_t wall_ns, network_ns, others_ns, copying_ns, outside_ns; /* outside: HDF5 and the application */
    uint64_t opening_ns;                                             /* of the network's */
    struct xh_unforeseen raw, meta;
    uint64_t plain_bytes, plain_chunk_bytes; /* asked for as whole chunks without a filter; the length of one */
    uint64_t asked;                          /* bytes */
    uint64_t fetched, unused, evicted; /* bytes */
    uint64_t requests, retries;
    uint64_t sent, commits, commit_ns;                               /* what was written; the time is of the network's, most of it */
    uint64_t failures, missing, lost_ns; /* of files that this one names: openings that failed, files that are not there; of the network's */
    /* What the account does not know: */
    uint64_t rtt_ns; /* 0: unknown */
    uint64_t size;   /* of the file */
    unsigned connections, paying; /* most that the options allow; how many would pay at this round trip, 0: unknown */
    int readahead, shadow;        /* switches */
    int fleeting;                 /* the server names the version by nothing that another opening could rely on: pages are private */
    int private_;                 /* why pages are in this process's own memory: XH_PRIVATE_… of shadow.h; 0: they are shared */
};

#define XH_ADVICE_BYTES 256

/* Writes one sentence into |out|. */
void xh_advise(const struct xh_facts *f, char out[XH_ADVICE_BYTES]);

#endif
