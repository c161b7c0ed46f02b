/* Advice: from the measurements of a file, the one change that would help its reader most.
 *
 * The value of a change is the most time that it could have saved, computed from the facts. The largest one is named if
 * it is at least a tenth of the wall time. Pure: no I/O, no clock. */
#ifndef XH_ADVICE_H
#define XH_ADVICE_H

#include <stddef.h>
#include <stdint.h>

/* Reads that requested their bytes only when they came, and waited for them. */
struct xh_unforeseen {
    uint64_t reads, bytes, wait_ns;
};

struct xh_facts {
    uint64_t wall_ns, network_ns, others_ns, copying_ns, outside_ns; /* outside: HDF5 and the application */
    uint64_t opening_ns;                                             /* part of the network's time */
    struct xh_unforeseen raw, meta;
    /* bytes asked for as whole chunks without a filter; the length of one chunk */
    uint64_t plain_bytes, plain_chunk_bytes;
    uint64_t asked;                          /* bytes */
    uint64_t fetched, unused, evicted; /* bytes */
    uint64_t requests, retries;
    /* written data; most of the time is part of the network's */
    uint64_t sent, commits, commit_ns;
    /* files that this one names: openings that failed, missing files; part of the network's time */
    uint64_t failures, missing, lost_ns;
    /* Not known to the account: */
    uint64_t rtt_ns; /* 0: unknown */
    uint64_t size;   /* of the file */
    unsigned connections, paying; /* most that the options allow; how many would help at this round trip, 0: unknown */
    int readahead, shadow;        /* switches */
    int fleeting;                 /* 1: the version is fleeting, so pages are private */
    /* why pages are in this process's own memory: XH_PRIVATE_… of shadow.h; 0: they are shared */
    int private_;
};

#define XH_ADVICE_BYTES 256

/* Writes one sentence into |out|. */
void xh_advise(const struct xh_facts *f, char out[XH_ADVICE_BYTES]);

#endif
