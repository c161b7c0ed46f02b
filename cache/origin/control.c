/* How many connections streams use: see control.h.
 *
 * More connections carry more wherever each is slow by itself: windows of an untuned system, loss, a limit for each
 * connection. They cost little where one would fill the link, unless its round trip is so short that the queue holds a
 * few packets for each: then they make each other lose packets. So the number depends on the round trip alone.
 *
 * Measured on 23 November 2026 by `containers/box sim --workload W1 --matrix` (docs/simulator.md), rate by the best
 * plain client's: worst, tenth percentile and median 0.36, 0.60, 0.84. With 15 of 16 connections from 20 ms on they
 * were 0.36, 0.65, 0.94. But while the streams of one file stand still, a second file then has one connection: read
 * over 50 ms it took 5.0 s, by this rule 2.2 s, and 1.6 s where half are left to it (0.46 and 0.79 on each fourteenth
 * link). */
#include "control.h"

#define LEAST_STREAMS 6u
#define STREAMS_PER_NS 0.5e-6

unsigned xh_control_streams(double rtt_ns, unsigned most)
{
    double n = LEAST_STREAMS + rtt_ns * STREAMS_PER_NS;
    unsigned may = most - (most + 2) / 3;
    return n < may ? (unsigned)n : may;
}
