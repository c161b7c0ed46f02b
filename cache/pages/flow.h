/* Flow: how many bytes of a file stream by, and how many are on their way to the shadow for nobody yet. Files that one
 * file names (ahead/siblings.h) have a flow of their own, and one together.
 *
 * Threads: any. The numbers are estimates: they order nothing. */
#ifndef XH_FLOW_H
#define XH_FLOW_H

#include <stdatomic.h>
#include <stdint.h>

struct xh_file;

/* Changed by flow.c alone. All zero at first. */
struct xh_flow {
    _Atomic uint64_t streamed; /* raw bytes that were asked for and that the shadow did not have */
    _Atomic uint64_t flying;   /* bytes that are on their way to the shadow; bounded by readahead_bytes */
};

/* Of an open file; changed by flow.c alone. */
struct xh_flows {
    struct xh_flow own;
    struct xh_flow *family; /* of all files of its family, constant while it is open; NULL: it has none */
};

/* |f| is about to be opened, as one of a family that has the flow |family|; NULL: of none. */
void xh_flow_join(struct xh_file *f, struct xh_flow *family);
/* In a fork's child: nothing is on its way, and there is no family. */
void xh_flow_after_fork(struct xh_file *f);

/* Of the file and its family together. own: of the file alone. */
uint64_t xh_flow_streamed(const struct xh_file *f);
uint64_t xh_flow_own_streamed(const struct xh_file *f);
uint64_t xh_flow_flying(const struct xh_file *f);
int xh_flow_has_family(const struct xh_file *f);

/* |bytes| more of it, or fewer. */
void xh_flow_stream(struct xh_file *f, int64_t bytes);
void xh_flow_fly(struct xh_file *f, int64_t bytes);

#endif
