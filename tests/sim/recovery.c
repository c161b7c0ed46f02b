/* How tcp.h repairs what is lost: by packets that come behind it, by a probe, by a time-out, each in its time.
 *
 * A server writes some packets to a connection without anything else on its link, of which the link loses some. The
 * round trip is 10 ms and the first window is one packet of ten segments, so that each flight can be followed by hand:
 * the packets leave at 0, 10 and 20 ms, one, two and four of them. Threads: as baton.h. */
#include <inttypes.h>
#include <stdio.h>

#include "baton.h"
#include "lone.h"

#define RTT (10 * SIM_MS)
#define PACKET (10 * (uint64_t)SIM_MSS)

static const struct loss {
    const char *name;
    uint64_t bytes, loses; /* bit n: of the packets that the link carries the n-th is lost */
    uint64_t ms;           /* when the last byte is there */
} losses[] = {
    {"nothing is lost", 7 * PACKET, 0, 25},
    /* Found lost at 20, when what was sent behind it is acknowledged. */
    {"one in the midst", 3 * PACKET, 1u << 1, 25},
    /* Sent again at 30, and found lost once more at 40, by a new one that left behind it. */
    {"one in the midst, twice", 7 * PACKET + SIM_MSS, 1u << 3 | 1u << 7, 45},
    /* A probe of the last segment at 22, acknowledged at 32. */
    {"the whole of a flight", PACKET, 1u << 0, 37},
    {"the last segment", 6 * SIM_MSS + 10 * SIM_MSS, 1u << 1, 47},
    /* Found lost at 40, when what was repaired at 30 is acknowledged, and not by a time-out. */
    {"one in the midst, and the last", 7 * PACKET, 1u << 3 | 1u << 6, 45},
    /* Its acknowledgement might be delayed: 200 ms and a round trip. */
    {"a single segment", SIM_MSS, 1u << 0, 215},
    /* The probe waits for 22, the time-out for 210 more and 420 after that. */
    {"a flight, its probe, and what is sent again", PACKET, 1u << 0 | 1u << 1 | 1u << 2, 657},
};

unsigned sim_losses(void)
{
    return sizeof losses / sizeof *losses;
}

const char *sim_loss_name(unsigned i)
{
    return losses[i].name;
}

void sim_loss_run(unsigned i, char *seen, size_t seen_size, char *wrong, size_t wrong_size)
{
    sim_lone_begin(&(struct sim_link){.rtt_ns = RTT, .segments = 10, .control = SIM_RENO, .receive_most = 1u << 20,
                                      .send_most = 1u << 20, .loses = losses[i].loses}, NULL);
    uint64_t begun = sim_now();
    sim_lone_ask(losses[i].bytes, 0);
    double ms = (double)(sim_now() - begun) / 1e6, off = ms - (double)losses[i].ms;
    snprintf(seen, seen_size, "ms=%.1f", ms);
    if (off < -0.5 || off > 0.5)
        snprintf(wrong, wrong_size, "it is not %" PRIu64 " ms", losses[i].ms);
}
