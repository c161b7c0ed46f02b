/* How a connection of tcp.h grows with BBR: as Linux's does.
 *
 * A server writes replies to one connection, alone on its link: first small ones, as a handshake and the beginning of a
 * file are, then a large one. The figures are those of Linux 6.18 on the emulated link (perf/wan, stock windows, no
 * rate, one process at each end, 26 November 2026; at 50 ms after small ones three runs, within 4 ms of each other).
 * Threads: as baton.h. */
#include <inttypes.h>
#include <stdio.h>

#include "baton.h"
#include "lone.h"

#define LARGE_BYTES 8000000u
#define POINTS 7

static const struct growth {
    const char *name;
    uint64_t rtt_ms, small_bytes[2];
    struct {
        double ms; /* since the large one was asked for */
        uint64_t bytes;
    } linux_had[POINTS];
} growths[] = {
    {"50 ms, after 4 and 12 KB", 50, {4000, 12000},
     {{101, 35000}, {201, 180000}, {254, 390000}, {306, 820000}, {357, 1700000}, {401, 3050000}, {452, 6120000}}},
    {"10 ms, after 4 and 12 KB", 10, {4000, 12000},
     {{20, 35000}, {31, 90000}, {41, 188000}, {52, 408000}, {62, 846000}, {73, 1615000}, {83, 3178000}}},
    {"50 ms, a new one", 50, {0},
     {{151, 46000}, {198, 90000}, {252, 182000}, {305, 384000}, {357, 780000}, {409, 1597000}, {462, 3291000}}},
};

static const struct growth *now;
static uint64_t asked_ns;
static double had_ms[POINTS];

unsigned sim_growths(void)
{
    return sizeof growths / sizeof *growths;
}

const char *sim_growth_name(unsigned i)
{
    return growths[i].name;
}

static void came(uint64_t got)
{
    for (unsigned k = 0; k < POINTS; k++)
        if (had_ms[k] == 0 && got >= now->linux_had[k].bytes)
            had_ms[k] = (double)(sim_now() - asked_ns) / 1e6;
}

/* Asks for |bytes|, waits until they are there, and another round trip. */
static void ask(uint64_t bytes)
{
    int nothing;
    asked_ns = sim_now();
    for (unsigned k = 0; k < POINTS; k++)
        had_ms[k] = 0;
    sim_lone_ask(bytes, now->rtt_ms * SIM_MS / 2);
    sim_wait(&nothing, sim_now() + now->rtt_ms * SIM_MS);
}

void sim_growth_run(unsigned i, char *seen, size_t seen_size, char *wrong, size_t wrong_size)
{
    now = &growths[i];
    sim_lone_begin(&(struct sim_link){.rtt_ns = now->rtt_ms * SIM_MS, .segments = 10, .control = SIM_BBR,
                                      .receive_most = 4170000, .send_most = 3050000}, came); /* as ss showed them */
    for (unsigned k = 0; k < 2; k++)
        if (now->small_bytes[k])
            ask(now->small_bytes[k]);
    ask(LARGE_BYTES);
    size_t n = 0;
    for (unsigned k = 0; k < POINTS; k++) {
        double off = had_ms[k] - now->linux_had[k].ms, most = (double)now->rtt_ms / 5;
        n += (size_t)snprintf(seen + n, seen_size - n, "%s%.1f", k ? " " : "ms=", had_ms[k]);
        if (!wrong[0] && (off < -most || off > most))
            snprintf(wrong, wrong_size, "Linux had %" PRIu64 " bytes after %g ms", now->linux_had[k].bytes,
                     now->linux_had[k].ms);
    }
}
