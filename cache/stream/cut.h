/* Streams that end early: inside the stage, whose lock is held. What was seen to behind the cut is so no longer:
 * s->lost. Threads: any. Nothing blocks. */
#ifndef XH_CUT_H
#define XH_CUT_H

#include <stdint.h>

struct xh_prefetch;
struct xh_segment;
struct xh_stage;

/* |l| ends before its parcel |p|, the first one called with. Its connection ends with it. */
void xh_stream_cut_load(struct xh_prefetch *l, const struct xh_segment *p);

/* Ends the streams at the first parcel from |off| on behind all that has come and all that is waited for. Whether few
 * connections are enough for what is left, nobody asks. */
void xh_stream_cut(struct xh_stage *s, uint64_t off);

/* Ends all streams, |ahead| bytes behind |off| or what has come of each part. */
void xh_stream_cut_all(struct xh_stage *s, uint64_t off, uint64_t ahead);

/* The same, |ahead| bytes behind what has come of all. */
void xh_stream_cut_ahead(struct xh_stage *s, uint64_t ahead);

#endif
