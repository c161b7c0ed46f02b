/* The sources that stand in read/: see source/source.h. */
#ifndef XH_SOURCES_H
#define XH_SOURCES_H

#include "source/source.h"

extern const struct xh_source xh_stream_source, xh_shadow_source, xh_disk_source, xh_origin_source, xh_others_source;

/* Of the processes that open a file together one walks, and mostly wants the same as |op| does now. A process that has
 * no connection yet leaves its pages to that one for a while: opening a connection takes longer, and in a crowd costs
 * the server time that others need. Waits for the other process, 100 ms at most. */
void xh_others_leave_it(struct xh_read_op *op);

/* |bytes| that were found ready, or on their way elsewhere, are fetched by |op| after all. */
void xh_others_fetched_after_all(struct xh_read_op *op, uint64_t bytes);

#endif
