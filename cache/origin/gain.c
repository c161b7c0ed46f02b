/* Whether a stream would gain by more connections: see gain.h. */
#include "gain.h"

/* What is no more than that for a round trip may be the window of an untuned system: 4 MiB to send. */
#define UNTUNED_BYTES 4.5e6
#define LEAST_GAIN 1.15
#define INTERVAL_NS 100e6
#define INTERVAL_ROUND_TRIPS 4
/* Few that bring equally little for so many intervals have small windows; or, where they have brought enough before, for so many more,
 * loss: sooner it may be a dip, as BBR lets the link run empty for 200 ms now and then, to measure the round trip. (One that two
 * intervals share evenly before few are known is taken for a window: rare, and many are tried once in vain.) */
#define LOW_INTERVALS 2
#define DIP_INTERVALS 6

void xh_gain_pause(struct xh_gain *g)
{
    g->begun_ns = 0;
    g->last_rate = 0;
}

/* The rate of an interval that is over now, which took |*took_ns|; 0: none is. */
static double measure(struct xh_gain *g, int few, uint64_t bytes, uint64_t now, double rtt_ns, double *took_ns)
{
    double took = *took_ns = (double)(now - g->begun_ns), rate = 0;
    if (few != g->few)
        xh_gain_pause(g);
    if (g->begun_ns != 0 && (took < INTERVAL_NS || took < INTERVAL_ROUND_TRIPS * rtt_ns))
        return 0;
    if (g->begun_ns != 0)
        rate = (double)(bytes - g->begun_bytes) / took;
    g->few = few;
    g->begun_ns = now;
    g->begun_bytes = bytes;
    return rate;
}

/* Many brought |rate| for |took| ns, and |last| before that. Where a lost packet keeps back what is behind it, one interval brings
 * little, and the next one more than the link does. */
static void note_many(struct xh_gain *g, double rate, double last, double took)
{
    if (g->many_ns <= 0 && (last <= 0 || rate > LEAST_GAIN * last)) {
        g->many_rate = rate > g->many_rate ? rate : g->many_rate;
        return;
    }
    g->many_bytes += rate * took;
    g->many_ns += took;
    g->many_rate = g->many_bytes / g->many_ns;
}

int xh_gain_weigh(struct xh_gain *g, unsigned loads, int few, unsigned most, uint64_t bytes, uint64_t now, double rtt_ns)
{
    if (g->settled || rtt_ns <= 0)
        return 0;
    double took, rate = measure(g, few, bytes, now, rtt_ns, &took), last = g->last_rate;
    if (rate <= 0)
        return 0;
    g->last_rate = rate;
    if (!few) {
        note_many(g, rate, last, took);
        return 0;
    }
    if (last <= 0 || rate > LEAST_GAIN * last) /* it is still growing */
        return 0;
    if (g->lasting) { /* many were tried once more */
        g->settled = 1;
        g->lasting = rate < LEAST_GAIN * g->few_rate ? 0 : g->lasting;
        return 0;
    }
    g->settled = g->many_rate > 0 && rate * LEAST_GAIN > g->many_rate;
    int enough = rate * rtt_ns / loads > UNTUNED_BYTES;
    g->ample |= enough;
    int falls = !g->ample && rate * LEAST_GAIN < last; /* a window does not */
    g->low = enough ? 0 : falls ? 1 : g->low + 1;
    if (g->settled || enough || loads >= most || g->low < (g->ample ? DIP_INTERVALS : LOW_INTERVALS))
        return 0;
    g->few_rate = rate;
    g->lasting = most;
    xh_gain_pause(g);
    return 1;
}
