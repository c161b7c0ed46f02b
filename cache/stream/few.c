/* Whether few connections are enough. See few.h. */
#include "few.h"

#include "policy.h"
#include "watch/trace.h"

/* It is measured once so much has come, which is their first turn, or slow start should be over: without loss it has
 * the windows of an untuned system after eight round trips. */
#define FIRST_BYTES (8u << 20)
#define FIRST_TRIPS 12u
/* It is measured while the reader waits: else it may be he who takes no more. Over so long, and twice as long each time
 * that they were enough: a lost packet stops one of them for a while, and soon the others with it. When the link
 * changes, they are left within two seconds. */
#define FIRST_NS 100000000u
#define LAST_NS 800000000u

void xh_few_begin(struct xh_few *w, uint64_t streamed, uint64_t now, uint64_t rtt_ns)
{
    *w = (struct xh_few){.begun_ns = now, .begun = streamed, .rtt_ns = rtt_ns, .over_ns = FIRST_NS};
}

int xh_few_is_too_few(struct xh_few *w, uint64_t streamed, uint64_t now, int waits)
{
    if (!w->begun_ns)
        return 0;
    w->ns += w->waited && waits ? now - w->seen_ns : 0;
    w->bytes += w->waited && waits ? streamed - w->seen : 0;
    w->waited = waits && (streamed - w->begun >= FIRST_BYTES || now - w->begun_ns >= FIRST_TRIPS * w->rtt_ns);
    w->seen_ns = now;
    w->seen = streamed;
    if (w->ns < w->over_ns)
        return 0;
    double rate = (double)w->bytes / (double)w->ns;
    int few = xh_policy_is_too_few(rate);
    xh_trace(XH_T_READ, "few", "rate=%.0f enough=%d", rate * 1e9, !few);
    w->ns = w->bytes = 0;
    w->over_ns = w->over_ns < LAST_NS ? 2 * w->over_ns : LAST_NS;
    w->begun_ns = few ? 0 : w->begun_ns;
    return few;
}
