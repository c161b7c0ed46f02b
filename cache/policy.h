/* The decisions of the cache, each in one place: what is kept in the shadow, when a stream begins, how far ahead is
 * fetched, whether a file is fetched whole, and which source serves a read.
 *
 * Pure: numbers in, a decision out. The callers collect the facts, and act. tests/unit/test_policy.c has a table of
 * cases for each decision. Three decisions have state of their own and stand elsewhere: how runs of reads go on
 * (ahead/turns.h, ahead/predict.h), which files come next (ahead/alike.h), and whether a compressed copy is faster than
 * the original (source/judge.h). */
#ifndef XH_POLICY_H
#define XH_POLICY_H

#include <stddef.h>
#include <stdint.h>

#include "base/extent.h"

/* A read, or a piece of one, of fewer bytes waits for round trips, not for the link. */
#define XH_BULK_BYTES (256u << 10)
/* Ranges that share a request: a connection idles for a round trip between two requests. */
#define XH_GROUP_BYTES (4u << 20)

/* ---- what is kept in the shadow ------------------------------------------------------------------------------- */

/* A stream that passes through one process for the first time is not worth the tmpfs, which costs more processor time
 * than the network's own work. What is read again is worth it, and what other processes may read. So is the beginning,
 * as others may be about to start. */
struct xh_keeping {
    int meta;              /* metadata */
    int shared;            /* other processes read the file, or are about to; or what streams by is read again */
    int told;              /* xh_policy_keeps_told */
    uint64_t streamed;     /* raw bytes before it that the shadow did not have */
    uint64_t stream_bytes; /* the option */
};

/* Returns 1 when everything is kept, however much it is. */
int xh_policy_keeps_all(const struct xh_keeping *k);

/* These two decide of what a read itself fetches. What it finds fetched ahead is where xh_policy_keeps_ahead and
 * xh_policy_streams put it: in the shadow, or in the stage, of which nothing is kept.
 *
 * Returns 1 when a read is kept, whatever its pages say. Else its pages are looked at, and xh_policy_keeps_pages
 * decides. */
int xh_policy_keeps_read(const struct xh_keeping *k);

/* Returns 1 when a read of |bytes| is kept. |empty| of its pages are not in the shadow; |again| of these were read
 * before. */
int xh_policy_keeps_pages(uint64_t bytes, uint64_t empty, uint64_t again);

/* Returns 1 when what streams by is read for a second time: of |empty| pages, |again| were read before. */
int xh_policy_is_reread(uint64_t empty, uint64_t again);

/* Returns for how many bytes that nobody has read of late, once |bytes| were read again, more of that is expected. */
uint64_t xh_policy_stays_reread(uint64_t bytes);

/* Returns how many of the |n| ranges, from the first on, are kept of what is fetched ahead. |streamed| includes what is
 * on its way to the shadow. */
size_t xh_policy_keeps_ahead(const struct xh_keeping *k, const struct xh_range *r, size_t n);

/* What a program said that it will read: |n| ranges that come now. All of it is kept, or is not, however it is cut. */
struct xh_announced {
    const struct xh_range *r;
    size_t n;
    uint64_t run;   /* the longest of them, with what came of it before and what comes later */
    uint64_t begun; /* bytes of the first one that came before */
    uint64_t bytes; /* with all that came before, or comes later */
    uint64_t room;  /* that what is ahead may take in the shadow */
    uint64_t readahead_bytes; /* the option */
    uint64_t empty; /* of their pages, those that are not in the shadow */
    uint64_t again; /* of these, those that were read before */
};

/* Returns 1 when they pass the shadow by, and come to the byte: they are short pieces, and not read again; or there
 * is more room elsewhere, and they do not fit. */
int xh_policy_passes_told(const struct xh_announced *t);

/* Returns 1 when all of them are kept, else xh_policy_keeps_ahead decides. They are kept if each is shorter than any
 * stream, as chunks mostly are, which HDF5 reads anew for each sample in one, unless its chunk cache still has it; or
 * if they were read before; else as a run that was foreseen, of the longest one's length. */
int xh_policy_keeps_told(const struct xh_keeping *k, const struct xh_announced *t);

/* ---- when a stream begins --------------------------------------------------------------------------------------- */

