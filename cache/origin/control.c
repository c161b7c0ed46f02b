/* How many connections streams use, and when they give one back: see control.h.
 *
 * More connections carry more wherever each is slow by itself: windows of an untuned system, loss, a limit for each
 * connection. They cost little where one would fill the link, unless its round trip is so short that the queue holds a
 * few packets for each: then they make each other lose packets. So the round trip says how many to begin with. Where
 * that is not all, it is found out whether more pay: from one stream to the next, as a stream that is cut leaves holes
 * before its reader, and connections that have to begin anew.
 *
 * The numbers are steered by 35 simulated links and measured on 480: docs/simulator.md, W1 on the matrix of links. */
#include "control.h"

#define LEAST_STREAMS  6u
#define STREAMS_PER_NS 0.9e-6
/* What shorter transfers bring is slow start. */
#define SAMPLE_BYTES (1u << 20)
/* Twice as many connections are worth so much more. */
#define GAIN 1.1
/* A link that has changed so much is another one. */
#define CHANGED 2.0

unsigned xh_control_streams(const struct xh_control *c, double rtt_ns, unsigned most)
{
    double n = c->streams ? c->streams : LEAST_STREAMS + rtt_ns * STREAMS_PER_NS;
    unsigned may = most > 1 ? most - 1 : 0;
    return n < may ? (unsigned)n : may;
}

int xh_control_is_settled(const struct xh_control *c, double rtt_ns, unsigned most)
{
    return c->settled || xh_control_streams(c, rtt_ns, most) + 1 >= most;
}

void xh_control_sample(struct xh_control *c, unsigned streams, uint64_t bytes, uint64_t ns, double rtt_ns,
                       unsigned most)
{
    unsigned now = xh_control_streams(c, rtt_ns, most);
    if (streams != now || bytes < SAMPLE_BYTES || ns == 0)
        return;
    c->streams = now;
    c->bytes += (double)bytes;
    c->ns += (double)ns;
    if (2 * ++c->samples < (c->fewer ? c->fewer : now)) /* connections that were opened for this give none */
        return;
    double rate = now * c->bytes / c->ns;
    c->bytes = c->ns = 0;
    c->samples = 0;
    if (c->settled) {
        if (rate > CHANGED * c->rate || CHANGED * rate < c->rate)
            c->settled = 0, c->fewer = 0;
        return;
    }
    if (c->fewer && rate < GAIN * c->rate) {
        c->streams = c->fewer;
        c->settled = 1;
        return;
    }
    c->fewer = now;
    c->rate = rate;
    c->streams = 2 * now < most ? 2 * now : most - 1;
    c->settled = c->streams <= now;
}

uint64_t xh_control_stands_for(double opening_ns, unsigned streams, unsigned most)
{
    return streams ? (uint64_t)(opening_ns * most / 2 / streams) : UINT64_MAX;
}
