/* What was measured of a link: see link.h. */
#include "link.h"

#include <math.h>

#define FIRST_FLIGHT_BYTES 65536 /* what a new connection brings in a round trip, about, while it is young */
#define GROWN_BYTES 4e6          /* what one brings in a round trip at most, where systems are not tuned */
#define HANDSHAKE_NS 5e6         /* work of a full TLS handshake at both ends */
#define RATE_MEMORY_NS 1e9       /* older times count half as much. Before that, connections are at their beginning */

static void smooth(double *estimate, double sample, double weight)
{
    *estimate = *estimate > 0 ? *estimate + weight * (sample - *estimate) : sample;
}

/* The rate of all connections together: bytes of long replies over the time in which at
 * least one of them was coming in. Old times count half as much each second. */
static void measure_rate(struct xh_link *l, uint64_t first_ns, uint64_t last_ns, uint64_t bytes)
{
    uint64_t from = first_ns > l->counted_until_ns ? first_ns : l->counted_until_ns;
    if (bytes < XH_LINK_RATE_LEAST_BYTES)
        return;
    l->counted_bytes += (double)bytes;
    if (last_ns > from) { /* else another reply's time covers this one's */
        l->counted_until_ns = last_ns;
        l->counted_ns += (double)(last_ns - from);
        l->received_ns += (double)(last_ns - from);
    }
    if (l->counted_ns > 0)
        l->rate = l->counted_bytes / l->counted_ns;
    if (l->counted_ns > RATE_MEMORY_NS) {
        l->counted_bytes /= 2;
        l->counted_ns /= 2;
    }
}

void xh_link_sample(struct xh_link *l, uint64_t sent_ns, uint64_t first_ns, uint64_t last_ns, uint64_t bytes)
{
    if (sent_ns && first_ns > sent_ns) {
        /* Down at once, up slowly: waiting in the queues of a busy link, or for a busy machine, is no round trip. */
        double rtt = (double)(first_ns - sent_ns);
        smooth(&l->rtt_ns, rtt, rtt < l->rtt_ns ? 1 : 1.0 / 64);
    }
    if (bytes >= XH_LINK_RATE_LEAST_BYTES && last_ns > first_ns)
        smooth(&l->connection_rate, (double)bytes / (double)(last_ns - first_ns), 0.125);
    measure_rate(l, first_ns, last_ns, bytes);
}

double xh_link_known_rate(const struct xh_link *l)
{
    return l->received_ns < RATE_MEMORY_NS ? 0 : l->rate;
}

double xh_link_opening_ns(const struct xh_link *l)
{
    return 2 * l->rtt_ns + HANDSHAKE_NS;
}

int xh_link_is_young(uint64_t arrived, unsigned sockets)
{
    return (double)arrived < 2 * GROWN_BYTES * sockets; /* what doubles to GROWN_BYTES brings twice as much by then */
}

double xh_link_grown(double bytes, unsigned sockets)
{
    double each = sockets ? bytes / sockets : 0;
    return each < GROWN_BYTES ? each : GROWN_BYTES;
}

double xh_link_flight(double bytes, unsigned sockets)
{
    return XH_LINK_FIRST_BYTES + xh_link_grown(bytes, sockets);
}

double xh_link_window(const struct xh_link *l)
{
    double window = l->connection_rate * l->rtt_ns;
    return window > FIRST_FLIGHT_BYTES ? window : FIRST_FLIGHT_BYTES;
}

double xh_link_round_trips(double bytes, double window, int young)
{
    double grows = bytes < GROWN_BYTES ? bytes : GROWN_BYTES;
    if (!young || window >= GROWN_BYTES)
        return bytes / window;
    return (double)log2f((float)(1 + grows / window)) + (bytes - grows) / GROWN_BYTES;
}
