/* Whether a stream would gain by more connections: see gain.h. */
#include "gain.h"

/* What is no more than that for a round trip may be the window of an untuned system: 4 MiB to send. */
#define UNTUNED_BYTES 4.5e6
#define LEAST_GAIN 1.15
#define INTERVAL_NS 100e6
#define INTERVAL_ROUND_TRIPS 4
/* Few that have brought enough have windows of that size. What they bring less for so many intervals is the link's loss;
 * sooner it may be a dip: BBR lets the link run empty for 200 ms now and then, to measure the round trip. */
#define DIP_INTERVALS 5

void xh_gain_pause(struct xh_gain *g)
{
    g->begun_ns = 0;
    g->last_rate = 0;
}

/* The rate of an interval that is over now; 0: none is. */
static double measure(struct xh_gain *g, int few, uint64_t bytes, uint64_t now, double rtt_ns)
{
    double took = (double)(now - g->begun_ns), rate = 0;
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

int xh_gain_weigh(struct xh_gain *g, unsigned loads, int few, unsigned most, uint64_t bytes, uint64_t now, double rtt_ns)
{
    if (g->settled || rtt_ns <= 0)
        return 0;
    double rate = measure(g, few, bytes, now, rtt_ns), last = g->last_rate;
    if (rate <= 0)
        return 0;
    g->last_rate = rate;
    if (!few) {
        g->many_rate = rate > g->many_rate ? rate : g->many_rate;
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
    g->low = enough ? 1 : g->low + (g->low != 0);
    if (g->settled || enough || loads >= most || (g->low && g->low <= DIP_INTERVALS))
        return 0;
    g->few_rate = rate;
    g->lasting = most;
    xh_gain_pause(g);
    return 1;
}
