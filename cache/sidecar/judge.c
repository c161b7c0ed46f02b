/* Whether a compressed body wins: see judge.h. */
#include "judge.h"

#define INTERVAL_NS 50e6
#define INTERVAL_ROUND_TRIPS 2
#define STILL_GROWS 1.15
/* Intervals in a row that did not grow. */
#define STEADY 2
/* Who is in reads for less of the time is kept by something else. */
#define WAITS_LEAST 0.5
#define MOSTLY 0.9
/* Bytes unpacked per ns by all threads, before any was measured: a cautious guess. */
#define UNPACK_FIRST 1.0
/* Threads share the processor with the network's work and the program's. */
#define UNPACK_SHARE 0.75
#define UNPACK_WEIGHT 0.125
/* The verdict changes for so much; and a trial has to bring so much more than the original did. */
#define WINS 1.05
#define TRIAL_WINS 1.02
/* What was fetched before an interval may be read in it: a second evens that out. The first one may be that in which
 * the body's connections find their speed, so that two have to fail. */
#define TRIAL_NS 1e9
#define TRIALS 2
#define SETTLED_NS 10e9
/* A link that is faster has no body to look for. */
#define LOOK_RATE 0.6

int xh_judge_looks(const struct xh_judge *j, double link_rate)
{
    double rate = j->link_rate > 0 ? j->link_rate : j->last_rate > 0 ? j->last_rate : link_rate;
    return rate > 0 && rate < LOOK_RATE;
}

int xh_judge_is_fast(const struct xh_judge *j)
{
    return !j->packed && j->link_rate >= LOOK_RATE;
}

void xh_judge_unpacked(struct xh_judge *j, uint64_t bytes, uint64_t ns, unsigned threads)
{
    double rate = ns ? (double)bytes / (double)ns * threads * UNPACK_SHARE : 0;
    if (rate <= 0)
        return;
    j->unpack_rate = j->unpack_rate > 0 ? j->unpack_rate + UNPACK_WEIGHT * (rate - j->unpack_rate) : rate;
}

/* How much longer the original takes than the body, by what is known; 1: no longer. */
static double gain(const struct xh_judge *j)
{
    double unpack = j->unpack_rate > 0 ? j->unpack_rate : UNPACK_FIRST;
    return 1 / (1 / j->ratio + j->link_rate / unpack);
}

static int turn(struct xh_judge *j, int packed)
{
    int changed = j->packed != packed;
    j->packed = packed;
    if (changed) { /* what comes now is of both */
        j->begun_ns = 0;
        j->last_rate = 0;
        j->steady = 0;
        j->trial_ns = j->trial_got = 0;
        j->failed = 0;
    }
    return changed;
}

static int decide(struct xh_judge *j, uint64_t now)
{
    if (j->ratio <= 0)
        return turn(j, 0);
    if (j->link_rate <= 0 || (j->settled_ns && (double)(now - j->settled_ns) < SETTLED_NS))
        return 0;
    double g = gain(j);
    return g > WINS ? turn(j, 1) : g < 1 / WINS ? turn(j, 0) : 0;
}

int xh_judge_begin(struct xh_judge *j, double ratio, double link_rate, uint64_t now)
{
    j->ratio = ratio;
    if (j->link_rate <= 0)
        j->link_rate = link_rate;
    return decide(j, now);
}

int xh_judge_weigh(struct xh_judge *j, const struct xh_judged *s, uint64_t rtt_ns)
{
    double took = (double)(s->now_ns - j->begun_ns);
    if (j->begun_ns != 0 && (took < INTERVAL_NS || took < INTERVAL_ROUND_TRIPS * (double)rtt_ns))
        return 0;
    double last = j->last_rate, rate = 0, got = 0;
    /* After a change of ways the other one's last bytes still come. */
    double mine = (double)(j->packed ? s->body_bytes - j->body : (s->got_bytes - j->got) - (s->body_bytes - j->body));
    int pure = mine >= MOSTLY * (double)(s->got_bytes - j->got);
    if (j->begun_ns != 0 && pure && (double)(s->waited_ns - j->waited_ns) >= WAITS_LEAST * took) {
        rate = (double)(s->wire_bytes - j->wire) / took;
        got = (double)(s->got_bytes - j->got);
    }
    j->begun_ns = s->now_ns;
    j->wire = s->wire_bytes;
    j->got = s->got_bytes;
    j->body = s->body_bytes;
    j->waited_ns = s->waited_ns;
    j->last_rate = rate;
    if (rate > 0 && j->packed) {
        j->trial_ns += took;
        j->trial_got += got;
    }
    j->steady = rate <= 0 || last <= 0 || rate > STILL_GROWS * last ? 0 : j->steady + 1;
    if (j->steady < STEADY)
        return 0;
    rate = (rate + last) / 2;
    if (!j->packed || rate > j->link_rate) /* else unpacking may be what keeps it: that says nothing of the link */
        j->link_rate = rate;
    if (!j->packed)
        j->plain_rate = rate;
    else if (j->trial_ns >= TRIAL_NS && j->plain_rate > 0) {
        int pays = j->trial_got >= TRIAL_WINS * j->plain_rate * j->trial_ns;
        j->trial_ns = j->trial_got = 0;
        j->failed = pays ? 0 : j->failed + 1;
        if (j->failed == TRIALS) {
            j->settled_ns = s->now_ns;
            return turn(j, 0);
        }
    }
    return decide(j, s->now_ns);
}
