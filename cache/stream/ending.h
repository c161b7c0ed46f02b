/* Streams that end before all of them has come. Threads: any. Nothing blocks. */
#ifndef XH_ENDING_H
#define XH_ENDING_H

#include <stdint.h>

struct xh_file;
struct xh_prefetch;
struct xh_stage;

/* The reader's run began at |off|: streams that would bring what lies before it, more than the shortest stream has from
 * the middle of their places on, are left; so are those that lie farther behind it than it may look ahead. */
void xh_stage_begins(struct xh_file *f, uint64_t off);

/* Ends the streams behind what has come of them and what is waited for: what is fetched from now on is for others
 * too. */
void xh_stage_end(struct xh_file *f);

/* Ends the streams where they have come to by then when |ahead| bytes more have come of each, or behind that. */
void xh_stage_cut(struct xh_file *f, uint64_t ahead);

/* Inside the stage, whose lock is held: the rest. Nothing more of the stream is dealt than is by now. */
void xh_stream_deal_no_more(struct xh_stage *s);

/* End streams that nobody waits for: |l|; those that were not read from for some time and are not where the last run of
 * reads is; the one that has |off| before it, but far from where the reader is. */
void xh_stream_leave(struct xh_stage *s, struct xh_prefetch *l);
void xh_stream_leave_stale(struct xh_stage *s);
void xh_stream_pass_far(struct xh_stage *s, uint64_t off);

/* Ends all, at the first parcel from |off| on behind all that has come and all that is waited for. */
void xh_stream_cut(struct xh_stage *s, uint64_t off);

/* Drops what is left of parcels that have come, and of which a part was read some time ago, on the way to where the
 * reader is: small gaps between pieces that were read out of order. */
void xh_stream_leave_passed(struct xh_stage *s);

#endif
