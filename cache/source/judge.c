/* Whether a compressed copy is faster: see judge.h. */
#include "judge.h"

#include "base/links.h"

#define INTERVAL_NS 50e6
#define INTERVAL_ROUND_TRIPS 2
#define FIRST_INTERVAL_NS 20e6
#define STILL_GROWS 1.15
/* Intervals in a row that did not grow. */
#define STEADY 2
/* In slow start a round trip brings as much as all before it together. Slow start is over once a round trip brings less
 * than this part of at least so many bytes. */
#define DOUBLES 0.4
#define DOUBLES_BYTES 1e6
/* A reader that is in reads for less of the time is limited by something else than the link. */
#define WAITS_LEAST 0.5
#define MOSTLY 0.9
/* Threads share the processor with the network's work and the program's. */
#define UNPACK_SHARE 0.75
#define UNPACK_WEIGHT 0.125
/* The verdict changes only for so large a gain. */
#define WINS 1.05
/* From this round trip on slow start takes so long that a look, two round trips, ends before the link is known. */
#define FAR_NS 5000000u

/* On a faster link no copy is looked for: two threads unpack 2 to 4 bytes per ns of lz4, beside the processor time that
 * such a link takes. */
int xh_judge_is_fast(const struct xh_judge *j)
{
    return j->link_rate >= XH_LINK_FAST_BYTES_PER_NS;
}

int xh_judge_looks(const struct xh_judge *j, double link_rate, uint64_t rtt_ns)
{
    double rate = j->link_rate > 0 ? j->link_rate : j->now.rate > 0 ? j->now.rate : link_rate;
    return rate > 0 ? rate < XH_LINK_FAST_BYTES_PER_NS : rtt_ns >= FAR_NS;
}

void xh_judge_unpacked(struct xh_judge *j, uint64_t bytes, uint64_t ns, unsigned threads)
{
    double rate = ns ? (double)bytes / (double)ns * threads * UNPACK_SHARE : 0;
    if (rate <= 0)
        return;
    j->unpack_rate = j->unpack_rate > 0 ? j->unpack_rate + UNPACK_WEIGHT * (rate - j->unpack_rate) : rate;
}

/* How much longer the original takes than the copy, by what is known; 1: no longer. */
static double gain(const struct xh_judge *j)
{
    double unpack = j->unpack_rate > 0 ? j->unpack_rate : j->unpack_guess > 0 ? j->unpack_guess : XH_UNPACK_GUESS;
    return 1 / (1 / j->ratio + j->link_rate / unpack);
}

static int turn(struct xh_judge *j, int packed)
{
    int changed = j->packed != packed;
    j->packed = packed;
    if (changed) /* what comes now is of both */
        j->now = j->first = (struct xh_interval){0};
    return changed;
}

static int decide(struct xh_judge *j)
{
    if (j->ratio <= 0)
        return turn(j, 0);
    if (j->link_rate <= 0)
        return 0;
    double g = gain(j);
    return g > WINS ? turn(j, 1) : g < 1 / WINS ? turn(j, 0) : 0;
}

int xh_judge_begin(struct xh_judge *j, double ratio)
{
    j->ratio = ratio;
    return decide(j);
}

/* What an interval has shown. */
enum interval { LASTS, TELLS_NOTHING, TELLS };

/* Ends the interval |i| when it has lasted for |least_ns|, and begins the next. */
static enum interval measure(struct xh_interval *i, const struct xh_judged *s, double least_ns)
{
    double took = (double)(s->now_ns - i->begun_ns), rate = 0;
    if (i->begun_ns != 0 && took < least_ns)
        return LASTS;
    /* After a change of ways the last bytes of the other one still come. */
    double got = (double)(s->got_bytes - i->got), body = (double)(s->body_bytes - i->body);
    int tells = i->begun_ns != 0 && got - body >= MOSTLY * got &&
                (double)(s->waited_ns - i->waited_ns) >= WAITS_LEAST * took;
    if (tells)
        rate = (double)(s->wire_bytes - i->wire) / took;
    unsigned steady = rate <= 0 || i->rate <= 0 || rate > STILL_GROWS * i->rate ? 0 : i->steady + 1;
    *i = (struct xh_interval){.begun_ns = s->now_ns, .wire = s->wire_bytes, .got = s->got_bytes, .body = s->body_bytes,
                              .waited_ns = s->waited_ns, .rate = rate, .last_rate = i->rate, .steady = steady};
    return tells ? TELLS : TELLS_NOTHING;
}

/* The link is not known yet: 1 when slow start is over now. */
static int is_first_known(struct xh_judge *j, const struct xh_judged *s, uint64_t rtt_ns)
{
    double least = (double)rtt_ns > FIRST_INTERVAL_NS ? (double)rtt_ns : FIRST_INTERVAL_NS;
    double before = (double)(j->first.wire - j->first_wire);
    enum interval was = measure(&j->first, s, least);
    if (was == TELLS_NOTHING)
        j->first_wire = s->wire_bytes;
    return was == TELLS && j->first.rate > 0 && before >= DOUBLES_BYTES && j->first.rate * least < DOUBLES * before;
}

int xh_judge_weigh(struct xh_judge *j, const struct xh_judged *s, uint64_t rtt_ns)
{
    double round_trips = INTERVAL_ROUND_TRIPS * (double)rtt_ns;
    if (j->packed)
        return decide(j);
    if (j->link_rate <= 0 && is_first_known(j, s, rtt_ns)) {
        j->link_rate = (j->first.rate + j->first.last_rate) / 2;
        return decide(j);
    }
    if (measure(&j->now, s, round_trips > INTERVAL_NS ? round_trips : INTERVAL_NS) == LASTS || j->now.steady < STEADY)
        return 0;
    j->link_rate = (j->now.rate + j->now.last_rate) / 2;
    return decide(j);
}
