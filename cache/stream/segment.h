/* Inside the stage: loads, parcels, takers. See stage.h; nobody but open/ includes this, which makes
 * a stage.
 *
 * A load is one speculative transfer. Its bytes are divided into parcels. A stream is a few loads
 * that have its parcels in turns, and that stand still while their reader has enough before him.
 * Invariants, under the lock:
 *  1. A parcel's bytes [from, got) lie in its blocks, at their place; bytes below |from| were read,
 *     or are promised to takers.
 *  2. A taker's bytes end at or below |from|, or are kept in blocks besides: either way they are
 *     copied to it as they arrive, in ascending order, and it leaves its op when all are there. When its load ends
 *     before that, whatever the reason, the op gets back what is missing (xh_op_lose) and fetches that itself. While a
 *     piece is copied, which is done without the lock, none of its parcel's takers leaves, and |got| lies before it.
 *     While nothing of a parcel has come, another load's may take its place, with its takers.
 *  3. A parcel is in |at| until all of it was taken, its transfer failed, or it was dropped; then
 *     |from| is its end. Blocks below |from| go as soon as nobody copies from the parcel, or to it. A load is
 *     freed when its transfer is submitted and over, none of its parcels is in |at| and nobody copies
 *     from one.
 *
 * All functions: the stage's lock is held, unless they say otherwise. */
#ifndef XH_SEGMENT_H
#define XH_SEGMENT_H

#include <pthread.h>

#include "base/again.h"
#include "base/pace.h"
#include "object.h"
#include "room.h"

/* A stream brings so much in any case: by then its reader has mostly read what he waited for. */
#define XH_STREAM_FIRST_BYTES (2u << 20)
/* So much of a stream is dealt before the speed of its connections is known. Twice as much: docs/decisions.md. */
#define XH_STREAM_DEALT_BYTES (256u << 20)
/* A parcel is a wrong guess, and makes room where that is wanted, once so many reads have passed it by and it is twice
 * as late as the latest one that was read: of several threads each reads a long piece before it comes back. A parcel of
 * a stream lies in the order in which it is read: that only counts from where its reader would have come to it. */
#define XH_STALE_READS 32
/* Times what may be ahead: none counts as later than that. With half of it twelve threads that read images of eight
 * chunks have 0.8 of the link's rate, not 0.9 (docs/decisions.md). */
#define XH_LATEST_TIMES 2u

/* Loads of a stream; and of all that are not over: the next one begins while this one's connections become free. */
#define XH_STREAM_LOADS_MAX 32
#define XH_STREAMS_MAX (2 * XH_STREAM_LOADS_MAX)

struct xh_prefetch;
struct xh_segment;

struct xh_stage {
    pthread_mutex_t lock;    /* guards the rest; held while requests are planned, never while they are submitted or
                              * bytes are copied, but for a block that is to be shared. The locks of shadow, origin and
                              * room are taken in it */
    struct xh_segment **at;   /* by offset, disjoint: those with bytes that a reader can still have */
    size_t n, room;
    struct xh_room_place place; /* by the room's rules */
    uint64_t clock;          /* takes so far: the age of parcels */
    struct xh_prefetch *stream[XH_STREAMS_MAX]; /* streams that are not over, nor left; the first NULL ends them */
    size_t leaving;          /* loads that were left, and are not over: their connections are about to be free */
    uint64_t reach;          /* streams bring nothing beyond this offset, unless it is waited for */
    uint64_t read_end;       /* of the last read that was told of */
    uint64_t ahead;          /* streams may come so far behind its begin */
    uint64_t granted;        /* they may come up to here, as far as there is room, until all are over: the file is
                              * read after others. 0: they may not */
    uint64_t stream_end;     /* of the stream that was begun last */
    uint64_t dealt;          /* so far it is dealt; the rest as its loads end */
    int whole;               /* all of the rest at once */
    uint64_t begun_ns, begun_bytes; /* when its first byte came, 0: it has not; and pace.bytes before that */
    uint64_t grown_ns, grown_bytes; /* the same of what came behind half of XH_STREAM_DEALT_BYTES: they have grown */
    struct xh_pace pace;     /* of all that streams bring */
    uint64_t rate;           /* bytes a second of theirs; less counts slowly, as they may have stood still */
    uint64_t here, here_bytes; /* the first extent of the last read that the stage was asked for */
    uint64_t here_span;      /* from there to the end of its last one */
    struct xh_again again;   /* what stays when it is read, as it was named for another read */
    uint64_t asked;          /* bytes that all reads have asked it for */
    uint64_t latest;         /* by how many of these the latest parcel was late that was read */
    int unshared;            /* something came that is not shared */
    int no_room;             /* the shadow had none for all that was shared: nothing more is */
    uint64_t looked_ns;      /* when a stream looked whether others read the file too */
    int lost;                /* a stream ended early since the last xh_stage_reach */
    struct xh_waiter *waiting; /* all of them */
};

struct xh_segment {
    struct xh_prefetch *load;
    uint64_t off, end; /* constant */
    uint64_t from, got, taken;
    uint64_t born;     /* stage's clock when made or last read */
    uint64_t since;    /* what it had been asked for by then, and had ahead */
    uint64_t due;      /* what the stage will have been asked for when its reader comes, by then: of a stream, and of what
                        * is named again */
    uint8_t **blocks;  /* of XH_BLOCK_BYTES from |off| on, the last one shorter; NULL: not there */
    size_t gone;       /* blocks before this one were given back */
    struct xh_waiter *takers;
    unsigned copying; /* who copies out of the blocks, or into them, without the lock */
    int listed;
};

