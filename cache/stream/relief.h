/* Loads of a stream that are slower than the others are relieved of what they lack: the stripes were dealt beforehand,
 * so where each connection has a speed of its own, the stream would be as fast as all are with the slowest one's.
 *
 * Inside the stage, whose lock is held; both functions let go of it. Threads: any. */
#ifndef XH_RELIEF_H
#define XH_RELIEF_H

#include <stdint.h>

struct xh_file;
struct xh_course;

/* The reader waits for what lies before |end|. Where all loads but one have brought what he may have, and stand still,
 * that one keeps what it brings while a new connection brings the next parcel. The rest, and all behind, comes by that
 * connection: the one that is left for what cannot wait, until the slow one is over. To be called now and then
 * meanwhile. */
void xh_relief_straggler(struct xh_file *f, uint64_t end);

/* All of a load has come, as |course| says. At a stream's end its connection would idle until the slowest load is over:
 * it takes over the last parcels of the one that would end last, so that both end together. */
void xh_relief_last(struct xh_file *f, const struct xh_course *course);

#endif
