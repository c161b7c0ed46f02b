/* The choice: see choice.h. */
#include "choice.h"

/* A site is full when it owes what it brings in this time: 400 ms and four round trips, which keep it busy whatever
 * its connections wait for, and at least 4 MiB. */
#define AHEAD_NS 400e6
#define AHEAD_ROUND_TRIPS 4
#define AHEAD_LEAST_BYTES (4u << 20)
#define AHEAD_UNKNOWN_BYTES 8e6 /* limit while the site's speed is unknown */
/* The rate before anything is measured, in bytes per ns: 1 Gbit/s. */
#define RATE_AT_FIRST 0.125

double xh_choice_rate(const struct xh_choice *c, size_t n, size_t i)
{
    double sum = 0;
    unsigned known = 0;
    if (c[i].rate > 0)
        return c[i].rate;
    for (size_t k = 0; k < n; k++)
        if (c[k].usable && c[k].rate > 0) {
            sum += c[k].rate;
            known++;
        }
    return known ? sum / known : RATE_AT_FIRST;
}

double xh_choice_finish_ns(const struct xh_choice *c, size_t n, size_t i, uint64_t bytes)
{
    return (double)c[i].rtt_ns + ((double)c[i].owed + (double)bytes) / xh_choice_rate(c, n, i);
}

/* Returns 1 when the site has enough to do for now. */
static int is_full(const struct xh_choice *c)
{
    double most = c->rate > 0 ? c->rate * (AHEAD_NS + AHEAD_ROUND_TRIPS * (double)c->rtt_ns) : AHEAD_UNKNOWN_BYTES;
    return (double)c->owed >= (most > AHEAD_LEAST_BYTES ? most : AHEAD_LEAST_BYTES);
}

int xh_choose(const struct xh_choice *c, size_t n, uint64_t bytes, int may_wait)
{
    int best = XH_CHOICE_NONE;
    double least = 0;
    for (size_t i = 0; i < n; i++) {
        double at = c[i].usable ? xh_choice_finish_ns(c, n, i, bytes) : 0;
        if (c[i].usable && (best < 0 || at < least)) {
            best = (int)i;
            least = at;
        }
    }
    return best >= 0 && may_wait && is_full(&c[best]) ? XH_CHOICE_WAIT : best;
}