/* How a stream's load comes, which tells what its connection is to take next. */
struct xh_course {
    struct xh_pace pace;
    uint64_t begun_ns; /* when its first byte came; 0: it has not */
    int stood;         /* it stood still */
    int last;          /* its connection may be the last one */
    unsigned loads;    /* so many its stream has at a time */
};

struct xh_prefetch {
    struct xh_transfer t; /* t.ctx is the load */
    struct xh_file *f;
    struct xh_range *ranges;
    uint8_t **blocks; /* of all parcels */
    int submitting; /* the origin may not have it yet */
    int over, withdrawn;
    int left;           /* it is no stream's any more: see xh_stream_leave */
    int ended;          /* at its cut */
    unsigned turns;     /* loads that a stream's parcels are dealt to in turns, 1: it has its own; 0: no stream */
    int in_parts;       /* one of several of a file's, each of which has a part of its own */
    int hurried;        /* a patient one's reader has come: it waits no more, nor when it has to be sent again */
    int stands; /* it stands still until its reader comes nearer */
    unsigned takers;
    uint64_t pos;       /* where the next byte goes */
    uint64_t cut;       /* where it is to be ended early; 0: nowhere */
    uint64_t first;     /* a stream comes up to here in any case */
    uint64_t used;      /* stage's clock when something was last taken */
    struct xh_course course;
    /* Told when all has come, not where it was cut; lets go of the lock. NULL: nobody is told. */
    void (*then)(struct xh_file *f, const struct xh_course *course);
    size_t nparcels;
    struct xh_segment parcels[];
};

/* How many loads streams have: s->stream[0] and on. */
size_t xh_stage_loads(const struct xh_stage *s);

/* Takes |l| out of them. */
void xh_stage_drop(struct xh_stage *s, const struct xh_prefetch *l);

/* Index of the first parcel that ends after |off|. */
size_t xh_segment_at(const struct xh_stage *s, uint64_t off);

/* 1 when somebody may still want |p|, or waits for it. */
static inline int xh_segment_is_wanted(const struct xh_segment *p)
{
    return p->listed || p->takers;
}

/* What |p| counts for in s->place.bytes. */
uint64_t xh_segment_weight(const struct xh_segment *p);

/* By how much |p| is late: bytes that were asked for since it was due. And 1 when nobody will come for it any more. */
uint64_t xh_segment_late(const struct xh_segment *p);
int xh_segment_is_stale(const struct xh_segment *p);

/* 1 when the streams have so much to bring before a read of |len| bytes at |off|, which |p| has, that it had better be
 * fetched by itself: by one connection, beside those that the streams have. So it is where there is no room for so
 * much: what is waited for comes whether there is room or not, and all that lies before it. */
int xh_segment_is_far(const struct xh_segment *p, uint64_t off, uint64_t len);

/* Takes |p| out of s->at: nothing more is kept of it. */
void xh_segment_unlist(struct xh_stage *s, struct xh_segment *p);

/* Copies [off, off + len) of |p|, which is in its blocks. Needs the lock, or a count in |copying|. */
void xh_segment_copy(const struct xh_segment *p, uint64_t off, uint64_t len, uint8_t *to);

/* Gives back what nobody needs any more: blocks, and the load with its last parcel. */
void xh_prefetch_settle(struct xh_prefetch *l);

/* Makes a load of the |n| parcels |r| and lists them. NULL without memory. Of a stream that has |turns| loads,
 * |full| says whether it is to stand still, without the lock held; 0 and NULL where it is of none. */
struct xh_prefetch *xh_prefetch_add(struct xh_file *f, const struct xh_range *r, size_t n, unsigned turns,
                                    int (*full)(struct xh_transfer *t));

/* |l| ends before its parcel |p|, or where it is to end already. */
void xh_prefetch_cut(struct xh_prefetch *l, const struct xh_segment *p);

/* The parcels of |slow| in [cut, end), of which nothing has come or is being copied, and their takers, go to a load of
 * their own, which is to be handed over; |slow| ends before them. NULL without memory, or where nobody wants them any
 * more. */
struct xh_prefetch *xh_prefetch_divide(struct xh_prefetch *slow, size_t cut, size_t end);

/* Takes back a load of which nothing was asked for yet and nobody waits for. Returns 1 when it was. */
int xh_prefetch_withdraw(struct xh_stage *s, struct xh_prefetch *l);

/* Submits |n| loads' transfers; lets go of the lock meanwhile. */
void xh_prefetch_hand_over(struct xh_file *f, struct xh_transfer **ts, size_t n);

/* Returns |r|; for a file with a disk cache in whole pages, as that keeps no others. */
struct xh_range xh_segment_whole(const struct xh_file *f, struct xh_range r);

/* 1 when |off| is of a stream that is under way, and not dealt yet. */
static inline int xh_stage_will_deal(const struct xh_stage *s, uint64_t off)
{
    return s->stream[0] && off >= s->dealt && off < s->stream_end;
}

/* Appends to |out| what neither disk, shadow nor stage has of |r|; |all|: also what is of a stream, and not dealt yet.
 * Returns 0 without memory. */
int xh_segment_missing(struct xh_file *f, struct xh_range r, int all, struct xh_range_list *out);

#endif
