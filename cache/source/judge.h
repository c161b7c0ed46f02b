/* Whether a compressed copy is faster: compares the link's rate with that of unpacking. Pure: no clock, no locks.
 *
 * The link is measured in intervals while the reader mostly waits for it. A rate that still grows is not the link's
 * rate yet. The first sign that slow start is over: a round trip brings far less than all before it. (Steady rates come
 * later: after a loss, what arrived behind the lost bytes is held back and then comes at once.) The copy is read where
 * its transfer and its unpacking, one after the other, would take less time than the original's transfer, and left when
 * what is measured of unpacking says so no longer. */
#ifndef XH_JUDGE_H
#define XH_JUDGE_H

#include <stdint.h>

struct xh_interval {
    uint64_t begun_ns; /* 0: none is under way. The first begins with the file */
    uint64_t wire, got, body, waited_ns;
    double rate, last_rate; /* of the one before and the one before that; 0: it told nothing */
    unsigned steady;  /* how many in a row had the rate of the one before */
};

/* Cautious guesses: bytes that all threads together unpack per ns. One thread unpacks 1.0 to 2.0 of zstd, 1.5 to 4 of
 * lz4. */
#define XH_UNPACK_GUESS 1.0
#define XH_UNPACK_GUESS_LZ4 2.5

struct xh_judge {
    double ratio;       /* bytes of the file by bytes of the copy; 0: there is none yet */
    double unpack_rate; /* bytes unpacked per ns, by all threads together; 0: unknown */
    double unpack_guess; /* the same before anything was unpacked; 0: XH_UNPACK_GUESS */
    double link_rate;   /* bytes per ns that the link brought; 0: unknown */
    int packed;         /* 1: the copy is read */
    struct xh_interval now;
    /* Until the link is known there are shorter intervals. What had come when the first one that told something began. */
    struct xh_interval first;
    uint64_t first_wire;
};

/* What has happened so far, all in all. */
struct xh_judged {
    uint64_t now_ns;
    uint64_t wire_bytes;  /* came over the link */
    uint64_t got_bytes;   /* readers got that were not in the shadow, in whole pages */
    uint64_t body_bytes;  /* of these, those that the copy brought */
    uint64_t waited_ns;   /* readers waited for bytes, and for their unpacking */
};

/* Called when a read that had to wait is over, or still waits. Returns 1 when the verdict changed. */
int xh_judge_weigh(struct xh_judge *j, const struct xh_judged *so_far, uint64_t rtt_ns);

/* Called when a copy was found, or is gone (ratio 0). Returns 1 when the verdict changed. */
int xh_judge_begin(struct xh_judge *j, double ratio);

/* Notes that some of |threads| threads unpacked |bytes| in |ns|. */
void xh_judge_unpacked(struct xh_judge *j, uint64_t bytes, uint64_t ns, unsigned threads);

/* Returns 1 when the link is known to be too fast for any copy. */
int xh_judge_is_fast(const struct xh_judge *j);

/* Returns 1 when a copy is worth a look: the link is known to be slower than unpacking could be, or the server is so
 * far away that this takes long to find out. |link_rate|: what is known of the link from elsewhere; 0: nothing.
 * |rtt_ns| 0: unknown. */
int xh_judge_looks(const struct xh_judge *j, double link_rate, uint64_t rtt_ns);

#endif
