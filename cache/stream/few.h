/* Whether the few connections over which a near server's stream begins are enough (xh_policy_is_too_few). Pure but for
 * its state: facts and the time come in. */
#ifndef XH_FEW_H
#define XH_FEW_H

#include <stdint.h>

/* All zero: no stream over few connections runs. */
struct xh_few {
    uint64_t begun_ns, begun; /* when the stream began, 0: none did; what streams had brought by then */
    uint64_t rtt_ns;
    uint64_t seen_ns, seen;   /* when it was asked last, and what streams had brought by then */
    int waited;               /* the reader waited then; 0: or slow start was not over */
    uint64_t ns, bytes;       /* how long its reader has waited since, and what came meanwhile */
    uint64_t over_ns;         /* how long that is measured */
};

/* A stream over few connections begins at |now|, to a server |rtt_ns| away. Streams have brought |streamed| bytes. */
void xh_few_begin(struct xh_few *w, uint64_t streamed, uint64_t now, uint64_t rtt_ns);

/* To be asked as bytes come. |waits|: the reader waits for some. Returns 1 when all connections are to go on instead,
 * and then no more. */
int xh_few_is_too_few(struct xh_few *w, uint64_t streamed, uint64_t now, int waits);

#endif
