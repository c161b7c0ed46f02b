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

/* The reader's run began at |off|: streams that would bring what lies before it, more than the shortest stream has, are
 * left. */
void xh_stage_begins(struct xh_file *f, uint64_t off);

/* The reader has come to |end| and may be given |window| bytes more: lets streams go on so far. Returns 1
 * when one has ended early meanwhile: what was seen to is so no longer. */
int xh_stage_reach(struct xh_file *f, uint64_t end, uint64_t window);

/* The link brings |rate| bytes a second, as others have found: it counts where no stream has told yet. */
void xh_stage_tell(struct xh_file *f, uint64_t rate);

/* Ends the streams behind what has come of them and what is waited for: what is fetched from now on is for others
 * too. */
void xh_stage_end(struct xh_file *f);

/* Ends the streams where they have come to by then when |ahead| bytes more have come of each, or behind that. */
void xh_stage_cut(struct xh_file *f, uint64_t ahead);

/* Inside the stage, whose lock is held. Lets a stream's load that stands still go on. Ends streams that nobody waits
 * for: |l|, those that were not read from for some time and are not where the last run of reads is, or the one that
 * has |off| before it, but far from where the reader is. A load stays in s->stream until it is over. */
void xh_stream_go_on(struct xh_prefetch *l);
void xh_stream_leave(struct xh_stage *s, struct xh_prefetch *l);
void xh_stream_leave_stale(struct xh_stage *s);
void xh_stream_pass_far(struct xh_stage *s, uint64_t off);

#endif