/* A run that may look so far ahead goes on long enough for a stream. Less is no stream, a stream runs ahead of its
 * reader by no less, and a read that lies no farther before it waits for it. */
#define XH_STREAM_LEAST_BYTES (16u << 20)

/* Returns the end of the stream that a run may begin. The run may look |window| bytes ahead, and is expected to go on
 * up to |end|. 0: none. */
uint64_t xh_policy_stream_end(uint64_t window, uint64_t end);

/* Returns 1 when |len| bytes, all of which are expected, stream past the shadow. */
int xh_policy_streams(const struct xh_keeping *k, uint64_t len);

/* Returns 1 when |len| bytes, all of which are expected, are as long as a stream, and are kept all the same: they come
 * to the shadow over as many connections. */
int xh_policy_deals(const struct xh_keeping *k, uint64_t len);

/* A file that is read through after others, as the sources of a virtual dataset are. */
struct xh_following {
    uint64_t len;         /* bytes of it that are asked for, > 0 */
    uint64_t after;       /* that its reader has before it in the files before */
    uint64_t behind;      /* of the files behind it */
    uint64_t most;        /* longest part: a connection that is slower than others keeps its reader waiting; 0: it is
                           * not known, as connections are in slow start */
    unsigned connections; /* that streams use, > 0 */
};

/* Returns in how many parts the file is asked for, each on a connection of its own, at least 1. A connection idles for
 * a round trip before each, so they are to be long. All of them come side by side: one that begins so far before its
 * reader has time until the others have brought what lies before it. Towards the end of the last file they become
 * shorter, so that all connections end together. */
unsigned xh_policy_parts(const struct xh_following *f);

/* A read that is about to begin, of bytes that lie one behind the other. */
struct xh_leading {
    uint64_t len;     /* of the read, and of those of other files that were opened for the same one */
    unsigned files;   /* those, and its own */
    int begins;       /* it is the beginning of its dataset */
    uint64_t dataset; /* length of the contiguous dataset that has it; 0: none is known */
    int hinted;       /* the program has said what it will read */
    int joint;        /* several processes opened the file together, each for its share */
    int young;        /* connections are in slow start */
    int jumped;       /* it begins a run elsewhere in a dataset that was read in long runs, or in one */
    int astray;       /* xh_policy_is_astray */
};

/* Returns 1 when a stream may begin with this read, not behind it: a connection in slow start becomes faster only
 * while data flows; and the connections of the stream that a reader has left stand still, all but one. */
int xh_policy_leads(const struct xh_leading *l);

/* Returns 1 when a read of |len| bytes is worth all connections. */
int xh_policy_is_worth_all(uint64_t len);

/* |strays| such reads, one after another, went on with no run; |lone|: one thread alone reads, of a far server, and
 * begins none that is known to go on. Returns 1 when their reader takes no order: streams end that he is far from, and
 * each is asked for over all connections. */
int xh_policy_is_astray(unsigned strays, int lone);

/* Returns 1 when a stream is no way for reads of |len| bytes that begin |step| bytes apart (modulo 2^64: downwards), of
 * which |ahead| bytes are fetched ahead without it: they skip at least twice as much as they read, and are so large that
 * |ahead| fills a fast link; or they skip so much that nearly all of the stream would be in vain. */
int xh_policy_leaves(uint64_t step, uint64_t len, uint64_t ahead);

/* A stream over |connections| has |before| bytes to bring before a read of |len| bytes. Returns 1 when the read is
 * fetched by itself, beside the stream: one connection brings it sooner, or |before| is more than may be held besides,
 * of |readahead_bytes| of which |room| is left: what a reader waits for comes whether there is room or not. */
int xh_policy_passes(uint64_t before, uint64_t connections, uint64_t len, uint64_t readahead_bytes, uint64_t room);

/* 1 when a load of |rate| bytes per second is what holds up those that had |others| on average, and stand still: it has
 * less than half of that. At about their rate it is the full room that holds them up, as of a reader that leaves much
 * out. */
int xh_policy_holds_up(uint64_t rate, uint64_t others);

/* Returns how much a load that brings |rate| bytes per second brings while a new connection at |rtt_ns| brings |bytes|:
 * it is opened, asked, and in slow start. */
