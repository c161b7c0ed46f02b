/* The scheduler turns what observers propose into fetches: to the shadow, or to the stage and its streams, of the file
 * or of its compressed copy. Nothing else fetches ahead. Threads: any. Never fails, does not block on the network. */
#ifndef XH_SCHEDULE_H
#define XH_SCHEDULE_H

#include <stdatomic.h>

#include "cache.h"

struct xh_proposal {
    enum xh_kind kind;
    const struct xh_range *r; /* in the order in which they will be wanted; they lie in the object */
    size_t n;
    int told; /* how sure: 1: the program said it; 0: a guess */
    /* Of what was told. */
    uint64_t told_run;   /* the longest range, as it was announced: the first and last of |r| may be parts */
    uint64_t told_begun; /* of the first one, bytes that came before */
    uint64_t told_bytes; /* with all that came before, or comes later, of what waited at once */
    /* Of a run alone: |r| is one range of it. */
    uint64_t run_end; /* the run is expected to go on up to here, in order */
    uint64_t more;    /* bytes of other files that it is expected to go on through then */
    uint64_t window;  /* how far ahead of the reader the observer may look */
    uint64_t after;   /* bytes of other files that the reader has before it; 0: it reads this one */
    unsigned turns;   /* so many files are read in turns, this one among them; 0 and 1: it is read alone */
    unsigned beside;  /* > 0: other runs of the file are read in turns with it, so that no stream begins */
    int leads;        /* a read is about to take the first bytes: if no stream brings them, nothing is fetched */
};

enum xh_whole_asked { XH_WHOLE_NOT_YET, XH_WHOLE_ASKED, XH_WHOLE_FAILED /* it is not asked for again */ };

/* Of an open file whether it comes whole; changed by schedule.c, and |misses| by whole.c. */
struct xh_whole {
    _Atomic int asked;       /* all of it was asked for: enum xh_whole_asked */
    _Atomic unsigned misses; /* reads so far that found something missing */
};

/* With the file, and in a fork's child, to which nothing comes of what the parent asked for. */
void xh_whole_init(struct xh_whole *w);

/* Fetches all of the file to the shadow, once; |opens|: connections may be opened for it. Returns 1 when it was asked
 * for by this call. */
int xh_schedule_whole(struct xh_file *f, int opens);

/* Returns 1 when all of the file was asked for: there is nothing more to fetch ahead. */
int xh_schedule_is_whole(const struct xh_file *f);

/* Fetches to the shadow, in the background, the longest stretch of |r| that is not here; where others read it too,
 * from |at| on, if that lies in it. Returns 0 when none is worth a request. */
int xh_schedule_around(struct xh_file *f, struct xh_range r, uint64_t at);

/* Fetches to the shadow what is not here, and lies so near to |at| that less than a request is worth lies between. */
void xh_schedule_near(struct xh_file *f, uint64_t at);

/* Fetches what the unverified head has, in the version that is open; nothing where the opening brought none. */
void xh_schedule_head(struct xh_file *f);

/* Something that was fetched ahead as metadata did not come: if the whole file was to come, it does not. */
void xh_schedule_lost(struct xh_file *f);

/* Returns how many ranges were seen to, fetched now or there already, from the first on; fewer than |n| when there is
 * no more room. */
size_t xh_schedule(struct xh_file *f, const struct xh_proposal *p);

/* Does the same for a run of raw data. Where it need not stay in the shadow, and is long enough, a stream takes it
 * over. Returns the end of what is seen to. */
uint64_t xh_schedule_run(struct xh_file *f, const struct xh_proposal *p);

/* The reader's run, which is most likely no excursion, began at |off|: streams that it has jumped over are left. */
void xh_schedule_begins(struct xh_file *f, uint64_t off);

/* The reader of a run has come to |end|, and may be given |window| bytes more: lets streams go on so far. Returns 1
 * when one has ended early meanwhile: what was seen to is so no longer. */
int xh_schedule_reach(struct xh_file *f, uint64_t end, uint64_t window);

/* The reader skips more than it reads, each time, or goes downwards: ends the streams, which would bring all that lies
 * between. */
void xh_schedule_leave(struct xh_file *f);

/* 1 when no stage, of the file or of its copy, has anything, nor is to get it. */
int xh_schedule_is_empty(struct xh_file *f);

/* What is read |is| read again, though it may not have been fetched again: streams end, and what comes is kept from
 * now on. What they brought goes to the shadow at the next read that lacks something. 0: it is so no longer. */
void xh_schedule_again(struct xh_file *f, int is);

/* The reader has left the order in which things were proposed: takes back what was not asked for yet. */
void xh_schedule_recall(struct xh_file *f);

/* Traces a proposal. */
void xh_schedule_trace(const char *event, const struct xh_range *r, size_t n);

#endif
