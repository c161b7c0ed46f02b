/* Streams: long loads that stand still while their reader has enough. */
#ifndef XH_STREAM_H
#define XH_STREAM_H

#include <stddef.h>
#include <stdint.h>

#define XH_STREAM_MOST_BYTES (4ull << 30) /* longest stream */

struct xh_file;
struct xh_prefetch;
struct xh_stage;

#define XH_STREAM_LATER UINT64_MAX

/* Begins to stream [off, end) in so far as neither stage nor shadow has it: a few long requests, on connections that
 * then never idle, whose bytes come as far as xh_stage_reach lets them. Where |turns| files are read in turns, this
 * one among them, each has its part of the connections. Where the reader has |after| > 0 bytes of other files before
 * it, each request is for a part, waits for a connection that those leave, or opens one while streams may have more,
 * and comes as far as there is room, however far the reader is.
 * Returns the end of what is seen to; |off| when there is not enough to stream or no connection for it: then
 * xh_stage_fetch is the way; XH_STREAM_LATER while the stream before |off| has requests that wait for a connection,
 * and brings enough: then nothing is to be fetched of this one yet, and the next read asks again. Does not block. */
uint64_t xh_stage_stream(struct xh_file *f, uint64_t off, uint64_t end, unsigned turns, uint64_t after);

/* 1 when a stream that is not over ends at |off|, or a little before. */
int xh_stage_streams_to(struct xh_file *f, uint64_t off);

/* The reader has come to |end| and may be given |window| bytes more: lets streams go on so far. Returns 1
 * when one has ended early meanwhile: what was seen to is so no longer. */
int xh_stage_reach(struct xh_file *f, uint64_t end, uint64_t window);

/* The link brings |rate| bytes a second, as others have found: it counts where no stream has told yet. */
void xh_stage_tell(struct xh_file *f, uint64_t rate);

/* Inside the stage, whose lock is held. Lets a stream's load that stands still go on. */
void xh_stream_go_on(struct xh_prefetch *l);

#endif