uint64_t xh_policy_keeps(uint64_t bytes, uint64_t rate, double rtt_ns);

/* 1 when a load is relieved that lacks |lacks| bytes, and has |keeps| of them to keep: these take it less than half of
 * its time. A new connection may well lose packets, too, and be as slow. */
int xh_policy_is_relieved(uint64_t lacks, uint64_t keeps);

/* A load that may give some of what it lacks to a connection that is done. */
struct xh_giving {
    uint64_t lacks;      /* bytes that have not come yet */
    uint64_t rate;       /* of them a second, > 0 */
    uint64_t taker_rate; /* the same of the connection that is done; 0: it takes nothing */
    double rtt_ns;
};

/* Returns how many bytes it gives, so that both end together: the taker begins a round trip later. 0 where that is less
 * than it brings in a round trip: what is under way to it when it ends is lost. */
uint64_t xh_policy_gives(const struct xh_giving *g);

/* Between two parts a connection stands idle for a round trip: parts of so many hardly notice it. With five, links that
 * are not full lose a tenth (docs/decisions.md). */
#define XH_PART_TRIPS 8u

/* A connection of a stream that has brought its part. */
struct xh_part {
    uint64_t room;        /* bytes that may lie before the reader */
    uint64_t rest;        /* bytes of the stream that nobody has taken */
    unsigned connections; /* that the stream has */
    uint64_t all_rate;    /* bytes that came a second over all of them; 0: unknown */
    uint64_t rate;        /* of these, over this one; 0: its part stood still, so it is fast enough */
    double rtt_ns;
    uint64_t now_rate;    /* bytes that come a second by now; more than |all_rate| where connections were young */
};

/* Returns how many bytes its next part has: an equal one of the room, so that no connection waits for another one; less
 * where it is slower than the others; and an equal one of the rest, so that all end together. 0: parts that fit into
 * the room would cost too many round trips between them, so all that is left is dealt at once. */
uint64_t xh_policy_part(const struct xh_part *p);

/* ---- how far ahead ----------------------------------------------------------------------------------------------- */

/* Most bytes ahead of the readers of one file. Of what |sharers| have |budget_bytes| for, half of its part: what is
 * ahead would make way for what is farther ahead. |sharers| 0: it comes elsewhere. */
uint64_t xh_policy_most_ahead(uint64_t readahead_bytes, uint64_t budget_bytes, uint64_t sharers);

struct xh_window {
    uint64_t most;   /* xh_policy_most_ahead */
    uint64_t room;   /* the file's part of the process's room */
    uint64_t hinted; /* bytes of hints that are ahead: they come first */
    unsigned width;  /* files that are read in turns, this one included */
};

/* Returns how far a guess may run ahead. */
uint64_t xh_policy_guess_window(const struct xh_window *w);

/* Returns the same for hints: three quarters, so that a reader of something else can still be predicted. */
uint64_t xh_policy_hint_window(uint64_t most);

/* Returns |window| for one of several processes that opened the file together. Each reads its share: of a run it has
 * read |run| bytes; |len| of them now, in a dataset that others read too (0: not so). A share ends soon, at the latest
 * where its dataset does. */
uint64_t xh_policy_joint_window(uint64_t window, uint64_t run, uint64_t len);

/* Where a connection idles for a round trip before each request, it is to bring what it can in so many at least. */
#define XH_LEAST_TRIPS 2u

/* Returns how many bytes a part of what is fetched ahead has at least; |part_bytes|: the option. Parts are long, as a
 * connection idles for a round trip between two. But behind a limit, or after a loss, one connection brings little in a
 * round trip, |trip_bytes| (0: unknown), and others would idle while it brings a long part. |divides|: 0 for one file
 * of many, as the others come beside it. */
uint64_t xh_policy_least_ahead(uint64_t part_bytes, uint64_t trip_bytes, int divides);

/* A reader of small pieces in no order. */
struct xh_paid {
    unsigned reads;        /* so many waited for a round trip each */
    uint64_t waited_ns;    /* for them, as long as it takes while nothing else comes */
    uint64_t slowed_ns;    /* what it took longer since something comes that lies around them */
    int runs;              /* it is under way */
    uint64_t bytes;        /* of all that lies around them */
    uint64_t came;         /* of these that came in the background, again and again where they were evicted */
    uint64_t second_bytes; /* of these that come a second; 0: unknown */
    int far;               /* the server is: a near one's round trips are not worth bytes in vain */
    int in_vain;           /* what came unasked of the server's last file was hardly read */
};

