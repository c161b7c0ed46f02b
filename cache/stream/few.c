/* Whether few connections are enough. See few.h. */
#include "few.h"

#include "policy.h"
#include "watch/trace.h"

/* It is measured once so much has come, which is their first turn, or slow start should be over: without loss it has
 * the windows of an untuned system after eight round trips. */
#define FIRST_BYTES (8u << 20)
#define FIRST_TRIPS 12u
/* Over so long, and twice as long each time that they were enough: a lost packet stops one of them for a while, and
 * soon the others with it. When the link changes, they are left within two seconds. */
#define FIRST_NS 100000000u
#define LAST_NS 800000000u

void xh_few_begin(struct xh_few *w, uint64_t streamed, uint64_t now, uint64_t rtt_ns)
{
    *w = (struct xh_few){.begun_ns = now, .begun = streamed, .rtt_ns = rtt_ns, .over_ns = FIRST_NS};
}

void xh_few_stood(struct xh_few *w)
{
    w->stood = 1;
}

static void measure(struct xh_few *w, uint64_t streamed, uint64_t now)
{
    w->ns = now;
    w->at = streamed;
    w->stood = 0;
}

int xh_few_is_too_few(struct xh_few *w, uint64_t streamed, uint64_t now)
{
    if (!w->begun_ns)
        return 0;
    if (!w->ns && (streamed - w->begun >= FIRST_BYTES || now - w->begun_ns >= FIRST_TRIPS * w->rtt_ns))
        measure(w, streamed, now);
    if (!w->ns || now - w->ns < w->over_ns)
        return 0;
    double rate = (double)(streamed - w->at) / (double)(now - w->ns);
    int few = xh_policy_is_too_few(rate, !w->stood);
    xh_trace(XH_T_READ, "few", "rate=%.0f waited=%d enough=%d", rate * 1e9, !w->stood, !few);
    measure(w, streamed, now);
    w->over_ns = w->over_ns < LAST_NS ? 2 * w->over_ns : LAST_NS;
    w->begun_ns = few ? 0 : w->begun_ns;
    return few;
}