/* Returns 1 for a read of |n| > 0 extents that waits for round trips rather than for the link, which brings |flight|
 * bytes in one; also for one of small pieces that lie scattered, as a plane across an array has. */
int xh_policy_waits_for_trips(const struct xh_extent *ext, size_t n, uint64_t flight);

/* Returns 1 when all that lies around them is to come: the reader has waited for a good part of the time that it takes.
 * Once it is under way it goes on all the same while it slows them hardly: a connection may be slow, and the link not
 * full. A link whose rate is not known is taken for one of 1 Gbit/s. */
int xh_policy_pays_for_all(const struct xh_paid *p);

/* Returns 1 when a read of |bytes| brings so much itself of |around| bytes which come in the background that these end:
 * they would come twice, the more so where others like it follow. It is as large a part as brings all of a small file
 * with it. */
int xh_policy_comes_by_itself(uint64_t bytes, uint64_t around);

/* Returns 1 when that came in vain, as only |hits| reads found what they wanted since it began to. */
int xh_policy_paid_in_vain(unsigned hits);

/* Returns how many bytes may be fetched in vain: what a link of 1 Gbit/s carries in an eighth of a round trip. */
uint64_t xh_policy_spare_bytes(double rtt_ms);

/* ---- whole file or not ------------------------------------------------------------------------------------------- */

struct xh_opened {
    uint64_t size, most_ahead, whole_file_bytes; /* the last one: the option */
    double rtt_ms;         /* 0: unknown */
    uint64_t second_bytes; /* what the link brings in a second; 0: unknown */
    unsigned connections;  /* that would bring it */
    unsigned misses;       /* reads so far that found something missing */
    int readahead;         /* the option */
    int imaged;            /* a metadata image is used */
    int in_vain;           /* the server's last file that came whole came in vain */
};

/* Returns 1 when all of a file is to be fetched: young connections bring it about as soon as its reader comes to the
 * end of the chain of round trips that reading parts of it takes. Where the last one came in vain, it is not before its
 * reader has missed as often as that chain is long. */
int xh_policy_is_whole(const struct xh_opened *o);

/* Returns 1 when a file of |size| that came whole did so in vain, as |bytes| of it were read. */
int xh_policy_came_in_vain(uint64_t bytes, uint64_t size);

/* Returns 1 when a file of |size| of which |bytes| were read was read through: the next one like it is to come whole. */
int xh_policy_is_read_through(uint64_t bytes, uint64_t size);

/* Returns 1 when a read of |bytes|, which ends at |end|, comes with the rest of a file of |size| that comes whole; 0:
 * before it. */
int xh_policy_comes_with_rest(uint64_t bytes, uint64_t end, uint64_t size);

/* Returns 1 when a read of |bytes| of a file of |size| does not bring the rest, as the file |has_siblings|, such as the
 * other sources of a virtual dataset: their parts are wanted next. */
int xh_policy_leaves_rest(uint64_t bytes, uint64_t size, int has_siblings);

/* ---- which source ------------------------------------------------------------------------------------------------ */

/* Returns 1 when a compressed copy serves raw data: it is |there|, and is the faster way, or |forced| by the option. */
int xh_policy_uses_copy(int there, int faster, int forced);

/* Returns 1 when |plain| bytes are read from the compressed copy, which has to fetch |packed| bytes for them. */
int xh_policy_takes_packed(uint64_t packed, uint64_t plain);

/* A page that another process has claimed, and not begun. Pages, but for |ns|. */
struct xh_coming {
    uint64_t wanted; /* that the read would fetch itself */
    uint64_t before; /* not begun, in one stretch before the page */
    uint64_t came;   /* in all stretches since the last look, |ns| ago */
    uint64_t nearer; /* of them, in the page's stretch */
    uint64_t ns;
};

/* Returns 1 when the page comes so late that the read fetches what it wants itself. */
int xh_policy_comes_late(const struct xh_coming *c);

#endif
